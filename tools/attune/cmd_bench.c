#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "fail.h"
#include "json.h"
#include "peak.h"
#include "runner.h"
#include "statistics.h"

enum { MAX_RUNS = 1000, MIN_RUNS = 5 };
static const double MEASURE_SECONDS = 1.0;

typedef struct timing {
    quartiles of; /* milliseconds */
    int runs;
    int threads; /* 0 where the device is no cpu */
    double peak; /* GFLOP/s, 0 where it is not known */
} timing;

/* Warms up, then runs for about a second. */
static attune_status measure(const runner *r, timing *t)
{
    static double times[MAX_RUNS];
    double ignored;
    attune_status status = runner_run(r, &ignored);
    if (status == ATTUNE_OK) status = runner_run(r, &ignored);
    const double start = seconds_now();
    int runs = 0;
    while (status == ATTUNE_OK && runs < MAX_RUNS &&
           (runs < MIN_RUNS || seconds_now() - start < MEASURE_SECONDS))
        status = runner_run(r, &times[runs++]);
    *t = (timing){.of = quartiles_of(times, runs), .runs = runs};
    return status;
}

static void report(const options *o, const inputs *in, const char *fill, const char *device,
                   const attune_plan *plan, const timing *t)
{
    const char *const kernel = attune_plan_kernel(plan);
    char problem[512];
    attune_problem_print(&in->problem, problem, sizeof problem);
    const double gflops = t->of.median > 0 ? problem_flops(&in->problem) / (t->of.median * 1e6) : 0;
    if (!o->json) {
        printf("%s  fill %s\n%s  %s\n", problem, fill, device, kernel);
        printf("  median %.3f ms of %d runs (min %.3f, quartiles %.3f to %.3f), %.1f GFLOP/s",
               t->of.median, t->runs, t->of.least, t->of.lower, t->of.upper, gflops);
        if (t->peak > 0)
            printf(", %.1f %% of the %.0f GFLOP/s FMA peak of %d thread%s", 100 * gflops / t->peak,
                   t->peak, t->threads, t->threads == 1 ? "" : "s");
        printf("\n  peak RSS %.1f MiB\n", (double)peak_rss() / 0x1p20);
        return;
    }
    json_begin();
    json_text("problem", problem);
    json_text("fill", fill);
    json_integer("seed", o->seed);
    json_text("device", device);
    json_text("kernel", kernel);
    json_text("engine", attune_plan_engine(plan));
    json_bool("reproducible", attune_plan_reproducible(plan));
    t->threads > 0 ? json_integer("threads", (uint64_t)t->threads) : json_null("threads");
    json_number("milliseconds", t->of.median);
    json_number("milliseconds_min", t->of.least);
    json_number("milliseconds_q1", t->of.lower);
    json_number("milliseconds_q3", t->of.upper);
    json_integer("runs", (uint64_t)t->runs);
    json_number("gflops", gflops);
    json_number("peak_gflops", t->peak > 0 ? t->peak : NAN);
    json_number("peak_share", t->peak > 0 ? gflops / t->peak : NAN);
    json_integer("peak_rss_bytes", peak_rss());
    json_end();
}

/* The peak is taken before and after, since clocks change with heat and neighbours. */
static int bench_problem(const options *o, const char *text, int fill, attune_context *context,
                         const attune_device_info *info)
{
    attune_problem problem;
    inputs in;
    int code = problem_read(o, text, false, &problem);
    if (code == EXIT_DONE) code = inputs_from_problem(o, &problem, fill, &in);
    if (code != EXIT_DONE) return code;
    runner r;
    const attune_plan_options options = options_of_plan(o);
    attune_status status = runner_open_freeing(&r, context, &in, &options);
    if (status == ATTUNE_OK) {
        const int threads = strcmp(info->backend, "cpu") == 0 ? o->threads : 0;
        const double before = peak_fma_gflops(threads);
        timing t;
        status = measure(&r, &t);
        t.threads = threads;
        t.peak = fmax(before, peak_fma_gflops(threads));
        if (status == ATTUNE_OK)
            report(o, &in, attune_fill_name((attune_fill)fill), info->id, r.plan, &t);
        runner_close(&r);
    }
    inputs_free(&in);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

int command_bench(const options *given)
{
    options o = *given;
    const int fill = o.fill ? attune_fill_find(o.fill) : ATTUNE_FILL_normal;
    if (o.problem_count == 0) return fail(EXIT_BAD_INPUT, "--problem or --problem-file is needed");
    if (fill < 0) return fail(EXIT_BAD_INPUT, "--fill: bench takes one, not all");
    if (o.threads == 0) o.threads = usable_processors();

    attune_context *context = NULL;
    attune_device_info info;
    const attune_status status = open_device(o.device, o.threads, &context, &info);
    int code = status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
    for (int i = 0; i < o.problem_count && code == EXIT_DONE; i++)
        code = bench_problem(&o, o.problems[i], fill, context, &info);
    attune_context_close(context);
    return code;
}
