/* forward_f16_d64_simt_q32k32t128 for emulated (emulated), rendered from templates/: change it there. */

#define KERNEL_NAME emulated_forward_f16_d64_simt_q32k32t128
#define STORAGE f16
#define HEAD_DIM 64
#define BLOCK_Q 32
#define BLOCK_K 32
#define THREADS 128
#define FAST_MEMORY 22016

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

/* Dialect of the emulated GPU: C (GCC or Clang) on instructions that backends/emulated answers. Words that touch shared memory are macros, so that
 * what is said of them names the line where they are used. Compile with -fsanitize=thread, which announces every other access. */
#include "emulated/instructions.h"

#include <stdint.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define GLOBAL
#define LOCAL
/* by eight at most: kernels stay small and are built fast */
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL _Pragma("unroll 8")
#define UNROLL_BY(n) PRAGMA(unroll n)
#else
#define UNROLL _Pragma("GCC unroll 8")
#define UNROLL_BY(n) PRAGMA(GCC unroll n)
#endif
#define F32_INFINITY __builtin_inff()

typedef int64_t int64;

INLINE unsigned f32_to_bits(float x)
{
    const union { float number; unsigned bits; } either = {.number = x};
    return either.bits;
}

INLINE float bits_to_f32(unsigned bits)
{
    const union { unsigned bits; float number; } either = {.bits = bits};
    return either.number;
}

#define fma_f32(a, b, c) __builtin_fmaf(a, b, c)
INLINE float max_f32(float a, float b) { return a > b ? a : b; }
#define ceil_f32(x) __builtin_ceilf(x)
#define rint_f32(x) __builtin_rintf(x)
#define widen_f16(h) widen_f16_bits(h)

/* ---- work-items of a group ---- */

#define THREAD emulated_thread()
#define BARRIER() emulated_barrier(__LINE__)

#define ADDRESS(p) ((int64)(uintptr_t)(p))

/* 16 or 8 bytes, aligned in the device's memory as the device asks for, in a work-item's registers like floats. */
typedef unsigned wide __attribute__((vector_size(16), may_alias));
typedef unsigned half_wide __attribute__((vector_size(8), may_alias));
typedef wide wide_register __attribute__((aligned(4)));
typedef half_wide half_wide_register __attribute__((aligned(4)));

#define quad_load(x, p) ((void)(*(wide_register *)(x) = *(const wide *)(p)))
#define quad_store(p, x) ((void)(*(wide *)(p) = *(const wide_register *)(x)))
#define pair_load(x, p) ((void)(*(half_wide_register *)(x) = *(const half_wide *)(p)))
#define pair_store(p, x) ((void)(*(half_wide *)(p) = *(const half_wide_register *)(x)))
#define words_load(x, p) quad_load(x, p)
#define words_store(p, x) quad_store(p, x)

/* ---- lanes of a warp or wave ---- */

#define UNIT_BARRIER() emulated_warp_barrier(__LINE__)
#define lane_xor(x, mask) emulated_shuffle_xor(x, mask, __LINE__)

/* ---- what all matrix units share ---- */

typedef unsigned fast_at;
#define FAST_AT(p) emulated_shared_place(p)
#define local_words_load(x, p) quad_load(x, p)
#define local_words_store(p, x) quad_store(p, x)

#define pair_pack(a, b) ((unsigned)narrow(a) | (unsigned)narrow(b) << 16)
#define low_halves(a, b) (((a)&0xffffu) | (b) << 16)
#define high_halves(a, b) ((a) >> 16 | ((b)&0xffff0000u))
#define exp2_fast(x) emulated_exp2(x)

#define unhoisted(x) (x)
#define LOADS_STAY() ((void)0)

/* ---- entry ---- */

/* One work-item. */
#define KERNEL_ENTRY(name, function)                                                                                          \
    void name(const attune_forward_args *args, const void *q, const void *k, const void *v, void *o, float *lse,              \
              float *workspace, int64_t group);                                                                               \
    void name(const attune_forward_args *args, const void *q, const void *k, const void *v, void *o, float *lse,              \
              float *workspace, int64_t group)                                                                                \
    {                                                                                                                         \
        const attune_forward_args own = *args;                                                                                \
        const tensors t = {                                                                                                   \
            .q = q, .k = k, .v = v, .o = o, .lse = lse, .workspace = workspace, .fast = emulated_shared()};                   \
        function(&own, &t, group);                                                                                            \
    }

