/* The backend on every real device of the process, with kernels whose results are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "device_fixture.h"

static void there_is_a_device(void **state)
{
    (void)state;
    assert_true(device_count() > 0);
    for (int i = 0; i < device_count(); i++) {
        attune_device_caps caps;
        backend->caps(i, &caps);
        print_message("%s: %s, %s, %s\n", caps.info.id, caps.info.platform, caps.info.name,
                      caps.info.driver);
        assert_string_equal(caps.info.reason, "");
        assert_non_null(strstr(caps.features, "int64"));
        assert_true(caps.max_threads >= 64 && caps.fast_memory >= 16384);
    }
}

static void null_handles_are_null_pointers(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        fixture_open(&on, i, NULL, &row_plain);
        assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        check_output(&on, 0, 1, row_plain.threads);
        float lse[ROOM];
        on.launch.lse = on.lse;
        assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        read_floats(&on, on.lse, lse);
        for (int g = 0; g < ROOM; g++) assert_int_equal((int)lse[g], g < GROUPS ? g : 0);
        fixture_close(&on);
    }
}

static void packing_comes_first_and_arguments_are_copied(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        fixture_open(&on, i, NULL, &row_packed);
        on.args.o.offset = 5;
        on.args.workspace_offset = 3;
        assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        on.args = (attune_forward_args){.o.offset = -1, .workspace_offset = -1};
        check_output(&on, 5, 1, row_packed.threads);
        fixture_close(&on);
    }
}

static void a_long_grid_is_cut_without_loss(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        double milliseconds = 0;
        fixture_open(&on, i, NULL, &row_packed);
        ((opencl_device *)on.device)->max_work_items = 5 * row_packed.threads + 1;
        assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        on.launch.args = &on.args;
        assert_int_equal(backend->elapsed(on.device, on.kernel, &on.launch, NULL, &milliseconds),
                         ATTUNE_OK);
        assert_true(milliseconds > 0.0);
        check_output(&on, 0, 2, row_packed.threads);
        fixture_close(&on);
    }
}

static void runs_and_copies_keep_their_order(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        fixture_open(&on, i, NULL, &row_packed);
        for (int run = 0; run < 50; run++) assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        check_output(&on, 0, 50, row_packed.threads);
        assert_int_equal(backend->sync(on.device, NULL), ATTUNE_OK);
        fixture_close(&on);
    }
}

static void parts_of_buffers_are_copied(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        float o[ROOM] = {0};
        fixture_open(&on, i, NULL, &row_plain);
        const float values[] = {1.0f, 2.0f, 3.0f};
        const attune_buffer middle = {.handle = on.o, .offset = 7 * sizeof(float)};
        const size_t size = sizeof values;
        assert_int_equal(backend->write(on.device, middle, values, size, NULL), ATTUNE_OK);
        assert_int_equal(backend->write(on.device, middle, values, 0, NULL), ATTUNE_OK);
        read_floats(&on, on.o, o);
        for (int at = 0; at < ROOM; at++)
            assert_int_equal((int)o[at], at >= 7 && at < 10 ? at - 6 : 0);
        assert_int_equal(backend->read(on.device, middle, o, size, NULL), ATTUNE_OK);
        assert_memory_equal(o, values, size);
        fixture_close(&on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_a_device),
        cmocka_unit_test(null_handles_are_null_pointers),
        cmocka_unit_test(packing_comes_first_and_arguments_are_copied),
        cmocka_unit_test(a_long_grid_is_cut_without_loss),
        cmocka_unit_test(runs_and_copies_keep_their_order),
        cmocka_unit_test(parts_of_buffers_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
