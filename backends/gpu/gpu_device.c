#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"

/* ---- the list ---- */

static int driver_version(const gpu_vendor *vendor)
{
    int version = 0;
    return vendor->driver->driver_version(&version) == 0 ? version : 0;
}

int gpu_count(const gpu_vendor *vendor, char reason[256])
{
    if (!gpu_driver_open(vendor, reason)) return 0;
    const gpu_driver *const driver = vendor->driver;
    char text[160];
    int count = 0, code = driver->init(0);
    if (code == 0) code = driver->device_count(&count);
    if (code != 0) {
        gpu_code_text(vendor, code, text, sizeof text);
        snprintf(reason, 256, "the %s driver does not start: %s", vendor->platform, text);
        return 0;
    }
    if (driver_version(vendor) < vendor->least_driver) {
        snprintf(reason, 256, "the %s driver is of version %d; %d or later is needed",
                 vendor->platform, driver_version(vendor), vendor->least_driver);
        return 0;
    }
    if (count == 0) snprintf(reason, 256, "the %s driver has no device", vendor->platform);
    return count;
}

static int attribute(const gpu_vendor *vendor, int which, int device)
{
    int value = 0;
    if (which == NO_ATTRIBUTE) return 0;
    return vendor->driver->device_attribute(&value, which, device) == 0 ? value : 0;
}

/* Says what makes the device's kernels; where nothing can, why not. */
static void find_compiler(const gpu_vendor *vendor, attune_device_caps *caps)
{
    char why[256];
    int major = 0, minor = 0;
    if (gpu_has_image(vendor, caps->device_class)) {
        snprintf(caps->compiler, sizeof caps->compiler, "%s", vendor->images_compiler);
    } else if (!gpu_compiler_open(vendor, why)) {
        snprintf(caps->info.reason, sizeof caps->info.reason,
                 "this library holds no kernels compiled for it, and %.200s", why);
    } else {
        vendor->compiler->version(&major, &minor);
        snprintf(caps->compiler, sizeof caps->compiler, "%s %d.%d", vendor->run_time_compiler,
                 major, minor);
    }
}

/* Gives the driver's own number of the device too. */
static void find_device(const gpu_vendor *vendor, int index, attune_device_caps *caps, int *device)
{
    const gpu_driver *const driver = vendor->driver;
    attune_device_info *const info = &caps->info;
    *caps = (attune_device_caps){.max_groups = INT32_MAX};
    snprintf(info->id, sizeof info->id, "%s:%d", vendor->backend, index);
    snprintf(info->backend, sizeof info->backend, "%s", vendor->backend);
    snprintf(info->platform, sizeof info->platform, "%s", vendor->platform);
    snprintf(caps->family, sizeof caps->family, "%s", vendor->family);
    const int code = driver->device_get(device, index);
    if (code != 0) {
        char text[160];
        gpu_code_text(vendor, code, text, sizeof text);
        snprintf(info->reason, sizeof info->reason, "the %s driver does not give it: %s",
                 vendor->platform, text);
        return;
    }
    size_t memory = 0;
    driver->device_memory(&memory, *device);
    driver->device_name(info->name, sizeof info->name, *device);
    info->global_memory = (int64_t)memory;
    info->compute_units = attribute(vendor, vendor->attributes.multiprocessors, *device);
    info->fast_memory = attribute(vendor, vendor->attributes.fast_memory, *device);
    caps->max_threads = attribute(vendor, vendor->attributes.max_threads, *device);
    caps->fast_memory = (size_t)info->fast_memory;
    caps->warp = attribute(vendor, vendor->attributes.warp, *device);
    caps->registers = attribute(vendor, vendor->attributes.registers, *device);
    caps->multiprocessor_threads =
        attribute(vendor, vendor->attributes.multiprocessor_threads, *device);
    caps->multiprocessor_memory =
        (size_t)attribute(vendor, vendor->attributes.multiprocessor_memory, *device);
    caps->reserved_memory = (size_t)attribute(vendor, vendor->attributes.reserved_memory, *device);
    caps->l2_cache = (size_t)attribute(vendor, vendor->attributes.l2_cache, *device);
    caps->clock_mhz = attribute(vendor, vendor->attributes.clock_khz, *device) / 1000;
    vendor->describe(*device, driver_version(vendor), caps);
    if (info->reason[0] == '\0') find_compiler(vendor, caps);
}

void gpu_caps(const gpu_vendor *vendor, int index, attune_device_caps *caps)
{
    int device;
    find_device(vendor, index, caps, &device);
}

/* ---- opening ---- */

static attune_status use_context(gpu_device *device, void *context)
{
    const gpu_vendor *const vendor = device->vendor;
    int code, owner = -1;
    if (vendor->driver->context_device == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "native_context must be NULL: %s has devices and no contexts",
                           vendor->platform);
    device->context = context;
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    code = vendor->driver->context_device(&owner);
    gpu_leave(device);
    if (code != 0) return gpu_fail(vendor, code, "the query of its device", "native_context");
    if (owner != device->device)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "native_context belongs to another device than %s",
                           device->caps.info.id);
    return ATTUNE_OK;
}

