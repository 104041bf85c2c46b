/* The backend against a driver that fails where it is told to: white box, run with tests/opencl/fake_driver.c as libOpenCL.so.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "fake_driver.h"
#include "opencl_device.h"
#include "rows.h"

static const attune_backend *const backend = &attune_backend_opencl;

static struct {
    fake_fault_function *fault;
    fake_faulted_function *faulted;
    fake_live_function *live;
    fake_calls_function *calls;
    fake_launches_function *launches;
} fake;

static int find_fake(void **state)
{
    (void)state;
    void *const library = dlopen("libOpenCL.so.1", RTLD_NOW);
#define FIND(name)                                                                                 \
    do {                                                                                           \
        void *const symbol = library != NULL ? dlsym(library, "fake_" #name) : NULL;               \
        if (symbol == NULL) return -1;                                                             \
        memcpy(&fake.name, &symbol, sizeof symbol);                                                \
    } while (0)
    FIND(fault);
    FIND(faulted);
    FIND(live);
    FIND(calls);
    FIND(launches);
#undef FIND
    fake.fault("", 0, 0);
    char reason[256];
    return backend->count(reason) == FAKE_DEVICES ? 0 : -1;
}

static void caps_say_what_the_driver_says(void **state)
{
    (void)state;
    attune_device_caps caps;
    backend->caps(FAKE_GPU, &caps);
    assert_string_equal(caps.info.id, "opencl:0");
    assert_string_equal(caps.info.backend, "opencl");
    assert_string_equal(caps.info.platform, "Fake platform (FKE)");
    assert_string_equal(caps.info.name, "Fake device");
    assert_string_equal(caps.info.driver, "1.0");
    assert_string_equal(caps.info.reason, "");
    assert_string_equal(caps.compiler, ""); /* the driver's version says it */
    assert_false(caps.untimed);
    assert_string_equal(caps.features, "int64 fma denormals fp16");
    assert_int_equal(caps.info.compute_units, 7);
    assert_int_equal(caps.max_threads, 256);
    assert_int_equal(caps.fast_memory, 32768);

    backend->caps(FAKE_EMBEDDED_WITH_FMA, &caps);
    assert_string_equal(caps.features, "int64 fma denormals");
}

