/* Input fills: row by row, each a pure function of (fill, seed, tensor, index). Only operations that IEEE 754 rounds in one way (no
 * library function but sqrt and ldexp), so that every platform gives the same bits. */
#include "host_tensor.h"
#include "random.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_COUNT };

/* ---- names ---- */

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
    for (int i = 0; name != NULL && i < ATTUNE_FILL_COUNT; i++)
        if (strcmp(name, fill_names[i]) == 0) return i;
    return -1;
}

/* ---- one row ---- */

typedef struct row_index {
    const attune_problem *problem;
    uint64_t seed;
    int tensor;
    int64_t batch, seq, head;
    int64_t width;
} row_index;

/* Random numbers of one row, for one purpose. An index along a dimension that the tensor broadcasts counts as 0: the row is one place. */
enum { MAIN, SECOND, CHANCE };

static uint64_t row_stream(const row_index *at, uint64_t purpose)
{
    const attune_problem *const p = at->problem;
    const int64_t *const strides[] = {
        [TENSOR_Q] = p->q_strides, [TENSOR_K] = p->k_strides, [TENSOR_V] = p->v_strides};
    const int64_t index[] = {
        [ATTUNE_BATCH] = at->batch, [ATTUNE_SEQ] = at->seq, [ATTUNE_HEAD] = at->head};
    uint64_t stream = random_stream(at->seed, (uint64_t)at->tensor * 16 + purpose);
    for (int i = 0; i < ATTUNE_DIM; i++)
        stream = random_stream(stream, strides[at->tensor][i] == 0 ? 0 : (uint64_t)index[i]);
    return stream;
}

static void normal_row(const row_index *at, float *row)
{
    const uint64_t stream = row_stream(at, MAIN);
    for (int64_t d = 0; d < at->width; d++) row[d] = (float)random_normal(stream, (uint64_t)d);
}

static void scale_row(const row_index *at, float *row, double factor)
{
    for (int64_t d = 0; d < at->width; d++) row[d] = (float)(row[d] * factor);
}

/* The gain by which q · k = product becomes a score of `score`, as for a scale of 1 where the scale is 0. Elements of q will be up to
 * `largest` gains: the type must hold them. */
static double query_gain(const attune_problem *problem, double score, double product,
                         double largest)
{
    const double scale = problem->softmax_scale != 0.0 ? problem->softmax_scale : 1.0;
    const double most = (problem->dtype == ATTUNE_F16 ? 0x1p15 : 0x1p100) / largest;
    const double gain = score / product / scale;
    return fabs(gain) < most ? gain : copysign(most, gain);
}

/* ---- the fills ---- */

/* One element in a thousand, and the first of a tensor's every batch and head. */
static void outlier_row(const row_index *at, float *row)
{
    const uint64_t chance = row_stream(at, CHANCE), second = row_stream(at, SECOND);
    normal_row(at, row);
    for (int64_t d = 0; d < at->width; d++)
        if (random_bits(chance, (uint64_t)d) % 1000 == 0 || (at->seq == 0 && d == 0))
            row[d] = (float)(row[d] + 10.0 * random_normal(second, (uint64_t)d));
}

/* The score counts groups of 16 keys: group 64 h + g is the key (h, g, noise …), so that 16-bit types hold it exactly; with head_dim 1 the
 * number itself, as finely as the type can. */
enum { RAMP_GROUP = 16, RAMP_BASE = 64 };

static void ramp_query(const row_index *at, float *row)
{
    const double step = query_gain(at->problem, 1.0, 1.0, RAMP_BASE);
    normal_row(at, row);
    scale_row(at, row, 0.05 * step / sqrt((double)at->width));
    row[0] = (float)step;
    if (at->width == 1) return;
    row[0] = (float)(RAMP_BASE * step);
    row[1] = (float)step;
}

static void ramp_key(const row_index *at, float *row)
{
    const int64_t group = at->seq / RAMP_GROUP;
    normal_row(at, row);
    row[0] = (float)group;
    if (at->width == 1) return;
    row[0] = (float)(group / RAMP_BASE);
    row[1] = (float)(group % RAMP_BASE);
}

/* Keys lie on a sphere of radius sqrt(head_dim), where none is nearer to a key than itself. On a line they have to differ in length. */
static void needle_key(const row_index *at, float *row)
{
    normal_row(at, row);
    if (at->width == 1) return;
    double squares = 0.0;
    for (int64_t d = 0; d < at->width; d++) squares += (double)row[d] * (double)row[d];
    if (squares > 0.0) scale_row(at, row, sqrt((double)at->width / squares));
}

/* Random points on a sphere of n dimensions come as near as keys^(-1/(n-1)), and 1 - cosine is half the square of that: the lower the
 * dimension, the larger the scores that tell them apart. */
