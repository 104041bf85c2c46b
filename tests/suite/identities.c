/* What attention must satisfy whatever its rounding: identities that need no trusted answer, only the error bound. Every test runs on each
 * device and for every dtype. */
#include "probe.h"

#include <math.h>
#include <stdio.h>

/* ---- what V means ---- */

/* Every key holds the same value: o is that value, for any number of keys. */
static void constant_values(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    for (int keys = 1; keys <= 70; keys++) {
        char text[64];
        snprintf(text, sizeof text, "b=1,hq=1,hkv=1,sq=3,sk=%d,d=24,dv=20", keys);
        inputs in = inputs_of(text, dtype);
        for (int j = 1; j < keys; j++)
            for (int d = 0; d < 20; d++)
                set(&in, TENSOR_V, 0, j, 0, d, get(&in, TENSOR_V, 0, 0, 0, d));
        outputs out = run(&in);
        attune_reference *const r = reference_of(&in);
        for (int s = 0; s < 3; s++)
            for (int d = 0; d < 20; d++)
                assert_near(o_at(&out, 0, s, 0, d), get(&in, TENSOR_V, 0, 0, 0, d),
                            dtype == ATTUNE_F32 ? bound_o(&out, r, s, d) : 0, "v", s, d);
        attune_reference_destroy(r);
        outputs_free(&out);
        inputs_free(&in);
    }
}

/* How far o may be from the only value. In f32 p / p may be one unit off, and v itself is read with u_in; in 16 bits huge scores leave p no
 * power of two, and a kernel that is not reproducible divides p rounded by p as it was. */
static double one_key_slack(const outputs *out, attune_fill fill, float v)
{
    const double size = fabsf(v), unit = nextafterf(fabsf(v), INFINITY) - size;
    if (out->problem.dtype == ATTUNE_F32) return unit + out->arithmetic.u_in * size;
    if (out->reproducible || fill != ATTUNE_FILL_huge) return 0;
    return 2 * out->arithmetic.u_out * size;
}

/* One key: o is its value for any finite score. */
static void one_key(void **state)
{
    static const attune_fill fills[] = {ATTUNE_FILL_normal, ATTUNE_FILL_outlier, ATTUNE_FILL_peaked,
                                        ATTUNE_FILL_huge};
    (void)state;
    FOR_EACH_DTYPE(dtype)
    for (int i = 0; i < 4; i++) {
        inputs in = inputs_of("b=2,hq=4,hkv=2,sq=5,sk=1,d=40,dv=33", dtype);
        inputs_fill(&in, fills[i], 7);
        outputs out = run(&in);
        for (int at = 0; at < 2 * 5 * 4 * 33; at++) {
            const int d = at % 33, h = at / 33 % 4, s = at / 33 / 4 % 5, b = at / 33 / 4 / 5;
            const float v = get(&in, TENSOR_V, b, 0, h / 2, d);
            assert_near(o_at(&out, b, s, h, d), v, one_key_slack(&out, fills[i], v), "v", s, d);
        }
        outputs_free(&out);
        inputs_free(&in);
    }
}

/* Twice the values give twice the output bit for bit; the sum of two gives the sum within the bounds. */
static void linear_in_values(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        const char *const text = "b=1,hq=1,hkv=1,sq=13,sk=70,d=32,mask=causal";
        inputs one = inputs_of(text, dtype), two = inputs_of(text, dtype),
               sum = inputs_of(text, dtype), twice = inputs_of(text, dtype);
        fill_tensor(&two, TENSOR_V, 4);
        for (int j = 0; j < 70; j++)
            for (int d = 0; d < 32; d++) {
                const float a = get(&one, TENSOR_V, 0, j, 0, d),
                            b = get(&two, TENSOR_V, 0, j, 0, d);
                set(&twice, TENSOR_V, 0, j, 0, d, 2 * a);
                set(&sum, TENSOR_V, 0, j, 0, d, a + b);
            }
        outputs o1 = run(&one), o2 = run(&two), o12 = run(&sum), o11 = run(&twice);
        attune_reference *const r1 = reference_of(&one), *const r2 = reference_of(&two),
                                *const r12 = reference_of(&sum);
        for (int s = 0; s < 13; s++)
            for (int d = 0; d < 32; d++) {
                const double a = o_at(&o1, 0, s, 0, d), b = o_at(&o2, 0, s, 0, d);
                assert_near(o_at(&o12, 0, s, 0, d), a + b,
                            bound_o(&o1, r1, s, d) + bound_o(&o2, r2, s, d) +
                                bound_o(&o12, r12, s, d),
                            "sum", s, d);
                const double exact_from = 0x1p-13; /* below, f16 has a fixed unit */
                assert_near(o_at(&o11, 0, s, 0, d), 2 * a, fabs(a) < exact_from ? 0x1p-24 : 0,
                            "twice", s, d);
            }
        attune_reference_destroy(r1);
        attune_reference_destroy(r2);
        attune_reference_destroy(r12);
        outputs_free(&o1);
        outputs_free(&o2);
        outputs_free(&o12);
        outputs_free(&o11);
        inputs_free(&one);
        inputs_free(&two);
        inputs_free(&sum);
        inputs_free(&twice);
    }
}

