/* Verdicts and metrics on outputs made by hand, one at a time. */
#include "judgement.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void the_exact_answer_passes(void **state)
{
    (void)state;
    const char *const problems[] = {ORDINARY ",dtype=f32", ORDINARY ",dtype=f16",
                                    ORDINARY ",dtype=bf16,mask=causal",
                                    ORDINARY ",dtype=f16,o_strides=1000:70:30:1"};
    for (int i = 0; i < 4; i++) {
        judgement j = judgement_begin(problems[i], ATTUNE_FILL_normal);
        assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
        assert_true(j.metrics.bound_ratio == 0.0);
        assert_true(j.metrics.max_ulp <= 0.5 && j.metrics.max_ulp > 0.25);
        assert_true(j.metrics.lse_bound_ratio < 0.1);
        assert_int_equal(j.metrics.elements, 2 * 3 * 2 * 5);
        assert_int_equal(j.metrics.differ, 0);
        judgement_end(&j);
    }
}

static void metrics_are_what_the_header_says(void **state)
{
    (void)state;
    judgement j = judgement_begin(ORDINARY ",dtype=f32", ATTUNE_FILL_normal);
    double exact_squares = 0.0, error_squares = 0.0, errors = 0.0, max_ulp = 0.0;
    for (int64_t i = 0; i < 60; i++) {
        const double exact = j.reference->o[i];
        const int64_t at[] = {i / 30, i / 10 % 3, i / 5 % 2, i % 5};
        const double error = i == 47 ? -0x1p-4 : 0x1p-10;
        set(&j.t, TRIAL_O, at[0], at[1], at[2], at[3], exact + error);
        const double got = get(&j.t, TRIAL_O, at[0], at[1], at[2], at[3]) - exact;
        exact_squares += exact * exact;
        error_squares += got * got;
        errors += got;
        max_ulp = fmax(max_ulp, fabs(got) / ldexp(1.0, ilogb(exact) - 23));
    }
    j.t.lse[7] += 0.25f;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    const attune_metrics *const m = &j.metrics;
    assert_true(fabs(m->max_abs / 0x1p-4 - 1.0) < 1e-6);
    assert_true(fabs(m->rms_rel - sqrt(error_squares / exact_squares)) < 1e-12);
    assert_true(fabs(m->bias - errors / sqrt(60.0 * error_squares)) < 1e-12);
    assert_true(fabs(m->max_ulp / max_ulp - 1.0) < 1e-12);
    assert_true(fabs(m->lse_max_abs - 0.25) < 1e-6);
    assert_true(m->lse_bound_ratio > 1.0);
    const double ulp = ldexp(1.0, ilogb(j.reference->o[47]) - 23);
    assert_true(
        fabs(m->bound_ratio / ((m->max_abs - ulp / 2) / (judgement_bound(&j, 47) - ulp / 2)) -
             1.0) < 1e-6);
    const int64_t worst[] = {1, 1, 1, 2};
    assert_memory_equal(m->worst, worst, sizeof worst);
    judgement_end(&j);
}

/* Moves one element by a multiple of its bound beyond rounding, with and without. */
static void the_bound_decides(void **state)
{
    (void)state;
    judgement j = judgement_begin(ORDINARY ",dtype=f32", ATTUNE_FILL_peaked);
    const double exact = j.reference->o[0], bound = judgement_bound(&j, 0);
    const struct {
        double share;
        attune_verdict verdict;
    } cases[] = {{0.5, ATTUNE_VERDICT_PASS},     {0.7, ATTUNE_VERDICT_PASS},
                 {0.9, ATTUNE_VERDICT_MARGINAL}, {0.98, ATTUNE_VERDICT_MARGINAL},
                 {1.02, ATTUNE_VERDICT_FAIL},    {3.0, ATTUNE_VERDICT_FAIL}};
    for (int i = 0; i < 6; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            set(&j.t, TRIAL_O, 0, 0, 0, 0, exact + sign * cases[i].share * bound);
            if (judgement_verdict(&j) != cases[i].verdict)
                fail_msg("%g of the bound: %s", cases[i].share,
                         attune_verdict_name(j.metrics.verdict));
        }
    set(&j.t, TRIAL_O, 0, 0, 0, 0, exact);
    const float lse = j.t.lse[3];
    const double bound_lse = attune_bound_lse(&j.arithmetic, &j.reference->lse_terms[3],
                                              j.reference->lse[3], j.reference->visible[3]);
    for (int i = 0; i < 6; i++) {
        j.t.lse[3] = (float)(j.reference->lse[3] - cases[i].share * bound_lse);
        assert_int_equal(judgement_verdict(&j), cases[i].verdict);
    }
    j.t.lse[3] = lse;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
    judgement_end(&j);
}

