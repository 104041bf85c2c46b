/* Conversions between fp32 and the storage types, in integer arithmetic. IEEE 754-2019, 4.3.1 (ties to even) and 3.4 (encodings). */
#include <string.h>

#include "attune/numerics.h"

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

static uint16_t f16_of(float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more */
    /* a unit of f16 in units of the fp32 significand: 2^13, and 2^-24 below the smallest normal */
    const int exponent = (int)(magnitude >> 23), shift = exponent < 113 ? 126 - exponent : 13;
    if (shift > 24) return (uint16_t)sign;
    const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    const uint32_t whole = exponent < 113 ? significand : magnitude - (112u << 23);
    const uint32_t half = UINT32_C(1) << (shift - 1), odd = whole >> shift & 1;
    return (uint16_t)(sign | (whole + half - 1 + odd) >> shift);
}

static float f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31,
                   fraction = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

static uint16_t bf16_of(float x)
{
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void attune_convert_from_f32(attune_dtype dtype, const float *from, void *to, size_t count)
{
    uint16_t *const half = to;
    switch (dtype) {
    case ATTUNE_F32:
        memcpy(to, from, count * sizeof *from);
        break;
    case ATTUNE_F16:
        for (size_t i = 0; i < count; i++) half[i] = f16_of(from[i]);
        break;
    case ATTUNE_BF16:
        for (size_t i = 0; i < count; i++) half[i] = bf16_of(from[i]);
        break;
    }
}

void attune_convert_to_f32(attune_dtype dtype, const void *from, float *to, size_t count)
{
    const uint16_t *const half = from;
    switch (dtype) {
    case ATTUNE_F32:
        memcpy(to, from, count * sizeof *to);
        break;
    case ATTUNE_F16:
        for (size_t i = 0; i < count; i++) to[i] = f32_of_f16(half[i]);
        break;
    case ATTUNE_BF16:
        for (size_t i = 0; i < count; i++) to[i] = float_of((uint32_t)half[i] << 16);
        break;
    }
}
