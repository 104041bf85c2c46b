/* Q, K and V on the host: from NumPy files, or a problem filled with numbers. */
#ifndef ATTUNE_COMMAND_INPUTS_H
#define ATTUNE_COMMAND_INPUTS_H

#include "options.h"

typedef struct inputs {
    attune_problem problem;
    void *q, *k, *v;
} inputs;

/* From --q, --k, --v with --layout, --dtype (default: the files'), --mask and --scale. 0, or an exit code after one sentence. */
int inputs_from_files(const options *o, inputs *in);

/* From a problem string; --dtype, --mask and --scale replace what it says. `fill` is an attune_fill. */
int inputs_from_problem(const options *o, const char *text, int fill, inputs *in);

void inputs_free(inputs *in);

/* Bytes that o and lse of a problem need. */
size_t inputs_output_bytes(const attune_problem *problem);
size_t inputs_lse_bytes(const attune_problem *problem);

/* Floating-point operations of the forward pass, counting exactly the pairs that the mask leaves. */
double inputs_flops(const attune_problem *problem);

#endif
