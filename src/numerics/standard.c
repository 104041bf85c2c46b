/* Standard attention in working precision: scores, softmax, product, each materialised for one row. */
#include "format.h"
#include "host_tensor.h"

#include <math.h>
#include <stdlib.h>

void attune_standard_arithmetic(const attune_problem *problem, attune_arithmetic *arithmetic)
{
    const double u = format_roundoff(problem->dtype);
    *arithmetic = (attune_arithmetic){
        .u_out = u,
        /* the quotient by l, and its storage type */
        .u_p = (problem->dtype == ATTUNE_F32 ? 0 : u) + 0x1p-23,
        /* rounded after the division by l, which is up to seqlen_k */
        .eta_p = problem->dtype == ATTUNE_F16 ? 0x1p-25 * (double)problem->seqlen_k : 0,
        .u_acc = 0x1p-24,
        .eps_exp = 0x1p-23,
        /* a score rounded to the type is off by u |s| <= u |scale| Σ |q k|: as much as u / 2^-24 more steps */
        .n_s = (double)problem->head_dim + (problem->dtype == ATTUNE_F32 ? 0 : u / 0x1p-24),
        .n_pv = (double)problem->seqlen_k + 1,
    };
}

static float rounded(attune_dtype dtype, float x)
{
    uint32_t storage;
    attune_convert_from_f32(dtype, &x, &storage, 1);
    attune_convert_to_f32(dtype, &storage, &x, 1);
    return x;
}

/* One row; p holds seqlen_k floats. */
static void standard_row(const attune_problem *problem, const void *q, const void *k, const void *v,
                         int64_t batch, int64_t seq, int64_t head, float *p, void *o, float *lse)
{
    const attune_dtype dtype = problem->dtype;
    const int64_t keys = host_visible_keys(problem, seq), dims_v = problem->head_dim_v;
    const int64_t head_kv = host_key_head(problem, head);
    const float scale = (float)problem->softmax_scale;
    float query[MAX_HEAD_DIM], other[MAX_HEAD_DIM], out[MAX_HEAD_DIM] = {0}, m = -INFINITY, l = 0;
    host_row(dtype, q, host_place(problem->q_strides, batch, seq, head), problem->head_dim, query);
    for (int64_t j = 0; j < keys; j++) {
        float dot = 0;
        host_row(dtype, k, host_place(problem->k_strides, batch, j, head_kv), problem->head_dim,
                 other);
        for (int64_t d = 0; d < problem->head_dim; d++) dot += query[d] * other[d];
        p[j] = rounded(dtype, dot * scale);
        if (p[j] > m) m = p[j]; /* a NaN reaches the sum anyway */
    }
    for (int64_t j = 0; j < keys; j++) {
        p[j] = p[j] == -INFINITY ? 0 : expf(p[j] - m);
        l += p[j];
    }
    for (int64_t j = 0; j < keys; j++) {
        const float weight = rounded(dtype, p[j] / l);
        host_row(dtype, v, host_place(problem->v_strides, batch, j, head_kv), dims_v, other);
        for (int64_t d = 0; d < dims_v; d++) out[d] += weight * other[d];
    }
    if (l == 0)
        for (int64_t d = 0; d < dims_v; d++) out[d] = 0;
    const int64_t place = host_place(problem->o_strides, batch, seq, head);
    host_row_store(dtype, o, place, dims_v, out);
    if (lse) lse[host_lse_place(problem, batch, seq, head)] = l == 0 ? -INFINITY : m + logf(l);
}

attune_status attune_standard_forward(const attune_problem *problem, const void *q, const void *k,
                                      const void *v, void *o, float *lse)
{
    const attune_status status = host_check(problem, q, k, v, "attune_standard_forward");
    if (status != ATTUNE_OK) return status;
    const int64_t rows = host_rows(problem);
    if (rows > 0 && !o)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "attune_standard_forward: o is NULL");

    int failed = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 4) reduction(| : failed)
#endif
    for (int64_t i = 0; i < rows; i++) {
        float *const p =
            malloc(sizeof *p * (size_t)(problem->seqlen_k > 0 ? problem->seqlen_k : 1));
        int64_t batch, seq, head;
        host_row_at(problem, i, &batch, &seq, &head);
        if (p) standard_row(problem, q, k, v, batch, seq, head, p, o, lse);
        failed |= !p;
        free(p);
    }
    if (failed)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "attune_standard_forward: no memory for a row");
    return ATTUNE_OK;
}
