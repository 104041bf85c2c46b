/* The caller's own context and queue, and what is left when devices close: reference counts as the driver tells them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "device_fixture.h"

enum { CL_CONTEXT_REFERENCE_COUNT = 0x1080, CL_QUEUE_REFERENCE_COUNT = 0x1092 };

static cl_uint context_references(cl_context context)
{
    cl_uint count = 0;
    assert_int_equal(
        opencl.GetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL),
        CL_SUCCESS);
    return count;
}

static cl_uint queue_references(cl_command_queue queue)
{
    cl_uint count = 0;
    assert_int_equal(
        opencl.GetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL),
        CL_SUCCESS);
    return count;
}

/* A driver's own thread may hold on to a finished command a moment longer. */
static void wait_for_references(cl_context context, cl_uint contexts, cl_command_queue queue,
                                cl_uint queues)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 2000; i++) {
        if (context_references(context) == contexts && queue_references(queue) == queues) return;
        nanosleep(&pause, NULL);
    }
    assert_int_equal(queue_references(queue), queues);
    assert_int_equal(context_references(context), contexts);
}

static cl_context new_context(int index)
{
    const opencl_entry *const entry = opencl_entry_get(index);
    const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)entry->platform, 0};
    cl_int code = -1;
    const cl_context context = opencl.CreateContext(properties, 1, &entry->id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return context;
}

static cl_command_queue new_queue(cl_context context, int index, cl_bitfield properties)
{
    cl_int code = -1;
    const cl_command_queue queue =
        opencl.CreateCommandQueue(context, opencl_entry_get(index)->id, properties, &code);
    return code == CL_SUCCESS ? queue : NULL;
}

static void the_callers_context_and_queue_are_used(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        const cl_context context = new_context(i);
        const cl_command_queue queue = new_queue(context, i, 0);
        const attune_context_options options = {
            .struct_size = sizeof options, .native_context = context, .native_queue = queue};
        fixture on;
        fixture_open(&on, i, &options, &row_packed);
        assert_ptr_equal(((opencl_device *)on.device)->context, context);
        assert_ptr_equal(((opencl_device *)on.device)->queue, queue);
        assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        assert_int_equal(fixture_launch(&on, queue), ATTUNE_OK);

        /* the queue keeps no times */
        double milliseconds = 0;
        on.launch.args = &on.args;
        assert_int_equal(backend->elapsed(on.device, on.kernel, &on.launch, NULL, &milliseconds),
                         ATTUNE_OK);
        assert_true(milliseconds > 0.0);
        check_output(&on, 0, 3, row_packed.threads);
        fixture_close(&on);
        opencl.ReleaseCommandQueue(queue);
        opencl.ReleaseContext(context);
    }
}

static void another_queue_of_the_context_is_a_stream(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        fixture_open(&on, i, NULL, &row_plain);
        const cl_command_queue queue =
            new_queue(((opencl_device *)on.device)->context, i, CL_QUEUE_PROFILING_ENABLE);
        double milliseconds = 0;
        on.launch.args = &on.args;
        /* a blocking write may only have been enqueued (specification 1.2, clEnqueueWriteBuffer), and another queue does not wait for it */
        assert_int_equal(backend->sync(on.device, NULL), ATTUNE_OK);
        assert_int_equal(fixture_launch(&on, queue), ATTUNE_OK);
        assert_int_equal(backend->sync(on.device, queue), ATTUNE_OK);
        assert_int_equal(backend->elapsed(on.device, on.kernel, &on.launch, queue, &milliseconds),
                         ATTUNE_OK);
        assert_true(milliseconds > 0.0);
        check_output(&on, 0, 2, row_plain.threads);
        opencl.ReleaseCommandQueue(queue);
        fixture_close(&on);
    }
}

static void a_queue_out_of_order_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        fixture_open(&on, i, NULL, &row_plain);
        const cl_context context = ((opencl_device *)on.device)->context;
        const cl_command_queue queue =
            new_queue(context, i, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        if (queue != NULL) {
            const attune_context_options options = {.struct_size = sizeof options,
                                                    .native_queue = queue};
            void *second = NULL;
            assert_int_equal(fixture_launch(&on, queue), ATTUNE_INVALID_ARGUMENT);
            assert_non_null(strstr(attune_error_detail(), "out of order"));
            assert_int_equal(backend->open(i, &options, &second), ATTUNE_INVALID_ARGUMENT);
            check_output(&on, 0, 0, row_plain.threads);
            opencl.ReleaseCommandQueue(queue);
        }
        fixture_close(&on);
    }
}

static void handles_of_another_context_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        const cl_context mine = new_context(i), other = new_context(i);
        const cl_command_queue queue = new_queue(other, i, 0);
        const attune_context_options options = {
            .struct_size = sizeof options, .native_context = mine, .native_queue = queue};
        void *device = NULL;
        assert_int_equal(backend->open(i, &options, &device), ATTUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(attune_error_detail(), "another context"));
        for (int j = 0; j < device_count(); j++)
            if (j != i) {
                assert_int_equal(backend->open(j, &options, &device), ATTUNE_INVALID_ARGUMENT);
                assert_non_null(strstr(attune_error_detail(), "does not hold"));
            }
        assert_int_equal(context_references(mine), 1);
        opencl.ReleaseCommandQueue(queue);
        opencl.ReleaseContext(mine);
        opencl.ReleaseContext(other);
    }
}

static void closing_gives_everything_back(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        const cl_context context = new_context(i);
        const cl_command_queue queue = new_queue(context, i, 0);
        const cl_uint contexts = context_references(context), queues = queue_references(queue);
        const attune_context_options options = {.struct_size = sizeof options,
                                                .native_queue = queue};
        for (int again = 0; again < 10; again++) {
            fixture on;
            fixture_open(&on, i, &options, again % 2 == 0 ? &row_plain : &row_packed);
            assert_true(queue_references(queue) > queues);
            assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
            fixture_close(&on);
            wait_for_references(context, contexts, queue, queues);
        }
        opencl.ReleaseCommandQueue(queue);
        opencl.ReleaseContext(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_callers_context_and_queue_are_used),
        cmocka_unit_test(another_queue_of_the_context_is_a_stream),
        cmocka_unit_test(a_queue_out_of_order_is_refused),
        cmocka_unit_test(handles_of_another_context_are_refused),
        cmocka_unit_test(closing_gives_everything_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
