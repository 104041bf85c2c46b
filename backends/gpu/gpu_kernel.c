#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* A row as this device runs it; where it cannot be built, why. */
struct gpu_kernel {
    gpu_kernel *next;
    const attune_kernel_row *row;
    void *module, *forward, *pack;
    attune_status status;
    char failure[640]; /* where the status is not OK */
};

__attribute__((format(printf, 3, 4))) static void refuse(gpu_kernel *kernel, attune_status status,
                                                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(kernel->failure, sizeof kernel->failure, format, arguments);
    va_end(arguments);
    kernel->status = status;
}

static void refuse_with_code(gpu_kernel *kernel, const gpu_vendor *vendor, attune_status status,
                             int code, const char *call)
{
    char text[256];
    gpu_code_text(vendor, code, text, sizeof text);
    refuse(kernel, status, "kernel %s: %s returned %s", kernel->row->id, call, text);
}

/* ---- modules ---- */

/* The image of the kernel `id` (NULL: of any) for a class of devices. */
static const gpu_image *find_image(const gpu_vendor *vendor, const char *device_class,
                                   const char *id)
{
    for (const gpu_image *image = vendor->images; image->id != NULL; image++)
        if ((id == NULL || strcmp(image->id, id) == 0) &&
            (image->architecture[0] == '\0' || strcmp(image->architecture, device_class) == 0))
            return image;
    return NULL;
}

bool gpu_has_image(const gpu_vendor *vendor, const char *device_class)
{
    return find_image(vendor, device_class, NULL) != NULL;
}

static void unload(gpu_kernel *kernel, const gpu_device *device)
{
    if (kernel->module != NULL) device->vendor->driver->module_unload(kernel->module);
    kernel->module = NULL;
}

/* The driver's code; GPU_FAULT_IMAGE where another image may do. Drivers that load lazily look at an image's code when a function
 * of it is asked for, so that both belong together. */
static int load_module(gpu_kernel *kernel, const gpu_device *device, const void *image)
{
    const gpu_driver *const driver = device->vendor->driver;
    const attune_kernel_row *const row = kernel->row;
    char pack_name[256];
    snprintf(pack_name, sizeof pack_name, "%s_pack", row->id);
    void *module = NULL;
    int code = driver->module_load(&module, image, 0, NULL, NULL);
    if (code != 0) return code;
    kernel->module = module;
    code = driver->module_function(&kernel->forward, module, row->id);
    if (code == 0 && row->panel != 0)
        code = driver->module_function(&kernel->pack, module, pack_name);
    if (code != 0) unload(kernel, device);
    return code;
}

static bool is_worth_another_try(const gpu_device *device, int code)
{
    return code != 0 && device->vendor->fault(code) == GPU_FAULT_IMAGE;
}

/* Machine code first: it asks nothing of the driver's own compiler. */
static int load_code(gpu_kernel *kernel, const gpu_device *device, gpu_code *code)
{
    int result = -1;
    if (code->image != NULL) {
        result = load_module(kernel, device, code->image);
        if (!is_worth_another_try(device, result) || code->portable == NULL) return result;
        free(code->image);
        code->image = NULL;
    }
    return load_module(kernel, device, code->portable);
}

/* Whether there is more to try. */
static bool build_once(gpu_kernel *kernel, const gpu_device *device, const gpu_compilation *c,
                       bool use_cache)
{
    char reason[512];
    gpu_code code;
    if (!gpu_compile(c, use_cache, &code, reason)) {
        refuse(kernel, ATTUNE_BUILD_FAILED, "kernel %s cannot be compiled: %s", kernel->row->id,
               reason);
        return false;
    }
    const bool cached = code.cached;
    const int result = load_code(kernel, device, &code);
    if (result == 0 && !cached) gpu_code_keep(c, &code);
    gpu_code_free(&code);
    if (cached && is_worth_another_try(device, result)) return true;
    if (result != 0)
        refuse_with_code(kernel, device->vendor, gpu_status(device->vendor, result), result,
                         "loading its code");
    return false;
}

/* A cached file that does not load costs a compilation, no more. */
static void build_module(gpu_kernel *kernel, const gpu_device *device)
{
    char reason[512];
    gpu_compilation c;
    if (!gpu_compilation_open(&c, device, kernel->row, reason))
        refuse(kernel, ATTUNE_BUILD_FAILED, "kernel %s cannot be compiled: %s", kernel->row->id,
               reason);
    else if (build_once(kernel, device, &c, true))
        build_once(kernel, device, &c, false);
    gpu_compilation_close(&c);
}

