/* What a run may look at and what it may not: masks key by key, NaN and infinities that are hidden or visible, overflow, repetition. Every
 * test runs on each device and for every dtype. */
#include "probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- overflow ---- */

/* Where sums overflow, devices that promise the same bits overflow alike. */
static void overflow_is_the_same(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=9,sk=40,d=16,mask=causal", dtype);
        for (int j = 0; j < 40; j++)
            for (int d = 0; d < 16; d++)
                set(&in, TENSOR_V, 0, j, 0, d,
                    (dtype == ATTUNE_F16 ? 65504.0f : 3e38f) * (d % 3 == 0 ? -1 : 1));
        outputs out = run(&in), other = run_on_cpu(&in);
        if (must_be_same(&out, &other)) assert_same_bits(&out, &other);
        if (dtype == ATTUNE_F16) assert_judged(&in, &out);
        outputs_free(&out);
        outputs_free(&other);
        inputs_free(&in);
    }
}

/* ---- masks ---- */

/* Values are unit vectors, so o[d] > 0 tells whether a query saw key d. */
static void check_table(const char *sizes, const char *mask, const char *const table[], int queries,
                        int keys)
{
    char text[96];
    snprintf(text, sizeof text, "b=1,hq=1,hkv=1,%s,d=8,mask=%s", sizes, mask);
    inputs in = inputs_of(text, ATTUNE_F32);
    for (int j = 0; j < keys; j++)
        for (int d = 0; d < 8; d++) set(&in, TENSOR_V, 0, j, 0, d, d == j);
    outputs out = run(&in);
    for (int s = 0; s < queries; s++) {
        char seen[9] = "", *at = seen;
        for (int j = 0; j < keys; j++) *at++ = o_at(&out, 0, s, 0, j) > 0 ? 'x' : '.';
        *at = '\0';
        assert_string_equal(seen, table[s]);
        assert_int_equal(out.lse[s] == -INFINITY, strchr(seen, 'x') == NULL);
    }
    outputs_free(&out);
    inputs_free(&in);
}

static void mask_tables(void **state)
{
    (void)state;
    check_table("sq=2,sk=5", "none", (const char *[]){"xxxxx", "xxxxx"}, 2, 5);
    check_table("sq=2,sk=5", "causal", (const char *[]){"xxxx.", "xxxxx"}, 2, 5);
    check_table("sq=2,sk=5", "causal-top-left", (const char *[]){"x....", "xx..."}, 2, 5);
    check_table("sq=5,sk=2", "causal", (const char *[]){"..", "..", "..", "x.", "xx"}, 5, 2);
    check_table("sq=5,sk=2", "causal-top-left", (const char *[]){"x.", "xx", "xx", "xx", "xx"}, 5,
                2);
    check_table("sq=1,sk=4", "causal", (const char *[]){"xxxx"}, 1, 4);
    check_table("sq=1,sk=4", "causal-top-left", (const char *[]){"x..."}, 1, 4);
    check_table("sq=3,sk=3", "none", (const char *[]){"xxx", "xxx", "xxx"}, 3, 3);
    check_table("sq=3,sk=3", "causal", (const char *[]){"x..", "xx.", "xxx"}, 3, 3);
}

/* ---- NaN and infinities ---- */

static void poison_keys(inputs *in, int64_t first)
{
    for (int64_t j = first; j < in->problem.seqlen_k; j++)
        for (int d = 0; d < in->problem.head_dim; d++) {
            set(in, TENSOR_K, 0, j, 0, d, NAN);
            set(in, TENSOR_V, 0, j, 0, d, j % 2 == 0 ? NAN : INFINITY);
        }
}

/* Whatever a mask hides from a row changes no bit of it; rows that see it become NaN. The first poisoned key moves over the tile edges. */
static void hidden_nan(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    for (int first = 0; first < 70; first += first < 20 ? 1 : 7) {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=70,sk=70,d=16,mask=causal", dtype);
        outputs clean = run(&in);
        poison_keys(&in, first);
        outputs out = run(&in);
        for (int s = first; s < 70; s++) {
            assert_true(isnan(out.lse[s]));
            for (int d = 0; d < 16; d++) assert_true(isnan(o_at(&out, 0, s, 0, d)));
        }
        out.problem.seqlen_q = first;
        free(out.lse);
        out.lse = NULL;
        assert_int_equal(count_different(&out, &clean, (part){.batch = 0}), 0);
        outputs_free(&clean);
        outputs_free(&out);
        inputs_free(&in);
    }
}

static void assert_changed(const outputs *clean, const outputs *out, int row, int dim)
{
    for (int s = 0; s < out->problem.seqlen_q; s++)
        for (int d = 0; d < out->problem.head_dim_v; d++) {
            const float a = o_at(clean, 0, s, 0, d), b = o_at(out, 0, s, 0, d);
            const bool reached = (row < 0 || s == row) && (dim < 0 || d == dim);
            if (reached ? !isnan(b) : a != b)
                fail_msg("row %d, dim %d: %g became %g", s, d, (double)a, (double)b);
        }
}

