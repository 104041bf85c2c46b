/* What a problem means, decided without any device. */
#ifndef ATTUNE_PROBLEM_H
#define ATTUNE_PROBLEM_H

#include "backend.h"

enum { PROBLEM_MAX_HEAD_DIM = 256, PROBLEM_TEXT_SIZE = 512 };
/* Kernels count keys in 32 bits, some tiles beyond the last. */
#define PROBLEM_MAX_SEQLEN_K (INT32_MAX - 1023)

/* The tensors of a problem by number, in the order of attune_forward_tensors. */
enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O, TENSOR_COUNT };

typedef struct tensor_shape {
    const char *name;
    int64_t sizes[ATTUNE_RANK];
    const int64_t *strides; /* inside the problem */
} tensor_shape;

tensor_shape problem_tensor(const attune_problem *problem, int tensor);

/* 1/sqrt(head_dim); 1 for a head_dim that is none. */
double problem_default_scale(int64_t head_dim);

/* Element strides of a packed tensor. */
void problem_packed_strides(const int64_t sizes[ATTUNE_RANK], attune_layout layout,
                            int64_t strides[ATTUNE_RANK]);

/* Checks a problem and writes the one spelling of it: this library's struct_size, and settled
 * values for strides that are multiplied by nothing. Equal problems have equal bytes. */
attune_status problem_normalise(const attune_problem *problem, attune_problem *normal);

/* The kernel's arguments for a normalised problem, with all offsets 0. */
attune_forward_args problem_arguments(const attune_problem *problem);

#endif
