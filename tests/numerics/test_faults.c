/* Judges the judge: a right kernel passes with room to spare, whatever the input, and each fault is caught by the fill that is there for it. */
#include "tiled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* From the dtype on it is the test's. */
static const char *const shapes[] = {
    "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1",
    "op=forward,b=1,hq=1,hkv=1,sq=1,sk=300,d=64",
    "op=forward,b=1,hq=2,hkv=1,sq=5,sk=70,d=8",
    "op=forward,b=2,hq=4,hkv=2,sq=19,sk=37,d=16,dv=24,mask=causal",
    "op=forward,b=1,hq=1,hkv=1,sq=40,sk=17,d=2,mask=causal",
    "op=forward,b=1,hq=1,hkv=1,sq=24,sk=300,d=64,mask=causal",
    "op=forward,b=1,hq=1,hkv=1,sq=24,sk=64,d=128,mask=causal-top-left",
    "op=forward,b=1,hq=1,hkv=1,sq=9,sk=33,d=1,scale=-0.5",
    "op=forward,b=1,hq=1,hkv=1,sq=4,sk=40,d=32,scale=0",
    "op=forward,b=1,hq=1,hkv=1,sq=4,sk=40,d=32,scale=1000",
};

/* By the arithmetic of a plain fp32 kernel, but for operands that are said to be read with roundoff u_in. */
static attune_metrics judged_with(double u_in, const char *shape, attune_dtype dtype,
                                  attune_fill fill, int64_t block_k, fault f)
{
    char text[256];
    snprintf(text, sizeof text, "%s,dtype=%s,lse=1", shape, attune_dtype_name(dtype));
    trial t = trial_filled(text, fill, 7);
    attune_reference *const reference = trial_reference(&t);
    attune_arithmetic arithmetic = fp32_arithmetic(&t.problem, block_k);
    arithmetic.u_in = u_in;
    tiled_forward(&t, block_k, f);
    attune_metrics metrics;
    assert_int_equal(attune_judge(reference, &arithmetic, t.tensors[TRIAL_O], t.lse, &metrics),
                     ATTUNE_OK);
    attune_reference_destroy(reference);
    trial_destroy(&t);
    return metrics;
}

static attune_metrics judged(const char *shape, attune_dtype dtype, attune_fill fill,
                             int64_t block_k, fault f)
{
    return judged_with(0.0, shape, dtype, fill, block_k, f);
}

static void a_right_kernel_passes(void **state)
{
    (void)state;
    double worst[3] = {0.0}, worst_lse = 0.0;
    int verdicts[ATTUNE_VERDICT_SKIPPED + 1] = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++)
            for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++)
                for (int64_t block_k = 16; block_k <= 64; block_k *= 4) {
                    const attune_metrics m = judged(shapes[i], (attune_dtype)dtype,
                                                    (attune_fill)fill, block_k, FAULT_no_fault);
                    if (!(m.bound_ratio < 0.8 && m.lse_bound_ratio < 0.8))
                        fail_msg("%s,dtype=%s, %s: bound_ratio %g, lse_bound_ratio %g", shapes[i],
                                 attune_dtype_name((attune_dtype)dtype),
                                 attune_fill_name((attune_fill)fill), m.bound_ratio,
                                 m.lse_bound_ratio);
                    worst[dtype] = fmax(worst[dtype], m.bound_ratio);
                    worst_lse = fmax(worst_lse, m.lse_bound_ratio);
                    verdicts[m.verdict]++;
                }
    print_message("bound_ratio up to %.3f f32, %.3f f16, %.3f bf16, lse %.3f; PASS %d, "
                  "MISTRUSTED %d\n",
                  worst[ATTUNE_F32], worst[ATTUNE_F16], worst[ATTUNE_BF16], worst_lse,
                  verdicts[ATTUNE_VERDICT_PASS], verdicts[ATTUNE_VERDICT_MISTRUSTED]);
}

/* On a problem of ordinary size no fill is so uniform that it proves nothing. */
static void every_fill_can_be_trusted(void **state)
{
    (void)state;
    for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++)
        for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++)
            for (size_t i = 1; i < 7; i++) {
                const attune_metrics m =
                    judged(shapes[i], (attune_dtype)dtype, (attune_fill)fill, 32, FAULT_no_fault);
                if (m.verdict != ATTUNE_VERDICT_PASS)
                    fail_msg("%s,dtype=%s, %s: %s", shapes[i],
                             attune_dtype_name((attune_dtype)dtype),
                             attune_fill_name((attune_fill)fill), attune_verdict_name(m.verdict));
            }
}

enum { F32 = 1 << ATTUNE_F32, F16 = 1 << ATTUNE_F16, BF16 = 1 << ATTUNE_BF16, ALL = 7 };

typedef struct finding {
    fault f;
    attune_fill fill;
    int dtypes; /* in which it is caught: errors below half a unit of bf16 are none */
    const char *shape;
} finding;

#define LONG "op=forward,b=1,hq=1,hkv=1,sq=7,sk=300,d=64"
#define CAUSAL "op=forward,b=1,hq=1,hkv=1,sq=40,sk=75,d=32,mask=causal"
#define GROUPS "op=forward,b=1,hq=4,hkv=2,sq=5,sk=40,d=16"

