/* What backends cuda and hip share. The two drivers offer one set of functions under other names and numbers; a vendor (backends/cuda,
 * backends/hip) fills in a gpu_vendor, and everything else is here: the list of devices, contexts, memory, modules compiled ahead of
 * time or at run time, launches. No SDK header is needed: handles are pointers, codes and attributes are ints. */
#ifndef ATTUNE_GPU_H
#define ATTUNE_GPU_H

#include <pthread.h>
#include <stdbool.h>

#include "backend.h"

/* ---- what a vendor's driver offers ---- */

/* In the order of the driver's own parameters; device pointers, streams, modules, functions and events are void *. All return the
 * driver's code, 0 for success. */
typedef struct gpu_driver {
    int (*init)(unsigned flags);
    int (*driver_version)(int *version);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int index);
    int (*device_name)(char *name, int size, int device);
    int (*device_memory)(size_t *bytes, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*error_name)(int code, const char **name);
    int (*error_text)(int code, const char **text);

    int (*context_retain)(void **context, int device); /* the device's primary context */
    int (*context_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*context_device)(
        int *device); /* of the current context; NULL where a program has none to hand in */
    int (*context_sync)(void);

    int (*module_load)(void **module, const void *image, unsigned count, int *options,
                       void **values);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*function_attribute)(int *value, int attribute, void *function);
    int (*function_set)(void *function, int attribute, int value);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                  void *stream, void **parameters, void **extra);

    int (*alloc)(void **pointer, size_t bytes);
    int (*free)(void *pointer);
    int (*copy_to)(void *to, const void *from, size_t bytes, void *stream);
    int (*copy_from)(void *to, void *from, size_t bytes, void *stream);
    int (*stream_sync)(void *stream);

    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_sync)(void *event);
    int (*event_elapsed)(float *milliseconds, void *start, void *end);
} gpu_driver;

/* The run-time compiler's library: NVRTC and hipRTC differ in names alone. */
typedef struct gpu_compiler {
    bool opened;
    int (*version)(int *major, int *minor);
    int (*create)(void **program, const char *source, const char *name, int headers,
                  const char *const *header_texts, const char *const *header_names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*destroy)(void **program);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *text);
    /* machine code for the architecture that was asked for */
    int (*code_size)(void *program, size_t *bytes);
    int (*code)(void *program, char *image);
    /* what the driver compiles itself; NULL where there is none */
    int (*portable_size)(void *program, size_t *bytes);
    int (*portable)(void *program, char *image);
    const char *(*error_text)(int code);
    /* what it can compile for, as 10 · major + minor; NULL where nobody can ask */
    int (*architecture_count)(int *count);
    int (*architectures)(int *architectures);
} gpu_compiler;

/* A function's name in a library, and its place in gpu_driver or gpu_compiler, or in the vendor's struct that begins with one. */
typedef struct gpu_symbol {
    const char *name;
    size_t place;
    bool optional; /* NULL where the library has none */
} gpu_symbol;

/* What a driver's code means for Attune. */
typedef enum gpu_fault {
    GPU_FAULT_OTHER,
    GPU_FAULT_MEMORY, /* none left */
    GPU_FAULT_HANDLE, /* a context, stream or pointer that is none */
    GPU_FAULT_IMAGE   /* a module that does not suit the device or the driver */
} gpu_fault;

/* An entry of gpu_vendor.images: the kernel `id` compiled ahead of time, in the vendor's own container. */
typedef struct gpu_image {
    const char *id;
    const char *architecture; /* that it runs on; "" where the container chooses by itself */
    const void *data;
} gpu_image;

enum { NO_ATTRIBUTE = -1 };

typedef struct gpu_vendor {
    const char *backend;  /* "cuda" */
    const char *platform; /* "CUDA" */
    const char *family;   /* "nvidia" */
    const char *const *driver_libraries,
        *const *compiler_libraries;                      /* tried in this order, end with NULL */
    const gpu_symbol *driver_symbols, *compiler_symbols; /* end with a NULL name */
    const gpu_image *images;                             /* ends with a NULL id */
    const char *images_compiler;        /* name and version of what compiled them; "" without any */
    const char *run_time_compiler;      /* name of what compiles at run time: "NVRTC" */
    const char *const *compile_options; /* beside the architecture's, ends with NULL */
    int least_driver;                   /* version that driver_version gives */
    struct {
        int max_threads, multiprocessors, fast_memory, registers, multiprocessor_memory, l2_cache;
        int clock_khz, warp, multiprocessor_threads;
        int reserved_memory; /* NO_ATTRIBUTE: none is reserved */
    } attributes;            /* of devices */
    struct {
        int max_threads, static_memory, dynamic_memory, registers, slow_memory;
    } function_attributes;

    gpu_fault (*fault)(int code);
    /* Fills device_class, features and info.driver of a device's caps, and info.reason where kernels can never run on it. The rest is
     * filled, max_groups with INT32_MAX. */
    void (*describe)(int device, int driver_version, attune_device_caps *caps);
    /* The compiler's option for a device of that class. */
    void (*architecture_option)(const char *device_class, char option[64]);

    /* where the functions of its libraries go when they are opened */
    gpu_driver *driver;
    gpu_compiler *compiler;
} gpu_vendor;

/* ---- libraries and errors (gpu_driver.c) ---- */

/* Opens the driver; false with a one-sentence reason. Called once, by gpu_count. */
bool gpu_driver_open(const gpu_vendor *vendor, char reason[256]);

/* Opens the run-time compiler, once for all threads; false with a clause that says why it cannot. */
bool gpu_compiler_open(const gpu_vendor *vendor, char reason[256]);

