/* The bound, and verdicts by it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "host_tensor.h"

static const double MARGINAL_RATIO = 0.8;

typedef struct float_format {
    double unit;          /* of a number in [1, 2): 2^-23 */
    double smallest;      /* subnormal */
    double largest;       /* finite */
    double overflow;      /* from here on a number rounds to infinity */
    int minimum_exponent; /* of a normal number, 2^e */
} float_format;

static const float_format formats[] = {
    [ATTUNE_F32] = {0x1p-23, 0x1p-149, FLT_MAX, 0x1.ffffffp127, -126},
    [ATTUNE_F16] = {0x1p-10, 0x1p-24, 65504, 65520, -14},
    [ATTUNE_BF16] = {0x1p-7, 0x1p-133, 0x1.fep127, 0x1.ffp127, -126},
};

double attune_bound_o(const attune_arithmetic *a, const attune_error_terms *t, double o,
                      attune_dtype dtype)
{
    const double relative = a->u_out + 0x1p-23 + a->n_pv * 0x1p-24;
    const double underflow = formats[dtype].smallest / 2 + a->n_pv * 0x1p-149;
    return relative * fabs(o) + a->n_s * a->u_acc * t->score + 3 * 0x1p-24 * t->magnitude +
           a->eps_exp * t->spread + (a->u_p + a->n_pv * a->u_acc) * t->values +
           (a->eta_p + 0x1p-125) * t->underflow + underflow;
}

double attune_bound_lse(const attune_arithmetic *a, const attune_error_terms *t, double lse,
                        int64_t visible)
{
    return a->n_s * a->u_acc * t->score + 3 * 0x1p-24 * t->magnitude + a->eps_exp * t->spread +
           (double)visible * 0x1p-24 + 0x1p-24 * fabs(lse);
}

