/* An opened device, as the vtable's functions hand it around. */
#ifndef ATTUNE_OPENCL_DEVICE_H
#define ATTUNE_OPENCL_DEVICE_H

#include "device_list.h"
#include "program.h"

typedef struct opencl_device {
    const opencl_entry *entry;
    cl_context context;     /* retained */
    cl_command_queue queue; /* what stream NULL means, in order, retained */
    opencl_programs programs;
    int64_t max_work_items; /* of one launch: longer grids go in several */
} opencl_device;

/* backend.h: open, close. */
attune_status opencl_device_open(int index, const attune_context_options *options, void **opened);
void opencl_device_close(void *opened);

/* The queue that a stream means; INVALID_ARGUMENT for one that executes out of order. */
attune_status opencl_device_queue(const opencl_device *device, attune_stream stream,
                                  cl_command_queue *queue);

/* Waits for all commands of an in-order queue. clFinish of Mesa 22.3's rusticl forgets those that were flushed before. */
cl_int opencl_wait(cl_command_queue queue);

#endif