static double needle_score(const attune_problem *problem)
{
    double score = 48.0;
    if (problem->head_dim == 1) return score;
    for (int64_t n = problem->seqlen_k; n > 1; n /= 2) score += 1.0;
    int64_t octaves = 0;
    for (int64_t n = problem->seqlen_k; n > 1; n /= 2) octaves += 2;
    octaves /= problem->head_dim - 1;
    return ldexp(score, (int)(octaves < 8 ? octaves : 8));
}

/* The needle of every fourth row is the last key that the row sees, of every fourth the first, of the others any. */
static void needle_query(const row_index *at, float *row)
{
    const attune_problem *const p = at->problem;
    const int64_t visible = host_visible_keys(p, at->seq);
    normal_row(at, row);
    if (visible == 0) return;
    row_index key = *at;
    key.tensor = TENSOR_K;
    key.head = host_key_head(p, at->head);
    key.seq = (int64_t)(random_bits(row_stream(at, CHANCE), 0) % (uint64_t)visible);
    if (at->seq % 4 == 0) key.seq = visible - 1;
    if (at->seq % 4 == 2) key.seq = 0;
    needle_key(&key, row);
    const double width = (double)p->head_dim;
    scale_row(at, row, query_gain(p, needle_score(p), width, sqrt(width)));
}

static void peaked_query(const row_index *at, float *row)
{
    normal_row(at, row);
    scale_row(at, row, 8.0);
}

/* Every score is 0.56 to 1.56 times 130,000, negative in the first row and in every other one. */
static const double huge_key_size = 1024.0;

static void huge_query(const row_index *at, float *row)
{
    const uint64_t stream = row_stream(at, MAIN);
    const double sign = at->seq % 2 == 0 ? -1.0 : 1.0, width = (double)at->width;
    const double gain = query_gain(at->problem, sign * 130000.0, huge_key_size * width, 1.25);
    for (int64_t d = 0; d < at->width; d++)
        row[d] = (float)(gain * (0.75 + 0.5 * random_uniform(stream, (uint64_t)d)));
}

static void huge_key(const row_index *at, float *row)
{
    const uint64_t stream = row_stream(at, MAIN);
    for (int64_t d = 0; d < at->width; d++)
        row[d] = (float)(huge_key_size * (0.75 + 0.5 * random_uniform(stream, (uint64_t)d)));
}

/* A pattern of signs, the same for every row of q and k. Where q has the pattern's signs, no key of smaller magnitudes reaches the pattern. */
static double tied_sign(const row_index *at, int64_t d)
{
    return random_bits(random_stream(at->seed, 1), (uint64_t)d) % 2 == 0 ? 1.0 : -1.0;
}

static void tied_query(const row_index *at, float *row)
{
    const uint64_t stream = row_stream(at, MAIN);
    const double gain = query_gain(at->problem, 6.0, (double)at->width, 1.5);
    for (int64_t d = 0; d < at->width; d++)
        row[d] = (float)(gain * tied_sign(at, d) * (0.5 + random_uniform(stream, (uint64_t)d)));
}

static void tied_key(const row_index *at, float *row)
{
    const uint64_t stream = row_stream(at, MAIN);
    const bool tied = at->seq % 5 == 0 || at->seq == at->problem->seqlen_k - 1;
    for (int64_t d = 0; d < at->width; d++)
        row[d] =
            (float)(tied_sign(at, d) * (tied ? 1.0 : 0.75 * random_uniform(stream, (uint64_t)d)));
}

static void tied_value(const row_index *at, float *row)
{
    normal_row(at, row);
    for (int64_t d = 0; d < at->width; d++) row[d] += 2.0f;
}

static void offset_value(const row_index *at, float *row)
{
    normal_row(at, row);
    for (int64_t d = 0; d < at->width; d++) row[d] += 5.0f;
}

static void constant_value(const row_index *at, float *row)
{
    for (int64_t d = 0; d < at->width; d++) row[d] = (float)(d + 1);
}

static void lastdim_row(const row_index *at, float *row)
{
    const uint64_t stream = row_stream(at, MAIN);
    memset(row, 0, (size_t)at->width * sizeof *row);
    row[at->width - 1] = (float)random_normal(stream, (uint64_t)at->width - 1);
}

static void lastdim_query(const row_index *at, float *row)
{
    lastdim_row(at, row);
    scale_row(at, row, query_gain(at->problem, 2.0, 1.0, 6.0));
}

