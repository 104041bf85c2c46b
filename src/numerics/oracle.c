/* The exact answer: standard attention in double precision, one row at a time, in the order of the formulas of attune/numerics.h. */
#include "format.h"
#include "host_tensor.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct row_inputs {
    const attune_problem *problem;
    const void *q, *k, *v;
    int64_t batch, head, row;
} row_inputs;

typedef struct row_answer {
    double o[MAX_HEAD_DIM];
    attune_error_terms o_terms[MAX_HEAD_DIM];
    double lse;
    attune_error_terms lse_terms;
    int64_t visible;
} row_answer;

typedef struct key {
    double s;         /* scale · Σ_d q_d k_d */
    double magnitude; /* |scale| · Σ_d |q_d k_d| */
    double flushed;   /* the part of it that a unit without subnormals may lose */
    double p;         /* exp(s - m) / l */
    double rise; /* what p · l gains, over l, where a score is as much larger as it may lose */
} key;

/* The bound of what is lost is exact, and of everything else of first order: so much of it is kept for what the two do to each other. */
static const double flushed_margin = 1.0 + 0x1p-6;

/* Without subnormals, a product and the sums that it enters each lose less than 2^-126: they are at most four for each dimension of a score; for each
 * key of an output as well, where p may be half of exp(s - m). */
static const double flushed_sums = 4.0 * 0x1p-126;

typedef struct row_sums {
    double m, l;
    double fallen; /* sum of p where every score is as much smaller as it may lose */
    bool overflow; /* fp32 need not hold some score, or a sum on the way to it */
} row_sums;

static bool fp32_overflows(double x)
{
    return isfinite(x) && x > 0.5 * FLT_MAX;
}

/* Scores, and their max; a NaN is left to the sum. */
static void row_scores(const row_inputs *in, key *keys, int64_t count, row_sums *sums)
{
    const attune_problem *const p = in->problem;
    const double log2_e = 1.4426950408889634; /* kernels count scores in octaves */
    const double least_normal = format_least_normal(p->dtype);
    float q[MAX_HEAD_DIM], k[MAX_HEAD_DIM];
    host_row(p->dtype, in->q, host_place(p->q_strides, in->batch, in->row, in->head), p->head_dim,
             q);
    *sums = (row_sums){.m = -INFINITY};
    for (int64_t j = 0; j < count; j++) {
        const int64_t place = host_place(p->k_strides, in->batch, j, host_key_head(p, in->head));
        host_row(p->dtype, in->k, place, p->head_dim, k);
        double dot = 0.0, magnitude = 0.0, flushed = (double)p->head_dim * flushed_sums;
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double product = (double)q[d] * (double)k[d];
            dot += product;
            magnitude += fabs(product);
            if (fabsf(q[d]) < least_normal || fabsf(k[d]) < least_normal) flushed += fabs(product);
        }
        keys[j].s = p->softmax_scale * dot;
        keys[j].magnitude = fabs(p->softmax_scale) * magnitude;
        keys[j].flushed = flushed_margin * fabs(p->softmax_scale) * flushed;
        sums->m = fmax(sums->m, keys[j].s);
        sums->overflow |= fp32_overflows(magnitude) || fp32_overflows(log2_e * keys[j].magnitude);
    }
}

/* The sum is 0 where every score is -inf, as where there is no key. */
static void row_probabilities(key *keys, int64_t count, row_sums *sums)
{
    const double shift = sums->m == -INFINITY ? 0.0 : sums->m;
    for (int64_t j = 0; j < count; j++) {
        keys[j].p = exp(keys[j].s - shift);
        sums->l += keys[j].p;
    }
    for (int64_t j = 0; j < count; j++) {
        key *const at = &keys[j];
        at->p /= sums->l;
        at->rise = at->flushed < 1.0 ? at->p * expm1(at->flushed)
                                     : exp(at->s - shift + at->flushed) / sums->l - at->p;
        sums->fallen += at->p * exp(-at->flushed);
    }
}

static void load_value(const row_inputs *in, int64_t j, float v[MAX_HEAD_DIM])
{
    const attune_problem *const p = in->problem;
    const int64_t place = host_place(p->v_strides, in->batch, j, host_key_head(p, in->head));
    host_row(p->dtype, in->v, place, p->head_dim_v, v);
}

/* A P of 0 multiplies a visible v all the same: NaN and infinity arrive. */
static void row_output(const row_inputs *in, const key *keys, int64_t count, double *o)
{
    float v[MAX_HEAD_DIM];
    for (int64_t j = 0; j < count; j++) {
        load_value(in, j, v);
        for (int64_t d = 0; d < in->problem->head_dim_v; d++) o[d] += keys[j].p * (double)v[d];
    }
}

