/* forward_f16_d128_matrix_q128k64t256b2h1r1u1 for hip (hip), rendered from templates/: change it there. */

#define KERNEL_NAME forward_f16_d128_matrix_q128k64t256b2h1r1u1
#define STORAGE f16
#define HEAD_DIM 128
#define BLOCK_Q 128
#define BLOCK_K 64
#define THREADS 256
#define BUFFERS 2
#define HOLD 1
#define REPRODUCIBLE 1
#define UNIT 1
#define FAST_MEMORY 32768
#define ROW_TILES 1
#define ROW_BYTES 256
#define WIDE 8
#define QUERY_BYTES 32768
#define RING_BYTES 32768
#define RING_AT 0
#define TILES_END 32768
#define STALE 7
#define P_SCALE 15
#define GRID_BITS 13

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

/* Matrix unit mfma_32x32x8: in one step 32 rows and 32 columns meet over a depth of 16. AMD Instinct MI200 and MI300 ISA, "Matrix Arithmetic Instructions": V_MFMA_F32_32X32X8_F16, ..._32X32X8_BF16_1K. */
/* its instruction for the storage type: a dialect's word, or the middle of one */
#define UNIT_INSTRUCTION CONCAT(mfma_32x32x8_, STORAGE)
#define UNIT_LANES 64
#define UNIT_LANE (THREAD % UNIT_LANES) /* of this work-item among those that act together */
#define UNIT_ROWS 32
#define UNIT_COLUMNS 32
#define UNIT_DEPTH 16
#define UNIT_INSTRUCTIONS 2
/* words of a lane: sums, operand of rows, operand of columns; lanes that hold each element of an operand of rows */
#define UNIT_ACCUMULATORS 16
#define UNIT_ROW_WORDS 4
#define UNIT_COLUMN_WORDS 4
#define UNIT_COPIES 1
/* a lane's sum r is of row UNIT_ROW(UNIT_SLOT(r)) and column UNIT_COLUMN(r); the lanes of a row differ by the bits from one mask to the other */
#define UNIT_SLOTS 1
#define UNIT_SLOT(r) (0)
#define UNIT_ROW(slot) (UNIT_LANE % 32)
#define UNIT_COLUMN(r) (UNIT_LANE / 32 * 4 + (r) / 4 * 8 + (r) % 4)
#define UNIT_FIRST_MASK 32
#define UNIT_LAST_MASK 32
/* word i of a lane's operand of the second product comes from its sum UNIT_P(i), or that and the next */
#define UNIT_P(i) (2 * (i))
/* row and 16-byte chunk of it that a lane names to load a step's operand; column tiles that one load serves */
#define UNIT_QUERY_ROW (UNIT_LANE % 32)
#define UNIT_QUERY_CHUNK (UNIT_LANE / 32)
#define UNIT_KEYS_ROW (UNIT_LANE % 32)
#define UNIT_KEYS_CHUNK (UNIT_LANE / 32)
#define UNIT_VALUES_ROW (UNIT_LANE / 32 * 4)
#define UNIT_VALUES_CHUNK (UNIT_LANE % 32 / 4)
#define UNIT_KEY_TILES 1
#define UNIT_VALUE_TILES 2
/* V is loaded transposed, or word by word: element x of a column is of key UNIT_VALUES_ROW + UNIT_VALUES_KEY(x) */
#define UNIT_VALUES_TRANSPOSED 0
#define UNIT_VALUES_KEY(x) ((x) / 4 * 8 + (x) % 4)
#define UNIT_VALUES_BYTE (UNIT_LANE % 4 * 4)
/* tiles fly to local memory by themselves, not by way of registers */
#define UNIT_ASYNC_COPIES 0

/* Dialect HIP C++ (clang, hipRTC; no header, so the compiler's own attributes and built-ins): qualifiers, scalar words, work-items, entry.
 * Compile with -ffp-contract=off: every fused operation is written out. */
#define ATTUNE_ABI_INT32 int
#define ATTUNE_ABI_INT64 long

#define INLINE static __attribute__((device, always_inline)) inline
#define GLOBAL
#define LOCAL
#define PRAGMA(text) _Pragma(#text)
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) PRAGMA(unroll n)
#define F32_INFINITY __builtin_inff()

typedef long int64;

#define f32_to_bits(x) __builtin_bit_cast(unsigned, (float)(x))
#define bits_to_f32(x) __builtin_bit_cast(float, (unsigned)(x))
#define fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#define max_f32(a, b) __builtin_fmaxf(a, b)
#define ceil_f32(x) __builtin_ceilf(x)
#define rint_f32(x) __builtin_rintf(x)
#define widen_f16(h) ((float)__builtin_bit_cast(_Float16, (unsigned short)(h)))

/* ---- work-items of a group ---- */

#define THREAD ((int)__builtin_amdgcn_workitem_id_x())
/* Of local memory alone, where the compiler lets a fence say so: global memory is then neither waited for nor written back. */
#if __clang_major__ > 19 || __clang_major__ == 19 && __clang_minor__ > 0
#define LOCAL_FENCE(order, scope) __builtin_amdgcn_fence(order, scope, "local")
#else
#define LOCAL_FENCE(order, scope) __builtin_amdgcn_fence(order, scope)
#endif
#define FENCED(scope, barrier)                                                                                                \
    do {                                                                                                                      \
        LOCAL_FENCE(__ATOMIC_RELEASE, scope);                                                                                 \
        barrier;                                                                                                              \
        LOCAL_FENCE(__ATOMIC_ACQUIRE, scope);                                                                                 \
    } while (0)
#define BARRIER() FENCED("workgroup", __builtin_amdgcn_s_barrier())

#define ADDRESS(p) ((long)(p))

/* 16 or 8 aligned bytes of local memory, 16 of global memory */
typedef float floats2 __attribute__((ext_vector_type(2)));
typedef float floats4 __attribute__((ext_vector_type(4)));
typedef unsigned words4 __attribute__((ext_vector_type(4)));

INLINE void quad_load(float *x, const float *p)
{
    const floats4 y = *(const floats4 *)p;
    x[0] = y[0], x[1] = y[1], x[2] = y[2], x[3] = y[3];
}
INLINE void quad_store(float *p, const float *x) { *(floats4 *)p = (floats4){x[0], x[1], x[2], x[3]}; }
INLINE void pair_load(float *x, const float *p)
{
    const floats2 y = *(const floats2 *)p;
    x[0] = y[0], x[1] = y[1];
}
INLINE void pair_store(float *p, const float *x) { *(floats2 *)p = (floats2){x[0], x[1]}; }
INLINE void words_load(unsigned *x, const void *p)
{
    const words4 y = *(const words4 *)p;
    x[0] = y[0], x[1] = y[1], x[2] = y[2], x[3] = y[3];
}
INLINE void words_store(void *p, const unsigned *x) { *(words4 *)p = (words4){x[0], x[1], x[2], x[3]}; }