/* What `simt` asks of lanes that exchange registers (the dialect before this spells lane_xor): x[i] becomes the max, or the canonical sum (halves
 * first), of the x[i] of the 16 lanes of this side of 32 work-items, for i < ROWS, in four exchanges. */
INLINE float sum_of_2(float a, float b) { return a + b; }

#define LANES_REDUCE(x, REDUCE)                                                                                               \
    UNROLL for (int i = 0; i < ROWS; i++)                                                                                     \
        UNROLL for (int mask = 16; mask > 1; mask /= 2) (x)[i] = REDUCE((x)[i], lane_xor((x)[i], mask))
#define LANES_MAX(x, scratch) LANES_REDUCE(x, max_f32)
#define LANES_SUM(x, scratch) LANES_REDUCE(x, sum_of_2)

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

/* Tensors are read and written in chunks of 16 bytes where they are aligned to them. */

#define CHUNK ((int)(16 / sizeof(storage))) /* elements */
#define CHUNKS (HEAD_DIM / CHUNK)           /* of a row */

INLINE int in_chunks(GLOBAL const storage *p, int64 stride)
{
    return (ADDRESS(p) | stride * (int64)sizeof(storage)) % 16 == 0;
}

INLINE void chunk_unpack(float *x, const unsigned *words)
{
    UNROLL for (int i = 0; i < 4; i++)
        if (CHUNK == 4) {
            x[i] = bits_to_f32(words[i]);
        } else {
            x[2 * i] = widen((storage)(words[i] & 0xffffu));
            x[2 * i + 1] = widen((storage)(words[i] >> 16));
        }
}

INLINE void chunk_pack(unsigned *words, const float *x)
{
    UNROLL for (int i = 0; i < 4; i++)
        words[i] = CHUNK == 4 ? f32_to_bits(x[i]) : (unsigned)narrow(x[2 * i]) | (unsigned)narrow(x[2 * i + 1]) << 16;
}

/* Engine `simt`: a group of THREADS work-items shares a block of queries. 32 neighbours work on 2 · ROWS of its rows: work-item n of them on the
 * rows of side n mod 2, where it is lane n / 2. Lane c owns the tile's keys j with j mod 16 = c (scores, and its partial sum of l) and DIMS
 * dimensions of the output. Q, K or V, and P lie in local memory as floats (fast_tiles).
 *
 * Everything there moves four floats at a time. Rows are padded by four floats and the rows of the two sides lie four apart, so that the
 * 16-byte words that neighbours ask for at once are the same or on different banks. */

#define ROWS (BLOCK_Q / (THREADS / 16))
#define KEYS (BLOCK_K / 16)
#define DIMS (HEAD_DIM / 16)
#define TILE_WIDTH (HEAD_DIM + 4)
#define SCORE_WIDTH (BLOCK_K + 4)

#define LANE (THREAD / 2 % 16)
/* ROWS is a power of two. A side's rows come in runs of SIDE_ROWS; row r of this work-item is FIRST_ROW + ROW(r) of the block. */
#define SIDE_ROWS (ROWS < 4 ? ROWS : 4)
#define FIRST_ROW (THREAD / 32 * (2 * ROWS) + THREAD % 2 * SIDE_ROWS)
#define ROW(r) ((r) / SIDE_ROWS * (2 * SIDE_ROWS) + (r) % SIDE_ROWS)

/* A lane's dimensions come in runs of SPAN; the one at place i is DIM(i). */
#define SPAN (HEAD_DIM % 64 == 0 ? 4 : 2)
#define DIM(i) (((i) / SPAN * 16 + LANE) * SPAN + (i) % SPAN)

