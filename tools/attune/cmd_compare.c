#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "fail.h"
#include "json.h"
#include "runner.h"

enum { MAX_DEVICES = 32 };

typedef struct compared_device {
    attune_context *context;
    attune_device_info info;
} compared_device;

/* What has been seen of all cases. */
typedef struct tally {
    int checks, failures;
} tally;

/* ---- devices ---- */

static int open_device(compared_device *d, const char *name, int threads)
{
    attune_context_options settings;
    attune_context_options_init(&settings);
    settings.threads = threads;
    *d = (compared_device){.context = NULL};
    attune_status status = attune_context_open(name, &settings, &d->context);
    if (status == ATTUNE_OK) status = attune_context_device(d->context, &d->info);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

/* The devices of --devices, or every one that can be opened. */
static int open_devices(const options *o, compared_device devices[MAX_DEVICES], int *count)
{
    *count = 0;
    if (!o->devices) {
        for (int i = 0; i < attune_device_count() && *count < MAX_DEVICES; i++) {
            attune_device_info info;
            if (attune_device_get(i, &info) != ATTUNE_OK || info.reason[0] != '\0') continue;
            const int code = open_device(&devices[*count], info.id, o->threads);
            if (code != EXIT_DONE) return code;
            ++*count;
        }
        return EXIT_DONE;
    }
    for (const char *name = o->devices; *name != '\0';) {
        const size_t length = strcspn(name, ",");
        char id[128];
        snprintf(id, sizeof id, "%.*s", (int)length, name);
        if (*count == MAX_DEVICES) return fail(EXIT_BAD_INPUT, "more than %d devices", MAX_DEVICES);
        const int code = open_device(&devices[*count], id, o->threads);
        if (code != EXIT_DONE) return code;
        ++*count;
        name += length + (name[length] == ',');
    }
    return *count > 0 ? EXIT_DONE : fail(EXIT_BAD_INPUT, "--devices names none");
}

/* ---- rows of the table ---- */

static void print_head(const char *problem, const char *fill)
{
    printf("\n%s%s%s\n", problem, fill[0] != '\0' ? "  fill " : "", fill);
    printf("  %-24s %-40s %9s %9s %9s %6s %6s %9s  %s\n", "device", "kernel", "max_abs", "rms_rel",
           "max_ulp", "ratio", "bias", "lse_abs", "verdict");
}

static void print_row(const options *o, const char *problem, const char *fill, const char *device,
                      const char *kernel, const attune_metrics *m, double milliseconds,
                      double gflops)
{
    if (!o->json) {
        printf("  %-24s %-40s %9.2e %9.2e %9.3g %6.3f %+6.2f %9.2e  %s\n", device, kernel,
               m->max_abs, m->rms_rel, m->max_ulp, m->bound_ratio, m->bias, m->lse_max_abs,
               attune_verdict_name(m->verdict));
        return;
    }
    json_begin();
    json_text("problem", problem);
    json_text("fill", fill);
    json_text("device", device);
    json_text("kernel", kernel);
    json_number("max_abs", m->max_abs);
    json_number("rms_rel", m->rms_rel);
    json_number("max_ulp", m->max_ulp);
    json_number("bound_ratio", m->bound_ratio);
    json_number("bias", m->bias);
    json_number("lse_max_abs", m->lse_max_abs);
    json_number("lse_bound_ratio", m->lse_bound_ratio);
    json_text("verdict", attune_verdict_name(m->verdict));
    json_number("milliseconds", milliseconds);
    json_number("gflops", gflops);
    json_end();
}

static void print_skipped(const options *o, const char *problem, const char *fill,
                          const char *device, const char *reason)
{
    if (!o->json) {
        printf("  %-24s SKIPPED: %s\n", device, reason);
        return;
    }
    json_begin();
    json_text("problem", problem);
    json_text("fill", fill);
    json_text("device", device);
    json_text("verdict", "SKIPPED");
    json_text("reason", reason);
    json_end();
}

static void print_pair(const options *o, const char *problem, const char *fill, const char *a,
                       const char *b, const attune_metrics *m)
{
    const char *const relation = m->differ == 0 ? "identical" : "differ";
    if (!o->json) {
        char pair[80];
        snprintf(pair, sizeof pair, "%s ~ %s", a, b);
        printf("  %-24s ", pair);
        if (m->differ == 0)
            puts("identical");
        else
            printf("%-40s %9.2e %9.2e %9.3g %6.3f %+6.2f %9.2e  %s (%lld differ)\n", "", m->max_abs,
                   m->rms_rel, m->max_ulp, m->bound_ratio, m->bias, m->lse_max_abs,
                   attune_verdict_name(m->verdict), (long long)m->differ);
        return;
    }
    json_begin();
    json_text("problem", problem);
    json_text("fill", fill);
    json_text("device", a);
    json_text("against", b);
    json_text("relation", relation);
    json_number("differ", (double)m->differ);
    json_number("max_abs", m->max_abs);
    json_number("rms_rel", m->rms_rel);
    json_number("max_ulp", m->max_ulp);
    json_number("bound_ratio", m->bound_ratio);
    json_text("verdict", attune_verdict_name(m->verdict));
    json_end();
}

/* ---- one case ---- */

static attune_status compare_standard(const options *o, const inputs *in,
                                      const attune_reference *reference, const char *problem,
                                      const char *fill)
{
    attune_arithmetic arithmetic;
    attune_metrics metrics;
    void *const out = allocate(inputs_output_bytes(&in->problem));
    float *const lse = allocate(inputs_lse_bytes(&in->problem));
    attune_standard_arithmetic(&in->problem, &arithmetic);
    attune_status status = attune_standard_forward(&in->problem, in->q, in->k, in->v, out, lse);
    if (status == ATTUNE_OK) status = attune_judge(reference, &arithmetic, out, lse, &metrics);
    if (status == ATTUNE_OK)
        print_row(o, problem, fill, "standard attention", attune_dtype_name(in->problem.dtype),
                  &metrics, 0, 0);
    free(out);
    free(lse);
    return status;
}

static attune_status compare_pairs(const options *o, const compared_device *devices,
                                   const run_result *results, int count,
                                   const attune_reference *reference, const char *problem,
                                   const char *fill, tally *seen)
{
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++) {
            if (!results[a].o || !results[b].o) continue;
            attune_metrics m;
            const attune_status status =
                attune_judge_pair(reference, &results[a].arithmetic, results[a].o, results[a].lse,
                                  &results[b].arithmetic, results[b].o, results[b].lse, &m);
            if (status != ATTUNE_OK) return status;
            print_pair(o, problem, fill, devices[a].info.id, devices[b].info.id, &m);
            seen->failures += m.verdict == ATTUNE_VERDICT_FAIL;
        }
    return ATTUNE_OK;
}

