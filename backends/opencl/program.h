/* Kernels compiled for one opened device: built once, however many plans load them, and kept until the device is closed. */
#ifndef ATTUNE_OPENCL_PROGRAM_H
#define ATTUNE_OPENCL_PROGRAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"
#include "device_list.h"

/* Launches of one kernel that can set their arguments at the same time; more take turns. */
enum { OPENCL_SLOTS = 4 };

/* OpenCL keeps a kernel's arguments inside its cl_kernel, which is not safe for two threads (specification 1.2, clSetKernelArg), so
 * a launch takes a slot, sets the arguments, enqueues and gives it back. */
typedef struct opencl_slot {
    atomic_flag busy;
    cl_kernel forward;
    cl_kernel pack; /* NULL without panels */
} opencl_slot;

typedef struct opencl_kernel {
    const attune_kernel_row *row;
    struct opencl_kernel *next;
    cl_program program;
    char failure[512]; /* why it cannot be built, "" where it can */
    opencl_slot slots[OPENCL_SLOTS];
} opencl_kernel;

typedef struct opencl_programs {
    pthread_mutex_t mutex;
    opencl_kernel *first;
} opencl_programs;

/* The kernel of a row, built on the first call. Rows and their texts outlive the device. BUILD_FAILED, always with the same sentence,
 * where the driver refuses it or its work-group. */
attune_status opencl_programs_load(opencl_programs *programs, cl_context context,
                                   const opencl_entry *entry, const attune_kernel_row *row,
                                   opencl_kernel **kernel);
void opencl_programs_free(opencl_programs *programs);

/* Waits for a slot no longer than other launches need to set their arguments. */
opencl_slot *opencl_slot_take(opencl_kernel *kernel);
void opencl_slot_give(opencl_slot *slot);

#endif
