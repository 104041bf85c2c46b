/* What a storage type can hold: p bits of significand, exponents from min_exponent (of the least normal number) to max_exponent. */
#ifndef ATTUNE_NUMERICS_FORMAT_H
#define ATTUNE_NUMERICS_FORMAT_H

#include "attune/numerics.h"

typedef struct float_format {
    int precision;
    int min_exponent, max_exponent;
} float_format;

float_format format_of(attune_dtype dtype);

/* Relative error of a number rounded to nearest: 2^-precision. */
double format_roundoff(attune_dtype dtype);

/* The least normal number; what is below and not 0 is subnormal. */
double format_least_normal(attune_dtype dtype);

/* Distance of the type's neighbouring numbers around x; beyond the largest, as just below it. */
double format_ulp(attune_dtype dtype, double x);

/* The least magnitude that rounds to infinity: the largest number and half a unit more. */
double format_overflow(attune_dtype dtype);

#endif
