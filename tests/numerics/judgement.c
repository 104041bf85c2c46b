#include "judgement.h"

#include <string.h>

void write_exact(trial *t, const attune_reference *r)
{
    const attune_problem *const p = &t->problem;
    int64_t at = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->seqlen_q; i++)
            for (int64_t h = 0; h < p->heads_q; h++)
                for (int64_t d = 0; d < p->head_dim_v; d++) set(t, TRIAL_O, b, i, h, d, r->o[at++]);
    for (int64_t i = 0; i < p->batch * p->heads_q * p->seqlen_q; i++) t->lse[i] = (float)r->lse[i];
}

judgement judgement_begin(const char *problem, attune_fill fill)
{
    judgement j = {.t = trial_filled(problem, fill, 11)};
    j.reference = trial_reference(&j.t);
    j.arithmetic = fp32_arithmetic(&j.t.problem, 32);
    write_exact(&j.t, j.reference);
    return j;
}

attune_verdict judgement_verdict(judgement *j)
{
    memset(&j->metrics, 0x55, sizeof j->metrics);
    assert_int_equal(
        attune_judge(j->reference, &j->arithmetic, j->t.tensors[TRIAL_O], j->t.lse, &j->metrics),
        ATTUNE_OK);
    return j->metrics.verdict;
}

void judgement_end(judgement *j)
{
    attune_reference_destroy(j->reference);
    trial_destroy(&j->t);
}

double judgement_bound(const judgement *j, int64_t index)
{
    return attune_bound_o(&j->arithmetic, &j->reference->o_terms[index], j->reference->o[index],
                          j->t.problem.dtype);
}