static attune_status make_context(gpu_device *device)
{
    const int code = device->vendor->driver->context_retain(&device->context, device->device);
    if (code == 0) {
        device->owns_context = true;
        return ATTUNE_OK;
    }
    char text[256];
    gpu_code_text(device->vendor, code, text, sizeof text);
    const attune_status status =
        device->vendor->fault(code) == GPU_FAULT_MEMORY ? ATTUNE_OUT_OF_MEMORY : ATTUNE_NO_DEVICE;
    return attune_fail(status, "%s (%s) cannot be opened: %s", device->caps.info.id,
                       device->caps.info.name, text);
}

attune_status gpu_open(const gpu_vendor *vendor, int index, const attune_context_options *options,
                       void **opened)
{
    gpu_device *const device = calloc(1, sizeof *device);
    if (device == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory to open a device of %s",
                           vendor->backend);
    device->vendor = vendor;
    device->stream = options->native_queue;
    find_device(vendor, index, &device->caps, &device->device);
    pthread_mutex_init(&device->mutex, NULL);
    attune_status status;
    if (device->caps.info.reason[0] != '\0')
        status = attune_fail(ATTUNE_NO_DEVICE, "%s cannot be opened: %s", device->caps.info.id,
                             device->caps.info.reason);
    else if (options->native_context != NULL)
        status = use_context(device, options->native_context);
    else
        status = make_context(device);
    if (status == ATTUNE_OK) {
        *opened = device;
        return ATTUNE_OK;
    }
    pthread_mutex_destroy(&device->mutex);
    free(device);
    return status;
}

/* What still runs finishes first: its code is about to be unloaded. */
void gpu_close(void *opened)
{
    gpu_device *const device = opened;
    if (device == NULL) return;
    const gpu_driver *const driver = device->vendor->driver;
    const bool entered = driver->context_push(device->context) == 0;
    if (entered) driver->context_sync();
    gpu_kernels_free(device, entered);
    if (entered) gpu_leave(device);
    if (device->owns_context) driver->context_release(device->device);
    pthread_mutex_destroy(&device->mutex);
    free(device);
}

attune_status gpu_enter(const gpu_device *device)
{
    const int code = device->vendor->driver->context_push(device->context);
    return code == 0
               ? ATTUNE_OK
               : gpu_fail(device->vendor, code, "making the context current", device->caps.info.id);
}

void gpu_leave(const gpu_device *device)
{
    void *context;
    device->vendor->driver->context_pop(&context);
}

void *gpu_stream(const gpu_device *device, attune_stream stream)
{
    return stream != NULL ? stream : device->stream;
}

/* ---- memory ---- */

attune_status gpu_alloc(void *opened, size_t bytes, void **handle)
{
    const gpu_device *const device = opened;
    const gpu_vendor *const vendor = device->vendor;
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    const int code = vendor->driver->alloc(handle, bytes);
    gpu_leave(device);
    if (code == 0) return ATTUNE_OK;
    *handle = NULL;
    if (vendor->fault(code) == GPU_FAULT_MEMORY)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "%s has no room for a buffer of %zu bytes",
                           device->caps.info.id, bytes);
    return gpu_fail(vendor, code, "the allocation of a buffer", device->caps.info.id);
}

void gpu_free(void *opened, void *handle)
{
    const gpu_device *const device = opened;
    if (gpu_enter(device) != ATTUNE_OK) return;
    device->vendor->driver->free(handle);
    gpu_leave(device);
}

attune_status gpu_write(void *opened, attune_buffer to, const void *from, size_t bytes,
                        attune_stream stream)
{
    const gpu_device *const device = opened;
    const gpu_vendor *const vendor = device->vendor;
    void *const on = gpu_stream(device, stream);
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    int code = vendor->driver->copy_to((char *)to.handle + to.offset, from, bytes, on);
    if (code == 0) code = vendor->driver->stream_sync(on);
    gpu_leave(device);
    return code == 0 ? ATTUNE_OK
                     : gpu_fail(vendor, code, "the copy to a buffer", device->caps.info.id);
}

attune_status gpu_read(void *opened, attune_buffer from, void *to, size_t bytes,
                       attune_stream stream)
{
    const gpu_device *const device = opened;
    const gpu_vendor *const vendor = device->vendor;
    void *const on = gpu_stream(device, stream);
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    int code = vendor->driver->copy_from(to, (char *)from.handle + from.offset, bytes, on);
    if (code == 0) code = vendor->driver->stream_sync(on);
    gpu_leave(device);
    return code == 0 ? ATTUNE_OK
                     : gpu_fail(vendor, code, "the copy from a buffer", device->caps.info.id);
}

attune_status gpu_sync(void *opened, attune_stream stream)
{
    const gpu_device *const device = opened;
    const attune_status status = gpu_enter(device);
    if (status != ATTUNE_OK) return status;
    const int code = device->vendor->driver->stream_sync(gpu_stream(device, stream));
    gpu_leave(device);
    return code == 0 ? ATTUNE_OK
                     : gpu_fail(device->vendor, code, "waiting for a stream", device->caps.info.id);
}
