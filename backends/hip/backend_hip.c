/* The HIP backend: the names and numbers of AMD's runtime and of hipRTC (HIP Runtime API Reference, "Modules" of ROCm's documentation; no header
 * of ROCm is needed). What it does with them is in backends/gpu. Where HIP differs from CUDA's driver API, an adapter here bridges it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

extern const attune_kernel_table attune_kernel_table_hip; /* generated */
extern const gpu_image attune_images_hip[];               /* generated: code objects by clang */
extern const char attune_images_hip_compiler[];

/* ---- the runtime ---- */

/* What the shared part calls, and what the adapters below do. */
typedef struct hip_runtime {
    gpu_driver driver;
    int (*set_device)(int device);
    int (*get_device)(int *device);
    const char *(*error_name)(int code);
    const char *(*error_text)(int code);
    int (*properties)(void *properties, int device);   /* as HIP 5 lays them out */
    int (*properties_6)(void *properties, int device); /* as HIP 6 and 7 do; NULL before */
} hip_runtime;

#define HIP(symbol, member)                                                                        \
    {                                                                                              \
        .name = symbol, .place = offsetof(hip_runtime, member)                                     \
    }
static const gpu_symbol driver_symbols[] = {
    /* hipDriverGetVersion gives a number of its own before 5.3 */
    HIP("hipRuntimeGetVersion", driver.driver_version),
    HIP("hipGetDeviceCount", driver.device_count),
    HIP("hipDeviceGet", driver.device_get),
    HIP("hipDeviceGetName", driver.device_name),
    HIP("hipDeviceTotalMem", driver.device_memory),
    HIP("hipDeviceGetAttribute", driver.device_attribute),
    HIP("hipDeviceSynchronize", driver.context_sync),
    HIP("hipModuleLoadDataEx", driver.module_load),
    HIP("hipModuleUnload", driver.module_unload),
    HIP("hipModuleGetFunction", driver.module_function),
    HIP("hipFuncGetAttribute", driver.function_attribute),
    HIP("hipModuleLaunchKernel", driver.launch),
    HIP("hipMalloc", driver.alloc),
    HIP("hipFree", driver.free),
    HIP("hipMemcpyHtoDAsync", driver.copy_to),
    HIP("hipMemcpyDtoHAsync", driver.copy_from),
    HIP("hipStreamSynchronize", driver.stream_sync),
    HIP("hipEventCreateWithFlags", driver.event_create),
    HIP("hipEventDestroy", driver.event_destroy),
    HIP("hipEventRecord", driver.event_record),
    HIP("hipEventSynchronize", driver.event_sync),
    HIP("hipEventElapsedTime", driver.event_elapsed),
    HIP("hipSetDevice", set_device),
    HIP("hipGetDevice", get_device),
    HIP("hipGetErrorName", error_name),
    HIP("hipGetErrorString", error_text),
    HIP("hipGetDeviceProperties", properties),
    {.name = "hipGetDevicePropertiesR0600",
     .place = offsetof(hip_runtime, properties_6),
     .optional = true},
    {.name = NULL},
};
static hip_runtime hip;

/* The loader's path first, newest first, then where AMD's installer puts it. */
static const char *const driver_libraries[] = {
    "libamdhip64.so.7", "libamdhip64.so.6",
    "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so",
    "libamdhip64.so",   NULL,
};

/* hipError_t */
static gpu_fault fault_of(int code)
{
    switch (code) {
    case 2: /* OutOfMemory */
        return GPU_FAULT_MEMORY;
    case 17:  /* InvalidDevicePointer */
    case 201: /* InvalidContext */
    case 400: /* InvalidHandle */
    case 709: /* ContextIsDestroyed */
        return GPU_FAULT_HANDLE;
    case 98:  /* InvalidDeviceFunction */
    case 200: /* InvalidImage */
    case 209: /* NoBinaryForGpu */
    case 218: /* InvalidKernelFile */
    case 300: /* InvalidSource */
    case 303: /* SharedObjectInitFailed */
    case 500: /* NotFound: it has no such function */
        return GPU_FAULT_IMAGE;
    default:
        return GPU_FAULT_OTHER;
    }
}

