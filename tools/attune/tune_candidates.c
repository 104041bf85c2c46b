#include "tune_candidates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

/* ---- finding ---- */

static double octaves(int a, int b)
{
    return fabs(log2((double)(a > 0 ? a : 1) / (b > 0 ? b : 1)));
}

static int add_candidate(const attune_kernel_info *kernel, void *user)
{
    candidates *const c = user;
    if (kernel->preference == NULL) return 0; /* it does not compute the problem */
    if (kernel->reason) {
        c->refused++;
        return 0;
    }
    if (c->count == 0) c->head_dim = kernel->head_dim;
    if (kernel->head_dim != c->head_dim || c->count == TUNE_MOST_CANDIDATES) return 0;
    candidate *const added = &c->at[c->count++];
    *added = (candidate){.reproducible = kernel->reproducible != 0,
                         .block_q = kernel->block_q,
                         .block_k = kernel->block_k,
                         .threads = kernel->threads};
    snprintf(added->id, sizeof added->id, "%s", kernel->id);
    snprintf(added->engine, sizeof added->engine, "%s", kernel->engine);
    attune_measurement_init(&added->of);
    return 0;
}

static int by_distance(const void *left, const void *right)
{
    const candidate *const a = left, *const b = right;
    return (a->distance > b->distance) - (a->distance < b->distance);
}

/* The sentence is that of a plan that cannot be made. */
static attune_status no_candidate(attune_context *context, const attune_problem *problem,
                                  const attune_plan_options *options)
{
    attune_plan *plan;
    const attune_status status = attune_plan_create(context, problem, options, &plan);
    if (status != ATTUNE_OK) return status;
    attune_plan_destroy(plan);
    return ATTUNE_INTERNAL_ERROR;
}

attune_status candidates_find(candidates *c, attune_context *context, const attune_problem *problem,
                              const attune_plan_options *options)
{
    attune_plan_options unmeasured = *options;
    unmeasured.deterministic = 1;
    *c = (candidates){.at = allocate(TUNE_MOST_CANDIDATES * sizeof *c->at)};
    const attune_status status =
        attune_kernels_visit(context, problem, &unmeasured, add_candidate, c);
    if (status != ATTUNE_OK) return status;
    if (c->count == 0) return no_candidate(context, problem, &unmeasured);
    const candidate *const first = &c->at[0];
    for (int i = 0; i < c->count; i++) {
        candidate *const other = &c->at[i];
        other->distance = octaves(other->block_q, first->block_q) +
                          octaves(other->block_k, first->block_k) +
                          octaves(other->threads, first->threads) +
                          (strcmp(other->engine, first->engine) == 0 ? 0.0 : 2.0) +
                          1e-6 * i; /* ties in the table's order */
    }
    qsort(c->at + 1, (size_t)c->count - 1, sizeof *c->at, by_distance);
    return ATTUNE_OK;
}

/* ---- what is known already ---- */

typedef struct known_run {
    candidates *candidates;
    int rung;
} known_run;

static bool is_worth_another_try(const char *reason)
{
    return strncmp(reason, WORKER_TOO_LATE, sizeof WORKER_TOO_LATE - 1) == 0 ||
           strcmp(reason, WORKER_KILLED) == 0;
}

static int take_known(const attune_measurement *m, void *user)
{
    known_run *const run = user;
    for (int i = 0; i < run->candidates->count; i++) {
        candidate *const c = &run->candidates->at[i];
        if (m->rung > run->rung) run->rung = m->rung;
        if (strcmp(c->id, m->kernel) != 0) continue;
        c->known = m->invalid == NULL || !is_worth_another_try(m->invalid);
        if (!c->known) continue; /* it may have been the machine's or a person's doing */
        c->alive = m->invalid == NULL;
        c->of = *m;
        c->of.kernel = c->id;
        c->of.invalid = NULL;
        snprintf(c->bits, sizeof c->bits, "%s", m->bits);
        c->of.bits = c->bits;
        snprintf(c->reason, sizeof c->reason, "%s", m->invalid ? m->invalid : "");
    }
    return 0;
}

attune_status candidates_take_known(candidates *c, attune_tuning_db *db, int64_t run, int *known,
                                    int *rung)
{
    known_run of = {.candidates = c};
    const attune_status status = attune_tuning_run_visit(db, run, take_known, &of);
    *known = 0;
    *rung = of.rung;
    for (int i = 0; i < c->count; i++) *known += c->at[i].known;
    return status;
}

/* ---- comparing ---- */

bool candidates_must_agree(const candidate *a, const candidate *b)
{
    if (!a->reproducible || !b->reproducible) return false;
    const bool a_matrix = strcmp(a->engine, "matrix") == 0,
               b_matrix = strcmp(b->engine, "matrix") == 0;
    const char *const a_unit = strrchr(a->id, 'u'), *const b_unit = strrchr(b->id, 'u');
    if (a_matrix != b_matrix) return false;
    return !a_matrix || (a_unit && b_unit && strcmp(a_unit, b_unit) == 0);
}

static int by_time(const void *left, const void *right)
{
    const candidate *const a = *(candidate *const *)left, *const b = *(candidate *const *)right;
    return (a->of.milliseconds > b->of.milliseconds) - (a->of.milliseconds < b->of.milliseconds);
}

int candidates_alive(candidates *c, candidate **field)
{
    int count = 0;
    for (int i = 0; i < c->count; i++)
        if (c->at[i].alive && isfinite(c->at[i].of.milliseconds)) field[count++] = &c->at[i];
    qsort(field, (size_t)count, sizeof(candidate *), by_time);
    return count;
}
