#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "compare_report.h"
#include "fail.h"
#include "runner.h"

enum { MAX_DEVICES = 32 };

typedef struct compared_device {
    attune_context *context; /* NULL where it cannot be opened */
    attune_device_info info;
    char reason[512]; /* why not */
} compared_device;

typedef struct comparison {
    const options *options;
    compared_device devices[MAX_DEVICES];
    int count;
    compare_tally tally;
} comparison;

/* What a device computed; o is NULL where it did not. */
typedef struct outcome {
    void *o;
    float *lse;
    attune_arithmetic arithmetic;
} outcome;

/* ---- devices ---- */

static attune_status add_device(comparison *c, const char *name)
{
    compared_device *const d = &c->devices[c->count++];
    *d = (compared_device){.context = NULL};
    return open_device(name, c->options->threads, &d->context, &d->info);
}

static int open_named(comparison *c, const char *names)
{
    for (const char *name = names; *name != '\0';) {
        const size_t length = strcspn(name, ",");
        char id[128];
        if (c->count == MAX_DEVICES)
            return fail(EXIT_BAD_INPUT, "--devices: more than %d devices", MAX_DEVICES);
        snprintf(id, sizeof id, "%.*s", (int)length, name);
        const attune_status status = add_device(c, id);
        if (status != ATTUNE_OK) return fail_status(status);
        name += length + (name[length] == ',');
    }
    return c->count > 0 ? EXIT_DONE : fail(EXIT_BAD_INPUT, "--devices names none");
}

/* An emulation is slow, and none of the machine's devices: it is compared where it is named. */
static bool is_emulated(const attune_device_info *info)
{
    return strcmp(info->backend, "emulated") == 0;
}

/* Every device of the machine. One that cannot be opened is SKIPPED in every case. */
static int open_all(comparison *c)
{
    for (int i = 0; i < attune_device_count() && c->count < MAX_DEVICES; i++) {
        attune_device_info info;
        attune_status status = attune_device_get(i, &info);
        if (status == ATTUNE_OK && is_emulated(&info)) continue;
        if (status == ATTUNE_OK) status = add_device(c, info.id);
        if (status == ATTUNE_OK) continue;
        compared_device *const d = &c->devices[c->count - 1];
        d->info = info;
        snprintf(d->reason, sizeof d->reason, "%s", attune_error_detail());
    }
    return EXIT_DONE;
}

static void print_devices(const comparison *c)
{
    for (int i = 0; i < c->count && !c->options->json; i++)
        if (c->devices[i].context)
            printf("%-22s %s (%s)\n", c->devices[i].info.id, c->devices[i].info.name,
                   c->devices[i].info.platform);
}

/* ---- one case ---- */

static attune_status judge_standard(const comparison *c, const compared_case *at, const inputs *in,
                                    const attune_reference *reference)
{
    compare_row row = {.device = "standard"};
    attune_arithmetic arithmetic;
    const tensor_sizes bytes = problem_bytes(&in->problem);
    void *const o = allocate(bytes.o);
    float *const lse = allocate(bytes.lse);
    attune_standard_arithmetic(&in->problem, &arithmetic);
    attune_status status = attune_standard_forward(&in->problem, in->q, in->k, in->v, o, lse);
    if (status == ATTUNE_OK) status = attune_judge(reference, &arithmetic, o, lse, &row.metrics);
    if (status == ATTUNE_OK) compare_print_row(c->options->json, at, &row);
    free(o);
    free(lse);
    return status;
}

/* A device that has no kernel or no memory for a problem is SKIPPED; whatever else goes wrong is a failure. */
static void report_no_result(comparison *c, const compared_case *at, const char *device,
                             const char *kernel, attune_status status)
{
    compare_row row = {.device = device, .kernel = kernel, .reason = attune_error_detail()};
    row.metrics.verdict = status == ATTUNE_UNSUPPORTED || status == ATTUNE_OUT_OF_MEMORY
                              ? ATTUNE_VERDICT_SKIPPED
                              : ATTUNE_VERDICT_FAIL;
    c->tally.verdicts[row.metrics.verdict]++;
    compare_print_row(c->options->json, at, &row);
}

/* Runs a device, judges and prints what it computed. Only the judge's own failure is returned. */
static attune_status judge_device(comparison *c, const compared_case *at, const inputs *in,
                                  const attune_reference *reference, const compared_device *d,
                                  outcome *out)
{
    *out = (outcome){.o = NULL};
    if (!d->context) {
        compare_row row = {.device = d->info.id, .reason = d->reason};
        row.metrics.verdict = ATTUNE_VERDICT_SKIPPED;
        c->tally.verdicts[ATTUNE_VERDICT_SKIPPED]++;
        compare_print_row(c->options->json, at, &row);
        return ATTUNE_OK;
    }
    runner r;
    const attune_plan_options options = options_of_plan(c->options);
    attune_status status = runner_open(&r, d->context, in, &options);
    if (status != ATTUNE_OK) {
        report_no_result(c, at, d->info.id, NULL, status);
        return ATTUNE_OK;
    }
    compare_row row = {.device = d->info.id,
                       .kernel = attune_plan_kernel(r.plan),
                       .engine = attune_plan_engine(r.plan),
                       .reproducible = attune_plan_reproducible(r.plan)};
    status = runner_run(&r, &row.milliseconds);
    if (status == ATTUNE_OK) status = runner_read(&r);
    if (status == ATTUNE_OK) status = attune_plan_arithmetic(r.plan, &out->arithmetic);
    if (status != ATTUNE_OK) {
        report_no_result(c, at, d->info.id, row.kernel, status);
        runner_close(&r);
        return ATTUNE_OK;
    }
    status = attune_judge(reference, &out->arithmetic, r.o, r.lse, &row.metrics);
    if (status == ATTUNE_OK) {
        c->tally.verdicts[row.metrics.verdict]++;
        compare_print_row(c->options->json, at, &row);
        out->o = r.o;
        out->lse = r.lse;
        r.o = NULL;
        r.lse = NULL;
    }
    runner_close(&r);
    return status;
}

