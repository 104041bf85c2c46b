#include "format.h"

#include <math.h>

float_format format_of(attune_dtype dtype)
{
    switch (dtype) {
    case ATTUNE_F16:
        return (float_format){.precision = 11, .min_exponent = -14, .max_exponent = 15};
    case ATTUNE_BF16:
        return (float_format){.precision = 8, .min_exponent = -126, .max_exponent = 127};
    case ATTUNE_F32:
        break;
    }
    return (float_format){.precision = 24, .min_exponent = -126, .max_exponent = 127};
}

double format_roundoff(attune_dtype dtype)
{
    return ldexp(1.0, -format_of(dtype).precision);
}

double format_least_normal(attune_dtype dtype)
{
    return ldexp(1.0, format_of(dtype).min_exponent);
}

double format_ulp(attune_dtype dtype, double x)
{
    const float_format format = format_of(dtype);
    int exponent = format.min_exponent;
    if (fabs(x) >= ldexp(1.0, format.max_exponent))
        exponent = format.max_exponent;
    else if (fabs(x) >= ldexp(1.0, format.min_exponent))
        exponent = ilogb(x);
    return ldexp(1.0, exponent + 1 - format.precision);
}

double format_overflow(attune_dtype dtype)
{
    const float_format format = format_of(dtype);
    return ldexp(2.0 - format_roundoff(dtype), format.max_exponent);
}
