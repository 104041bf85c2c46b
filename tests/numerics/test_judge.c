/* Verdicts and metrics on outputs made by hand. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The exact answer rounded to the type, and lse to fp32: what the best kernel could give. */
static void write_exact(trial *t, const attune_reference *r)
{
    const attune_problem *const p = &t->problem;
    int64_t at = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->seqlen_q; i++)
            for (int64_t h = 0; h < p->heads_q; h++)
                for (int64_t d = 0; d < p->head_dim_v; d++) set(t, TRIAL_O, b, i, h, d, r->o[at++]);
    for (int64_t i = 0; i < p->batch * p->heads_q * p->seqlen_q; i++) t->lse[i] = (float)r->lse[i];
}

typedef struct judgement {
    trial t;
    attune_reference *reference;
    attune_arithmetic arithmetic;
    attune_metrics metrics;
} judgement;

static judgement begin(const char *problem, attune_fill fill)
{
    judgement j = {.t = trial_filled(problem, fill, 11)};
    j.reference = trial_reference(&j.t);
    j.arithmetic = fp32_arithmetic(&j.t.problem, 32);
    write_exact(&j.t, j.reference);
    return j;
}

static attune_verdict judge(judgement *j)
{
    memset(&j->metrics, 0x55, sizeof j->metrics);
    assert_int_equal(
        attune_judge(j->reference, &j->arithmetic, j->t.tensors[TRIAL_O], j->t.lse, &j->metrics),
        ATTUNE_OK);
    return j->metrics.verdict;
}

static void end(judgement *j)
{
    attune_reference_destroy(j->reference);
    trial_destroy(&j->t);
}

static double bound_of(const judgement *j, int64_t index)
{
    return attune_bound_o(&j->arithmetic, &j->reference->o_terms[index], j->reference->o[index],
                          j->t.problem.dtype);
}

#define ORDINARY "op=forward,b=2,hq=2,hkv=1,sq=3,sk=40,d=8,dv=5,lse=1"

static void the_exact_answer_passes(void **state)
{
    (void)state;
    const char *const problems[] = {ORDINARY ",dtype=f32", ORDINARY ",dtype=f16",
                                    ORDINARY ",dtype=bf16,mask=causal",
                                    ORDINARY ",dtype=f16,o_strides=1000:70:30:1"};
    for (int i = 0; i < 4; i++) {
        judgement j = begin(problems[i], ATTUNE_FILL_normal);
        assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
        assert_true(j.metrics.bound_ratio == 0.0);
        assert_true(j.metrics.max_ulp <= 0.5 && j.metrics.max_ulp > 0.25);
        assert_true(j.metrics.lse_bound_ratio < 0.1);
        assert_int_equal(j.metrics.elements, 2 * 3 * 2 * 5);
        assert_int_equal(j.metrics.differ, 0);
        end(&j);
    }
}

static void metrics_are_what_the_header_says(void **state)
{
    (void)state;
    judgement j = begin(ORDINARY ",dtype=f32", ATTUNE_FILL_normal);
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
    assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
    const attune_metrics *const m = &j.metrics;
    assert_true(fabs(m->max_abs / 0x1p-4 - 1.0) < 1e-6);
    assert_true(fabs(m->rms_rel - sqrt(error_squares / exact_squares)) < 1e-12);
    assert_true(fabs(m->bias - errors / sqrt(60.0 * error_squares)) < 1e-12);
    assert_true(fabs(m->max_ulp / max_ulp - 1.0) < 1e-12);
    assert_true(fabs(m->lse_max_abs - 0.25) < 1e-6);
    assert_true(m->lse_bound_ratio > 1.0);
    const double ulp = ldexp(1.0, ilogb(j.reference->o[47]) - 23);
    assert_true(fabs(m->bound_ratio / ((m->max_abs - ulp / 2) / (bound_of(&j, 47) - ulp / 2)) -
                     1.0) < 1e-6);
    const int64_t worst[] = {1, 1, 1, 2};
    assert_memory_equal(m->worst, worst, sizeof worst);
    end(&j);
}

