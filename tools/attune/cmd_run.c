#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "fail.h"
#include "json.h"
#include "npy.h"
#include "runner.h"

static void report(const options *o, const attune_problem *p, const char *device,
                   const attune_plan *plan, double milliseconds)
{
    const char *const kernel = attune_plan_kernel(plan);
    char problem[512];
    attune_problem_print(p, problem, sizeof problem);
    const double gflops = milliseconds > 0 ? problem_flops(p) / (milliseconds * 1e6) : 0;
    if (!o->json) {
        printf("%s\n%s  %s  %.3f ms  %.1f GFLOP/s  peak RSS %.1f MiB\n", problem, device, kernel,
               milliseconds, gflops, (double)peak_rss() / 0x1p20);
        return;
    }
    json_begin();
    json_text("problem", problem);
    json_text("device", device);
    json_text("kernel", kernel);
    json_text("engine", attune_plan_engine(plan));
    json_bool("reproducible", attune_plan_reproducible(plan));
    json_number("milliseconds", milliseconds);
    json_number("gflops", gflops);
    json_integer("peak_rss_bytes", peak_rss());
    json_end();
}

/* bf16 has no NumPy type and is widened to float32. */
static int write_results(const options *o, const attune_problem *p, const runner *r)
{
    const bool bhsd = o->layout && strcmp(o->layout, "bhsd") == 0;
    float *wide = NULL;
    if (p->dtype == ATTUNE_BF16) {
        const size_t count = r->bytes.o / attune_dtype_size(p->dtype);
        wide = allocate(count * sizeof *wide);
        attune_convert_to_f32(p->dtype, r->o, wide, count);
    }
    const npy_output outputs[] = {
        {.path = o->out,
         .array = {.dtype = wide ? ATTUNE_F32 : p->dtype,
                   .rank = 4,
                   .shape = {p->batch, bhsd ? p->heads_q : p->seqlen_q,
                             bhsd ? p->seqlen_q : p->heads_q, p->head_dim_v},
                   .data = wide ? wide : r->o}},
        {.path = o->lse,
         .array = {.dtype = ATTUNE_F32,
                   .rank = 3,
                   .shape = {p->batch, p->heads_q, p->seqlen_q},
                   .data = r->lse}},
    };
    const int code = npy_write(outputs, o->lse ? 2 : 1);
    free(wide);
    return code;
}

static int run(const options *o, inputs *in, attune_context *context, const char *device)
{
    runner r;
    const attune_plan_options options = options_of_plan(o);
    attune_status status = runner_open_freeing(&r, context, in, &options);
    if (status != ATTUNE_OK) return fail_status(status);
    double milliseconds;
    status = runner_run(&r, &milliseconds);
    if (status == ATTUNE_OK) status = runner_read(&r);
    const int code = status == ATTUNE_OK ? write_results(o, &in->problem, &r) : fail_status(status);
    if (code == EXIT_DONE) report(o, &in->problem, device, r.plan, milliseconds);
    runner_close(&r);
    return code;
}

int command_run(const options *o)
{
    if (!o->out) return fail(EXIT_BAD_INPUT, "--out is needed: the NumPy file to write");
    if (o->lse && strcmp(o->lse, o->out) == 0)
        return fail(EXIT_BAD_INPUT, "--out and --lse name the same file, %s", o->out);
    inputs in;
    int code = inputs_from_files(o, o->lse != NULL, &in);
    if (code != EXIT_DONE) return code;
    attune_context *context = NULL;
    attune_device_info info;
    const attune_status status = open_device(o->device, o->threads, &context, &info);
    code = status == ATTUNE_OK ? run(o, &in, context, info.id) : fail_status(status);
    attune_context_close(context);
    inputs_free(&in);
    return code;
}