/* The value of x on the lane of this wave (32 or 64 wide) whose number differs by `mask`. */
INLINE float lane_xor(float x, int mask)
{
    const int lane = (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, __builtin_bit_cast(int, x)));
}

/* ---- entry ---- */

#define OCCUPANCY /* as the compiler thinks best */

#define KERNEL_ENTRY(name, function)                                                                                          \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS, THREADS) OCCUPANCY)) void name(                    \
        const attune_forward_args args, const storage *q, const storage *k, const storage *v, storage *o, float *lse,         \
        float *workspace)                                                                                                     \
    {                                                                                                                         \
        extern __attribute__((shared, aligned(16))) float fast[];                                                             \
        const tensors t = {q, k, v, o, lse, workspace, fast};                                                                 \
        function(&args, &t, args.first_group + (int64)__builtin_amdgcn_workgroup_id_x());                                     \
    }

/* What `simt` asks of lanes that exchange registers (the dialect before this spells lane_xor): x[i] becomes the max, or the canonical sum (halves
 * first), of the x[i] of the 16 lanes of this side of 32 work-items, for i < ROWS, in four exchanges. */
INLINE float sum_of_2(float a, float b) { return a + b; }

#define LANES_REDUCE(x, REDUCE)                                                                                               \
    UNROLL for (int i = 0; i < ROWS; i++)                                                                                     \
        UNROLL for (int mask = 16; mask > 1; mask /= 2) (x)[i] = REDUCE((x)[i], lane_xor((x)[i], mask))
#define LANES_MAX(x, scratch) LANES_REDUCE(x, max_f32)
#define LANES_SUM(x, scratch) LANES_REDUCE(x, sum_of_2)

/* Words of AMD's matrix units in HIP C++: MFMA on waves of 64, WMMA on waves of 32. They multiply columns by rows: a lane's sums are of one row. */
#define UNIT_BARRIER() FENCED("wavefront", __builtin_amdgcn_wave_barrier())

typedef unsigned char *fast_at;
#define FAST_AT(p) (p)

#define local_words_load(x, p) words_load(x, p)
#define local_words_store(p, x) words_store(p, x)
#define operand_load(x, p) words_load(x, p)
#define operand_load_transposed(x, p) words_load(x, p) /* no unit asks */

typedef float unit_sums __attribute__((ext_vector_type(UNIT_ACCUMULATORS)));

/* An instruction's operand: 4, 8 or 16 elements. */
#define INSTRUCTION_WORDS (UNIT_ROW_WORDS / UNIT_INSTRUCTIONS)
typedef unsigned operand_words __attribute__((ext_vector_type(INSTRUCTION_WORDS)));
typedef _Float16 operand_f16 __attribute__((ext_vector_type(2 * INSTRUCTION_WORDS)));
typedef short operand_bf16 __attribute__((ext_vector_type(2 * INSTRUCTION_WORDS)));

#define mfma_32x32x8_f16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)
#define mfma_32x32x8_bf16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0)
#define mfma_16x16x16_f16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)
#define mfma_16x16x16_bf16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0)
#define wmma_rdna3_f16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
#define wmma_rdna3_bf16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)
#define wmma_rdna4_f16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)
#define wmma_rdna4_bf16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c)

#define unit_operand CONCAT(operand_, STORAGE)

INLINE void unit_multiply(unit_sums &c, const unsigned *rows, const unsigned *columns)
{
    UNROLL for (int i = 0; i < UNIT_INSTRUCTIONS; i++) {
        operand_words a, b;
        UNROLL for (int w = 0; w < INSTRUCTION_WORDS; w++) {
            a[w] = columns[i * INSTRUCTION_WORDS + w];
            b[w] = rows[i * INSTRUCTION_WORDS + w];
        }
        c = UNIT_INSTRUCTION(__builtin_bit_cast(unit_operand, a), __builtin_bit_cast(unit_operand, b), c);
    }
}

#define pair_pack CONCAT(pair_pack_, STORAGE)
INLINE unsigned pair_pack_f16(float a, float b)
{
    typedef _Float16 pair __attribute__((ext_vector_type(2)));
    return __builtin_bit_cast(unsigned, (pair){(_Float16)a, (_Float16)b});
}
#define pair_pack_bf16(a, b) ((unsigned)narrow(a) | (unsigned)narrow(b) << 16)
/* v_perm_b32: bytes 0 to 3 are of its second operand */
#define low_halves(a, b) __builtin_amdgcn_perm(b, a, 0x05040100u)
#define high_halves(a, b) __builtin_amdgcn_perm(b, a, 0x07060302u)
#define word_round(x) (x) /* no unit of 32-bit words asks */

/* v_exp_f32 */
#if __has_builtin(__builtin_amdgcn_exp2f)
#define exp2_fast(x) __builtin_amdgcn_exp2f(x)
#else
#define exp2_fast(x) __builtin_exp2f(x)
#endif

#if UNIT_LANES == 32 && HEAD_DIM > 128
#define LOADS_STAY() __builtin_amdgcn_sched_barrier(0)
#else
#define LOADS_STAY() ((void)0)
#endif
INLINE int unhoisted(int x)
{
    asm volatile("" : "+v"(x));
    return x;
}

typedef words4 copy_flight;
#define copy_async(flight, to, from, bytes) (*(flight) = (bytes) != 0 ? *(const words4 *)(from) : (words4){0u, 0u, 0u, 0u})
#define copy_land(flight, to) ((void)(*(words4 *)(to) = *(flight)))
#define copy_commit() ((void)0)
#define COPY_WAIT(n) ((void)(n))

/* Two waves of 64 on a SIMD have 256 registers each. */
#if UNIT_LANES == 64 && ROW_TILES * UNIT_ROWS * (HEAD_DIM + BLOCK_K) / UNIT_LANES < 112
#undef OCCUPANCY
#define OCCUPANCY , amdgpu_waves_per_eu(2)
#endif

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

