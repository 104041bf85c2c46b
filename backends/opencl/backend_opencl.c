/* The OpenCL backend: kernels come as source and are compiled by the device's driver. */
#include <stdio.h>
#include <time.h>

#include "backend.h"
#include "opencl_device.h"

/* ---- devices ---- */

static int count_devices(char reason[256])
{
    const char *why;
    const int count = opencl_entry_count(&why);
    snprintf(reason, 256, "%s", why);
    return count;
}

static void device_caps(int index, attune_device_caps *caps)
{
    const opencl_entry *const entry = opencl_entry_get(index);
    *caps = entry != NULL ? entry->caps
                          : (attune_device_caps){.info = {.reason = "no such OpenCL device"}};
}

/* ---- kernels ---- */

static attune_status load_kernel(void *opened, const attune_kernel_row *row, void **loaded)
{
    opencl_device *const device = opened;
    opencl_kernel *kernel = NULL;
    const attune_status status =
        opencl_programs_load(&device->programs, device->context, device->entry, row, &kernel);
    *loaded = kernel;
    return status;
}

/* Other plans may hold the same kernel: the device keeps it. */
static void unload_kernel(void *opened, void *loaded)
{
    (void)opened;
    (void)loaded;
}

/* -1 where the driver does not answer. */
static int64_t kernel_number(const opencl_device *device, cl_kernel kernel, cl_uint property)
{
    cl_ulong value = 0;
    const cl_int code = opencl.GetKernelWorkGroupInfo(kernel, device->entry->id, property,
                                                      sizeof value, &value, NULL);
    return code == CL_SUCCESS && value <= INT64_MAX ? (int64_t)value : -1;
}

/* Private memory of a CPU is its stack, which is nothing slow. */
static void kernel_resources(void *opened, void *loaded, attune_kernel_resources *resources)
{
    const opencl_device *const device = opened;
    const opencl_entry *const entry = device->entry;
    const cl_kernel kernel = ((const opencl_kernel *)loaded)->slots[0].forward;
    resources->registers = -1;
    resources->fast_memory =
        entry->misreports ? -1 : kernel_number(device, kernel, CL_KERNEL_LOCAL_MEM_SIZE);
    resources->spill_bytes = entry->misreports || !entry->is_gpu
                                 ? -1
                                 : kernel_number(device, kernel, CL_KERNEL_PRIVATE_MEM_SIZE);
}

/* The events of the first and the last command of a launch; NULL where nobody asked or nothing was enqueued. */
typedef struct event_span {
    cl_event first, last;
} event_span;

static void span_release(event_span *span)
{
    if (span->last != NULL && span->last != span->first) opencl.ReleaseEvent(span->last);
    if (span->first != NULL) opencl.ReleaseEvent(span->first);
}

static void span_add(event_span *span, cl_event event)
{
    if (span->first == NULL) span->first = event;
    if (span->last != NULL && span->last != span->first) opencl.ReleaseEvent(span->last);
    span->last = event;
}

/* `name` is the kernel's, for a sentence. */
static attune_status set_argument(cl_kernel kernel, const char *name, cl_uint index, size_t size,
                                  const void *value)
{
    const cl_int code = opencl.SetKernelArg(kernel, index, size, value);
    return code == CL_SUCCESS ? ATTUNE_OK : opencl_fail(code, "clSetKernelArg", name);
}

static attune_status set_handles(cl_kernel kernel, const char *name, const attune_launch *launch)
{
    /* in the order of the kernels' parameters, after the struct; a NULL handle makes the parameter a null pointer */
    const void *const handles[] = {&launch->q, &launch->k,   &launch->v,
                                   &launch->o, &launch->lse, &launch->workspace};
    attune_status status = ATTUNE_OK;
    for (cl_uint i = 0; i < sizeof handles / sizeof *handles && status == ATTUNE_OK; i++)
        status = set_argument(kernel, name, i + 1, sizeof(cl_mem), handles[i]);
    return status;
}

