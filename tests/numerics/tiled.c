#include "tiled.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_DIM = 256, MAX_BLOCK = 256 };

const char *fault_name(fault f)
{
    static const char *const names[] = {
#define FAULT_NAME(name, meaning) [FAULT_##name] = #name,
        FAULTS(FAULT_NAME)
#undef FAULT_NAME
    };
    return names[f];
}

typedef struct tiled_row {
    const trial *t;
    fault f;
    int64_t batch, head, head_kv, row;
    int64_t keys;
    float o[MAX_DIM];
    float m, l, lse_l;
} tiled_row;

static float stored(attune_dtype dtype, float x)
{
    uint32_t storage;
    attune_convert_from_f32(dtype, &x, &storage, 1);
    attune_convert_to_f32(dtype, &storage, &x, 1);
    return x;
}

/* Towards 0. */
static float cut(attune_dtype dtype, float x)
{
    const float nearest = stored(dtype, x);
    return nearest > x ? stored(dtype, x - (nearest - x)) : nearest;
}

static float sum_cut(double exact)
{
    const float nearest = (float)exact;
    return fabs((double)nearest) > fabs(exact) ? nextafterf(nearest, 0.0f) : nearest;
}

/* To nearest, ties away from 0, as NVIDIA's units are handed it. */
static float as_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return isfinite(x) ? rounded : x;
}

/* An element of q, k or v as the kernel reads it. */
static float operand(const tiled_row *r, int tensor, int64_t seq, int64_t head, int64_t d)
{
    const float x = get(r->t, tensor, r->batch, seq, head, d);
    return r->f == FAULT_tf32_operands ? as_tf32(x) : x;
}

static float score(const tiled_row *r, int64_t key)
{
    const attune_problem *const p = &r->t->problem;
    if (key >= p->seqlen_k) return 0.0f;
    const int64_t dims = p->head_dim - (r->f == FAULT_dropped_dimension);
    float dot = 0.0f;
    for (int64_t d = 0; d < dims; d++)
        dot += operand(r, TRIAL_Q, r->row, r->head, d) * operand(r, TRIAL_K, key, r->head_kv, d);
    const float s = dot * (float)(p->softmax_scale * (r->f == FAULT_scale_off ? 1.01 : 1.0));
    return r->f == FAULT_f16_scores ? stored(ATTUNE_F16, s) : s;
}

static float value(const tiled_row *r, int64_t key, int64_t first, int64_t d)
{
    const attune_problem *const p = &r->t->problem;
    if (key >= p->seqlen_k) return 0.0f;
    if (r->f == FAULT_swapped_values && key < first + 2 && first + 1 < p->seqlen_k)
        key = 2 * first + 1 - key;
    const float v = operand(r, TRIAL_V, key, r->head_kv, d);
    const float least = p->dtype == ATTUNE_F16 ? 0x1p-14f : FLT_MIN;
    return r->f == FAULT_flushed_denormals && fabsf(v) < least ? 0.0f : v;
}

static bool counts(const tiled_row *r, int64_t key)
{
    const attune_problem *const p = &r->t->problem;
    if (key >= p->seqlen_k) return r->f == FAULT_no_tail_mask;
    if (r->f == FAULT_causal_off_by_one) return sees(p, r->row + 1, key);
    const bool last = key + 1 == r->keys;
    return sees(p, r->row, key) && !(last && r->f == FAULT_dropped_key);
}

static void add_tile(tiled_row *r, int64_t first, int64_t block_k)
{
    const attune_problem *const p = &r->t->problem;
    float s[MAX_BLOCK], m = r->m;
    for (int64_t j = 0; j < block_k; j++) {
        s[j] = counts(r, first + j) ? score(r, first + j) : -INFINITY;
        m = fmaxf(m, ceilf(s[j])); /* so that P is a round number nowhere */
    }
    const float shift = m == -INFINITY ? 0.0f : m, rescale = expf(r->m - shift);
    const bool drop = r->f == FAULT_dropped_rescale && first > 0 && first + block_k >= r->keys;
    r->l *= rescale;
    r->lse_l *= rescale;
    for (int64_t d = 0; d < p->head_dim_v && !drop; d++) r->o[d] *= rescale;
    r->m = m;
    for (int64_t j = 0; j < block_k; j++) {
        const float weight = expf(s[j] - shift);
        r->l += weight;
        if (r->f != FAULT_lse_one_key || first + j + 1 != r->keys) r->lse_l += weight;
        if (!counts(r, first + j) && r->f != FAULT_hidden_times_zero) continue;
        const float w = r->f == FAULT_truncated_p ? cut(p->dtype, weight) : weight;
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            const float v = value(r, first + j, first, d);
            r->o[d] =
                r->f == FAULT_truncated_sum ? sum_cut((double)w * v + r->o[d]) : r->o[d] + w * v;
            if (r->f == FAULT_f16_output) r->o[d] = stored(ATTUNE_F16, r->o[d]);
        }
    }
}

static void row_forward(tiled_row *r, int64_t block_k, trial *t)
{
    const attune_problem *const p = &t->problem;
    for (int64_t j = 0; j < p->seqlen_k; j++) r->keys += sees(p, r->row, j);
    for (int64_t first = 0; first < p->seqlen_k; first += block_k) add_tile(r, first, block_k);
    if (r->f == FAULT_unwritten_row && r->row == p->seqlen_q - 1) return;
    const float l = r->f == FAULT_denominator_off ? r->l * 1.001f : r->l;
    for (int64_t d = 0; d < p->head_dim_v; d++)
        set(t, TRIAL_O, r->batch, r->row, r->head, d, l == 0.0f ? 0.0f : r->o[d] / l);
    const float ln = r->m + logf(r->lse_l);
    t->lse[lse_place(p, r->batch, r->head, r->row)] =
        r->f == FAULT_lse_base_2 ? ln * 1.44269504f : ln;
}

void tiled_forward(trial *t, int64_t block_k, fault f)
{
    const attune_problem *const p = &t->problem;
    const int64_t group = p->heads_q / p->heads_kv;
    for (int64_t batch = 0; batch < p->batch; batch++)
        for (int64_t head = 0; head < p->heads_q; head++)
            for (int64_t row = 0; row < p->seqlen_q; row++) {
                tiled_row r = {.t = t, .f = f, .batch = batch, .head = head, .row = row};
                r.head_kv = f == FAULT_wrong_head ? head % p->heads_kv : head / group;
                r.m = f == FAULT_finite_start ? -1e4f : -INFINITY;
                row_forward(&r, block_k, t);
            }
}
