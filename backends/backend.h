/* Between the dispatcher (src) and whatever runs kernels (backends): one vtable per backend, one row per kernel, one description
 * per device. A backend includes this, kernel_abi.h, the public headers and its own SDK, and nothing of src. */
#ifndef ATTUNE_BACKEND_H
#define ATTUNE_BACKEND_H

#include "attune/attune.h"
#include "attune/device.h"
#include "kernel_abi.h"

#include <stdbool.h>

/* Records one sentence for attune_error_detail() and returns `status`: `return attune_fail(ATTUNE_UNSUPPORTED, "...", ...)`. */
attune_status attune_fail(attune_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What tells most of a compiler's log, on one line: from the first line that speaks of an error, else from the start. */
void attune_log_excerpt(const char *log, char *text, size_t size);

/* Kernels compiled at run time, kept on disk for later processes. `key` is everything that the result depends on (texts, options,
 * architecture, the compiler's version) and ends with NULL. Safe for several processes; whatever is wrong with a file is a miss. The
 * data read is the caller's, to be freed; NULL on a miss. */
void *attune_cache_read(const char *const key[], size_t *bytes);
void attune_cache_write(const char *const key[], const void *data, size_t bytes);

/* ---- kernels (the rows are generated: templates/kernel_table.j2) ---- */

/* A kernel compiled into the library computes one work-group per call; pointers are the handles of attune_launch. */
typedef void attune_group_function(const attune_forward_args *args, const void *q, const void *k,
                                   const void *v, void *o, float *lse, float *workspace,
                                   int64_t group);

typedef struct attune_kernel_row {
    const char *id; /* codegen/names.py prints and parses it */
    attune_op op;   /* matched exactly, like dtype */
    attune_dtype dtype;
    const char *engine;   /* a name of ATTUNE_ENGINES */
    int head_dim;         /* head_dim and head_dim_v of the problem must not exceed it */
    int block_q, block_k; /* rows of queries and keys in one tile */
    int threads;          /* work-items of a group */
    int panel; /* columns of a packed panel (kernel_abi.h), 0: this kernel reads k and v in place */
    size_t fast_memory; /* bytes of local memory that a group declares */
    int reproducible; /* 1: the bits of a row depend on no tile, no other row and no cut of the queries into chunks */
    const char *
        requires_features; /* space-separated words that attune_device_caps.features must hold, "" for none */
    const char *
        subnormals; /* the feature of devices whose unit reads subnormals; others may take them for 0. NULL: all read them */
    /* how it rounds, for attune_plan_arithmetic; the step counts are n_s = ceil(head_dim / qk_step), n_pv = ceil(seqlen_k / pv_step) + key blocks */
    double u_in, u_p, eta_p, u_acc, eps_exp;
    int qk_step, pv_step;
    /* source for a compiler at run time: what attune_kernel_defines makes of `constants`, then `body`, which many rows share; NULL in a
     * dialect that is built ahead of time only */
    const char *
        constants; /* a line NAME VALUE for each, @ in a value is the id; lines that begin with # are as they are */
    const char *body;
    /* entry points where the kernel is compiled into the library, else NULL; `pack` only with panel */
    attune_group_function *forward;
    attune_group_function *pack;
} attune_kernel_row;

/* The constants of a row as #defines, to be freed; NULL without memory. Tables would be twice as large with them. */
char *attune_kernel_defines(const attune_kernel_row *row);

/* A line of backends/<x>/tuned.tsv: on devices of that class, problems with seqlen_q <= max_seqlen_q prefer that kernel, or the next that
 * a line names where the device or the options of a plan refuse it. */
typedef struct attune_tuned_row {
    const char
        *device_class; /* compared with device_class and family of attune_device_caps; "*" is any */
    attune_op op;
    attune_dtype dtype;
    int head_dim;
    int64_t max_seqlen_q;
    const char *kernel;
} attune_tuned_row;

/* Devices whose class begins so have the feature. */
typedef struct attune_class_feature {
    const char *beginning, *feature;
} attune_class_feature;

/* Sorted: rows by (op, dtype, head_dim), then preference; tuned rows by (device_class with "*" last, op, dtype, head_dim, max_seqlen_q), then
 * preference. */
typedef struct attune_kernel_table {
    const attune_kernel_row *rows;
    int row_count;
    const attune_tuned_row *tuned;
    int tuned_count;
    const char *text_hash; /* of the spec and all texts of the target: 16 hexadecimal digits */
    const char *
        compiler; /* of this table, and where kernels are functions of this library, of these too */
    const char *const *device_classes;          /* the target's, then NULL; NULL: any */
    const attune_class_feature *class_features; /* ends with a NULL beginning; NULL: none */
} attune_kernel_table;

/* ---- devices ---- */

typedef struct attune_device_caps {
    attune_device_info info;
    char device_class
        [32]; /* what tuned.tsv keys on: "x86-64-v4", "aarch64", "sm_90", "gfx942"; of opencl kind and vendor, "gpu-intel" */
    char family
        [32]; /* a wider class that holds it, which tuned.tsv may name too: "nvidia", "amd"; of opencl "cpu" or "gpu"; "" for none */
    char compiler
        [128]; /* what made its kernels and with which version, as far as info.driver does not say it; "" where it does */
    bool untimed;       /* its times say nothing about any device, so nothing is tuned by them */
    char features[512]; /* space-separated words for requires_features */
    int max_threads;    /* work-items of a group */
    size_t fast_memory; /* bytes of local memory of a group; SIZE_MAX where it is ordinary memory */
    int64_t max_groups; /* of one launch; longer grids are cut by the backend with first_group */
    /* of a GPU, for models of occupancy; 0 where it is not known */
    int warp;                     /* work-items that run in step */
    int registers;                /* of a multiprocessor, 32 bits each */
    int multiprocessor_threads;   /* work-items that a multiprocessor holds */
    size_t multiprocessor_memory; /* bytes of fast memory that its groups share */
    size_t reserved_memory;       /* bytes of fast memory that the driver keeps of each group */
    size_t l2_cache;              /* bytes */
    int clock_mhz;
} attune_device_caps;

typedef struct attune_launch {
    const attune_forward_args *args;       /* copied before launch returns */
    void *q, *k, *v, *o, *lse, *workspace; /* handles; offsets are in args */
    int64_t pack_groups; /* work-groups of the packing kernel, which runs first; 0 without panels */
    int64_t groups;      /* batch · heads_q · ceil(seqlen_q / block_q) */
} attune_launch;

/* All functions may be called from several threads at once, on one device too. Every one that returns a status has called attune_fail
 * before returning anything but ATTUNE_OK. */
typedef struct attune_backend {
    const char *name; /* first part of a device id */
    const attune_kernel_table *table;

    /* Number of devices; 0 with a one-sentence reason when there is none. Called once per process. */
    int (*count)(char reason[256]);
    /* Caps of device `index`; info.reason is set where it cannot be opened. Needs no open device. */
    void (*caps)(int index, attune_device_caps *caps);
    attune_status (*open)(int index, const attune_context_options *options, void **device);
    void (*close)(void *device);

    /* Makes a kernel ready to launch, compiling where needed. BUILD_FAILED costs this row only. */
    attune_status (*load)(void *device, const attune_kernel_row *row, void **kernel);
    /* Launches that are still running finish as if nothing had happened. */
    void (*unload)(void *device, void *kernel);
    /* Enqueues the packing kernel, if any, and the forward kernel. No allocation, no lock, no synchronisation behind the caller's back. */
    attune_status (*launch)(void *device, void *kernel, const attune_launch *launch,
                            attune_stream stream);

    /* `bytes` is 1 or more. */
    attune_status (*alloc)(void *device, size_t bytes, void **handle);
    void (*free)(void *device, void *handle);
    attune_status (*write)(void *device, attune_buffer to, const void *from, size_t bytes,
                           attune_stream stream);
    attune_status (*read)(void *device, attune_buffer from, void *to, size_t bytes,
                          attune_stream stream);
    attune_status (*sync)(void *device, attune_stream stream);
    /* (optional) Fills registers, spill_bytes and fast_memory of a loaded kernel, each -1 where nobody says. */
    void (*resources)(void *device, void *kernel, attune_kernel_resources *resources);
    /* (optional) launch, wait, and the milliseconds on the device's clock. */
    attune_status (*elapsed)(void *device, void *kernel, const attune_launch *launch,
                             attune_stream stream, double *milliseconds);
} attune_backend;

extern const attune_backend attune_backend_cpu;
extern const attune_backend attune_backend_opencl;
extern const attune_backend attune_backend_cuda;
extern const attune_backend attune_backend_hip;
extern const attune_backend attune_backend_emulated;

#endif
