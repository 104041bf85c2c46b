/* Runs on cpu whose answer is known without an oracle, or for which sizes, strides and places
 * are unusual. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static attune_context *context;

static int set_up(void **user)
{
    (void)user;
    context = open_cpu(NULL);
    return 0;
}

static int tear_down(void **user)
{
    (void)user;
    attune_context_close(context);
    return 0;
}

/* Makes, runs and judges. */
static fixture answer(const char *text)
{
    const attune_problem problem = parse(text);
    fixture f = fixture_make(context, &problem);
    fixture_run(context, &f);
    fixture_judge(context, &f);
    return f;
}

static void assert_answered(const char *text)
{
    fixture f = answer(text);
    fixture_free(&f);
}

/* ---- nothing to do ---- */

static void without_keys_o_is_0_and_lse_is_minus_infinity(void **user)
{
    (void)user;
    const char *const texts[] = {
        "op=forward,b=2,hq=4,hkv=2,sq=19,sk=0,d=64,dtype=f32,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=19,sk=0,d=40,dv=24,dtype=f16,mask=causal,lse=1",
        "op=forward,b=1,hq=1,hkv=1,sq=1,sk=0,d=256,dtype=bf16,mask=causal-top-left,lse=1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const attune_problem problem = parse(texts[i]);
        fixture f = fixture_make(context, &problem);
        size_t workspace;
        assert_ok(attune_forward_workspace_size(context, &problem, &workspace));
        assert_int_equal(workspace, 0);

        attune_forward_tensors tensors = f.tensors;
        tensors.k = tensors.v = tensors.workspace = (attune_buffer){.handle = NULL};
        assert_ok(attune_forward(context, &problem, &tensors, NULL));
        const unsigned char *const o = tensors.o.handle;
        const float *const lse = tensors.lse.handle;
        for (size_t b = 0; b < f.o_bytes; b++) assert_int_equal(o[b], 0);
        for (size_t r = 0; r < f.lse_bytes / sizeof *lse; r++) assert_true(lse[r] == -INFINITY);
        fixture_free(&f);
    }
}

static void without_queries_nothing_is_done(void **user)
{
    (void)user;
    const char *const texts[] = {
        "op=forward,b=0,hq=4,hkv=2,sq=19,sk=5,d=64,dtype=f32,lse=1",
        "op=forward,b=0,hq=4,hkv=2,sq=0,sk=0,d=64,dtype=f32",
    };
    attune_forward_tensors nothing;
    attune_forward_tensors_init(&nothing);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const attune_problem problem = parse(texts[i]);
        double milliseconds = -1;
        attune_plan *plan;
        assert_ok(attune_forward(context, &problem, &nothing, NULL));
        assert_ok(attune_plan_create(context, &problem, NULL, &plan));
        assert_ok(attune_plan_run(plan, &nothing, NULL));
        assert_ok(attune_plan_time(plan, &nothing, NULL, &milliseconds));
        assert_true(milliseconds == 0.0);
        attune_plan_destroy(plan);
    }
    fixture f = answer("op=forward,b=2,hq=4,hkv=2,sq=0,sk=5,d=64,dtype=f32,lse=1");
    fixture_free(&f);
}

/* ---- plans ---- */

/* A context that saw other problems gives what a new context gives. */
static void the_cache_tells_every_problem_apart(void **user)
{
    (void)user;
    const char *const texts[] = {
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,scale=0.25,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,scale=-0.25,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,scale=0,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,mask=causal,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,mask=causal-top-left,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f16,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=bf16,lse=1",
        "op=forward,b=2,hq=4,hkv=4,sq=21,sk=33,d=64,dtype=f32,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=63,dv=64,dtype=f32,lse=1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,lse=1,layout=bhsd",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,lse=1,v_strides=0:128:64:1",
        "op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32",
    };
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            const attune_problem problem = parse(texts[i]);
            attune_context *const fresh = open_cpu(NULL);
            fixture expected = fixture_make(fresh, &problem), f = fixture_make(context, &problem);
            fixture_run(fresh, &expected);
            fixture_run(context, &f);
            fixture_judge(context, &f);
            assert_same_bits(&f, &expected);
            fixture_free(&expected);
            fixture_free(&f);
            attune_context_close(fresh);
        }
}

