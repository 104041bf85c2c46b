/* Every device of every OpenCL platform of this machine, found once per process. */
#ifndef ATTUNE_OPENCL_DEVICE_LIST_H
#define ATTUNE_OPENCL_DEVICE_LIST_H

#include "backend.h"
#include "cl_loader.h"

/* Work-items of one launch: some drivers count them in 32 bits with a sign. */
#define OPENCL_MAX_WORK_ITEMS INT32_MAX

typedef struct opencl_entry {
    cl_platform_id platform;
    cl_device_id id;
    attune_device_caps caps;
    size_t max_allocation; /* bytes of one buffer */
    int is_gpu;            /* by its type, whatever the kernels that suit it */
    int misreports;        /* its driver answers wrongly what a kernel needs and how long it ran */
} opencl_entry;

/* Number of devices; where it is 0, *reason says why in one sentence. */
int opencl_entry_count(const char **reason);

/* NULL for an index that no device has. */
const opencl_entry *opencl_entry_get(int index);

#endif
