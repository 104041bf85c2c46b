#include "problem.h"

#include "status.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Problems are compared as bytes, so every byte must belong to a member. */
static_assert(sizeof(attune_problem) == sizeof(size_t) + 4 * sizeof(int32_t) +
                                            (7 + 4 * ATTUNE_RANK) * sizeof(int64_t) +
                                            sizeof(double),
              "attune_problem has no padding");

/* ---- names ---- */

size_t attune_dtype_size(attune_dtype dtype)
{
    switch (dtype) {
    case ATTUNE_F32:
        return 4;
    case ATTUNE_F16:
    case ATTUNE_BF16:
        return 2;
    }
    return 0;
}

const char *attune_dtype_name(attune_dtype dtype)
{
    switch (dtype) {
    case ATTUNE_F32:
        return "f32";
    case ATTUNE_F16:
        return "f16";
    case ATTUNE_BF16:
        return "bf16";
    }
    return NULL;
}

/* ---- filling ---- */

double problem_default_scale(int64_t head_dim)
{
    return head_dim > 0 ? 1.0 / sqrt((double)head_dim) : 1.0;
}

tensor_shape problem_tensor(const attune_problem *problem, int tensor)
{
    const bool of_query = tensor == TENSOR_Q || tensor == TENSOR_O;
    const bool of_value = tensor == TENSOR_V || tensor == TENSOR_O;
    const int64_t *const strides[] = {
        [TENSOR_Q] = problem->q_strides,
        [TENSOR_K] = problem->k_strides,
        [TENSOR_V] = problem->v_strides,
        [TENSOR_O] = problem->o_strides,
    };
    return (tensor_shape){
        .name = (const char *[]){"q", "k", "v", "o"}[tensor],
        .sizes = {[ATTUNE_BATCH] = problem->batch,
                  [ATTUNE_SEQ] = of_query ? problem->seqlen_q : problem->seqlen_k,
                  [ATTUNE_HEAD] = of_query ? problem->heads_q : problem->heads_kv,
                  [ATTUNE_DIM] = of_value ? problem->head_dim_v : problem->head_dim},
        .strides = strides[tensor],
    };
}

/* Sizes are not checked yet, so a product may wrap: in unsigned arithmetic that means nothing
 * and harms nothing. */
void problem_packed_strides(const int64_t sizes[ATTUNE_RANK], attune_layout layout,
                            int64_t strides[ATTUNE_RANK])
{
    static const attune_stride inner_to_outer[][ATTUNE_RANK] = {
        [ATTUNE_LAYOUT_BSHD] = {ATTUNE_DIM, ATTUNE_HEAD, ATTUNE_SEQ, ATTUNE_BATCH},
        [ATTUNE_LAYOUT_BHSD] = {ATTUNE_DIM, ATTUNE_SEQ, ATTUNE_HEAD, ATTUNE_BATCH},
    };
    const attune_stride *const order =
        inner_to_outer[layout == ATTUNE_LAYOUT_BHSD ? layout : ATTUNE_LAYOUT_BSHD];
    uint64_t stride = 1;
    for (int i = 0; i < ATTUNE_RANK; i++) {
        strides[order[i]] = (int64_t)stride;
        stride *= (uint64_t)sizes[order[i]];
    }
}

void attune_problem_set_layout(attune_problem *problem, attune_layout layout)
{
    int64_t *const strides[] = {problem->q_strides, problem->k_strides, problem->v_strides,
                                problem->o_strides};
    for (int t = 0; t < TENSOR_COUNT; t++)
        problem_packed_strides(problem_tensor(problem, t).sizes, layout, strides[t]);
}

void attune_problem_init(attune_problem *problem, attune_dtype dtype, int64_t batch,
                         int64_t heads_q, int64_t heads_kv, int64_t seqlen_q, int64_t seqlen_k,
                         int64_t head_dim, int64_t head_dim_v)
{
    *problem = (attune_problem){
        .struct_size = sizeof *problem,
        .op = ATTUNE_FORWARD,
        .dtype = dtype,
        .mask = ATTUNE_MASK_NONE,
        .batch = batch,
        .heads_q = heads_q,
        .heads_kv = heads_kv,
        .seqlen_q = seqlen_q,
        .seqlen_k = seqlen_k,
        .head_dim = head_dim,
        .head_dim_v = head_dim_v,
        .softmax_scale = problem_default_scale(head_dim),
    };
    attune_problem_set_layout(problem, ATTUNE_LAYOUT_BSHD);
}

/* Scores are in log2 units: e^(scale · s) = 2^(scale · log2 e · s). */
static double scale_log2(const attune_problem *problem)
{
    const double log2_e = 1.44269504088896340736;
    return problem->softmax_scale * log2_e;
}

/* ---- checking ---- */

static attune_status check_size(const char *name, int64_t size, int64_t least, int64_t most)
{
    if (size >= least && size <= most) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "%s is %" PRId64 "; %" PRId64 " to %" PRId64 " is accepted", name, size,
                       least, most);
}

