/* Backend emulated: the text of GPUs' kernels, run on the CPU work-item by work-item, with every access of memory looked at. A launch that
 * does what a GPU would not forgive fails with a sentence that says what and where. It is for tests, and slow, and so it is exempt from one promise of
 * backend.h: a launch locks its lists of groups and buffers, and makes room for asynchronous copies when there are more than ever before. */
#include "backend.h"

#include "gpus.h"
#include "group.h"
#include "group_pool.h"
#include "place.h"
#include "threads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const attune_kernel_table attune_kernel_table_emulated; /* generated */

typedef struct emulated_device {
    buffer_list buffers;
    uint64_t seed;
    bool counts_conflicts;
    const gpu *gpu;
    attune_parallel_for *parallel_for;
    void *pool;
    int32_t threads;      /* the pool of threads_parallel_for */
    pthread_mutex_t lock; /* of findings and conflicts */
    lds_table conflicts;
} emulated_device;

/* ---- devices ---- */

static int emulated_count(char reason[256])
{
    reason[0] = '\0';
    return GPUS;
}

static void emulated_caps(int index, attune_device_caps *caps)
{
    const gpu *const of = &gpus[index];
    *caps = (attune_device_caps){
        .info =
            {
                .backend = "emulated",
                .platform = "emulation, for tests",
                .driver = "no GPU is used",
                .compute_units = sysconf(_SC_NPROCESSORS_ONLN),
                .global_memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                .fast_memory = of->fast_memory,
            },
        .untimed = true,
        .max_threads = MOST_WORK_ITEMS,
        .fast_memory = of->fast_memory,
        .max_groups = INT64_MAX,
        .warp = 1 << of->warp_bits,
        .multiprocessor_threads = of->multiprocessor_threads,
    };
    snprintf(caps->info.id, sizeof caps->info.id, "%s", of->id);
    snprintf(caps->info.name, sizeof caps->info.name, "%s", of->name);
    snprintf(caps->device_class, sizeof caps->device_class, "%s", of->device_class);
    snprintf(caps->features, sizeof caps->features, "%s", of->features);
    snprintf(caps->compiler, sizeof caps->compiler, "%s", attune_kernel_table_emulated.compiler);
}

/* ---- ATTUNE_EMULATED ---- */

typedef struct wishes {
    uint64_t seed;
    bool conflicts;
} wishes;

static bool read_seed(const char *digits, size_t length, uint64_t *seed)
{
    if (length == 0 || strspn(digits, "0123456789") != length) return false;
    errno = 0;
    *seed = strtoull(digits, NULL, 10);
    return errno == 0;
}

static bool read_wish(const char *word, size_t length, wishes *w)
{
    static const char seed[] = "seed=", conflicts[] = "conflicts";
    const size_t key = strlen(seed);
    if (length == strlen(conflicts) && strncmp(word, conflicts, length) == 0)
        return w->conflicts = true;
    return length > key && strncmp(word, seed, key) == 0 &&
           read_seed(word + key, length - key, &w->seed);
}

static attune_status read_wishes(wishes *w)
{
    const char *const text = getenv("ATTUNE_EMULATED");
    *w = (wishes){.seed = 0};
    if (text == NULL || text[0] == '\0') return ATTUNE_OK;
    for (const char *word = text;; word++) {
        const size_t length = strcspn(word, ",");
        if (!read_wish(word, length, w))
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "ATTUNE_EMULATED is \"%s\"; \"seed=\" and a number below 2^64, "
                               "\"conflicts\", and both with a comma between are accepted",
                               text);
        word += length;
        if (*word == '\0') return ATTUNE_OK;
    }
}

/* ---- a device ---- */

static void emulated_close(void *device)
{
    emulated_device *const d = device;
    group_pool_close();
    if (d->counts_conflicts) lds_print(&d->conflicts);
    free(d->conflicts.at);
    pthread_mutex_destroy(&d->lock);
    buffers_destroy(&d->buffers);
    free(d);
}

static attune_status emulated_open(int index, const attune_context_options *options, void **device)
{
    wishes w;
    const attune_status status = read_wishes(&w);
    if (status != ATTUNE_OK) return status;
    emulated_device *const opened = malloc(sizeof *opened);
    if (opened == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "emulated: no memory for a device");
    const bool own = options->parallel_for == NULL;
    *opened = (emulated_device){
        .seed = w.seed,
        .counts_conflicts = w.conflicts && gpus[index].has_lds,
        .gpu = &gpus[index],
        .parallel_for = own ? threads_parallel_for : options->parallel_for,
        .pool = own ? &opened->threads : options->pool,
        .threads = options->threads,
    };
    if (!group_pool_open(threads_count(opened->threads))) {
        free(opened);
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "emulated: no memory for a work-group");
    }
    buffers_init(&opened->buffers);
    pthread_mutex_init(&opened->lock, NULL);
    *device = opened;
    return ATTUNE_OK;
}

/* ---- kernels ---- */

/* A kernel is its row. */
static attune_status emulated_load(void *device, const attune_kernel_row *row, void **kernel)
{
    const int lanes = 1 << ((const emulated_device *)device)->gpu->warp_bits;
    if (row->threads % lanes != 0)
        return attune_fail(ATTUNE_BUILD_FAILED,
                           "%s: %d work-items a group are no whole warps of %d", row->id,
                           row->threads, lanes);
    *kernel = (void *)(uintptr_t)row;
    return ATTUNE_OK;
}

static void emulated_unload(void *device, void *kernel)
{
    (void)device;
    (void)kernel;
}

/* Registers are the CPU's. */
static void emulated_resources(void *device, void *kernel, attune_kernel_resources *resources)
{
    (void)device;
    resources->registers = -1;
    resources->spill_bytes = -1;
    resources->fast_memory = (int64_t)((const attune_kernel_row *)kernel)->fast_memory;
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

static void note(group_loop *loop, const group *g)
{
    pthread_mutex_lock(&loop->device->lock);
    if (loop->found.count++ == 0 || g->number < loop->found.group) {
        loop->found.first = g->found;
        loop->found.group = g->number;
    }
    pthread_mutex_unlock(&loop->device->lock);
}

static bool count_conflicts(emulated_device *d, group *g)
{
    pthread_mutex_lock(&d->lock);
    const bool counted = lds_count(g, &d->conflicts);
    pthread_mutex_unlock(&d->lock);
    if (!counted) g->found = (finding){.head = "there is no memory to count its bank conflicts"};
    return counted;
}

static bool run_group(emulated_device *d, group *g)
{
    return group_run(g, d->seed) && (!g->counts_conflicts || count_conflicts(d, g));
}

static void run_groups(int64_t first, int64_t last, void *user)
{
    group_loop *const loop = user;
    emulated_device *const d = loop->device;
    group *const g = group_pool_take();
    g->row = loop->row;
    g->launch = loop->launch;
    g->gpu = d->gpu;
    g->buffers = &d->buffers;
    g->counts_conflicts = d->counts_conflicts;
    for (g->number = first; g->number < last; g->number++)
        if (!run_group(d, g)) note(loop, g);
    group_pool_give(g);
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
    return attune_fail(ATTUNE_DEVICE_ERROR, "%s, %s, group %" PRId64 ": %s%s%s%s%s%s", d->gpu->id,
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
                           buffer.handle, d->gpu->id);
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
    .resources = emulated_resources,
};
