/* The bound of attune/numerics.h, term by term. */
#include "format.h"

#include <math.h>

static const double fp32_roundoff = 0x1p-24;
static const double fp32_least_normal = 0x1p-126;
static const double operands_of_score = 2.0; /* q and k, each rounded as it is read */
static const double score_roundings = 3.0;   /* scale, product and difference with the max */
/* Kernels may compare with a max that is up to one octave above the row's: twice 2^-125 and twice 2^-150. */
static const double fp32_least_p = 0x1p-124;
static const double fp32_product_underflow = 0x1p-149;

static double relative_errors(const attune_arithmetic *a, const attune_error_terms *terms)
{
    return (a->n_s * a->u_acc + operands_of_score * a->u_in) * terms->score +
           score_roundings * fp32_roundoff * terms->magnitude + a->eps_exp * terms->spread;
}

double attune_bound_o(const attune_arithmetic *a, const attune_error_terms *terms, double o,
                      attune_dtype dtype)
{
    const double tiny = 0.5 * format_ulp(dtype, 0.0);
    return (a->u_out + 2.0 * fp32_roundoff) * fabs(o) + relative_errors(a, terms) +
           a->flushes * terms->flushed + (a->u_p + a->u_in + a->n_pv * a->u_acc) * terms->values +
           a->n_pv * fp32_roundoff * fabs(o) + (a->eta_p + fp32_least_p) * terms->underflow +
           a->n_pv * fp32_product_underflow * terms->peak + a->u_in * fp32_least_normal + tiny;
}

double attune_bound_lse(const attune_arithmetic *a, const attune_error_terms *terms, double lse,
                        int64_t visible)
{
    return relative_errors(a, terms) + a->flushes * terms->flushed +
           (double)visible * fp32_roundoff + fp32_roundoff * fabs(lse);
}
