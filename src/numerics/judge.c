/* Verdicts by the bound. */
#include "format.h"
#include "host_tensor.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double marginal_ratio = 0.8;

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

/* ---- one element ---- */

typedef struct deviation {
    bool counts;  /* the error is a number: it enters the mean figures */
    double error; /* a - b, or a - exact */
    double ratio; /* what the bound makes of it: up to 1 is accepted */
} deviation;

/* An infinity stands for the least number that rounds to it, or for an exact value beyond. */
static double as_number(double x, double exact, double overflow)
{
    return isinf(x) ? copysign(fmax(overflow, fabs(exact)), x) : x;
}

/* An infinite exact value comes from an infinite v, whose weight may underflow: 0 · inf is NaN. */
static bool is_acceptable_special(double exact, double x)
{
    return isnan(x) || (isinf(exact) && x == exact);
}

/* `storage` is what storing the outputs alone may cost; it is left out of both the error and the bound, since a correct rounding to a
 * 16-bit type uses up nearly all of it. Where nothing else is allowed, nothing else may be used. */
static double ratio_beyond_storage(double error, double bound, double storage)
{
    const double beyond = fabs(error) - storage;
    if (beyond <= 0.0 || bound == INFINITY) return 0.0;
    return bound > storage ? beyond / (bound - storage) : INFINITY;
}

/* `b` is the exact value itself where one output is judged alone. */
static deviation deviate(double exact, double a, double b, bool alone, double bound, double storage,
                         double overflow)
{
    const deviation right = {.ratio = 0.0}, wrong = {.ratio = INFINITY};
    if (!isfinite(exact)) {
        const bool good =
            is_acceptable_special(exact, a) && (alone || is_acceptable_special(exact, b));
        return good ? right : wrong;
    }
    if (isnan(a) || isnan(b)) return bound == INFINITY ? right : wrong;
    const double error = as_number(a, exact, overflow) - as_number(b, exact, overflow);
    return (deviation){
        .counts = true, .error = error, .ratio = ratio_beyond_storage(error, bound, storage)};
}

/* Bits, read back from the exact widening: the same but for the payloads of NaN. */
static bool bits_differ(float a, float b)
{
    if (isnan(a) && isnan(b)) return false;
    return memcmp(&a, &b, sizeof a) != 0;
}

/* ---- all elements ---- */

typedef struct output {
    const attune_arithmetic *arithmetic;
    const void *o;
    const float *lse;
} output;

typedef struct comparison {
    const attune_reference *reference;
    output a, b;  /* b.o is NULL where a is judged alone */
    double mean;  /* of the exact values that are numbers */
    bool uniform; /* the mean would have been accepted everywhere so far */
    double errors, squared_errors, squared_exact, counted;
    attune_metrics *metrics;
} comparison;

static double bound_o(const comparison *c, int64_t index)
{
    const attune_error_terms *const terms = &c->reference->o_terms[index];
    const double exact = c->reference->o[index];
    const attune_dtype dtype = c->reference->problem.dtype;
    return attune_bound_o(c->a.arithmetic, terms, exact, dtype) +
           (c->b.o != NULL ? attune_bound_o(c->b.arithmetic, terms, exact, dtype) : 0.0);
}

static double bound_lse(const comparison *c, int64_t index)
{
    const attune_reference *const r = c->reference;
    const attune_error_terms *const terms = &r->lse_terms[index];
    return attune_bound_lse(c->a.arithmetic, terms, r->lse[index], r->visible[index]) +
           (c->b.o != NULL
                ? attune_bound_lse(c->b.arithmetic, terms, r->lse[index], r->visible[index])
                : 0.0);
}

static void judge_element(comparison *c, int64_t index, float a, float b,
                          const int64_t at[ATTUNE_RANK])
{
    const bool alone = c->b.o == NULL;
    const attune_dtype dtype = c->reference->problem.dtype;
    const double exact = c->reference->o[index], bound = bound_o(c, index);
    const double ulp = format_ulp(dtype, exact), storage = alone ? 0.5 * ulp : ulp;
    const double overflow = format_overflow(dtype);
    const deviation d = deviate(exact, a, alone ? exact : b, alone, bound, storage, overflow);
    const deviation of_mean = deviate(exact, c->mean, exact, true, bound, storage, overflow);

    attune_metrics *const m = c->metrics;
    m->elements++;
    if (!alone) m->differ += bits_differ(a, b);
    c->uniform &= of_mean.ratio <= 1.0;
    if (d.ratio > m->bound_ratio) {
        m->bound_ratio = d.ratio;
        memcpy(m->worst, at, sizeof m->worst);
    }
    if (!d.counts) return;
    m->max_abs = fmax(m->max_abs, fabs(d.error));
    m->max_ulp = fmax(m->max_ulp, fabs(d.error) / ulp);
    c->errors += d.error;
    c->squared_errors += d.error * d.error;
    c->squared_exact += exact * exact;
    c->counted++;
}

