/* Devices and memory against a driver that fails where it is told to: white box, with tests/cuda/fake_cuda.c as libcuda.so.1. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

static const attune_backend *const backend = &attune_backend_cuda;

/* ---- opening ---- */

static void caps_say_what_the_driver_says(void **state)
{
    (void)state;
    attune_device_caps caps;
    backend->caps(1, &caps);
    assert_string_equal(caps.info.id, "cuda:1");
    assert_string_equal(caps.info.backend, "cuda");
    assert_string_equal(caps.info.platform, "CUDA");
    assert_string_equal(caps.info.name, "Fake GPU 1");
    assert_string_equal(caps.info.driver, "CUDA 13.0");
    assert_string_equal(caps.info.reason, "");
    assert_string_equal(caps.device_class, "sm_90");
    assert_string_equal(caps.family, "nvidia");
    assert_false(caps.untimed);
    assert_string_equal(caps.features, "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90");
    assert_int_equal(caps.info.compute_units, 132);
    assert_int_equal(caps.info.global_memory, INT64_C(80) << 30);
    assert_int_equal(caps.max_threads, 1024);
    assert_int_equal(caps.fast_memory, 227 << 10);
    assert_int_equal(caps.max_groups, INT32_MAX);
    assert_int_equal(caps.warp, 32);
    assert_int_equal(caps.registers, 65536);
    assert_int_equal(caps.multiprocessor_threads, 2048);
    assert_int_equal(caps.reserved_memory, 1024);
    assert_int_equal(caps.multiprocessor_memory, 228 << 10);
    assert_int_equal(caps.l2_cache, 50 << 20);
    assert_int_equal(caps.clock_mhz, 1980);

    cuda->machine.unknown_attribute = 82; /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    backend->caps(1, &caps);
    assert_int_equal(caps.registers, 0);
    assert_string_equal(caps.info.reason, "");
}

/* What was compiled ahead of time names that compiler; else the one at run time is named. */
static void caps_say_what_compiles(void **state)
{
    (void)state;
    static const gpu_image images[] = {{"plain", "sm_80", NULL}, {NULL, NULL, NULL}};
    gpu_device *const device = open_device();
    attune_device_caps caps;
    use_images(device, images);
    gpu_vendor vendor = *device->vendor;
    vendor.images_compiler = "nvcc 1.2.3";
    cuda->machine.capability = 80;
    gpu_caps(&vendor, 0, &caps);
    assert_string_equal(caps.compiler, "nvcc 1.2.3");
    cuda->machine.capability = 90;
    nvrtc->major = 12;
    nvrtc->minor = 4;
    gpu_caps(&vendor, 0, &caps);
    assert_string_equal(caps.compiler, "NVRTC 12.4");

    backend->caps(0, &caps); /* this library's own */
    assert_true(strncmp(caps.compiler, "nvcc ", 5) == 0 ||
                strcmp(caps.compiler, "NVRTC 12.4") == 0);
    cuda->machine.capability = 61;
    backend->caps(0, &caps); /* nothing compiles for it */
    assert_string_equal(caps.compiler, "");
    close_device(device);
}

/* GPUs that are taken, gone or full show it only when their context is made. */
static void a_context_that_cannot_be_made_is_a_sentence(void **state)
{
    (void)state;
    static const struct {
        int code;
        attune_status status;
    } cases[] = {
        {46, ATTUNE_NO_DEVICE},    /* DEVICE_UNAVAILABLE: another process has it exclusively */
        {101, ATTUNE_NO_DEVICE},   /* INVALID_DEVICE */
        {999, ATTUNE_NO_DEVICE},   /* UNKNOWN */
        {2, ATTUNE_OUT_OF_MEMORY}, /* OUT_OF_MEMORY */
    };
    const attune_context_options options = {.struct_size = sizeof options};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *device = NULL;
        char word[32];
        cuda->faults[FAKE_cuDevicePrimaryCtxRetain] = (fake_fault){1, cases[i].code};
        assert_int_equal(backend->open(0, &options, &device), cases[i].status);
        assert_null(device);
        snprintf(word, sizeof word, "FAKE_ERROR_%d", cases[i].code);
        expect_detail(word);
        expect_detail("cuda:0");
        expect_callers_context();
    }
}

