/* What the files of the fake driver share. */
#ifndef ATTUNE_TESTS_FAKE_INTERNAL_H
#define ATTUNE_TESTS_FAKE_INTERNAL_H

#include "cl_loader.h"
#include "fake_driver.h"

#define EXPORT __attribute__((visibility("default")))

/* The backend's own declarations, so that its signatures are the ones tested here. */
#define PROTOTYPE(type, name, parameters) EXPORT type cl##name parameters;
OPENCL_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

/* Counts a call of the function `prefixed` ("clFinish") and gives the code it has to fail with. */
cl_int enter(const char *prefixed);

#define RETURN_FAULT()                                                                             \
    do {                                                                                           \
        const cl_int fault = enter(__func__);                                                      \
        if (fault != CL_SUCCESS) return fault;                                                     \
    } while (0)

/* Aborts with a word to the test's author. */
void need(int condition, const char *what);

/* Answers a question about a property as OpenCL's Get…Info functions do. */
cl_int answer(const void *value, size_t length, size_t size, void *to, size_t *needed);

cl_device_id fake_device(int index);

#endif
