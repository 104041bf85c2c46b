#include "matrix_unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

const matrix_unit matrix_unit_exact = {.bits = 0};
const matrix_unit matrix_unit_ampere = {.bits = 24,
                                        .step = {[UNIT_F16] = 8, [UNIT_BF16] = 8, [UNIT_TF32] = 4}};
const matrix_unit matrix_unit_hopper = {
    .bits = 25, .step = {[UNIT_F16] = 16, [UNIT_BF16] = 16, [UNIT_TF32] = 8}};

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The exponent under which a type holds x, which is not 0: no smaller than its least. */
static int exponent_of(float x, int least)
{
    const int exponent = (int)(bits_of(x) >> 23 & 255) - 127;
    return exponent > least ? exponent : least;
}

static bool is_finite(float x)
{
    return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

/* 2^n as a double, for any n that products of floats can need. */
static double power(int n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Toward zero; beyond the largest float, infinity. */
static float cut_to_float(double x)
{
    const float nearest = (float)x;
    if (isinf(nearest)) return fabs(x) < 0x1p128 ? copysignf(0x1.fffffep127f, nearest) : nearest;
    return fabs((double)nearest) > fabs(x) ? nextafterf(nearest, 0.0f) : nearest;
}

static double exact_sum(const float *a, const float *b, int k, float c)
{
    double sum = (double)c;
    for (int i = 0; i < k; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static float fused_step(int bits, int least, const float *a, const float *b, int k, float c)
{
    bool finite = is_finite(c), any = c != 0.0f;
    int top = any ? exponent_of(c, -126) : 0;
    for (int i = 0; i < k; i++) {
        finite = finite && is_finite(a[i]) && is_finite(b[i]);
        if (a[i] == 0.0f || b[i] == 0.0f) continue;
        const int exponent = exponent_of(a[i], least) + exponent_of(b[i], least);
        top = !any || exponent > top ? exponent : top;
        any = true;
    }
    if (!finite || !any) return (float)exact_sum(a, b, k, c);

    const double scale = power(bits - top);
    int64_t sum = (int64_t)((double)c * scale);
    for (int i = 0; i < k; i++) sum += (int64_t)((double)a[i] * (double)b[i] * scale);
    return cut_to_float((double)sum * power(top - bits));
}

float matrix_unit_sum(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                      int k, float c)
{
    if (unit->bits == 0) return (float)exact_sum(a, b, k, c);
    const int least = type == UNIT_F16 ? -14 : -126, step = unit->step[type];
    for (int i = 0; i < k; i += step) c = fused_step(unit->bits, least, a + i, b + i, step, c);
    return c;
}