static void a_device_that_went_away_is_not_opened(void **state)
{
    (void)state;
    const attune_context_options options = {.struct_size = sizeof options};
    void *device = NULL;
    assert_int_equal(backend->open(FAKE_DEVICES, &options, &device), ATTUNE_NO_DEVICE);
    expect_detail("FAKE_ERROR_101");
    cuda->faults[FAKE_cuDeviceGet] = (fake_fault){1, 999};
    assert_int_equal(backend->open(0, &options, &device), ATTUNE_NO_DEVICE);
    expect_detail("FAKE_ERROR_999");
    assert_null(device);
}

/* ---- every failure ---- */

/* After each call the caller has its context back, however the call ended. */
#define STEP(call)                                                                                 \
    do {                                                                                           \
        if (status == ATTUNE_OK) status = (call);                                                  \
        expect_callers_context();                                                                  \
    } while (0)

/* Everything that a program does with a device. The first status that is not OK. */
static attune_status walk(void)
{
    const attune_context_options options = {.struct_size = sizeof options};
    const attune_forward_args args = {0};
    void *device = NULL, *kernel = NULL, *buffer = NULL;
    float host[4] = {1, 2, 3, 4}, back[2] = {0};
    double milliseconds = 0;
    attune_status status = ATTUNE_OK;
    STEP(backend->open(0, &options, &device));
    if (status != ATTUNE_OK) return status;
    STEP(backend->load(device, &row_packed, &kernel));
    STEP(backend->alloc(device, sizeof host, &buffer));
    const attune_buffer start = {.handle = buffer}, middle = {.handle = buffer, .offset = 8};
    const attune_launch launch = {.args = &args, .q = buffer, .pack_groups = 2, .groups = 3};
    STEP(backend->write(device, start, host, sizeof host, NULL));
    STEP(backend->launch(device, kernel, &launch, NULL));
    STEP(backend->sync(device, NULL));
    STEP(backend->elapsed(device, kernel, &launch, NULL, &milliseconds));
    STEP(backend->read(device, middle, back, sizeof back, NULL));
    if (status == ATTUNE_OK) {
        assert_true(milliseconds == 2.5);
        assert_true(back[0] == 3 && back[1] == 4);
    }
    if (buffer != NULL) backend->free(device, buffer);
    expect_callers_context();
    if (kernel != NULL) backend->unload(device, kernel);
    backend->close(device);
    expect_callers_context();
    return status;
}

static void a_whole_walk_leaves_nothing(void **state)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(walk(), ATTUNE_OK);
        expect_nothing_left(state);
    }
}

/* Of a function that every walk calls, each call fails once with `code`; what all of them end with. */
static void fail_each_call(void **state, fake_function function, int code, attune_status expected)
{
    int n = 1;
    for (;; n++) {
        char name[32];
        snprintf(name, sizeof name, "FAKE_ERROR_%d", code);
        cuda->faults[function] = (fake_fault){n, code};
        const attune_status status = walk();
        expect_nothing_left(state);
        if (cuda->faults[function].nth > 0) break;
        assert_int_equal(status, expected);
        if (expected == ATTUNE_OUT_OF_MEMORY) continue;
        expect_detail(name);
    }
    assert_true(n > 1);
    cuda->faults[function] = (fake_fault){0, 0};
}

static void every_failure_is_a_status(void **state)
{
    static const fake_function functions[] = {
        FAKE_cuModuleLoadDataEx,  FAKE_cuModuleGetFunction,  FAKE_cuLaunchKernel,
        FAKE_cuMemAlloc_v2,       FAKE_cuMemcpyHtoDAsync_v2, FAKE_cuMemcpyDtoHAsync_v2,
        FAKE_cuStreamSynchronize, FAKE_cuEventCreate,        FAKE_cuEventRecord,
        FAKE_cuEventSynchronize,  FAKE_cuEventElapsedTime,
    };
    static const int codes[] = {46, 214, 700, 702, 719, 999};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
            fail_each_call(state, functions[f], codes[c], ATTUNE_DEVICE_ERROR);
        fail_each_call(state, functions[f], 2, ATTUNE_OUT_OF_MEMORY);
    }
}

