/* What the emulated devices say of themselves and of kernels. */
#include "backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const attune_backend *const backend = &attune_backend_emulated;

static void caps_are_of_a_gpu_that_none_is_tuned_by(void **state)
{
    (void)state;
    char reason[256];
    const int count = backend->count(reason);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        attune_device_caps caps;
        backend->caps(i, &caps);
        const bool is_wide =
            strcmp(caps.device_class, "amd") == 0 && strstr(caps.features, "wmma") == NULL;
        const bool is_rdna = strstr(caps.features, "wmma") != NULL;
        assert_true(caps.untimed);
        assert_string_equal(caps.family, "");
        assert_string_equal(caps.compiler, backend->table->compiler);
        assert_int_equal(caps.warp, is_wide ? 64 : 32);
        assert_int_equal(caps.multiprocessor_threads, is_rdna ? 1024 : 2048);
    }
}

/* Kernels here are functions of this library, as the cpu's are: one compiler, which is no number alone. */
static void the_compiler_is_named(void **state)
{
    (void)state;
    attune_device_caps caps;
    attune_backend_cpu.caps(0, &caps);
    assert_false(caps.untimed);
    assert_string_equal(caps.family, "");
    assert_string_equal(caps.compiler, backend->table->compiler);
#if defined(__clang__)
    assert_non_null(strstr(caps.compiler, "lang"));
#else
    assert_string_equal(caps.compiler, "gcc " __VERSION__);
#endif
}

static const attune_kernel_row *row_of(const attune_plan *plan)
{
    const attune_kernel_row *row = backend->table->rows;
    while (strcmp(row->id, attune_plan_kernel(plan)) != 0) row++;
    return row;
}

/* 128 work-items of a multiprocessor's 2048 are 16 groups of 4 warps: no more is known of a GPU that there is not. */
static void a_plan_tells_what_is_known(void **state)
{
    (void)state;
    attune_context *context = NULL;
    attune_problem problem;
    attune_plan *plan = NULL;
    attune_kernel_resources resources;
    const attune_plan_options options = {.struct_size = sizeof options,
                                         .kernel = "*_simt_q64k64t128"};
    assert_int_equal(attune_context_open("emulated:nvidia", NULL, &context), ATTUNE_OK);
    assert_int_equal(
        attune_problem_parse("op=forward,b=1,hq=1,hkv=1,sq=4,sk=4,d=64,dtype=f16", &problem),
        ATTUNE_OK);
    assert_int_equal(attune_plan_create(context, &problem, &options, &plan), ATTUNE_OK);
    assert_int_equal(attune_plan_resources(plan, &resources), ATTUNE_OK);
    assert_int_equal(resources.threads, 128);
    assert_true(resources.fast_memory > 0);
    assert_int_equal(resources.fast_memory, row_of(plan)->fast_memory);
    assert_int_equal(resources.registers, -1);
    assert_int_equal(resources.spill_bytes, -1);
    assert_int_equal(resources.resident_groups, 16);
    assert_int_equal(resources.resident_warps, 64);
    attune_plan_destroy(plan);
    attune_context_close(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_are_of_a_gpu_that_none_is_tuned_by),
        cmocka_unit_test(the_compiler_is_named),
        cmocka_unit_test(a_plan_tells_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
