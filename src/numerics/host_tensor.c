#include "host_tensor.h"

#include <stdbool.h>

int64_t attune_span(const int64_t sizes[ATTUNE_RANK], const int64_t strides[ATTUNE_RANK])
{
    int64_t span = 1;
    bool overflow = false;
    for (int i = 0; i < ATTUNE_RANK; i++) {
        int64_t reach;
        if (sizes[i] == 0) return 0;
        overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
                    __builtin_add_overflow(span, reach, &span);
    }
    return overflow ? INT64_MAX : span;
}

int64_t host_visible_keys(const attune_problem *problem, int64_t row)
{
    if (problem->mask == ATTUNE_MASK_NONE) return problem->seqlen_k;
    const int64_t diagonal =
        problem->mask == ATTUNE_MASK_CAUSAL ? problem->seqlen_k - problem->seqlen_q : 0;
    const int64_t keys = row + diagonal + 1;
    return keys < 0 ? 0 : keys < problem->seqlen_k ? keys : problem->seqlen_k;
}

int64_t host_key_head(const attune_problem *problem, int64_t head)
{
    return head / (problem->heads_q / problem->heads_kv);
}

int64_t host_place(const int64_t strides[ATTUNE_RANK], int64_t batch, int64_t seq, int64_t head)
{
    return batch * strides[ATTUNE_BATCH] + seq * strides[ATTUNE_SEQ] + head * strides[ATTUNE_HEAD];
}

void host_row(attune_dtype dtype, const void *tensor, int64_t place, int64_t dims, float *row)
{
    const char *const from = (const char *)tensor + place * (int64_t)attune_dtype_size(dtype);
    attune_convert_to_f32(dtype, from, row, (size_t)dims);
}

void host_row_store(attune_dtype dtype, void *tensor, int64_t place, int64_t dims, const float *row)
{
    char *const to = (char *)tensor + place * (int64_t)attune_dtype_size(dtype);
    attune_convert_from_f32(dtype, row, to, (size_t)dims);
}

attune_status host_check(const attune_problem *problem, const void *q, const void *k, const void *v,
                         const char *caller)
{
    const attune_status status = attune_problem_check(problem);
    if (status != ATTUNE_OK) return status;
    if (host_rows(problem) > 0 && !q)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: q is NULL", caller);
    if (problem->batch > 0 && problem->seqlen_k > 0 && (!k || !v))
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: %s is NULL", caller, k ? "v" : "k");
    return ATTUNE_OK;
}

int64_t host_rows(const attune_problem *problem)
{
    return problem->batch * problem->seqlen_q * problem->heads_q;
}

void host_row_at(const attune_problem *problem, int64_t index, int64_t *batch, int64_t *seq,
                 int64_t *head)
{
    *head = index % problem->heads_q;
    *seq = index / problem->heads_q % problem->seqlen_q;
    *batch = index / problem->heads_q / problem->seqlen_q;
}

int64_t host_lse_place(const attune_problem *problem, int64_t batch, int64_t seq, int64_t head)
{
    return (batch * problem->heads_q + head) * problem->seqlen_q + seq;
}