/* A visible NaN reaches the rows that see it, and of V only its own dimension. */
static void visible_nan(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        const char *const text = "b=1,hq=1,hkv=1,sq=15,sk=40,d=24";
        inputs in = inputs_of(text, dtype), q = inputs_of(text, dtype), k = inputs_of(text, dtype),
               v = inputs_of(text, dtype);
        set(&q, TENSOR_Q, 0, 5, 0, 11, NAN);
        set(&k, TENSOR_K, 0, 33, 0, 2, NAN);
        set(&v, TENSOR_V, 0, 17, 0, 13, NAN);
        outputs clean = run(&in), oq = run(&q), ok = run(&k), ov = run(&v);
        assert_changed(&clean, &oq, 5, -1);
        assert_changed(&clean, &ok, -1, -1);
        assert_changed(&clean, &ov, -1, 13);
        for (int s = 0; s < 15; s++) {
            assert_int_equal(isnan(oq.lse[s]), s == 5);
            assert_true(isnan(ok.lse[s]));
            assert_true(ov.lse[s] == clean.lse[s]);
        }
        outputs_free(&clean);
        outputs_free(&oq);
        outputs_free(&ok);
        outputs_free(&ov);
        inputs_free(&in);
        inputs_free(&q);
        inputs_free(&k);
        inputs_free(&v);
    }
}

/* Infinities give what IEEE arithmetic gives, which the oracle knows. */
static void visible_infinities(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        const char *const text = "b=1,hq=1,hkv=1,sq=9,sk=40,d=8,mask=causal";
        inputs v = inputs_of(text, dtype), k = inputs_of(text, dtype), q = inputs_of(text, dtype);
        set(&v, TENSOR_V, 0, 35, 0, 2, INFINITY);
        set(&v, TENSOR_V, 0, 34, 0, 3, -INFINITY);
        set(&v, TENSOR_V, 0, 33, 0, 4, INFINITY);
        set(&v, TENSOR_V, 0, 34, 0, 4, -INFINITY);
        set(&k, TENSOR_K, 0, 36, 0, 1, INFINITY);
        set(&q, TENSOR_Q, 0, 4, 0, 1, -INFINITY);
        inputs *const all[] = {&v, &k, &q};
        for (int i = 0; i < 3; i++) {
            outputs out = run(all[i]), other = run_on_cpu(all[i]);
            assert_judged(all[i], &out);
            if (must_be_same(&out, &other)) assert_same_bits(&out, &other);
            if (i == 0) {
                assert_true(o_at(&out, 0, 8, 0, 2) == INFINITY);
                assert_true(o_at(&out, 0, 8, 0, 3) == -INFINITY);
                assert_true(isnan(o_at(&out, 0, 8, 0, 4)));
            }
            outputs_free(&out);
            outputs_free(&other);
            inputs_free(all[i]);
        }
    }
}

/* Every q is 1 in dimension 0, and there the keys hold these scores (the scale is 1); elsewhere both are 0. */
static void set_score(inputs *in, int64_t key, float score)
{
    set(in, TENSOR_K, 0, key, 0, 0, score);
}

static inputs inputs_of_scores(const char *text, attune_dtype dtype)
{
    inputs in = inputs_of(text, dtype);
    for (int64_t d = 0; d < in.problem.head_dim; d++) {
        for (int64_t s = 0; s < in.problem.seqlen_q; s++)
            set(&in, TENSOR_Q, 0, s, 0, d, d == 0 ? 1.0f : 0.0f);
        for (int64_t j = 0; j < in.problem.seqlen_k; j++) set(&in, TENSOR_K, 0, j, 0, d, 0.0f);
    }
    return in;
}

/* A visible infinity whose key has no weight is 0 times infinity, in tiles with hidden keys and without. */
static void infinities_without_weight(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    for (int key = 3; key < 100; key += 48) {
        inputs in =
            inputs_of_scores("b=1,hq=1,hkv=1,sq=100,sk=100,d=16,scale=1,mask=causal", dtype);
        set_score(&in, key, -INFINITY);
        set(&in, TENSOR_V, 0, key, 0, 7, INFINITY);
        outputs out = run(&in);
        assert_judged(&in, &out);
        for (int s = 0; s < 100; s++) assert_int_equal(isnan(o_at(&out, 0, s, 0, 7)), s >= key);
        outputs_free(&out);
        inputs_free(&in);
    }
}

/* Of a key whose weight may round to 0: whatever becomes of it, a reproducible row gets the same from whole prompts and from their end alone; but not
 * by a unit that takes subnormals for 0 (docs/matrix-engine.md). */
