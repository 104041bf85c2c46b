/* What tests may ask of tests/opencl/fake_driver.c, a libOpenCL.so.1 without any hardware: it counts objects, records launches and
 * fails on demand. The functions are found with dlsym in the library that the backend has opened. */
#ifndef ATTUNE_TESTS_FAKE_DRIVER_H
#define ATTUNE_TESTS_FAKE_DRIVER_H

#include <stdint.h>

/* Its devices, on the second of two platforms; the first has none. */
enum {
    FAKE_GPU,
    FAKE_EMBEDDED_WITH_FMA,
    FAKE_GOOD_DEVICES,
    FAKE_UNAVAILABLE = FAKE_GOOD_DEVICES,
    FAKE_WITHOUT_COMPILER,
    FAKE_BIG_ENDIAN,
    FAKE_OPENCL_C_1_1,
    FAKE_EMBEDDED,
    FAKE_DEVICES
};

typedef struct fake_launch {
    char kernel[64];
    int64_t first_group; /* as the kernel's arguments say */
    uint64_t global, local;
    const void *handles[6]; /* q, k, v, o, lse, workspace */
} fake_launch;

/* The nth call from now (1: the next) of OpenCL's function `name`, without its prefix, fails with `code`. n = 0: none. */
typedef void fake_fault_function(const char *name, int n, int code);
/* 1 when the call chosen by fake_fault has come. */
typedef int fake_faulted_function(void);
/* Objects that were made or retained and not released. */
typedef int fake_live_function(void);
/* Calls of a function since the library was opened. */
typedef int fake_calls_function(const char *name);
/* Launches since the last call of this function, the first `size` of them in launches[size]. */
typedef int fake_launches_function(fake_launch *launches, int size);

#endif