/* Half-precision values near the top of their range over thousands of keys: sums must be held in fp32. */
static void large_half_values(void **state)
{
    (void)state;
    inputs in = inputs_of("b=1,hq=1,hkv=1,sq=4,sk=3001,d=16", ATTUNE_F16);
    for (int j = 0; j < 3001; j++)
        for (int d = 0; d < 16; d++)
            set(&in, TENSOR_V, 0, j, 0, d, d < 8 || j % 2 == 0 ? 60000.0f : -60000.0f);
    outputs out = run(&in);
    for (int s = 0; s < 4; s++)
        for (int d = 0; d < 8; d++) assert_near(o_at(&out, 0, s, 0, d), 60000, 0, "v", s, d);
    assert_judged(&in, &out);
    outputs_free(&out);
    inputs_free(&in);
}

/* ---- what scores mean ---- */

/* One vector added to all keys adds the same to a row's scores: only lse moves. */
static void shifted_keys(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=13,sk=50,d=16,mask=causal", dtype);
        inputs shifted = inputs_reshaped(&in, &in.problem);
        uint64_t seed = 9;
        float shift[16];
        for (int d = 0; d < 16; d++) shift[d] = eighths(&seed);
        for (int j = 0; j < 50; j++)
            for (int d = 0; d < 16; d++)
                set(&shifted, TENSOR_K, 0, j, 0, d, get(&in, TENSOR_K, 0, j, 0, d) + shift[d]);
        outputs a = run(&in), b = run(&shifted);
        attune_reference *const ra = reference_of(&in), *const rb = reference_of(&shifted);
        for (int s = 0; s < 13; s++) {
            double moved = 0;
            for (int d = 0; d < 16; d++) moved += get(&in, TENSOR_Q, 0, s, 0, d) * shift[d];
            assert_near(b.lse[s] - (double)a.lse[s], moved * in.problem.softmax_scale,
                        bound_lse(&a, ra, s) + bound_lse(&b, rb, s), "lse", s, 0);
            for (int d = 0; d < 16; d++)
                assert_near(o_at(&a, 0, s, 0, d), o_at(&b, 0, s, 0, d),
                            bound_o(&a, ra, s, d) + bound_o(&b, rb, s, d), "o", s, d);
        }
        attune_reference_destroy(ra);
        attune_reference_destroy(rb);
        outputs_free(&a);
        outputs_free(&b);
        inputs_free(&in);
        inputs_free(&shifted);
    }
}

/* The order of the keys means nothing without a mask. */
static void permuted_keys(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=7,sk=67,d=32", dtype);
        inputs permuted = inputs_reshaped(&in, &in.problem);
        for (int j = 0; j < 67; j++)
            for (int d = 0; d < 32; d++) {
                set(&permuted, TENSOR_K, 0, j * 29 % 67, 0, d, get(&in, TENSOR_K, 0, j, 0, d));
                set(&permuted, TENSOR_V, 0, j * 29 % 67, 0, d, get(&in, TENSOR_V, 0, j, 0, d));
            }
        outputs a = run(&in), b = run(&permuted);
        attune_reference *const r = reference_of(&in);
        for (int s = 0; s < 7; s++) {
            assert_near(a.lse[s], b.lse[s], 2 * bound_lse(&a, r, s), "lse", s, 0);
            for (int d = 0; d < 32; d++)
                assert_near(o_at(&a, 0, s, 0, d), o_at(&b, 0, s, 0, d), 2 * bound_o(&a, r, s, d),
                            "o", s, d);
        }
        attune_reference_destroy(r);
        outputs_free(&a);
        outputs_free(&b);
        inputs_free(&in);
        inputs_free(&permuted);
    }
}

