/* Q, K and V on the host: from NumPy files, or a problem filled with numbers. */
#ifndef ATTUNE_COMMAND_INPUTS_H
#define ATTUNE_COMMAND_INPUTS_H

#include "options.h"

typedef struct inputs {
    attune_problem problem;
    void *q, *k, *v;
} inputs;

/* From --q, --k, --v with --layout, --dtype (default: the files'), --mask and --scale; `lse`: whether it is wanted. 0, or an exit code after
 * one sentence; then nothing is held. */
int inputs_from_files(const options *o, bool lse, inputs *in);

/* A problem string's problem; --dtype, --mask and --scale replace what it says, and `lse` adds to it. 0, or an exit code after one sentence. */
int problem_read(const options *o, const char *text, bool lse, attune_problem *problem);

/* A problem filled with numbers by --seed; `fill` is an attune_fill. 0, or an exit code after one sentence; then nothing is held. */
int inputs_from_problem(const options *o, const attune_problem *problem, int fill, inputs *in);

/* Frees the tensors; the problem stays. */
void inputs_free(inputs *in);

/* Bytes that the tensors of a problem span; lse only where the problem returns it. */
typedef struct tensor_sizes {
    size_t q, k, v, o, lse;
} tensor_sizes;

tensor_sizes problem_bytes(const attune_problem *problem);

/* Floating-point operations of the forward pass: 2 (head_dim + head_dim_v) for each pair that the mask leaves. */
double problem_flops(const attune_problem *problem);

#endif
