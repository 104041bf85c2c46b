/* Devices, contexts, buffers and streams, without any vendor's SDK. */
#ifndef ATTUNE_DEVICE_H
#define ATTUNE_DEVICE_H

#include "attune/attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of a device, or of a backend that offers none. Strings end with NUL and are cut to fit. */
typedef struct attune_device_info {
    char id[32]; /* "cpu", "cuda:0", "opencl:0"; of a backend without devices its name, "cuda" */
    char backend[16];      /* "cpu", "cuda", "hip", "opencl" */
    char name[128];        /* the vendor's name of the device */
    char platform[128];    /* OpenCL platform, "CUDA", instruction set of the cpu */
    char driver[64];       /* driver or runtime version */
    char reason[256];      /* "" where the device can be opened, else why not */
    int64_t compute_units; /* cores, multiprocessors */
    int64_t global_memory; /* bytes */
    int64_t fast_memory;   /* bytes of local (shared) memory per work-group */
} attune_device_info;

/* Number of entries that attune_device_get serves: devices, and one entry for each backend without any. The list is made by the
 * first call in a process and then stays; a missing runtime makes it shorter, never an error. */
ATTUNE_API int attune_device_count(void);
ATTUNE_API attune_status attune_device_get(int index, attune_device_info *info);

/* Runs body(first, last, user) over disjoint ranges that cover [0, count), on any threads, and returns when all are done.
 * Results never depend on how the ranges are cut or on which threads run them. */
typedef void attune_range_body(int64_t first, int64_t last, void *user);
typedef void attune_parallel_for(int64_t count, attune_range_body *body, void *user, void *pool);

typedef struct attune_context_options {
    size_t struct_size; /* sizeof(attune_context_options) */
    attune_parallel_for
        *parallel_for; /* cpu, emulated: replaces the library's own (OpenMP); NULL keeps it */
    void *pool;        /* handed to parallel_for */
    int32_t threads;   /* of the library's own parallel_for; 0: OpenMP's default */
    /* An existing context to share. opencl: a cl_context, retained here; NULL: make one. cuda: a CUcontext that outlives this context;
     * NULL: the device's primary context. hip: NULL, for HIP has none. */
    void *native_context;
    /* What stream NULL means. opencl: a cl_command_queue, retained here; NULL: make one. cuda, hip: a CUstream or hipStream_t that outlives
     * this context; NULL: the default stream of CUDA or HIP. */
    void *native_queue;
    /* Database of measurements (tuning.h); NULL: the one of attune_tuning_path; "off": none. Read when the first plan is made. */
    const char *tuning_db;
} attune_context_options;

ATTUNE_API void attune_context_options_init(attune_context_options *options);

/* Opens a device by its id ("cpu", "opencl:0") or by backend and a unique part of its platform or, where no platform has it, of
 * its device name, in any case ("opencl:pocl"). NULL: $ATTUNE_DEVICE, else "cpu". NO_DEVICE with the reason, or with the
 * candidates where a name is ambiguous. `options` may be NULL. No other backend's runtime is started. */
ATTUNE_API attune_status attune_context_open(const char *device,
                                             const attune_context_options *options,
                                             attune_context **context);
/* Waits for what still runs, for its code goes away. Plans must be destroyed before. */
ATTUNE_API void attune_context_close(attune_context *context);

ATTUNE_API attune_status attune_context_device(const attune_context *context,
                                               attune_device_info *info);

/* Device memory of `bytes` bytes (0 gives a buffer that must not be read), aligned to 64 bytes at least. */
ATTUNE_API attune_status attune_buffer_alloc(attune_context *context, size_t bytes,
                                             attune_buffer *buffer);
ATTUNE_API void attune_buffer_free(attune_context *context, attune_buffer *buffer);

/* Copies between host and device memory, in order with the work of this stream only; the host memory may be reused on return. What another
 * stream reads or writes there must be waited for (attune_synchronize). */
ATTUNE_API attune_status attune_buffer_write(attune_context *context, attune_buffer to,
                                             const void *from, size_t bytes, attune_stream stream);
ATTUNE_API attune_status attune_buffer_read(attune_context *context, attune_buffer from, void *to,
                                            size_t bytes, attune_stream stream);

/* Waits for the stream's work and reports what failed in it. */
ATTUNE_API attune_status attune_synchronize(attune_context *context, attune_stream stream);

/* Milliseconds of one run on the device's own clock where it has one, else wall time from launch to completion; waits. */
ATTUNE_API attune_status attune_plan_time(const attune_plan *plan,
                                          const attune_forward_tensors *tensors,
                                          attune_stream stream, double *milliseconds);

/* ---- what kernels take ---- */

/* Of a plan's kernel, as its compiler and the driver say; -1 where nobody says. */
typedef struct attune_kernel_resources {
    int32_t threads;     /* work-items of a group */
    int64_t fast_memory; /* bytes of local (shared) memory of a group */
    int32_t registers;   /* of a work-item, 32 bits each */
    int64_t spill_bytes; /* of a work-item, put away in slow memory */
    /* A model: how many groups a multiprocessor holds at once by its registers, local memory and places for work-items, and how many
     * warps (waves) these are. 0: not even one group fits. */
    int32_t resident_groups, resident_warps;
} attune_kernel_resources;

ATTUNE_API attune_status attune_plan_resources(const attune_plan *plan,
                                               attune_kernel_resources *resources);

#ifdef __cplusplus
}
#endif
#endif
