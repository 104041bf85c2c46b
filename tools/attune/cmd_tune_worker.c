/* The child of `attune tune`: see tune_worker.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "commands.h"
#include "fail.h"
#include "runner.h"
#include "tune_judge.h"
#include "tune_worker.h"

/* A kernel that was loaded; its runner shares the device's tensors with all others. */
typedef struct candidate {
    char id[96];
    attune_plan *plan;
    struct candidate *next;
} candidate;

typedef struct worker {
    const options *options;
    FILE *answers;
    attune_context *context;
    attune_device_info info;
    inputs in;
    runner shared; /* its plan is the candidate's that runs */
    tune_judge judge;
    candidate *candidates;
    attune_buffer flushed; /* and what is written there; made when a time is first asked for */
    void *flush;
    size_t workspace;
} worker;

/* A reason may be a compiler's, of several lines; an answer is one. */
static void answer_no(worker *w, const char *reason)
{
    fputs("no ", w->answers);
    for (; *reason != '\0'; reason++) fputc(*reason == '\n' ? ' ' : *reason, w->answers);
    fputc('\n', w->answers);
    fflush(w->answers);
}

/* ---- loading ---- */

static candidate *find(worker *w, const char *id)
{
    candidate *c = w->candidates;
    while (c && strcmp(c->id, id) != 0) c = c->next;
    return c;
}

/* One workspace, of the largest need so far. */
static attune_status provide_workspace(worker *w, const attune_plan *plan)
{
    const size_t need = attune_plan_workspace_size(plan);
    if (need <= w->workspace && w->shared.tensors.workspace.handle) return ATTUNE_OK;
    attune_buffer_free(w->context, &w->shared.tensors.workspace);
    const attune_status status =
        attune_buffer_alloc(w->context, need, &w->shared.tensors.workspace);
    w->workspace = status == ATTUNE_OK ? need : 0;
    return status;
}

/* The candidate, loaded where it is not; NULL after attune_error_detail. */
static candidate *load(worker *w, const char *id)
{
    candidate *c = find(w, id);
    if (c) return c;
    attune_plan *plan;
    attune_plan_options options;
    attune_plan_options_init(&options);
    options.kernel = id;
    options.deterministic = 1; /* no database is read for it */
    if (attune_plan_create(w->context, &w->in.problem, &options, &plan) != ATTUNE_OK) return NULL;
    if (provide_workspace(w, plan) != ATTUNE_OK) {
        attune_plan_destroy(plan);
        return NULL;
    }
    c = allocate(sizeof *c);
    *c = (candidate){.plan = plan, .next = w->candidates};
    snprintf(c->id, sizeof c->id, "%s", id);
    w->candidates = c;
    return c;
}

static void answer_load(worker *w, const candidate *c)
{
    attune_kernel_resources of;
    if (attune_plan_resources(c->plan, &of) != ATTUNE_OK)
        of = (attune_kernel_resources){.registers = -1, .spill_bytes = -1, .resident_warps = -1};
    fprintf(w->answers, "ok %" PRId32 " %" PRId64 " %" PRId32 "\n", of.registers, of.spill_bytes,
            of.resident_warps);
}

/* ---- judging and timing ---- */

/* Every byte of o and lse becomes NaN, so that what a kernel leaves unwritten shows. */
static attune_status clear_outputs(worker *w)
{
    runner *const r = &w->shared;
    memset(r->o, 0xff, r->bytes.o);
    memset(r->lse, 0xff, r->bytes.lse);
    if (r->in_place) return ATTUNE_OK;
    attune_status status = attune_buffer_write(w->context, r->tensors.o, r->o, r->bytes.o, NULL);
    if (status == ATTUNE_OK)
        status = attune_buffer_write(w->context, r->tensors.lse, r->lse, r->bytes.lse, NULL);
    return status;
}

static void answer_judge(worker *w, const candidate *c)
{
    char reason[256];
    double bound_ratio = 0, milliseconds;
    uint64_t bits = 0;
    runner *const r = &w->shared;
    if (!tune_judge_small(&w->judge, w->context, c->id, &bound_ratio, reason)) {
        answer_no(w, reason);
        return;
    }
    r->plan = c->plan;
    attune_status status = clear_outputs(w);
    if (status == ATTUNE_OK) status = runner_run(r, &milliseconds);
    if (status == ATTUNE_OK) status = runner_read(r);
    if (status != ATTUNE_OK) {
        snprintf(reason, sizeof reason, "fails: %.200s", attune_error_detail());
        answer_no(w, reason);
    } else if (!tune_judge_full(&w->judge, &w->in, c->plan, r->o,
                                w->in.problem.return_lse ? r->lse : NULL, &bound_ratio, &bits,
                                reason)) {
        answer_no(w, reason);
    } else {
        fprintf(w->answers, "ok %.6g %016" PRIx64 " %.9g\n", bound_ratio, bits, milliseconds);
    }
}

