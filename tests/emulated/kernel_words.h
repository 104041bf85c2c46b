/* What kernels.c, kernels_nvidia.c and kernels_amd.c are written in. */
#ifndef ATTUNE_TESTS_EMULATED_KERNEL_WORDS_H
#define ATTUNE_TESTS_EMULATED_KERNEL_WORDS_H

#include "kernels.h"

#include "emulated/instructions.h"

#include <stdint.h>

#define KERNEL(name)                                                                               \
    void name(const attune_forward_args *args, const void *q, const void *k, const void *v,        \
              void *o, float *lse, float *workspace, int64_t group)

#define THREAD emulated_thread()
#define BARRIER() emulated_barrier(__LINE__)
#define WARP_BARRIER() emulated_warp_barrier(__LINE__)
#define SHUFFLE(x, mask) emulated_shuffle_xor(x, mask, __LINE__)

typedef float quad __attribute__((vector_size(16)));

/* The group's WORK_ITEMS floats of shared memory. */
static inline float *shared(void)
{
    return emulated_shared();
}

#endif
