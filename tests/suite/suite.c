/* The equivalence suite: every device x fill x dtype x problem of its files, judged against the oracle with the componentwise bound, and bit
 * for bit against the first device. A failure's line ends with the command that shows it alone. Exit status 1 where something failed. */
#include "options.h"
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "suite: judges every device, fill, dtype and problem against the oracle, and against the "
    "first\n"
    "device. Exit status 1 where something failed. Its table counts, for each device and dtype:\n"
    "\n"
    "  cases                  runs and skipped runs\n"
    "  PASS to SKIPPED        their verdicts, as of attune compare\n"
    "  differ                 runs whose bits differ from the first device's though they are "
    "promised\n"
    "                         to be the same: failures\n"
    "  may                    runs whose bits differ where nothing is promised: another engine "
    "than\n"
    "                         the first run's where one is matrix, a kernel that is not "
    "reproducible,\n"
    "                         denormal values\n"
    "  ratio, lse             the largest error of o, and of lse, over its bound; more than 1 "
    "fails\n"
    "  worst                  the case that has this ratio\n"
    "  skipped                why runs were skipped, each reason once\n";

enum { TILES_PER_DEVICE = 6 };

/* Of the cases that should tell a right output from a constant (see `proves`) at most this share may not; it is looked at where there are
 * enough of them. One visible key for every row, or values that only differ in rows with one key, are the honest reasons. */
static const double mistrusted_limit = 0.1;
enum { ENOUGH_CASES = 20 };

typedef struct suite {
    options options;
    device devices[MAX_DEVICES];
    int device_count;
    tally tallies[MAX_DEVICES][DTYPES];
    int failures;
} suite;

/* One input, which every device gets. */
typedef struct trial {
    const inputs *in;
    const attune_reference *reference;
    attune_fill fill;
    outputs first; /* of the first device that ran it; o is NULL before */
} trial;

/* A single key or a row without keys give outputs that one constant would match. */
static bool proves(const trial *t)
{
    const attune_problem *const p = &t->in->problem;
    return p->seqlen_k > 1 && p->batch > 0 && p->seqlen_q > 0;
}

/* Denormal values lose bits when a later max rescales them, so there tiles may show (and some devices flush). */
static bool are_promised(const trial *t, const outputs *out)
{
    return t->fill != ATTUNE_FILL_denormal && must_be_same(&t->first, out);
}

static void describe(const trial *t, uint64_t seed, char text[640])
{
    char problem[512];
    attune_problem_print(&t->in->problem, problem, sizeof problem);
    snprintf(text, 640, "--problem '%s' --fill %s --seed %llu", problem, attune_fill_name(t->fill),
             (unsigned long long)seed);
}

static void fail(suite *s, const char *device, const char *name, const char *what)
{
    s->failures++;
    const options *const o = &s->options;
    printf("FAIL %s: %s\n    attune compare --devices %s %s%s%s%s%s\n", device, what, device, name,
           o->engine != NULL ? " --engine " : "", o->engine != NULL ? o->engine : "",
           o->reproducible ? " --reproducible" : "", o->tf32 ? " --tf32" : "");
    fflush(stdout);
}

static void judge(suite *s, int index, trial *t, outputs *out, const char *name)
{
    const char *const device = s->devices[index].name;
    tally *const count = &s->tallies[index][t->in->problem.dtype];
    char what[REASON_SIZE];
    attune_metrics metrics;
    if (attune_judge(t->reference, &out->arithmetic, out->o, out->lse, &metrics) != ATTUNE_OK) {
        fail(s, device, name, attune_error_detail());
        return;
    }
    tally_add(count, &metrics, name, proves(t));
    if (metrics.verdict == ATTUNE_VERDICT_FAIL) {
        snprintf(what, sizeof what,
                 "%s: bound_ratio %.3g at %lld:%lld:%lld:%lld, lse_bound_ratio %.3g", out->kernel,
                 metrics.bound_ratio, (long long)metrics.worst[0], (long long)metrics.worst[1],
                 (long long)metrics.worst[2], (long long)metrics.worst[3], metrics.lse_bound_ratio);
        fail(s, device, name, what);
    }
    if (t->first.o == NULL) return;

    if (attune_judge_pair(t->reference, &t->first.arithmetic, t->first.o, t->first.lse,
                          &out->arithmetic, out->o, out->lse, &metrics) != ATTUNE_OK) {
        fail(s, device, name, attune_error_detail());
        return;
    }
    const bool differ = metrics.differ > 0, promised = are_promised(t, out);
    count->different += differ && promised;
    count->may_differ += differ && !promised;
    if ((differ && promised) || metrics.verdict == ATTUNE_VERDICT_FAIL) {
        snprintf(what, sizeof what, "%s and %s: %lld of %lld elements differ, bound_ratio %.3g",
                 t->first.kernel, out->kernel, (long long)metrics.differ,
                 (long long)metrics.elements, metrics.bound_ratio);
        fail(s, device, name, what);
    }
}

