#include "context.h"

#include "environment.h"
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

void attune_context_options_init(attune_context_options *options)
{
    *options = (attune_context_options){.struct_size = sizeof *options};
}

static attune_status read_options(const attune_context_options *given,
                                  attune_context_options *options)
{
    attune_context_options_init(options);
    if (given == NULL) return ATTUNE_OK;
    RETURN_IF_FAILED(struct_copy(options, sizeof *options,
                                 offsetof(attune_context_options, tuning_db), given,
                                 "attune_context_options"));
    if (options->threads < 0)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "threads is %" PRId32 "; 0 or more is accepted",
                           options->threads);
    return ATTUNE_OK;
}

/* A context whose device is not open yet; NULL without memory. */
static attune_context *context_new(const registry_entry *entry,
                                   const attune_context_options *options)
{
    attune_context *const context = malloc(sizeof *context);
    if (context == NULL) return NULL;
    const char *const verbose = environment("ATTUNE_VERBOSE"), *const glob =
                                                                   environment("ATTUNE_KERNEL");
    *context = (attune_context){
        .backend = entry->backend,
        .caps = &entry->caps,
        .threads = options->threads,
        .verbose = verbose != NULL && strcmp(verbose, "0") != 0,
        .kernel_glob = glob == NULL ? NULL : strdup(glob),
    };
    plan_cache_init(&context->plans);
    const bool has_lookup = tuning_lookup_init(&context->tuning, options->tuning_db);
    if (has_lookup && (glob == NULL || context->kernel_glob != NULL)) return context;
    attune_context_close(context);
    return NULL;
}

attune_status attune_context_open(const char *device, const attune_context_options *options,
                                  attune_context **context)
{
    RETURN_IF_NULL(context);
    *context = NULL;
    attune_context_options known;
    RETURN_IF_FAILED(read_options(options, &known));

    const char *const from_environment = environment("ATTUNE_DEVICE");
    const char *const name = device != NULL             ? device
                             : from_environment != NULL ? from_environment
                                                        : "cpu";
    const registry_entry *entry;
    RETURN_IF_FAILED(registry_find(name, &entry));

    attune_context *const opened = context_new(entry, &known);
    if (opened == NULL) return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a context");
    const attune_status status = entry->backend->open(entry->index, &known, &opened->device);
    if (status == ATTUNE_OK) {
        *context = opened;
    } else {
        opened->device = NULL;
        attune_context_close(opened);
    }
    return status;
}

void attune_context_close(attune_context *context)
{
    if (context == NULL) return;
    plan_cache_clear(&context->plans);
    if (context->device != NULL) context->backend->close(context->device);
    tuning_lookup_clear(&context->tuning);
    free(context->kernel_glob);
    free(context);
}

attune_status attune_context_device(const attune_context *context, attune_device_info *info)
{
    RETURN_IF_NULL(context);
    RETURN_IF_NULL(info);
    *info = context->caps->info;
    return ATTUNE_OK;
}

/* ---- memory and streams ---- */

attune_status attune_buffer_alloc(attune_context *context, size_t bytes, attune_buffer *buffer)
{
    RETURN_IF_NULL(context);
    RETURN_IF_NULL(buffer);
    *buffer = (attune_buffer){.handle = NULL};
    return context->backend->alloc(context->device, bytes > 0 ? bytes : 1, &buffer->handle);
}

void attune_buffer_free(attune_context *context, attune_buffer *buffer)
{
    if (context == NULL || buffer == NULL || buffer->handle == NULL) return;
    context->backend->free(context->device, buffer->handle);
    *buffer = (attune_buffer){.handle = NULL};
}

attune_status attune_buffer_write(attune_context *context, attune_buffer to, const void *from,
                                  size_t bytes, attune_stream stream)
{
    RETURN_IF_NULL(context);
    if (bytes == 0) return ATTUNE_OK;
    RETURN_IF_NULL(to.handle);
    RETURN_IF_NULL(from);
    return context->backend->write(context->device, to, from, bytes, stream);
}

attune_status attune_buffer_read(attune_context *context, attune_buffer from, void *to,
                                 size_t bytes, attune_stream stream)
{
    RETURN_IF_NULL(context);
    if (bytes == 0) return ATTUNE_OK;
    RETURN_IF_NULL(from.handle);
    RETURN_IF_NULL(to);
    return context->backend->read(context->device, from, to, bytes, stream);
}

attune_status attune_synchronize(attune_context *context, attune_stream stream)
{
    RETURN_IF_NULL(context);
    return context->backend->sync(context->device, stream);
}
