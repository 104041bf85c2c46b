/* Backend cpu: kernels are functions of this library, and a launch is a loop over groups, cut
 * among threads. */
#include "backend.h"

#include "cpu_features.h"
#include "threads.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const attune_kernel_table attune_kernel_table_c; /* generated */

enum { ALIGNMENT = 64 };

typedef struct cpu_device {
    attune_parallel_for *parallel_for;
    void *pool;
    int32_t threads; /* the pool of threads_parallel_for */
} cpu_device;

/* ---- device ---- */

static int cpu_count(char reason[256])
{
    reason[0] = '\0';
    return 1;
}

static void cpu_caps(int index, attune_device_caps *caps)
{
    (void)index;
    *caps = (attune_device_caps){
        .info =
            {
                .id = "cpu",
                .backend = "cpu",
                .compute_units = sysconf(_SC_NPROCESSORS_ONLN),
                .global_memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
            },
        .max_threads = 1,
        .fast_memory = SIZE_MAX,
        .max_groups = INT64_MAX,
    };
    cpu_features(caps);
    cpu_name(caps->info.name, sizeof caps->info.name);
    strcpy(caps->info.platform, caps->device_class);
    strcpy(caps->info.driver, threads_name());
    snprintf(caps->compiler, sizeof caps->compiler, "%s", attune_kernel_table_c.compiler);
}

static attune_status cpu_open(int index, const attune_context_options *options, void **device)
{
    (void)index;
    cpu_device *const opened = malloc(sizeof *opened);
    if (opened == NULL) return attune_fail(ATTUNE_OUT_OF_MEMORY, "cpu: no memory for a device");
    const bool own = options->parallel_for == NULL;
    *opened = (cpu_device){
        .parallel_for = own ? threads_parallel_for : options->parallel_for,
        .pool = own ? &opened->threads : options->pool,
        .threads = options->threads,
    };
    *device = opened;
    return ATTUNE_OK;
}

/* ---- kernels ---- */

/* A kernel is its row. */
static attune_status cpu_load(void *device, const attune_kernel_row *row, void **kernel)
{
    (void)device;
    *kernel = (void *)(uintptr_t)row;
    return ATTUNE_OK;
}

static void cpu_unload(void *device, void *kernel)
{
    (void)device;
    (void)kernel;
}

static attune_status check_stream(attune_stream stream)
{
    if (stream == NULL) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "stream is %p; cpu has no streams, NULL is accepted", stream);
}

typedef struct group_loop {
    const attune_launch *launch;
    attune_group_function *function;
} group_loop;

static void run_groups(int64_t first, int64_t last, void *user)
{
    const group_loop *const loop = user;
    const attune_launch *const launch = loop->launch;
    for (int64_t group = first; group < last; group++)
        loop->function(launch->args, launch->q, launch->k, launch->v, launch->o, launch->lse,
                       launch->workspace, group);
}

static attune_status cpu_launch(void *device, void *kernel, const attune_launch *launch,
                                attune_stream stream)
{
    const attune_status status = check_stream(stream);
    if (status != ATTUNE_OK) return status;

    const cpu_device *const cpu = device;
    const attune_kernel_row *const row = kernel;
    group_loop pack = {.launch = launch, .function = row->pack};
    group_loop forward = {.launch = launch, .function = row->forward};
    if (launch->pack_groups > 0)
        cpu->parallel_for(launch->pack_groups, run_groups, &pack, cpu->pool);
    cpu->parallel_for(launch->groups, run_groups, &forward, cpu->pool);
    return ATTUNE_OK;
}

/* ---- memory ---- */

static attune_status cpu_alloc(void *device, size_t bytes, void **handle)
{
    (void)device;
    *handle = bytes > SIZE_MAX - ALIGNMENT
                  ? NULL
                  : aligned_alloc(ALIGNMENT, ATTUNE_ROUND_UP(bytes, ALIGNMENT));
    if (*handle == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "cpu: no memory for %zu bytes", bytes);
    return ATTUNE_OK;
}

static void cpu_free(void *device, void *handle)
{
    (void)device;
    free(handle);
}

static attune_status cpu_write(void *device, attune_buffer to, const void *from, size_t bytes,
                               attune_stream stream)
{
    (void)device;
    const attune_status status = check_stream(stream);
    if (status == ATTUNE_OK) memcpy((char *)to.handle + to.offset, from, bytes);
    return status;
}

static attune_status cpu_read(void *device, attune_buffer from, void *to, size_t bytes,
                              attune_stream stream)
{
    (void)device;
    const attune_status status = check_stream(stream);
    if (status == ATTUNE_OK) memcpy(to, (const char *)from.handle + from.offset, bytes);
    return status;
}

static attune_status cpu_sync(void *device, attune_stream stream)
{
    (void)device;
    return check_stream(stream);
}

const attune_backend attune_backend_cpu = {
    .name = "cpu",
    .table = &attune_kernel_table_c,
    .count = cpu_count,
    .caps = cpu_caps,
    .open = cpu_open,
    .close = free,
    .load = cpu_load,
    .unload = cpu_unload,
    .launch = cpu_launch,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_write,
    .read = cpu_read,
    .sync = cpu_sync,
};
