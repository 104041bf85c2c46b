/* The part of OpenCL 1.2 that this backend uses, declared here so that a build needs no SDK, and found in libOpenCL.so.1 at run time.
 * Types, values and signatures are those of the OpenCL API specification 1.2, sections 4 and 5, and its header cl.h. */
#ifndef ATTUNE_OPENCL_CL_LOADER_H
#define ATTUNE_OPENCL_CL_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;
typedef struct cl_platform *cl_platform_id;
typedef struct cl_device *cl_device_id;
typedef struct cl_context_object *cl_context;
typedef struct cl_queue_object *cl_command_queue;
typedef struct cl_mem_object *cl_mem;
typedef struct cl_program_object *cl_program;
typedef struct cl_kernel_object *cl_kernel;
typedef struct cl_event_object *cl_event;

enum {
    CL_PLATFORM_NAME = 0x0902,
    CL_PLATFORM_ICD_SUFFIX_KHR = 0x0920, /* extension cl_khr_icd */

    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_VENDOR_ID = 0x1001,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_VENDOR = 0x102C,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_PROFILE = 0x102E,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_DEVICE_OPENCL_C_VERSION = 0x103D,

    CL_DEVICE_TYPE_CPU = 1 << 1,
    CL_DEVICE_TYPE_GPU = 1 << 2,
    CL_FP_DENORM = 1 << 0,
    CL_FP_FMA = 1 << 5,

    CL_CONTEXT_DEVICES = 0x1081,
    CL_CONTEXT_PLATFORM = 0x1084,

    CL_QUEUE_CONTEXT = 0x1090,
    CL_QUEUE_DEVICE = 0x1091,
    CL_QUEUE_PROPERTIES = 0x1093,
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE = 1 << 0,
    CL_QUEUE_PROFILING_ENABLE = 1 << 1,

    CL_MEM_READ_WRITE = 1 << 0,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
    CL_KERNEL_PRIVATE_MEM_SIZE = 0x11B4,
    CL_PROFILING_COMMAND_START = 0x1282,
    CL_PROFILING_COMMAND_END = 0x1283,
};

#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)

/* Every error code of the specification, and those of the loader and the extensions that a call here can meet. */
#define CL_CODES(X)                                                                                \
    X(CL_SUCCESS, 0)                                                                               \
    X(CL_DEVICE_NOT_FOUND, -1)                                                                     \
    X(CL_DEVICE_NOT_AVAILABLE, -2)                                                                 \
    X(CL_COMPILER_NOT_AVAILABLE, -3)                                                               \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4)                                                        \
    X(CL_OUT_OF_RESOURCES, -5)                                                                     \
    X(CL_OUT_OF_HOST_MEMORY, -6)                                                                   \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, -7)                                                         \
    X(CL_BUILD_PROGRAM_FAILURE, -11)                                                               \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14)                                           \
    X(CL_COMPILE_PROGRAM_FAILURE, -15)                                                             \
    X(CL_LINKER_NOT_AVAILABLE, -16)                                                                \
    X(CL_LINK_PROGRAM_FAILURE, -17)                                                                \
    X(CL_INVALID_VALUE, -30)                                                                       \
    X(CL_INVALID_DEVICE_TYPE, -31)                                                                 \
    X(CL_INVALID_PLATFORM, -32)                                                                    \
    X(CL_INVALID_DEVICE, -33)                                                                      \
    X(CL_INVALID_CONTEXT, -34)                                                                     \
    X(CL_INVALID_QUEUE_PROPERTIES, -35)                                                            \
    X(CL_INVALID_COMMAND_QUEUE, -36)                                                               \
    X(CL_INVALID_HOST_PTR, -37)                                                                    \
    X(CL_INVALID_MEM_OBJECT, -38)                                                                  \
    X(CL_INVALID_BINARY, -42)                                                                      \
    X(CL_INVALID_BUILD_OPTIONS, -43)                                                               \
    X(CL_INVALID_PROGRAM, -44)                                                                     \
    X(CL_INVALID_PROGRAM_EXECUTABLE, -45)                                                          \
    X(CL_INVALID_KERNEL_NAME, -46)                                                                 \
    X(CL_INVALID_KERNEL_DEFINITION, -47)                                                           \
    X(CL_INVALID_KERNEL, -48)                                                                      \
    X(CL_INVALID_ARG_INDEX, -49)                                                                   \
    X(CL_INVALID_ARG_VALUE, -50)                                                                   \
    X(CL_INVALID_ARG_SIZE, -51)                                                                    \
    X(CL_INVALID_KERNEL_ARGS, -52)                                                                 \
    X(CL_INVALID_WORK_DIMENSION, -53)                                                              \
    X(CL_INVALID_WORK_GROUP_SIZE, -54)                                                             \
    X(CL_INVALID_WORK_ITEM_SIZE, -55)                                                              \
    X(CL_INVALID_GLOBAL_OFFSET, -56)                                                               \
    X(CL_INVALID_EVENT_WAIT_LIST, -57)                                                             \
    X(CL_INVALID_EVENT, -58)                                                                       \
    X(CL_INVALID_OPERATION, -59)                                                                   \
    X(CL_INVALID_BUFFER_SIZE, -61)                                                                 \
    X(CL_INVALID_GLOBAL_WORK_SIZE, -63)                                                            \
    X(CL_INVALID_PROPERTY, -64)                                                                    \
    X(CL_PLATFORM_NOT_FOUND_KHR, -1001)                                                            \
    X(CL_CONTEXT_TERMINATED_KHR, -1121)

