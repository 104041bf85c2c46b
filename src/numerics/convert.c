/* Storage types, in integer arithmetic alone: no rounding mode, no flushed subnormal and no compiler option changes a bit. The loops have
 * no branches, so compilers vectorise them. */
#include "attune/numerics.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x / 2^shift to nearest, ties to even; 1 <= shift <= 31, and x + 2^shift must fit. */
static uint32_t shift_to_nearest(uint32_t x, uint32_t shift)
{
    const uint32_t odd = (x >> shift) & 1u;
    return (x + (1u << (shift - 1u)) - 1u + odd) >> shift;
}

static uint16_t f16_from_f32(float x)
{
    enum { LEAST_NORMAL = 113, OVERFLOWS = 143 }; /* exponent fields of 2^-14 and 2^16 in f32 */
    const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const uint32_t exponent = magnitude >> 23;

    /* A carry out of the significand goes into the exponent, up to infinity: all as it should be. */
    const uint32_t normal = shift_to_nearest(magnitude, 13) - ((uint32_t)(LEAST_NORMAL - 1) << 10);
    /* Subnormal f16 count units of 2^-24; f32 subnormals are far below half a unit. */
    const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t below = exponent < LEAST_NORMAL ? LEAST_NORMAL - exponent : 0;
    const uint32_t subnormal = below > 11 ? 0 : shift_to_nearest(significand, 13 + below);

    uint32_t result = exponent < LEAST_NORMAL ? subnormal : normal;
    result = exponent >= OVERFLOWS ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : result;
    return (uint16_t)(sign | result);
}

static float f32_from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    const uint32_t rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23;
    const uint32_t normal = (magnitude << 13) + rebias;
    const uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    return float_of(sign | (magnitude < 0x400u ? subnormal : normal));
}

static uint16_t bf16_from_f32(float x)
{
    const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const uint32_t number = shift_to_nearest(magnitude, 16), quiet_nan = (magnitude >> 16) | 0x40u;
    return (uint16_t)(sign | (magnitude > 0x7f800000u ? quiet_nan : number));
}

static float f32_from_bf16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

void attune_convert_from_f32(attune_dtype dtype, const float *from, void *to, size_t count)
{
    uint16_t *const halves = to;
    switch (dtype) {
    case ATTUNE_F32:
        if (count > 0) memcpy(to, from, count * sizeof *from);
        break;
    case ATTUNE_F16:
        for (size_t i = 0; i < count; i++) halves[i] = f16_from_f32(from[i]);
        break;
    case ATTUNE_BF16:
        for (size_t i = 0; i < count; i++) halves[i] = bf16_from_f32(from[i]);
        break;
    }
}

void attune_convert_to_f32(attune_dtype dtype, const void *from, float *to, size_t count)
{
    const uint16_t *const halves = from;
    switch (dtype) {
    case ATTUNE_F32:
        if (count > 0) memcpy(to, from, count * sizeof *to);
        break;
    case ATTUNE_F16:
        for (size_t i = 0; i < count; i++) to[i] = f32_from_f16(halves[i]);
        break;
    case ATTUNE_BF16:
        for (size_t i = 0; i < count; i++) to[i] = f32_from_bf16(halves[i]);
        break;
    }
}
