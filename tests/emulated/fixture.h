/* Runs a function as a kernel of an emulated device, through the backend's own table of functions. */
#ifndef ATTUNE_TESTS_EMULATED_FIXTURE_H
#define ATTUNE_TESTS_EMULATED_FIXTURE_H

#include "backend.h"

#include <stdbool.h>
#include <stdint.h>

/* attune_launch's q and k, which a kernel reads, and o, which it writes. */
enum { INPUT_FLOATS = 64, OPERAND_WORDS = 1280, OUTPUT_FLOATS = 1024 };

typedef struct emulated_run {
    const char *device;                    /* id, or NULL: emulated:nvidia */
    const char *seed;                      /* ATTUNE_EMULATED */
    const attune_context_options *options; /* or NULL */
    attune_group_function *kernel;
    int threads;
    size_t fast_memory;
    int64_t groups;
    const float *input;          /* INPUT_FLOATS at q, or NULL: 0, 1, 2, ... */
    const unsigned *operands;    /* OPERAND_WORDS at k, or NULL */
    bool free_input_first;       /* what the kernel then reads is no longer there */
    float output[OUTPUT_FLOATS]; /* what it wrote; NaN where it did not */
} emulated_run;

/* The status of the launch; attune_error_detail() has the finding. */
attune_status run(emulated_run *r);

#endif
