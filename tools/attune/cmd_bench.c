#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "fail.h"
#include "json.h"
#include "peak.h"
#include "runner.h"

enum { MAX_RUNS = 1000, MIN_RUNS = 5 };
static const double MEASURE_SECONDS = 1.0;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct timing {
    double least, lower, median, upper; /* milliseconds: minimum and quartiles */
    int runs;
} timing;

/* Warms up, then runs for about a second. */
static attune_status measure(const runner *r, timing *t)
{
    static double times[MAX_RUNS];
    double ignored;
    attune_status status = attune_plan_time(r->plan, &r->tensors, NULL, &ignored);
    if (status == ATTUNE_OK) status = attune_plan_time(r->plan, &r->tensors, NULL, &ignored);
    const double start = seconds_now();
    int runs = 0;
    while (status == ATTUNE_OK && runs < MAX_RUNS &&
           (runs < MIN_RUNS || seconds_now() - start < MEASURE_SECONDS))
        status = attune_plan_time(r->plan, &r->tensors, NULL, &times[runs++]);
    qsort(times, (size_t)runs, sizeof *times, ascending);
    *t = (timing){.least = times[0],
                  .lower = times[runs / 4],
                  .median = times[runs / 2],
                  .upper = times[runs * 3 / 4],
                  .runs = runs};
    return status;
}

static void report(const options *o, const attune_problem *p, const char *device,
                   const char *kernel, const timing *t, double peak)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    char problem[512];
    attune_problem_print(p, problem, sizeof problem);
    const double gflops = inputs_flops(p) / (t->median * 1e6);
    if (o->json) {
        json_begin();
        json_text("problem", problem);
        json_text("device", device);
        json_text("kernel", kernel);
        json_number("milliseconds", t->median);
        json_number("milliseconds_min", t->least);
        json_number("milliseconds_q1", t->lower);
        json_number("milliseconds_q3", t->upper);
        json_number("runs", t->runs);
        json_number("gflops", gflops);
        json_number("peak_gflops", peak);
        json_number("peak_share", peak > 0 ? gflops / peak : 0);
        json_number("peak_rss_bytes", (double)usage.ru_maxrss * 1024);
        json_end();
        return;
    }
    printf("%s\n%s  %s\n", problem, device, kernel);
    printf("  median %.3f ms of %d runs (min %.3f, quartiles %.3f to %.3f), %.1f GFLOP/s",
           t->median, t->runs, t->least, t->lower, t->upper, gflops);
    if (peak > 0) printf(", %.1f %% of the %.0f GFLOP/s FMA peak", 100 * gflops / peak, peak);
    printf("\n  peak RSS %.1f MiB\n", (double)usage.ru_maxrss / 1024);
}

static int bench(const options *o, attune_context *context, const attune_device_info *info)
{
    const int fill = o->fill ? attune_fill_find(o->fill) : ATTUNE_FILL_normal;
    if (fill < 0) return fail(EXIT_BAD_INPUT, "bench takes one fill, not all");
    const bool is_cpu = strcmp(info->backend, "cpu") == 0;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int threads = o->threads > 0 ? o->threads : processors > 0 ? (int)processors : 1;
    for (int i = 0; i < o->problem_count; i++) {
        inputs in;
        const int code = inputs_from_problem(o, o->problems[i], fill, &in);
        if (code != EXIT_DONE) return code;
        runner r;
        timing t;
        attune_status status = runner_open(&r, context, &in, o->kernel);
        if (status == ATTUNE_OK) {
            const double before = is_cpu ? peak_fma_gflops(threads) : 0;
            status = measure(&r, &t);
            const double after = is_cpu ? peak_fma_gflops(threads) : 0;
            if (status == ATTUNE_OK)
                report(o, &in.problem, info->id, attune_plan_kernel(r.plan), &t,
                       before > after ? before : after);
            runner_close(&r);
        }
        inputs_free(&in);
        if (status != ATTUNE_OK) return fail_status(status);
    }
    return EXIT_DONE;
}

int command_bench(const options *o)
{
    if (o->problem_count == 0) return fail(EXIT_BAD_INPUT, "--problem is needed");
    attune_context_options settings;
    attune_context_options_init(&settings);
    settings.threads = o->threads;
    attune_context *context = NULL;
    attune_device_info info;
    attune_status status = attune_context_open(o->device, &settings, &context);
    if (status == ATTUNE_OK) status = attune_context_device(context, &info);
    const int code = status == ATTUNE_OK ? bench(o, context, &info) : fail_status(status);
    attune_context_close(context);
    return code;
}
