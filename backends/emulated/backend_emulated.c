/* Backend emulated: NVIDIA's text of the kernels, run on the CPU work-item by work-item, with every access of memory looked at. A launch that
 * does what a GPU would not forgive fails with a sentence that says what and where. It is for tests, and slow, and so it is exempt from one promise of
 * backend.h: a launch locks its lists of groups and buffers, and makes room for asynchronous copies when there are more than ever before. */
#include "backend.h"

#include "group.h"
#include "matrix_unit.h"
#include "place.h"
#include "threads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const attune_kernel_table attune_kernel_table_emulated; /* generated */

/* Each group needs two mappings for the stack of each work-item. Linux lets a process have 65,530, and all devices may be open. */
enum { MOST_GROUPS = 8 };

typedef struct emulated_device {
    buffer_list buffers;
    uint64_t seed;
    const char *id;
    const matrix_unit *unit;
    attune_parallel_for *parallel_for;
    void *pool;
    int32_t threads;      /* the pool of threads_parallel_for */
    pthread_mutex_t lock; /* of what follows, and of findings */
    pthread_cond_t one_is_idle;
    group *idle[MOST_GROUPS]; /* all of them when nothing runs */
    int idle_count;
} emulated_device;

/* ---- devices ---- */

/* One for each model of the matrix unit. */
static const struct {
    const char *id, *name;
    const matrix_unit *unit;
} devices[] = {
    {.id = "emulated:nvidia", .name = "NVIDIA GPU emulated on the CPU", .unit = &matrix_unit_exact},
    {.id = "emulated:nvidia-ampere",
     .name = "NVIDIA GPU emulated on the CPU, sums as on A100",
     .unit = &matrix_unit_ampere},
    {.id = "emulated:nvidia-hopper",
     .name = "NVIDIA GPU emulated on the CPU, sums as on H100",
     .unit = &matrix_unit_hopper},
};
enum { DEVICES = sizeof devices / sizeof *devices };

static int emulated_count(char reason[256])
{
    reason[0] = '\0';
    return DEVICES;
}

/* What CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", says of 9.0. */
static void emulated_caps(int index, attune_device_caps *caps)
{
    *caps = (attune_device_caps){
        .info =
            {
                .backend = "emulated",
                .platform = "emulation, for tests",
                .driver = "no GPU is used",
                .compute_units = sysconf(_SC_NPROCESSORS_ONLN),
                .global_memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                .fast_memory = SHARED_MOST,
            },
        .device_class = "nvidia",
        .features = "nvidia sm_75 sm_80 sm_86 sm_89 sm_90",
        .max_threads = MOST_WORK_ITEMS,
        .fast_memory = SHARED_MOST,
        .max_groups = INT64_MAX,
    };
    snprintf(caps->info.id, sizeof caps->info.id, "%s", devices[index].id);
    snprintf(caps->info.name, sizeof caps->info.name, "%s", devices[index].name);
}

/* ATTUNE_EMULATED is "seed=N". */
static attune_status read_seed(uint64_t *seed)
{
    static const char key[] = "seed=";
    const char *const text = getenv("ATTUNE_EMULATED");
    *seed = 0;
    if (text == NULL || text[0] == '\0') return ATTUNE_OK;
    const char *const digits = text + strlen(key);
    if (strncmp(text, key, strlen(key)) == 0 && digits[0] != '\0' &&
        digits[strspn(digits, "0123456789")] == '\0') {
        errno = 0;
        *seed = strtoull(digits, NULL, 10);
        if (errno == 0) return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "ATTUNE_EMULATED is \"%s\"; \"seed=\" and a number below 2^64 is accepted",
                       text);
}

/* One for each thread, as far as that goes; threads without one wait for it. */
static bool make_groups(emulated_device *d)
{
    const int threads = threads_count(d->threads);
    const int wanted = threads < MOST_GROUPS ? threads : MOST_GROUPS;
    while (d->idle_count < wanted && (d->idle[d->idle_count] = group_create()) != NULL)
        d->idle_count++;
    return d->idle_count == wanted;
}

static void emulated_close(void *device)
{
    emulated_device *const d = device;
    for (int i = 0; i < d->idle_count; i++) group_destroy(d->idle[i]);
    pthread_cond_destroy(&d->one_is_idle);
    pthread_mutex_destroy(&d->lock);
    buffers_destroy(&d->buffers);
    free(d);
}

static attune_status emulated_open(int index, const attune_context_options *options, void **device)
{
    uint64_t seed;
    const attune_status status = read_seed(&seed);
    if (status != ATTUNE_OK) return status;
    emulated_device *const opened = malloc(sizeof *opened);
    if (opened == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "emulated: no memory for a device");
    const bool own = options->parallel_for == NULL;
    *opened = (emulated_device){
        .seed = seed,
        .id = devices[index].id,
        .unit = devices[index].unit,
        .parallel_for = own ? threads_parallel_for : options->parallel_for,
        .pool = own ? &opened->threads : options->pool,
        .threads = options->threads,
    };
    buffers_init(&opened->buffers);
    pthread_mutex_init(&opened->lock, NULL);
    pthread_cond_init(&opened->one_is_idle, NULL);
    if (!make_groups(opened)) {
        emulated_close(opened);
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "emulated: no memory for a work-group");
    }
    *device = opened;
    return ATTUNE_OK;
}

/* ---- kernels ---- */

/* A kernel is its row. */
static attune_status emulated_load(void *device, const attune_kernel_row *row, void **kernel)
{
    (void)device;
    if (row->threads % WARP != 0)
        return attune_fail(ATTUNE_BUILD_FAILED, "%s: %d work-items a group are no whole warps",
                           row->id, row->threads);
    *kernel = (void *)(uintptr_t)row;
    return ATTUNE_OK;
}

