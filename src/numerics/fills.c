/* Input fills: each element is a pure function of (fill, seed, tensor, index), computed from integer hashes and from additions,
 * multiplications and square roots that IEEE 754 rounds in one way, so that every platform gives the same bits. */
#include <math.h>
#include <string.h>

#include "host_tensor.h"

enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_COUNT };
enum { TIED_KEYS = 5 }; /* distinct keys of the fill `tied` */

/* The finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A stream is one purpose within one fill, tensor and seed. */
static uint64_t hashed(uint64_t stream, uint64_t index)
{
    return mixed(stream + mixed(index * UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t stream_of(uint64_t seed, int fill, int tensor, int purpose)
{
    return mixed(seed * 4096 + (uint64_t)(fill * 64 + tensor * 16 + purpose) + 1);
}

/* Near N(0, 1): eight 16-bit uniforms, centred and scaled to unit variance; within ±4.9. */
static double normal(uint64_t stream, uint64_t index)
{
    int64_t sum = 0;
    for (uint64_t part = 0; part < 2; part++) {
        const uint64_t bits = hashed(stream + part, index);
        for (int shift = 0; shift < 64; shift += 16) sum += (int64_t)(bits >> shift & 0xffff);
    }
    return (double)(2 * sum - 8 * 65535) * (1.224744871391589 / 131072); /* sqrt(12 / 8) */
}

/* +1 or -1. */
static double sign(uint64_t stream, uint64_t index)
{
    return hashed(stream, index) & 1 ? 1 : -1;
}

/* One element's coordinates, and the problem they belong to. */
typedef struct element {
    const attune_problem *problem;
    attune_fill fill;
    uint64_t seed;
    int tensor;
    int64_t sizes[ATTUNE_RANK];
    int64_t at[ATTUNE_RANK];
} element;

static uint64_t packed_index(const element *e)
{
    uint64_t index = 0;
    for (int i = 0; i < ATTUNE_RANK; i++)
        index = index * (uint64_t)e->sizes[i] + (uint64_t)e->at[i];
    return index;
}

static double normal_of(const element *e)
{
    return normal(stream_of(e->seed, ATTUNE_FILL_normal, e->tensor, 0), packed_index(e));
}

static double outlier_of(const element *e)
{
    const uint64_t index = packed_index(e);
    const int is_outlier = hashed(stream_of(e->seed, e->fill, e->tensor, 1), index) % 1000 == 0;
    const double large = normal(stream_of(e->seed, e->fill, e->tensor, 2), index);
    return normal_of(e) + (is_outlier ? 10 * large : 0);
}

/* |scale|, kept where a wanted score can still be reached with inputs of every type. */
static double usable_scale(const attune_problem *problem)
{
    return fmin(fmax(fabs(problem->softmax_scale), 0x1p-10), 0x1p10);
}

/* Dimension 0 carries a score that rises with the key, by two octaves every 16 keys as far as f16 can say so. */
static double ramp_of(const element *e)
{
    if (e->tensor == TENSOR_V) return normal_of(e);
    if (e->at[ATTUNE_DIM] > 0) return normal_of(e) * 0.125;
    const double q = 8;
    if (e->tensor == TENSOR_Q) return q;
    const double keys = (double)e->problem->seqlen_k,
                 rise = fmin(2 * 0.6931471805599453 / 16, 1000 / keys);
    const double score = ((double)e->at[ATTUNE_SEQ] - keys / 2) * rise;
    const double k = score / (q * usable_scale(e->problem));
    return e->problem->softmax_scale < 0 ? -k : k;
}

/* Each key is a random code of ±1; each query is 8 times the code of one key that it sees. */
static double needle_of(const element *e)
{
    if (e->tensor == TENSOR_V) return normal_of(e);
    element key = *e;
    double strength = 1;
    if (e->tensor == TENSOR_Q) {
        const attune_problem *const problem = e->problem;
        const int64_t keys = host_visible_keys(problem, e->at[ATTUNE_SEQ]);
        if (keys == 0) return normal_of(e);
        key.sizes[ATTUNE_SEQ] = problem->seqlen_k;
        key.sizes[ATTUNE_HEAD] = problem->heads_kv;
        key.at[ATTUNE_HEAD] = host_key_head(problem, e->at[ATTUNE_HEAD]);
        key.at[ATTUNE_SEQ] = 0;
        element row = *e;
        row.at[ATTUNE_DIM] = 0;
        const uint64_t pick = hashed(stream_of(e->seed, e->fill, TENSOR_Q, 1), packed_index(&row));
        key.at[ATTUNE_SEQ] = (int64_t)(pick % (uint64_t)keys);
        strength = problem->softmax_scale < 0 ? -8 : 8;
    }
    return strength * sign(stream_of(e->seed, e->fill, TENSOR_K, 0), packed_index(&key));
}

/* Dimension 0 gives every score of an even row about +70,000 and every score of an odd row about -70,000; the rest decides among keys. */
static double huge_of(const element *e)
{
    if (e->tensor == TENSOR_V || e->at[ATTUNE_DIM] > 0) return normal_of(e);
    const double size = fmin(sqrt(70000 / usable_scale(e->problem)), 30000);
    return e->tensor == TENSOR_Q && e->at[ATTUNE_SEQ] % 2 ? -size : size;
}

static double tied_of(const element *e)
{
    if (e->tensor != TENSOR_K) return normal_of(e);
    element first = *e;
    first.at[ATTUNE_SEQ] %= TIED_KEYS;
    return normal_of(&first);
}

/* In subnormals of the type that the problem stores. */
static double denormal_of(const element *e)
{
    if (e->tensor == TENSOR_Q) return 4 * normal_of(e);
    if (e->tensor == TENSOR_K) return normal_of(e);
    return normal_of(e) * (e->problem->dtype == ATTUNE_F16 ? 0x1p-17 : 0x1p-129);
}

static double lastdim_of(const element *e)
{
    return e->at[ATTUNE_DIM] == e->sizes[ATTUNE_DIM] - 1 ? 2 * normal_of(e) : 0;
}

/* NaN in keys that no row sees, and in the last key where only the last row sees it. */
static double poison_of(const element *e)
{
    const attune_problem *const problem = e->problem;
    const int64_t rows = problem->seqlen_q;
    if (e->tensor == TENSOR_Q) return normal_of(e);
    int64_t clean = host_visible_keys(problem, rows - 1);
    if (rows > 1 && host_visible_keys(problem, rows - 2) == clean - 1) clean--;
    return e->at[ATTUNE_SEQ] < clean ? normal_of(e) : NAN;
}

static double value_of(const element *e)
{
    switch (e->fill) {
    case ATTUNE_FILL_outlier:
        return outlier_of(e);
    case ATTUNE_FILL_ramp:
        return ramp_of(e);
    case ATTUNE_FILL_needle:
        return needle_of(e);
    case ATTUNE_FILL_peaked:
        return normal_of(e) * (e->tensor == TENSOR_Q ? 8 : 1);
    case ATTUNE_FILL_huge:
        return huge_of(e);
    case ATTUNE_FILL_tied:
        return tied_of(e);
    case ATTUNE_FILL_offset:
        return normal_of(e) + (e->tensor == TENSOR_V ? 5 : 0);
    case ATTUNE_FILL_constant:
        return e->tensor == TENSOR_V ? 1 : normal_of(e);
    case ATTUNE_FILL_lastdim:
        return lastdim_of(e);
    case ATTUNE_FILL_denormal:
        return denormal_of(e);
    case ATTUNE_FILL_poison:
        return poison_of(e);
    default:
        return normal_of(e);
    }
}

static void fill_tensor(element *e, const int64_t strides[ATTUNE_RANK], void *tensor)
{
    const size_t size = attune_dtype_size(e->problem->dtype);
    const float nan = NAN;
    if (e->fill == ATTUNE_FILL_poison) {
        const int64_t span = attune_span(e->sizes, strides);
        for (int64_t i = 0; i < span; i++)
            attune_convert_from_f32(e->problem->dtype, &nan, (char *)tensor + (size_t)i * size, 1);
    }
    int64_t *const at = e->at;
    for (at[0] = 0; at[0] < e->sizes[0]; at[0]++)
        for (at[1] = 0; at[1] < e->sizes[1]; at[1]++)
            for (at[2] = 0; at[2] < e->sizes[2]; at[2]++) {
                float row[MAX_HEAD_DIM];
                for (at[3] = 0; at[3] < e->sizes[3]; at[3]++) row[at[3]] = (float)value_of(e);
                const int64_t place = host_place(strides, at[0], at[1], at[2]);
                attune_convert_from_f32(e->problem->dtype, row,
                                        (char *)tensor + (size_t)place * size, (size_t)e->sizes[3]);
            }
}

attune_status attune_fill_inputs(const attune_problem *problem, attune_fill fill, uint64_t seed,
                                 void *q, void *k, void *v)
{
    const attune_status status = host_check(problem, q, k, v, "attune_fill_inputs");
    if (status != ATTUNE_OK) return status;
    if (!attune_fill_name(fill))
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "attune_fill_inputs: %d is no fill", (int)fill);

    const attune_problem *const p = problem;
    void *const tensor[TENSOR_COUNT] = {q, k, v};
    const int64_t *const strides[TENSOR_COUNT] = {p->q_strides, p->k_strides, p->v_strides};
    const int64_t sizes[TENSOR_COUNT][ATTUNE_RANK] = {
        {p->batch, p->seqlen_q, p->heads_q, p->head_dim},
        {p->batch, p->seqlen_k, p->heads_kv, p->head_dim},
        {p->batch, p->seqlen_k, p->heads_kv, p->head_dim_v},
    };
    for (int i = 0; i < TENSOR_COUNT; i++) {
        element e = {.problem = problem, .fill = fill, .seed = seed, .tensor = i};
        memcpy(e.sizes, sizes[i], sizeof e.sizes);
        if (tensor[i]) fill_tensor(&e, strides[i], tensor[i]);
    }
    return ATTUNE_OK;
}

static const char *const fill_names[] = {
#define NAME(name, exposes) [ATTUNE_FILL_##name] = #name,
    ATTUNE_FILLS(NAME)
#undef NAME
};

const char *attune_fill_name(attune_fill fill)
{
    return (unsigned)fill < ATTUNE_FILL_COUNT ? fill_names[fill] : NULL;
}

int attune_fill_find(const char *name)
{
    for (int i = 0; name && i < ATTUNE_FILL_COUNT; i++)
        if (strcmp(name, fill_names[i]) == 0) return i;
    return -1;
}