typedef struct fast_tiles {
    float q[BLOCK_Q][TILE_WIDTH];
    float keys[BLOCK_K][TILE_WIDTH]; /* then values */
    float p[BLOCK_Q][SCORE_WIDTH];   /* between tiles scratch of the lane reductions */
} fast_tiles;
typedef char fast_memory_is_what_the_spec_says[sizeof(fast_tiles) == FAST_MEMORY ? 1 : -1];

typedef struct query_tile {
    LOCAL const float *rows; /* from the work-item's first */
} query_tile;

typedef char tile_flight; /* none */

typedef struct score_tile {
    float at[ROWS][KEYS];
} score_tile;

typedef struct output_tile {
    float at[ROWS][DIMS];
} output_tile;

typedef struct row_state {
    float m[ROWS];       /* running max in log2 units, an integer or -inf; the same on all 16 lanes */
    float rescale[ROWS]; /* 2^(old m - new m) */
    float l[ROWS];       /* this lane's partial sum of p; after rows_finish the row's sum */
} row_state;

INLINE LOCAL float *fast_keys(const tensors *t) { return ((LOCAL fast_tiles *)t->fast)->keys[0]; }
INLINE LOCAL float *fast_scores(const tensors *t) { return ((LOCAL fast_tiles *)t->fast)->p[0]; }

/* ---- between tensors and tiles ---- */

/* Chunk i of a tile is chunk_dim / CHUNK of row chunk_row. A chunk of 8 floats fills two words of local memory, so every other four go to the next
 * row, where their words are on the banks that the first four leave free. */
INLINE int chunk_row(unsigned i) { return (int)(CHUNK == 8 ? i / (2 * CHUNKS) * 2 + i / 4 % 2 : i / CHUNKS); }
INLINE int chunk_dim(unsigned i) { return (int)(CHUNK == 8 ? i % 4 + i / 8 % (CHUNKS / 4) * 4 : i % CHUNKS) * CHUNK; }

/* Copies `rows` rows of `dims` elements, `stride` apart, into a tile of `height` rows; what lies beyond is 0. */
INLINE void tile_load(LOCAL float *tile, int height, GLOBAL const storage *from, int64 stride, int rows, int dims)
{
    if (in_chunks(from, stride) && dims % CHUNK == 0) {
        UNROLL_BY(4) for (unsigned i = (unsigned)THREAD; i < (unsigned)height * CHUNKS; i += THREADS) {
            const int r = chunk_row(i), d = chunk_dim(i);
            float x[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            if (r < rows && d < dims) {
                unsigned words[4];
                words_load(words, from + r * stride + d);
                chunk_unpack(x, words);
            }
            UNROLL for (int c = 0; c < CHUNK; c += 4) quad_store(tile + r * TILE_WIDTH + d + c, x + c);
        }
    } else {
        for (int i = THREAD; i < height * HEAD_DIM; i += THREADS) {
            const int r = i / HEAD_DIM, d = i % HEAD_DIM;
            tile[r * TILE_WIDTH + d] = r < rows && d < dims ? widen(from[r * stride + d]) : 0.0f;
        }
    }
}

/* The reverse, without what lies beyond. */
INLINE void tile_store(GLOBAL storage *to, int64 stride, int rows, int dims, LOCAL const float *tile)
{
    if (in_chunks(to, stride) && dims % CHUNK == 0) {
        for (unsigned i = (unsigned)THREAD; i < BLOCK_Q * CHUNKS; i += THREADS) {
            const int r = chunk_row(i), d = chunk_dim(i);
            float x[8];
            UNROLL for (int c = 0; c < CHUNK; c += 4) quad_load(x + c, tile + r * TILE_WIDTH + d + c);
            if (r < rows && d < dims) {
                unsigned words[4];
                chunk_pack(words, x);
                words_store(to + r * stride + d, words);
            }
        }
    } else {
        for (int i = THREAD; i < rows * HEAD_DIM; i += THREADS) {
            const int r = i / HEAD_DIM, d = i % HEAD_DIM;
            if (d < dims) to[r * stride + d] = narrow(tile[r * TILE_WIDTH + d]);
        }
    }
}

/* ---- primitives ---- */

/* Others may read it only after keys_stage. */
INLINE void query_load(query_tile *q, tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at)
{
    tile_load(t->fast, BLOCK_Q, t->q + row_address(args->q, at->batch, at->query, at->head), args->q.seq, at->rows, args->head_dim);
    q->rows = t->fast + FIRST_ROW * TILE_WIDTH;
}

INLINE void rows_clear(row_state *rows)
{
    UNROLL for (int r = 0; r < ROWS; r++) {
        rows->m[r] = -F32_INFINITY;
        rows->l[r] = 0.0f;
    }
}

INLINE void output_clear(output_tile *o)
{
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int d = 0; d < DIMS; d++) o->at[r][d] = 0.0f;
}

