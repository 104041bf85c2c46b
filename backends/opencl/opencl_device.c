#include "opencl_device.h"

#include <stdlib.h>

/* ---- queues ---- */

/* Runs and copies rely on the order in which they were enqueued, and without it would be wrong now and then. */
static attune_status check_queue(cl_command_queue queue)
{
    cl_bitfield properties = 0;
    const cl_int code = opencl.GetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties,
                                                   &properties, NULL);
    if (code != CL_SUCCESS)
        return opencl_fail(code, "clGetCommandQueueInfo", "the caller's command queue");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "a queue that executes out of order cannot be used, only one in order");
    return ATTUNE_OK;
}

attune_status opencl_device_queue(const opencl_device *device, attune_stream stream,
                                  cl_command_queue *queue)
{
    *queue = stream != NULL ? stream : device->queue;
    return stream != NULL ? check_queue(*queue) : ATTUNE_OK;
}

cl_int opencl_wait(cl_command_queue queue)
{
    cl_event end = NULL;
    cl_int code = opencl.EnqueueMarkerWithWaitList(queue, 0, NULL, &end);
    if (code == CL_SUCCESS) code = opencl.WaitForEvents(1, &end);
    if (end != NULL) opencl.ReleaseEvent(end);
    return code;
}

/* ---- opening ---- */

static attune_status use_queue(opencl_device *device, cl_command_queue queue)
{
    cl_device_id id = NULL;
    cl_context context = NULL;
    const attune_status status = check_queue(queue);
    if (status != ATTUNE_OK) return status;
    opencl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    opencl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (id != device->entry->id)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "native_queue belongs to another device than %s",
                           device->entry->caps.info.id);
    if (context != device->context)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "native_queue belongs to another context than native_context");
    const cl_int code = opencl.RetainCommandQueue(queue);
    if (code != CL_SUCCESS) return opencl_fail(code, "clRetainCommandQueue", "native_queue");
    device->queue = queue;
    return ATTUNE_OK;
}

static attune_status make_queue(opencl_device *device)
{
    cl_int code = CL_SUCCESS;
    device->queue = opencl.CreateCommandQueue(device->context, device->entry->id,
                                              CL_QUEUE_PROFILING_ENABLE, &code);
    return device->queue != NULL
               ? ATTUNE_OK
               : opencl_fail(code, "clCreateCommandQueue", device->entry->caps.info.name);
}

static int context_has(cl_context context, cl_device_id id)
{
    cl_device_id ids[64];
    size_t size = 0;
    if (opencl.GetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, &size) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < size / sizeof *ids; i++)
        if (ids[i] == id) return 1;
    return 0;
}

static attune_status use_context(opencl_device *device, cl_context context)
{
    if (!context_has(context, device->entry->id))
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "native_context does not hold device %s (%s)",
                           device->entry->caps.info.id, device->entry->caps.info.name);
    const cl_int code = opencl.RetainContext(context);
    if (code != CL_SUCCESS) return opencl_fail(code, "clRetainContext", "native_context");
    device->context = context;
    return ATTUNE_OK;
}

static attune_status make_context(opencl_device *device)
{
    const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)device->entry->platform, 0};
    cl_int code = CL_SUCCESS;
    device->context = opencl.CreateContext(properties, 1, &device->entry->id, NULL, NULL, &code);
    return device->context != NULL
               ? ATTUNE_OK
               : opencl_fail(code, "clCreateContext", device->entry->caps.info.name);
}

void opencl_device_close(void *opened)
{
    opencl_device *const device = opened;
    if (device == NULL) return;
    if (device->queue != NULL) opencl_wait(device->queue);
    opencl_programs_free(&device->programs);
    if (device->queue != NULL) opencl.ReleaseCommandQueue(device->queue);
    if (device->context != NULL) opencl.ReleaseContext(device->context);
    pthread_mutex_destroy(&device->programs.mutex);
    free(device);
}

/* A queue without a context brings its own. */
static attune_status fill_device(opencl_device *device, const attune_context_options *options)
{
    const cl_command_queue queue = options != NULL ? options->native_queue : NULL;
    cl_context context = options != NULL ? options->native_context : NULL;
    if (context == NULL && queue != NULL) {
        const cl_int code =
            opencl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
        if (code != CL_SUCCESS) return opencl_fail(code, "clGetCommandQueueInfo", "native_queue");
    }
    const attune_status status =
        context != NULL ? use_context(device, context) : make_context(device);
    if (status != ATTUNE_OK) return status;
    return queue != NULL ? use_queue(device, queue) : make_queue(device);
}

attune_status opencl_device_open(int index, const attune_context_options *options, void **opened)
{
    const opencl_entry *const entry = opencl_entry_get(index);
    if (entry == NULL)
        return attune_fail(ATTUNE_NO_DEVICE, "there is no OpenCL device number %d", index);
    if (entry->caps.info.reason[0] != '\0')
        return attune_fail(ATTUNE_NO_DEVICE, "%s (%s) cannot be used: %s", entry->caps.info.id,
                           entry->caps.info.name, entry->caps.info.reason);
    opencl_device *const device = calloc(1, sizeof *device);
    if (device == NULL) return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory to open a device");
    device->entry = entry;
    device->max_work_items = OPENCL_MAX_WORK_ITEMS;
    pthread_mutex_init(&device->programs.mutex, NULL);

    const attune_status status = fill_device(device, options);
    if (status != ATTUNE_OK) {
        opencl_device_close(device);
        return status;
    }
    *opened = device;
    return ATTUNE_OK;
}