const char *attune_verdict_name(attune_verdict verdict)
{
    switch (verdict) {
#define NAME(name, meaning)                                                                        \
    case ATTUNE_VERDICT_##name:                                                                    \
        return #name;
        ATTUNE_VERDICTS(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

/* What two numbers that should agree to within `bound` differ by: the error, or infinity where one of them is a NaN or an infinity that the
 * other is not. */
static double difference(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : INFINITY;
    if (isinf(a) || isinf(b)) return a == b ? 0 : INFINITY;
    return fabs(a - b);
}

/* The exact value as the output's type can hold it: beyond the largest number that the bound lets through, infinity. */
static double representable(double exact, double bound, double got, const float_format *format)
{
    if (isnan(exact) || fabs(exact) + bound < format->overflow) return exact;
    const int may_be_finite = fabs(exact) - bound < format->overflow;
    if (may_be_finite && !isinf(got)) return exact;
    return copysign(INFINITY, exact);
}

static double unit_in_last_place(double exact, const float_format *format)
{
    if (exact == 0) return format->smallest;
    const int exponent = ilogb(exact);
    return ldexp(format->unit,
                 exponent < format->minimum_exponent ? format->minimum_exponent : exponent);
}

/* Running figures over elements. */
typedef struct tally {
    double error_sum, error_squares, exact_sum, exact_squares;
    int64_t finite;
} tally;

static void count_element(attune_metrics *metrics, tally *sums, double error, double magnitude,
                          double bound, double exact, const float_format *format,
                          const int64_t at[ATTUNE_RANK])
{
    const double ratio = magnitude == 0 ? 0 : magnitude / bound;
    metrics->elements++;
    if (ratio > metrics->bound_ratio) {
        metrics->bound_ratio = ratio;
        memcpy(metrics->worst, at, sizeof metrics->worst);
    }
    if (!isfinite(exact) || !isfinite(error)) return;
    sums->finite++;
    sums->error_sum += error;
    sums->error_squares += error * error;
    sums->exact_sum += exact;
    sums->exact_squares += exact * exact;
    metrics->max_abs = fmax(metrics->max_abs, magnitude);
    metrics->max_ulp = fmax(metrics->max_ulp, magnitude / unit_in_last_place(exact, format));
}

static void finish(attune_metrics *metrics, const tally *sums)
{
    const double n = sums->finite > 0 ? (double)sums->finite : 1;
    const double rms = sqrt(sums->error_squares / n), rms_exact = sqrt(sums->exact_squares / n);
    metrics->rms_rel = rms == 0 ? 0 : rms / rms_exact;
    metrics->bias = rms == 0 ? 0 : sums->error_sum / n / rms;
    const double worst = fmax(metrics->bound_ratio, metrics->lse_bound_ratio);
    metrics->verdict = worst > 1                ? ATTUNE_VERDICT_FAIL
                       : worst > MARGINAL_RATIO ? ATTUNE_VERDICT_MARGINAL
                                                : ATTUNE_VERDICT_PASS;
}

/* Whether one constant, the mean of the exact output, would pass for it. */
static int is_uniform(const attune_reference *reference, const attune_arithmetic *arithmetic,
                      const tally *sums)
{
    const attune_problem *const problem = &reference->problem;
    const int64_t elements = host_rows(problem) * problem->head_dim_v;
    const double mean = sums->exact_sum / (sums->finite > 0 ? (double)sums->finite : 1);
    for (int64_t i = 0; i < elements; i++) {
        const double exact = reference->o[i];
        const double bound =
            attune_bound_o(arithmetic, reference->o_terms + i, exact, problem->dtype);
        if (!(difference(mean, exact) <= bound)) return 0;
    }
    return 1;
}

/* One side of a comparison. */
typedef struct judged {
    const attune_arithmetic *arithmetic;
    const void *o;
    const float *lse;
} judged;

static double read_element(const judged *side, const attune_problem *problem, int64_t place)
{
    float x;
    host_row(problem->dtype, side->o, place, 1, &x);
    return x;
}

/* Two stored numbers are the same when their bits are, or when both are NaN. */
static int bits_differ(double a, double b)
{
    if (isnan(a) && isnan(b)) return 0;
    return a != b || signbit(a) != signbit(b);
}

/* `b` NULL: against the exact answer. */
static attune_status judge(const attune_reference *reference, const judged *a, const judged *b,
                           attune_metrics *metrics, const char *caller)
{
    if (!reference || !metrics || !a->arithmetic || (b && !b->arithmetic))
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: an argument is NULL", caller);
    const attune_problem *const problem = &reference->problem;
    const int64_t rows = host_rows(problem), dims = problem->head_dim_v;
    if (rows > 0 && (!a->o || (b && !b->o)))
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: o is NULL", caller);

    const float_format *const format = &formats[problem->dtype];
    *metrics = (attune_metrics){0};
    tally sums = {0};
    for (int64_t i = 0; i < rows; i++) {
        int64_t at[ATTUNE_RANK];
        host_row_at(problem, i, &at[ATTUNE_BATCH], &at[ATTUNE_SEQ], &at[ATTUNE_HEAD]);
        const int64_t place =
            host_place(problem->o_strides, at[ATTUNE_BATCH], at[ATTUNE_SEQ], at[ATTUNE_HEAD]);
        for (int64_t d = 0; d < dims; d++) {
            const attune_error_terms *const terms = reference->o_terms + i * dims + d;
            const double exact = reference->o[i * dims + d];
            const double got = read_element(a, problem, place + d);
            double bound = attune_bound_o(a->arithmetic, terms, exact, problem->dtype);
            double expected = representable(exact, bound, got, format);
            if (b) {
                bound += attune_bound_o(b->arithmetic, terms, exact, problem->dtype);
                expected = read_element(b, problem, place + d);
                metrics->differ += bits_differ(got, expected);
            }
            at[ATTUNE_DIM] = d;
            count_element(metrics, &sums, got - expected, difference(got, expected), bound, exact,
                          format, at);
        }
    }
    for (int64_t i = 0; a->lse && (!b || b->lse) && i < rows; i++) {
        const attune_error_terms *const terms = reference->lse_terms + i;
        const double exact = reference->lse[i], got = a->lse[i];
        double bound = attune_bound_lse(a->arithmetic, terms, exact, reference->visible[i]);
        double expected = exact;
        if (b) {
            bound += attune_bound_lse(b->arithmetic, terms, exact, reference->visible[i]);
            expected = b->lse[i];
            metrics->differ += bits_differ(got, expected);
        }
        const double error = difference(got, expected);
        metrics->lse_max_abs = fmax(metrics->lse_max_abs, error);
        if (error > 0) metrics->lse_bound_ratio = fmax(metrics->lse_bound_ratio, error / bound);
    }
    finish(metrics, &sums);
    if (metrics->verdict != ATTUNE_VERDICT_FAIL && is_uniform(reference, a->arithmetic, &sums))
        metrics->verdict = ATTUNE_VERDICT_MISTRUSTED;
    return ATTUNE_OK;
}

attune_status attune_judge(const attune_reference *reference, const attune_arithmetic *arithmetic,
                           const void *o, const float *lse, attune_metrics *metrics)
{
    return judge(reference, &(judged){arithmetic, o, lse}, NULL, metrics, "attune_judge");
}

attune_status attune_judge_pair(const attune_reference *reference,
                                const attune_arithmetic *arithmetic_a, const void *o_a,
                                const float *lse_a, const attune_arithmetic *arithmetic_b,
                                const void *o_b, const float *lse_b, attune_metrics *metrics)
{
    return judge(reference, &(judged){arithmetic_a, o_a, lse_a},
                 &(judged){arithmetic_b, o_b, lse_b}, metrics, "attune_judge_pair");
}