/* The first call starts the runtime. Without a GPU hipInit fails with InvalidDevice, the count with NoDevice. */
static int init(unsigned flags)
{
    (void)flags;
    return 0;
}

static int error_name(int code, const char **name)
{
    *name = hip.error_name(code);
    return 0;
}
static int error_text(int code, const char **text)
{
    *text = hip.error_text(code);
    return 0;
}

/* ---- the current device, in the place of a context ---- */

/* Of this thread, before context_push; pushes do not nest. */
static _Thread_local int previous_device;

static int context_push(void *context)
{
    const int code = hip.get_device(&previous_device);
    return code == 0 ? hip.set_device((int)(intptr_t)context) : code;
}

static int context_pop(void **context)
{
    *context = NULL;
    return hip.set_device(previous_device);
}

/* Succeeds where the device can be made current. */
static int context_retain(void **context, int device)
{
    void *popped;
    *context = (void *)(intptr_t)device;
    const int code = context_push(*context);
    return code == 0 ? context_pop(&popped) : code;
}

static int context_release(int device)
{
    (void)device;
    return 0;
}

/* A kernel may use all the local memory that the device has for a group, without asking (hipFuncSetAttribute is for functions of the host). */
static int function_set(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return 0;
}

static hip_runtime hip = {
    .driver = {.init = init,
               .error_name = error_name,
               .error_text = error_text,
               .context_retain = context_retain,
               .context_release = context_release,
               .context_push = context_push,
               .context_pop = context_pop,
               .function_set = function_set},
};

/* ---- the device ---- */

/* Where gcnArchName lies in hipDeviceProp_t: offsetof with hip/hip_runtime_api.h of ROCm 5.2.3 (a struct of 792 bytes), and with that of 6 and 7
 * (hipDeviceProp_tR0600, 1472 bytes). */
enum { ARCHITECTURE_5 = 396, ARCHITECTURE_6 = 1160, PROPERTIES_SIZE = 4096, NAME_SIZE = 32 };

/* Whether a text is "gfx" and at least three of 0-9 and a-f, as in "gfx90a". */
static bool is_architecture(const char *text)
{
    if (strncmp(text, "gfx", 3) != 0) return false;
    const size_t digits = strspn(text + 3, "0123456789abcdef");
    return digits >= 3 && text[3 + digits] == '\0';
}

/* "gfx942" of a device that calls itself "gfx942:sramecc+:xnack-": code for it alone runs with any setting of these. False where it
 * does not tell. */
static bool get_architecture(int device, char name[NAME_SIZE])
{
    _Alignas(8) char properties[PROPERTIES_SIZE] = "";
    const bool is_6 = hip.properties_6 != NULL;
    const int code = (is_6 ? hip.properties_6 : hip.properties)(properties, device);
    const char *const found = properties + (is_6 ? ARCHITECTURE_6 : ARCHITECTURE_5);
    const size_t length = strcspn(found, ":");
    if (code != 0 || length >= NAME_SIZE) return false;
    memcpy(name, found, length);
    name[length] = '\0';
    return is_architecture(name);
}

/* gfx900 is of generation 9, gfx1030 of 10; the last two are model and stepping. */
static int generation_of(const char *architecture)
{
    int generation = 0;
    for (const char *c = architecture + 3; c[2] != '\0'; c++)
        generation = 10 * generation + (*c - '0');
    return generation;
}

/* The features that the spec reads off a class's name. */
static void find_features(attune_device_caps *caps)
{
    size_t length = 0;
    for (const attune_class_feature *row = attune_kernel_table_hip.class_features;
         row->beginning != NULL; row++)
        if (strncmp(caps->device_class, row->beginning, strlen(row->beginning)) == 0)
            length += (size_t)snprintf(caps->features + length, sizeof caps->features - length,
                                       "%s%s", length > 0 ? " " : "", row->feature);
}

enum { LEAST_GENERATION = 9, MOST_THREADS = 1024 };