static void run_kernel(suite *s, int index, trial *t, const attune_plan_options *options,
                       const char *name)
{
    outputs out;
    char why[REASON_SIZE];
    switch (device_run(&s->devices[index], t->in, options, &out, why)) {
    case RUN_SKIPPED:
        tally_skip(&s->tallies[index][t->in->problem.dtype], why);
        return;
    case RUN_FAILED:
        s->tallies[index][t->in->problem.dtype].cases++;
        s->tallies[index][t->in->problem.dtype].verdicts[ATTUNE_VERDICT_FAIL]++;
        fail(s, s->devices[index].name, name, why);
        return;
    case RUN_DONE:
        break;
    }
    if (t->fill == ATTUNE_FILL_huge && out.arithmetic.u_in > 0) {
        tally_skip(&s->tallies[index][t->in->problem.dtype],
                   "fill huge: of scores that rounded inputs move by more than 1, the bound says "
                   "nothing (attune/numerics.h)");
        outputs_free(&out);
        return;
    }
    judge(s, index, t, &out, name);
    if (t->first.o == NULL)
        t->first = out;
    else
        outputs_free(&out);
}

static void run_device(suite *s, int index, trial *t, const char *name)
{
    attune_plan_options plan = options_of_plan(&s->options, index, s->device_count);
    if (!s->options.tiles) {
        run_kernel(s, index, t, &plan, name);
        return;
    }
    kernel_ids ids =
        kernels_select(&s->devices[index], &t->in->problem, &plan, TILES_PER_DEVICE, false);
    if (ids.count == 0) run_kernel(s, index, t, &plan, name);
    for (int i = 0; i < ids.count; i++) {
        plan.kernel = ids.at[i];
        run_kernel(s, index, t, &plan, name);
    }
    kernel_ids_free(&ids);
}

/* `number`: of the problem in its list. */
static void run_problem(suite *s, const attune_problem *problem, int number)
{
    inputs in = inputs_create(problem);
    int turn = number + (int)problem->dtype;
    for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++) {
        if (!s->options.fills[fill]) continue;
        if (s->options.thin && turn++ % DTYPES != 0) continue;
        char name[640];
        attune_reference *reference = NULL;
        inputs_fill(&in, (attune_fill)fill, s->options.seed);
        trial t = {.in = &in, .fill = (attune_fill)fill};
        describe(&t, s->options.seed, name);
        if (attune_reference_create(problem, in.q, in.k, in.v, &reference) != ATTUNE_OK) {
            fail(s, "oracle", name, attune_error_detail());
            continue;
        }
        t.reference = reference;
        for (int i = 0; i < s->device_count; i++)
            if (s->devices[i].context != NULL) run_device(s, i, &t, name);
        outputs_free(&t.first);
        attune_reference_destroy(reference);
    }
    inputs_free(&in);
}

static void print_table(suite *s)
{
    tally_print_header();
    for (int i = 0; i < s->device_count; i++)
        for (int dtype = 0; dtype < DTYPES; dtype++) {
            const tally *const t = &s->tallies[i][dtype];
            if (t->cases == 0) continue;
            tally_print(t, s->devices[i].name, attune_dtype_name((attune_dtype)dtype));
            if (t->cases == t->verdicts[ATTUNE_VERDICT_SKIPPED]) {
                s->failures++;
                printf("FAIL %s: all was skipped\n", s->devices[i].name);
            }
            if (t->proving >= ENOUGH_CASES &&
                (double)t->mistrusted > mistrusted_limit * (double)t->proving) {
                s->failures++;
                printf("FAIL %s: %lld of %lld outputs are too uniform to prove anything\n",
                       s->devices[i].name, (long long)t->mistrusted, (long long)t->proving);
            }
        }
}

/* A short name can mean another device than was meant where a runtime is missing; a device compared with itself proves nothing. */
static bool named_twice(const suite *s, int index)
{
    for (int i = 0; i < index; i++)
        if (s->devices[i].context != NULL &&
            strcmp(s->devices[i].info.id, s->devices[index].info.id) == 0)
            return true;
    return false;
}

static void open_devices(suite *s)
{
    s->device_count = devices_open(s->devices, s->options.devices);
    int open = 0;
    for (int i = 0; i < s->device_count; i++) {
        const device *const d = &s->devices[i];
        open += d->context != NULL;
        if (d->context != NULL && named_twice(s, i)) {
            s->failures++;
            printf("FAIL %s: it is %s again\n", d->name, d->info.id);
        } else if (d->context != NULL) {
            printf("%s: %s (%s)\n", d->name, d->info.name, d->info.platform);
        } else if (in_list(s->options.require, d->name)) {
            s->failures++;
            printf("FAIL %s: required, and missing: %s\n", d->name, d->missing);
        } else {
            printf("SKIPPED %s: %s\n", d->name, d->missing);
        }
    }
    if (open == 0) {
        s->failures++;
        printf("FAIL: no device is open\n");
    }
}

int main(int argc, char **argv)
{
    suite s = {.options = options_parse_problems(argc, argv, about)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_devices(&s);
    const options *const o = &s.options;
    for (int i = o->shard; i < o->problems.count; i += o->shards)
        for (int t = 0; t < o->dtype_count; t++) {
            const attune_problem problem =
                o->dtypes[t] == OWN_DTYPE
                    ? o->problems.at[i]
                    : with_dtype(o->problems.at[i], (attune_dtype)o->dtypes[t]);
            run_problem(&s, &problem, i / o->shards);
        }
    print_table(&s);
    for (int i = 0; i < s.device_count; i++) device_close(&s.devices[i]);
    problem_list_free(&s.options.problems);
    printf("%d failures\n", s.failures);
    return s.failures > 0;
}
