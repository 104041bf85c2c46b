/* What is launched, in which context and on which stream: white box, with tests/cuda/fake_cuda.c as libcuda.so.1. */
#include "fixture.h"

#include <pthread.h>
#include <string.h>

static const attune_backend *const backend = &attune_backend_cuda;

/* ---- the caller's own context and queue ---- */

static void native_handles_are_used_and_never_destroyed(void **state)
{
    (void)state;
    static fake_context shared = {.device = 1};
    int queue, stream;
    const attune_context_options options = {
        .struct_size = sizeof options, .native_context = &shared, .native_queue = &queue};
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    void *device = NULL, *kernel = NULL;
    assert_int_equal(backend->open(1, &options, &device), ATTUNE_OK);
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, &stream), ATTUNE_OK);
    assert_ptr_equal(cuda->launches[0].stream, &queue);
    assert_ptr_equal(cuda->launches[1].stream, &stream);
    assert_int_equal(backend->sync(device, NULL), ATTUNE_OK);
    assert_ptr_equal(cuda->waited_for, &queue);
    assert_int_equal(backend->sync(device, &stream), ATTUNE_OK);
    assert_ptr_equal(cuda->waited_for, &stream);
    close_device(device);
    assert_int_equal(cuda->calls[FAKE_cuDevicePrimaryCtxRetain], 0);
    assert_int_equal(cuda->calls[FAKE_cuDevicePrimaryCtxRelease_v2], 0);
}

static void foreign_contexts_are_refused(void **state)
{
    (void)state;
    static fake_context of_another = {.device = 1};
    const attune_context_options options = {.struct_size = sizeof options,
                                            .native_context = &of_another};
    void *device = NULL;
    assert_int_equal(backend->open(0, &options, &device), ATTUNE_INVALID_ARGUMENT);
    expect_detail("native_context belongs to another device than cuda:0");
    expect_callers_context();

    static const fake_function functions[] = {FAKE_cuCtxPushCurrent_v2, FAKE_cuCtxGetDevice};
    for (int f = 0; f < 2; f++) {
        cuda->faults[functions[f]] = (fake_fault){1, 201};
        assert_int_equal(backend->open(1, &options, &device), ATTUNE_INVALID_ARGUMENT);
        expect_detail("FAKE_ERROR_201");
        expect_callers_context();
    }
    assert_null(device);
}

/* Each has modules of its own; the primary context is the device's while anybody has it. */
static void contexts_of_one_device_are_independent(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    gpu_device *const first = open_device(), *const second = open_device();
    void *of_first = NULL, *of_second = NULL;
    assert_int_equal(backend->load(first, &row_plain, &of_first), ATTUNE_OK);
    assert_int_equal(backend->load(second, &row_plain, &of_second), ATTUNE_OK);
    assert_ptr_not_equal(of_first, of_second);
    close_device(first);
    assert_int_equal(cuda->live.contexts, 1);
    assert_int_equal(cuda->live.modules, 1);
    assert_int_equal(backend->launch(second, of_second, &launch, NULL), ATTUNE_OK);
    close_device(second);
}

/* ---- launches ---- */

static void no_stream_is_the_default_stream(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_null(cuda->launches[0].stream);
    close_device(device);
}

/* One push, the launches, one pop: nothing that waits, allocates or asks. */
static void a_launch_does_nothing_else(void **state)
{
    (void)state;
    const attune_forward_args args = {.batch = 7};
    attune_launch launch = {.args = &args, .pack_groups = 5, .groups = 3};
    void **const handles[] = {&launch.q, &launch.k,   &launch.v,
                              &launch.o, &launch.lse, &launch.workspace};
    for (int i = 0; i < 6; i++) *handles[i] = &launch + i;
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_packed, &kernel), ATTUNE_OK);
    memset(cuda->calls, 0, sizeof cuda->calls);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    for (int f = 0; f < FAKE_FUNCTIONS; f++)
        assert_int_equal(cuda->calls[f], f == FAKE_cuLaunchKernel        ? 2
                                         : f == FAKE_cuCtxPushCurrent_v2 ? 1
                                         : f == FAKE_cuCtxPopCurrent_v2  ? 1
                                                                         : 0);

    const fake_launch *const pack = &cuda->launches[0], *const forward = &cuda->launches[1];
    assert_string_equal(pack->kernel, "packed_pack");
    assert_int_equal(pack->grid, 5);
    assert_string_equal(forward->kernel, "packed");
    assert_int_equal(forward->grid, 3);
    assert_int_equal(forward->block, row_packed.threads);
    assert_int_equal(forward->args.batch, 7);
    for (int i = 0; i < 6; i++) assert_ptr_equal(forward->handles[i], &launch + i);
    close_device(device);
}

