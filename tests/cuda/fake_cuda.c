/* A libcuda.so.1 for tests of the backend: every object is counted, nothing is computed. Memory is the host's, so that a checker of the
 * host's memory sees copies out of bounds. */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define EXPORT __attribute__((visibility("default")))

/* CUresult */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
};

/* ---- control ---- */

static void reset(void);
static fake_stack *stack(void);

EXPORT fake_cuda_state fake_cuda = {.stack = stack, .reset = reset};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of calls, faults and launches */

static void reset(void)
{
    fake_cuda.machine = (fake_machine){
        .version = 13000,
        .devices = FAKE_DEVICES,
        .capability = 90,
        .memory = INT32_MAX,
        .max_threads = 1024,
        .fast_memory = 227 << 10,
    };
    memset(fake_cuda.faults, 0, sizeof fake_cuda.faults);
    memset(fake_cuda.calls, 0, sizeof fake_cuda.calls);
    fake_cuda.launch_count = 0;
}

static fake_stack *stack(void)
{
    static _Thread_local fake_stack own;
    return &own;
}

static void set_up(const char *name, int value)
{
    static const struct {
        const char *name;
        int *member;
    } members[] = {
        {"version", &fake_cuda.machine.version},       {"devices", &fake_cuda.machine.devices},
        {"capability", &fake_cuda.machine.capability}, {"mode", &fake_cuda.machine.mode},
        {"memory", &fake_cuda.machine.memory},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(name, members[i].name) == 0) *members[i].member = value;
#define SET_FAULT(function, member)                                                                \
    if (strcmp(name, #function) == 0)                                                              \
        fake_cuda.faults[FAKE_##function] = (fake_fault){.nth = 1, .code = value};
    FAKE_CUDA_FUNCTIONS(SET_FAULT)
#undef SET_FAULT
}

__attribute__((constructor)) static void read_environment(void)
{
    reset();
    const char *text = getenv("FAKE_CUDA");
    char name[64];
    int value, length;
    while (text != NULL && sscanf(text, "%63[^=]=%d%n", name, &value, &length) == 2) {
        set_up(name, value);
        text += length + (text[length] == ',');
    }
}

/* Aborts with a word to the test's author. */
static void need(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fake driver: %s\n", what);
    abort();
}

/* Counts a call and gives the code that it has to fail with. */
static int enter(fake_function function)
{
    fake_fault *const fault = &fake_cuda.faults[function];
    pthread_mutex_lock(&mutex);
    fake_cuda.calls[function]++;
    const bool now = fault->nth > 0 && --fault->nth == 0;
    pthread_mutex_unlock(&mutex);
    return now ? fault->code : SUCCESS;
}

/* The same of work, which needs a current context that no kernel has broken. */
static int enter_work(fake_function function)
{
    const int code = enter(function);
    if (code != SUCCESS) return code;
    return stack()->depth == 0 ? INVALID_CONTEXT : fake_cuda.machine.sticky;
}

#define RETURN_CODE(of)                                                                            \
    do {                                                                                           \
        const int code_ = (of);                                                                    \
        if (code_ != SUCCESS) return code_;                                                        \
    } while (0)

/* ---- the machine ---- */

/* The backend's own declarations are what its functions are called by. */
#define SAME_TYPE(name, member)                                                                    \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(__typeof__(&name), __typeof__(((gpu_driver *)0)->member)),    \
        #name " is declared otherwise in gpu.h");

EXPORT int cuInit(unsigned flags)
{
    need(flags == 0, "cuInit with flags");
    return enter(FAKE_cuInit);
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = fake_cuda.machine.version;
    return enter(FAKE_cuDriverGetVersion);
}

EXPORT int cuDeviceGetCount(int *count)
{
    *count = fake_cuda.machine.devices;
    return enter(FAKE_cuDeviceGetCount);
}

EXPORT int cuDeviceGet(int *device, int index)
{
    *device = index;
    RETURN_CODE(enter(FAKE_cuDeviceGet));
    return index >= 0 && index < fake_cuda.machine.devices ? SUCCESS : INVALID_DEVICE;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return enter(FAKE_cuDeviceGetName);
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return enter(FAKE_cuDeviceTotalMem_v2);
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    const fake_machine *const machine = &fake_cuda.machine;
    switch (attribute) {
    case 1: /* MAX_THREADS_PER_BLOCK */
        *value = 1024;
        break;
    case 16: /* MULTIPROCESSOR_COUNT */
        *value = 132;
        break;
    case 20: /* COMPUTE_MODE */
        *value = machine->mode;
        break;
    case 75: /* COMPUTE_CAPABILITY_MAJOR */
        *value = machine->capability / 10;
        break;
    case 76: /* COMPUTE_CAPABILITY_MINOR */
        *value = machine->capability % 10;
        break;
    case 97: /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
        *value = machine->fast_memory;
        break;
    default:
        need(false, "unexpected attribute of a device");
    }
    return enter(FAKE_cuDeviceGetAttribute);
}

EXPORT int cuGetErrorName(int code, const char **name)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "FAKE_ERROR_%d", code);
    *name = text;
    return enter(FAKE_cuGetErrorName);
}

EXPORT int cuGetErrorString(int code, const char **text)
{
    (void)code;
    *text = "as the fake driver puts it";
    return enter(FAKE_cuGetErrorString);
}

/* ---- contexts ---- */

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    static fake_context primary[FAKE_DEVICES];
    RETURN_CODE(enter(FAKE_cuDevicePrimaryCtxRetain));
    primary[device].device = device;
    *context = &primary[device];
    fake_cuda.live.contexts++;
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    need(device >= 0 && fake_cuda.live.contexts > 0, "released a context that was not retained");
    fake_cuda.live.contexts--;
    return enter(FAKE_cuDevicePrimaryCtxRelease_v2);
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    RETURN_CODE(enter(FAKE_cuCtxPushCurrent_v2));
    need(stack()->depth < FAKE_STACK, "contexts pile up");
    if (context == NULL) return INVALID_CONTEXT;
    stack()->contexts[stack()->depth++] = context;
    return SUCCESS;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
    need(stack()->depth > 0, "popped a context that was not pushed");
    *context = stack()->contexts[--stack()->depth];
    return enter(FAKE_cuCtxPopCurrent_v2);
}

