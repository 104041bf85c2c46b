/* A plain tiled attention in fp32, the way kernels do it, and what can go wrong with one. */
#ifndef ATTUNE_TESTS_TILED_H
#define ATTUNE_TESTS_TILED_H

#include "trial.h"

#define FAULTS(X)                                                                                  \
    X(no_fault, "as it should be")                                                                 \
    X(dropped_rescale, "o is not rescaled in the last tile")                                       \
    X(dropped_key, "the last visible key is left out")                                             \
    X(swapped_values, "the first two rows of v of every tile change places")                       \
    X(scale_off, "the scale is 1 % too large")                                                     \
    X(f16_output, "o is accumulated in f16")                                                       \
    X(f16_scores, "scores are rounded to f16")                                                     \
    X(truncated_p, "P enters the second product cut off to the storage type")                      \
    X(truncated_sum, "every sum of o is cut off to fp32: a bias, not an error")                    \
    X(no_tail_mask, "keys beyond the last count with score 0")                                     \
    X(finite_start, "the running max starts at -1e4")                                              \
    X(denominator_off, "l is 0.1 % too large")                                                     \
    X(lse_one_key, "lse leaves out the last visible key")                                          \
    X(lse_base_2, "lse is a logarithm to base 2")                                                  \
    X(causal_off_by_one, "rows see one key more")                                                  \
    X(hidden_times_zero, "hidden values are multiplied by 0")                                      \
    X(dropped_dimension, "the last dimension of q and k is left out")                              \
    X(flushed_denormals, "subnormal values count as 0")                                            \
    X(tf32_operands, "q, k and v are read as tf32, with 13 bits less")                             \
    X(wrong_head, "query heads read key head h mod heads_kv")                                      \
    X(unwritten_row, "the last row is not written")

typedef enum fault {
#define FAULT_MEMBER(name, meaning) FAULT_##name,
    FAULTS(FAULT_MEMBER)
#undef FAULT_MEMBER
        FAULT_COUNT
} fault;

const char *fault_name(fault f);

/* Writes o and lse of the trial. */
void tiled_forward(trial *t, int64_t block_k, fault f);

#endif