static void emulated_unload(void *device, void *kernel)
{
    (void)device;
    (void)kernel;
}

static attune_status check_stream(attune_stream stream)
{
    if (stream == NULL) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "stream is %p; emulated has no streams, NULL is accepted", stream);
}

/* The finding of the first group that has one, whatever ran first, and how many groups have one. */
typedef struct findings {
    finding first;
    int64_t group, count;
} findings;

typedef struct group_loop {
    emulated_device *device;
    const attune_kernel_row *row;
    const attune_launch *launch;
    findings found;
} group_loop;

static group *take_group(emulated_device *d)
{
    pthread_mutex_lock(&d->lock);
    while (d->idle_count == 0) pthread_cond_wait(&d->one_is_idle, &d->lock);
    group *const g = d->idle[--d->idle_count];
    pthread_mutex_unlock(&d->lock);
    return g;
}

static void give_group(emulated_device *d, group *g)
{
    pthread_mutex_lock(&d->lock);
    d->idle[d->idle_count++] = g;
    pthread_cond_signal(&d->one_is_idle);
    pthread_mutex_unlock(&d->lock);
}

static void note(group_loop *loop, const group *g)
{
    pthread_mutex_lock(&loop->device->lock);
    if (loop->found.count++ == 0 || g->number < loop->found.group) {
        loop->found.first = g->found;
        loop->found.group = g->number;
    }
    pthread_mutex_unlock(&loop->device->lock);
}

static void run_groups(int64_t first, int64_t last, void *user)
{
    group_loop *const loop = user;
    emulated_device *const d = loop->device;
    group *const g = take_group(d);
    g->row = loop->row;
    g->launch = loop->launch;
    g->unit = d->unit;
    g->buffers = &d->buffers;
    for (g->number = first; g->number < last; g->number++)
        if (!group_run(g, d->seed)) note(loop, g);
    give_group(d, g);
}

static attune_status fail_with(const emulated_device *d, const attune_kernel_row *row,
                               const findings *found)
{
    char first[PLACE_SIZE] = "", second[PLACE_SIZE] = "", more[64] = "";
    if (found->first.first != NULL)
        place_describe(found->first.first, found->first.first_line, first);
    if (found->first.second != NULL)
        place_describe(found->first.second, found->first.second_line, second);
    if (found->count > 1)
        snprintf(more, sizeof more, "; %" PRId64 " more groups have a finding", found->count - 1);
    return attune_fail(ATTUNE_DEVICE_ERROR, "%s, %s, group %" PRId64 ": %s%s%s%s%s%s", d->id,
                       row->id, found->group, found->first.head, first, found->first.middle, second,
                       found->first.tail, more);
}

static attune_status emulated_launch(void *device, void *kernel, const attune_launch *launch,
                                     attune_stream stream)
{
    const attune_status status = check_stream(stream);
    if (status != ATTUNE_OK) return status;

    emulated_device *const d = device;
    group_loop loop = {.device = d, .row = kernel, .launch = launch};
    d->parallel_for(launch->groups, run_groups, &loop, d->pool);
    return loop.found.count == 0 ? ATTUNE_OK : fail_with(d, loop.row, &loop.found);
}

/* ---- memory ---- */

static attune_status emulated_alloc(void *device, size_t bytes, void **handle)
{
    emulated_device *const d = device;
    *handle = buffers_alloc(&d->buffers, bytes);
    if (*handle == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "emulated: no memory for %zu bytes", bytes);
    return ATTUNE_OK;
}

static void emulated_free(void *device, void *handle)
{
    emulated_device *const d = device;
    buffers_free(&d->buffers, handle);
}

/* Whether the device has this memory. */
static attune_status check_range(emulated_device *d, attune_buffer buffer, size_t bytes)
{
    device_buffer found;
    if (!buffers_find(&d->buffers, buffer.handle, &found) || found.begin != buffer.handle ||
        found.freed)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "handle is %p, which is no buffer of %s",
                           buffer.handle, d->id);
    if (buffer.offset > found.bytes || bytes > found.bytes - buffer.offset)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%zu bytes at offset %zu of a buffer that has %zu", bytes, buffer.offset,
                           found.bytes);
    return ATTUNE_OK;
}

static attune_status emulated_write(void *device, attune_buffer to, const void *from, size_t bytes,
                                    attune_stream stream)
{
    attune_status status = check_stream(stream);
    if (status == ATTUNE_OK) status = check_range(device, to, bytes);
    if (status == ATTUNE_OK) memcpy((char *)to.handle + to.offset, from, bytes);
    return status;
}

static attune_status emulated_read(void *device, attune_buffer from, void *to, size_t bytes,
                                   attune_stream stream)
{
    attune_status status = check_stream(stream);
    if (status == ATTUNE_OK) status = check_range(device, from, bytes);
    if (status == ATTUNE_OK) memcpy(to, (const char *)from.handle + from.offset, bytes);
    return status;
}

static attune_status emulated_sync(void *device, attune_stream stream)
{
    (void)device;
    return check_stream(stream);
}

/* No `elapsed`: a GPU's time is nothing that this could tell. */
const attune_backend attune_backend_emulated = {
    .name = "emulated",
    .table = &attune_kernel_table_emulated,
    .count = emulated_count,
    .caps = emulated_caps,
    .open = emulated_open,
    .close = emulated_close,
    .load = emulated_load,
    .unload = emulated_unload,
    .launch = emulated_launch,
    .alloc = emulated_alloc,
    .free = emulated_free,
    .write = emulated_write,
    .read = emulated_read,
    .sync = emulated_sync,
};
