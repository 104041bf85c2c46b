#include "fixture.h"

#include <stdlib.h>
#include <string.h>

typedef struct memory {
    void *input, *operands, *output;
} memory;

static attune_status fill(void *device, const emulated_run *r, const memory *m)
{
    const attune_backend *const backend = &attune_backend_emulated;
    float counting[INPUT_FLOATS];
    for (int i = 0; i < INPUT_FLOATS; i++) counting[i] = (float)i;
    const attune_status status =
        backend->write(device, (attune_buffer){.handle = m->input},
                       r->input != NULL ? r->input : counting, sizeof counting, NULL);
    if (status != ATTUNE_OK || r->operands == NULL) return status;
    return backend->write(device, (attune_buffer){.handle = m->operands}, r->operands,
                          OPERAND_WORDS * sizeof *r->operands, NULL);
}

static attune_status launch(void *device, emulated_run *r, const memory *m)
{
    const attune_backend *const backend = &attune_backend_emulated;
    const attune_kernel_row row = {
        .id = "kernel", .threads = r->threads, .fast_memory = r->fast_memory, .forward = r->kernel};
    const attune_forward_args args = {.batch = 1};
    const attune_launch launch = {.args = &args,
                                  .q = m->input,
                                  .k = m->operands,
                                  .o = m->output,
                                  .groups = r->groups > 0 ? r->groups : 1};
    void *kernel;
    attune_status status = backend->load(device, &row, &kernel);
    if (status != ATTUNE_OK) return status;
    status = backend->launch(device, kernel, &launch, NULL);
    backend->unload(device, kernel);
    if (status != ATTUNE_OK) return status;
    return backend->read(device, (attune_buffer){.handle = m->output}, r->output, sizeof r->output,
                         NULL);
}

static attune_status run_on(void *device, emulated_run *r, memory *m)
{
    const attune_backend *const backend = &attune_backend_emulated;
    attune_status status = backend->alloc(device, INPUT_FLOATS * sizeof(float), &m->input);
    if (status == ATTUNE_OK)
        status = backend->alloc(device, OPERAND_WORDS * sizeof(unsigned), &m->operands);
    if (status == ATTUNE_OK)
        status = backend->alloc(device, OUTPUT_FLOATS * sizeof(float), &m->output);
    if (status == ATTUNE_OK) status = fill(device, r, m);
    if (r->free_input_first) backend->free(device, m->input);
    if (status == ATTUNE_OK) status = launch(device, r, m);
    if (!r->free_input_first) backend->free(device, m->input);
    backend->free(device, m->operands);
    backend->free(device, m->output);
    return status;
}

static int index_of(const char *id)
{
    const attune_backend *const backend = &attune_backend_emulated;
    char reason[256];
    for (int i = backend->count(reason) - 1; i > 0; i--) {
        attune_device_caps caps;
        backend->caps(i, &caps);
        if (id != NULL && strcmp(caps.info.id, id) == 0) return i;
    }
    return 0;
}

attune_status run(emulated_run *r)
{
    const attune_backend *const backend = &attune_backend_emulated;
    attune_context_options options;
    attune_context_options_init(&options);
    void *device;
    setenv("ATTUNE_EMULATED", r->seed == NULL ? "" : r->seed, 1);
    attune_status status =
        backend->open(index_of(r->device), r->options != NULL ? r->options : &options, &device);
    if (status != ATTUNE_OK) return status;
    memory m = {.input = NULL};
    status = run_on(device, r, &m);
    backend->close(device);
    return status;
}