/* A key with P = 0 has no part in the terms, but for what another arithmetic may lose there. */
static void add_key(attune_error_terms *terms, const key *at, double m, double v, double o)
{
    const double difference = fabs(v - o);
    terms->underflow += fabs(v) + fabs(o);
    if (at->p == 0.0) return;
    terms->score += at->p * at->magnitude * difference;
    terms->magnitude += at->p * (fabs(at->s) + fabs(m)) * difference;
    terms->spread += at->p * difference;
    terms->values += at->p * fabs(v);
}

/* Nothing bounds a row that overflows fp32 on the way. */
static void close_terms(attune_error_terms *terms, const row_sums *sums, int64_t count)
{
    terms->underflow /= sums->l;
    terms->peak = 1.0 / sums->l;
    terms->flushed += 2.0 * flushed_sums * (double)count / sums->l;
    if (sums->overflow || fp32_overflows(sums->l * terms->values)) terms->score = INFINITY;
}

/* With scores s_j + δ_j, |δ_j| <= f_j, the output is O + Σ_j p_j (e^δ_j - 1) (v_j - O) / Σ_j p_j e^δ_j, and in any case a mean of the values; LSE is
 * LSE + ln Σ_j p_j e^δ_j. A subnormal value may be lost itself. */
static void add_flushed(const row_inputs *in, const key *keys, int64_t count, const row_sums *sums,
                        row_answer *answer)
{
    const int64_t width = in->problem->head_dim_v;
    const double least_normal = format_least_normal(in->problem->dtype);
    double risen[MAX_HEAD_DIM] = {0.0}, farthest[MAX_HEAD_DIM] = {0.0}, risen_sum = 0.0;
    float v[MAX_HEAD_DIM];
    for (int64_t j = 0; j < count; j++) {
        load_value(in, j, v);
        for (int64_t d = 0; d < width; d++) {
            const double difference = fabs(v[d] - answer->o[d]);
            if (difference > 0.0) risen[d] += keys[j].rise * difference;
            farthest[d] = fmax(farthest[d], difference);
            if (fabsf(v[d]) < least_normal)
                answer->o_terms[d].flushed += keys[j].p * fabs((double)v[d]);
        }
        risen_sum += keys[j].rise;
    }
    for (int64_t d = 0; d < width; d++)
        answer->o_terms[d].flushed += fmin(risen[d] / sums->fallen, farthest[d]);
    answer->lse_terms.flushed += log1p(risen_sum);
}

static void row_terms(const row_inputs *in, const key *keys, int64_t count, const row_sums *sums,
                      row_answer *answer)
{
    const int64_t width = in->problem->head_dim_v;
    float v[MAX_HEAD_DIM];
    for (int64_t j = 0; j < count; j++) {
        load_value(in, j, v);
        for (int64_t d = 0; d < width; d++)
            add_key(&answer->o_terms[d], &keys[j], sums->m, v[d], answer->o[d]);
        add_key(&answer->lse_terms, &keys[j], sums->m, 1.0, 0.0);
    }
    add_flushed(in, keys, count, sums, answer);
    for (int64_t d = 0; d < width; d++) close_terms(&answer->o_terms[d], sums, count);
    close_terms(&answer->lse_terms, sums, count);
}

/* False without memory. */
static bool row_solve(const row_inputs *in, row_answer *answer)
{
    const int64_t count = host_visible_keys(in->problem, in->row);
    *answer = (row_answer){.lse = -INFINITY, .visible = count};
    if (count == 0) return true;
    key *const keys = calloc((size_t)count, sizeof *keys);
    if (keys == NULL) return false;

    row_sums sums;
    row_scores(in, keys, count, &sums);
    row_probabilities(keys, count, &sums);
    if (sums.l != 0.0) {
        row_output(in, keys, count, answer->o);
        answer->lse = sums.m + log(sums.l);
        row_terms(in, keys, count, &sums, answer);
    }
    free(keys);
    return true;
}

/* ---- one row ---- */

static attune_status check_index(const char *name, int64_t index, int64_t size)
{
    if (index >= 0 && index < size) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "attune_reference_row: %s is %" PRId64 "; 0 to %" PRId64 " is accepted",
                       name, index, size - 1);
}

