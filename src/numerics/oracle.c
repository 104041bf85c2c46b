/* The oracle: standard attention of one row in double precision, in three plain loops, with the sums of the error bound beside it. */
#include <math.h>
#include <stdlib.h>

#include "host_tensor.h"

typedef struct scored_key {
    double s;         /* scale · q·k */
    double magnitude; /* |scale| · Σ |q_d k_d| */
    double p;         /* exp(s - m) / l */
} scored_key;

attune_status attune_reference_row(const attune_problem *problem, const void *q, const void *k,
                                   const void *v, int64_t batch, int64_t head, int64_t row,
                                   double *o, attune_error_terms *o_terms, double *lse,
                                   attune_error_terms *lse_terms, int64_t *visible)
{
    const attune_status status = host_check(problem, q, k, v, "attune_reference_row");
    if (status != ATTUNE_OK) return status;
    if (batch < 0 || batch >= problem->batch || head < 0 || head >= problem->heads_q || row < 0 ||
        row >= problem->seqlen_q)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "attune_reference_row: no row (batch %lld, head %lld, row %lld)",
                           (long long)batch, (long long)head, (long long)row);

    const int64_t keys = host_visible_keys(problem, row), dims_v = problem->head_dim_v;
    const int64_t head_kv = host_key_head(problem, head);
    const attune_dtype dtype = problem->dtype;
    scored_key *const key = malloc(sizeof *key * (size_t)(keys > 0 ? keys : 1));
    if (!key)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "attune_reference_row: no memory for %lld keys",
                           (long long)keys);

    float query[MAX_HEAD_DIM], other[MAX_HEAD_DIM];
    host_row(dtype, q, host_place(problem->q_strides, batch, row, head), problem->head_dim, query);
    double m = -INFINITY, l = 0;
    for (int64_t j = 0; j < keys; j++) {
        double dot = 0, magnitude = 0;
        host_row(dtype, k, host_place(problem->k_strides, batch, j, head_kv), problem->head_dim,
                 other);
        for (int64_t d = 0; d < problem->head_dim; d++) {
            const double product = (double)query[d] * other[d];
            dot += product;
            magnitude += fabs(product);
        }
        key[j].s = problem->softmax_scale * dot;
        key[j].magnitude = fabs(problem->softmax_scale) * magnitude;
        if (key[j].s > m || isnan(key[j].s)) m = key[j].s; /* once NaN, m stays so */
    }
    for (int64_t j = 0; j < keys; j++) {
        key[j].p = key[j].s == -INFINITY ? 0 : exp(key[j].s - m);
        l += key[j].p;
    }

    double exact[MAX_HEAD_DIM] = {0};
    attune_error_terms sums[MAX_HEAD_DIM] = {{0}}, lse_sums = {0};
    for (int64_t j = 0; j < keys; j++) {
        if (key[j].s == -INFINITY) continue;
        key[j].p /= l;
        host_row(dtype, v, host_place(problem->v_strides, batch, j, head_kv), dims_v, other);
        for (int64_t d = 0; d < dims_v; d++) exact[d] += key[j].p * other[d];
    }
    for (int64_t j = 0; j < keys; j++) {
        if (key[j].s == -INFINITY) continue;
        const double p = key[j].p, magnitude = fabs(key[j].s) + fabs(m);
        host_row(dtype, v, host_place(problem->v_strides, batch, j, head_kv), dims_v, other);
        for (int64_t d = 0; d < dims_v; d++) {
            const double spread = p * fabs(other[d] - exact[d]);
            sums[d].score += key[j].magnitude * spread;
            sums[d].magnitude += magnitude * spread;
            sums[d].spread += spread;
            sums[d].values += p * fabs(other[d]);
            sums[d].underflow += fabs(other[d]) / l;
        }
        lse_sums.score += p * key[j].magnitude;
        lse_sums.magnitude += p * magnitude;
        lse_sums.spread += p;
        lse_sums.values += p;
        lse_sums.underflow += 1 / l;
    }
    free(key);

    for (int64_t d = 0; d < dims_v; d++) {
        if (o) o[d] = exact[d];
        if (o_terms) o_terms[d] = sums[d];
    }
    if (lse) *lse = l == 0 ? -INFINITY : m + log(l);
    if (lse_terms) *lse_terms = lse_sums;
    if (visible) *visible = keys;
    return ATTUNE_OK;
}

static void *zeroed(int64_t count, size_t size)
{
    return calloc((size_t)(count > 0 ? count : 1), size);
}

attune_status attune_reference_create(const attune_problem *problem, const void *q, const void *k,
                                      const void *v, attune_reference **reference)
{
    if (!reference)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "attune_reference_create: reference is NULL");
    *reference = NULL;
    const attune_status status = host_check(problem, q, k, v, "attune_reference_create");
    if (status != ATTUNE_OK) return status;

    const int64_t rows = host_rows(problem), dims = problem->head_dim_v;
    attune_reference *const made = calloc(1, sizeof *made);
    if (made) {
        made->problem = *problem;
        made->o = zeroed(rows * dims, sizeof *made->o);
        made->o_terms = zeroed(rows * dims, sizeof *made->o_terms);
        made->lse = zeroed(rows, sizeof *made->lse);
        made->lse_terms = zeroed(rows, sizeof *made->lse_terms);
        made->visible = zeroed(rows, sizeof *made->visible);
    }
    if (!made || !made->o || !made->o_terms || !made->lse || !made->lse_terms || !made->visible) {
        attune_reference_destroy(made);
        return attune_fail(ATTUNE_OUT_OF_MEMORY,
                           "attune_reference_create: no memory for %lld exact output elements",
                           (long long)(rows * dims));
    }

    int failed = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 4) reduction(| : failed)
#endif
    for (int64_t i = 0; i < rows; i++) {
        int64_t batch, seq, head;
        host_row_at(problem, i, &batch, &seq, &head);
        const int64_t place = host_lse_place(problem, batch, seq, head);
        failed |= attune_reference_row(problem, q, k, v, batch, head, seq, made->o + i * dims,
                                       made->o_terms + i * dims, made->lse + place,
                                       made->lse_terms + place, made->visible + place) != ATTUNE_OK;
    }
    if (failed) {
        attune_reference_destroy(made);
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "attune_reference_create: no memory for a row");
    }
    *reference = made;
    return ATTUNE_OK;
}

void attune_reference_destroy(attune_reference *reference)
{
    if (!reference) return;
    free(reference->o);
    free(reference->o_terms);
    free(reference->lse);
    free(reference->lse_terms);
    free(reference->visible);
    free(reference);
}