/* Enqueues work-groups [0, groups) of a kernel, in as many launches as the device needs. */
static attune_status enqueue_grid(const opencl_device *device, cl_command_queue queue,
                                  cl_kernel kernel, const attune_kernel_row *row,
                                  const attune_launch *launch, int64_t groups, event_span *span)
{
    attune_status status = set_handles(kernel, row->id, launch);
    attune_forward_args args = *launch->args;
    const size_t threads = (size_t)row->threads;
    const int64_t most = device->max_work_items / row->threads;
    for (int64_t first = 0; first < groups && status == ATTUNE_OK; first += most) {
        args.first_group = first;
        status = set_argument(kernel, row->id, 0, sizeof args, &args);
        if (status != ATTUNE_OK) break;

        const int64_t count = groups - first < most ? groups - first : most;
        const size_t global = (size_t)count * threads;
        cl_event event = NULL;
        const cl_int code = opencl.EnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &threads,
                                                        0, NULL, span != NULL ? &event : NULL);
        if (code != CL_SUCCESS) status = opencl_fail(code, "clEnqueueNDRangeKernel", row->id);
        if (event != NULL) span_add(span, event);
    }
    return status;
}

static attune_status enqueue_launch(const opencl_device *device, opencl_kernel *kernel,
                                    const attune_launch *launch, cl_command_queue queue,
                                    event_span *span)
{
    const attune_kernel_row *const row = kernel->row;
    opencl_slot *const slot = opencl_slot_take(kernel);
    attune_status status = ATTUNE_OK;
    if (launch->pack_groups > 0)
        status = enqueue_grid(device, queue, slot->pack, row, launch, launch->pack_groups, span);
    if (status == ATTUNE_OK)
        status = enqueue_grid(device, queue, slot->forward, row, launch, launch->groups, span);
    opencl_slot_give(slot);
    if (status != ATTUNE_OK) return status;

    /* without it a driver may keep the commands to itself until somebody waits */
    const cl_int code = opencl.Flush(queue);
    return code == CL_SUCCESS ? ATTUNE_OK : opencl_fail(code, "clFlush", row->id);
}

static attune_status launch_kernel(void *opened, void *loaded, const attune_launch *launch,
                                   attune_stream stream)
{
    cl_command_queue queue;
    const attune_status status = opencl_device_queue(opened, stream, &queue);
    if (status != ATTUNE_OK) return status;
    return enqueue_launch(opened, loaded, launch, queue, NULL);
}

/* ---- memory ---- */

static attune_status alloc_buffer(void *opened, size_t bytes, void **handle)
{
    const opencl_device *const device = opened;
    if (bytes > device->entry->max_allocation)
        return attune_fail(ATTUNE_OUT_OF_MEMORY,
                           "a buffer of %zu bytes is larger than the %zu that %s allows", bytes,
                           device->entry->max_allocation, device->entry->caps.info.id);
    cl_int code = CL_SUCCESS;
    *handle =
        opencl.CreateBuffer(device->context, CL_MEM_READ_WRITE, bytes > 0 ? bytes : 1, NULL, &code);
    if (*handle != NULL) return ATTUNE_OK;
    if (code == CL_OUT_OF_RESOURCES)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "%s has no room for a buffer of %zu bytes (%s)",
                           device->entry->caps.info.id, bytes, opencl_code_name(code));
    return opencl_fail(code, "clCreateBuffer", device->entry->caps.info.id);
}

static void free_buffer(void *opened, void *handle)
{
    (void)opened;
    if (handle != NULL) opencl.ReleaseMemObject(handle);
}

static attune_status copied(cl_int code, const char *call, attune_buffer buffer, size_t bytes)
{
    if (code == CL_SUCCESS) return ATTUNE_OK;
    if (code == CL_INVALID_VALUE)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "a copy of %zu bytes at offset %zu goes beyond the end of its buffer",
                           bytes, buffer.offset);
    return opencl_fail(code, call, "a copy between host and device");
}