/* Tiles of engine `matrix` in local memory. Q, K and V lie there as they are stored, rows of 16-byte chunks, chunk c of row r at the place
 * c ^ SWIZZLE(r): eight neighbouring rows of one column of chunks are on different banks, and so are the halves of rows that are eight (where
 * rows are padded to 128 bytes, four too) apart. Tiles of K and V fly to a ring of BUFFERS places: K of a tile, its V, K of the next, and so on;
 * while one is worked on, the next BUFFERS - 1 are on their way: by themselves, or (one) in registers from which they land. */

#define ELEMENT ((int)sizeof(storage))
#define TILE_BYTES (BLOCK_K * ROW_BYTES)
#define ROW_CHUNKS (ROW_BYTES / 16) /* CHUNKS of them are of the tensor */
/* WIDE chunks are permuted among themselves; 128 bytes of rows begin every eight (four) of them. Of rows without a bit in common the swizzle of the
 * sum is SWIZZLE(a) ^ SWIZZLE(b). */
#define SWIZZLE(r) (WIDE == 8 ? (r) % 8 ^ (r) / 8 % 2 * 4 : (r) / 2 % 4)

#define UNITS (THREADS / UNIT_LANES)
/* of the unit's rows in the block */
#define FIRST_ROW (THREAD / UNIT_LANES * (ROW_TILES * UNIT_ROWS))

typedef struct fast_tiles {
    unsigned char tiles[TILES_END]; /* Q, at the end O; the ring from RING_AT on */
#if UNIT_ASYNC_COPIES
    unsigned odd_values[8]; /* of each unit of lanes; not 0: it saw a value that is infinite or NaN where some are hidden */
#endif
} fast_tiles;
typedef char fast_memory_is_what_the_spec_says[sizeof(fast_tiles) == FAST_MEMORY ? 1 : -1];

/* Copies of a work-item that make a tile of `height` rows: passes of all work-items, WIDE chunks of a row each. */
#define PASS_ROWS (THREADS / WIDE)
#define COPIES(height) ((height) / PASS_ROWS * (ROW_CHUNKS / WIDE))

/* The tile that flies to the ring. */
typedef struct tile_flight {
    copy_flight at[COPIES(BLOCK_K)];
    int any; /* 0: it has landed, or there is none */
} tile_flight;

/* ---- between tensors and tiles ---- */

INLINE LOCAL fast_tiles *fast_of(const tensors *t) { return (LOCAL fast_tiles *)t->fast; }
INLINE LOCAL unsigned char *query_at(const tensors *t) { return fast_of(t)->tiles; }
/* Place `step` of the ring: step 2n is K of tile n, 2n + 1 its V. */
INLINE LOCAL unsigned char *ring_at(const tensors *t, int step) { return fast_of(t)->tiles + RING_AT + step % BUFFERS * TILE_BYTES; }

/* The first `count` elements of a chunk, one by one; the others 0. */
INLINE void chunk_gather(unsigned *words, GLOBAL const storage *from, int count)
{
    UNROLL for (int i = 0; i < 4; i++) words[i] = 0u;
    UNROLL for (int e = 0; e < CHUNK; e++)
        if (e < count) words[e * ELEMENT / 4] |= (ELEMENT == 2 ? (unsigned)from[e] : f32_to_bits((float)from[e])) << e * ELEMENT % 4 * 8;
}

INLINE void chunk_scatter(GLOBAL storage *to, const unsigned *words, int count)
{
    UNROLL for (int e = 0; e < CHUNK; e++) {
        const unsigned word = words[e * ELEMENT / 4];
        if (e < count) to[e] = ELEMENT == 2 ? (storage)(word >> e * ELEMENT % 4 * 8 & 0xffffu) : (storage)bits_to_f32(word);
    }
}

/* A work-item reads or writes a tile at a row and chunk of its own, plus a row and bytes that are the same for all, without a bit in common. */
INLINE int lane_swizzle(int row, int chunk) { return (chunk ^ SWIZZLE(row)) * 16; }
INLINE int swizzled(int row, int byte, int swizzle)
{
    return row * ROW_BYTES + byte / (WIDE * 16) * (WIDE * 16) + (byte % (WIDE * 16) ^ swizzle ^ SWIZZLE(row) * 16);
}

/* Starts to copy `rows` rows of `dims` elements, `stride` apart, into a tile of `height` rows; what lies beyond becomes 0. 1 where it flies (to land
 * by tile_land), 0 where it is there at once. */
INLINE int tile_copy(copy_flight *flight, LOCAL unsigned char *tile, int height, GLOBAL const storage *from, int64 stride, int rows, int dims)
{
    const int thread = REPRODUCIBLE || !UNIT_ASYNC_COPIES ? unhoisted(THREAD) : THREAD; /* where registers are short */
    const int row = thread / WIDE, column = thread % WIDE;
    const int flies = in_chunks(from, stride) && (UNIT_ASYNC_COPIES || dims % CHUNK == 0);
    const int swizzle = lane_swizzle(row, column);
    LOCAL unsigned char *const to = tile + row * ROW_BYTES;
    from += row * stride + column * CHUNK;
    if (flies) {
        UNROLL for (int i = 0; i < height / PASS_ROWS; i++)
            UNROLL for (int c = 0; c < ROW_CHUNKS; c += WIDE) {
                const int left = (dims - (c + column) * CHUNK) * ELEMENT;
                const int bytes = row + i * PASS_ROWS >= rows || left < 0 ? 0 : left < 16 ? left : 16;
                copy_async(&flight[(i * ROW_CHUNKS + c) / WIDE], FAST_AT(to) + swizzled(i * PASS_ROWS, c * 16, swizzle),
                           from + (i * PASS_ROWS * stride + c * CHUNK), bytes);
            }
    } else {
        UNROLL_BY(1) for (int i = 0; i < height / PASS_ROWS; i++)
            UNROLL_BY(1) for (int c = 0; c < ROW_CHUNKS; c += WIDE) {
                unsigned words[4];
                chunk_gather(words, from + (i * PASS_ROWS * stride + c * CHUNK),
                             row + i * PASS_ROWS >= rows ? 0 : dims - (c + column) * CHUNK);
                local_words_store(to + swizzled(i * PASS_ROWS, c * 16, swizzle), words);
            }
    }
    return flies;
}

