/* White box of src/choose.h: made-up devices and tables. */
#ifndef ATTUNE_TESTS_API_MADE_UP_H
#define ATTUNE_TESTS_API_MADE_UP_H

#include "choose.h"
#include "fixture.h"

#define TUNED(class, dim, most, id)                                                                \
    {                                                                                              \
        .device_class = class, .op = ATTUNE_FORWARD, .dtype = ATTUNE_F32, .head_dim = dim,         \
        .max_seqlen_q = most, .kernel = id                                                         \
    }

/* Kernels of head_dim 64 and 128 in f32, one that needs local memory in f16, one without code and one with source in bf16. `table`: tuned for devices "big" and
 * any; `untuned`: not. */
extern const attune_kernel_table table, untuned;

attune_device_caps device(const char *class, const char *features);
attune_problem problem_of(attune_dtype dtype, int64_t seqlen_q, int64_t head_dim,
                          int64_t head_dim_v);

/* The id of what is chosen, "" for nothing. */
const char *chosen(const attune_kernel_table *from, const attune_device_caps *caps,
                   const attune_problem *problem, const char *glob, kernel_choice *choice);

#endif
