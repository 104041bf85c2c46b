/* A libamdhip64 for tests of the backend: nothing is computed, memory is the host's. FAKE_RELEASE: 5 or 6, for the layout of a device's properties. */
#include "fake_hip.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* hipError_t */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    INVALID_DEVICE = 101,
    NO_BINARY_FOR_GPU = 209,
    NOT_FOUND = 500
};

/* ---- control ---- */

static void reset(void);
static int *current(void);

EXPORT fake_hip_state fake_hip = {.reset = reset, .current = current};

static void reset(void)
{
    fake_hip = (fake_hip_state){
        .version = FAKE_RELEASE == 5 ? 50221153 : 60342131,
        .devices = 2,
        .architecture = "gfx942:sramecc+:xnack-",
        .reset = reset,
        .current = current,
    };
}

static int *current(void)
{
    static int device;
    return &device;
}

__attribute__((constructor)) static void read_environment(void)
{
    reset();
    const char *text = getenv("FAKE_HIP");
    char name[FAKE_NAME], value[FAKE_NAME];
    int length;
    while (text != NULL && sscanf(text, "%63[^=]=%63[^,]%n", name, value, &length) == 2) {
        if (strcmp(name, "version") == 0)
            fake_hip.version = atoi(value);
        else if (strcmp(name, "devices") == 0)
            fake_hip.devices = atoi(value);
        else if (strcmp(name, "architecture") == 0)
            memcpy(fake_hip.architecture, value, FAKE_NAME);
        else {
            memcpy(fake_hip.failing, name, FAKE_NAME);
            fake_hip.code = atoi(value);
        }
        text += length + (text[length] == ',');
    }
}

static int code_of(const char *function)
{
    return strcmp(fake_hip.failing, function) == 0 ? fake_hip.code : SUCCESS;
}

/* The same of what is done on the current device. */
static int work(const char *function)
{
    fake_hip.work_device = *current();
    return code_of(function);
}

#define RETURN_CODE(of)                                                                            \
    do {                                                                                           \
        const int code_ = (of);                                                                    \
        if (code_ != SUCCESS) return code_;                                                        \
    } while (0)

/* ---- the machine ---- */

EXPORT int hipRuntimeGetVersion(int *version)
{
    *version = fake_hip.version;
    return code_of(__func__);
}

EXPORT int hipGetDeviceCount(int *count)
{
    *count = fake_hip.devices;
    return code_of(__func__);
}

static int is_device(int device)
{
    return device >= 0 && device < fake_hip.devices ? SUCCESS : INVALID_DEVICE;
}

EXPORT int hipDeviceGet(int *device, int index)
{
    RETURN_CODE(code_of(__func__));
    *device = index;
    return is_device(index);
}

EXPORT int hipSetDevice(int device)
{
    RETURN_CODE(code_of(__func__));
    RETURN_CODE(is_device(device));
    *current() = device;
    return SUCCESS;
}

EXPORT int hipGetDevice(int *device)
{
    *device = *current();
    return code_of(__func__);
}

EXPORT int hipDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return code_of(__func__);
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)192 << 30;
    return code_of(__func__);
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int attribute, value;
    } known[] = {
        {5, 2100000},       /* ClockRate */
        {19, 4 << 20},      /* L2CacheSize */
        {56, 1024},         /* MaxThreadsPerBlock */
        {57, 2048},         /* MaxThreadsPerMultiProcessor */
        {63, 304},          /* MultiprocessorCount */
        {71, 65536},        /* MaxRegistersPerBlock */
        {74, 64 << 10},     /* MaxSharedMemoryPerBlock */
        {87, 64},           /* WarpSize */
        {10002, 128 << 10}, /* MaxSharedMemoryPerMultiprocessor */
    };
    (void)device;
    RETURN_CODE(code_of(__func__));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return SUCCESS;
        }
    return INVALID_VALUE;
}

/* hipDeviceProp_t, as long as it is in that release and no more; what is not asked for here is not 0. */
static int fill(const char *function, char *properties, size_t size, size_t name_at, int device)
{
    RETURN_CODE(is_device(device));
    memset(properties, 0x5a, size);
    memcpy(properties + name_at, fake_hip.architecture, FAKE_NAME);
    return code_of(function);
}

EXPORT int hipGetDeviceProperties(void *properties, int device)
{
    return fill(__func__, properties, 792, 396, device);
}

