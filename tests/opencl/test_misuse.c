/* What a real driver refuses becomes a status and costs nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "device_fixture.h"

static void buffers_of_any_size_or_a_sentence(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        void *device = NULL, *buffer = NULL;
        assert_int_equal(backend->open(i, NULL, &device), ATTUNE_OK);
        assert_int_equal(backend->alloc(device, 0, &buffer), ATTUNE_OK);
        assert_non_null(buffer);
        backend->free(device, buffer);
        backend->free(device, NULL);
        assert_int_equal(backend->alloc(device, SIZE_MAX / 2, &buffer), ATTUNE_OUT_OF_MEMORY);
        backend->close(device);
    }
}

static void copies_beyond_the_end_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        float o[ROOM] = {0};
        const float values[] = {1.0f, 2.0f, 3.0f};
        const size_t size = sizeof values;
        fixture_open(&on, i, NULL, &row_plain);
        const attune_buffer end = {.handle = on.o, .offset = (ROOM - 2) * sizeof(float)};
        assert_int_equal(backend->write(on.device, end, values, size, NULL),
                         ATTUNE_INVALID_ARGUMENT);
        assert_int_equal(backend->read(on.device, end, o, size, NULL), ATTUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(attune_error_detail(), "12 bytes at offset 120"));
        check_output(&on, 0, 0, row_plain.threads);
        fixture_close(&on);
    }
}

static void a_broken_kernel_costs_itself_only(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        fixture_open(&on, i, NULL, &row_plain);
        void *kernel = NULL;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(backend->load(on.device, &row_broken, &kernel), ATTUNE_BUILD_FAILED);
            assert_non_null(strstr(attune_error_detail(), "broken"));
            assert_non_null(strstr(attune_error_detail(), "refused on purpose"));
        }
        attune_kernel_row misnamed = row_plain;
        misnamed.id = "misnamed"; /* and its text calls it something else */
        misnamed.constants = "KERNEL_NAME plain\nPACK_NAME plain_pack\nTHREADS 4\n";
        assert_int_equal(backend->load(on.device, &misnamed, &kernel), ATTUNE_BUILD_FAILED);
        assert_non_null(strstr(attune_error_detail(), "misnamed"));

        assert_int_equal(fixture_launch(&on, NULL), ATTUNE_OK);
        check_output(&on, 0, 1, row_plain.threads);
        fixture_close(&on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_any_size_or_a_sentence),
        cmocka_unit_test(copies_beyond_the_end_are_refused),
        cmocka_unit_test(a_broken_kernel_costs_itself_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
