/* A libOpenCL.so.1 for tests of the backend: every object is counted, nothing is computed. */
#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_loader.h"
#include "kernel_abi.h"

#define EXPORT __attribute__((visibility("default")))

/* The backend's own declarations, so that its signatures are the ones tested here. */
#define PROTOTYPE(type, name, parameters) EXPORT type cl##name parameters;
OPENCL_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

/* ---- control ---- */

enum { MAX_LAUNCHES = 64, FUNCTIONS = 64 };

static struct {
    const char *fault_name;
    int fault_in, fault_code, faulted;
    int live;
    const char *names[FUNCTIONS];
    int calls[FUNCTIONS];
    fake_launch launches[MAX_LAUNCHES];
    int launch_count;
} state;

EXPORT fake_fault_function fake_fault;
EXPORT fake_faulted_function fake_faulted;
EXPORT fake_live_function fake_live;
EXPORT fake_calls_function fake_calls;
EXPORT fake_launches_function fake_launches;

void fake_fault(const char *name, int n, int code)
{
    state.fault_name = name;
    state.fault_in = n;
    state.fault_code = code;
    state.faulted = 0;
}

int fake_faulted(void)
{
    return state.faulted;
}

int fake_live(void)
{
    return state.live;
}

static int *calls_of(const char *name)
{
    int i = 0;
    while (state.names[i] != NULL && strcmp(state.names[i], name) != 0) i++;
    state.names[i] = name;
    return &state.calls[i];
}

int fake_calls(const char *name)
{
    return *calls_of(name);
}

int fake_launches(fake_launch *launches, int size)
{
    const int count = state.launch_count;
    for (int i = 0; i < count && i < size; i++) launches[i] = state.launches[i];
    state.launch_count = 0;
    return count;
}

/* Counts a call of the function `prefixed` ("clFinish") and gives the code it has to fail with. */
static cl_int enter(const char *prefixed)
{
    const char *const name = prefixed + 2;
    ++*calls_of(name);
    if (state.fault_in == 0 || strcmp(state.fault_name, name) != 0 || --state.fault_in > 0)
        return CL_SUCCESS;
    state.faulted = 1;
    return state.fault_code;
}

#define RETURN_FAULT()                                                                             \
    do {                                                                                           \
        const cl_int fault = enter(__func__);                                                      \
        if (fault != CL_SUCCESS) return fault;                                                     \
    } while (0)

/* ---- objects ---- */

typedef struct object {
    int references;
    char text[64];      /* of a kernel: its name */
    char *source;       /* of a program */
    cl_context context; /* of a queue */
    fake_launch next;   /* of a kernel: its arguments */
} object;

static void *make(const char *function, cl_int *code)
{
    *code = enter(function);
    object *const made = *code == CL_SUCCESS ? calloc(1, sizeof *made) : NULL;
    if (made != NULL) {
        made->references = 1;
        state.live++;
    }
    return made;
}

static void need(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fake driver: %s\n", what);
    abort();
}

static cl_int retain(void *of)
{
    object *const it = of;
    need(it != NULL && it->references > 0, "retained what is not alive");
    it->references++;
    state.live++;
    return CL_SUCCESS;
}

static cl_int release(void *of)
{
    object *const it = of;
    need(it != NULL && it->references > 0, "released what is not alive");
    state.live--;
    if (--it->references == 0) {
        free(it->source);
        free(it);
    }
    return CL_SUCCESS;
}

static cl_int answer(const void *value, size_t length, size_t size, void *to, size_t *needed)
{
    if (needed != NULL) *needed = length;
    if (to == NULL) return CL_SUCCESS;
    if (size < length) return CL_INVALID_VALUE;
    memcpy(to, value, length);
    return CL_SUCCESS;
}

/* ---- platforms and devices ---- */

static char platforms[2], devices[FAKE_DEVICES];

cl_int clGetPlatformIDs(cl_uint size, cl_platform_id *ids, cl_uint *count)
{
    RETURN_FAULT();
    if (count != NULL) *count = 2;
    for (cl_uint i = 0; i < size && i < 2; i++) ids[i] = (cl_platform_id)&platforms[i];
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id id, cl_uint what, size_t size, void *to, size_t *needed)
{
    RETURN_FAULT();
    need(id == (cl_platform_id)&platforms[1], "unexpected question");
    const char *const text = what == CL_PLATFORM_NAME ? "Fake platform" : "FKE";
    return answer(text, strlen(text) + 1, size, to, needed);
}