/* Little of the last run is left in a cache: real calls find K and V in memory. */
static attune_status flush_caches(worker *w)
{
    enum { BYTES = 128 << 20 }; /* more than the L2 of GPUs, and than most processors' last level */
    if (!w->flush) {
        const attune_status status = attune_buffer_alloc(w->context, BYTES, &w->flushed);
        if (status != ATTUNE_OK) return status;
        w->flush = memset(allocate(BYTES), 1, BYTES);
    }
    return attune_buffer_write(w->context, w->flushed, w->flush, BYTES, NULL);
}

static void answer_time(worker *w, const candidate *c, int samples)
{
    double times[WORKER_MOST_SAMPLES];
    attune_status status = ATTUNE_OK;
    w->shared.plan = c->plan;
    for (int i = 0; i < samples && status == ATTUNE_OK; i++) {
        status = flush_caches(w);
        if (status == ATTUNE_OK) status = runner_run(&w->shared, &times[i]);
    }
    if (status != ATTUNE_OK) {
        answer_no(w, attune_error_detail());
        return;
    }
    fputs("ok", w->answers);
    for (int i = 0; i < samples; i++) fprintf(w->answers, " %.9g", times[i]);
    fputc('\n', w->answers);
}

static void answer(worker *w, const char *line)
{
    char what[16], id[96];
    int samples = 0;
    const int words = sscanf(line, "%15s %95s %d", what, id, &samples);
    candidate *const c = words >= 2 ? load(w, id) : NULL;
    if (!c)
        answer_no(w, words >= 2 ? attune_error_detail() : "no such question");
    else if (strcmp(what, "load") == 0)
        answer_load(w, c);
    else if (strcmp(what, "judge") == 0)
        answer_judge(w, c);
    else if (strcmp(what, "time") == 0 && samples > 0 && samples <= WORKER_MOST_SAMPLES)
        answer_time(w, c, samples);
    else
        answer_no(w, "no such question");
    fflush(w->answers);
}

/* ---- the process ---- */

static attune_status prepare(worker *w)
{
    /* the default's plan only makes the tensors; the first candidate is loaded before anything runs */
    attune_plan_options options;
    attune_plan_options_init(&options);
    options.deterministic = 1;
    const attune_status status = runner_open(&w->shared, w->context, &w->in, &options);
    if (status == ATTUNE_OK) {
        w->workspace = attune_plan_workspace_size(w->shared.plan);
        attune_plan_destroy(w->shared.plan);
        w->shared.plan = NULL;
    }
    return status;
}

static void serve(worker *w)
{
    char line[WORKER_LINE];
    fputs("ok ready\n", w->answers);
    fflush(w->answers);
    while (fgets(line, sizeof line, stdin)) answer(w, line);
}

/* Ends with its parent, also inside a run that never ends. */
int command_tune_worker(const options *o)
{
    enum { ANSWERS = 3 };
    worker w = {.options = o, .answers = fdopen(ANSWERS, "w")};
    if (!w.answers || o->problem_count != 1)
        return fail(EXIT_BAD_INPUT, "tune-worker is started by `attune tune`");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    attune_problem problem;
    int code = problem_read(o, o->problems[0], false, &problem);
    attune_status status = open_device(o->device, o->threads, &w.context, &w.info);
    if (code == EXIT_DONE && status == ATTUNE_OK)
        code = inputs_from_problem(o, &problem, ATTUNE_FILL_normal, &w.in);
    if (code == EXIT_DONE && status == ATTUNE_OK) status = prepare(&w);
    if (code == EXIT_DONE && status == ATTUNE_OK) code = tune_judge_open(&w.judge, o, &w.in);
    if (code != EXIT_DONE || status != ATTUNE_OK)
        answer_no(&w, code != EXIT_DONE ? "the problem's inputs cannot be made"
                                        : attune_error_detail());
    else
        serve(&w);
    /* What is left goes with the process: a candidate may have broken the device. */
    return EXIT_DONE;
}
