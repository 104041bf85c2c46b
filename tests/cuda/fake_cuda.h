/* What tests may ask of tests/cuda/fake_cuda.c, a libcuda.so.1 without any hardware: it counts calls and objects, records launches and
 * fails on demand. A test finds `fake_cuda` with dlsym in the library that the backend has opened (fixture.h), or sets it up by the
 * environment: FAKE_CUDA="version=10020,cuInit=999" sets members of `machine`, or lets the next call of a function fail. */
#ifndef ATTUNE_TESTS_FAKE_CUDA_H
#define ATTUNE_TESTS_FAKE_CUDA_H

#include <stdatomic.h>
#include <stddef.h>

#include "kernel_abi.h"

/* X(the driver's name, the member of gpu_driver) */
#define FAKE_CUDA_FUNCTIONS(X)                                                                     \
    X(cuInit, init)                                                                                \
    X(cuDriverGetVersion, driver_version)                                                          \
    X(cuDeviceGetCount, device_count)                                                              \
    X(cuDeviceGet, device_get)                                                                     \
    X(cuDeviceGetName, device_name)                                                                \
    X(cuDeviceTotalMem_v2, device_memory)                                                          \
    X(cuDeviceGetAttribute, device_attribute)                                                      \
    X(cuGetErrorName, error_name)                                                                  \
    X(cuGetErrorString, error_text)                                                                \
    X(cuDevicePrimaryCtxRetain, context_retain)                                                    \
    X(cuDevicePrimaryCtxRelease_v2, context_release)                                               \
    X(cuCtxPushCurrent_v2, context_push)                                                           \
    X(cuCtxPopCurrent_v2, context_pop)                                                             \
    X(cuCtxGetDevice, context_device)                                                              \
    X(cuCtxSynchronize, context_sync)                                                              \
    X(cuModuleLoadDataEx, module_load)                                                             \
    X(cuModuleUnload, module_unload)                                                               \
    X(cuModuleGetFunction, module_function)                                                        \
    X(cuFuncGetAttribute, function_attribute)                                                      \
    X(cuFuncSetAttribute, function_set)                                                            \
    X(cuLaunchKernel, launch)                                                                      \
    X(cuMemAlloc_v2, alloc)                                                                        \
    X(cuMemFree_v2, free)                                                                          \
    X(cuMemcpyHtoDAsync_v2, copy_to)                                                               \
    X(cuMemcpyDtoHAsync_v2, copy_from)                                                             \
    X(cuStreamSynchronize, stream_sync)                                                            \
    X(cuEventCreate, event_create)                                                                 \
    X(cuEventDestroy_v2, event_destroy)                                                            \
    X(cuEventRecord, event_record)                                                                 \
    X(cuEventSynchronize, event_sync)                                                              \
    X(cuEventElapsedTime, event_elapsed)

#define FAKE_MEMBER(name, member) FAKE_##name,
typedef enum fake_function { FAKE_CUDA_FUNCTIONS(FAKE_MEMBER) FAKE_FUNCTIONS } fake_function;
#undef FAKE_MEMBER

/* Kinds of image that a module is loaded from. The fake compiler's end with the text that they were compiled from, so that a function
 * is only found in code of the right text. */
typedef enum fake_image { FAKE_FAT_BINARY, FAKE_CUBIN, FAKE_PTX, FAKE_IMAGES } fake_image;
#define FAKE_CUBIN_MAGIC "\177ELF of the fake compiler\n"
#define FAKE_PTX_MAGIC "// PTX of the fake compiler\n"

enum { FAKE_DEVICES = 2, FAKE_LAUNCHES = 64, FAKE_STACK = 8 };

typedef struct fake_machine {
    int version, devices, capability, mode;
    int unknown_attribute;                     /* of a device, to its driver; 0: none */
    int memory;                                /* bytes that can be allocated at a time */
    int load_codes[FAKE_IMAGES];               /* what loading such an image gives */
    int max_threads, fast_memory;              /* of a group; of a function, as built */
    int static_memory, registers, slow_memory; /* of a function, the last two of a thread of it */
    int sticky; /* what all work gives, since a kernel has broken the context; 0: nothing has */
} fake_machine;

/* The nth call from now (1: the next) fails with `code`, and has then been. */
typedef struct fake_fault {
    int nth, code;
} fake_fault;

typedef struct fake_launch {
    char kernel[128];
    unsigned grid, block, shared;
    void *stream;
    attune_forward_args args;
    void *handles[6]; /* q, k, v, o, lse, workspace */
} fake_launch;

typedef struct fake_context {
    int device;
} fake_context;

/* Of the calling thread: what is current is on top. */
typedef struct fake_stack {
    int depth;
    fake_context *contexts[FAKE_STACK];
} fake_stack;

typedef struct fake_cuda_state {
    fake_machine machine;
    fake_fault faults[FAKE_FUNCTIONS];
    int calls[FAKE_FUNCTIONS];
    fake_launch launches[FAKE_LAUNCHES]; /* the first ones since launch_count was set to 0 */
    int launch_count;
    void *waited_for; /* the stream that was last waited for */
    struct {
        atomic_int contexts, modules, allocations, events;
    } live;
    fake_stack *(*stack)(void);
    void (*reset)(void); /* machine, faults and records as they were at first; what lives stays */
} fake_cuda_state;

#endif