cl_int clGetDeviceIDs(cl_platform_id id, cl_bitfield type, cl_uint size, cl_device_id *ids,
                      cl_uint *count)
{
    RETURN_FAULT();
    need(type == CL_DEVICE_TYPE_ALL, "unexpected device type");
    if (id == (cl_platform_id)&platforms[0]) return CL_DEVICE_NOT_FOUND;
    if (count != NULL) *count = FAKE_DEVICES;
    for (cl_uint i = 0; i < size && i < FAKE_DEVICES; i++) ids[i] = (cl_device_id)&devices[i];
    return CL_SUCCESS;
}

static const char *text_of(ptrdiff_t device, cl_uint what)
{
    const int embedded = device == FAKE_EMBEDDED || device == FAKE_EMBEDDED_WITH_FMA;
    switch (what) {
    case CL_DEVICE_NAME:
        return "  Fake device";
    case CL_DRIVER_VERSION:
        return "1.0";
    case CL_DEVICE_PROFILE:
        return embedded ? "EMBEDDED_PROFILE" : "FULL_PROFILE";
    case CL_DEVICE_OPENCL_C_VERSION:
        return device == FAKE_OPENCL_C_1_1 ? "OpenCL C 1.1 old" : "OpenCL C 1.2 ";
    case CL_DEVICE_EXTENSIONS:
        return device == FAKE_EMBEDDED_WITH_FMA ? "cl_a cles_khr_int64"
                                                : "cl_khr_fp16x cl_khr_fp16";
    default:
        return NULL;
    }
}

static cl_ulong number_of(ptrdiff_t device, cl_uint what)
{
    switch (what) {
    case CL_DEVICE_TYPE:
        return 1 << 2;
    case CL_DEVICE_SINGLE_FP_CONFIG:
        return device == FAKE_EMBEDDED ? CL_FP_DENORM : CL_FP_DENORM | CL_FP_FMA;
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return 0;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return 256;
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return 7;
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return 32768;
    case CL_DEVICE_AVAILABLE:
        return device != FAKE_UNAVAILABLE;
    case CL_DEVICE_COMPILER_AVAILABLE:
        return device != FAKE_WITHOUT_COMPILER;
    case CL_DEVICE_ENDIAN_LITTLE:
        return device != FAKE_BIG_ENDIAN;
    default:
        return 1 << 20;
    }
}

cl_int clGetDeviceInfo(cl_device_id id, cl_uint what, size_t size, void *to, size_t *needed)
{
    RETURN_FAULT();
    const ptrdiff_t device = (char *)id - devices;
    const char *const text = text_of(device, what);
    if (text != NULL) return answer(text, strlen(text) + 1, size, to, needed);
    const cl_ulong number = number_of(device, what);
    return answer(&number, sizeof number, size, to, needed);
}

/* ---- contexts, queues, buffers ---- */

cl_context clCreateContext(const intptr_t *properties, cl_uint count, const cl_device_id *ids,
                           void (*notify)(const char *, const void *, size_t, void *), void *user,
                           cl_int *code)
{
    (void)ids, (void)notify, (void)user;
    need(properties[0] == CL_CONTEXT_PLATFORM && count == 1, "unexpected context");
    return make(__func__, code);
}

cl_int clRetainContext(cl_context context)
{
    RETURN_FAULT();
    return retain(context);
}

cl_int clReleaseContext(cl_context context)
{
    return release(context);
}

cl_int clGetContextInfo(cl_context context, cl_uint what, size_t size, void *to, size_t *needed)
{
    RETURN_FAULT();
    (void)context;
    need(what == CL_CONTEXT_DEVICES, "unexpected question");
    const cl_device_id id = (cl_device_id)&devices[FAKE_GPU];
    return answer(&id, sizeof id, size, to, needed);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id id, cl_bitfield properties,
                                      cl_int *code)
{
    (void)id, (void)properties;
    object *const queue = make(__func__, code);
    if (queue != NULL) queue->context = context;
    return (cl_command_queue)queue;
}

cl_int clRetainCommandQueue(cl_command_queue queue)
{
    RETURN_FAULT();
    return retain(queue);
}

cl_int clReleaseCommandQueue(cl_command_queue queue)
{
    return release(queue);
}

cl_int clGetCommandQueueInfo(cl_command_queue queue, cl_uint what, size_t size, void *to,
                             size_t *needed)
{
    RETURN_FAULT();
    const cl_device_id id = (cl_device_id)&devices[FAKE_GPU];
    const cl_bitfield properties = 0;
    switch (what) {
    case CL_QUEUE_CONTEXT:
        return answer(&((object *)queue)->context, sizeof(cl_context), size, to, needed);
    case CL_QUEUE_DEVICE:
        return answer(&id, sizeof id, size, to, needed);
    default:
        return answer(&properties, sizeof properties, size, to, needed);
    }
}

cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *host, cl_int *code)
{
    (void)context, (void)flags, (void)host;
    need(size > 0, "a buffer of 0 bytes");
    return make(__func__, code);
}