/* What a driver's code other than 0 means to the caller. */
attune_status gpu_status(const gpu_vendor *vendor, int code);

/* Records "WHAT: CALL returned NAME (meaning)" and returns the status that the code means. */
attune_status gpu_fail(const gpu_vendor *vendor, int code, const char *call, const char *what);

/* The code's name and meaning as the driver puts them. */
void gpu_code_text(const gpu_vendor *vendor, int code, char *text, size_t size);

/* ---- devices (gpu_device.c) ---- */

typedef struct gpu_kernel gpu_kernel;

typedef struct gpu_device {
    const gpu_vendor *vendor;
    int device;
    attune_device_caps caps;
    void *context;
    bool owns_context; /* retained here */
    void *stream;      /* what stream NULL means; NULL: the driver's default stream */
    pthread_mutex_t mutex;
    gpu_kernel *kernels; /* loaded so far, or refused; under the mutex */
} gpu_device;

int gpu_count(const gpu_vendor *vendor, char reason[256]);
void gpu_caps(const gpu_vendor *vendor, int index, attune_device_caps *caps);
attune_status gpu_open(const gpu_vendor *vendor, int index, const attune_context_options *options,
                       void **device);

/* The device's context becomes current until gpu_leave; what was current before stays below it. */
attune_status gpu_enter(const gpu_device *device);
void gpu_leave(const gpu_device *device);
void *gpu_stream(const gpu_device *device, attune_stream stream);

/* backend.h, under the same names */
void gpu_close(void *device);
attune_status gpu_alloc(void *device, size_t bytes, void **handle);
void gpu_free(void *device, void *handle);
attune_status gpu_write(void *device, attune_buffer to, const void *from, size_t bytes,
                        attune_stream stream);
attune_status gpu_read(void *device, attune_buffer from, void *to, size_t bytes,
                       attune_stream stream);
attune_status gpu_sync(void *device, attune_stream stream);

/* ---- kernels (gpu_kernel.c) ---- */

/* Whether any kernel is compiled ahead of time for devices of that class. */
bool gpu_has_image(const gpu_vendor *vendor, const char *device_class);

attune_status gpu_load(void *device, const attune_kernel_row *row, void **kernel);
void gpu_unload(void *device, void *kernel);
attune_status gpu_launch(void *device, void *kernel, const attune_launch *launch,
                         attune_stream stream);
void gpu_resources(void *device, void *kernel, attune_kernel_resources *resources);
attune_status gpu_elapsed(void *device, void *kernel, const attune_launch *launch,
                          attune_stream stream, double *milliseconds);
/* Unloads all of the device's modules, or, where its context cannot be made current any more, forgets them. */
void gpu_kernels_free(gpu_device *device, bool context_is_current);

/* Defines attune_backend_NAME, of a gpu_vendor and of the generated table of that name. */
#define GPU_BACKEND(name_, vendor)                                                                 \
    static int gpu_count_##name_(char reason[256])                                                 \
    {                                                                                              \
        return gpu_count(&(vendor), reason);                                                       \
    }                                                                                              \
    static void gpu_caps_##name_(int index, attune_device_caps *caps)                              \
    {                                                                                              \
        gpu_caps(&(vendor), index, caps);                                                          \
    }                                                                                              \
    static attune_status gpu_open_##name_(int index, const attune_context_options *options,        \
                                          void **device)                                           \
    {                                                                                              \
        return gpu_open(&(vendor), index, options, device);                                        \
    }                                                                                              \
    const attune_backend attune_backend_##name_ = {                                                \
        .name = #name_,                                                                            \
        .table = &attune_kernel_table_##name_,                                                     \
        .count = gpu_count_##name_,                                                                \
        .caps = gpu_caps_##name_,                                                                  \
        .open = gpu_open_##name_,                                                                  \
        .close = gpu_close,                                                                        \
        .load = gpu_load,                                                                          \
        .unload = gpu_unload,                                                                      \
        .launch = gpu_launch,                                                                      \
        .alloc = gpu_alloc,                                                                        \
        .free = gpu_free,                                                                          \
        .write = gpu_write,                                                                        \
        .read = gpu_read,                                                                          \
        .sync = gpu_sync,                                                                          \
        .resources = gpu_resources,                                                                \
        .elapsed = gpu_elapsed,                                                                    \
    }

/* ---- compiling at run time (gpu_compile.c) ---- */

/* A row's text and all else that its code depends on. */
enum { GPU_MAX_OPTIONS = 8 };
typedef struct gpu_compilation {
    const gpu_compiler *compiler;
    const attune_kernel_row *row;
    char *source;
    char architecture[64], version[32];
    const char *options[GPU_MAX_OPTIONS];
    int option_count;
    const char *key[GPU_MAX_OPTIONS + 4]; /* of the disk cache, ends with NULL */
} gpu_compilation;

/* For the device's architecture; false with a sentence. To be closed in either case, and not moved before. */
bool gpu_compilation_open(gpu_compilation *c, const gpu_device *device,
                          const attune_kernel_row *row, char reason[512]);
void gpu_compilation_close(gpu_compilation *c);

/* Machine code, and (portable) what the driver can compile itself; either may be NULL. From the disk cache, else from the compiler. */
typedef struct gpu_code {
    void *image, *portable;
    size_t image_size, portable_size;
    bool cached;
} gpu_code;

/* False with a sentence. */
bool gpu_compile(const gpu_compilation *c, bool use_cache, gpu_code *code, char reason[512]);
/* Keeps what has been loaded for the next process. */
void gpu_code_keep(const gpu_compilation *c, const gpu_code *code);
void gpu_code_free(gpu_code *code);

#endif
