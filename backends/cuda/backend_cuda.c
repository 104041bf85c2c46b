/* The CUDA backend: the names and numbers of NVIDIA's driver API and of NVRTC (CUDA Driver API and NVRTC manuals; cuda.h and nvrtc.h
 * are not needed). What it does with them is in backends/gpu. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

extern const attune_kernel_table attune_kernel_table_cuda; /* generated */
extern const gpu_image attune_images_cuda[];               /* generated: fat binaries by nvcc */
extern const char attune_images_cuda_compiler[];

/* ---- the driver ---- */

#define DRIVER(symbol, member)                                                                     \
    {                                                                                              \
        .name = symbol, .place = offsetof(gpu_driver, member)                                      \
    }
static const gpu_symbol driver_symbols[] = {
    DRIVER("cuInit", init),
    DRIVER("cuDriverGetVersion", driver_version),
    DRIVER("cuDeviceGetCount", device_count),
    DRIVER("cuDeviceGet", device_get),
    DRIVER("cuDeviceGetName", device_name),
    DRIVER("cuDeviceTotalMem_v2", device_memory),
    DRIVER("cuDeviceGetAttribute", device_attribute),
    DRIVER("cuGetErrorName", error_name),
    DRIVER("cuGetErrorString", error_text),
    DRIVER("cuDevicePrimaryCtxRetain", context_retain),
    DRIVER("cuDevicePrimaryCtxRelease_v2", context_release),
    DRIVER("cuCtxPushCurrent_v2", context_push),
    DRIVER("cuCtxPopCurrent_v2", context_pop),
    DRIVER("cuCtxGetDevice", context_device),
    DRIVER("cuCtxSynchronize", context_sync),
    DRIVER("cuModuleLoadDataEx", module_load),
    DRIVER("cuModuleUnload", module_unload),
    DRIVER("cuModuleGetFunction", module_function),
    DRIVER("cuFuncGetAttribute", function_attribute),
    DRIVER("cuFuncSetAttribute", function_set),
    DRIVER("cuLaunchKernel", launch),
    DRIVER("cuMemAlloc_v2", alloc),
    DRIVER("cuMemFree_v2", free),
    DRIVER("cuMemcpyHtoDAsync_v2", copy_to),
    DRIVER("cuMemcpyDtoHAsync_v2", copy_from),
    DRIVER("cuStreamSynchronize", stream_sync),
    DRIVER("cuEventCreate", event_create),
    DRIVER("cuEventDestroy_v2", event_destroy),
    DRIVER("cuEventRecord", event_record),
    DRIVER("cuEventSynchronize", event_sync),
    DRIVER("cuEventElapsedTime", event_elapsed),
    {.name = NULL},
};
static gpu_driver driver;
static const char *const driver_libraries[] = {"libcuda.so.1", NULL};

/* CUresult */
static gpu_fault fault_of(int code)
{
    switch (code) {
    case 2: /* OUT_OF_MEMORY */
        return GPU_FAULT_MEMORY;
    case 201: /* INVALID_CONTEXT */
    case 400: /* INVALID_HANDLE */
    case 709: /* CONTEXT_IS_DESTROYED */
        return GPU_FAULT_HANDLE;
    case 200: /* INVALID_IMAGE */
    case 209: /* NO_BINARY_FOR_GPU */
    case 218: /* INVALID_PTX */
    case 221: /* JIT_COMPILER_NOT_FOUND */
    case 222: /* UNSUPPORTED_PTX_VERSION */
    case 223: /* JIT_COMPILATION_DISABLED */
    case 300: /* INVALID_SOURCE */
    case 500: /* NOT_FOUND: it has no such function */
        return GPU_FAULT_IMAGE;
    default:
        return GPU_FAULT_OTHER;
    }
}

/* ---- the device ---- */

enum {
    CAPABILITY_MAJOR = 75,
    CAPABILITY_MINOR = 76,
    COMPUTE_MODE = 20,
    MODE_PROHIBITED = 2,
    LEAST_CAPABILITY = 75
};

static int attribute(int which, int device)
{
    int value = 0;
    return driver.device_attribute(&value, which, device) == 0 ? value : 0;
}

static int capability_of(const char *device_class)
{
    return atoi(device_class + strlen("sm_"));
}