static void load_or_build(gpu_kernel *kernel, const gpu_device *device)
{
    const gpu_image *const image =
        find_image(device->vendor, device->caps.device_class, kernel->row->id);
    const int code = image != NULL ? load_module(kernel, device, image->data) : 0;
    if (image != NULL && code == 0) return;
    if (image == NULL || is_worth_another_try(device, code))
        build_module(kernel, device);
    else
        refuse_with_code(kernel, device->vendor, gpu_status(device->vendor, code), code,
                         "loading its code");
}

/* ---- functions ---- */

/* Whether the device can run a function as it was built; where not, the kernel is refused. */
static bool fits(gpu_kernel *kernel, const gpu_device *device, void *function)
{
    const gpu_vendor *const vendor = device->vendor;
    const attune_kernel_row *const row = kernel->row;
    int threads = 0, fixed = 0;
    int code = vendor->driver->function_attribute(&threads, vendor->function_attributes.max_threads,
                                                  function);
    if (code == 0)
        code = vendor->driver->function_attribute(&fixed, vendor->function_attributes.static_memory,
                                                  function);
    if (code != 0) {
        refuse_with_code(kernel, vendor, gpu_status(vendor, code), code, "asking what it needs");
        return false;
    }
    if (threads < row->threads) {
        refuse(kernel, ATTUNE_BUILD_FAILED,
               "kernel %s needs blocks of %d threads, and as built it runs in %d at most", row->id,
               row->threads, threads);
        return false;
    }
    if ((size_t)fixed + row->fast_memory > device->caps.fast_memory) {
        refuse(kernel, ATTUNE_BUILD_FAILED,
               "kernel %s needs %zu bytes of shared memory as built, and the device has %zu",
               row->id, (size_t)fixed + row->fast_memory, device->caps.fast_memory);
        return false;
    }
    code = vendor->driver->function_set(function, vendor->function_attributes.dynamic_memory,
                                        (int)row->fast_memory);
    if (code == 0) return true;
    refuse_with_code(kernel, vendor, ATTUNE_BUILD_FAILED, code, "asking for its shared memory");
    return false;
}

/* ---- load ---- */

static void free_kernel(gpu_kernel *kernel, const gpu_device *device)
{
    unload(kernel, device);
    free(kernel);
}

static gpu_kernel *find_kernel(const gpu_device *device, const attune_kernel_row *row)
{
    gpu_kernel *kernel = device->kernels;
    while (kernel != NULL && kernel->row != row) kernel = kernel->next;
    return kernel;
}

/* Loaded or refused; NULL when memory ran out. */
static gpu_kernel *make_kernel(const gpu_device *device, const attune_kernel_row *row)
{
    gpu_kernel *const kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) return NULL;
    kernel->row = row;
    load_or_build(kernel, device);
    if (kernel->status == ATTUNE_OK && fits(kernel, device, kernel->forward) &&
        kernel->pack != NULL)
        fits(kernel, device, kernel->pack);
    return kernel;
}

/* With the mutex held and the context current. A row that cannot be built stays refused; what ails the device may pass. */
static attune_status find_or_load(gpu_device *device, const attune_kernel_row *row, void **loaded)
{
    gpu_kernel *kernel = find_kernel(device, row);
    const bool is_new = kernel == NULL;
    if (is_new) kernel = make_kernel(device, row);
    if (kernel == NULL) return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory to load %s", row->id);
    const attune_status status = kernel->status;
    if (status == ATTUNE_OK)
        *loaded = kernel;
    else
        attune_fail(status, "%s", kernel->failure);
    if (is_new && (status == ATTUNE_OK || status == ATTUNE_BUILD_FAILED)) {
        kernel->next = device->kernels;
        device->kernels = kernel;
    } else if (is_new) {
        free_kernel(kernel, device);
    }
    return status;
}

attune_status gpu_load(void *opened, const attune_kernel_row *row, void **loaded)
{
    gpu_device *const device = opened;
    attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    pthread_mutex_lock(&device->mutex);
    status = find_or_load(device, row, loaded);
    pthread_mutex_unlock(&device->mutex);
    gpu_leave(device);
    return status;
}

/* Other plans, and launches that still run, may use the same kernel: the device keeps it. */
void gpu_unload(void *opened, void *loaded)
{
    (void)opened;
    (void)loaded;
}

void gpu_kernels_free(gpu_device *device, bool context_is_current)
{
    while (device->kernels != NULL) {
        gpu_kernel *const kernel = device->kernels;
        device->kernels = kernel->next;
        if (!context_is_current) kernel->module = NULL; /* ended with its context */
        free_kernel(kernel, device);
    }
}