/* By the vendor's number, else by the first word of its name. */
static void a_class_is_kind_and_vendor(void **state)
{
    (void)state;
    static const struct {
        int device;
        const char *family, *device_class;
    } cases[] = {{FAKE_GPU, "gpu", "gpu-amd"},
                 {FAKE_BIG_ENDIAN, "cpu", "cpu-intel"},
                 {FAKE_EMBEDDED_WITH_FMA, "gpu", "gpu-3drlabs"},
                 {FAKE_UNAVAILABLE, "gpu", "gpu-somebody"},
                 {FAKE_WITHOUT_COMPILER, "gpu", "gpu-unknown"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attune_device_caps caps;
        backend->caps(cases[i].device, &caps);
        assert_string_equal(caps.family, cases[i].family);
        assert_string_equal(caps.device_class, cases[i].device_class);
    }
}

static void unfit_devices_have_reasons(void **state)
{
    (void)state;
    static const char *const words[FAKE_DEVICES] = {
        [FAKE_UNAVAILABLE] = "unavailable", [FAKE_WITHOUT_COMPILER] = "compiler",
        [FAKE_BIG_ENDIAN] = "endian",       [FAKE_OPENCL_C_1_1] = "OpenCL C 1.1",
        [FAKE_EMBEDDED] = "embedded",
    };
    for (int i = 0; i < FAKE_DEVICES; i++) {
        attune_device_caps caps;
        backend->caps(i, &caps);
        if (words[i] == NULL) {
            assert_string_equal(caps.info.reason, "");
            continue;
        }
        assert_non_null(strstr(caps.info.reason, words[i]));
        void *device = NULL;
        assert_int_equal(backend->open(i, NULL, &device), ATTUNE_NO_DEVICE);
        assert_non_null(strstr(attune_error_detail(), words[i]));
    }
    void *device = NULL;
    assert_int_equal(backend->open(FAKE_DEVICES, NULL, &device), ATTUNE_NO_DEVICE);
    assert_int_equal(backend->open(-1, NULL, &device), ATTUNE_NO_DEVICE);
}

/* Everything that a program does with a device. The first status that is not OK. */
static attune_status walk(void)
{
    void *device = NULL, *kernel = NULL, *buffer = NULL;
    const attune_forward_args args = {0};
    float host[4] = {0};
    double milliseconds = 0;
    attune_status status = backend->open(FAKE_GPU, NULL, &device);
    if (status != ATTUNE_OK) return status;
    status = backend->load(device, &row_packed, &kernel);
    if (status == ATTUNE_OK) status = backend->alloc(device, 16, &buffer);
    const attune_buffer place = {.handle = buffer};
    const attune_launch launch = {.args = &args, .q = buffer, .pack_groups = 2, .groups = 3};
    if (status == ATTUNE_OK) status = backend->write(device, place, host, sizeof host, NULL);
    if (status == ATTUNE_OK) status = backend->launch(device, kernel, &launch, NULL);
    if (status == ATTUNE_OK) status = backend->sync(device, NULL);
    if (status == ATTUNE_OK)
        status = backend->elapsed(device, kernel, &launch, NULL, &milliseconds);
    if (status == ATTUNE_OK) assert_true(milliseconds > 0.0);
    if (status == ATTUNE_OK) status = backend->read(device, place, host, sizeof host, NULL);
    backend->free(device, buffer);
    if (kernel != NULL) backend->unload(device, kernel);
    backend->close(device);
    return status;
}

static void a_whole_walk_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(walk(), ATTUNE_OK);
        assert_int_equal(fake.live(), 0);
    }
}

/* Every call of every function fails once, with every code that a lost device gives. */
static void every_failure_is_a_status(void **state)
{
    (void)state;
    static const char *const functions[] = {
        "CreateContext",          "CreateCommandQueue",
        "CreateBuffer",           "CreateKernel",
        "BuildProgram",           "CreateProgramWithSource",
        "SetKernelArg",           "EnqueueNDRangeKernel",
        "GetKernelWorkGroupInfo", "EnqueueWriteBuffer",
        "EnqueueReadBuffer",      "EnqueueMarkerWithWaitList",
        "WaitForEvents",          "Flush",
    };
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
                                   CL_DEVICE_NOT_AVAILABLE, -9999};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
            for (int n = 1;; n++) {
                fake.fault(functions[f], n, codes[c]);
                const attune_status status = walk();
                assert_int_equal(fake.live(), 0);
                if (!fake.faulted()) {
                    assert_int_equal(status, ATTUNE_OK);
                    assert_true(n > 1);
                    break;
                }
                /* the last marker is that of close, which has nobody to tell; a local memory that nobody knows is no failure */
                const int untold = strcmp(functions[f], "EnqueueMarkerWithWaitList") == 0 ||
                                   strcmp(functions[f], "WaitForEvents") == 0 ||
                                   strcmp(functions[f], "GetKernelWorkGroupInfo") == 0;
                if (status == ATTUNE_OK && untold) continue;
                assert_int_not_equal(status, ATTUNE_OK);
                assert_non_null(strstr(attune_error_detail(), opencl_code_name(codes[c])));
            }
    fake.fault("", 0, 0);
}

static void times_come_from_the_device_or_the_wall(void **state)
{
    (void)state;
    void *device = NULL, *kernel = NULL;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 3};
    double milliseconds = 0;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->elapsed(device, kernel, &launch, NULL, &milliseconds), ATTUNE_OK);
    assert_true(milliseconds == 2.5);
    fake.fault("GetEventProfilingInfo", 1, CL_PROFILING_INFO_NOT_AVAILABLE);
    assert_int_equal(backend->elapsed(device, kernel, &launch, NULL, &milliseconds), ATTUNE_OK);
    assert_true(milliseconds > 0.0 && milliseconds != 2.5);
    backend->close(device);
    assert_int_equal(fake.live(), 0);
}

