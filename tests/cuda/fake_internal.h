/* What the files of the fake driver share. */
#ifndef ATTUNE_TESTS_CUDA_FAKE_INTERNAL_H
#define ATTUNE_TESTS_CUDA_FAKE_INTERNAL_H

#include <stdbool.h>

#include "fake_cuda.h"
#include "gpu.h"

#define EXPORT __attribute__((visibility("default")))

/* The backend's own declarations, so that its signatures are the ones tested here. */
#define PROTOTYPE(name, member) EXPORT extern __typeof__(*((gpu_driver *)0)->member) name;
FAKE_CUDA_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

EXPORT extern fake_cuda_state fake_cuda;

/* CUresult */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
};

/* Aborts with a word to the test's author. */
void need(bool condition, const char *what);

/* Counts a call and gives the code that it has to fail with. */
int enter(fake_function function);
/* The same of work, which needs a current context that no kernel has broken. */
int enter_work(fake_function function);

#define RETURN_CODE(of)                                                                            \
    do {                                                                                           \
        const int code_ = (of);                                                                    \
        if (code_ != SUCCESS) return code_;                                                        \
    } while (0)

#endif