/* Moves one element by a multiple of its bound beyond rounding, with and without. */
static void the_bound_decides(void **state)
{
    (void)state;
    judgement j = begin(ORDINARY ",dtype=f32", ATTUNE_FILL_peaked);
    const double exact = j.reference->o[0], bound = bound_of(&j, 0);
    const struct {
        double share;
        attune_verdict verdict;
    } cases[] = {{0.5, ATTUNE_VERDICT_PASS},     {0.7, ATTUNE_VERDICT_PASS},
                 {0.9, ATTUNE_VERDICT_MARGINAL}, {0.98, ATTUNE_VERDICT_MARGINAL},
                 {1.02, ATTUNE_VERDICT_FAIL},    {3.0, ATTUNE_VERDICT_FAIL}};
    for (int i = 0; i < 6; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            set(&j.t, TRIAL_O, 0, 0, 0, 0, exact + sign * cases[i].share * bound);
            if (judge(&j) != cases[i].verdict)
                fail_msg("%g of the bound: %s", cases[i].share,
                         attune_verdict_name(j.metrics.verdict));
        }
    set(&j.t, TRIAL_O, 0, 0, 0, 0, exact);
    const float lse = j.t.lse[3];
    const double bound_lse = attune_bound_lse(&j.arithmetic, &j.reference->lse_terms[3],
                                              j.reference->lse[3], j.reference->visible[3]);
    for (int i = 0; i < 6; i++) {
        j.t.lse[3] = (float)(j.reference->lse[3] - cases[i].share * bound_lse);
        assert_int_equal(judge(&j), cases[i].verdict);
    }
    j.t.lse[3] = lse;
    assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
    end(&j);
}

static void what_was_not_written_fails(void **state)
{
    (void)state;
    for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++) {
        char text[256];
        snprintf(text, sizeof text, ORDINARY ",dtype=%s", attune_dtype_name((attune_dtype)dtype));
        judgement j = begin(text, ATTUNE_FILL_normal);
        const double wrong[] = {NAN, INFINITY, -INFINITY};
        for (int i = 0; i < 3; i++) {
            set(&j.t, TRIAL_O, 1, 2, 0, 3, wrong[i]);
            assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
            assert_true(j.metrics.bound_ratio > 1e6);
            if (i == 0) assert_true(j.metrics.bound_ratio == INFINITY);
            if (i == 0) assert_true(isfinite(j.metrics.max_abs) && isfinite(j.metrics.rms_rel));
            const int64_t worst[] = {1, 2, 0, 3};
            assert_memory_equal(j.metrics.worst, worst, sizeof worst);
        }
        write_exact(&j.t, j.reference);
        for (int i = 0; i < 3; i++) {
            j.t.lse[5] = (float)wrong[i];
            assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
        }
        assert_true(j.metrics.bound_ratio == 0.0);
        assert_int_equal(
            attune_judge(j.reference, &j.arithmetic, j.t.tensors[TRIAL_O], NULL, &j.metrics),
            ATTUNE_OK);
        assert_int_equal(j.metrics.verdict, ATTUNE_VERDICT_PASS);
        assert_true(j.metrics.lse_bound_ratio == 0.0 && j.metrics.lse_max_abs == 0.0);
        end(&j);
    }
}

/* Rows 0 and 1 see no key. */
static void a_row_without_keys_is_zero_and_minus_infinity(void **state)
{
    (void)state;
    judgement j = begin("op=forward,b=1,hq=1,hkv=1,sq=4,sk=2,d=4,dtype=f16,mask=causal,lse=1",
                        ATTUNE_FILL_normal);
    assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
    j.t.lse[1] = -65504.0f;
    assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
    assert_true(j.metrics.lse_bound_ratio == INFINITY);
    j.t.lse[1] = -INFINITY;
    set(&j.t, TRIAL_O, 0, 1, 0, 0, 0x1p-24);
    assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
    set(&j.t, TRIAL_O, 0, 1, 0, 0, -0.0);
    assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
    end(&j);
}