enum {
#define CL_CODE_MEMBER(name, value) name = value,
    CL_CODES(CL_CODE_MEMBER)
#undef CL_CODE_MEMBER
};

/* clang-format off */
#define OPENCL_FUNCTIONS(X)                                                                        \
    X(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                              \
    X(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))                \
    X(cl_int, GetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))     \
    X(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                    \
    X(cl_context, CreateContext, (const intptr_t *, cl_uint, const cl_device_id *,                 \
                                  void (*)(const char *, const void *, size_t, void *), void *, cl_int *)) \
    X(cl_int, RetainContext, (cl_context))                                                         \
    X(cl_int, ReleaseContext, (cl_context))                                                        \
    X(cl_int, GetContextInfo, (cl_context, cl_uint, size_t, void *, size_t *))                     \
    X(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))     \
    X(cl_int, RetainCommandQueue, (cl_command_queue))                                              \
    X(cl_int, ReleaseCommandQueue, (cl_command_queue))                                             \
    X(cl_int, GetCommandQueueInfo, (cl_command_queue, cl_uint, size_t, void *, size_t *))          \
    X(cl_mem, CreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                   \
    X(cl_int, ReleaseMemObject, (cl_mem))                                                          \
    X(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *)) \
    X(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *,              \
                             void (*)(cl_program, void *), void *))                                \
    X(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))  \
    X(cl_int, ReleaseProgram, (cl_program))                                                        \
    X(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *))                               \
    X(cl_int, ReleaseKernel, (cl_kernel))                                                          \
    X(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                            \
    X(cl_int, GetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *)) \
    X(cl_int, EnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, \
                                     const size_t *, cl_uint, const cl_event *, cl_event *))       \
    X(cl_int, EnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, \
                                   const cl_event *, cl_event *))                                  \
    X(cl_int, EnqueueReadBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, \
                                  const cl_event *, cl_event *))                                   \
    X(cl_int, EnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *)) \
    X(cl_int, WaitForEvents, (cl_uint, const cl_event *))                                          \
    X(cl_int, GetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                \
    X(cl_int, ReleaseEvent, (cl_event))                                                            \
    X(cl_int, Flush, (cl_command_queue))
/* clang-format on */

typedef struct opencl_functions {
#define OPENCL_MEMBER(type, name, parameters) type(*name) parameters;
    OPENCL_FUNCTIONS(OPENCL_MEMBER)
#undef OPENCL_MEMBER
} opencl_functions;

/* OpenCL's functions without their prefix: opencl.Flush is clFlush. Filled by opencl_load and constant from then on. */
extern opencl_functions opencl;

/* Opens libOpenCL.so.1, which stays open: drivers own threads. 1 when every function was found, else 0 and one sentence in
 * reason[256]. Not for two threads at once. */
int opencl_load(char reason[256]);

/* "CL_OUT_OF_RESOURCES"; "an unknown code" for a number that is none. Static. */
const char *opencl_code_name(cl_int code);

/* Records and returns the failure `code` of OpenCL's function `call` ("clFlush"); `what` was being worked on. */
attune_status opencl_fail(cl_int code, const char *call, const char *what);

#endif