/* Every device on one input. A device that cannot is SKIPPED with its reason. */
static int compare_case(const options *o, const compared_device *devices, int count,
                        const inputs *in, const char *fill, tally *seen)
{
    char problem[512];
    attune_problem_print(&in->problem, problem, sizeof problem);
    attune_reference *reference;
    attune_status status = attune_reference_create(&in->problem, in->q, in->k, in->v, &reference);
    if (status != ATTUNE_OK) return fail_status(status);
    if (!o->json) print_head(problem, fill);
    status = compare_standard(o, in, reference, problem, fill);

    run_result results[MAX_DEVICES] = {{.o = NULL}};
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        if (run_once(devices[i].context, in, o->kernel, &results[i]) != ATTUNE_OK) {
            print_skipped(o, problem, fill, devices[i].info.id, attune_error_detail());
            continue;
        }
        attune_metrics m;
        status = attune_judge(reference, &results[i].arithmetic, results[i].o, results[i].lse, &m);
        if (status != ATTUNE_OK) break;
        const double gflops = inputs_flops(&in->problem) / (results[i].milliseconds * 1e6);
        print_row(o, problem, fill, devices[i].info.id, results[i].kernel, &m,
                  results[i].milliseconds, gflops);
        seen->checks++;
        seen->failures += m.verdict == ATTUNE_VERDICT_FAIL;
    }
    if (status == ATTUNE_OK)
        status = compare_pairs(o, devices, results, count, reference, problem, fill, seen);
    for (int i = 0; i < count; i++) run_result_free(&results[i]);
    attune_reference_destroy(reference);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

static int compare_all(const options *o, const compared_device *devices, int count, tally *seen)
{
    inputs in;
    if (o->q || o->k || o->v) {
        int code = inputs_from_files(o, &in);
        if (code == EXIT_DONE) code = compare_case(o, devices, count, &in, "", seen);
        inputs_free(&in);
        return code;
    }
    const bool all = o->fill && strcmp(o->fill, "all") == 0;
    const int one = o->fill && !all ? attune_fill_find(o->fill) : ATTUNE_FILL_normal;
    for (int i = 0; i < o->problem_count; i++)
        for (int fill = all ? 0 : one; fill < (all ? ATTUNE_FILL_COUNT : one + 1); fill++) {
            int code = inputs_from_problem(o, o->problems[i], fill, &in);
            if (code != EXIT_DONE) return code;
            code = compare_case(o, devices, count, &in, attune_fill_name((attune_fill)fill), seen);
            inputs_free(&in);
            if (code != EXIT_DONE) return code;
        }
    return EXIT_DONE;
}

int command_compare(const options *o)
{
    if (o->problem_count == 0 && !o->q)
        return fail(EXIT_BAD_INPUT, "--problem, --problem-file or --q, --k and --v are needed");
    if (o->problem_count > 0 && (o->q || o->k || o->v))
        return fail(EXIT_BAD_INPUT, "problems and files exclude each other");
    compared_device devices[MAX_DEVICES];
    int count;
    int code = open_devices(o, devices, &count);
    tally seen = {.checks = 0};
    if (code == EXIT_DONE) code = compare_all(o, devices, count, &seen);
    for (int i = 0; i < count; i++) attune_context_close(devices[i].context);
    if (code != EXIT_DONE) return code;
    if (seen.checks == 0) return fail(EXIT_FAILED, "every device was skipped");
    if (!o->json) printf("\n%d checks, %d failures\n", seen.checks, seen.failures);
    return seen.failures > 0 ? EXIT_FAILED : EXIT_DONE;
}