/* What a unit gives that takes every subnormal of a tensor for 0 is right where it may do so, and nowhere else. */
static void flushed(attune_dtype dtype, int tensor, double factor, double scale)
{
    char text[256];
    snprintf(text, sizeof text, ORDINARY ",dtype=%s", attune_dtype_name(dtype));
    trial t = trial_filled(text, ATTUNE_FILL_normal, 7);
    t.problem.softmax_scale = scale;
    int64_t sizes[ATTUNE_RANK];
    sizes_of(&t.problem, tensor, sizes);
    attune_reference *reference = NULL;
    for (int pass = 0; pass < 2; pass++) { /* subnormals, then zeros */
        for (int64_t b = 0; b < sizes[0]; b++)
            for (int64_t s = 0; s < sizes[1]; s++)
                for (int64_t h = 0; h < sizes[2]; h++)
                    for (int64_t d = 0; d < sizes[3]; d++)
                        set(&t, tensor, b, s, h, d,
                            pass == 0 ? factor * get(&t, tensor, b, s, h, d) : 0.0);
        if (pass == 0) reference = trial_reference(&t);
    }
    attune_reference *const device = trial_reference(&t);
    write_exact(&t, device);
    attune_reference_destroy(device);

    judgement j = {.t = t, .reference = reference, .arithmetic = fp32_arithmetic(&t.problem, 32)};
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    assert_true(tensor == TRIAL_V || j.metrics.lse_bound_ratio > 1.0);
    j.arithmetic.flushes = 1.0;
    judgement_verdict(&j);
    if (!(j.metrics.bound_ratio <= 1.0 && j.metrics.lse_bound_ratio <= 1.0))
        fail_msg("%s, tensor %d: %g, lse %g", text, tensor, j.metrics.bound_ratio,
                 j.metrics.lse_bound_ratio);
    judgement_end(&j);
}

static void subnormals_may_count_as_zero_where_the_unit_flushes(void **state)
{
    (void)state;
    for (int tensor = TRIAL_Q; tensor <= TRIAL_V; tensor++) {
        flushed(ATTUNE_F16, tensor, 0x1p-17, tensor == TRIAL_V ? 0.5 : 0x1p12);
        flushed(ATTUNE_BF16, tensor, 0x1p-129, tensor == TRIAL_V ? 0.5 : 0x1p124);
    }
}

static void what_was_not_written_fails(void **state)
{
    (void)state;
    for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++) {
        char text[256];
        snprintf(text, sizeof text, ORDINARY ",dtype=%s", attune_dtype_name((attune_dtype)dtype));
        judgement j = judgement_begin(text, ATTUNE_FILL_normal);
        const double wrong[] = {NAN, INFINITY, -INFINITY};
        for (int i = 0; i < 3; i++) {
            set(&j.t, TRIAL_O, 1, 2, 0, 3, wrong[i]);
            assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
            assert_true(j.metrics.bound_ratio > 1e6);
            if (i == 0) assert_true(j.metrics.bound_ratio == INFINITY);
            if (i == 0) assert_true(isfinite(j.metrics.max_abs) && isfinite(j.metrics.rms_rel));
            const int64_t worst[] = {1, 2, 0, 3};
            assert_memory_equal(j.metrics.worst, worst, sizeof worst);
        }
        write_exact(&j.t, j.reference);
        for (int i = 0; i < 3; i++) {
            j.t.lse[5] = (float)wrong[i];
            assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
        }
        assert_true(j.metrics.bound_ratio == 0.0);
        assert_int_equal(
            attune_judge(j.reference, &j.arithmetic, j.t.tensors[TRIAL_O], NULL, &j.metrics),
            ATTUNE_OK);
        assert_int_equal(j.metrics.verdict, ATTUNE_VERDICT_PASS);
        assert_true(j.metrics.lse_bound_ratio == 0.0 && j.metrics.lse_max_abs == 0.0);
        judgement_end(&j);
    }
}

/* Rows 0 and 1 see no key. */
static void a_row_without_keys_is_zero_and_minus_infinity(void **state)
{
    (void)state;
    judgement j = judgement_begin(
        "op=forward,b=1,hq=1,hkv=1,sq=4,sk=2,d=4,dtype=f16,mask=causal,lse=1", ATTUNE_FILL_normal);
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
    j.t.lse[1] = -65504.0f;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    assert_true(j.metrics.lse_bound_ratio == INFINITY);
    j.t.lse[1] = NAN;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    j.t.lse[1] = -INFINITY;
    set(&j.t, TRIAL_O, 0, 1, 0, 0, 0x1p-24);
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    set(&j.t, TRIAL_O, 0, 1, 0, 0, -0.0);
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
    judgement_end(&j);
}