static attune_status judge_pairs(comparison *c, const compared_case *at,
                                 const attune_reference *reference, const outcome *outcomes)
{
    for (int a = 0; a < c->count; a++)
        for (int b = a + 1; b < c->count; b++) {
            const outcome *const x = &outcomes[a], *const y = &outcomes[b];
            if (!x->o || !y->o) continue;
            compare_row row = {.device = c->devices[a].info.id, .against = c->devices[b].info.id};
            const attune_status status =
                attune_judge_pair(reference, &x->arithmetic, x->o, x->lse, &y->arithmetic, y->o,
                                  y->lse, &row.metrics);
            if (status != ATTUNE_OK) return status;
            if (row.metrics.verdict == ATTUNE_VERDICT_FAIL)
                c->tally.beyond++;
            else if (row.metrics.differ > 0)
                c->tally.differing++;
            else
                c->tally.identical++;
            compare_print_row(c->options->json, at, &row);
        }
    return ATTUNE_OK;
}

static int compare_case(comparison *c, const inputs *in, const char *fill)
{
    const compared_case at = {.problem = &in->problem, .fill = fill, .seed = c->options->seed};
    attune_reference *reference;
    attune_status status = attune_reference_create(&in->problem, in->q, in->k, in->v, &reference);
    if (status != ATTUNE_OK) return fail_status(status);
    if (!c->options->json) compare_print_head(&at);

    outcome outcomes[MAX_DEVICES] = {{.o = NULL}};
    status = judge_standard(c, &at, in, reference);
    for (int i = 0; i < c->count && status == ATTUNE_OK; i++)
        status = judge_device(c, &at, in, reference, &c->devices[i], &outcomes[i]);
    if (status == ATTUNE_OK) status = judge_pairs(c, &at, reference, outcomes);
    for (int i = 0; i < c->count; i++) {
        free(outcomes[i].o);
        free(outcomes[i].lse);
    }
    attune_reference_destroy(reference);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

/* ---- all cases ---- */

static int compare_files(comparison *c)
{
    inputs in;
    int code = inputs_from_files(c->options, true, &in);
    if (code != EXIT_DONE) return code;
    print_devices(c);
    code = compare_case(c, &in, NULL);
    inputs_free(&in);
    return code;
}

static int compare_problem(comparison *c, const char *text, int fill)
{
    attune_problem problem;
    inputs in;
    int code = problem_read(c->options, text, true, &problem);
    if (code == EXIT_DONE) code = inputs_from_problem(c->options, &problem, fill, &in);
    if (code != EXIT_DONE) return code;
    code = compare_case(c, &in, attune_fill_name((attune_fill)fill));
    inputs_free(&in);
    return code;
}

static int compare_problems(comparison *c)
{
    print_devices(c);
    const options *const o = c->options;
    const bool all = o->fill && strcmp(o->fill, "all") == 0;
    const int first = !o->fill ? ATTUNE_FILL_normal : all ? 0 : attune_fill_find(o->fill);
    const int last = all ? ATTUNE_FILL_COUNT - 1 : first;
    for (int i = 0; i < o->problem_count; i++)
        for (int fill = first; fill <= last; fill++) {
            const int code = compare_problem(c, o->problems[i], fill);
            if (code != EXIT_DONE) return code;
        }
    return EXIT_DONE;
}

static int check_options(const options *o)
{
    const bool files = o->q || o->k || o->v;
    if (o->problem_count == 0 && !files)
        return fail(EXIT_BAD_INPUT, "--problem, --problem-file or --q, --k and --v are needed");
    if (o->problem_count > 0 && files)
        return fail(EXIT_BAD_INPUT, "problems and files exclude each other");
    if (files && (o->fill || o->has_seed))
        return fail(EXIT_BAD_INPUT, "--fill and --seed belong to problems, not to files");
    if (!files && o->layout)
        return fail(EXIT_BAD_INPUT, "--layout belongs to files; a problem says layout=bhsd itself");
    int code = EXIT_DONE;
    for (int i = 0; i < o->problem_count && code == EXIT_DONE; i++) {
        attune_problem problem;
        code = problem_read(o, o->problems[i], true, &problem);
    }
    return code;
}

static int finish(const comparison *c)
{
    const int *const v = c->tally.verdicts;
    if (!c->options->json) compare_print_summary(&c->tally);
    if (v[ATTUNE_VERDICT_FAIL] > 0 || c->tally.beyond > 0) return EXIT_FAILED;
    if (v[ATTUNE_VERDICT_PASS] + v[ATTUNE_VERDICT_MARGINAL] + v[ATTUNE_VERDICT_MISTRUSTED] == 0)
        return fail(EXIT_FAILED, "every device was skipped");
    return EXIT_DONE;
}

int command_compare(const options *o)
{
    int code = check_options(o);
    if (code != EXIT_DONE) return code;
    comparison *const c = allocate(sizeof *c);
    *c = (comparison){.options = o};
    code = o->devices ? open_named(c, o->devices) : open_all(c);
    if (code == EXIT_DONE) code = o->q || o->k || o->v ? compare_files(c) : compare_problems(c);
    if (code == EXIT_DONE) code = finish(c);
    for (int i = 0; i < c->count; i++) attune_context_close(c->devices[i].context);
    free(c);
    return code;
}
