#include "cl_loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"

opencl_functions opencl;

int opencl_load(char reason[256])
{
    void *const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(reason, 256, "no OpenCL runtime: %s", dlerror());
        return 0;
    }
    /* ISO C has no cast from dlsym's object pointer to a function pointer; POSIX promises the same representation. */
#define OPENCL_FIND(type, name, parameters)                                                        \
    do {                                                                                           \
        void *const symbol = dlsym(library, "cl" #name);                                           \
        if (symbol == NULL) {                                                                      \
            snprintf(reason, 256,                                                                  \
                     "libOpenCL.so.1 is older than OpenCL 1.2 or broken: it has no cl%s", #name);  \
            return 0;                                                                              \
        }                                                                                          \
        memcpy(&opencl.name, &symbol, sizeof symbol);                                              \
    } while (0);
    OPENCL_FUNCTIONS(OPENCL_FIND)
#undef OPENCL_FIND
    return 1;
}

const char *opencl_code_name(cl_int code)
{
    switch (code) {
#define CODE_CASE(name, value)                                                                     \
    case value:                                                                                    \
        return #name;
        CL_CODES(CODE_CASE)
#undef CODE_CASE
    default:
        return "an unknown code";
    }
}

static attune_status status_of(cl_int code)
{
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
        return ATTUNE_OUT_OF_MEMORY;
    /* the handles that callers bring themselves */
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_MEM_OBJECT:
        return ATTUNE_INVALID_ARGUMENT;
    default:
        return ATTUNE_DEVICE_ERROR;
    }
}

attune_status opencl_fail(cl_int code, const char *call, const char *what)
{
    return attune_fail(status_of(code), "%s: %s returned %s (%d)", what, call,
                       opencl_code_name(code), (int)code);
}