static void nan_must_be_nan_and_infinity_infinity(void **state)
{
    (void)state;
    judgement j = judgement_begin(
        "op=forward,b=1,hq=1,hkv=1,sq=3,sk=5,d=4,dtype=f32,mask=causal,lse=1", ATTUNE_FILL_poison);
    assert_true(isnan(j.reference->o[8]) && isnan(j.reference->lse[2]));
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, 1.0);
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, INFINITY);
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, NAN);
    j.t.lse[2] = 0.0f;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_FAIL);
    j.t.lse[2] = NAN;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
    judgement_end(&j);

    trial t = trial_filled(ORDINARY ",dtype=f32", ATTUNE_FILL_normal, 11);
    set(&t, TRIAL_V, 0, 0, 0, 0, -INFINITY);
    j = (judgement){.t = t, .reference = trial_reference(&t)};
    j.arithmetic = fp32_arithmetic(&t.problem, 32);
    write_exact(&j.t, j.reference);
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_PASS);
    const double others[] = {-INFINITY, NAN, INFINITY, -3e38, 0.0};
    for (int i = 0; i < 5; i++) {
        set(&j.t, TRIAL_O, 0, 0, 0, 0, others[i]);
        assert_int_equal(judgement_verdict(&j), i < 2 ? ATTUNE_VERDICT_PASS : ATTUNE_VERDICT_FAIL);
    }
    judgement_end(&j);
}

/* One key, so that O = v whatever the scores; the bound is widened by a large eta_p. */
static void overflow_goes_to_infinity_within_the_bound(void **state)
{
    (void)state;
    const attune_problem problem =
        problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=1,dv=2,dtype=f16,scale=0");
    attune_error_terms terms[2] = {{.underflow = 0.0}, {.underflow = 0.0}}, lse_terms = terms[0];
    double o[2] = {0.0, 1.0}, lse = 0.0;
    int64_t visible = 2;
    const attune_reference reference = {.problem = problem,
                                        .o = o,
                                        .lse = &lse,
                                        .o_terms = terms,
                                        .lse_terms = &lse_terms,
                                        .visible = &visible};
    const attune_arithmetic arithmetic = {.u_out = 0x1p-11, .eta_p = 1.0};
    const double largest = 65504.0, overflow = 65520.0;
    const struct {
        double exact, slack, output;
        bool good;
    } cases[] = {
        {1e6, 0.0, INFINITY, true},
        {1e6, 0.0, -INFINITY, false},
        {-1e6, 0.0, -INFINITY, true},
        {1e6, 0.0, largest, false},
        {1e6, 0.0, NAN, false},
        {overflow, 0.0, largest, true},
        {overflow, 0.0, INFINITY, true},
        {overflow + 10.0, 0.0, largest, true},
        {overflow + 100.0, 0.0, largest, false},
        {overflow + 100.0, 100.0, largest, true},
        {largest, 0.0, INFINITY, true},
        {65000.0, 0.0, INFINITY, false},
        {65000.0, 1000.0, INFINITY, true},
        {65000.0, 1000.0, -INFINITY, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        o[0] = cases[i].exact;
        terms[0].underflow = cases[i].slack;
        const float outputs[2] = {(float)cases[i].output, 1.0f};
        uint16_t stored[2];
        attune_convert_from_f32(ATTUNE_F16, outputs, stored, 2);
        attune_metrics metrics;
        assert_int_equal(attune_judge(&reference, &arithmetic, stored, NULL, &metrics), ATTUNE_OK);
        if ((metrics.verdict != ATTUNE_VERDICT_FAIL) != cases[i].good)
            fail_msg("%g for %g, slack %g: %s, bound_ratio %g", cases[i].output, cases[i].exact,
                     cases[i].slack, attune_verdict_name(metrics.verdict), metrics.bound_ratio);
    }
}

/* Stored numbers are 32 apart there, 2^-24 below the least normal one. */
static void units_are_those_of_the_exact_value(void **state)
{
    (void)state;
    const double at[][2] = {{40000.0, 40032.0}, {65504.0, 65472.0}, {0x1p-20, 0x11p-24},
                            {0.0, 0x1p-24},     {2048.0, 2050.0},   {-1.0, -0x1.004p0}};
    for (int i = 0; i < 6; i++) {
        judgement j = judgement_begin(
            "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dv=2,dtype=f16,lse=1", ATTUNE_FILL_normal);
        j.reference->o[0] = at[i][0];
        set(&j.t, TRIAL_O, 0, 0, 0, 0, at[i][1]);
        judgement_verdict(&j);
        assert_true(fabs(j.metrics.max_ulp - 1.0) < 1e-12);
        judgement_end(&j);
    }
}

static void an_unbounded_row_accepts_anything_and_proves_nothing(void **state)
{
    (void)state;
    judgement j = judgement_begin(
        "op=forward,b=1,hq=1,hkv=1,sq=3,sk=5,d=4,dtype=f32,scale=1e38,lse=1", ATTUNE_FILL_normal);
    set(&j.t, TRIAL_O, 0, 1, 0, 1, NAN);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, 17.0);
    j.t.lse[0] = INFINITY;
    assert_int_equal(judgement_verdict(&j), ATTUNE_VERDICT_MISTRUSTED);
    judgement_end(&j);
}

