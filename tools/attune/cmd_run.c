#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "commands.h"
#include "fail.h"
#include "json.h"
#include "npy.h"
#include "runner.h"

/* The result as a file holds it: bf16 widened to float32. */
static int write_output(const options *o, const attune_problem *p, const run_result *result)
{
    const bool bhsd = o->layout && strcmp(o->layout, "bhsd") == 0;
    npy_array array = {.dtype = p->dtype == ATTUNE_BF16 ? ATTUNE_F32 : p->dtype,
                       .rank = 4,
                       .shape = {p->batch, bhsd ? p->heads_q : p->seqlen_q,
                                 bhsd ? p->seqlen_q : p->heads_q, p->head_dim_v},
                       .data = result->o};
    float *wide = NULL;
    if (p->dtype == ATTUNE_BF16) {
        const size_t count = inputs_output_bytes(p) / attune_dtype_size(p->dtype);
        array.data = wide = allocate(count * sizeof *wide);
        attune_convert_to_f32(p->dtype, result->o, wide, count);
    }
    const int status = npy_write(o->out, &array);
    free(wide);
    return status;
}

static int write_lse(const options *o, const attune_problem *p, const run_result *result)
{
    const npy_array array = {.dtype = ATTUNE_F32,
                             .rank = 3,
                             .shape = {p->batch, p->heads_q, p->seqlen_q},
                             .data = result->lse};
    return npy_write(o->lse, &array);
}

static void report(const options *o, const attune_problem *p, const char *device,
                   const run_result *result)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    char problem[512];
    attune_problem_print(p, problem, sizeof problem);
    const double gflops = inputs_flops(p) / (result->milliseconds * 1e6);
    if (o->json) {
        json_begin();
        json_text("problem", problem);
        json_text("device", device);
        json_text("kernel", result->kernel);
        json_number("milliseconds", result->milliseconds);
        json_number("gflops", gflops);
        json_number("peak_rss_bytes", (double)usage.ru_maxrss * 1024);
        json_end();
    } else {
        printf("%s\n%s  %s  %.3f ms  %.1f GFLOP/s  peak RSS %.1f MiB\n", problem, device,
               result->kernel, result->milliseconds, gflops, (double)usage.ru_maxrss / 1024);
    }
}

int command_run(const options *o)
{
    if (!o->out) return fail(EXIT_BAD_INPUT, "--out is needed: the NumPy file to write");
    inputs in;
    int code = inputs_from_files(o, &in);
    if (code != EXIT_DONE) return code;

    attune_context_options settings;
    attune_context_options_init(&settings);
    settings.threads = o->threads;
    attune_context *context = NULL;
    attune_device_info info;
    run_result result = {.o = NULL};
    attune_status status = attune_context_open(o->device, &settings, &context);
    if (status == ATTUNE_OK) status = attune_context_device(context, &info);
    if (status == ATTUNE_OK) status = run_once(context, &in, o->kernel, &result);
    if (status == ATTUNE_OK) {
        code = write_output(o, &in.problem, &result);
        if (code == EXIT_DONE && o->lse && (code = write_lse(o, &in.problem, &result)) != EXIT_DONE)
            remove(o->out);
        if (code == EXIT_DONE) report(o, &in.problem, info.id, &result);
    } else {
        code = fail_status(status);
    }
    run_result_free(&result);
    attune_context_close(context);
    inputs_free(&in);
    return code;
}