static void nan_must_be_nan_and_infinity_infinity(void **state)
{
    (void)state;
    judgement j = begin("op=forward,b=1,hq=1,hkv=1,sq=3,sk=5,d=4,dtype=f32,mask=causal,lse=1",
                        ATTUNE_FILL_poison);
    assert_true(isnan(j.reference->o[8]) && isnan(j.reference->lse[2]));
    assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, 1.0);
    assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, INFINITY);
    assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, NAN);
    j.t.lse[2] = 0.0f;
    assert_int_equal(judge(&j), ATTUNE_VERDICT_FAIL);
    j.t.lse[2] = NAN;
    assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
    end(&j);

    trial t = trial_filled(ORDINARY ",dtype=f32", ATTUNE_FILL_normal, 11);
    set(&t, TRIAL_V, 0, 0, 0, 0, -INFINITY);
    j = (judgement){.t = t, .reference = trial_reference(&t)};
    j.arithmetic = fp32_arithmetic(&t.problem, 32);
    write_exact(&j.t, j.reference);
    assert_int_equal(judge(&j), ATTUNE_VERDICT_PASS);
    const double others[] = {-INFINITY, NAN, INFINITY, -3e38, 0.0};
    for (int i = 0; i < 5; i++) {
        set(&j.t, TRIAL_O, 0, 0, 0, 0, others[i]);
        assert_int_equal(judge(&j), i < 2 ? ATTUNE_VERDICT_PASS : ATTUNE_VERDICT_FAIL);
    }
    end(&j);
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

static void an_unbounded_row_accepts_anything_and_proves_nothing(void **state)
{
    (void)state;
    judgement j = begin("op=forward,b=1,hq=1,hkv=1,sq=3,sk=5,d=4,dtype=f32,scale=1e38,lse=1",
                        ATTUNE_FILL_normal);
    set(&j.t, TRIAL_O, 0, 1, 0, 1, NAN);
    set(&j.t, TRIAL_O, 0, 2, 0, 1, 17.0);
    j.t.lse[0] = INFINITY;
    assert_int_equal(judge(&j), ATTUNE_VERDICT_MISTRUSTED);
    end(&j);
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
        judgement j = begin(cases[i].problem, cases[i].fill);
        assert_int_equal(judge(&j), cases[i].verdict);
        attune_metrics pair;
        assert_int_equal(attune_judge_pair(j.reference, &j.arithmetic, j.t.tensors[TRIAL_O],
                                           j.t.lse, &j.arithmetic, j.t.tensors[TRIAL_O], j.t.lse,
                                           &pair),
                         ATTUNE_OK);
        assert_int_equal(pair.verdict, cases[i].verdict);
        end(&j);
    }
}

/* ---- pairs ---- */

static attune_metrics judge_pair(const judgement *j, const trial *b)
{
    attune_metrics metrics;
    assert_int_equal(attune_judge_pair(j->reference, &j->arithmetic, j->t.tensors[TRIAL_O],
                                       j->t.lse, &j->arithmetic, b->tensors[TRIAL_O], b->lse,
                                       &metrics),
                     ATTUNE_OK);
    return metrics;
}