EXPORT int cuCtxGetDevice(int *device)
{
    RETURN_CODE(enter_work(FAKE_cuCtxGetDevice));
    *device = stack()->contexts[stack()->depth - 1]->device;
    return SUCCESS;
}

EXPORT int cuCtxSynchronize(void)
{
    return enter_work(FAKE_cuCtxSynchronize);
}

/* ---- modules ---- */

typedef struct function {
    struct function *next;
    char name[128];
    int dynamic_memory; /* that it may be launched with */
} function;

typedef struct module {
    char *text; /* that it was compiled from; NULL where nobody can tell */
    function *functions;
} module;

static fake_image kind_of(const char *image)
{
    static const unsigned fat_binary = 0xBA55ED50u;
    if (memcmp(image, &fat_binary, sizeof fat_binary) == 0) return FAKE_FAT_BINARY;
    if (strncmp(image, FAKE_CUBIN_MAGIC, strlen(FAKE_CUBIN_MAGIC)) == 0) return FAKE_CUBIN;
    return strncmp(image, FAKE_PTX_MAGIC, strlen(FAKE_PTX_MAGIC)) == 0 ? FAKE_PTX : FAKE_IMAGES;
}

EXPORT int cuModuleLoadDataEx(void **loaded, const void *image, unsigned count, int *options,
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
    *loaded = made;
    fake_cuda.live.modules++;
    return SUCCESS;
}

EXPORT int cuModuleUnload(void *loaded)
{
    module *const old = loaded;
    while (old->functions != NULL) {
        function *const first = old->functions;
        old->functions = first->next;
        free(first);
    }
    free(old->text);
    free(old);
    fake_cuda.live.modules--;
    return enter_work(FAKE_cuModuleUnload);
}

EXPORT int cuModuleGetFunction(void **found, void *loaded, const char *name)
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

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *of)
{
    (void)of;
    RETURN_CODE(enter_work(FAKE_cuFuncGetAttribute));
    need(attribute == 0 || attribute == 1, "unexpected attribute of a function");
    /* MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES */
    *value = attribute == 0 ? fake_cuda.machine.max_threads : fake_cuda.machine.static_memory;
    return SUCCESS;
}

EXPORT int cuFuncSetAttribute(void *of, int attribute, int value)
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

EXPORT int cuLaunchKernel(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
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

/* ---- memory and streams ---- */

EXPORT int cuMemAlloc_v2(void **pointer, size_t bytes)
{
    RETURN_CODE(enter_work(FAKE_cuMemAlloc_v2));
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > (size_t)fake_cuda.machine.memory) return OUT_OF_MEMORY;
    *pointer = malloc(bytes);
    if (*pointer == NULL) return OUT_OF_MEMORY;
    fake_cuda.live.allocations++;
    return SUCCESS;
}

EXPORT int cuMemFree_v2(void *pointer)
{
    free(pointer);
    fake_cuda.live.allocations--;
    return enter_work(FAKE_cuMemFree_v2);
}

EXPORT int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    RETURN_CODE(enter_work(FAKE_cuMemcpyHtoDAsync_v2));
    memcpy(to, from, bytes);
    return SUCCESS;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, void *from, size_t bytes, void *stream)
{
    (void)stream;
    RETURN_CODE(enter_work(FAKE_cuMemcpyDtoHAsync_v2));
    memcpy(to, from, bytes);
    return SUCCESS;
}

EXPORT int cuStreamSynchronize(void *stream)
{
    fake_cuda.waited_for = stream;
    return enter_work(FAKE_cuStreamSynchronize);
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
    need(flags == 0, "an event without times");
    RETURN_CODE(enter_work(FAKE_cuEventCreate));
    *event = malloc(1);
    if (*event == NULL) return OUT_OF_MEMORY;
    fake_cuda.live.events++;
    return SUCCESS;
}

EXPORT int cuEventDestroy_v2(void *event)
{
    free(event);
    fake_cuda.live.events--;
    return enter_work(FAKE_cuEventDestroy_v2);
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    (void)event, (void)stream;
    return enter_work(FAKE_cuEventRecord);
}

EXPORT int cuEventSynchronize(void *event)
{
    (void)event;
    return enter_work(FAKE_cuEventSynchronize);
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = 2.5f;
    return enter_work(FAKE_cuEventElapsedTime);
}

FAKE_CUDA_FUNCTIONS(SAME_TYPE)