/* ---- what it takes ---- */

static int function_attribute(const gpu_device *device, const gpu_kernel *kernel, int which)
{
    int value = 0;
    const int code = device->vendor->driver->function_attribute(&value, which, kernel->forward);
    return code == 0 ? value : -1;
}

void gpu_resources(void *opened, void *loaded, attune_kernel_resources *resources)
{
    const gpu_device *const device = opened;
    const gpu_kernel *const kernel = loaded;
    resources->registers = -1;
    resources->spill_bytes = resources->fast_memory = -1;
    if (gpu_enter(device) != ATTUNE_OK) return;
    const int fixed =
        function_attribute(device, kernel, device->vendor->function_attributes.static_memory);
    if (fixed >= 0) resources->fast_memory = fixed + (int64_t)kernel->row->fast_memory;
    resources->registers =
        function_attribute(device, kernel, device->vendor->function_attributes.registers);
    resources->spill_bytes =
        function_attribute(device, kernel, device->vendor->function_attributes.slow_memory);
    gpu_leave(device);
}

/* ---- launch ---- */

/* Enqueues work-groups [0, groups), in as many launches as the device needs. The driver copies the parameters. */
static int launch_grid(const gpu_device *device, void *function, const attune_kernel_row *row,
                       const attune_launch *launch, int64_t groups, void *stream)
{
    attune_forward_args args = *launch->args;
    attune_launch handles = *launch;
    void *parameters[] = {&args,      &handles.q,   &handles.k,        &handles.v,
                          &handles.o, &handles.lse, &handles.workspace};
    int code = 0;
    for (int64_t first = 0; first < groups && code == 0; first += device->caps.max_groups) {
        const int64_t rest = groups - first;
        const int64_t count = rest < device->caps.max_groups ? rest : device->caps.max_groups;
        args.first_group = first;
        code = device->vendor->driver->launch(function, (unsigned)count, 1, 1,
                                              (unsigned)row->threads, 1, 1,
                                              (unsigned)row->fast_memory, stream, parameters, NULL);
    }
    return code;
}

/* The context is current. */
static int launch_both(const gpu_device *device, const gpu_kernel *kernel,
                       const attune_launch *launch, void *stream)
{
    const attune_kernel_row *const row = kernel->row;
    int code = 0;
    if (launch->pack_groups > 0)
        code = launch_grid(device, kernel->pack, row, launch, launch->pack_groups, stream);
    if (code == 0) code = launch_grid(device, kernel->forward, row, launch, launch->groups, stream);
    return code;
}

attune_status gpu_launch(void *opened, void *loaded, const attune_launch *launch,
                         attune_stream stream)
{
    const gpu_device *const device = opened;
    const gpu_kernel *const kernel = loaded;
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    const int code = launch_both(device, kernel, launch, gpu_stream(device, stream));
    gpu_leave(device);
    return code == 0 ? ATTUNE_OK : gpu_fail(device->vendor, code, "its launch", kernel->row->id);
}

static int time_launch(const gpu_device *device, const gpu_kernel *kernel,
                       const attune_launch *launch, void *stream, void *const events[2],
                       float *milliseconds)
{
    const gpu_driver *const driver = device->vendor->driver;
    int code = driver->event_record(events[0], stream);
    if (code == 0) code = launch_both(device, kernel, launch, stream);
    if (code == 0) code = driver->event_record(events[1], stream);
    if (code == 0) code = driver->event_sync(events[1]);
    if (code == 0) code = driver->event_elapsed(milliseconds, events[0], events[1]);
    return code;
}

attune_status gpu_elapsed(void *opened, void *loaded, const attune_launch *launch,
                          attune_stream stream, double *milliseconds)
{
    const gpu_device *const device = opened;
    const gpu_kernel *const kernel = loaded;
    const gpu_driver *const driver = device->vendor->driver;
    void *events[2] = {NULL, NULL};
    float measured = 0.0f;
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    int code = driver->event_create(&events[0], 0);
    if (code == 0) code = driver->event_create(&events[1], 0);
    if (code == 0)
        code = time_launch(device, kernel, launch, gpu_stream(device, stream), events, &measured);
    for (int i = 0; i < 2; i++)
        if (events[i] != NULL) driver->event_destroy(events[i]);
    gpu_leave(device);
    *milliseconds = (double)measured;
    return code == 0 ? ATTUNE_OK
                     : gpu_fail(device->vendor, code, "its timed launch", kernel->row->id);
}
