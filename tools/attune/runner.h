/* One run of a problem on one device, host memory to host memory. */
#ifndef ATTUNE_COMMAND_RUNNER_H
#define ATTUNE_COMMAND_RUNNER_H

#include "attune/device.h"
#include "attune/numerics.h"
#include "inputs.h"

enum { KERNEL_NAME_SIZE = 128 };

typedef struct run_result {
    void *o; /* the problem's dtype and strides */
    float *lse;
    char kernel[KERNEL_NAME_SIZE];
    attune_arithmetic arithmetic;
    double milliseconds; /* of the run alone */
} run_result;

/* A plan with its buffers on the device; o and lse start as NaN. */
typedef struct runner {
    attune_context *context;
    attune_plan *plan;
    attune_forward_tensors tensors;
    size_t o_bytes, lse_bytes;
} runner;

/* `kernel` is a glob or NULL. On failure nothing is held and attune_error_detail() says why. */
attune_status runner_open(runner *r, attune_context *context, const inputs *in, const char *kernel);
void runner_close(runner *r);

/* Runs once and reads the outputs; the caller frees the result. */
attune_status run_once(attune_context *context, const inputs *in, const char *kernel,
                       run_result *result);
void run_result_free(run_result *result);

#endif