/* Where packing failed, the forward kernel does not run on what is not there. */
static void a_failing_launch_is_the_last(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .pack_groups = 1, .groups = 1};
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_packed, &kernel), ATTUNE_OK);
    cuda->faults[FAKE_cuLaunchKernel] = (fake_fault){1, 701}; /* LAUNCH_OUT_OF_RESOURCES */
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_DEVICE_ERROR);
    expect_detail("packed");
    expect_detail("FAKE_ERROR_701");
    assert_int_equal(cuda->launch_count, 0);
    assert_int_equal(cuda->calls[FAKE_cuLaunchKernel], 1);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);

    const attune_launch long_launch = {.args = &args, .groups = INT64_C(3) << 31};
    cuda->faults[FAKE_cuLaunchKernel] = (fake_fault){2, 701};
    cuda->launch_count = 0;
    assert_int_equal(backend->launch(device, kernel, &long_launch, NULL), ATTUNE_DEVICE_ERROR);
    assert_int_equal(cuda->launch_count, 1);
    close_device(device);
}

/* Three times 2^31 groups, and as many for packing. */
static void a_grid_of_any_length_is_cut(void **state)
{
    (void)state;
    const int64_t groups = INT64_C(3) << 31;
    const attune_forward_args args = {.first_group = 12345};
    const attune_launch launch = {.args = &args, .pack_groups = groups, .groups = groups};
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_packed, &kernel), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_in_range(cuda->launch_count, 4, FAKE_LAUNCHES);
    int64_t next = 0;
    for (int i = 0; i < cuda->launch_count; i++) {
        const fake_launch *const part = &cuda->launches[i];
        assert_string_equal(part->kernel, i < cuda->launch_count / 2 ? "packed_pack" : "packed");
        if (i == cuda->launch_count / 2) next = 0;
        assert_int_equal(part->args.first_group, next);
        next += part->grid;
    }
    assert_int_equal(next, groups);
    close_device(device);
}

static void nothing_to_do_launches_nothing(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args};
    gpu_device *const device = open_device();
    void *kernel = NULL;
    double milliseconds = -1;
    assert_int_equal(backend->load(device, &row_packed, &kernel), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_int_equal(backend->elapsed(device, kernel, &launch, NULL, &milliseconds), ATTUNE_OK);
    assert_true(milliseconds >= 0.0);
    assert_int_equal(cuda->launch_count, 0);
    close_device(device);
}

/* ---- threads ---- */

static void *load_and_launch(void *device)
{
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .pack_groups = 1, .groups = 1};
    void *kernel = NULL;
    attune_status status = backend->load(device, &row_packed, &kernel);
    for (int i = 0; i < 200 && status == ATTUNE_OK; i++)
        status = backend->launch(device, kernel, &launch, NULL);
    return status == ATTUNE_OK && cuda->stack()->depth == 0 ? kernel : NULL;
}

static void threads_share_a_device(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    void *kernels[THREADS];
    gpu_device *const device = open_device();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_and_launch, device), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], &kernels[i]);
    for (int i = 0; i < THREADS; i++) {
        assert_non_null(kernels[i]);
        assert_ptr_equal(kernels[i], kernels[0]);
    }
    assert_int_equal(nvrtc->compilations, 1);
    assert_int_equal(cuda->launch_count, THREADS * 400);
    close_device(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH_TEST(native_handles_are_used_and_never_destroyed),
        FRESH_TEST(foreign_contexts_are_refused),
        FRESH_TEST(contexts_of_one_device_are_independent),
        FRESH_TEST(no_stream_is_the_default_stream),
        FRESH_TEST(a_launch_does_nothing_else),
        FRESH_TEST(a_failing_launch_is_the_last),
        FRESH_TEST(a_grid_of_any_length_is_cut),
        FRESH_TEST(nothing_to_do_launches_nothing),
        FRESH_TEST(threads_share_a_device),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