static void infinities_in_chunks(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    for (int score = -100; score <= 0; score += 4) {
        inputs whole =
                   inputs_of_scores("b=1,hq=1,hkv=1,sq=96,sk=96,d=16,scale=1,mask=causal", dtype),
               end = inputs_of_scores("b=1,hq=1,hkv=1,sq=48,sk=96,d=16,scale=1,mask=causal", dtype);
        inputs *const both[] = {&whole, &end};
        for (int i = 0; i < 2; i++) {
            set_score(both[i], 3, (float)score);
            set(both[i], TENSOR_V, 0, 3, 0, 7, INFINITY);
        }
        outputs a = run(&whole), b = run(&end);
        const bool is_promised = must_be_same(&a, &b) && a.arithmetic.flushes == 0.0;
        for (int s = 0; is_promised && s < 48; s++)
            for (int d = 0; d < 16; d++) {
                const float x = o_at(&a, 0, 48 + s, 0, d), y = o_at(&b, 0, s, 0, d);
                if (!(x == y || (isnan(x) && isnan(y))))
                    fail_msg("score %d, row %d, dim %d: %g and %g", score, s, d, (double)x,
                             (double)y);
            }
        outputs_free(&a);
        outputs_free(&b);
        inputs_free(&whole);
        inputs_free(&end);
    }
}

/* A max that rises by less than an octave or two late, and values near the largest: what is summed is no larger than standard attention sums. */
static void large_values(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    for (int i = 0; i < 12; i++) {
        inputs in = inputs_of_scores("b=1,hq=1,hkv=1,sq=16,sk=256,d=64,scale=1", dtype);
        for (int j = 0; j < 256; j++)
            set_score(&in, j, j == 0 ? 0.0f : j == 130 ? 0.5f * (float)i : -1000.0f);
        for (int j = 0; j < 256; j++)
            for (int d = 0; d < 64; d++)
                set(&in, TENSOR_V, 0, j, 0, d, dtype == ATTUNE_F16 ? 60000.0f : 1.6e38f);
        outputs out = run(&in);
        assert_judged(&in, &out);
        assert_true(isfinite(o_at(&out, 0, 15, 0, 3)));
        outputs_free(&out);
        inputs_free(&in);
    }
}

/* ---- subnormals ---- */

/* A subnormal key makes a score that counts where the query is large. A unit that takes it for 0 loses that score, and is allowed to; nobody else is. */
static void large_queries_and_subnormal_keys(void **state)
{
    (void)state;
    static const double scores[] = {-0.0002, -0.006, -0.02, -0.06, -0.2, -1.0, -4.0, -12.0};
    FOR_EACH_DTYPE(dtype)
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        inputs in = inputs_of("b=1,hq=1,hkv=1,sq=8,sk=2,d=16", dtype);
        const float k = dtype == ATTUNE_F16 ? -5e-5f : -9e-39f;
        for (int d = 0; d < 16; d++) {
            for (int s = 0; s < 8; s++)
                set(&in, TENSOR_Q, 0, s, 0, d, (float)(scores[i] / (4.0 * (double)k)));
            set(&in, TENSOR_K, 0, 0, 0, d, k);
            set(&in, TENSOR_K, 0, 1, 0, d, 0.0f);
            set(&in, TENSOR_V, 0, 0, 0, d, 1.0f);
            set(&in, TENSOR_V, 0, 1, 0, d, (float)d / 8.0f);
        }
        outputs out = run(&in);
        assert_judged(&in, &out);
        outputs_free(&out);
        inputs_free(&in);
    }
}

/* ---- repetition ---- */

static void sixteen_repeats(void **state)
{
    (void)state;
    FOR_EACH_DTYPE(dtype)
    {
        inputs in = inputs_of("b=2,hq=3,hkv=1,sq=33,sk=65,d=40,mask=causal", dtype);
        outputs first = run(&in);
        for (int i = 0; i < 16; i++) {
            outputs again = run(&in);
            assert_same_bits(&first, &again);
            outputs_free(&again);
        }
        outputs_free(&first);
        inputs_free(&in);
    }
}

static int group(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_tables),
        cmocka_unit_test(hidden_nan),
        cmocka_unit_test(visible_nan),
        cmocka_unit_test(visible_infinities),
        cmocka_unit_test(overflow_is_the_same),
        cmocka_unit_test(infinities_without_weight),
        cmocka_unit_test(infinities_in_chunks),
        cmocka_unit_test(large_values),
        cmocka_unit_test(large_queries_and_subnormal_keys),
        cmocka_unit_test(sixteen_repeats),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return run_on_devices(
        argc, argv,
        "hygiene: masks, NaN, infinities and repetition, on every device and for every dtype\n",
        group);
}