/* A multiple of the type's least subnormal, not 0. */
static void denormal_value(const row_index *at, float *row)
{
    const struct {
        int bits, exponent;
    } subnormals[] =
        {[ATTUNE_F32] = {23, -149}, [ATTUNE_F16] = {10, -24}, [ATTUNE_BF16] = {7, -133}},
      type = subnormals[at->problem->dtype];
    const uint64_t stream = row_stream(at, MAIN), count = (UINT64_C(1) << type.bits) - 1;
    for (int64_t d = 0; d < at->width; d++) {
        const uint64_t bits = random_bits(stream, (uint64_t)d);
        const double magnitude = ldexp((double)(1 + (bits >> 1) % count), type.exponent);
        row[d] = (float)(bits % 2 == 0 ? magnitude : -magnitude);
    }
}

typedef void fill_row(const row_index *at, float *row);

static fill_row *const fill_rows[ATTUNE_FILL_COUNT][TENSOR_COUNT] = {
    [ATTUNE_FILL_normal] = {normal_row, normal_row, normal_row},
    [ATTUNE_FILL_outlier] = {outlier_row, outlier_row, outlier_row},
    [ATTUNE_FILL_ramp] = {ramp_query, ramp_key, normal_row},
    [ATTUNE_FILL_needle] = {needle_query, needle_key, normal_row},
    [ATTUNE_FILL_peaked] = {peaked_query, normal_row, normal_row},
    [ATTUNE_FILL_huge] = {huge_query, huge_key, normal_row},
    [ATTUNE_FILL_tied] = {tied_query, tied_key, tied_value},
    [ATTUNE_FILL_offset] = {normal_row, normal_row, offset_value},
    [ATTUNE_FILL_constant] = {normal_row, normal_row, constant_value},
    [ATTUNE_FILL_lastdim] = {lastdim_query, lastdim_row, lastdim_row},
    [ATTUNE_FILL_denormal] = {peaked_query, normal_row, denormal_value},
    [ATTUNE_FILL_poison] = {normal_row, normal_row, normal_row},
};

/* ---- whole tensors ---- */

typedef struct tensor {
    void *data;
    const int64_t *strides;
    int64_t sizes[ATTUNE_RANK];
} tensor;

static void poison_span(attune_dtype dtype, const tensor *t)
{
    const float nan = NAN;
    const int64_t span = attune_span(t->sizes, t->strides);
    for (int64_t i = 0; i < span; i++) host_row_store(dtype, t->data, i, 1, &nan);
}

/* Keys that some row sees, less the last one where the last row alone sees it. */
static int64_t clean_keys(const attune_problem *problem)
{
    const int64_t rows = problem->seqlen_q;
    if (rows == 0) return 0;
    const int64_t seen = host_visible_keys(problem, rows - 1);
    return rows > 1 && host_visible_keys(problem, rows - 2) < seen ? seen - 1 : seen;
}

static void write_rows(const tensor *t, row_index at, fill_row *row_of, int64_t rows)
{
    float row[MAX_HEAD_DIM];
    at.width = t->sizes[ATTUNE_DIM];
    for (at.batch = 0; at.batch < t->sizes[ATTUNE_BATCH]; at.batch++)
        for (at.seq = 0; at.seq < rows; at.seq++)
            for (at.head = 0; at.head < t->sizes[ATTUNE_HEAD]; at.head++) {
                row_of(&at, row);
                host_row_store(at.problem->dtype, t->data,
                               host_place(t->strides, at.batch, at.seq, at.head), at.width, row);
            }
}

attune_status attune_fill_inputs(const attune_problem *problem, attune_fill fill, uint64_t seed,
                                 void *q, void *k, void *v)
{
    const attune_status status = host_check(problem, q, k, v, __func__);
    if (status != ATTUNE_OK) return status;
    if (attune_fill_name(fill) == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: %d is no fill; 0 to %d is accepted",
                           __func__, (int)fill, ATTUNE_FILL_COUNT - 1);

    const attune_problem *const p = problem;
    const bool poison = fill == ATTUNE_FILL_poison;
    const tensor tensors[TENSOR_COUNT] = {
        [TENSOR_Q] = {q, p->q_strides, {p->batch, p->seqlen_q, p->heads_q, p->head_dim}},
        [TENSOR_K] = {k, p->k_strides, {p->batch, p->seqlen_k, p->heads_kv, p->head_dim}},
        [TENSOR_V] = {v, p->v_strides, {p->batch, p->seqlen_k, p->heads_kv, p->head_dim_v}},
    };
    /* NaN first and everywhere: the tensors may share a buffer, and keys their places. */
    for (int i = 0; poison && i < TENSOR_COUNT; i++) poison_span(p->dtype, &tensors[i]);
    for (int i = 0; i < TENSOR_COUNT; i++) {
        const row_index at = {.problem = p, .seed = seed, .tensor = i};
        const bool of_keys = i != TENSOR_Q;
        const int64_t rows = poison && of_keys ? clean_keys(p) : tensors[i].sizes[ATTUNE_SEQ];
        write_rows(&tensors[i], at, fill_rows[fill][i], rows);
    }
    return ATTUNE_OK;
}