#if FAKE_RELEASE != 5
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device)
{
    return fill(__func__, properties, 1472, 1160, device);
}
#endif

EXPORT const char *hipGetErrorName(int code)
{
    static char text[32];
    snprintf(text, sizeof text, "FAKE_ERROR_%d", code);
    return text;
}

EXPORT const char *hipGetErrorString(int code)
{
    (void)code;
    return "as the fake runtime puts it";
}

/* ---- memory, streams and events ---- */

EXPORT int hipMalloc(void **pointer, size_t bytes)
{
    RETURN_CODE(work(__func__));
    *pointer = malloc(bytes);
    return SUCCESS;
}

EXPORT int hipFree(void *pointer)
{
    free(pointer);
    return work(__func__);
}

static int copy(const char *function, void *to, const void *from, size_t bytes)
{
    RETURN_CODE(work(function));
    memcpy(to, from, bytes);
    return SUCCESS;
}

EXPORT int hipMemcpyHtoDAsync(void *to, void *from, size_t bytes, void *stream)
{
    (void)stream;
    return copy(__func__, to, from, bytes);
}

EXPORT int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, void *stream)
{
    (void)stream;
    return copy(__func__, to, from, bytes);
}

EXPORT int hipDeviceSynchronize(void)
{
    return work(__func__);
}

EXPORT int hipStreamSynchronize(void *stream)
{
    (void)stream;
    return work(__func__);
}

EXPORT int hipEventCreateWithFlags(void **event, unsigned flags)
{
    *event = malloc(1);
    return flags == 0 ? work(__func__) : INVALID_VALUE;
}

EXPORT int hipEventDestroy(void *event)
{
    free(event);
    return work(__func__);
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    (void)event, (void)stream;
    return work(__func__);
}

EXPORT int hipEventSynchronize(void *event)
{
    (void)event;
    return work(__func__);
}

EXPORT int hipEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = 2.5f;
    return work(__func__);
}

/* ---- modules and launches ---- */

/* The text of an image for the fake device's architecture; NULL of any other. */
static const char *text_of(const char *image)
{
    const char *const architecture = image + strlen(FAKE_CODE_OBJECT);
    const size_t length = strcspn(fake_hip.architecture, ":");
    if (strncmp(image, FAKE_CODE_OBJECT, strlen(FAKE_CODE_OBJECT)) != 0 ||
        strncmp(architecture, fake_hip.architecture, length) != 0 || architecture[length] != '\n')
        return NULL;
    return architecture + length + 1;
}

EXPORT int hipModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                               void **values)
{
    (void)options, (void)values;
    RETURN_CODE(work(__func__));
    if (count != 0) return INVALID_VALUE;
    if (text_of(image) == NULL) return NO_BINARY_FOR_GPU;
    *module = strdup(text_of(image));
    fake_hip.modules++;
    return SUCCESS;
}

EXPORT int hipModuleUnload(void *module)
{
    free(module);
    fake_hip.modules--;
    return work(__func__);
}

/* A function is its name in the module's text. */
EXPORT int hipModuleGetFunction(void **function, void *module, const char *name)
{
    RETURN_CODE(work(__func__));
    *function = strstr(module, name);
    return *function != NULL ? SUCCESS : NOT_FOUND;
}

EXPORT int hipFuncGetAttribute(int *value, int attribute, void *function)
{
    /* MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, CONST_SIZE_BYTES, LOCAL_SIZE_BYTES, NUM_REGS */
    static const int values[] = {256, 0, 4444, 40, 96};
    (void)function;
    if (attribute < 0 || attribute > 4) return INVALID_VALUE;
    *value = values[attribute];
    return work(__func__);
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                 unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)stream;
    RETURN_CODE(work(__func__));
    const uint64_t items = (uint64_t)grid_x * block_x;
    if (extra != NULL || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || items == 0 ||
        items > UINT32_MAX)
        return INVALID_VALUE;
    fake_launch launch = {.grid = grid_x, .block = block_x, .shared = shared};
    snprintf(launch.kernel, sizeof launch.kernel, "%.*s", (int)strcspn(function, "("),
             (const char *)function);
    launch.first_group = ((const attune_forward_args *)parameters[0])->first_group;
    if (fake_hip.launch_count < FAKE_LAUNCHES) fake_hip.launches[fake_hip.launch_count] = launch;
    fake_hip.launch_count++;
    return SUCCESS;
}