cl_int clReleaseMemObject(cl_mem buffer)
{
    return release(buffer);
}

/* ---- programs and kernels ---- */

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                     const size_t *lengths, cl_int *code)
{
    (void)context;
    need(count == 2 && lengths == NULL, "unexpected source");
    object *const program = make(__func__, code);
    if (program == NULL) return NULL;
    const size_t size = strlen(texts[0]) + strlen(texts[1]) + 1;
    program->source = malloc(size);
    if (program->source != NULL) snprintf(program->source, size, "%s%s", texts[0], texts[1]);
    return (cl_program)program;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *ids,
                      const char *options, void (*notify)(cl_program, void *), void *user)
{
    RETURN_FAULT();
    (void)count, (void)ids, (void)notify, (void)user;
    need(strstr(options, "fast") == NULL && strstr(options, "finite") == NULL, "relaxed build");
    return strstr(((object *)program)->source, "#error") == NULL ? CL_SUCCESS
                                                                 : CL_BUILD_PROGRAM_FAILURE;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id id, cl_uint what, size_t size,
                             void *to, size_t *needed)
{
    RETURN_FAULT();
    (void)program, (void)id, (void)what;
    static const char log[] = "note: nothing\n1:1: error: refused\n\t#error\n\n";
    return answer(log, sizeof log, size, to, needed);
}

cl_int clReleaseProgram(cl_program program)
{
    return release(program);
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    (void)program;
    object *const kernel = make(__func__, code);
    if (kernel == NULL) return NULL;
    snprintf(kernel->text, sizeof kernel->text, "%s", name);
    return (cl_kernel)kernel;
}

cl_int clReleaseKernel(cl_kernel kernel)
{
    return release(kernel);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    RETURN_FAULT();
    fake_launch *const next = &((object *)kernel)->next;
    need(index <= 6, "a kernel has seven parameters");
    if (index == 0)
        next->first_group = ((const attune_forward_args *)value)->first_group;
    else {
        need(size == sizeof(cl_mem), "a handle has the size of a cl_mem");
        memcpy(&next->handles[index - 1], value, sizeof(cl_mem));
    }
    return CL_SUCCESS;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id id, cl_uint what, size_t size,
                                void *to, size_t *needed)
{
    RETURN_FAULT();
    (void)kernel, (void)id;
    const cl_ulong number = what == CL_KERNEL_WORK_GROUP_SIZE ? 128 : 100;
    return answer(&number, sizeof number, size, to, needed);
}

/* ---- commands ---- */

static cl_int record_event(cl_event *event)
{
    cl_int code = CL_SUCCESS;
    if (event != NULL) *event = make("clAnEvent", &code);
    return code;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint waits, const cl_event *wait_list, cl_event *event)
{
    RETURN_FAULT();
    (void)queue, (void)offset, (void)wait_list;
    need(dimensions == 1 && waits == 0 && *global % *local == 0, "unexpected launch");
    fake_launch *const to = &state.launches[state.launch_count % MAX_LAUNCHES];
    *to = ((object *)kernel)->next;
    snprintf(to->kernel, sizeof to->kernel, "%s", ((object *)kernel)->text);
    to->global = *global;
    to->local = *local;
    state.launch_count++;
    return record_event(event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void *from, cl_uint waits, const cl_event *list,
                            cl_event *event)
{
    RETURN_FAULT();
    (void)queue, (void)buffer, (void)offset, (void)size, (void)from, (void)waits, (void)list;
    need(blocking == 1, "the host memory may be reused on return");
    return record_event(event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *to, cl_uint waits, const cl_event *list,
                           cl_event *event)
{
    RETURN_FAULT();
    (void)queue, (void)buffer, (void)offset, (void)size, (void)to, (void)waits, (void)list;
    need(blocking == 1, "the result must be there on return");
    return record_event(event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint waits, const cl_event *list,
                                   cl_event *event)
{
    RETURN_FAULT();
    (void)queue, (void)waits, (void)list;
    return record_event(event);
}

cl_int clWaitForEvents(cl_uint count, const cl_event *events)
{
    RETURN_FAULT();
    (void)count, (void)events;
    return CL_SUCCESS;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_uint what, size_t size, void *to, size_t *needed)
{
    RETURN_FAULT();
    (void)event;
    const cl_ulong nanoseconds = what == CL_PROFILING_COMMAND_START ? 1000000 : 3500000;
    return answer(&nanoseconds, sizeof nanoseconds, size, to, needed);
}

cl_int clReleaseEvent(cl_event event)
{
    return release(event);
}

cl_int clFlush(cl_command_queue queue)
{
    RETURN_FAULT();
    (void)queue;
    return CL_SUCCESS;
}