/* Puts what flies in registers into its tile. */
INLINE void tile_land(const copy_flight *flight, LOCAL unsigned char *tile, int height)
{
    const int row = THREAD / WIDE, swizzle = lane_swizzle(row, THREAD % WIDE);
    const fast_at to = FAST_AT(tile + row * ROW_BYTES);
    UNROLL for (int i = 0; i < height / PASS_ROWS; i++)
        UNROLL for (int c = 0; c < ROW_CHUNKS; c += WIDE)
            copy_land(&flight[(i * ROW_CHUNKS + c) / WIDE], to + swizzled(i * PASS_ROWS, c * 16, swizzle));
}

/* Sends the tile of a step on its way, if there is one. */
INLINE void ring_fill(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int step)
{
    const int key = step / 2 * BLOCK_K;
    flight->any = 0;
    if (key < at->keys_seen) {
        if (step % 2 == 0)
            flight->any = tile_copy(flight->at, ring_at(t, step), BLOCK_K, t->k + row_address(args->k, at->batch, key, at->head_kv),
                                    args->k.seq, args->seqlen_k - key, args->head_dim);
        else
            flight->any = tile_copy(flight->at, ring_at(t, step), BLOCK_K, t->v + row_address(args->v, at->batch, key, at->head_kv),
                                    args->v.seq, args->seqlen_k - key, args->head_dim_v);
    }
    copy_commit();
}

INLINE void ring_land(const tile_flight *flight, const tensors *t, int step)
{
    if (!UNIT_ASYNC_COPIES && flight->any) tile_land(flight->at, ring_at(t, step), BLOCK_K);
}

/* Makes the tile of a step readable; whoever read the one before is through with it, and its place is filled again. */
INLINE void ring_advance(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int step)
{
    COPY_WAIT(BUFFERS - 2);
    ring_land(flight, t, step); /* there are two places then */
    BARRIER();
    ring_fill(flight, args, t, at, step + BUFFERS - 1);
}

/* The unit's rows of a tile in the place of Q, which it has just written, without what lies beyond. */
INLINE void rows_copy_out(GLOBAL storage *to, int64 stride, int rows, int dims, LOCAL const unsigned char *tile)
{
    const int aligned = in_chunks(to, stride) && dims % CHUNK == 0;
    for (int i = UNIT_LANE; i < ROW_TILES * UNIT_ROWS * CHUNKS; i += UNIT_LANES) {
        const int row = FIRST_ROW + i / CHUNKS, c = i % CHUNKS;
        GLOBAL storage *const chunk = to + row * stride + c * CHUNK;
        unsigned words[4];
        local_words_load(words, tile + row * ROW_BYTES + (c ^ SWIZZLE(row)) * 16);
        if (row >= rows || c * CHUNK >= dims) continue;
        if (aligned)
            words_store(chunk, words);
        else
            chunk_scatter(chunk, words, dims - c * CHUNK);
    }
}

/* What the lanes of a unit hold in engine `matrix`: sums and operands, and how operands come from tiles. */

#define ROW(i, slot) (FIRST_ROW + (i) * UNIT_ROWS + UNIT_ROW(slot)) /* of the block, for row slot `slot` of row tile i */
#define SCORE_TILES (BLOCK_K / UNIT_COLUMNS)
#define OUTPUT_TILES (HEAD_DIM / UNIT_COLUMNS)
#define STEP_SUMS (UNIT_ROWS * UNIT_DEPTH / UNIT_LANES) /* sums of S that make one operand of P */
#define STEP_BYTES (UNIT_DEPTH * ELEMENT)               /* of a row, in one step of the first product */

/* Where V is loaded in words of two elements, two column tiles share them: the first has the even dimensions, the second the odd ones. Sum r of column
 * tile n is of dimension OUTPUT_DIM(n, r). */
#define SHARED_WORDS (!UNIT_VALUES_TRANSPOSED && ELEMENT == 2)
#define OUTPUT_DIM(n, r) \
    (SHARED_WORDS ? (n) / 2 * (2 * UNIT_COLUMNS) + 2 * UNIT_COLUMN(r) + (n) % 2 : (n) * UNIT_COLUMNS + UNIT_COLUMN(r))

typedef struct query_tile {
    fast_at rows; /* where this lane loads from */
#if HOLD
    unsigned held[HEAD_DIM / UNIT_DEPTH][ROW_TILES][UNIT_ROW_WORDS];
#endif
} query_tile;

typedef struct score_tile {
    unit_sums at[ROW_TILES][SCORE_TILES];
    unsigned p[ROW_TILES][BLOCK_K / UNIT_DEPTH][UNIT_ROW_WORDS]; /* then, as operands */
} score_tile;

typedef struct output_tile {
    unit_sums at[ROW_TILES][OUTPUT_TILES];
#if REPRODUCIBLE
    unit_sums l[ROW_TILES]; /* the product with ones */
#endif
} output_tile;

/* Sum n of the lane in a row tile, counted over its column tiles, and the row slot that it belongs to. */
#define SUM(tiles, n) (tiles)[(n) / UNIT_ACCUMULATORS][(n) % UNIT_ACCUMULATORS]
#define SUM_SLOT(n) UNIT_SLOT((n) % UNIT_ACCUMULATORS)

/* ---- operands ---- */

/* A unit of 32-bit words reads its own type. */
INLINE void operand_round(unsigned *x)
{
    if (ELEMENT == 4)
        UNROLL for (int i = 0; i < 4; i++) x[i] = word_round(x[i]);
}

/* A word of an operand: two elements of 16 bits, or the first. */
INLINE unsigned operand_word(float a, float b) { return ELEMENT == 2 ? pair_pack(a, b) : word_round(f32_to_bits(a)); }

/* The words of one load of Q or K. */
#define LOAD_WORDS(words) ((words) < 4 ? 4 : (words))
INLINE void row_operand(unsigned *x, fast_at from, int words, int row, int byte, int swizzle)
{
    UNROLL for (int w = 0; w < words; w += 4) {
        operand_load(x + w, from + swizzled(row, byte + w * 4, swizzle));
        operand_round(x + w);
    }
}

INLINE void query_operand(unsigned *x, const query_tile *q, int swizzle, int i, int step)
{
    row_operand(x, q->rows, UNIT_ROW_WORDS, i * UNIT_ROWS, step * STEP_BYTES, swizzle);
}

/* Element x of the lane's column, from key `key` and dimension `dim` of the tile: a word, of which another column may be the other half. */
INLINE unsigned value_word(LOCAL const unsigned char *values, int swizzle, int key, int dim, int x)
{
    return *(LOCAL const unsigned *)(values + swizzled(key + UNIT_VALUES_KEY(x), dim * ELEMENT, swizzle));
}

