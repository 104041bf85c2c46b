/* The fake driver's modules, and launches of what is in them. */
#include "fake_internal.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules ---- */

typedef struct function {
    struct function *next;
    char name[128];
    int dynamic_memory; /* that it may be launched with */
} function;

typedef struct module {
    struct module *next;
    char *text; /* that it was compiled from; NULL where nobody can tell */
    function *functions;
} module;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of modules and launches */

static module *modules; /* that live */

static void add(module *made)
{
    pthread_mutex_lock(&mutex);
    made->next = modules;
    modules = made;
    pthread_mutex_unlock(&mutex);
    fake_cuda.live.modules++;
}

static void take_out(const module *old)
{
    pthread_mutex_lock(&mutex);
    module **at = &modules;
    while (*at != NULL && *at != old) at = &(*at)->next;
    need(*at != NULL, "unloaded a module that does not live");
    *at = old->next;
    pthread_mutex_unlock(&mutex);
    fake_cuda.live.modules--;
}

static fake_image kind_of(const char *image)
{
    static const unsigned fat_binary = 0xBA55ED50u;
    if (memcmp(image, &fat_binary, sizeof fat_binary) == 0) return FAKE_FAT_BINARY;
    if (strncmp(image, FAKE_CUBIN_MAGIC, strlen(FAKE_CUBIN_MAGIC)) == 0) return FAKE_CUBIN;
    return strncmp(image, FAKE_PTX_MAGIC, strlen(FAKE_PTX_MAGIC)) == 0 ? FAKE_PTX : FAKE_IMAGES;
}

int cuModuleLoadDataEx(void **loaded, const void *image, unsigned count, int *options,
                       void **values)
{
    need(count == 0 && options == NULL && values == NULL, "unexpected options of a module");
    RETURN_CODE(enter_work(FAKE_cuModuleLoadDataEx));
    const fake_image kind = kind_of(image);
    if (kind == FAKE_IMAGES) return INVALID_IMAGE;
    RETURN_CODE(fake_cuda.machine.load_codes[kind]);
    module *const made = calloc(1, sizeof *made);
    if (made == NULL) return OUT_OF_MEMORY;
    if (kind != FAKE_FAT_BINARY) made->text = strdup(image);
    add(made);
    *loaded = made;
    return SUCCESS;
}

int cuModuleUnload(void *loaded)
{
    module *const old = loaded;
    take_out(old);
    while (old->functions != NULL) {
        function *const first = old->functions;
        old->functions = first->next;
        free(first);
    }
    free(old->text);
    free(old);
    return enter_work(FAKE_cuModuleUnload);
}

int cuModuleGetFunction(void **found, void *loaded, const char *name)
{
    RETURN_CODE(enter_work(FAKE_cuModuleGetFunction));
    module *const of = loaded;
    if (of->text != NULL && strstr(of->text, name) == NULL) return NOT_FOUND;
    function *const made = calloc(1, sizeof *made);
    if (made == NULL) return OUT_OF_MEMORY;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->next = of->functions;
    of->functions = made;
    *found = made;
    return SUCCESS;
}

int cuFuncGetAttribute(int *value, int attribute, void *of)
{
    const fake_machine *const machine = &fake_cuda.machine;
    const int values[] = {
        [0] = machine->max_threads,   /* MAX_THREADS_PER_BLOCK */
        [1] = machine->static_memory, /* SHARED_SIZE_BYTES */
        [3] = machine->slow_memory,   /* LOCAL_SIZE_BYTES */
        [4] = machine->registers,     /* NUM_REGS */
    };
    (void)of;
    *value = 12345; /* a driver that fails may leave anything there */
    RETURN_CODE(enter_work(FAKE_cuFuncGetAttribute));
    need(attribute == 0 || attribute == 1 || attribute == 3 || attribute == 4,
         "unexpected attribute of a function");
    *value = values[attribute];
    return SUCCESS;
}

int cuFuncSetAttribute(void *of, int attribute, int value)
{
    RETURN_CODE(enter_work(FAKE_cuFuncSetAttribute));
    need(attribute == 8, "unexpected attribute is set"); /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
    if (value < 0 || value > fake_cuda.machine.fast_memory - fake_cuda.machine.static_memory)
        return INVALID_VALUE;
    ((function *)of)->dynamic_memory = value;
    return SUCCESS;
}

/* ---- launches ---- */

static void record(const fake_launch *launch)
{
    pthread_mutex_lock(&mutex);
    if (fake_cuda.launch_count < FAKE_LAUNCHES)
        fake_cuda.launches[fake_cuda.launch_count] = *launch;
    fake_cuda.launch_count++;
    pthread_mutex_unlock(&mutex);
}

int cuLaunchKernel(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **parameters, void **extra)
{
    RETURN_CODE(enter_work(FAKE_cuLaunchKernel));
    const function *const of = kernel;
    need(extra == NULL && parameters != NULL, "unexpected parameters of a launch");
    if (grid_x == 0 || grid_x > INT32_MAX || grid_y != 1 || grid_z != 1 || block_x == 0 ||
        block_x > (unsigned)fake_cuda.machine.max_threads || block_y != 1 || block_z != 1 ||
        shared > (unsigned)of->dynamic_memory)
        return INVALID_VALUE;
    fake_launch launch = {.grid = grid_x, .block = block_x, .shared = shared, .stream = stream};
    memcpy(launch.kernel, of->name, sizeof launch.kernel);
    memcpy(&launch.args, parameters[0], sizeof launch.args);
    for (int i = 0; i < 6; i++) memcpy(&launch.handles[i], parameters[i + 1], sizeof(void *));
    record(&launch);
    return SUCCESS;
}
