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

/* What is timed: the plan of the options and, with --against-default, that of the built-in table. */
enum { PLAN, DEFAULT, MOST_PLANS };

/* Warms up, then runs for about a second a plan, the plans in turns. */
static attune_status measure(const runner r[MOST_PLANS], int plans, timing t[MOST_PLANS])
{
    static double times[MOST_PLANS][MAX_RUNS];
    double ignored;
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < 2 * plans && status == ATTUNE_OK; i++)
        status = runner_run(&r[i % plans], &ignored);
    const double start = seconds_now();
    int runs = 0;
    while (status == ATTUNE_OK && runs < MAX_RUNS &&
           (runs < MIN_RUNS || seconds_now() - start < plans * MEASURE_SECONDS)) {
        for (int p = 0; p < plans && status == ATTUNE_OK; p++)
            status = runner_run(&r[p], &times[p][runs]);
        runs++;
    }
    for (int p = 0; p < plans; p++)
        t[p] = (timing){.of = quartiles_of(times[p], runs), .runs = runs};
    return status;
}

/* `usual`: the default's plan and its time, NULL where it was not asked for. */
static void report(const options *o, const inputs *in, const char *fill, const char *device,
                   const attune_plan *plan, const timing *t, const attune_plan *usual,
                   const timing *usual_time)
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
        if (usual)
            printf(
                "\n  default %s: median %.3f ms (quartiles %.3f to %.3f), in turns; %.3f times as "
                "long",
                attune_plan_kernel(usual), usual_time->of.median, usual_time->of.lower,
                usual_time->of.upper, usual_time->of.median / t->of.median);
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
    if (usual) {
        json_text("default_kernel", attune_plan_kernel(usual));
        json_number("default_milliseconds", usual_time->of.median);
        json_number("default_milliseconds_q1", usual_time->of.lower);
        json_number("default_milliseconds_q3", usual_time->of.upper);
    }
    json_end();
}

/* The inputs are freed as soon as the device has its copies, unless a second plan needs them. */
static attune_status open_runners(const options *o, attune_context *context, inputs *in,
                                  runner r[MOST_PLANS], int *plans)
{
    attune_plan_options plan = options_of_plan(o);
    *plans = 0;
    if (!o->against_default) {
        const attune_status status = runner_open_freeing(&r[PLAN], context, in, &plan);
        *plans = status == ATTUNE_OK;
        return status;
    }
    attune_status status = runner_open(&r[PLAN], context, in, &plan);
    *plans = status == ATTUNE_OK;
    plan.deterministic = 1;
    if (status == ATTUNE_OK) status = runner_open(&r[DEFAULT], context, in, &plan);
    *plans += status == ATTUNE_OK;
    return status;
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
    runner r[MOST_PLANS];
    int plans;
    attune_status status = open_runners(o, context, &in, r, &plans);
    if (status == ATTUNE_OK) {
        const int threads = strcmp(info->backend, "cpu") == 0 ? o->threads : 0;
        const double before = peak_fma_gflops(threads);
        timing t[MOST_PLANS];
        status = measure(r, plans, t);
        t[PLAN].threads = threads;
        t[PLAN].peak = fmax(before, peak_fma_gflops(threads));
        if (status == ATTUNE_OK)
            report(o, &in, attune_fill_name((attune_fill)fill), info->id, r[PLAN].plan, &t[PLAN],
                   plans > DEFAULT ? r[DEFAULT].plan : NULL, &t[DEFAULT]);
    }
    for (int p = 0; p < plans; p++) runner_close(&r[p]);
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