static void describe(int device, int version, attune_device_caps *caps)
{
    attune_device_info *const info = &caps->info;
    char architecture[NAME_SIZE];
    snprintf(info->driver, sizeof info->driver, "HIP %d.%d", version / 10000000,
             version % 10000000 / 100000);
    /* a grid is counted in work-items too, in 32 bits (hipModuleLaunchKernel) */
    caps->max_groups = UINT32_MAX / MOST_THREADS;
    if (!get_architecture(device, architecture)) {
        snprintf(info->reason, sizeof info->reason, "the driver does not tell its architecture");
        return;
    }
    snprintf(caps->device_class, sizeof caps->device_class, "%s", architecture);
    find_features(caps);
    if (generation_of(architecture) < LEAST_GENERATION)
        snprintf(info->reason, sizeof info->reason,
                 "it is of architecture %s; gfx900 or later is needed", architecture);
}

/* ---- the run-time compiler ---- */

#define COMPILER(symbol, member)                                                                   \
    {                                                                                              \
        .name = symbol, .place = offsetof(gpu_compiler, member)                                    \
    }
static const gpu_symbol compiler_symbols[] = {
    COMPILER("hiprtcCreateProgram", create),
    COMPILER("hiprtcCompileProgram", compile),
    COMPILER("hiprtcDestroyProgram", destroy),
    COMPILER("hiprtcGetProgramLogSize", log_size),
    COMPILER("hiprtcGetProgramLog", log),
    COMPILER("hiprtcGetCodeSize", code_size),
    COMPILER("hiprtcGetCode", code),
    COMPILER("hiprtcGetErrorString", error_text),
    {.name = NULL},
};

/* The runtime's, with which the compiler comes: hiprtcVersion is 9.0 whatever it is. */
static int compiler_version(int *major, int *minor)
{
    int version = 0;
    const int code = hip.driver.driver_version(&version);
    *major = version / 10000000;
    *minor = version % 10000000; /* with the patch */
    return code;
}

static gpu_compiler compiler = {.version = compiler_version};

/* ROCm 5.2 and older have it in the runtime. */
static const char *const compiler_libraries[] = {
    "libhiprtc.so.7",
    "libhiprtc.so.6",
    "libhiprtc.so.5",
    "/opt/rocm/lib/libhiprtc.so",
    "libhiprtc.so",
    "libamdhip64.so.5",
    NULL,
};
static const char *const compile_options[] = {"-O3", "-ffp-contract=off", NULL};

static void architecture_option(const char *device_class, char option[64])
{
    snprintf(option, 64, "--offload-arch=%s", device_class);
}

/* ---- the backend ---- */

static const gpu_vendor vendor = {
    .backend = "hip",
    .platform = "HIP",
    .family = "amd",
    .driver_libraries = driver_libraries,
    .compiler_libraries = compiler_libraries,
    .driver_symbols = driver_symbols,
    .compiler_symbols = compiler_symbols,
    .images = attune_images_hip,
    .images_compiler = attune_images_hip_compiler,
    .run_time_compiler = "hipRTC",
    .compile_options = compile_options,
    .least_driver = 50000000,
    /* hipDeviceAttribute_t, the same in HIP 5, 6 and 7: MaxThreadsPerBlock, MultiprocessorCount, MaxSharedMemoryPerBlock, MaxRegistersPerBlock,
     * MaxSharedMemoryPerMultiprocessor, L2CacheSize, ClockRate, WarpSize, MaxThreadsPerMultiProcessor */
    .attributes = {.max_threads = 56,
                   .multiprocessors = 63,
                   .fast_memory = 74,
                   .registers = 71,
                   .multiprocessor_memory = 10002,
                   .l2_cache = 19,
                   .clock_khz = 5,
                   .warp = 87,
                   .multiprocessor_threads = 57,
                   .reserved_memory = NO_ATTRIBUTE},
    /* hipFunction_attribute: MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, MAX_DYNAMIC_SHARED_SIZE_BYTES, NUM_REGS, LOCAL_SIZE_BYTES */
    .function_attributes = {.max_threads = 0,
                            .static_memory = 1,
                            .dynamic_memory = 8,
                            .registers = 4,
                            .slow_memory = 3},
    .fault = fault_of,
    .describe = describe,
    .architecture_option = architecture_option,
    .driver = &hip.driver,
    .compiler = &compiler,
};

GPU_BACKEND(hip, vendor);
