/* A long problem in little memory: the run of a problem whose scores would not fit anywhere, its peak memory, and a sample of its rows
 * against the oracle.
 *
 *     long DEVICE PROBLEM FILL
 *
 * What is counted: how much the resident memory of the process rises, at its highest, from before the inputs exist until o and lse lie in
 * host memory; that is the inputs, the outputs, the workspace, and whatever the device's runtime takes for them. On cpu they are used where
 * they lie; elsewhere a host tensor is freed once the device has its copy. What is not: the runtime and its compiled kernel, which a small
 * run has made before. Exit status 1 where a row is wrong or the peak is above twice the inputs and outputs, 77 where the device is missing. */
#include "device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLED_ROWS = 24, SKIPPED_STATUS = 77 };

/* A line of /proc/self/status in bytes, "VmRSS:" or "VmHWM:"; 0 where there is none. */
static double memory_status(const char *key)
{
    FILE *const file = fopen("/proc/self/status", "r");
    char line[256];
    double kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0) kib = strtod(line + strlen(key), NULL);
    if (file != NULL) fclose(file);
    return kib * 1024;
}

/* From here on VmHWM is the peak since now (proc(5), clear_refs). */
static bool reset_peak(void)
{
    FILE *const file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL) return false;
    const bool written = fputs("5", file) >= 0;
    return fclose(file) == 0 && written;
}

static int failure(const char *what)
{
    printf("FAIL %s: %s\n", what, attune_error_detail());
    return 1;
}

/* Makes the device compile, and allocate whatever it keeps. */
static bool warm_up(const device *d, const attune_problem *problem)
{
    attune_problem small = *problem;
    small.seqlen_q = small.seqlen_k = 128;
    attune_problem_set_layout(&small, ATTUNE_LAYOUT_BSHD);
    inputs in = inputs_create(&small);
    inputs_fill(&in, ATTUNE_FILL_normal, 1);
    outputs out;
    char why[REASON_SIZE] = "";
    const bool good = device_run(d, &in, NULL, &out, why) == RUN_DONE;
    if (good) outputs_free(&out);
    inputs_free(&in);
    if (!good) printf("FAIL warm-up: %s\n", why);
    return good;
}

/* Hands a host tensor to the device: as it is on cpu, else as a copy, and the host's is freed. */
static attune_status hand_over(const device *d, void **host, size_t bytes, attune_buffer *buffer)
{
    if (strcmp(d->info.backend, "cpu") == 0) {
        *buffer = (attune_buffer){.handle = *host};
        return ATTUNE_OK;
    }
    attune_status status = attune_buffer_alloc(d->context, bytes, buffer);
    if (status == ATTUNE_OK) status = attune_buffer_write(d->context, *buffer, *host, bytes, NULL);
    free(*host);
    *host = NULL;
    return status;
}

/* Runs the problem; the inputs are gone afterwards where the device has memory of its own. */
static attune_status run_long(const device *d, inputs *in, outputs *out, double *seconds)
{
    const attune_problem *const p = &in->problem;
    const bool in_place = strcmp(d->info.backend, "cpu") == 0;
    const size_t o_bytes = span_bytes(p, TENSOR_O),
                 lse_bytes = (size_t)lse_count(p) * sizeof(float);
    attune_plan *plan = NULL;
    attune_forward_tensors t;
    attune_forward_tensors_init(&t);
    attune_status status = attune_plan_create(d->context, p, NULL, &plan);
    if (status == ATTUNE_OK) status = attune_plan_arithmetic(plan, &out->arithmetic);
    if (status == ATTUNE_OK) status = hand_over(d, &in->q, span_bytes(p, TENSOR_Q), &t.q);
    if (status == ATTUNE_OK) status = hand_over(d, &in->k, span_bytes(p, TENSOR_K), &t.k);
    if (status == ATTUNE_OK) status = hand_over(d, &in->v, span_bytes(p, TENSOR_V), &t.v);
    if (status == ATTUNE_OK) status = hand_over(d, &out->o, o_bytes, &t.o);
    if (status == ATTUNE_OK) status = hand_over(d, (void **)&out->lse, lse_bytes, &t.lse);
    if (status == ATTUNE_OK)
        status = attune_buffer_alloc(d->context, attune_plan_workspace_size(plan), &t.workspace);

    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (status == ATTUNE_OK) status = attune_plan_run(plan, &t, NULL);
    if (status == ATTUNE_OK) status = attune_synchronize(d->context, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    *seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    if (status == ATTUNE_OK)
        snprintf(out->kernel, sizeof out->kernel, "%s", attune_plan_kernel(plan));

    attune_buffer_free(d->context, &t.workspace);
    if (!in_place && status == ATTUNE_OK) {
        out->o = allocate(o_bytes);
        out->lse = allocate(lse_bytes);
        status = attune_buffer_read(d->context, t.o, out->o, o_bytes, NULL);
        if (status == ATTUNE_OK)
            status = attune_buffer_read(d->context, t.lse, out->lse, lse_bytes, NULL);
    }
    attune_buffer *const copies[] = {&t.q, &t.k, &t.v, &t.o, &t.lse};
    for (int i = 0; i < 5 && !in_place; i++) attune_buffer_free(d->context, copies[i]);
    attune_plan_destroy(plan);
    return status;
}

/* Largest |error| / bound over o and lse of one row. */
static double judge_row(const inputs *in, const outputs *out, int64_t row)
{
    const attune_problem *const p = &in->problem;
    const tensor_shape shape = shape_of(p, TENSOR_O);
    double o[256], lse, worst = 0;
    attune_error_terms terms[256], lse_terms;
    int64_t visible;
    if (attune_reference_row(p, in->q, in->k, in->v, 0, 0, row, o, terms, &lse, &lse_terms,
                             &visible) != ATTUNE_OK)
        return INFINITY;
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        const double bound = attune_bound_o(&out->arithmetic, &terms[d], o[d], p->dtype);
        const double error =
            fabs((double)((const float *)out->o)[element(&shape, 0, row, 0, d)] - o[d]);
        worst = error <= bound ? fmax(worst, error / bound) : INFINITY;
    }
    const double bound = attune_bound_lse(&out->arithmetic, &lse_terms, lse, visible);
    const double error = fabs((double)out->lse[row] - lse);
    return error <= bound ? fmax(worst, error / bound) : INFINITY;
}

