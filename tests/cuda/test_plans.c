/* What a user sees of a GPU in trouble: through the public API, with the library's own kernels. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/device.h"

static attune_problem problem;

/* The fake GPU is one that no code in this library was built for, so that each kernel goes through the compiler. */
static attune_context *open_context(void)
{
    attune_context *context = NULL;
    cuda->machine.load_codes[FAKE_FAT_BINARY] = 209;
    attune_problem_init(&problem, ATTUNE_F32, 2, 4, 2, 100, 200, 64, 64);
    assert_int_equal(attune_context_open("cuda:0", NULL, &context), ATTUNE_OK);
    expect_callers_context();
    return context;
}

static void close_context(attune_context *context)
{
    attune_context_close(context);
    expect_callers_context();
}

static attune_plan *make_plan(attune_context *context)
{
    attune_plan *plan = NULL;
    const attune_status status = attune_plan_create(context, &problem, NULL, &plan);
    if (status != ATTUNE_OK) fail_msg("%s", attune_error_detail());
    expect_callers_context();
    return plan;
}

static void a_refused_kernel_is_passed_over(void **state)
{
    (void)state;
    char best[128];
    attune_context *context = open_context();
    attune_plan *plan = make_plan(context);
    snprintf(best, sizeof best, "%s", attune_plan_kernel(plan));
    attune_plan_destroy(plan);
    close_context(context);

    context = open_context();
    nvrtc->refused = best;
    plan = make_plan(context);
    assert_string_not_equal(attune_plan_kernel(plan), best);
    attune_plan_destroy(plan);
    close_context(context);
}

static void where_all_are_refused_the_plan_says_why(void **state)
{
    (void)state;
    attune_context *const context = open_context();
    attune_plan *plan = NULL;
    nvrtc->refused = "forward";
    assert_int_equal(attune_plan_create(context, &problem, NULL, &plan), ATTUNE_BUILD_FAILED);
    expect_detail("kernel.cu(3): error: refused");
    expect_detail("_d64_"); /* the first, which is the one that the problem prefers */
    expect_detail("; 7 more kernels were refused too");
    assert_null(plan);
    close_context(context);
}

/* No other kernel helps against a device without memory, so none is tried. */
static void a_plan_without_memory_can_be_made_later(void **state)
{
    (void)state;
    attune_context *const context = open_context();
    attune_plan *plan = NULL;
    cuda->machine.load_codes[FAKE_CUBIN] = 2;
    assert_int_equal(attune_plan_create(context, &problem, NULL, &plan), ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(nvrtc->compilations, 1);
    cuda->machine.load_codes[FAKE_CUBIN] = 0;
    plan = make_plan(context);
    attune_plan_destroy(plan);
    close_context(context);
}

static void a_run_launches_and_does_not_wait(void **state)
{
    (void)state;
    attune_context *const context = open_context();
    attune_plan *const plan = make_plan(context);
    attune_forward_tensors tensors;
    attune_forward_tensors_init(&tensors);
    attune_buffer *const buffers[] = {&tensors.q, &tensors.k, &tensors.v, &tensors.o};
    int stream;
    for (int i = 0; i < 4; i++)
        assert_int_equal(attune_buffer_alloc(context, 2 * 4 * 200 * 64 * sizeof(float), buffers[i]),
                         ATTUNE_OK);
    tensors.o.offset = 64;
    memset(cuda->calls, 0, sizeof cuda->calls);
    assert_int_equal(attune_plan_run(plan, &tensors, &stream), ATTUNE_OK);
    expect_callers_context();
    const int *const calls = cuda->calls;
    assert_int_equal(calls[FAKE_cuStreamSynchronize] + calls[FAKE_cuCtxSynchronize] +
                         calls[FAKE_cuEventSynchronize] + calls[FAKE_cuMemAlloc_v2],
                     0);
    assert_int_equal(cuda->launch_count, 1);
    const fake_launch *const launch = &cuda->launches[0];
    assert_string_equal(launch->kernel, attune_plan_kernel(plan));
    assert_ptr_equal(launch->stream, &stream);
    assert_int_equal(launch->args.seqlen_k, 200);
    assert_int_equal(launch->args.o.offset, 16);
    for (int i = 0; i < 4; i++) assert_ptr_equal(launch->handles[i], buffers[i]->handle);

    cuda->faults[FAKE_cuLaunchKernel] = (fake_fault){1, 701};
    assert_int_equal(attune_plan_run(plan, &tensors, NULL), ATTUNE_DEVICE_ERROR);
    expect_detail("FAKE_ERROR_701");
    expect_detail(attune_plan_kernel(plan));
    expect_callers_context();

    assert_int_equal(attune_plan_run(plan, &tensors, NULL), ATTUNE_OK);
    cuda->machine.sticky = 700;
    assert_int_equal(attune_synchronize(context, NULL), ATTUNE_DEVICE_ERROR);
    expect_detail("FAKE_ERROR_700");
    for (int i = 0; i < 4; i++) attune_buffer_free(context, buffers[i]);
    attune_plan_destroy(plan);
    close_context(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH_TEST(a_refused_kernel_is_passed_over),
        FRESH_TEST(where_all_are_refused_the_plan_says_why),
        FRESH_TEST(a_plan_without_memory_can_be_made_later),
        FRESH_TEST(a_run_launches_and_does_not_wait),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
