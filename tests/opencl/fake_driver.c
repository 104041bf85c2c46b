/* A libOpenCL.so.1 for tests of the backend: every object is counted, nothing is computed. */
#include "fake_internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_abi.h"

/* ---- control ---- */

enum { MAX_LAUNCHES = 64, FUNCTIONS = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of state, but for live */

static struct {
    const char *fault_name;
    int fault_in, fault_code, faulted;
    atomic_int live;
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

cl_int enter(const char *prefixed)
{
    const char *const name = prefixed + 2;
    pthread_mutex_lock(&mutex);
    ++*calls_of(name);
    const int now =
        state.fault_in > 0 && strcmp(state.fault_name, name) == 0 && --state.fault_in == 0;
    state.faulted |= now;
    pthread_mutex_unlock(&mutex);
    return now ? state.fault_code : CL_SUCCESS;
}

/* ---- objects ---- */

typedef struct object {
    atomic_int references;
    char text[64];      /* of a kernel: its name */
    char *source;       /* of a program */
    cl_context context; /* of a queue */
    fake_launch next;   /* of a kernel: its arguments */
    _Atomic uintptr_t
        setter; /* of a kernel: the thread that sets its arguments, until it enqueues */
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

void need(int condition, const char *what)
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

cl_int answer(const void *value, size_t length, size_t size, void *to, size_t *needed)
{
    if (needed != NULL) *needed = length;
    if (to == NULL) return CL_SUCCESS;
    if (size < length) return CL_INVALID_VALUE;
    memcpy(to, value, length);
    return CL_SUCCESS;
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
    const cl_device_id id = fake_device(FAKE_GPU);
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
    const cl_device_id id = fake_device(FAKE_GPU);
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
    const uintptr_t self = (uintptr_t)pthread_self();
    uintptr_t setter = 0;
    if (!atomic_compare_exchange_strong(&((object *)kernel)->setter, &setter, self))
        need(setter == self, "two threads set the arguments of one kernel");
    sched_yield(); /* give the other one a chance */
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
    const cl_ulong number = what == CL_KERNEL_WORK_GROUP_SIZE    ? 128
                            : what == CL_KERNEL_PRIVATE_MEM_SIZE ? 48
                                                                 : 100;
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
    atomic_store(&((object *)kernel)->setter, 0);
    pthread_mutex_lock(&mutex);
    fake_launch *const to = &state.launches[state.launch_count % MAX_LAUNCHES];
    *to = ((object *)kernel)->next;
    snprintf(to->kernel, sizeof to->kernel, "%s", ((object *)kernel)->text);
    to->global = *global;
    to->local = *local;
    state.launch_count++;
    pthread_mutex_unlock(&mutex);
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
