/* The platforms and devices of the fake driver. */
#include <string.h>

#include "fake_internal.h"

static char platforms[2], devices[FAKE_DEVICES];

cl_device_id fake_device(int index)
{
    return (cl_device_id)&devices[index];
}

cl_int clGetPlatformIDs(cl_uint size, cl_platform_id *ids, cl_uint *count)
{
    RETURN_FAULT();
    if (count != NULL) *count = 2;
    for (cl_uint i = 0; i < size && i < 2; i++) ids[i] = (cl_platform_id)&platforms[i];
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id id, cl_uint what, size_t size, void *to, size_t *needed)
{
    RETURN_FAULT();
    need(id == (cl_platform_id)&platforms[1], "unexpected question");
    const char *const text = what == CL_PLATFORM_NAME ? "Fake platform" : "FKE";
    return answer(text, strlen(text) + 1, size, to, needed);
}

cl_int clGetDeviceIDs(cl_platform_id id, cl_bitfield type, cl_uint size, cl_device_id *ids,
                      cl_uint *count)
{
    RETURN_FAULT();
    need(type == CL_DEVICE_TYPE_ALL, "unexpected device type");
    if (id == (cl_platform_id)&platforms[0]) return CL_DEVICE_NOT_FOUND;
    if (count != NULL) *count = FAKE_DEVICES;
    for (cl_uint i = 0; i < size && i < FAKE_DEVICES; i++) ids[i] = (cl_device_id)&devices[i];
    return CL_SUCCESS;
}

static const char *text_of(ptrdiff_t device, cl_uint what)
{
    const int embedded = device == FAKE_EMBEDDED || device == FAKE_EMBEDDED_WITH_FMA;
    switch (what) {
    case CL_DEVICE_NAME:
        return "  Fake device";
    case CL_DEVICE_VENDOR:
        return device == FAKE_EMBEDDED_WITH_FMA  ? "3D(R)-Labs Inc."
               : device == FAKE_WITHOUT_COMPILER ? ""
                                                 : "Somebody else";
    case CL_DRIVER_VERSION:
        return "1.0";
    case CL_DEVICE_PROFILE:
        return embedded ? "EMBEDDED_PROFILE" : "FULL_PROFILE";
    case CL_DEVICE_OPENCL_C_VERSION:
        return device == FAKE_OPENCL_C_1_1 ? "OpenCL C 1.1 old" : "OpenCL C 1.2 ";
    case CL_DEVICE_EXTENSIONS:
        return device == FAKE_EMBEDDED_WITH_FMA ? "cl_a cles_khr_int64"
                                                : "cl_khr_fp16x cl_khr_fp16";
    default:
        return NULL;
    }
}

static cl_ulong number_of(ptrdiff_t device, cl_uint what)
{
    switch (what) {
    case CL_DEVICE_TYPE:
        return device == FAKE_BIG_ENDIAN ? CL_DEVICE_TYPE_CPU : CL_DEVICE_TYPE_GPU;
    case CL_DEVICE_VENDOR_ID:
        return device == FAKE_GPU ? 0x1002 : device == FAKE_BIG_ENDIAN ? 0x8086 : 0x12345;
    case CL_DEVICE_SINGLE_FP_CONFIG:
        return device == FAKE_EMBEDDED ? CL_FP_DENORM : CL_FP_DENORM | CL_FP_FMA;
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return 0;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return 256;
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return 7;
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return 32768;
    case CL_DEVICE_AVAILABLE:
        return device != FAKE_UNAVAILABLE;
    case CL_DEVICE_COMPILER_AVAILABLE:
        return device != FAKE_WITHOUT_COMPILER;
    case CL_DEVICE_ENDIAN_LITTLE:
        return device != FAKE_BIG_ENDIAN;
    default:
        return 1 << 20;
    }
}

cl_int clGetDeviceInfo(cl_device_id id, cl_uint what, size_t size, void *to, size_t *needed)
{
    RETURN_FAULT();
    const ptrdiff_t device = (char *)id - devices;
    const char *const text = text_of(device, what);
    if (text != NULL) return answer(text, strlen(text) + 1, size, to, needed);
    const cl_ulong number = number_of(device, what);
    return answer(&number, sizeof number, size, to, needed);
}