attune_status attune_reference_row(const attune_problem *problem, const void *q, const void *k,
                                   const void *v, int64_t batch, int64_t head, int64_t row,
                                   double *o, attune_error_terms *o_terms, double *lse,
                                   attune_error_terms *lse_terms, int64_t *visible)
{
    attune_status status = host_check(problem, q, k, v, __func__);
    if (status == ATTUNE_OK) status = check_index("batch", batch, problem->batch);
    if (status == ATTUNE_OK) status = check_index("head", head, problem->heads_q);
    if (status == ATTUNE_OK) status = check_index("row", row, problem->seqlen_q);
    if (status != ATTUNE_OK) return status;

    const row_inputs in = {problem, q, k, v, batch, head, row};
    row_answer answer;
    if (!row_solve(&in, &answer))
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "%s: no memory for %" PRId64 " keys", __func__,
                           problem->seqlen_k);
    const size_t width = (size_t)problem->head_dim_v;
    if (o != NULL) memcpy(o, answer.o, width * sizeof *o);
    if (o_terms != NULL) memcpy(o_terms, answer.o_terms, width * sizeof *o_terms);
    if (lse != NULL) *lse = answer.lse;
    if (lse_terms != NULL) *lse_terms = answer.lse_terms;
    if (visible != NULL) *visible = answer.visible;
    return ATTUNE_OK;
}

/* ---- every row ---- */

/* Row number `index` in the order of o; false without memory. */
static bool reference_solve(attune_reference *reference, row_inputs in, int64_t index)
{
    const attune_problem *const p = in.problem;
    host_row_at(p, index, &in.batch, &in.row, &in.head);
    row_answer answer;
    if (!row_solve(&in, &answer)) return false;

    const size_t width = (size_t)p->head_dim_v;
    const int64_t lse_place = host_lse_place(p, in.batch, in.row, in.head);
    memcpy(reference->o + index * p->head_dim_v, answer.o, width * sizeof *answer.o);
    memcpy(reference->o_terms + index * p->head_dim_v, answer.o_terms,
           width * sizeof *answer.o_terms);
    reference->lse[lse_place] = answer.lse;
    reference->lse_terms[lse_place] = answer.lse_terms;
    reference->visible[lse_place] = answer.visible;
    return true;
}

/* Room for count · size zeroed bytes, at least one; NULL where there is none or the product overflows. */
static void *allocate(int64_t count, size_t size)
{
    return calloc(count > 0 ? (size_t)count : 1, size);
}

static attune_reference *reference_allocate(const attune_problem *problem)
{
    const int64_t rows = host_rows(problem);
    int64_t elements;
    if (__builtin_mul_overflow(rows, problem->head_dim_v, &elements)) return NULL;
    attune_reference *const r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    *r = (attune_reference){
        .problem = *problem,
        .o = allocate(elements, sizeof *r->o),
        .lse = allocate(rows, sizeof *r->lse),
        .o_terms = allocate(elements, sizeof *r->o_terms),
        .lse_terms = allocate(rows, sizeof *r->lse_terms),
        .visible = allocate(rows, sizeof *r->visible),
    };
    if (r->o != NULL && r->lse != NULL && r->o_terms != NULL && r->lse_terms != NULL &&
        r->visible != NULL)
        return r;
    attune_reference_destroy(r);
    return NULL;
}

attune_status attune_reference_create(const attune_problem *problem, const void *q, const void *k,
                                      const void *v, attune_reference **reference)
{
    const attune_status status = host_check(problem, q, k, v, __func__);
    if (status != ATTUNE_OK) return status;
    if (reference == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: reference is NULL", __func__);

    attune_reference *const r = reference_allocate(problem);
    bool failed = r == NULL;
    if (!failed) {
        const row_inputs in = {.problem = problem, .q = q, .k = k, .v = v};
        const int64_t rows = host_rows(problem);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) reduction(|| : failed)
#endif
        for (int64_t i = 0; i < rows; i++) failed = !reference_solve(r, in, i) || failed;
    }
    if (failed) {
        attune_reference_destroy(r);
        return attune_fail(ATTUNE_OUT_OF_MEMORY,
                           "%s: no memory for the exact answer of %" PRId64 " x %" PRId64
                           " x %" PRId64 " rows of %" PRId64,
                           __func__, problem->batch, problem->heads_q, problem->seqlen_q,
                           problem->head_dim_v);
    }
    *reference = r;
    return ATTUNE_OK;
}

void attune_reference_destroy(attune_reference *reference)
{
    if (reference == NULL) return;
    free(reference->o);
    free(reference->lse);
    free(reference->o_terms);
    free(reference->lse_terms);
    free(reference->visible);
    free(reference);
}