INLINE void keys_stage(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int key)
{
    BARRIER(); /* the previous tile's values and probabilities have been read */
    tile_load(fast_keys(t), BLOCK_K, t->k + row_address(args->k, at->batch, key, at->head_kv), args->k.seq, args->seqlen_k - key,
              args->head_dim);
    BARRIER();
}

INLINE void values_stage(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int key)
{
    BARRIER(); /* the keys have been read */
    tile_load(fast_keys(t), BLOCK_K, t->v + row_address(args->v, at->batch, key, at->head_kv), args->v.seq, args->seqlen_k - key,
              args->head_dim_v);
    BARRIER();
}

INLINE void scores_multiply(score_tile *s, const query_tile *q, const attune_forward_args *args, const tensors *t, const block *at,
                            int key)
{
    LOCAL const float *keys = fast_keys(t) + LANE * TILE_WIDTH;
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int c = 0; c < KEYS; c++) s->at[r][c] = 0.0f;
    /* beyond head_dim both are 0 */
    for (int d = 0; d < args->head_dim; d += 4) {
        float right[KEYS][4];
        UNROLL for (int c = 0; c < KEYS; c++) quad_load(right[c], keys + c * 16 * TILE_WIDTH + d);
        UNROLL for (int r = 0; r < ROWS; r++) {
            float left[4];
            quad_load(left, q->rows + ROW(r) * TILE_WIDTH + d);
            UNROLL for (int i = 0; i < 4; i++)
                UNROLL for (int c = 0; c < KEYS; c++) s->at[r][c] = fma_f32(left[i], right[c][i], s->at[r][c]);
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int c = 0; c < KEYS; c++) s->at[r][c] = s->at[r][c] * args->scale_log2;
}

INLINE void scores_hide(score_tile *s, const attune_forward_args *args, const block *at, int key)
{
    UNROLL for (int r = 0; r < ROWS; r++) {
        const int visible = keys_visible(args, at, FIRST_ROW + ROW(r), key);
        UNROLL for (int c = 0; c < KEYS; c++)
            if (c * 16 + LANE >= visible) s->at[r][c] = -F32_INFINITY;
    }
}

INLINE void rows_update(row_state *rows, const score_tile *s, const attune_forward_args *args, const tensors *t)
{
    float top[ROWS];
    UNROLL for (int r = 0; r < ROWS; r++) {
        top[r] = s->at[r][0];
        UNROLL for (int c = 1; c < KEYS; c++) top[r] = max_f32(top[r], s->at[r][c]);
    }
    LANES_MAX(top, fast_scores(t));
    UNROLL for (int r = 0; r < ROWS; r++) {
        const float m = max_f32(rows->m[r], ceil_f32(top[r]));
        rows->rescale[r] = exp2_integer(rows->m[r] - finite_max(m));
        rows->m[r] = m;
    }
}

INLINE void output_rescale(output_tile *o, const row_state *rows)
{
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int d = 0; d < DIMS; d++) o->at[r][d] = o->at[r][d] * rows->rescale[r];
}