static void pairs_are_compared_bit_by_bit_and_by_both_bounds(void **state)
{
    (void)state;
    judgement j = begin(ORDINARY ",dtype=f32,o_strides=1000:70:30:1", ATTUNE_FILL_peaked);
    trial b = trial_create(&j.t.problem);
    write_exact(&b, j.reference);
    attune_metrics m = judge_pair(&j, &b);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_PASS);
    assert_int_equal(m.differ, 0);
    assert_true(m.max_abs == 0.0 && m.bound_ratio == 0.0 && m.rms_rel == 0.0 && m.bias == 0.0);

    const double exact = j.reference->o[0], bound = bound_of(&j, 0);
    set(&j.t, TRIAL_O, 0, 0, 0, 0, exact + 0.7 * bound);
    set(&b, TRIAL_O, 0, 0, 0, 0, exact - 0.7 * bound);
    b.lse[4] = nextafterf(b.lse[4], 0.0f);
    m = judge_pair(&j, &b);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_PASS);
    assert_int_equal(m.differ, 2);
    assert_true(fabs(m.max_abs / (1.4 * bound) - 1.0) < 0.05);
    assert_true(m.bias > 0.0);
    assert_true(m.lse_max_abs > 0.0);

    set(&b, TRIAL_O, 0, 0, 0, 0, exact - 1.4 * bound);
    assert_int_equal(judge_pair(&j, &b).verdict, ATTUNE_VERDICT_FAIL);
    end(&j);
    trial_destroy(&b);
}

static void nan_equals_nan_but_agrees_only_where_it_belongs(void **state)
{
    (void)state;
    judgement j = begin("op=forward,b=1,hq=1,hkv=1,sq=3,sk=5,d=4,dtype=f16,mask=causal,lse=1",
                        ATTUNE_FILL_poison);
    trial b = trial_create(&j.t.problem);
    write_exact(&b, j.reference);
    uint16_t *const bits = (uint16_t *)b.tensors[TRIAL_O] + 8;
    *bits ^= 0x8001;
    attune_metrics m = judge_pair(&j, &b);
    assert_int_equal(m.differ, 0);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_PASS);

    set(&b, TRIAL_O, 0, 2, 0, 0, 0.0);
    m = judge_pair(&j, &b);
    assert_int_equal(m.differ, 1);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_FAIL);
    set(&b, TRIAL_O, 0, 2, 0, 0, NAN);

    set(&j.t, TRIAL_O, 0, 0, 0, 0, NAN);
    set(&b, TRIAL_O, 0, 0, 0, 0, NAN);
    m = judge_pair(&j, &b);
    assert_int_equal(m.differ, 0);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_FAIL);
    end(&j);
    trial_destroy(&b);
}

static void zeros_of_two_signs_differ_in_bits_only(void **state)
{
    (void)state;
    judgement j = begin("op=forward,b=1,hq=1,hkv=1,sq=4,sk=2,d=4,dtype=bf16,mask=causal,lse=1",
                        ATTUNE_FILL_normal);
    trial b = trial_create(&j.t.problem);
    write_exact(&b, j.reference);
    set(&b, TRIAL_O, 0, 0, 0, 2, -0.0);
    const attune_metrics m = judge_pair(&j, &b);
    assert_int_equal(m.differ, 1);
    assert_true(m.max_abs == 0.0);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_PASS);
    end(&j);
    trial_destroy(&b);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    judgement j = begin(ORDINARY ",dtype=f32", ATTUNE_FILL_normal);
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
    end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_answer_passes),
        cmocka_unit_test(metrics_are_what_the_header_says),
        cmocka_unit_test(the_bound_decides),
        cmocka_unit_test(what_was_not_written_fails),
        cmocka_unit_test(a_row_without_keys_is_zero_and_minus_infinity),
        cmocka_unit_test(nan_must_be_nan_and_infinity_infinity),
        cmocka_unit_test(overflow_goes_to_infinity_within_the_bound),
        cmocka_unit_test(an_unbounded_row_accepts_anything_and_proves_nothing),
        cmocka_unit_test(what_a_constant_would_pass_is_mistrusted),
        cmocka_unit_test(pairs_are_compared_bit_by_bit_and_by_both_bounds),
        cmocka_unit_test(nan_equals_nan_but_agrees_only_where_it_belongs),
        cmocka_unit_test(zeros_of_two_signs_differ_in_bits_only),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
