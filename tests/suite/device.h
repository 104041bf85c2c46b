/* Devices under test, and one careful run on one of them. */
#ifndef ATTUNE_TESTS_DEVICE_H
#define ATTUNE_TESTS_DEVICE_H

#include "tensors.h"

#include "attune/device.h"

enum { MAX_DEVICES = 16, REASON_SIZE = 512 };

typedef struct device {
    char name[64];           /* as it was asked for */
    attune_context *context; /* NULL where it is missing */
    attune_device_info info; /* of an open device */
    char missing[REASON_SIZE];
} device;

/* False, with a reason in `missing`, where it cannot be opened. */
bool device_open(device *d, const char *name, const attune_context_options *options);
void device_close(device *d);

/* Opens the devices of a list with commas, or every device of the machine where it is NULL; returns how many were named. */
int devices_open(device devices[MAX_DEVICES], const char *names);

typedef enum run_result { RUN_DONE, RUN_SKIPPED, RUN_FAILED } run_result;

/* Computes a problem through a plan. Before the run all memory that it writes, and 256 bytes on both sides of every buffer, are UNTOUCHED
 * (NaN), as is the workspace; bases of every other problem are shifted by 0 to 7 elements. Afterwards nothing but o and lse may have changed, and no place
 * between strided elements of o. RUN_SKIPPED where no kernel of the device computes the problem, or none that the options (NULL: the default
 * ones) leave. With RUN_DONE the caller frees `out`; else `why` says what happened. */
run_result device_run(const device *d, const inputs *in, const attune_plan_options *options,
                      outputs *out, char why[REASON_SIZE]);

/* Whether two outputs of one problem are promised to have the same bits: both kernels are reproducible, and on engines that agree with each
 * other. The engines without matrix units do on all devices, a matrix unit (of which a device may have several) does with itself. */
bool must_be_same(const outputs *a, const outputs *b);

/* Up to `limit` kernels that the device can run the problem with under these options, spread evenly over its order of preference, the first of
 * them included; on request only those of the first one's head_dim, because larger ones take long to compile. */
typedef struct kernel_ids {
    char (*at)[128];
    int count;
} kernel_ids;

enum { EVERY_KERNEL = 1024 };

kernel_ids kernels_select(const device *d, const attune_problem *problem,
                          const attune_plan_options *options, int limit, bool one_head_dim);
void kernel_ids_free(kernel_ids *ids);

#endif