/* The probabilities go to local memory too, where the whole row's lanes read them. */
INLINE void scores_exponentiate(score_tile *s, row_state *rows, const attune_forward_args *args, const tensors *t)
{
    LOCAL float *p = fast_scores(t) + FIRST_ROW * SCORE_WIDTH + LANE;
    UNROLL for (int r = 0; r < ROWS; r++) {
        const float m = finite_max(rows->m[r]);
        float l = rows->l[r] * rows->rescale[r];
        UNROLL for (int c = 0; c < KEYS; c++) {
            s->at[r][c] = weight(s->at[r][c], m);
            l = l + s->at[r][c];
            p[ROW(r) * SCORE_WIDTH + c * 16] = s->at[r][c];
        }
        rows->l[r] = l;
    }
}

/* The lane's dimensions of a row. */
INLINE void dims_load(float *x, LOCAL const float *row)
{
    UNROLL for (int i = 0; i < DIMS; i += SPAN)
        if (SPAN == 4)
            quad_load(x + i, row + DIM(i));
        else
            pair_load(x + i, row + DIM(i));
}

INLINE void dims_store(LOCAL float *row, const float *x)
{
    UNROLL for (int i = 0; i < DIMS; i += SPAN)
        if (SPAN == 4)
            quad_store(row + DIM(i), x + i);
        else
            pair_store(row + DIM(i), x + i);
}

/* The keys that all rows see, by fours, then what is left of them and those that only later rows see: a hidden value is never touched. */
INLINE void output_accumulate(output_tile *o, const score_tile *s, const attune_forward_args *args, const tensors *t, const block *at,
                              int key)
{
    LOCAL const float *p = fast_scores(t) + FIRST_ROW * SCORE_WIDTH, *v = fast_keys(t);
    const int common = keys_visible(args, at, 0, key) / 4 * 4, seen = keys_visible(args, at, BLOCK_Q - 1, key);
    for (int j = 0; j < common; j += 4) {
        float left[ROWS][4];
        UNROLL for (int r = 0; r < ROWS; r++) quad_load(left[r], p + ROW(r) * SCORE_WIDTH + j);
        UNROLL for (int i = 0; i < 4; i++) {
            float right[DIMS];
            dims_load(right, v + (j + i) * TILE_WIDTH);
            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int d = 0; d < DIMS; d++) o->at[r][d] = fma_f32(left[r][i], right[d], o->at[r][d]);
        }
    }
    for (int j = common; j < seen; j++) {
        float right[DIMS];
        dims_load(right, v + j * TILE_WIDTH);
        UNROLL for (int r = 0; r < ROWS; r++)
            if (j < keys_visible(args, at, FIRST_ROW + ROW(r), key))
                UNROLL for (int d = 0; d < DIMS; d++) o->at[r][d] = fma_f32(p[ROW(r) * SCORE_WIDTH + j], right[d], o->at[r][d]);
    }
}

INLINE void rows_finish(row_state *rows, const tensors *t)
{
    BARRIER(); /* the last probabilities have been read */
    LANES_SUM(rows->l, fast_scores(t));
}

/* By way of the place of Q. */
INLINE void output_store(const output_tile *o, const row_state *rows, const attune_forward_args *args, const tensors *t, const block *at)
{
    LOCAL float *out = t->fast + FIRST_ROW * TILE_WIDTH;
    UNROLL for (int r = 0; r < ROWS; r++) {
        const float l = rows->l[r], inverse = reciprocal(l);
        float x[DIMS];
        UNROLL for (int d = 0; d < DIMS; d++) x[d] = l == 0.0f ? 0.0f : quotient(o->at[r][d], l, inverse);
        dims_store(out + ROW(r) * TILE_WIDTH, x);
    }
    BARRIER();
    tile_store(t->o + row_address(args->o, at->batch, at->query, at->head), args->o.seq, at->rows, args->head_dim_v, t->fast);
}

INLINE void lse_store(const row_state *rows, const attune_forward_args *args, const tensors *t, const block *at)
{
    if (LANE == 0)
        UNROLL for (int r = 0; r < ROWS; r++)
            if (FIRST_ROW + ROW(r) < at->rows)
                t->lse[lse_address(args, at, FIRST_ROW + ROW(r))] =
                    rows->l[r] == 0.0f ? -F32_INFINITY : log_scaled(rows->l[r], rows->m[r]);
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

KERNEL_ENTRY(KERNEL_NAME, forward)