static void a_kernel_is_built_once(void **state)
{
    (void)state;
    void *device = NULL, *first = NULL, *second = NULL;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    const int before = fake.calls("BuildProgram");
    assert_int_equal(backend->load(device, &row_plain, &first), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row_plain, &second), ATTUNE_OK);
    assert_ptr_equal(first, second);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(backend->load(device, &row_broken, &second), ATTUNE_BUILD_FAILED);
        assert_non_null(strstr(attune_error_detail(), "broken"));
        assert_non_null(strstr(attune_error_detail(), "1:1: error: refused"));
        assert_null(strstr(attune_error_detail(), "note"));
        assert_null(strstr(attune_error_detail(), "\n"));
    }
    assert_int_equal(fake.calls("BuildProgram"), before + 2);
    backend->close(device);
    assert_int_equal(fake.live(), 0);
}

/* The driver runs kernels in work-groups of 128 at most, however many the device allows. */
static void a_group_too_large_as_built_costs_its_row(void **state)
{
    (void)state;
    attune_kernel_row row = row_plain;
    row.threads = 129;
    void *device = NULL, *kernel = NULL;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row, &kernel), ATTUNE_BUILD_FAILED);
    assert_non_null(strstr(attune_error_detail(), "129"));
    backend->close(device);
    assert_int_equal(fake.live(), 0);
}

static void expect_resources(void *device, void *kernel, int64_t fast_memory, int64_t spill_bytes)
{
    attune_kernel_resources found = {.threads = 77};
    backend->resources(device, kernel, &found);
    assert_int_equal(found.threads, 77);
    assert_int_equal(found.fast_memory, fast_memory);
    assert_int_equal(found.registers, -1);
    assert_int_equal(found.spill_bytes, spill_bytes);
}

static void resources_are_what_the_driver_says(void **state)
{
    (void)state;
    void *device = NULL, *kernel = NULL;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    expect_resources(device, kernel, 100, 48);
    /* what the driver does not say, nobody does */
    fake.fault("GetKernelWorkGroupInfo", 1, CL_INVALID_VALUE);
    expect_resources(device, kernel, -1, 48);
    fake.fault("GetKernelWorkGroupInfo", 2, CL_INVALID_VALUE);
    expect_resources(device, kernel, 100, -1);

    opencl_device *const opened = device;
    const opencl_entry *const entry = opened->entry;
    opencl_entry changed = *entry;
    opened->entry = &changed;
    changed.is_gpu = 0; /* private memory is the stack */
    expect_resources(device, kernel, 100, -1);
    changed = *entry;
    changed.misreports = 1;
    expect_resources(device, kernel, -1, -1);
    opened->entry = entry;
    backend->close(device);
    assert_int_equal(fake.live(), 0);
}

/* Three times 2^31 groups, and as many for packing. */
static void a_grid_of_any_length_is_cut(void **state)
{
    (void)state;
    const int64_t groups = INT64_C(3) << 31;
    void *device = NULL, *kernel = NULL;
    const attune_forward_args args = {.first_group = 12345};
    const attune_launch launch = {
        .args = &args, .q = &fake, .workspace = &device, .pack_groups = groups, .groups = groups};
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row_packed, &kernel), ATTUNE_OK);
    fake_launch launches[64];
    fake.launches(launches, 0);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);

    const int count = fake.launches(launches, 64);
    assert_in_range(count, 2, 64);
    int64_t next = 0;
    int packed = 1;
    for (int i = 0; i < count; i++) {
        const fake_launch *const part = &launches[i];
        if (packed && next == groups) {
            packed = 0;
            next = 0;
        }
        assert_string_equal(part->kernel, packed ? "packed_pack" : "packed");
        assert_int_equal(part->local, row_packed.threads);
        assert_in_range(part->global, part->local, INT32_MAX);
        assert_int_equal(part->first_group, next);
        assert_ptr_equal(part->handles[0], &fake);
        assert_null(part->handles[4]);
        assert_ptr_equal(part->handles[5], &device);
        next += (int64_t)(part->global / part->local);
    }
    assert_false(packed);
    assert_int_equal(next, groups);
    backend->close(device);
}

