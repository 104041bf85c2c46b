/* A problem on a device: its plan, its tensors there, and what comes back. */
#ifndef ATTUNE_COMMAND_RUNNER_H
#define ATTUNE_COMMAND_RUNNER_H

#include "attune/device.h"
#include "attune/numerics.h"
#include "inputs.h"

/* Memory of the device cpu is host memory: there the inputs and results are used in place, and nothing is copied. */
typedef struct runner {
    attune_context *context;
    attune_plan *plan;
    attune_forward_tensors tensors;
    bool in_place;
    tensor_sizes bytes;
    void *o; /* on the host, the problem's dtype and strides */
    float *lse;
} runner;

/* Opens a context; `threads` is for cpu, 0 its default. */
attune_status open_device(const char *device, int threads, attune_context **context,
                          attune_device_info *info);

/* o and lse start as NaN, on the host and on the device. The inputs must outlive the runner. On failure nothing
 * is held and attune_error_detail() says why. */
attune_status runner_open(runner *r, attune_context *context, const inputs *in,
                          const attune_plan_options *options);

/* The same for inputs that are needed for nothing else: each is freed as soon as the device has its copy. */
attune_status runner_open_freeing(runner *r, attune_context *context, inputs *in,
                                  const attune_plan_options *options);
void runner_close(runner *r);

/* One run: milliseconds without copies. */
attune_status runner_run(const runner *r, double *milliseconds);

/* Brings the results to r->o and r->lse. */
attune_status runner_read(const runner *r);

/* Largest resident set of this process so far, in bytes. */
uint64_t peak_rss(void);

#endif