/* A class "sm_90"; the features are that and every older class of the spec. */
static void describe(int device, int version, attune_device_caps *caps)
{
    attune_device_info *const info = &caps->info;
    const int capability =
        10 * attribute(CAPABILITY_MAJOR, device) + attribute(CAPABILITY_MINOR, device);
    size_t length = 0;
    for (const char *const *name = attune_kernel_table_cuda.device_classes; *name != NULL; name++)
        if (capability_of(*name) <= capability)
            length += (size_t)snprintf(caps->features + length, sizeof caps->features - length,
                                       "%s%s", length > 0 ? " " : "", *name);
    snprintf(caps->device_class, sizeof caps->device_class, "sm_%d", capability);
    snprintf(info->driver, sizeof info->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    if (capability == 0)
        snprintf(info->reason, sizeof info->reason,
                 "the driver does not tell its compute capability");
    else if (capability < LEAST_CAPABILITY)
        snprintf(info->reason, sizeof info->reason,
                 "it is of compute capability %d.%d; 7.5 or later is needed", capability / 10,
                 capability % 10);
    else if (attribute(COMPUTE_MODE, device) == MODE_PROHIBITED)
        snprintf(info->reason, sizeof info->reason,
                 "its compute mode is \"prohibited\" (nvidia-smi -c changes it)");
}

/* ---- the run-time compiler ---- */

#define COMPILER(symbol, member)                                                                   \
    {                                                                                              \
        .name = symbol, .place = offsetof(gpu_compiler, member)                                    \
    }
static const gpu_symbol compiler_symbols[] = {
    COMPILER("nvrtcVersion", version),
    COMPILER("nvrtcCreateProgram", create),
    COMPILER("nvrtcCompileProgram", compile),
    COMPILER("nvrtcDestroyProgram", destroy),
    COMPILER("nvrtcGetProgramLogSize", log_size),
    COMPILER("nvrtcGetProgramLog", log),
    COMPILER("nvrtcGetCUBINSize", code_size),
    COMPILER("nvrtcGetCUBIN", code),
    COMPILER("nvrtcGetPTXSize", portable_size),
    COMPILER("nvrtcGetPTX", portable),
    COMPILER("nvrtcGetErrorString", error_text),
    COMPILER("nvrtcGetNumSupportedArchs", architecture_count),
    COMPILER("nvrtcGetSupportedArchs", architectures),
    {.name = NULL},
};
static gpu_compiler compiler;

/* The library's loader path first, then where NVIDIA's installer puts it. */
static const char *const compiler_libraries[] = {
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so.11.2",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
    NULL,
};
static const char *const compile_options[] = {"--fmad=false", "--device-as-default-execution-space",
                                              NULL};

/* The newest architecture that the compiler knows and the device is no older than. */
static int newest_known(int capability)
{
    int known[64], count = 0, newest = 0;
    if (compiler.architecture_count(&count) != 0 || count > 64 ||
        compiler.architectures(known) != 0)
        return capability;
    for (int i = 0; i < count; i++)
        if (known[i] <= capability && known[i] > newest) newest = known[i];
    return newest > 0 ? newest : capability;
}

/* Machine code for the device; where the compiler is older than it, PTX for the driver to compile. */
static void architecture_option(const char *device_class, char option[64])
{
    const int capability = capability_of(device_class), known = newest_known(capability);
    snprintf(option, 64, "--gpu-architecture=%s_%d", known == capability ? "sm" : "compute", known);
}

/* ---- the backend ---- */

static const gpu_vendor cuda = {
    .backend = "cuda",
    .platform = "CUDA",
    .family = "nvidia",
    .driver_libraries = driver_libraries,
    .compiler_libraries = compiler_libraries,
    .driver_symbols = driver_symbols,
    .compiler_symbols = compiler_symbols,
    .images = attune_images_cuda,
    .images_compiler = attune_images_cuda_compiler,
    .run_time_compiler = "NVRTC",
    .compile_options = compile_options,
    .least_driver = 11000,
    /* CUdevice_attribute: MAX_THREADS_PER_BLOCK, MULTIPROCESSOR_COUNT, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     * MAX_REGISTERS_PER_MULTIPROCESSOR, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, L2_CACHE_SIZE, CLOCK_RATE, WARP_SIZE,
     * MAX_THREADS_PER_MULTIPROCESSOR, RESERVED_SHARED_MEMORY_PER_BLOCK */
    .attributes = {.max_threads = 1,
                   .multiprocessors = 16,
                   .fast_memory = 97,
                   .registers = 82,
                   .multiprocessor_memory = 81,
                   .l2_cache = 38,
                   .clock_khz = 13,
                   .warp = 10,
                   .multiprocessor_threads = 39,
                   .reserved_memory = 111},
    /* CUfunction_attribute: MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, MAX_DYNAMIC_SHARED_SIZE_BYTES, NUM_REGS, LOCAL_SIZE_BYTES */
    .function_attributes = {.max_threads = 0,
                            .static_memory = 1,
                            .dynamic_memory = 8,
                            .registers = 4,
                            .slow_memory = 3},
    .fault = fault_of,
    .describe = describe,
    .architecture_option = architecture_option,
    .driver = &driver,
    .compiler = &compiler,
};

GPU_BACKEND(cuda, cuda);