/* UNIT_VALUE_TILES column tiles of V, from key `key` and dimension `dim` of the tile. `values`: the lane's row and byte. */
INLINE void value_operand(unsigned *x, LOCAL unsigned char *values, int swizzle, int key, int dim)
{
    if (UNIT_VALUES_TRANSPOSED) {
        operand_load_transposed(x, FAST_AT(values) + swizzled(key, dim * ELEMENT, swizzle));
    } else if (SHARED_WORDS) {
        UNROLL for (int w = 0; w < UNIT_COLUMN_WORDS; w++) {
            const unsigned a = value_word(values, swizzle, key, dim, 2 * w), b = value_word(values, swizzle, key, dim, 2 * w + 1);
            x[w] = low_halves(a, b);
            x[w + UNIT_COLUMN_WORDS] = high_halves(a, b);
        }
    } else {
        UNROLL for (int w = 0; w < UNIT_VALUE_TILES * UNIT_COLUMN_WORDS; w++)
            x[w] = value_word(values, swizzle, key, dim + w / UNIT_COLUMN_WORDS * UNIT_COLUMNS, w % UNIT_COLUMN_WORDS);
        operand_round(x);
    }
}

/* The probabilities of step `step` as an operand. Where two lanes hold each element, sum by sum, they give each other what they have. */
INLINE void probability_operand(unsigned *x, unit_sums *p, int step)
{
    UNROLL for (int i = 0; i < UNIT_ROW_WORDS / UNIT_COPIES; i++) {
        const unsigned own = operand_word(SUM(p, step * STEP_SUMS + UNIT_P(i)), SUM(p, step * STEP_SUMS + (UNIT_P(i) + 1) % STEP_SUMS));
        if (UNIT_COPIES == 1) {
            x[i] = own;
        } else {
            const unsigned other = f32_to_bits(lane_xor(bits_to_f32(own), UNIT_FIRST_MASK));
            const int is_second = (UNIT_LANE & UNIT_FIRST_MASK) != 0;
            const unsigned a = is_second ? other : own, b = is_second ? own : other;
            x[2 * i] = low_halves(a, b);
            x[2 * i + 1] = high_halves(a, b);
        }
    }
}

/* Values that are infinite or NaN, where a mask hides some of a tile's keys from rows of engine `matrix`: 0 times what is hidden must not be NaN. They
 * are found, added to the rows that see them, and taken out of the tile. */

#define NOT_FINITE_f16(w) ((((w) & 0x7c007c00u) + 0x04000400u) & 0x80008000u)
#define NOT_FINITE_bf16(w) ((((w) & 0x7f807f80u) + 0x00800080u) & 0x80008000u)
#define NOT_FINITE_f32(w) ((((w) & 0x7f800000u) + 0x00800000u) & 0x80000000u)
#define NOT_FINITE CONCAT(NOT_FINITE_, STORAGE)

/* Whether those of a tile of V that this work-item reads, from byte `first` on, hold any; the same on all lanes of its unit. */
INLINE int odd_values_seen(LOCAL const unsigned char *values, int first, int step)
{
    float odd = 0.0f;
    UNROLL_BY(1) for (int byte = first; byte < TILE_BYTES; byte += step) {
        unsigned words[4];
        local_words_load(words, values + byte);
        if ((NOT_FINITE(words[0]) | NOT_FINITE(words[1]) | NOT_FINITE(words[2]) | NOT_FINITE(words[3])) != 0u) odd = 1.0f;
    }
    UNROLL for (int mask = 1; mask < UNIT_LANES; mask *= 2) odd = max_f32(odd, lane_xor(odd, mask));
    return odd != 0.0f;
}

/* Whether a tile of V holds any. Units share the work and tell each other; where local memory is short, each looks at all of it. */
#if UNIT_ASYNC_COPIES
INLINE void odd_values_clear(const tensors *t)
{
    if (THREAD < 8) fast_of(t)->odd_values[THREAD] = 0u;
}

INLINE int odd_values_in(const tensors *t, LOCAL const unsigned char *values)
{
    if (odd_values_seen(values, THREAD * 16, THREADS * 16) && UNIT_LANE == 0) fast_of(t)->odd_values[THREAD / UNIT_LANES] = 1u;
    BARRIER();
    unsigned any = 0u;
    UNROLL for (int i = 0; i < UNITS; i++) any |= fast_of(t)->odd_values[i];
    return any != 0u;
}
#else
#define odd_values_clear(t) ((void)0)
#define odd_values_in(t, values) odd_values_seen(values, UNIT_LANE * 16, UNIT_LANES * 16)
#endif

/* The halves of a word of V (or the word) that are finite. */
INLINE unsigned finite_part(unsigned w)
{
    const unsigned odd = NOT_FINITE(w);
    return ELEMENT == 4 ? (odd != 0u ? 0u : w) : w & ~((odd >> 15) * 0xffffu);
}

/* Makes them 0. */
INLINE void odd_values_remove(LOCAL unsigned char *values)
{
    UNROLL_BY(1) for (int byte = THREAD * 16; byte < TILE_BYTES; byte += THREADS * 16) {
        unsigned words[4];
        local_words_load(words, values + byte);
        UNROLL for (int i = 0; i < 4; i++) words[i] = finite_part(words[i]);
        local_words_store(values + byte, words);
    }
}

/* Element h of a lane's word w of P in a step: the sum that it came from, of which it has the row slot, and its key, counted from the lane's first. */
#define P_SUM(step, w, h) ((step) * STEP_SUMS + (UNIT_P(w) + (h)) % STEP_SUMS)
#define P_KEY(step, w, h)                                                                                                    \
    (UNIT_COPIES > 1 ? (step) * UNIT_DEPTH + 2 * (w) + (h)                                                                   \
                     : P_SUM(step, w, h) / UNIT_ACCUMULATORS * UNIT_COLUMNS +                                                \
                           (UNIT_COLUMN(P_SUM(step, w, h) % UNIT_ACCUMULATORS) - UNIT_COLUMN(0)))
#define P_FIRST_KEY (UNIT_COPIES > 1 ? 0 : UNIT_COLUMN(0))