/* More problems than the cache holds, twice. */
static void the_cache_is_bounded(void **user)
{
    (void)user;
    for (int round = 0; round < 2; round++)
        for (int64_t seqlen_k = 1; seqlen_k <= 100; seqlen_k++) {
            attune_problem problem;
            attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 2, seqlen_k, 8, 8);
            fixture f = fixture_make(context, &problem);
            fixture_run(context, &f);
            fixture_judge(context, &f);
            fixture_free(&f);
        }
}

static void a_plan_and_one_shot_agree(void **user)
{
    (void)user;
    fixture f = answer("op=forward,b=2,hq=4,hkv=2,sq=21,sk=33,d=64,dtype=f32,lse=1");
    fixture planned = fixture_make(context, &f.problem);
    attune_plan *plan;
    double milliseconds = 0;
    size_t workspace;
    assert_ok(attune_plan_create(context, &f.problem, NULL, &plan));
    assert_ok(attune_forward_workspace_size(context, &f.problem, &workspace));
    assert_int_equal(attune_plan_workspace_size(plan), workspace);
    assert_ok(attune_plan_run(plan, &planned.tensors, NULL));
    assert_same_bits(&planned, &f);
    fixture_poison(&planned);
    assert_ok(attune_plan_time(plan, &planned.tensors, NULL, &milliseconds));
    assert_true(milliseconds > 0);
    assert_same_bits(&planned, &f);
    attune_plan_destroy(plan);
    fixture_free(&planned);
    fixture_free(&f);
}

static void the_arithmetic_is_the_kernels(void **user)
{
    (void)user;
    const double u_out[] = {0x1p-24, 0x1p-11, 0x1p-8};
    for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++) {
        attune_problem problem;
        attune_problem_init(&problem, (attune_dtype)dtype, 1, 1, 1, 100, 1000, 72, 64);
        attune_plan *plan;
        attune_arithmetic arithmetic;
        assert_ok(attune_plan_create(context, &problem, NULL, &plan));
        assert_ok(attune_plan_arithmetic(plan, &arithmetic));
        assert_true(arithmetic.u_out == u_out[dtype]);
        assert_true(arithmetic.n_s == 72);
        assert_true(arithmetic.n_pv > 1000 && arithmetic.n_pv <= 1000 + 1000 / 16 + 1);
        assert_true(arithmetic.u_acc == 0x1p-24);
        attune_plan_destroy(plan);
    }
}

/* ---- grids ---- */

static void grids_are_long(void **user)
{
    (void)user;
    assert_answered("op=forward,b=70000,hq=1,hkv=1,sq=1,sk=3,d=8,dtype=f32,lse=1");
    assert_answered("op=forward,b=1,hq=70000,hkv=1,sq=2,sk=1,d=4,dtype=f16,lse=1");
    assert_answered("op=forward,b=300,hq=300,hkv=100,sq=1,sk=2,d=1,dtype=bf16,mask=causal");
    assert_answered(
        "op=forward,b=1,hq=1,hkv=1,sq=70000,sk=2,d=3,dtype=f32,mask=causal-top-left,lse=1");
    assert_answered("op=forward,b=1,hq=1,hkv=1,sq=2,sk=70000,d=3,dtype=f32,mask=causal,lse=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_o_is_0_and_lse_is_minus_infinity),
        cmocka_unit_test(without_queries_nothing_is_done),
        cmocka_unit_test(the_cache_tells_every_problem_apart),
        cmocka_unit_test(the_cache_is_bounded),
        cmocka_unit_test(a_plan_and_one_shot_agree),
        cmocka_unit_test(the_arithmetic_is_the_kernels),
        cmocka_unit_test(grids_are_long),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