static void what_a_constant_would_pass_is_mistrusted(void **state)
{
    (void)state;
    const struct {
        const char *problem;
        attune_fill fill;
        attune_verdict verdict;
    } cases[] = {
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=9,d=8,dv=1,dtype=f32", ATTUNE_FILL_normal,
         ATTUNE_VERDICT_MISTRUSTED}, /* one element */
        {"op=forward,b=1,hq=2,hkv=1,sq=3,sk=0,d=8,dtype=f32", ATTUNE_FILL_normal,
         ATTUNE_VERDICT_MISTRUSTED}, /* zeros */
        {"op=forward,b=1,hq=1,hkv=1,sq=4,sk=9,d=8,dv=1,dtype=bf16", ATTUNE_FILL_constant,
         ATTUNE_VERDICT_MISTRUSTED}, /* ones */
        {"op=forward,b=0,hq=1,hkv=1,sq=4,sk=9,d=8,dtype=f16", ATTUNE_FILL_normal,
         ATTUNE_VERDICT_MISTRUSTED}, /* nothing */
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=9,d=8,dv=2,dtype=f32", ATTUNE_FILL_normal,
         ATTUNE_VERDICT_PASS},
        {"op=forward,b=1,hq=1,hkv=1,sq=4,sk=9,d=8,dv=2,dtype=bf16", ATTUNE_FILL_constant,
         ATTUNE_VERDICT_PASS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        judgement j = judgement_begin(cases[i].problem, cases[i].fill);
        assert_int_equal(judgement_verdict(&j), cases[i].verdict);
        attune_metrics pair;
        assert_int_equal(attune_judge_pair(j.reference, &j.arithmetic, j.t.tensors[TRIAL_O],
                                           j.t.lse, &j.arithmetic, j.t.tensors[TRIAL_O], j.t.lse,
                                           &pair),
                         ATTUNE_OK);
        assert_int_equal(pair.verdict, cases[i].verdict);
        judgement_end(&j);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    judgement j = judgement_begin(ORDINARY ",dtype=f32", ATTUNE_FILL_normal);
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;
    const void *const o = j.t.tensors[TRIAL_O];
    const attune_arithmetic *const a = &j.arithmetic;
    attune_metrics m;
    assert_int_equal(attune_judge(NULL, a, o, NULL, &m), bad);
    assert_int_equal(attune_judge(j.reference, NULL, o, NULL, &m), bad);
    assert_int_equal(attune_judge(j.reference, a, NULL, NULL, &m), bad);
    assert_int_equal(attune_judge(j.reference, a, o, NULL, NULL), bad);
    assert_int_equal(attune_judge_pair(j.reference, a, o, NULL, NULL, o, NULL, &m), bad);
    assert_int_equal(attune_judge_pair(j.reference, a, o, NULL, a, NULL, NULL, &m), bad);
    assert_string_equal(attune_verdict_name(ATTUNE_VERDICT_MISTRUSTED), "MISTRUSTED");
    assert_string_equal(attune_verdict_name(ATTUNE_VERDICT_SKIPPED), "SKIPPED");
    judgement_end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_answer_passes),
        cmocka_unit_test(metrics_are_what_the_header_says),
        cmocka_unit_test(the_bound_decides),
        cmocka_unit_test(subnormals_may_count_as_zero_where_the_unit_flushes),
        cmocka_unit_test(what_was_not_written_fails),
        cmocka_unit_test(a_row_without_keys_is_zero_and_minus_infinity),
        cmocka_unit_test(nan_must_be_nan_and_infinity_infinity),
        cmocka_unit_test(overflow_goes_to_infinity_within_the_bound),
        cmocka_unit_test(units_are_those_of_the_exact_value),
        cmocka_unit_test(an_unbounded_row_accepts_anything_and_proves_nothing),
        cmocka_unit_test(what_a_constant_would_pass_is_mistrusted),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