/* Whether the P that enters the unit is 0 for key j, in a row slot of row tile i; its lanes hold the row's P among them. */
INLINE int probability_is_zero(const score_tile *s, int i, int slot, int j)
{
    const int key = unhoisted(j - P_FIRST_KEY);
    unsigned found = 0u;
    UNROLL for (int step = 0; step < BLOCK_K / UNIT_DEPTH; step++)
        UNROLL for (int w = 0; w < UNIT_ROW_WORDS; w++) {
            const unsigned word = (unsigned)unhoisted((int)s->p[i][step][w]); /* its halves are not kept through the loop over keys */
            UNROLL for (int h = 0; h < 4 / ELEMENT; h++)
                if (SUM_SLOT(P_SUM(step, w, h)) == slot && P_KEY(step, w, h) == key) found = ELEMENT == 4 ? word : word >> 16 * h & 0xffffu;
        }
    float any = found != 0u ? 1.0f : 0.0f;
    UNROLL for (int mask = UNIT_FIRST_MASK; mask <= UNIT_LAST_MASK; mask *= 2) any = max_f32(any, lane_xor(any, mask));
    return any == 0.0f;
}

/* What is infinite or NaN among the values is added, as itself (where P is 0, as NaN), to the rows that see it, and taken out of the tile. */
INLINE void odd_values_add(output_tile *o, const score_tile *s, const attune_forward_args *args, const block *at,
                           LOCAL unsigned char *values, int key)
{
    UNROLL_BY(1) for (int j = 0; j < BLOCK_K; j++) {
        const int dim = unhoisted(OUTPUT_DIM(0, 0));
        UNROLL for (int i = 0; i < ROW_TILES; i++)
            UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) {
                const int sees = j < keys_visible(args, at, ROW(i, slot), key), is_zero = probability_is_zero(s, i, slot, j);
                UNROLL for (int n = 0; n < OUTPUT_TILES; n++)
                    UNROLL for (int r = 0; r < UNIT_ACCUMULATORS; r++) {
                        if (UNIT_SLOT(r) != slot) continue;
                        const int byte = (dim + (OUTPUT_DIM(n, r) - OUTPUT_DIM(0, 0))) * ELEMENT;
                        const float v = widen(*(LOCAL const storage *)(values + j * ROW_BYTES + (byte ^ SWIZZLE(j) * 16)));
                        const int odd = !(v > -F32_INFINITY && v < F32_INFINITY);
                        if (odd && sees) o->at[i][n][r] = o->at[i][n][r] + (is_zero ? v - v : v);
                        LOADS_STAY();
                    }
            }
    }
    BARRIER();
    odd_values_remove(values);
    BARRIER();
}

/* Engine `matrix`: products on a matrix unit, of which the spec says what one step multiplies and which lane holds what. Units (the UNIT_LANES
 * work-items that act together) are stacked along queries: each owns ROW_TILES · UNIT_ROWS whole rows, so no row statistic leaves its lanes. Tiles
 * come by way of local memory (matrix_tiles.j2). P stays in registers: what a lane holds of the first product's sums is what it must give to the
 * second.
 *
 * Scores stay as the unit sums them; the scale is folded into the exponential. REPRODUCIBLE: a row's bits depend on its inputs and on the unit
 * alone, not on tiles, stages, the rows beside it or how queries are cut (docs/matrix-engine.md):
 *   - the running max is an integer, so every rescale is exact;
 *   - a score is rounded to a grid before the max is subtracted, so 2^(score - max) scales exactly with the max;
 *   - P is scaled by a fixed power of two, keys come in increasing order in the unit's own steps;
 *   - O is divided by the sum of the P that entered it, which the unit forms against a column of ones; LSE comes from the sum of the P before
 *     they were rounded. */

/* P is scaled by 2^P_SCALE; scores are rounded to multiples of 2^-GRID_BITS as long as they are below ON_GRID. */
#define GRID (1.5f * (1 << (23 - GRID_BITS)))
#define ON_GRID (0.5f * (1 << (23 - GRID_BITS)))
/* The usual form rescales only when the max has risen by more than STALE octaves, which P_SCALE leaves room for: P · V is not beyond V. */

typedef struct row_state {
    float m[ROW_TILES][UNIT_SLOTS]; /* in log2 units; the same on all lanes of a row */
    float rescale[ROW_TILES][UNIT_SLOTS];
    float l[ROW_TILES][UNIT_SLOTS]; /* this lane's sum of p; after rows_finish the row's */
} row_state;

INLINE void query_load(query_tile *q, tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at)
{
    copy_flight rows[COPIES(BLOCK_Q)];
    odd_values_clear(t);
    const int flies = tile_copy(rows, query_at(t), BLOCK_Q, t->q + row_address(args->q, at->batch, at->query, at->head), args->q.seq,
                                at->rows, args->head_dim);
    copy_commit();
    if (!UNIT_ASYNC_COPIES && flies) tile_land(rows, query_at(t), BLOCK_Q);
    q->rows = FAST_AT(query_at(t) + (FIRST_ROW + UNIT_QUERY_ROW) * ROW_BYTES);
    if (RING_AT > 0) UNROLL for (int step = 0; step < BUFFERS - 1; step++) ring_fill(flight, args, t, at, step);
#if HOLD
    COPY_WAIT(BUFFERS - 1);
    BARRIER();
    UNROLL for (int step = 0; step < HEAD_DIM / UNIT_DEPTH; step++)
        UNROLL for (int i = 0; i < ROW_TILES; i++) query_operand(q->held[step][i], q, lane_swizzle(UNIT_QUERY_ROW, UNIT_QUERY_CHUNK), i, step);
    if (RING_AT == 0) { /* only one tile flies, in registers */
        BARRIER();
        ring_fill(flight, args, t, at, 0);
    }
#endif
}

INLINE void rows_clear(row_state *rows)
{
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) {
            rows->m[i][slot] = -F32_INFINITY;
            rows->l[i][slot] = 0.0f;
        }
}

INLINE void output_clear(output_tile *o)
{
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int r = 0; r < UNIT_ACCUMULATORS; r++) {
            UNROLL for (int n = 0; n < OUTPUT_TILES; n++) o->at[i][n][r] = 0.0f;
#if REPRODUCIBLE
            o->l[i][r] = 0.0f;
#endif
        }
}

INLINE void keys_stage(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int key)
{
    ring_advance(flight, args, t, at, key / BLOCK_K * 2);
}

/* A score is the unit's sum; where the scale is negative its opposite, where it is 0 nothing: then SCORE_UNIT of a score is in log2 units. */
INLINE float score_unit(const attune_forward_args *args)
{
    return args->scale_log2 == 0.0f ? 1.0f : args->scale_log2 < 0.0f ? -args->scale_log2 : args->scale_log2;
}

