#include "runner.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fail.h"

attune_status open_device(const char *device, int threads, attune_context **context,
                          attune_device_info *info)
{
    attune_context_options settings;
    attune_context_options_init(&settings);
    settings.threads = threads;
    attune_status status = attune_context_open(device, &settings, context);
    if (status == ATTUNE_OK) status = attune_context_device(*context, info);
    return status;
}

/* A buffer that holds `bytes` bytes of the host. */
static attune_status place(const runner *r, void *host, size_t bytes, attune_buffer *buffer)
{
    if (r->in_place) {
        *buffer = (attune_buffer){.handle = host};
        return ATTUNE_OK;
    }
    const attune_status status = attune_buffer_alloc(r->context, bytes, buffer);
    return status == ATTUNE_OK ? attune_buffer_write(r->context, *buffer, host, bytes, NULL)
                               : status;
}

/* All bits set are NaN in every dtype. */
static void *allocate_nan(size_t bytes)
{
    return memset(allocate(bytes), 0xff, bytes);
}

/* An input, and where it may be freed when it is copied. */
static attune_status place_input(const runner *r, void *host, size_t bytes, void **freed,
                                 attune_buffer *buffer)
{
    const attune_status status = place(r, host, bytes, buffer);
    if (freed && !r->in_place) {
        free(*freed);
        *freed = NULL;
    }
    return status;
}

/* `freed`: the inputs if they may be freed, else NULL. */
static attune_status place_all(runner *r, const inputs *in, inputs *freed)
{
    attune_forward_tensors *const t = &r->tensors;
    attune_status status = place_input(r, in->q, r->bytes.q, freed ? &freed->q : NULL, &t->q);
    if (status == ATTUNE_OK)
        status = place_input(r, in->k, r->bytes.k, freed ? &freed->k : NULL, &t->k);
    if (status == ATTUNE_OK)
        status = place_input(r, in->v, r->bytes.v, freed ? &freed->v : NULL, &t->v);
    if (status != ATTUNE_OK) return status;

    r->o = allocate_nan(r->bytes.o);
    r->lse = allocate_nan(r->bytes.lse);
    status = place(r, r->o, r->bytes.o, &t->o);
    if (status == ATTUNE_OK) status = place(r, r->lse, r->bytes.lse, &t->lse);
    if (status == ATTUNE_OK)
        status =
            attune_buffer_alloc(r->context, attune_plan_workspace_size(r->plan), &t->workspace);
    return status;
}

static attune_status open_runner(runner *r, attune_context *context, const inputs *in,
                                 inputs *freed, const attune_plan_options *options)
{
    *r = (runner){.context = context};
    attune_forward_tensors_init(&r->tensors);
    attune_device_info info;
    attune_status status = attune_context_device(context, &info);
    if (status == ATTUNE_OK) status = attune_plan_create(context, &in->problem, options, &r->plan);
    if (status == ATTUNE_OK) {
        r->in_place = strcmp(info.backend, "cpu") == 0;
        r->bytes = problem_bytes(&in->problem);
        status = place_all(r, in, freed);
    }
    if (status != ATTUNE_OK) runner_close(r);
    return status;
}

attune_status runner_open(runner *r, attune_context *context, const inputs *in,
                          const attune_plan_options *options)
{
    return open_runner(r, context, in, NULL, options);
}

attune_status runner_open_freeing(runner *r, attune_context *context, inputs *in,
                                  const attune_plan_options *options)
{
    return open_runner(r, context, in, in, options);
}

void runner_close(runner *r)
{
    attune_forward_tensors *const t = &r->tensors;
    attune_buffer *const copies[] = {&t->q, &t->k, &t->v, &t->o, &t->lse};
    for (size_t i = 0; !r->in_place && i < sizeof copies / sizeof *copies; i++)
        attune_buffer_free(r->context, copies[i]);
    attune_buffer_free(r->context, &t->workspace);
    attune_plan_destroy(r->plan);
    free(r->o);
    free(r->lse);
    *r = (runner){.plan = NULL};
}

attune_status runner_run(const runner *r, double *milliseconds)
{
    return attune_plan_time(r->plan, &r->tensors, NULL, milliseconds);
}

attune_status runner_read(const runner *r)
{
    if (r->in_place) return ATTUNE_OK;
    attune_status status = attune_buffer_read(r->context, r->tensors.o, r->o, r->bytes.o, NULL);
    if (status == ATTUNE_OK)
        status = attune_buffer_read(r->context, r->tensors.lse, r->lse, r->bytes.lse, NULL);
    return status;
}

uint64_t peak_rss(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
