/* Naming one of two devices, with PoCL and Intel's runtime both there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "attune/attune.h"
#include "attune/device.h"

static void a_part_of_a_name_selects(void **state)
{
    (void)state;
    static const struct {
        const char *name, *platform;
    } cases[] = {
        {"opencl:pocl", "Portable Computing Language (POCL)"},
        {"opencl:PORTABLE", "Portable Computing Language (POCL)"},
        {"opencl:pthread", "Portable Computing Language (POCL)"},
        {"opencl:intel", "Intel(R) OpenCL"},
        {"OpenCL:Intel(R) OpenCL", "Intel(R) OpenCL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attune_context *context = NULL;
        attune_device_info info;
        assert_int_equal(attune_context_open(cases[i].name, NULL, &context), ATTUNE_OK);
        assert_int_equal(attune_context_device(context, &info), ATTUNE_OK);
        assert_string_equal(info.platform, cases[i].platform);
        attune_context_close(context);
    }
}

static void every_id_opens_its_device(void **state)
{
    (void)state;
    int opened = 0;
    for (int i = 0; i < attune_device_count(); i++) {
        attune_device_info listed, info;
        attune_context *context = NULL;
        assert_int_equal(attune_device_get(i, &listed), ATTUNE_OK);
        if (strcmp(listed.backend, "opencl") != 0) continue;
        assert_int_equal(attune_context_open(listed.id, NULL, &context), ATTUNE_OK);
        assert_int_equal(attune_context_device(context, &info), ATTUNE_OK);
        assert_string_equal(info.id, listed.id);
        assert_string_equal(info.platform, listed.platform);
        attune_context_close(context);
        opened++;
    }
    assert_int_equal(opened, 2);
}

static void what_names_no_device_or_two_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"opencl:cl", "opencl:nothing", "opencl:", "opencl:2",
                                        "opencl:512"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        attune_context *context = NULL;
        assert_int_equal(attune_context_open(names[i], NULL, &context), ATTUNE_NO_DEVICE);
        assert_null(context);
        assert_non_null(strstr(attune_error_detail(), "opencl:0"));
        assert_non_null(strstr(attune_error_detail(), "opencl:1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_name_selects),
        cmocka_unit_test(every_id_opens_its_device),
        cmocka_unit_test(what_names_no_device_or_two_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