INLINE void scores_multiply(score_tile *s, const query_tile *q, const attune_forward_args *args, const tensors *t, const block *at,
                            int key)
{
    const fast_at keys = FAST_AT(ring_at(t, key / BLOCK_K * 2) + UNIT_KEYS_ROW * ROW_BYTES);
    const int swizzle = unhoisted(lane_swizzle(UNIT_KEYS_ROW, UNIT_KEYS_CHUNK));
#if !HOLD
    const int query_swizzle = unhoisted(lane_swizzle(UNIT_QUERY_ROW, UNIT_QUERY_CHUNK));
#endif
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int n = 0; n < SCORE_TILES * UNIT_ACCUMULATORS; n++) SUM(s->at[i], n) = 0.0f;
    UNROLL for (int step = 0; step < HEAD_DIM / UNIT_DEPTH; step++) {
        unsigned left[ROW_TILES][UNIT_ROW_WORDS];
        UNROLL for (int i = 0; i < ROW_TILES; i++) {
#if HOLD
            UNROLL for (int w = 0; w < UNIT_ROW_WORDS; w++) left[i][w] = q->held[step][i][w];
#else
            query_operand(left[i], q, query_swizzle, i, step);
#endif
        }
        UNROLL for (int n = 0; n < SCORE_TILES; n += UNIT_KEY_TILES) {
            unsigned right[LOAD_WORDS(UNIT_COLUMN_WORDS)];
            row_operand(right, keys, LOAD_WORDS(UNIT_COLUMN_WORDS), n * UNIT_COLUMNS, step * STEP_BYTES, swizzle);
            UNROLL for (int i = 0; i < ROW_TILES; i++)
                UNROLL for (int c = 0; c < UNIT_KEY_TILES; c++)
                    unit_multiply(s->at[i][n + c], left[i], right + c * UNIT_COLUMN_WORDS);
        }
        LOADS_STAY();
    }
    if (!(args->scale_log2 > 0.0f)) {
        const float sign = args->scale_log2 < 0.0f ? -1.0f : 0.0f;
        UNROLL for (int i = 0; i < ROW_TILES; i++)
            UNROLL for (int n = 0; n < SCORE_TILES * UNIT_ACCUMULATORS; n++) SUM(s->at[i], n) = SUM(s->at[i], n) * sign;
    }
}

INLINE void scores_hide(score_tile *s, const attune_forward_args *args, const block *at, int key)
{
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) {
            const int visible = keys_visible(args, at, ROW(i, slot), key) - UNIT_COLUMN(0); /* from this lane's first on */
            UNROLL for (int n = 0; n < SCORE_TILES; n++)
                UNROLL for (int r = 0; r < UNIT_ACCUMULATORS; r++)
                    if (UNIT_SLOT(r) == slot && n * UNIT_COLUMNS + (UNIT_COLUMN(r) - UNIT_COLUMN(0)) >= visible)
                        s->at[i][n][r] = -F32_INFINITY;
        }
}

INLINE void rows_update(row_state *rows, const score_tile *s, const attune_forward_args *args, const tensors *t)
{
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) {
            float top = -F32_INFINITY;
            UNROLL for (int n = 0; n < SCORE_TILES * UNIT_ACCUMULATORS; n++)
                if (SUM_SLOT(n) == slot) top = max_f32(top, SUM(s->at[i], n));
            UNROLL for (int mask = UNIT_FIRST_MASK; mask <= UNIT_LAST_MASK; mask *= 2) top = max_f32(top, lane_xor(top, mask));

            const float m = rows->m[i][slot];
            top = top * score_unit(args);
#if REPRODUCIBLE
            top = ceil_f32(top);
            rows->m[i][slot] = top > m ? top : m;
            rows->rescale[i][slot] = top > m ? exp2_integer(m - top) : 1.0f;
#else
            rows->m[i][slot] = top > m + STALE ? top : m;
            rows->rescale[i][slot] = top > m + STALE ? exp2_fast(m - top) : 1.0f;
#endif
        }
}

INLINE void output_rescale(output_tile *o, const row_state *rows)
{
    int rose = 0;
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) rose |= rows->rescale[i][slot] != 1.0f;
    if (rose)
        UNROLL for (int i = 0; i < ROW_TILES; i++)
            UNROLL for (int r = 0; r < UNIT_ACCUMULATORS; r++) {
                const float rescale = rows->rescale[i][UNIT_SLOT(r)];
                UNROLL for (int n = 0; n < OUTPUT_TILES; n++) o->at[i][n][r] = o->at[i][n][r] * rescale;
#if REPRODUCIBLE
                o->l[i][r] = o->l[i][r] * rescale;
#endif
            }
}

/* The row maxes for which p is found by the short way. Reproducible: on the grid, and such that what is below the grid weighs nothing. Usual: small
 * enough for the product s · unit, which an FMA does not round, to differ little from the max, which is rounded. */
#if REPRODUCIBLE
#define LEAST_MAX (160.0f - ON_GRID)
#define MOST_MAX ON_GRID
#else
#define LEAST_MAX (-1048576.0f)
#define MOST_MAX 1048576.0f
#endif

/* log2 of p by the long way, for any finite score s · unit. Reproducible: an element on the grid goes by the grid, one beyond by its nearest integer
 * and what it differs from that by, on the same grid; whatever the row's max is. */
INLINE float general_exponent(float s, float unit, float m)
{
    const float x = s * unit, n = REPRODUCIBLE ? x > -ON_GRID && x < ON_GRID ? 0.0f : rint_f32(x) : x;
    const float rest = fma_f32(s, unit, GRID - n) - GRID;
    return n - m + P_SCALE + (REPRODUCIBLE && x > -4194304.0f && x < 4194304.0f ? rest : 0.0f);
}