static attune_status write_buffer(void *opened, attune_buffer to, const void *from, size_t bytes,
                                  attune_stream stream)
{
    cl_command_queue queue;
    const attune_status status = opencl_device_queue(opened, stream, &queue);
    if (status != ATTUNE_OK || bytes == 0) return status;
    const cl_int code =
        opencl.EnqueueWriteBuffer(queue, to.handle, 1, to.offset, bytes, from, 0, NULL, NULL);
    return copied(code, "clEnqueueWriteBuffer", to, bytes);
}

static attune_status read_buffer(void *opened, attune_buffer from, void *to, size_t bytes,
                                 attune_stream stream)
{
    cl_command_queue queue;
    const attune_status status = opencl_device_queue(opened, stream, &queue);
    if (status != ATTUNE_OK || bytes == 0) return status;
    const cl_int code =
        opencl.EnqueueReadBuffer(queue, from.handle, 1, from.offset, bytes, to, 0, NULL, NULL);
    return copied(code, "clEnqueueReadBuffer", from, bytes);
}

/* ---- waiting ---- */

static attune_status wait_for(cl_command_queue queue)
{
    const cl_int code = opencl_wait(queue);
    return code == CL_SUCCESS ? ATTUNE_OK
                              : opencl_fail(code, "clWaitForEvents", "the stream's work");
}

static attune_status wait_for_event(cl_event event)
{
    const cl_int code = opencl.WaitForEvents(1, &event);
    return code == CL_SUCCESS ? ATTUNE_OK : opencl_fail(code, "clWaitForEvents", "a timed run");
}

static attune_status synchronize(void *opened, attune_stream stream)
{
    cl_command_queue queue;
    const attune_status status = opencl_device_queue(opened, stream, &queue);
    return status == ATTUNE_OK ? wait_for(queue) : status;
}

static double wall_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* 0 where the queue keeps no times. */
static double device_milliseconds(const event_span *span)
{
    cl_ulong start = 0, end = 0;
    if (span->first == NULL ||
        opencl.GetEventProfilingInfo(span->first, CL_PROFILING_COMMAND_START, sizeof start, &start,
                                     NULL) != CL_SUCCESS ||
        opencl.GetEventProfilingInfo(span->last, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                     NULL) != CL_SUCCESS)
        return 0.0;
    return end > start ? (double)(end - start) * 1e-6 : 0.0;
}

static attune_status elapsed_time(void *opened, void *loaded, const attune_launch *launch,
                                  attune_stream stream, double *milliseconds)
{
    const opencl_device *const device = opened;
    cl_command_queue queue;
    attune_status status = opencl_device_queue(device, stream, &queue);
    if (status == ATTUNE_OK) status = wait_for(queue);
    if (status != ATTUNE_OK) return status;

    event_span span = {0};
    const double start = wall_milliseconds();
    status = enqueue_launch(device, loaded, launch, queue, &span);
    if (status == ATTUNE_OK && span.last != NULL) status = wait_for_event(span.last);
    const double wall = wall_milliseconds() - start;
    const double own = device->entry->misreports ? 0.0 : device_milliseconds(&span);
    span_release(&span);
    *milliseconds = own > 0.0 ? own : wall;
    return status;
}

extern const attune_kernel_table attune_kernel_table_opencl; /* generated */

const attune_backend attune_backend_opencl = {
    .name = "opencl",
    .table = &attune_kernel_table_opencl,
    .count = count_devices,
    .caps = device_caps,
    .open = opencl_device_open,
    .close = opencl_device_close,
    .load = load_kernel,
    .unload = unload_kernel,
    .launch = launch_kernel,
    .alloc = alloc_buffer,
    .free = free_buffer,
    .write = write_buffer,
    .read = read_buffer,
    .sync = synchronize,
    .resources = kernel_resources,
    .elapsed = elapsed_time,
};