/* Kernels count batches and heads in 32 bits. */
static attune_status check_count(const char *name, int64_t count, int64_t least)
{
    if (count < least)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s is %" PRId64 "; %" PRId64 " or more is accepted", name, count,
                           least);
    if (count > INT32_MAX)
        return attune_fail(ATTUNE_UNSUPPORTED, "%s is %" PRId64 "; at most %d is supported", name,
                           count, INT32_MAX);
    return ATTUNE_OK;
}

static attune_status check_semantics(const attune_problem *problem)
{
    if (problem->op != ATTUNE_FORWARD)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "op is %d; ATTUNE_FORWARD is accepted",
                           (int)problem->op);
    if (attune_dtype_name(problem->dtype) == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "dtype is %d; ATTUNE_F32, ATTUNE_F16 and ATTUNE_BF16 are accepted",
                           (int)problem->dtype);
    if (problem->mask != ATTUNE_MASK_NONE && problem->mask != ATTUNE_MASK_CAUSAL &&
        problem->mask != ATTUNE_MASK_CAUSAL_TOP_LEFT)
        return attune_fail(
            ATTUNE_INVALID_ARGUMENT,
            "mask is %d; ATTUNE_MASK_NONE, _CAUSAL and _CAUSAL_TOP_LEFT are accepted",
            (int)problem->mask);
    if (problem->return_lse != 0 && problem->return_lse != 1)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "return_lse is %" PRId32 "; 0 and 1 are accepted", problem->return_lse);
    if (!isfinite(problem->softmax_scale))
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "softmax_scale is %g; a finite number is accepted",
                           problem->softmax_scale);
    if (fabs(scale_log2(problem)) > FLT_MAX)
        return attune_fail(ATTUNE_UNSUPPORTED,
                           "softmax_scale is %g; magnitudes up to 2.35e38 are supported",
                           problem->softmax_scale);
    return ATTUNE_OK;
}

static attune_status check_sizes(const attune_problem *problem)
{
    RETURN_IF_FAILED(check_count("batch", problem->batch, 0));
    RETURN_IF_FAILED(check_count("heads_q", problem->heads_q, 1));
    RETURN_IF_FAILED(check_count("heads_kv", problem->heads_kv, 1));
    if (problem->heads_q % problem->heads_kv != 0)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "heads_q is %" PRId64 "; a multiple of heads_kv, %" PRId64
                           ", is accepted",
                           problem->heads_q, problem->heads_kv);
    RETURN_IF_FAILED(check_size("seqlen_q", problem->seqlen_q, 0, INT32_MAX));
    RETURN_IF_FAILED(check_size("seqlen_k", problem->seqlen_k, 0, PROBLEM_MAX_SEQLEN_K));
    RETURN_IF_FAILED(check_size("head_dim", problem->head_dim, 1, PROBLEM_MAX_HEAD_DIM));
    RETURN_IF_FAILED(check_size("head_dim_v", problem->head_dim_v, 1, PROBLEM_MAX_HEAD_DIM));

    int64_t bytes;
    if (__builtin_mul_overflow(problem->batch * problem->heads_q,
                               problem->seqlen_q * (int64_t)sizeof(float), &bytes))
        return attune_fail(ATTUNE_UNSUPPORTED,
                           "batch * heads_q * seqlen_q is %" PRId64 " * %" PRId64 " * %" PRId64
                           "; less than 2^61 is supported",
                           problem->batch, problem->heads_q, problem->seqlen_q);
    return ATTUNE_OK;
}

static const char *const dimension_names[ATTUNE_RANK] = {"batch", "seq", "head", "dim"};

/* No two elements lie in one place where strides are nested: each reaches beyond all that the
 * smaller ones span. A stride that ends within places that are all taken puts two elements in
 * one. Between the two lie strides that interleave and may share nothing; no layout in use has
 * them, so they are UNSUPPORTED. */
static attune_status check_disjoint(const tensor_shape *tensor)
{
    int order[ATTUNE_RANK], count = 0;
    for (int i = 0; i < ATTUNE_RANK; i++) {
        if (tensor->sizes[i] == 1) continue;
        int at = count++;
        for (; at > 0 && tensor->strides[order[at - 1]] > tensor->strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t
        span = 1,
        taken =
            1; /* of the smaller strides; how many places from the first on hold an element each */
    for (int i = 0; i < count; i++) {
        const int64_t size = tensor->sizes[order[i]], stride = tensor->strides[order[i]];
        if (stride < span)
            return attune_fail(stride < taken ? ATTUNE_INVALID_ARGUMENT : ATTUNE_UNSUPPORTED,
                               "%s_strides[%s] is %" PRId64
                               " and %s two elements in one place; at least %" PRId64
                               ", the span of the smaller strides, is accepted",
                               tensor->name, dimension_names[order[i]], stride,
                               stride < taken ? "puts" : "may put", span);
        if (stride == taken) taken *= size;
        span += (size - 1) * stride;
    }
    return ATTUNE_OK;
}

static attune_status check_strides(const tensor_shape *tensor, int64_t element_size)
{
    int64_t span = 1;
    bool overflow = false;
    for (int i = 0; i < ATTUNE_RANK; i++) {
        const int64_t size = tensor->sizes[i], stride = tensor->strides[i];
        int64_t reach;
        if (size == 1) continue;
        if (stride < 0)
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "%s_strides[%s] is %" PRId64 "; 0 or more is accepted", tensor->name,
                               dimension_names[i], stride);
        if (i == ATTUNE_DIM && stride != 1)
            return attune_fail(ATTUNE_UNSUPPORTED, "%s_strides[dim] is %" PRId64 "; 1 is supported",
                               tensor->name, stride);
        overflow |= __builtin_mul_overflow(size - 1, stride, &reach) ||
                    __builtin_add_overflow(span, reach, &span);
    }
    if (overflow || __builtin_mul_overflow(span, element_size, &span))
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s spans 2^63 bytes or more from its first element to its last",
                           tensor->name);
    return ATTUNE_OK;
}