INLINE void scores_exponentiate(score_tile *s, row_state *rows, const attune_forward_args *args, const tensors *t)
{
    float unit = score_unit(args), grid[ROW_TILES][UNIT_SLOTS], base[ROW_TILES][UNIT_SLOTS]; /* p = 2^(fma(s, unit, grid) - base) */
    int in_range = 1;
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) {
            const float m = finite_max(rows->m[i][slot]);
            grid[i][slot] = REPRODUCIBLE ? GRID : P_SCALE - m;
            base[i][slot] = REPRODUCIBLE ? GRID + m - P_SCALE : 0.0f;
            in_range &= m >= LEAST_MAX && m < MOST_MAX;
            rows->l[i][slot] = rows->l[i][slot] * rows->rescale[i][slot];
        }
    if (!in_range) {
        UNROLL for (int i = 0; i < ROW_TILES; i++)
            UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++) {
                const float m = finite_max(rows->m[i][slot]);
                if (m == m) /* always so: a branch for each row keeps compilers from working on all rows at once, out of registers */
                    UNROLL for (int n = 0; n < SCORE_TILES * UNIT_ACCUMULATORS; n++)
                        if (SUM_SLOT(n) == slot) SUM(s->at[i], n) = general_exponent(SUM(s->at[i], n), unit, m);
                grid[i][slot] = base[i][slot] = 0.0f;
            }
        unit = 1.0f;
    }
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int n = 0; n < SCORE_TILES * UNIT_ACCUMULATORS; n++) {
            const int slot = SUM_SLOT(n);
            SUM(s->at[i], n) = exp2_fast(fma_f32(SUM(s->at[i], n), unit, grid[i][slot]) - base[i][slot]);
        }
    if (!REPRODUCIBLE || args->return_lse != 0)
        UNROLL for (int i = 0; i < ROW_TILES; i++)
            UNROLL for (int n = 0; n < SCORE_TILES * UNIT_ACCUMULATORS; n++) {
                const int slot = SUM_SLOT(n);
                rows->l[i][slot] = rows->l[i][slot] + SUM(s->at[i], n);
            }
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int step = 0; step < BLOCK_K / UNIT_DEPTH; step++) probability_operand(s->p[i][step], s->at[i], step);
}

INLINE void values_stage(tile_flight *flight, const attune_forward_args *args, const tensors *t, const block *at, int key)
{
    ring_advance(flight, args, t, at, key / BLOCK_K * 2 + 1);
}

INLINE void output_accumulate(output_tile *o, const score_tile *s, const attune_forward_args *args, const tensors *t, const block *at,
                              int key)
{
    LOCAL unsigned char *const values = ring_at(t, key / BLOCK_K * 2 + 1);
    /* a hidden value meets p = 0 in the unit, which is harmless where it is finite */
    if (args->causal != 0 && key + BLOCK_K > at->keys_common && odd_values_in(t, values)) odd_values_add(o, s, args, at, values, key);
    const int swizzle = unhoisted(lane_swizzle(UNIT_VALUES_ROW, UNIT_VALUES_CHUNK));
    UNROLL for (int k = 0; k < BLOCK_K; k += UNIT_DEPTH) {
#if REPRODUCIBLE
        unsigned ones[UNIT_COLUMN_WORDS];
        UNROLL for (int w = 0; w < UNIT_COLUMN_WORDS; w++) ones[w] = operand_word(1.0f, 1.0f);
        UNROLL for (int i = 0; i < ROW_TILES; i++) unit_multiply(o->l[i], s->p[i][k / UNIT_DEPTH], ones);
#endif
        UNROLL for (int n = 0; n < OUTPUT_TILES; n += UNIT_VALUE_TILES) {
            unsigned right[UNIT_VALUE_TILES * UNIT_COLUMN_WORDS];
            value_operand(right, values + (UNIT_VALUES_ROW * ROW_BYTES + UNIT_VALUES_BYTE), swizzle, k, n * UNIT_COLUMNS);
            UNROLL for (int i = 0; i < ROW_TILES; i++)
                UNROLL for (int c = 0; c < UNIT_VALUE_TILES; c++)
                    unit_multiply(o->at[i][n + c], s->p[i][k / UNIT_DEPTH], right + c * UNIT_COLUMN_WORDS);
            LOADS_STAY();
        }
    }
}

INLINE void rows_finish(row_state *rows, const tensors *t)
{
    COPY_WAIT(0);
    BARRIER(); /* rows that no key was staged for still fly */
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++)
            UNROLL for (int mask = UNIT_FIRST_MASK; mask <= UNIT_LAST_MASK; mask *= 2)
                rows->l[i][slot] = rows->l[i][slot] + lane_xor(rows->l[i][slot], mask);
}

/* By way of the place of Q, where each unit has its own rows. */
INLINE void output_store(const output_tile *o, const row_state *rows, const attune_forward_args *args, const tensors *t, const block *at)
{
    LOCAL unsigned char *const out = query_at(t);
    /* of two neighbours in a row, the second is the same sum of the next column tile, or the next sum */
    const int tiles = SHARED_WORDS ? 1 : 0, sums = SHARED_WORDS ? 0 : 1;
    UNROLL for (int i = 0; i < ROW_TILES; i++)
        UNROLL for (int r = 0; r < UNIT_ACCUMULATORS; r += 1 + sums) {
#if REPRODUCIBLE
            const float l = o->l[i][r];
#else
            const float l = rows->l[i][UNIT_SLOT(r)];
#endif
            const float inverse = reciprocal(l);
            const int row = ROW(i, UNIT_SLOT(r));
            UNROLL for (int n = 0; n < OUTPUT_TILES; n += 1 + tiles) {
                const int byte = OUTPUT_DIM(n, r) * ELEMENT;
                LOCAL unsigned *const to = (LOCAL unsigned *)(out + row * ROW_BYTES + (byte ^ SWIZZLE(row) * 16));
                const float x = l == 0.0f ? 0.0f : quotient(o->at[i][n][r], l, inverse);
                const float y = l == 0.0f ? 0.0f : quotient(o->at[i][n + tiles][r + sums], l, inverse);
                if (ELEMENT == 2)
                    to[0] = pair_pack(x, y);
                else
                    to[0] = f32_to_bits(x), to[1] = f32_to_bits(y);
            }
        }
    UNIT_BARRIER();
    rows_copy_out(t->o + row_address(args->o, at->batch, at->query, at->head), args->o.seq, at->rows, args->head_dim_v, out);
}

INLINE void lse_store(const row_state *rows, const attune_forward_args *args, const tensors *t, const block *at)
{
    if (UNIT_COLUMN(0) == 0)
        UNROLL for (int i = 0; i < ROW_TILES; i++)
            UNROLL for (int slot = 0; slot < UNIT_SLOTS; slot++)
                if (ROW(i, slot) < at->rows)
                    t->lse[lse_address(args, at, ROW(i, slot))] =
                        rows->l[i][slot] == 0.0f ? -F32_INFINITY
                                                 : log_scaled(rows->l[i][slot] * exp2_integer(-(float)(P_SCALE)), rows->m[i][slot]);
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
