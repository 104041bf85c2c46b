#include "matrix_unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- numbers ---- */

static float number(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* IEEE binary16, exactly. */
static float number_of_half(uint32_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ffu;
    if (exponent == 31) return number(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0) return number(sign | (exponent + 112) << 23 | fraction << 13);
    return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
}

float matrix_unit_element(unit_type type, uint32_t word, int half)
{
    const uint32_t bits = word >> 16 * half & 0xffffu;
    return type == UNIT_F16    ? number_of_half(bits)
           : type == UNIT_BF16 ? number(bits << 16)
                               : number(word & 0xffffe000u); /* the unit ignores the last 13 bits */
}

/* That of the least normal number; tf32 has bf16's. */
static int least_exponent(unit_type type)
{
    return type == UNIT_F16 ? -14 : -126;
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

/* ---- one rounding ---- */

static float exact_sum(const float *a, const float *b, int k, float c)
{
    double sum = (double)c;
    for (int i = 0; i < k; i++) sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

static float exact_step(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                        int k, float c)
{
    (void)unit, (void)type;
    return exact_sum(a, b, k, c);
}

const matrix_unit matrix_unit_exact = {.step = exact_step};

/* ---- fused steps ---- */

enum { NONE = -4096 }; /* an exponent below all others */

/* The largest exponent of a product; NONE where all are 0. */
static int top_of_products(unit_type type, const float *a, const float *b, int k)
{
    const int least = least_exponent(type);
    int top = NONE;
    for (int i = 0; i < k; i++) {
        if (a[i] == 0.0f || b[i] == 0.0f) continue;
        const int exponent = exponent_of(a[i], least) + exponent_of(b[i], least);
        top = exponent > top ? exponent : top;
    }
    return top;
}

static int top_of_sum(float c)
{
    return c == 0.0f ? NONE : exponent_of(c, -126);
}

static bool all_finite(const float *a, const float *b, int k, float c)
{
    bool finite = is_finite(c);
    for (int i = 0; i < k; i++) finite = finite && is_finite(a[i]) && is_finite(b[i]);
    return finite;
}

/* Σ a[i] b[i] in units of 1/scale, each product cut to them. */
static int64_t cut_sum(const float *a, const float *b, int k, double scale)
{
    int64_t sum = 0;
    for (int i = 0; i < k; i++) sum += (int64_t)((double)a[i] * (double)b[i] * scale);
    return sum;
}

static float nvidia_step(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                         int k, float c)
{
    const int products = top_of_products(type, a, b, k), of_c = top_of_sum(c);
    const int top = products > of_c ? products : of_c;
    if (top == NONE || !all_finite(a, b, k, c)) return exact_sum(a, b, k, c);
    const double scale = power(unit->bits - top);
    const int64_t sum = (int64_t)((double)c * scale) + cut_sum(a, b, k, scale);
    return cut_to_float((double)sum * power(top - unit->bits));
}

const matrix_unit matrix_unit_ampere = {
    .step = nvidia_step,
    .products = {[UNIT_F16] = 8, [UNIT_BF16] = 8, [UNIT_TF32] = 4},
    .bits = 24};
const matrix_unit matrix_unit_hopper = {
    .step = nvidia_step,
    .products = {[UNIT_F16] = 16, [UNIT_BF16] = 16, [UNIT_TF32] = 8},
    .bits = 25};

/* Products beyond the largest float are infinite before anything is added. */
static float sum_beyond(const float *a, const float *b, int k, float c)
{
    double sum = (double)c;
    for (int i = 0; i < k; i++) {
        const double product = (double)a[i] * (double)b[i];
        sum += fabs(product) >= 0x1p128 ? copysign(INFINITY, product) : product;
    }
    return (float)sum;
}

static float cdna3_step(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                        int k, float c)
{
    enum { MORE_BITS = 7 }; /* that the sum of the products keeps when it meets c */
    const int products = top_of_products(type, a, b, k), of_c = top_of_sum(c);
    const int top = products > of_c ? products : of_c;
    if (products == NONE || !all_finite(a, b, k, c)) return exact_sum(a, b, k, c);
    for (int i = 0; i < k; i++)
        if (fabs((double)a[i] * (double)b[i]) >= 0x1p128) return sum_beyond(a, b, k, c);
    const double sum = (double)cut_sum(a, b, k, power(unit->bits - products));
    const int unit_of_sum = top - unit->bits - MORE_BITS;
    const double down = floor(sum * power(products - unit->bits - unit_of_sum));
    const double c_down = floor((double)c * power(unit->bits - top)) * (1 << MORE_BITS);
    return (float)((down + c_down) * power(unit_of_sum));
}

const matrix_unit matrix_unit_cdna3 = {
    .step = cdna3_step, .products = {[UNIT_F16] = 8, [UNIT_BF16] = 8}, .bits = 24};

/* ---- single precision without subnormals ---- */

static float add(float x, float y)
{
    const float sum = x + y;
    return fabsf(sum) < 0x1p-126f ? copysignf(0.0f, sum) : sum;
}

static float operand(float x, float least)
{
    return fabsf(x) < least ? 0.0f : x;
}

static float cdna2_step(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                        int k, float c)
{
    (void)unit, (void)k;
    const float least = (float)power(least_exponent(type));
    float product[4]; /* exact, unless it is subnormal */
    for (int i = 0; i < 4; i++) product[i] = add(operand(a[i], least) * operand(b[i], least), 0.0f);
    const float sum = add(add(product[0], product[1]), add(product[2], product[3]));
    return add(operand(c, 0x1p-126f), sum);
}

const matrix_unit matrix_unit_cdna2 = {.step = cdna2_step,
                                       .products = {[UNIT_F16] = 4, [UNIT_BF16] = 4}};

/* ---- an instruction ---- */

float matrix_unit_sum(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                      int k, float c)
{
    const int step = unit->products[type] != 0 ? unit->products[type] : k;
    for (int i = 0; i < k; i += step) c = unit->step(unit, type, a + i, b + i, step, c);
    return c;
}