static bool all_finite(const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static int judge(const device *d, inputs *in, const outputs *out, attune_fill fill)
{
    const attune_problem *const p = &in->problem;
    if (in->q == NULL) {
        *in = inputs_create(&out->problem);
        inputs_fill(in, fill, 1);
    }
    double worst = 0;
    for (int64_t i = 0; i < SAMPLED_ROWS; i++)
        worst = fmax(worst, judge_row(in, out, i * (p->seqlen_q - 1) / (SAMPLED_ROWS - 1)));
    const bool finite = all_finite(out->o, (int64_t)(span_bytes(p, TENSOR_O) / sizeof(float))) &&
                        all_finite(out->lse, lse_count(p));
    printf("%s %s: bound_ratio %.3g over %d rows\n", worst <= 1 && finite ? "PASS" : "FAIL",
           d->name, worst, SAMPLED_ROWS);
    return !(worst <= 1 && finite);
}

static int run_and_judge(const device *d, const attune_problem *problem, attune_fill fill)
{
    if (!warm_up(d, problem)) return 1;
    const double before = memory_status("VmRSS:");
    if (!reset_peak())
        printf("the kernel keeps the old peak: the runtime's own memory counts too\n");

    inputs in = inputs_create(problem);
    inputs_fill(&in, fill, 1);
    const size_t o_bytes = span_bytes(problem, TENSOR_O),
                 lse_bytes = (size_t)lse_count(problem) * sizeof(float);
    outputs out = {.problem = *problem, .o = allocate(o_bytes), .lse = allocate(lse_bytes)};
    fill_untouched(out.o, o_bytes);
    fill_untouched(out.lse, lse_bytes);
    const double tensors = (double)(span_bytes(problem, TENSOR_Q) + span_bytes(problem, TENSOR_K) +
                                    span_bytes(problem, TENSOR_V) + o_bytes + lse_bytes);
    double seconds;
    if (run_long(d, &in, &out, &seconds) != ATTUNE_OK) return failure(d->name);

    const double peak = memory_status("VmHWM:"), grown = peak - before;
    printf(
        "%s: %s in %.1f s; peak %.0f MiB = %.0f before + %.0f, %.2f times the %.0f MiB of inputs "
        "and outputs\n",
        d->name, out.kernel, seconds, peak / 0x1p20, before / 0x1p20, grown / 0x1p20,
        grown / tensors, tensors / 0x1p20);
    const int wrong = judge(d, &in, &out, fill);
    inputs_free(&in);
    outputs_free(&out);
    if (grown > 2 * tensors) printf("FAIL %s: more than twice the inputs and outputs\n", d->name);
    return wrong || grown > 2 * tensors;
}

int main(int argc, char **argv)
{
    attune_problem problem;
    const int fill = argc == 4 ? attune_fill_find(argv[3]) : -1;
    if (fill < 0 || attune_problem_parse(argv[2], &problem) != ATTUNE_OK ||
        problem.dtype != ATTUNE_F32 || !problem.return_lse || problem.heads_q > 1) {
        fprintf(stderr, "usage: long DEVICE PROBLEM FILL (one head, f32, lse=1)\n");
        return 2;
    }
    device d;
    if (!device_open(&d, argv[1], NULL)) {
        printf("SKIPPED %s: %s\n", d.name, d.missing);
        return SKIPPED_STATUS;
    }
    const int failed = run_and_judge(&d, &problem, (attune_fill)fill);
    device_close(&d);
    return failed;
}
