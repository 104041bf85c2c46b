#include "trial.h"

#include <math.h>
#include <stdlib.h>

attune_problem problem_of(const char *text)
{
    attune_problem problem;
    if (attune_problem_parse(text, &problem) != ATTUNE_OK)
        fail_msg("%s: %s", text, attune_error_detail());
    return problem;
}

void sizes_of(const attune_problem *problem, int tensor, int64_t sizes[ATTUNE_RANK])
{
    const bool of_query = tensor == TRIAL_Q || tensor == TRIAL_O;
    const bool of_value = tensor == TRIAL_V || tensor == TRIAL_O;
    sizes[ATTUNE_BATCH] = problem->batch;
    sizes[ATTUNE_SEQ] = of_query ? problem->seqlen_q : problem->seqlen_k;
    sizes[ATTUNE_HEAD] = of_query ? problem->heads_q : problem->heads_kv;
    sizes[ATTUNE_DIM] = of_value ? problem->head_dim_v : problem->head_dim;
}

static const int64_t *strides_of(const attune_problem *problem, int tensor)
{
    const int64_t *const strides[] = {
        [TRIAL_Q] = problem->q_strides,
        [TRIAL_K] = problem->k_strides,
        [TRIAL_V] = problem->v_strides,
        [TRIAL_O] = problem->o_strides,
    };
    return strides[tensor];
}

static void *allocate(int64_t bytes)
{
    void *const memory = calloc(bytes > 0 ? (size_t)bytes : 1, 1);
    assert_non_null(memory);
    return memory;
}

trial trial_create(const attune_problem *problem)
{
    trial t = {.problem = *problem};
    const attune_dtype dtype = problem->dtype;
    const int64_t size = (int64_t)attune_dtype_size(dtype);
    const float nan = NAN;
    for (int i = 0; i < TRIAL_TENSORS; i++) {
        int64_t sizes[ATTUNE_RANK];
        sizes_of(problem, i, sizes);
        const int64_t span = attune_span(sizes, strides_of(problem, i));
        t.tensors[i] = allocate(span * size);
        for (int64_t at = 0; i == TRIAL_O && at < span; at++)
            attune_convert_from_f32(dtype, &nan, (char *)t.tensors[i] + at * size, 1);
    }
    const int64_t rows = problem->batch * problem->heads_q * problem->seqlen_q;
    t.lse = allocate(rows * (int64_t)sizeof(float));
    for (int64_t i = 0; i < rows; i++) t.lse[i] = NAN;
    return t;
}

trial trial_filled(const char *text, attune_fill fill, uint64_t seed)
{
    const attune_problem problem = problem_of(text);
    const trial t = trial_create(&problem);
    if (attune_fill_inputs(&problem, fill, seed, t.tensors[TRIAL_Q], t.tensors[TRIAL_K],
                           t.tensors[TRIAL_V]) != ATTUNE_OK)
        fail_msg("%s: %s", text, attune_error_detail());
    return t;
}

void trial_destroy(trial *t)
{
    for (int i = 0; i < TRIAL_TENSORS; i++) free(t->tensors[i]);
    free(t->lse);
}

attune_reference *trial_reference(const trial *t)
{
    attune_reference *reference;
    if (attune_reference_create(&t->problem, t->tensors[TRIAL_Q], t->tensors[TRIAL_K],
                                t->tensors[TRIAL_V], &reference) != ATTUNE_OK)
        fail_msg("%s", attune_error_detail());
    return reference;
}

attune_arithmetic fp32_arithmetic(const attune_problem *problem, int64_t block_k)
{
    const double u_out[] = {[ATTUNE_F32] = 0x1p-24, [ATTUNE_F16] = 0x1p-11, [ATTUNE_BF16] = 0x1p-8};
    return (attune_arithmetic){
        .u_out = u_out[problem->dtype],
        .u_p = 0x1p-24,
        .u_acc = 0x1p-24,
        .eps_exp = 0x1p-23,
        .n_s = (double)problem->head_dim,
        .n_pv = (double)(problem->seqlen_k + (problem->seqlen_k + block_k - 1) / block_k),
    };
}

static void *element(const trial *t, int tensor, int64_t batch, int64_t seq, int64_t head,
                     int64_t dim)
{
    const int64_t *const strides = strides_of(&t->problem, tensor);
    const int64_t place = batch * strides[ATTUNE_BATCH] + seq * strides[ATTUNE_SEQ] +
                          head * strides[ATTUNE_HEAD] + dim * strides[ATTUNE_DIM];
    return (char *)t->tensors[tensor] + place * (int64_t)attune_dtype_size(t->problem.dtype);
}

float get(const trial *t, int tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    float x;
    attune_convert_to_f32(t->problem.dtype, element(t, tensor, batch, seq, head, dim), &x, 1);
    return x;
}

void set(trial *t, int tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim, double x)
{
    const float single = (float)x;
    attune_convert_from_f32(t->problem.dtype, &single, element(t, tensor, batch, seq, head, dim),
                            1);
}

void set_all(trial *t, int tensor, double x)
{
    int64_t sizes[ATTUNE_RANK];
    sizes_of(&t->problem, tensor, sizes);
    for (int64_t b = 0; b < sizes[0]; b++)
        for (int64_t s = 0; s < sizes[1]; s++)
            for (int64_t h = 0; h < sizes[2]; h++)
                for (int64_t d = 0; d < sizes[3]; d++) set(t, tensor, b, s, h, d, x);
}

int64_t lse_place(const attune_problem *problem, int64_t batch, int64_t head, int64_t seq)
{
    return (batch * problem->heads_q + head) * problem->seqlen_q + seq;
}

bool sees(const attune_problem *problem, int64_t row, int64_t key)
{
    switch (problem->mask) {
    case ATTUNE_MASK_CAUSAL:
        return key <= row + problem->seqlen_k - problem->seqlen_q;
    case ATTUNE_MASK_CAUSAL_TOP_LEFT:
        return key <= row;
    case ATTUNE_MASK_NONE:
        break;
    }
    return true;
}
