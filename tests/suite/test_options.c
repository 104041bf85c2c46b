/* What the programs of this folder hand to a plan, and which bits they then demand. */
#include "device.h"
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void options_confine_all_devices_but_the_first(void **user)
{
    (void)user;
    char *arguments[] = {
        "suite",    "--problem",      "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32",
        "--engine", "matrix",         "--kernel",
        "*_q64*",   "--reproducible", "--tf32"};
    options o = options_parse(sizeof arguments / sizeof arguments[0], arguments, "");
    for (int devices = 1; devices <= 2; devices++) {
        const attune_plan_options last = options_of_plan(&o, devices - 1, devices);
        assert_int_equal(last.struct_size, sizeof last);
        assert_string_equal(last.engine, "matrix");
        assert_string_equal(last.kernel, "*_q64*");
        assert_true(last.reproducible == 1 && last.allow_tf32 == 1);
    }
    const attune_plan_options first = options_of_plan(&o, 0, 2);
    assert_true(first.engine == NULL && first.kernel == NULL);
    assert_true(first.reproducible == 1 && first.allow_tf32 == 1);
    problem_list_free(&o.problems);
}

static outputs ran(const char *device, const char *engine, const char *kernel, bool reproducible)
{
    outputs out = {.reproducible = reproducible};
    strcpy(out.device, device);
    strcpy(out.engine, engine);
    strcpy(out.kernel, kernel);
    return out;
}

static void bits_are_demanded_where_they_are_promised(void **user)
{
    (void)user;
    const outputs cpu = ran("cpu", "vector", "v", true), simt = ran("cuda:0", "simt", "s", true),
                  same = ran("cuda:0", "matrix", "m_r1u0", true),
                  tile = ran("cuda:0", "matrix", "m_q64r1u0", true),
                  unit = ran("cuda:0", "matrix", "m_r1u1", true),
                  other = ran("cuda:1", "matrix", "m_r1u0", true),
                  usual = ran("cuda:0", "matrix", "m_r0u0", false);
    const struct {
        const outputs *a, *b;
        bool promised;
    } cases[] = {{&cpu, &cpu, true},      {&cpu, &simt, true},    {&same, &same, true},
                 {&same, &tile, true},    {&same, &unit, false},  {&cpu, &same, false},
                 {&simt, &same, false},   {&same, &other, false}, {&same, &usual, false},
                 {&usual, &usual, false}, {&cpu, &usual, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(must_be_same(cases[i].a, cases[i].b), cases[i].promised);
        assert_int_equal(must_be_same(cases[i].b, cases[i].a), cases[i].promised);
    }
}

/* A name that no engine has is no reason to skip a run. */
static void an_unknown_engine_fails(void **user)
{
    (void)user;
    device cpu;
    assert_true(device_open(&cpu, "cpu", NULL));
    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 1, 1, 1, 1);
    inputs in = inputs_create(&problem);
    attune_plan_options plan;
    attune_plan_options_init(&plan);
    plan.engine = "tensor";
    outputs out;
    char why[REASON_SIZE];
    assert_int_equal(device_run(&cpu, &in, &plan, &out, why), RUN_FAILED);
    assert_non_null(strstr(why, "no engine \"tensor\""));
    plan.engine = "simt";
    assert_int_equal(device_run(&cpu, &in, &plan, &out, why), RUN_SKIPPED);
    inputs_free(&in);
    device_close(&cpu);
}

/* On cpu, where all kernels are of one engine and reproducible. */
static void selected_kernels_are_the_options(void **user)
{
    (void)user;
    device cpu;
    assert_true(device_open(&cpu, "cpu", NULL));
    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F16, 1, 1, 1, 5, 7, 60, 60);
    attune_plan_options plan;
    attune_plan_options_init(&plan);
    plan.reproducible = 1;
    kernel_ids all = kernels_select(&cpu, &problem, &plan, EVERY_KERNEL, false);
    kernel_ids small = kernels_select(&cpu, &problem, &plan, EVERY_KERNEL, true);
    kernel_ids few = kernels_select(&cpu, &problem, &plan, 3, false);
    assert_true(all.count > small.count && small.count > 1);
    assert_int_equal(few.count, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(few.at[i], all.at[i * all.count / 3]);
    for (int i = 0; i < small.count; i++) assert_non_null(strstr(small.at[i], "_f16_d64_"));
    plan.engine = "simt";
    kernel_ids none = kernels_select(&cpu, &problem, &plan, EVERY_KERNEL, false);
    assert_int_equal(none.count, 0);
    kernel_ids_free(&all);
    kernel_ids_free(&small);
    kernel_ids_free(&few);
    kernel_ids_free(&none);
    device_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_confine_all_devices_but_the_first),
        cmocka_unit_test(bits_are_demanded_where_they_are_promised),
        cmocka_unit_test(an_unknown_engine_fails),
        cmocka_unit_test(selected_kernels_are_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