static const finding findings[] = {
    {FAULT_dropped_rescale, ATTUNE_FILL_ramp, ALL, LONG},
    {FAULT_dropped_key, ATTUNE_FILL_needle, ALL, LONG},
    {FAULT_dropped_key, ATTUNE_FILL_needle, ALL, CAUSAL},
    {FAULT_swapped_values, ATTUNE_FILL_needle, ALL, LONG},
    {FAULT_scale_off, ATTUNE_FILL_peaked, ALL, LONG},
    {FAULT_scale_off, ATTUNE_FILL_normal, F32 | F16, LONG},
    {FAULT_f16_output, ATTUNE_FILL_offset, F32 | F16, LONG},
    {FAULT_f16_scores, ATTUNE_FILL_outlier, F32 | F16, LONG},
    {FAULT_f16_scores, ATTUNE_FILL_huge, ALL, LONG},
    {FAULT_truncated_p, ATTUNE_FILL_tied, F16 | BF16, LONG},
    {FAULT_no_tail_mask, ATTUNE_FILL_constant, ALL, LONG},
    {FAULT_finite_start, ATTUNE_FILL_huge, ALL, LONG},
    {FAULT_finite_start, ATTUNE_FILL_huge, ALL, CAUSAL},
    {FAULT_denominator_off, ATTUNE_FILL_constant, F32 | F16, LONG},
    {FAULT_lse_one_key, ATTUNE_FILL_normal, ALL, LONG},
    {FAULT_lse_base_2, ATTUNE_FILL_normal, ALL, LONG},
    {FAULT_causal_off_by_one, ATTUNE_FILL_normal, ALL, CAUSAL},
    {FAULT_causal_off_by_one, ATTUNE_FILL_ramp, ALL, CAUSAL},
    {FAULT_hidden_times_zero, ATTUNE_FILL_poison, ALL, CAUSAL},
    {FAULT_dropped_dimension, ATTUNE_FILL_lastdim, ALL, LONG},
    {FAULT_flushed_denormals, ATTUNE_FILL_denormal, ALL, LONG},
    {FAULT_tf32_operands, ATTUNE_FILL_normal, F32, LONG},
    {FAULT_tf32_operands, ATTUNE_FILL_denormal, F32, LONG},
    {FAULT_wrong_head, ATTUNE_FILL_needle, ALL, GROUPS},
    {FAULT_unwritten_row, ATTUNE_FILL_normal, ALL, LONG},
};

static void every_fault_is_caught(void **state)
{
    (void)state;
    bool caught[FAULT_COUNT] = {[FAULT_no_fault] = true, [FAULT_truncated_sum] = true};
    for (size_t i = 0; i < sizeof findings / sizeof findings[0]; i++) {
        const finding *const n = &findings[i];
        for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++) {
            if ((n->dtypes & (1 << dtype)) == 0) continue;
            const attune_metrics right =
                judged(n->shape, (attune_dtype)dtype, n->fill, 32, FAULT_no_fault);
            const attune_metrics wrong = judged(n->shape, (attune_dtype)dtype, n->fill, 32, n->f);
            if (right.verdict != ATTUNE_VERDICT_PASS || wrong.verdict != ATTUNE_VERDICT_FAIL)
                fail_msg("%s, fill %s, %s: %s without it, %s with it, bound_ratio %g",
                         fault_name(n->f), attune_fill_name(n->fill),
                         attune_dtype_name((attune_dtype)dtype), attune_verdict_name(right.verdict),
                         attune_verdict_name(wrong.verdict), wrong.bound_ratio);
        }
        caught[n->f] = true;
    }
    for (int f = 0; f < FAULT_COUNT; f++) assert_true(caught[f]);
}

/* Reading f32 as tf32 is a fault of a kernel that does not say so, and none of one that does. */
static void shorter_operands_are_owned_up_to(void **state)
{
    (void)state;
    double worst = 0.0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++) {
            const attune_metrics m = judged_with(0x1p-11, shapes[i], ATTUNE_F32, (attune_fill)fill,
                                                 32, FAULT_tf32_operands);
            if (!(m.bound_ratio <= 1.0 && m.lse_bound_ratio <= 1.0))
                fail_msg("%s, %s: bound_ratio %g, lse_bound_ratio %g", shapes[i],
                         attune_fill_name((attune_fill)fill), m.bound_ratio, m.lse_bound_ratio);
            worst = fmax(worst, m.bound_ratio);
        }
    print_message("bound_ratio up to %.3f with tf32 operands\n", worst);
    assert_true(worst > 0.25); /* no more is allowed than is needed */
}

/* Truncation stays within the bound of an arithmetic that owns up to it, but rounds one way only. */
static void truncation_is_a_bias(void **state)
{
    (void)state;
    const struct {
        fault f;
        attune_fill fill;
        attune_dtype dtype;
    } truncations[] = {{FAULT_truncated_p, ATTUNE_FILL_tied, ATTUNE_F16},
                       {FAULT_truncated_p, ATTUNE_FILL_tied, ATTUNE_BF16},
                       {FAULT_truncated_sum, ATTUNE_FILL_offset, ATTUNE_F32}};
    for (int i = 0; i < 3; i++) {
        const attune_dtype dtype = truncations[i].dtype;
        const attune_fill fill = truncations[i].fill;
        const double right = judged(LONG, dtype, fill, 32, FAULT_no_fault).bias;
        const double wrong = judged(LONG, dtype, fill, 32, truncations[i].f).bias;
        if (!(wrong < -0.4 && wrong < right - 0.3))
            fail_msg("%s: bias %g without it, %g with it", fault_name(truncations[i].f), right,
                     wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_kernel_passes), cmocka_unit_test(every_fill_can_be_trusted),
        cmocka_unit_test(every_fault_is_caught), cmocka_unit_test(shorter_operands_are_owned_up_to),
        cmocka_unit_test(truncation_is_a_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