static void judge_outputs(comparison *c)
{
    const attune_problem *const p = &c->reference->problem;
    float a[MAX_HEAD_DIM], b[MAX_HEAD_DIM] = {0.0f};
    for (int64_t row = 0; row < host_rows(p); row++) {
        int64_t at[ATTUNE_RANK];
        host_row_at(p, row, &at[ATTUNE_BATCH], &at[ATTUNE_SEQ], &at[ATTUNE_HEAD]);
        const int64_t place =
            host_place(p->o_strides, at[ATTUNE_BATCH], at[ATTUNE_SEQ], at[ATTUNE_HEAD]);
        host_row(p->dtype, c->a.o, place, p->head_dim_v, a);
        if (c->b.o != NULL) host_row(p->dtype, c->b.o, place, p->head_dim_v, b);
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            at[ATTUNE_DIM] = d;
            judge_element(c, row * p->head_dim_v + d, a[d], b[d], at);
        }
    }
}

static void judge_lse(comparison *c)
{
    const bool alone = c->b.o == NULL;
    attune_metrics *const m = c->metrics;
    for (int64_t i = 0; i < host_rows(&c->reference->problem); i++) {
        const double exact = c->reference->lse[i];
        const float a = c->a.lse[i], b = alone ? 0.0f : c->b.lse[i];
        deviation d = {.ratio = a == exact && (alone || b == exact) ? 0.0 : INFINITY};
        if (exact != -INFINITY)
            d = deviate(exact, a, alone ? exact : b, alone, bound_lse(c, i), 0.0,
                        format_overflow(ATTUNE_F32));
        if (!alone) m->differ += bits_differ(a, b);
        m->lse_bound_ratio = fmax(m->lse_bound_ratio, d.ratio);
        m->lse_max_abs = fmax(m->lse_max_abs, fabs(d.error));
    }
}

static double mean_of_exact(const attune_reference *reference)
{
    const int64_t elements = host_rows(&reference->problem) * reference->problem.head_dim_v;
    double sum = 0.0, count = 0.0;
    for (int64_t i = 0; i < elements; i++) {
        if (!isfinite(reference->o[i])) continue;
        sum += reference->o[i];
        count++;
    }
    return count > 0.0 ? sum / count : 0.0;
}

static attune_verdict verdict_of(const comparison *c)
{
    const double ratio = fmax(c->metrics->bound_ratio, c->metrics->lse_bound_ratio);
    if (ratio > 1.0) return ATTUNE_VERDICT_FAIL;
    if (c->uniform) return ATTUNE_VERDICT_MISTRUSTED;
    return ratio > marginal_ratio ? ATTUNE_VERDICT_MARGINAL : ATTUNE_VERDICT_PASS;
}

static void judge(comparison *c)
{
    attune_metrics *const m = c->metrics;
    *m = (attune_metrics){.verdict = ATTUNE_VERDICT_PASS};
    c->mean = mean_of_exact(c->reference);
    c->uniform = true;
    judge_outputs(c);
    if (c->a.lse != NULL && (c->b.o == NULL || c->b.lse != NULL)) judge_lse(c);
    if (c->squared_errors > 0.0) {
        m->rms_rel = sqrt(c->squared_errors / c->squared_exact);
        m->bias = c->errors / sqrt(c->squared_errors * c->counted);
    }
    m->verdict = verdict_of(c);
}

/* ---- public ---- */

static attune_status check_output(const char *function, const attune_reference *reference,
                                  const attune_arithmetic *arithmetic, const void *o)
{
    if (arithmetic == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: an arithmetic is NULL", function);
    if (o == NULL && host_rows(&reference->problem) > 0)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: an output is NULL", function);
    return ATTUNE_OK;
}

static attune_status check_reference(const char *function, const attune_reference *reference,
                                     const attune_metrics *metrics)
{
    if (reference != NULL && metrics != NULL) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: %s is NULL", function,
                       reference == NULL ? "reference" : "metrics");
}

attune_status attune_judge(const attune_reference *reference, const attune_arithmetic *arithmetic,
                           const void *o, const float *lse, attune_metrics *metrics)
{
    attune_status status = check_reference(__func__, reference, metrics);
    if (status == ATTUNE_OK) status = check_output(__func__, reference, arithmetic, o);
    if (status != ATTUNE_OK) return status;
    judge(&(comparison){.reference = reference,
                        .a = {.arithmetic = arithmetic, .o = o, .lse = lse},
                        .metrics = metrics});
    return ATTUNE_OK;
}

attune_status attune_judge_pair(const attune_reference *reference,
                                const attune_arithmetic *arithmetic_a, const void *o_a,
                                const float *lse_a, const attune_arithmetic *arithmetic_b,
                                const void *o_b, const float *lse_b, attune_metrics *metrics)
{
    attune_status status = check_reference(__func__, reference, metrics);
    if (status == ATTUNE_OK) status = check_output(__func__, reference, arithmetic_a, o_a);
    if (status == ATTUNE_OK) status = check_output(__func__, reference, arithmetic_b, o_b);
    if (status != ATTUNE_OK) return status;
    judge(&(comparison){.reference = reference,
                        .a = {.arithmetic = arithmetic_a, .o = o_a, .lse = lse_a},
                        .b = {.arithmetic = arithmetic_b, .o = o_b, .lse = lse_b},
                        .metrics = metrics});
    return ATTUNE_OK;
}
