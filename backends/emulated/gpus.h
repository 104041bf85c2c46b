/* The emulated GPUs: what tells one from another. */
#ifndef ATTUNE_EMULATED_GPUS_H
#define ATTUNE_EMULATED_GPUS_H

#include "matrix_unit.h"

#include <stdbool.h>
#include <stddef.h>

/* Instructions that not every GPU has; shuffles, barriers and emulated_exp2 belong to all. */
typedef enum instruction_set { NVIDIA, AMD_MFMA, AMD_WMMA_RDNA3, AMD_WMMA_RDNA4 } instruction_set;

typedef struct gpu {
    const char *id, *name, *device_class, *features;
    size_t fast_memory;
    int warp_bits; /* a warp, which AMD calls a wave, has 2^warp_bits lanes */
    int multiprocessor_threads;
    instruction_set instructions;
    const matrix_unit *unit;
    bool has_lds;            /* lds.h counts its conflicts */
    bool lds_swizzles_reads; /* of 16 bytes */
} gpu;

enum { GPUS = 8 };
extern const gpu gpus[GPUS] __attribute__((visibility("hidden")));

#endif
