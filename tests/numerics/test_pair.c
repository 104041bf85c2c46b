/* Two outputs against each other. */
#include "judgement.h"

#include <math.h>

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
    judgement j = judgement_begin(ORDINARY ",dtype=f32,o_strides=1000:70:30:1", ATTUNE_FILL_peaked);
    trial b = trial_create(&j.t.problem);
    write_exact(&b, j.reference);
    attune_metrics m = judge_pair(&j, &b);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_PASS);
    assert_int_equal(m.differ, 0);
    assert_true(m.max_abs == 0.0 && m.bound_ratio == 0.0 && m.rms_rel == 0.0 && m.bias == 0.0);

    const double exact = j.reference->o[0], bound = judgement_bound(&j, 0);
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
    judgement_end(&j);
    trial_destroy(&b);
}

/* Neighbours in a 16-bit type: the exact value may have lain between them. */
static void one_unit_apart_is_nothing_but_storage(void **state)
{
    (void)state;
    judgement j = judgement_begin(ORDINARY ",dtype=bf16", ATTUNE_FILL_normal);
    trial b = trial_create(&j.t.problem);
    write_exact(&b, j.reference);
    uint16_t *const bits = b.tensors[TRIAL_O];
    bits[0] += 1;
    attune_metrics m = judge_pair(&j, &b);
    assert_int_equal(m.differ, 1);
    assert_true(m.bound_ratio == 0.0 && fabs(m.max_ulp - 1.0) < 1e-12);
    bits[0] += 1;
    m = judge_pair(&j, &b);
    assert_true(m.bound_ratio > 1.0);
    judgement_end(&j);
    trial_destroy(&b);
}

static void nan_equals_nan_but_agrees_only_where_it_belongs(void **state)
{
    (void)state;
    judgement j = judgement_begin(
        "op=forward,b=1,hq=1,hkv=1,sq=3,sk=5,d=4,dtype=f16,mask=causal,lse=1", ATTUNE_FILL_poison);
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
    judgement_end(&j);
    trial_destroy(&b);
}

static void zeros_of_two_signs_differ_in_bits_only(void **state)
{
    (void)state;
    judgement j = judgement_begin(
        "op=forward,b=1,hq=1,hkv=1,sq=4,sk=2,d=4,dtype=bf16,mask=causal,lse=1", ATTUNE_FILL_normal);
    trial b = trial_create(&j.t.problem);
    write_exact(&b, j.reference);
    set(&b, TRIAL_O, 0, 0, 0, 2, -0.0);
    const attune_metrics m = judge_pair(&j, &b);
    assert_int_equal(m.differ, 1);
    assert_true(m.max_abs == 0.0);
    assert_int_equal(m.verdict, ATTUNE_VERDICT_PASS);
    judgement_end(&j);
    trial_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_compared_bit_by_bit_and_by_both_bounds),
        cmocka_unit_test(one_unit_apart_is_nothing_but_storage),
        cmocka_unit_test(nan_equals_nan_but_agrees_only_where_it_belongs),
        cmocka_unit_test(zeros_of_two_signs_differ_in_bits_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