/* q = 0: the mean of the visible values, lse = ln of their number; scale 0 gives the same bits. */
static void zero_queries(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=20,sk=70,d=40,mask=causal-top-left", dtype);
        inputs unscaled = inputs_reshaped(&in, &in.problem);
        unscaled.problem.softmax_scale = 0;
        for (int s = 0; s < 20; s++)
            for (int d = 0; d < 40; d++) set(&in, TENSOR_Q, 0, s, 0, d, 0);
        outputs a = run(&in), b = run(&unscaled);
        attune_reference *const r = reference_of(&in);
        assert_same_bits(&a, &b);
        for (int s = 0; s < 20; s++) {
            assert_near(a.lse[s], log(s + 1), bound_lse(&a, r, s), "lse", s, 0);
            for (int d = 0; d < 40; d++) {
                double sum = 0;
                for (int j = 0; j <= s; j++) sum += get(&in, TENSOR_V, 0, j, 0, d);
                assert_near(o_at(&a, 0, s, 0, d), sum / (s + 1), bound_o(&a, r, s, d), "o", s, d);
            }
        }
        attune_reference_destroy(r);
        outputs_free(&a);
        outputs_free(&b);
        inputs_free(&in);
        inputs_free(&unscaled);
    }
}

/* A negative scale is a negated q, bit for bit. */
static void negative_scale(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=1,hq=2,hkv=1,sq=14,sk=45,d=40,scale=-0.375", dtype);
        inputs negated = inputs_reshaped(&in, &in.problem);
        negated.problem.softmax_scale = 0.375;
        for (int s = 0; s < 14; s++)
            for (int h = 0; h < 2; h++)
                for (int d = 0; d < 40; d++)
                    set(&negated, TENSOR_Q, 0, s, h, d, -get(&in, TENSOR_Q, 0, s, h, d));
        outputs a = run(&in), b = run(&negated);
        assert_same_bits(&a, &b);
        outputs_free(&a);
        outputs_free(&b);
        inputs_free(&in);
        inputs_free(&negated);
    }
}

/* ---- what parts mean ---- */

/* Keys [first, last) of `in` as a problem of their own on the same memory. */
static inputs keys_between(const inputs *in, int first, int last)
{
    const size_t size = attune_dtype_size(in->problem.dtype);
    inputs some = *in;
    some.problem.seqlen_k = last - first;
    some.k = (char *)in->k + (size_t)(first * in->problem.k_strides[ATTUNE_SEQ]) * size;
    some.v = (char *)in->v + (size_t)(first * in->problem.v_strides[ATTUNE_SEQ]) * size;
    return some;
}

/* Two halves of the keys, merged by their lse, give the whole; an empty half is (0, -inf) and changes nothing. */
static void split_keys(void **state)
{
    (void)state;
    static const int splits[] = {0, 1, 16, 31, 66, 67};
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=9,sk=67,d=24", dtype);
        outputs whole = run(&in);
        attune_reference *const r = reference_of(&in);
        for (int i = 0; i < 6; i++) {
            const inputs left = keys_between(&in, 0, splits[i]),
                         right = keys_between(&in, splits[i], 67);
            outputs a = run(&left), b = run(&right);
            attune_reference *const ra = reference_of(&left), *const rb = reference_of(&right);
            for (int s = 0; s < 9; s++) {
                const double top = fmax(a.lse[s], b.lse[s]);
                const double wa = exp(a.lse[s] - top), wb = exp(b.lse[s] - top), sum = wa + wb;
                const double la = wa > 0 ? bound_lse(&a, ra, s) : 0,
                             lb = wb > 0 ? bound_lse(&b, rb, s) : 0;
                assert_near(top + log(sum), whole.lse[s], fmax(la, lb) + bound_lse(&whole, r, s),
                            "lse", s, splits[i]);
                for (int d = 0; d < 24; d++) {
                    const double oa = o_at(&a, 0, s, 0, d), ob = o_at(&b, 0, s, 0, d);
                    const double merged = (wa * oa + wb * ob) / sum;
                    const double bound =
                        (wa * bound_o(&a, ra, s, d) + wb * bound_o(&b, rb, s, d)) / sum +
                        wa * wb / (sum * sum) * fabs(oa - ob) * (la + lb) +
                        bound_o(&whole, r, s, d);
                    assert_near(merged, o_at(&whole, 0, s, 0, d), bound, "o", s, d);
                }
            }
            attune_reference_destroy(ra);
            attune_reference_destroy(rb);
            outputs_free(&a);
            outputs_free(&b);
        }
        attune_reference_destroy(r);
        outputs_free(&whole);
        inputs_free(&in);
    }
}

static int group(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_values),  cmocka_unit_test(one_key),
        cmocka_unit_test(linear_in_values), cmocka_unit_test(large_half_values),
        cmocka_unit_test(shifted_keys),     cmocka_unit_test(permuted_keys),
        cmocka_unit_test(zero_queries),     cmocka_unit_test(negative_scale),
        cmocka_unit_test(split_keys),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return run_on_devices(argc, argv,
                          "identities: what attention must satisfy whatever its rounding, on every "
                          "device and for every dtype\n",
                          group);
}
