#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

static attune_status upload(attune_context *context, const void *from, size_t bytes,
                            attune_buffer *buffer)
{
    attune_status status = attune_buffer_alloc(context, bytes, buffer);
    if (status == ATTUNE_OK && bytes > 0)
        status = attune_buffer_write(context, *buffer, from, bytes, NULL);
    return status;
}

/* A buffer in which every element of any dtype is NaN. */
static attune_status upload_nan(attune_context *context, size_t bytes, attune_buffer *buffer)
{
    void *const nan = allocate(bytes);
    memset(nan, 0xff, bytes);
    const attune_status status = upload(context, nan, bytes, buffer);
    free(nan);
    return status;
}

static size_t span_bytes(const attune_problem *p, int64_t seq, int64_t heads, int64_t dims,
                         const int64_t *strides)
{
    const int64_t sizes[ATTUNE_RANK] = {p->batch, seq, heads, dims};
    return (size_t)attune_span(sizes, strides) * attune_dtype_size(p->dtype);
}

attune_status runner_open(runner *r, attune_context *context, const inputs *in, const char *kernel)
{
    const attune_problem *const p = &in->problem;
    *r = (runner){
        .context = context, .o_bytes = inputs_output_bytes(p), .lse_bytes = inputs_lse_bytes(p)};
    attune_forward_tensors_init(&r->tensors);
    attune_plan_options options;
    attune_plan_options_init(&options);
    options.kernel = kernel;

    attune_status status = attune_plan_create(context, p, &options, &r->plan);
    attune_forward_tensors *const t = &r->tensors;
    if (status == ATTUNE_OK)
        status = upload(context, in->q,
                        span_bytes(p, p->seqlen_q, p->heads_q, p->head_dim, p->q_strides), &t->q);
    if (status == ATTUNE_OK)
        status = upload(context, in->k,
                        span_bytes(p, p->seqlen_k, p->heads_kv, p->head_dim, p->k_strides), &t->k);
    if (status == ATTUNE_OK)
        status =
            upload(context, in->v,
                   span_bytes(p, p->seqlen_k, p->heads_kv, p->head_dim_v, p->v_strides), &t->v);
    if (status == ATTUNE_OK) status = upload_nan(context, r->o_bytes, &t->o);
    if (status == ATTUNE_OK) status = upload_nan(context, r->lse_bytes, &t->lse);
    if (status == ATTUNE_OK)
        status = attune_buffer_alloc(context, attune_plan_workspace_size(r->plan), &t->workspace);
    if (status != ATTUNE_OK) runner_close(r);
    return status;
}

void runner_close(runner *r)
{
    attune_buffer *const buffers[] = {&r->tensors.q, &r->tensors.k,   &r->tensors.v,
                                      &r->tensors.o, &r->tensors.lse, &r->tensors.workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i]->handle) attune_buffer_free(r->context, buffers[i]);
    attune_plan_destroy(r->plan);
    *r = (runner){.plan = NULL};
}

attune_status run_once(attune_context *context, const inputs *in, const char *kernel,
                       run_result *result)
{
    *result = (run_result){.o = NULL};
    runner r;
    attune_status status = runner_open(&r, context, in, kernel);
    if (status != ATTUNE_OK) return status;
    result->o = allocate(r.o_bytes);
    result->lse = allocate(r.lse_bytes);
    snprintf(result->kernel, sizeof result->kernel, "%s", attune_plan_kernel(r.plan));
    status = attune_plan_time(r.plan, &r.tensors, NULL, &result->milliseconds);
    if (status == ATTUNE_OK) status = attune_plan_arithmetic(r.plan, &result->arithmetic);
    if (status == ATTUNE_OK && r.o_bytes > 0)
        status = attune_buffer_read(context, r.tensors.o, result->o, r.o_bytes, NULL);
    if (status == ATTUNE_OK && r.lse_bytes > 0)
        status = attune_buffer_read(context, r.tensors.lse, result->lse, r.lse_bytes, NULL);
    if (status == ATTUNE_OK) status = attune_synchronize(context, NULL);
    runner_close(&r);
    if (status != ATTUNE_OK) run_result_free(result);
    return status;
}

void run_result_free(run_result *result)
{
    free(result->o);
    free(result->lse);
    *result = (run_result){.o = NULL};
}