static bool is_empty(const tensor_shape *tensor)
{
    return tensor->sizes[ATTUNE_BATCH] == 0 || tensor->sizes[ATTUNE_SEQ] == 0;
}

/* Whether the strides that matter are those of a packed tensor: a stride along one element, or
 * of a tensor without elements, is multiplied by nothing. */
static bool lies_in(const tensor_shape *tensor, attune_layout layout)
{
    int64_t packed[ATTUNE_RANK];
    problem_packed_strides(tensor->sizes, layout, packed);
    for (int i = 0; i < ATTUNE_RANK; i++)
        if (tensor->sizes[i] != 1 && tensor->strides[i] != packed[i] && !is_empty(tensor))
            return false;
    return true;
}

/* Strides that do not matter are spelled as a packed layout has them, else as 0. */
static void spell_strides(attune_problem *problem)
{
    bool bshd = true, bhsd = true;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const tensor_shape tensor = problem_tensor(problem, t);
        bshd &= lies_in(&tensor, ATTUNE_LAYOUT_BSHD);
        bhsd &= lies_in(&tensor, ATTUNE_LAYOUT_BHSD);
    }
    if (bshd || bhsd) {
        attune_problem_set_layout(problem, bshd ? ATTUNE_LAYOUT_BSHD : ATTUNE_LAYOUT_BHSD);
        return;
    }
    int64_t *const strides[] = {problem->q_strides, problem->k_strides, problem->v_strides,
                                problem->o_strides};
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const tensor_shape tensor = problem_tensor(problem, t);
        if (lies_in(&tensor, ATTUNE_LAYOUT_BSHD))
            problem_packed_strides(tensor.sizes, ATTUNE_LAYOUT_BSHD, strides[t]);
        else
            for (int i = 0; i < ATTUNE_RANK; i++)
                if (tensor.sizes[i] == 1) strides[t][i] = i == ATTUNE_DIM ? 1 : 0;
    }
}

attune_status problem_normalise(const attune_problem *problem, attune_problem *normal)
{
    RETURN_IF_NULL(problem);
    RETURN_IF_FAILED(
        struct_copy(normal, sizeof *normal, sizeof *normal, problem, "attune_problem"));
    RETURN_IF_FAILED(check_semantics(normal));
    RETURN_IF_FAILED(check_sizes(normal));
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const tensor_shape tensor = problem_tensor(normal, t);
        if (is_empty(&tensor)) continue;
        RETURN_IF_FAILED(check_strides(&tensor, (int64_t)attune_dtype_size(normal->dtype)));
        if (t == TENSOR_O) RETURN_IF_FAILED(check_disjoint(&tensor));
    }
    spell_strides(normal);
    return ATTUNE_OK;
}

attune_status attune_problem_check(const attune_problem *problem)
{
    attune_problem normal;
    return problem_normalise(problem, &normal);
}

/* ---- what a kernel is told ---- */

static attune_view view_of(const int64_t strides[ATTUNE_RANK])
{
    return (attune_view){
        .batch = strides[ATTUNE_BATCH], .seq = strides[ATTUNE_SEQ], .head = strides[ATTUNE_HEAD]};
}

attune_forward_args problem_arguments(const attune_problem *problem)
{
    return (attune_forward_args){
        .q = view_of(problem->q_strides),
        .k = view_of(problem->k_strides),
        .v = view_of(problem->v_strides),
        .o = view_of(problem->o_strides),
        .batch = (int32_t)problem->batch,
        .heads_q = (int32_t)problem->heads_q,
        .heads_kv = (int32_t)problem->heads_kv,
        .seqlen_q = (int32_t)problem->seqlen_q,
        .seqlen_k = (int32_t)problem->seqlen_k,
        .head_dim = (int32_t)problem->head_dim,
        .head_dim_v = (int32_t)problem->head_dim_v,
        .causal = problem->mask != ATTUNE_MASK_NONE,
        .diagonal = problem->mask == ATTUNE_MASK_CAUSAL
                        ? (int32_t)(problem->seqlen_k - problem->seqlen_q)
                        : 0,
        .return_lse = problem->return_lse,
        .scale_log2 = (float)scale_log2(problem),
    };
}
