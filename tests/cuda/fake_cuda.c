/* A libcuda.so.1 for tests of the backend: every object is counted, nothing is computed. Memory is the host's, so that a checker of the
 * host's memory sees copies out of bounds. */
#include "fake_internal.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- control ---- */

static void reset(void);
static fake_stack *stack(void);

fake_cuda_state fake_cuda = {.stack = stack, .reset = reset};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of calls and faults */

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

void need(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fake driver: %s\n", what);
    abort();
}

int enter(fake_function function)
{
    fake_fault *const fault = &fake_cuda.faults[function];
    pthread_mutex_lock(&mutex);
    fake_cuda.calls[function]++;
    const bool now = fault->nth > 0 && --fault->nth == 0;
    pthread_mutex_unlock(&mutex);
    return now ? fault->code : SUCCESS;
}

int enter_work(fake_function function)
{
    const int code = enter(function);
    if (code != SUCCESS) return code;
    return stack()->depth == 0 ? INVALID_CONTEXT : fake_cuda.machine.sticky;
}

/* ---- the machine ---- */

int cuInit(unsigned flags)
{
    need(flags == 0, "cuInit with flags");
    return enter(FAKE_cuInit);
}

int cuDriverGetVersion(int *version)
{
    *version = fake_cuda.machine.version;
    return enter(FAKE_cuDriverGetVersion);
}

int cuDeviceGetCount(int *count)
{
    *count = fake_cuda.machine.devices;
    return enter(FAKE_cuDeviceGetCount);
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    RETURN_CODE(enter(FAKE_cuDeviceGet));
    return index >= 0 && index < fake_cuda.machine.devices ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return enter(FAKE_cuDeviceGetName);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return enter(FAKE_cuDeviceTotalMem_v2);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    const fake_machine *const machine = &fake_cuda.machine;
    const struct {
        int attribute, value;
    } known[] = {
        {1, 1024},                      /* MAX_THREADS_PER_BLOCK */
        {10, 32},                       /* WARP_SIZE */
        {13, 1980000},                  /* CLOCK_RATE */
        {16, 132},                      /* MULTIPROCESSOR_COUNT */
        {20, machine->mode},            /* COMPUTE_MODE */
        {38, 50 << 20},                 /* L2_CACHE_SIZE */
        {39, 2048},                     /* MAX_THREADS_PER_MULTIPROCESSOR */
        {75, machine->capability / 10}, /* COMPUTE_CAPABILITY_MAJOR */
        {76, machine->capability % 10}, /* COMPUTE_CAPABILITY_MINOR */
        {81, 228 << 10},                /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
        {82, 65536},                    /* MAX_REGISTERS_PER_MULTIPROCESSOR */
        {97, machine->fast_memory},     /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
        {111, 1024},                    /* RESERVED_SHARED_MEMORY_PER_BLOCK */
    };
    *value = -1; /* a driver that fails may leave anything there */
    RETURN_CODE(enter(FAKE_cuDeviceGetAttribute));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute && attribute != machine->unknown_attribute) {
            *value = known[i].value;
            return SUCCESS;
        }
    return INVALID_VALUE;
}

int cuGetErrorName(int code, const char **name)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "FAKE_ERROR_%d", code);
    *name = text;
    return enter(FAKE_cuGetErrorName);
}

int cuGetErrorString(int code, const char **text)
{
    (void)code;
    *text = "as the fake driver puts it";
    return enter(FAKE_cuGetErrorString);
}

/* ---- contexts ---- */

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    static fake_context primary[FAKE_DEVICES];
    RETURN_CODE(enter(FAKE_cuDevicePrimaryCtxRetain));
    primary[device].device = device;
    *context = &primary[device];
    fake_cuda.live.contexts++;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    need(device >= 0 && fake_cuda.live.contexts > 0, "released a context that was not retained");
    fake_cuda.live.contexts--;
    return enter(FAKE_cuDevicePrimaryCtxRelease_v2);
}

int cuCtxPushCurrent_v2(void *context)
{
    RETURN_CODE(enter(FAKE_cuCtxPushCurrent_v2));
    need(stack()->depth < FAKE_STACK, "contexts pile up");
    if (context == NULL) return INVALID_CONTEXT;
    stack()->contexts[stack()->depth++] = context;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void **context)
{
    need(stack()->depth > 0, "popped a context that was not pushed");
    *context = stack()->contexts[--stack()->depth];
    return enter(FAKE_cuCtxPopCurrent_v2);
}

int cuCtxGetDevice(int *device)
{
    RETURN_CODE(enter_work(FAKE_cuCtxGetDevice));
    *device = stack()->contexts[stack()->depth - 1]->device;
    return SUCCESS;
}

int cuCtxSynchronize(void)
{
    return enter_work(FAKE_cuCtxSynchronize);
}

/* ---- memory and streams ---- */

int cuMemAlloc_v2(void **pointer, size_t bytes)
{
    *pointer = &fake_cuda; /* a driver that fails may leave anything there */
    RETURN_CODE(enter_work(FAKE_cuMemAlloc_v2));
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > (size_t)fake_cuda.machine.memory) return OUT_OF_MEMORY;
    *pointer = malloc(bytes);
    if (*pointer == NULL) return OUT_OF_MEMORY;
    fake_cuda.live.allocations++;
    return SUCCESS;
}

int cuMemFree_v2(void *pointer)
{
    free(pointer);
    fake_cuda.live.allocations--;
    return enter_work(FAKE_cuMemFree_v2);
}

int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    RETURN_CODE(enter_work(FAKE_cuMemcpyHtoDAsync_v2));
    memcpy(to, from, bytes);
    return SUCCESS;
}

int cuMemcpyDtoHAsync_v2(void *to, void *from, size_t bytes, void *stream)
{
    (void)stream;
    RETURN_CODE(enter_work(FAKE_cuMemcpyDtoHAsync_v2));
    memcpy(to, from, bytes);
    return SUCCESS;
}

int cuStreamSynchronize(void *stream)
{
    fake_cuda.waited_for = stream;
    return enter_work(FAKE_cuStreamSynchronize);
}

int cuEventCreate(void **event, unsigned flags)
{
    need(flags == 0, "an event without times");
    RETURN_CODE(enter_work(FAKE_cuEventCreate));
    *event = malloc(1);
    if (*event == NULL) return OUT_OF_MEMORY;
    fake_cuda.live.events++;
    return SUCCESS;
}

int cuEventDestroy_v2(void *event)
{
    free(event);
    fake_cuda.live.events--;
    return enter_work(FAKE_cuEventDestroy_v2);
}

int cuEventRecord(void *event, void *stream)
{
    (void)event, (void)stream;
    return enter_work(FAKE_cuEventRecord);
}

int cuEventSynchronize(void *event)
{
    (void)event;
    return enter_work(FAKE_cuEventSynchronize);
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = 2.5f;
    return enter_work(FAKE_cuEventElapsedTime);
}