/* More threads than slots; the driver aborts where two set the arguments of one cl_kernel. */
static void *launch_often(void *user)
{
    const opencl_device *const device = user;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .pack_groups = 1, .groups = 1};
    void *kernel = NULL;
    attune_status status = backend->load(user, &row_packed, &kernel);
    for (int i = 0; i < 200 && status == ATTUNE_OK; i++)
        status = backend->launch(user, kernel, &launch, device->queue);
    return status == ATTUNE_OK ? user : NULL;
}

static void threads_never_share_a_cl_kernel(void **state)
{
    (void)state;
    pthread_t threads[2 * OPENCL_SLOTS];
    void *device = NULL, *result = NULL;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    for (int i = 0; i < 2 * OPENCL_SLOTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, device), 0);
    for (int i = 0; i < 2 * OPENCL_SLOTS; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, device);
    }
    backend->close(device);
    assert_int_equal(fake.live(), 0);
}

static void nothing_to_do_launches_nothing(void **state)
{
    (void)state;
    void *device = NULL, *kernel = NULL;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args};
    double milliseconds = -1;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row_packed, &kernel), ATTUNE_OK);
    fake_launch none[1];
    fake.launches(none, 0);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_int_equal(backend->elapsed(device, kernel, &launch, NULL, &milliseconds), ATTUNE_OK);
    assert_true(milliseconds >= 0.0);
    assert_int_equal(fake.launches(none, 1), 0);
    backend->close(device);
    assert_int_equal(fake.live(), 0);
}

/* Asking for the caller's queue and context may fail too. */
static void foreign_handles_that_fail_are_refused(void **state)
{
    (void)state;
    static const char *const functions[] = {"GetCommandQueueInfo", "GetContextInfo",
                                            "RetainContext", "RetainCommandQueue"};
    void *device = NULL;
    assert_int_equal(backend->open(FAKE_GPU, NULL, &device), ATTUNE_OK);
    const opencl_device *const owner = device;
    const int live = fake.live();
    attune_context_options options = {.struct_size = sizeof options, .native_queue = owner->queue};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        void *second = NULL;
        fake.fault(functions[f], 1, CL_INVALID_COMMAND_QUEUE);
        assert_int_equal(backend->open(FAKE_GPU, &options, &second), ATTUNE_INVALID_ARGUMENT);
        assert_true(fake.faulted());
        assert_int_equal(fake.live(), live);
    }
    void *second = NULL;
    assert_int_equal(backend->open(FAKE_GPU, &options, &second), ATTUNE_OK);
    assert_ptr_equal(((opencl_device *)second)->context, owner->context);
    backend->close(second);
    assert_int_equal(fake.live(), live);
    backend->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_say_what_the_driver_says),
        cmocka_unit_test(a_class_is_kind_and_vendor),
        cmocka_unit_test(unfit_devices_have_reasons),
        cmocka_unit_test(a_whole_walk_leaves_nothing),
        cmocka_unit_test(every_failure_is_a_status),
        cmocka_unit_test(times_come_from_the_device_or_the_wall),
        cmocka_unit_test(a_kernel_is_built_once),
        cmocka_unit_test(a_group_too_large_as_built_costs_its_row),
        cmocka_unit_test(resources_are_what_the_driver_says),
        cmocka_unit_test(a_grid_of_any_length_is_cut),
        cmocka_unit_test(threads_never_share_a_cl_kernel),
        cmocka_unit_test(nothing_to_do_launches_nothing),
        cmocka_unit_test(foreign_handles_that_fail_are_refused),
    };
    return cmocka_run_group_tests(tests, find_fake, NULL);
}
