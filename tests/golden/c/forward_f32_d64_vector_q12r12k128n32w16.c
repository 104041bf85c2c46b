/* forward_f32_d64_vector_q12r12k128n32w16 for c (x86-64-v4), rendered from templates/: change it there. */

#define KERNEL_NAME forward_f32_d64_vector_q12r12k128n32w16
#define STORAGE f32
#define HEAD_DIM 64
#define BLOCK_Q 12
#define ROWS 12
#define BLOCK_K 128
#define PANEL 32
#define LANES 16
#define THREADS 1
#define FAST_MEMORY 0
#define PACK_NAME forward_f32_d64_vector_q12r12k128n32w16_pack

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

/* Dialect C (GCC or Clang): qualifiers, scalar words, entry. An instruction set's vector words follow. */
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define GLOBAL
#define LOCAL
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) PRAGMA(unroll n)
#else
#define UNROLL _Pragma("GCC unroll 64")
#define UNROLL_BY(n) PRAGMA(GCC unroll n)
#endif
#define F32_INFINITY __builtin_inff()
#define ALIGNED __attribute__((aligned(64)))

typedef int64_t int64;

#define widen_f16(h) widen_f16_bits(h)

INLINE unsigned f32_to_bits(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float bits_to_f32(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One work-group: the caller loops over groups. */
#define KERNEL_ENTRY(name, function)                                                                                          \
    void name(const attune_forward_args *args, const void *q, const void *k, const void *v, void *o, float *lse,              \
              float *workspace, int64_t group);                                                                               \
    void name(const attune_forward_args *args, const void *q, const void *k, const void *v, void *o, float *lse,              \
              float *workspace, int64_t group)                                                                                \
    {                                                                                                                         \
        const tensors t = {.q = q, .k = k, .v = v, .o = o, .lse = lse, .workspace = workspace};                               \
        function(args, &t, group);                                                                                            \
    }

/* Vector words with AVX-512 (F, DQ): 16 lanes. */
#include <immintrin.h>

INLINE float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
INLINE float max_f32(float a, float b) { return a > b ? a : b; }
INLINE float ceil_f32(float x) { return _mm_cvtss_f32(_mm_ceil_ss(_mm_set_ss(x), _mm_set_ss(x))); }
INLINE float rint_f32(float x)
{
    return _mm_cvtss_f32(_mm_round_ss(_mm_set_ss(x), _mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

typedef __m512 vec;
#define vec_load(p) _mm512_loadu_ps(p)
#define vec_store(p, x) _mm512_storeu_ps(p, x)
#define vec_set(x) _mm512_set1_ps(x)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vec_add(a, b) _mm512_add_ps(a, b)
#define vec_sub(a, b) _mm512_sub_ps(a, b)
#define vec_mul(a, b) _mm512_mul_ps(a, b)
#define vec_max(a, b) _mm512_max_ps(a, b)
#define vec_rint(x) _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vec_max_lanes(x) _mm512_reduce_max_ps(x)

INLINE vec vec_scale(vec x, vec t)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(t, _mm512_set1_ps(-125.0f), _CMP_NLT_UQ), x, t);
}

/* What the host hands to a generated kernel: one plain struct, compiled by the host and by every dialect, so only fixed-size
 * members at their natural alignment, no pointers, no padding. The dialect's compiler has no standard headers: a dialect defines
 * ATTUNE_ABI_INT32 and ATTUNE_ABI_INT64 before this text where <stdint.h> is missing. */
#ifndef ATTUNE_KERNEL_ABI_H
#define ATTUNE_KERNEL_ABI_H

#ifndef ATTUNE_ABI_INT64
#include <stdint.h>
#define ATTUNE_ABI_INT32 int32_t
#define ATTUNE_ABI_INT64 int64_t
#endif

/* A tensor (batch, seq, head, dim) with dim stride 1; everything in elements. */
typedef struct attune_view {
    ATTUNE_ABI_INT64 offset; /* of element (0, 0, 0, 0) from the buffer's handle */
    ATTUNE_ABI_INT64 batch;
    ATTUNE_ABI_INT64 seq;
    ATTUNE_ABI_INT64 head;
} attune_view;

typedef struct attune_forward_args {
    attune_view q, k, v, o;
    ATTUNE_ABI_INT64 lse_offset; /* floats from the handle; lse is (batch, heads_q, seqlen_q) */
    ATTUNE_ABI_INT64 workspace_offset; /* floats from the handle */
    ATTUNE_ABI_INT64 first_group;      /* of this launch: long grids go in several launches */
    ATTUNE_ABI_INT32 batch;
    ATTUNE_ABI_INT32 heads_q;
    ATTUNE_ABI_INT32 heads_kv;
    ATTUNE_ABI_INT32 seqlen_q;
    ATTUNE_ABI_INT32 seqlen_k;
    ATTUNE_ABI_INT32 head_dim; /* the true ones, at most HEAD_DIM of the kernel */
    ATTUNE_ABI_INT32 head_dim_v;
    ATTUNE_ABI_INT32 causal;     /* 1: row i sees keys j <= i + diagonal; 0: all keys */
    ATTUNE_ABI_INT32 diagonal;   /* seqlen_k - seqlen_q (bottom-right) or 0 (top-left) */
    ATTUNE_ABI_INT32 return_lse; /* 1: lse is written */
    float scale_log2; /* fp32(softmax_scale · log2 e), rounded once: scores are in log2 units */
    ATTUNE_ABI_INT32 reserved; /* 0 */
} attune_forward_args;

#define ATTUNE_CEIL_DIV(x, n) (((x) + (n)-1) / (n))
#define ATTUNE_ROUND_UP(x, n) (ATTUNE_CEIL_DIV(x, n) * (n))

/* Packed panels of K and V in the workspace, floats, for one key head (an engine with PANEL columns a panel):
 *   K  [ceil(seqlen_k / PANEL)][head_dim][PANEL]      one row of a panel = one dimension of PANEL keys
 *   V  [ceil(head_dim_v / PANEL)][seqlen_k][PANEL]    one row of a panel = PANEL dimensions of one key
 * All K panels of (batch, heads_kv) come first, then all V panels. */
#define ATTUNE_K_PANELS(seqlen_k, head_dim, panel)                                                 \
    (ATTUNE_ROUND_UP((ATTUNE_ABI_INT64)(seqlen_k), panel) * (head_dim))
#define ATTUNE_V_PANELS(seqlen_k, head_dim_v, panel)                                               \
    (ATTUNE_ROUND_UP((ATTUNE_ABI_INT64)(head_dim_v), panel) * (seqlen_k))

#endif

/* Canonical arithmetic: the one sequence of IEEE fp32 operations that every dialect performs, so that every device gives the same
 * bits. Nothing here may be contracted, reassociated or replaced by a device's own approximation. */

#define UP_TO_MULTIPLE(x, n) (((x) + (n) - 1) / (n) * (n))

/* ---- storage types: widened exactly, narrowed to nearest even in integer arithmetic ---- */

typedef float storage_f32;
typedef unsigned short storage_f16;
typedef unsigned short storage_bf16;

#define storage CONCAT(storage_, STORAGE)
#define widen CONCAT(widen_, STORAGE)
#define narrow CONCAT(narrow_, STORAGE)

INLINE float widen_f32(storage_f32 x) { return x; }
INLINE storage_f32 narrow_f32(float x) { return x; }

/* What a dialect spells as widen_f16 unless the device has an instruction for it. */
INLINE float widen_f16_bits(storage_f16 h)
{
    const unsigned sign = ((unsigned)h & 0x8000u) << 16, magnitude = (unsigned)h & 0x7fffu;
    const unsigned rebias = (magnitude >= 0x7c00u ? 224u : 112u) << 23; /* infinity and NaN keep an all-ones exponent */
    const float normal = bits_to_f32((magnitude << 13) + rebias);
    const float subnormal = (float)(int)magnitude * 0x1p-24f;
    return bits_to_f32(sign | f32_to_bits(magnitude < 0x400u ? subnormal : normal));
}

INLINE storage_f16 narrow_f16(float x)
{
    const unsigned bits = f32_to_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const unsigned normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
    /* below 2^-14 the unit is 2^-24: shift the significand there, ties to even; below 2^-25 nothing is left */
    const unsigned exponent = magnitude >> 23, shift = exponent < 102u ? 24u : exponent > 112u ? 14u : 126u - exponent;
    const unsigned significand = exponent < 102u ? 0u : (magnitude & 0x7fffffu) | 0x800000u;
    const unsigned subnormal = (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;
    const unsigned finite = magnitude < 0x38800000u ? subnormal : normal;
    const unsigned special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return (storage_f16)(sign | (magnitude >= 0x477ff000u ? special : finite));
}

INLINE float widen_bf16(storage_bf16 h) { return bits_to_f32((unsigned)h << 16); }

INLINE storage_bf16 narrow_bf16(float x)
{
    const unsigned bits = f32_to_bits(x);
    const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (storage_bf16)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

/* ---- exponential ---- */

/* 2^x for |x| <= 1/2, degree 6, relative error 8.2e-8; FMA and SET are the scalar's or the vector's. */
#define EXP2_FRACTION(FMA, SET, x)                                                                                         \
    FMA(FMA(FMA(FMA(FMA(FMA(SET(.000154614449f), x, SET(.0013400428f)), x, SET(.00961805694f)), x, SET(.0555032715f)), x,  \
                SET(.240226507f)),                                                                                         \
            x, SET(.693147182f)),                                                                                          \
        x, SET(1.0f))

/* 2^x for an integer x <= 127; 0 below -126, where the power would be subnormal. */
INLINE float exp2_integer(float x)
{
    return x < -126.0f ? 0.0f : bits_to_f32((unsigned)((int)max_f32(x, -126.0f) + 127) << 23);
}

/* What a score s weighs against a row whose max (an integer) is m: 2^(s - m), as 2^(s - n) · 2^(n - m) with n = rint(s), so that a later
 * rise of m is an exact rescale. 0 below 2^-125, and so for s = -inf; NaN stays NaN. */
INLINE float weight(float s, float m)
{
    const float n = rint_f32(s), t = n - m;
    const int gone = t < -125.0f;
    const float x = gone ? 0.0f : s - n; /* what is infinite has no fraction */
    /* 3 · 2^22 has the integer behind it in its last bits */
    const unsigned power = gone ? 0u : f32_to_bits(t + (12582912.0f + 127.0f)) << 23;
    return EXP2_FRACTION(fma_f32, , x) * bits_to_f32(power);
}

/* The max that scores are compared with: a row that has seen no key yet has m = -inf, and -inf - -inf is no number. */
INLINE float finite_max(float m) { return m == -F32_INFINITY ? 0.0f : m; }

/* ---- the end of a row ---- */

/* The 16 partial sums of l (key index mod 16), by halves. */
INLINE float sum_of_16(const float *x)
{
    float y[8];
    UNROLL for (int i = 0; i < 8; i++) y[i] = x[i] + x[i + 8];
    UNROLL for (int i = 0; i < 4; i++) y[i] = y[i] + y[i + 4];
    return (y[0] + y[2]) + (y[1] + y[3]);
}

/* 1/x for normal x: an integer first guess (12 % off), three Newton steps. */
INLINE float reciprocal(float x)
{
    float r = bits_to_f32(0x7ef311c7u - f32_to_bits(x));
    UNROLL for (int i = 0; i < 3; i++) r = fma_f32(fma_f32(-x, r, 1.0f), r, r);
    return r;
}

/* x / y given r = reciprocal(y): one correction. An infinite quotient has no residual. */
INLINE float quotient(float x, float y, float r)
{
    const float q = x * r, corrected = fma_f32(fma_f32(-q, y, x), r, q);
    return q == F32_INFINITY || q == -F32_INFINITY ? q : corrected;
}

/* ln(x · 2^m) for normal x and integer m: x = f · 2^e with f in [sqrt(1/2), sqrt(2)); ln f = t - t²/2 + t³ R(t), t = f - 1, R a minimax
 * polynomial of degree 6 (relative error of ln f below 1.3e-7); ln 2 in two parts. NaN stays NaN. */
INLINE float log_scaled(float x, float m)
{
    const unsigned shifted = f32_to_bits(x) - 0x3f3504f3u;
    const int e = (int)shifted >> 23;
    const float t = bits_to_f32((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f, t2 = t * t;
    float r = .087004304f;
    r = fma_f32(r, t, -.14267486f);
    r = fma_f32(r, t, .14914769f);
    r = fma_f32(r, t, -.16577585f);
    r = fma_f32(r, t, .19963063f);
    r = fma_f32(r, t, -.25001338f);
    r = fma_f32(r, t, .3333391f);
    const float ln_f = fma_f32(r * t, t2, fma_f32(-.5f, t2, t));
    const float k = m + (float)e;
    const float y = fma_f32(k, 0.6931471824645996f, fma_f32(k, -1.9046542121259336e-09f, ln_f));
    return x == x ? y : x;
}

/* Which rows and keys a work-group deals with: the geometry of the problem, the same for every engine. */

typedef struct tensors {
    GLOBAL const storage *q, *k, *v;
    GLOBAL storage *o;
    GLOBAL float *lse, *workspace;
    LOCAL float *fast; /* FAST_MEMORY bytes that the work-items of a group share */
} tensors;

typedef struct block {
    int64 batch;
    int head, head_kv;
    int query;       /* first row */
    int rows;        /* rows of the block that exist, 1 to BLOCK_Q */
    int keys_common; /* keys that every row of the block sees */
    int keys_seen;   /* keys that its last row sees; no row sees fewer than the row before it */
} block;

/* Keys that a row sees: they are [0, keys_of_row). */
INLINE int keys_of_row(const attune_forward_args *args, int row)
{
    const int64 last = (int64)row + 1 + args->diagonal, all = args->seqlen_k;
    return args->causal == 0 || last > all ? (int)all : last < 0 ? 0 : (int)last;
}

/* Groups count query blocks fastest, then heads, then batch. */
INLINE block block_locate(const attune_forward_args *args, int64 group)
{
    const int blocks = UP_TO_MULTIPLE((int64)args->seqlen_q, BLOCK_Q) / BLOCK_Q;
    const int64 heads = group / blocks; /* batch · heads_q + head */
    block at;
    at.batch = heads / args->heads_q;
    at.head = (int)(heads % args->heads_q);
    at.head_kv = at.head / (args->heads_q / args->heads_kv);
    at.query = (int)(group % blocks) * BLOCK_Q;
    at.rows = args->seqlen_q - at.query < BLOCK_Q ? args->seqlen_q - at.query : BLOCK_Q;
    at.keys_common = keys_of_row(args, at.query);
    at.keys_seen = keys_of_row(args, at.query + at.rows - 1);
    return at;
}

INLINE int64 row_address(attune_view view, int64 batch, int64 row, int64 head)
{
    return view.offset + batch * view.batch + row * view.seq + head * view.head;
}

/* Place of a row's statistic in the packed lse. */
INLINE int64 lse_address(const attune_forward_args *args, const block *at, int row)
{
    return args->lse_offset + (at->batch * args->heads_q + at->head) * args->seqlen_q + at->query + row;
}

/* Keys of the tile that starts at `key` that row r of the block sees: [0, keys_visible). Rows that do not exist count as the last. */
INLINE int keys_visible(const attune_forward_args *args, const block *at, int r, int key)
{
    const int row = at->query + (r < at->rows ? r : at->rows - 1), keys = keys_of_row(args, row) - key;
    return keys < 0 ? 0 : keys < BLOCK_K ? keys : BLOCK_K;
}

/* Engine `vector`: one work-item computes a whole block with explicit SIMD vectors; a vector holds LANES neighbouring keys (first
 * product) or dimensions (second product). K and V were packed into panels (kernel_abi.h) of PANEL columns by `pack`, so both products
 * are one loop: broadcast a scalar of the left operand, multiply by a row of the panel. A micro-kernel does that for ROWS rows of the block. */

#define PANEL_VECS (PANEL / LANES)
#define OUTPUT_WIDTH UP_TO_MULTIPLE(HEAD_DIM, PANEL)
#define SUM_VECS (16 / LANES)

typedef struct query_tile {
    float at[BLOCK_Q][HEAD_DIM] ALIGNED;
} query_tile;

typedef char tile_flight; /* none */

typedef struct score_tile { /* scores, then probabilities */
    int width;              /* columns in use: the tile's keys that some row sees, up to a multiple of 16 */
    float at[BLOCK_Q][BLOCK_K] ALIGNED;
} score_tile;

typedef struct output_tile {
    float at[BLOCK_Q][OUTPUT_WIDTH] ALIGNED;
} output_tile;

typedef struct row_state {
    float m[BLOCK_Q];        /* running max in log2 units, an integer or -inf */
    float rescale[BLOCK_Q];  /* 2^(old m - new m) */
    vec l[BLOCK_Q][SUM_VECS]; /* 16 partial sums of p, by key index mod 16 */
} row_state;

INLINE GLOBAL float *k_panels(const attune_forward_args *args, const tensors *t, int64 batch, int head_kv)
{
    const int64 size = ATTUNE_K_PANELS(args->seqlen_k, args->head_dim, PANEL);
    return t->workspace + args->workspace_offset + (batch * args->heads_kv + head_kv) * size;
}

INLINE GLOBAL float *v_panels(const attune_forward_args *args, const tensors *t, int64 batch, int head_kv)
{
    const int64 size = ATTUNE_V_PANELS(args->seqlen_k, args->head_dim_v, PANEL);
    return k_panels(args, t, args->batch, 0) + (batch * args->heads_kv + head_kv) * size;
}

/* Packs BLOCK_K keys of one key head. Padding is 0. */
INLINE void pack(const attune_forward_args *args, const tensors *t, int64 group)
{
    const int tiles = UP_TO_MULTIPLE((int64)args->seqlen_k, BLOCK_K) / BLOCK_K, key = (int)(group % tiles) * BLOCK_K;
    const int64 heads = group / tiles, batch = heads / args->heads_kv;
    const int head_kv = (int)(heads % args->heads_kv);
    const int keys = args->seqlen_k - key < BLOCK_K ? args->seqlen_k - key : BLOCK_K;

    GLOBAL float *to = k_panels(args, t, batch, head_kv) + (int64)key * args->head_dim;
    for (int j = 0; j < UP_TO_MULTIPLE(keys, PANEL); j++) {
        GLOBAL float *column = to + (int64)(j / PANEL) * PANEL * args->head_dim + j % PANEL;
        if (j < keys) {
            GLOBAL const storage *from = t->k + row_address(args->k, batch, key + j, head_kv);
            for (int d = 0; d < args->head_dim; d++) column[d * PANEL] = widen(from[d]);
        } else {
            for (int d = 0; d < args->head_dim; d++) column[d * PANEL] = 0.0f;
        }
    }

    to = v_panels(args, t, batch, head_kv) + (int64)key * PANEL;
    for (int j = 0; j < keys; j++) {
        GLOBAL const storage *from = t->v + row_address(args->v, batch, key + j, head_kv);
        for (int first = 0; first < args->head_dim_v; first += PANEL) {
            GLOBAL float *row = to + (int64)first * args->seqlen_k + j * PANEL;
            const int columns = args->head_dim_v - first < PANEL ? args->head_dim_v - first : PANEL;
            for (int c = 0; c < columns; c++) row[c] = widen(from[first + c]);
            for (int c = columns; c < PANEL; c++) row[c] = 0.0f;
        }
    }
}

/* The micro-kernel: sum[r][c] += Σ_i left[r · stride + i] · panel[i][c], i in increasing order. */
INLINE void panel_multiply(vec sum[ROWS][PANEL_VECS], const float *left, int stride, GLOBAL const float *panel, int depth)
{
    UNROLL_BY(4) for (int i = 0; i < depth; i++) {
        vec right[PANEL_VECS];
        UNROLL for (int c = 0; c < PANEL_VECS; c++) right[c] = vec_load(panel + i * PANEL + c * LANES);
        UNROLL for (int r = 0; r < ROWS; r++) {
            const vec x = vec_set(left[r * stride + i]);
            UNROLL for (int c = 0; c < PANEL_VECS; c++) sum[r][c] = vec_fma(x, right[c], sum[r][c]);
        }
    }
}

/* Rows beyond the last are 0. */
INLINE void query_load(query_tile *q, tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at)
{
    for (int r = 0; r < BLOCK_Q; r++) {
        const int row = r < at->rows ? r : 0;
        GLOBAL const storage *from = t->q + row_address(args->q, at->batch, at->query + row, at->head);
        for (int d = 0; d < args->head_dim; d++) q->at[r][d] = row == r ? widen(from[d]) : 0.0f;
    }
}

INLINE void rows_clear(row_state *rows)
{
    for (int r = 0; r < BLOCK_Q; r++) {
        rows->m[r] = -F32_INFINITY;
        for (int c = 0; c < SUM_VECS; c++) rows->l[r][c] = vec_set(0.0f);
    }
}

INLINE void output_clear(output_tile *o)
{
    for (int r = 0; r < BLOCK_Q; r++)
        for (int d = 0; d < OUTPUT_WIDTH; d += LANES) vec_store(o->at[r] + d, vec_set(0.0f));
}

/* Panels are read where they lie. */
INLINE void keys_stage(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int key) {}
INLINE void values_stage(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int key) {}

INLINE void scores_multiply(score_tile *s, const query_tile *q, const attune_forward_args *args, const tensors *t, const block *at,
                            int key)
{
    const int keys = at->keys_seen - key < BLOCK_K ? at->keys_seen - key : BLOCK_K;
    const vec scale = vec_set(args->scale_log2);
    GLOBAL const float *panel = k_panels(args, t, at->batch, at->head_kv) + (int64)key * args->head_dim;
    s->width = UP_TO_MULTIPLE(keys, 16);
    for (int first = 0; first < keys; first += PANEL, panel += PANEL * args->head_dim)
        for (int top = 0; top < BLOCK_Q; top += ROWS) {
            vec sum[ROWS][PANEL_VECS];
            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int c = 0; c < PANEL_VECS; c++) sum[r][c] = vec_set(0.0f);
            panel_multiply(sum, q->at[top], HEAD_DIM, panel, args->head_dim);
            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int c = 0; c < PANEL_VECS; c++)
                    vec_store(s->at[top + r] + first + c * LANES, vec_mul(sum[r][c], scale));
        }
}

INLINE void scores_hide(score_tile *s, const attune_forward_args *args, const block *at, int key)
{
    for (int r = 0; r < BLOCK_Q; r++)
        for (int j = keys_visible(args, at, r, key); j < s->width; j++) s->at[r][j] = -F32_INFINITY;
}

INLINE void rows_update(row_state *rows, const score_tile *s, const attune_forward_args *args, const tensors *t)
{
    for (int r = 0; r < BLOCK_Q; r++) {
        vec top = vec_load(s->at[r]);
        for (int j = LANES; j < s->width; j += LANES) top = vec_max(top, vec_load(s->at[r] + j));
        const float m = max_f32(rows->m[r], ceil_f32(vec_max_lanes(top)));
        rows->rescale[r] = exp2_integer(rows->m[r] - finite_max(m));
        rows->m[r] = m;
    }
}

INLINE void output_rescale(output_tile *o, const row_state *rows)
{
    for (int r = 0; r < BLOCK_Q; r++)
        if (rows->rescale[r] != 1.0f) {
            const vec rescale = vec_set(rows->rescale[r]);
            for (int d = 0; d < OUTPUT_WIDTH; d += LANES) vec_store(o->at[r] + d, vec_mul(vec_load(o->at[r] + d), rescale));
        }
}

/* `weight` (canonical arithmetic) on vectors. */
INLINE void scores_exponentiate(score_tile *s, row_state *rows, const attune_forward_args *args, const tensors *t)
{
    for (int r = 0; r < BLOCK_Q; r++) {
        const vec m = vec_set(finite_max(rows->m[r])), rescale = vec_set(rows->rescale[r]);
        vec l[SUM_VECS];
        UNROLL for (int c = 0; c < SUM_VECS; c++) l[c] = vec_mul(rows->l[r][c], rescale);
        for (int j = 0; j < s->width; j += 16)
            UNROLL for (int c = 0; c < SUM_VECS; c++) {
                const vec score = vec_load(s->at[r] + j + c * LANES), n = vec_rint(score), x = vec_sub(score, n);
                const vec p = vec_scale(EXP2_FRACTION(vec_fma, vec_set, x), vec_sub(n, m));
                vec_store(s->at[r] + j + c * LANES, p);
                l[c] = vec_add(l[c], p);
            }
        UNROLL for (int c = 0; c < SUM_VECS; c++) rows->l[r][c] = l[c];
    }
}

/* The keys that all rows of a micro-kernel see go through the panel loop; what a later row sees beyond them is added row by row, so that a
 * hidden value is never touched. */
INLINE void output_accumulate(output_tile *o, const score_tile *s, const attune_forward_args *args, const tensors *t, const block *at,
                              int key)
{
    GLOBAL const float *panel = v_panels(args, t, at->batch, at->head_kv) + (int64)key * PANEL;
    for (int first = 0; first < args->head_dim_v; first += PANEL, panel += (int64)PANEL * args->seqlen_k)
        for (int top = 0; top < BLOCK_Q; top += ROWS) {
            const int common = keys_visible(args, at, top, key);
            vec sum[ROWS][PANEL_VECS];
            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int c = 0; c < PANEL_VECS; c++) sum[r][c] = vec_load(o->at[top + r] + first + c * LANES);
            panel_multiply(sum, s->at[top], BLOCK_K, panel, common);
            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int c = 0; c < PANEL_VECS; c++) vec_store(o->at[top + r] + first + c * LANES, sum[r][c]);
            for (int r = top + 1; r < top + ROWS; r++)
                for (int j = common; j < keys_visible(args, at, r, key); j++)
                    for (int d = 0; d < PANEL; d += LANES) {
                        const vec sum_d = vec_load(o->at[r] + first + d);
                        vec_store(o->at[r] + first + d, vec_fma(vec_set(s->at[r][j]), vec_load(panel + j * PANEL + d), sum_d));
                    }
        }
}

/* Nothing is shared, so nothing needs to be gathered. */
INLINE void rows_finish(row_state *rows, const tensors *t) {}

INLINE float row_sum(const row_state *rows, int r)
{
    float l[16];
    for (int c = 0; c < SUM_VECS; c++) vec_store(l + c * LANES, rows->l[r][c]);
    return sum_of_16(l);
}

INLINE void output_store(const output_tile *o, const row_state *rows, const attune_forward_args *args, const tensors *t, const block *at)
{
    for (int r = 0; r < at->rows; r++) {
        GLOBAL storage *to = t->o + row_address(args->o, at->batch, at->query + r, at->head);
        const float l = row_sum(rows, r), inverse = reciprocal(l);
        for (int d = 0; d < args->head_dim_v; d++) to[d] = narrow(l == 0.0f ? 0.0f : quotient(o->at[r][d], l, inverse));
    }
}

INLINE void lse_store(const row_state *rows, const attune_forward_args *args, const tensors *t, const block *at)
{
    for (int r = 0; r < at->rows; r++) {
        const float l = row_sum(rows, r);
        t->lse[lse_address(args, at, r)] = l == 0.0f ? -F32_INFINITY : log_scaled(l, rows->m[r]);
    }
}

/* ---- algorithm: forward ---- */

/* FlashAttention forward: one block of queries against every key that it may see, one tile of keys at a time.
 *
 *     s = scale · q kᵀ      m = max(m, ⌈max s⌉)      p = 2^(s - m)      l = Σ p      o = Σ p v      out = o / l      lse = ln Σ e^s
 *
 * Whenever m rises, what l and o hold so far is rescaled by a power of two. */
INLINE void forward(const attune_forward_args *args, const tensors *t, int64 group)
{
    const block at = block_locate(args, group);
    query_tile q;
    tile_flight flight;
    score_tile s;
    output_tile o;
    row_state rows;

    query_load(&q, &flight, args, t, &at);
    rows_clear(&rows);
    output_clear(&o);

    for (int key = 0; key < at.keys_seen; key += BLOCK_K) {
        keys_stage(&flight, args, t, &at, key);
        scores_multiply(&s, &q, args, t, &at, key);
        if (key + BLOCK_K > at.keys_common)
            scores_hide(&s, args, &at, key);

        rows_update(&rows, &s, args, t);
        output_rescale(&o, &rows);
        scores_exponentiate(&s, &rows, args, t);

        values_stage(&flight, args, t, &at, key);
        output_accumulate(&o, &s, args, t, &at, key);
    }

    rows_finish(&rows, t);
    output_store(&o, &rows, args, t, &at);
    if (args->return_lse)
        lse_store(&rows, args, t, &at);
}

/* ---- end of algorithm ---- */

KERNEL_ENTRY(PACK_NAME, pack)
KERNEL_ENTRY(KERNEL_NAME, forward)