/* What ends something has nobody to tell: it goes on, and ends the rest too. */
static void a_failing_end_loses_nothing(void **state)
{
    static const fake_function functions[] = {FAKE_cuMemFree_v2, FAKE_cuModuleUnload,
                                              FAKE_cuEventDestroy_v2, FAKE_cuCtxSynchronize,
                                              FAKE_cuDevicePrimaryCtxRelease_v2};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        cuda->faults[functions[f]] = (fake_fault){1, 719};
        assert_int_equal(walk(), ATTUNE_OK);
        assert_int_equal(cuda->faults[functions[f]].nth, 0);
        expect_nothing_left(state);
    }
}

/* A context that is gone cannot be made current: no call does anything, and close still frees what is the host's. */
static void a_destroyed_context_is_a_status(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    gpu_device *const device = open_device();
    void *kernel = NULL, *buffer = NULL;
    double milliseconds;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->alloc(device, 16, &buffer), ATTUNE_OK);
    const attune_buffer place = {.handle = buffer};
    fake_fault *const push = &cuda->faults[FAKE_cuCtxPushCurrent_v2];
#define EXPECT_REFUSED(call)                                                                       \
    do {                                                                                           \
        *push = (fake_fault){1, 709};                                                              \
        assert_int_equal((call), ATTUNE_INVALID_ARGUMENT);                                         \
        expect_detail("FAKE_ERROR_709");                                                           \
        expect_callers_context();                                                                  \
    } while (0)
    EXPECT_REFUSED(backend->load(device, &row_packed, &kernel));
    EXPECT_REFUSED(backend->launch(device, kernel, &launch, NULL));
    EXPECT_REFUSED(backend->alloc(device, 16, &buffer));
    EXPECT_REFUSED(backend->write(device, place, "text", 4, NULL));
    EXPECT_REFUSED(backend->read(device, place, &milliseconds, 4, NULL));
    EXPECT_REFUSED(backend->sync(device, NULL));
    EXPECT_REFUSED(backend->elapsed(device, kernel, &launch, NULL, &milliseconds));
#undef EXPECT_REFUSED
    backend->free(device, place.handle);
    *push = (fake_fault){1, 709};
    close_device(device);
    assert_int_equal(cuda->live.modules, 1); /* ended with the context that held it */
    cuda->live.modules = 0;
}

/* A kernel that broke the context: all later work says so, until the context is closed. */
static void a_sticky_error_is_reported_by_whoever_waits(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    gpu_device *const device = open_device();
    void *kernel = NULL, *buffer = NULL, *other = NULL;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->alloc(device, 16, &buffer), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    cuda->machine.sticky = 700; /* ILLEGAL_ADDRESS */
    assert_int_equal(backend->sync(device, NULL), ATTUNE_DEVICE_ERROR);
    expect_detail("FAKE_ERROR_700");
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_DEVICE_ERROR);
    expect_detail("plain");
    expect_detail("FAKE_ERROR_700");
    assert_int_equal(backend->load(device, &row_packed, &other), ATTUNE_DEVICE_ERROR);
    expect_detail("FAKE_ERROR_700");
    backend->free(device, buffer);
    close_device(device);
}

/* ---- memory ---- */

static void memory_that_runs_out_is_a_sentence(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    void *buffer = NULL;
    cuda->machine.memory = 1000;
    assert_int_equal(backend->alloc(device, 1001, &buffer), ATTUNE_OUT_OF_MEMORY);
    expect_detail("cuda:0 has no room for a buffer of 1001 bytes");
    assert_null(buffer);
    assert_int_equal(backend->alloc(device, 1000, &buffer), ATTUNE_OK);
    backend->free(device, buffer);
    close_device(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH_TEST(caps_say_what_the_driver_says),
        FRESH_TEST(caps_say_what_compiles),
        FRESH_TEST(a_context_that_cannot_be_made_is_a_sentence),
        FRESH_TEST(a_device_that_went_away_is_not_opened),
        FRESH_TEST(a_whole_walk_leaves_nothing),
        FRESH_TEST(every_failure_is_a_status),
        FRESH_TEST(a_failing_end_loses_nothing),
        FRESH_TEST(a_destroyed_context_is_a_status),
        FRESH_TEST(a_sticky_error_is_reported_by_whoever_waits),
        FRESH_TEST(memory_that_runs_out_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
