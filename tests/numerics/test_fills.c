/* Each fill exposes what it says, for every type and at the smallest sizes; the same bits on every platform. */
#include "trial.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static trial filled(const char *shape, int dtype, attune_fill fill, uint64_t seed)
{
    char text[300];
    snprintf(text, sizeof text, "%s,dtype=%s", shape, attune_dtype_name((attune_dtype)dtype));
    return trial_filled(text, fill, seed);
}

static double score(const trial *t, int64_t row, int64_t key)
{
    double dot = 0.0;
    for (int64_t d = 0; d < t->problem.head_dim; d++)
        dot += (double)get(t, TRIAL_Q, 0, row, 0, d) * get(t, TRIAL_K, 0, key, 0, d);
    return t->problem.softmax_scale * dot;
}

#define FOR_DTYPES(dtype) for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++)

/* ---- bits ---- */

/* FNV-1a over the widened numbers, so that the byte order of the machine does not matter. */
static uint64_t hashed(const trial *t)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int tensor = TRIAL_Q; tensor <= TRIAL_V; tensor++) {
        int64_t n[ATTUNE_RANK];
        sizes_of(&t->problem, tensor, n);
        for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; i++) {
            const float x = get(t, tensor, i / n[3] / n[2] / n[1], i / n[3] / n[2] % n[1],
                                i / n[3] % n[2], i % n[3]);
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            for (int byte = 0; byte < 4; byte++)
                hash = (hash ^ (isnan(x) ? 0xff : bits >> (8 * byte) & 0xff)) *
                       UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static const uint64_t known_hashes[ATTUNE_FILL_COUNT][3] = {
    [ATTUNE_FILL_normal] = {UINT64_C(0x3415fa9c76113096), UINT64_C(0x40a775e800d357ed),
                            UINT64_C(0x318d0dd5a9bdc8bf)},
    [ATTUNE_FILL_outlier] = {UINT64_C(0x8c41c8fffad9098d), UINT64_C(0xab5ed7fd3aeac948),
                             UINT64_C(0xcba20524cefbddae)},
    [ATTUNE_FILL_ramp] = {UINT64_C(0xd0a960df3a59124a), UINT64_C(0x00fc08381c2dc679),
                          UINT64_C(0xa6128daa3a016f4f)},
    [ATTUNE_FILL_needle] = {UINT64_C(0x9984878bf193cea4), UINT64_C(0x01110068a52849b9),
                            UINT64_C(0xaee51c8c40c387b4)},
    [ATTUNE_FILL_peaked] = {UINT64_C(0x59b7a5b24c718137), UINT64_C(0x6a5494c32cdccdf8),
                            UINT64_C(0x01ca17c7b93aa543)},
    [ATTUNE_FILL_huge] = {UINT64_C(0x081b29f054f26f2c), UINT64_C(0x0a4be8c3a25bd8c3),
                          UINT64_C(0x20e2eb332ac14e35)},
    [ATTUNE_FILL_tied] = {UINT64_C(0xd7d33b3fbe131d62), UINT64_C(0x17a7f0e0ea5013ac),
                          UINT64_C(0xc588df230559666e)},
    [ATTUNE_FILL_offset] = {UINT64_C(0x82b1f429c675dabd), UINT64_C(0xa4cc39746c6090f5),
                            UINT64_C(0xfd835902a4ef42ec)},
    [ATTUNE_FILL_constant] = {UINT64_C(0x938840267ca7a4a0), UINT64_C(0x596e93ec732163f1),
                              UINT64_C(0x9bfc244179f991e7)},
    [ATTUNE_FILL_lastdim] = {UINT64_C(0xc77f436ec6d1e149), UINT64_C(0x5772515ab8b55392),
                             UINT64_C(0x5fd48d222ea6c881)},
    [ATTUNE_FILL_denormal] = {UINT64_C(0x8800965f45aaa089), UINT64_C(0x40160e392595bc71),
                              UINT64_C(0xc044567ee8256b5c)},
    [ATTUNE_FILL_poison] = {UINT64_C(0x513745a7d2611eec), UINT64_C(0xabc36fcf3ae46ccb),
                            UINT64_C(0x8323e758f4901e38)},
};

static void bits_are_the_same_on_every_platform(void **state)
{
    (void)state;
    for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++) FOR_DTYPES(dtype)
        {
            trial t = filled("op=forward,b=2,hq=4,hkv=2,sq=7,sk=40,d=24,dv=17,mask=causal", dtype,
                             (attune_fill)fill, UINT64_C(0x123456789abcdef));
            const uint64_t hash = hashed(&t);
            if (hash != known_hashes[fill][dtype])
                fail_msg("%s %s: 0x%016llx", attune_fill_name((attune_fill)fill),
                         attune_dtype_name((attune_dtype)dtype), (unsigned long long)hash);
            trial_destroy(&t);
        }
}

/* A row of the longer problem is the row of the shorter one; layouts do not matter; other seeds give other numbers. */
static void values_depend_on_the_index_alone(void **state)
{
    (void)state;
    const char *const small = "op=forward,b=1,hq=2,hkv=1,sq=3,sk=5,d=4,dtype=f32";
    trial a = trial_filled(small, ATTUNE_FILL_normal, 1);
    trial b = trial_filled("op=forward,b=3,hq=4,hkv=2,sq=9,sk=31,d=8,dtype=f32,layout=bhsd",
                           ATTUNE_FILL_normal, 1);
    trial c = trial_filled(small, ATTUNE_FILL_normal, 2);
    int equal = 0;
    for (int64_t i = 0; i < 3; i++)
        for (int64_t h = 0; h < 2; h++)
            for (int64_t d = 0; d < 4; d++) {
                assert_true(get(&a, TRIAL_Q, 0, i, h, d) == get(&b, TRIAL_Q, 0, i, h, d));
                assert_true(get(&a, TRIAL_V, 0, i, 0, d) == get(&b, TRIAL_V, 0, i, 0, d));
                equal += get(&a, TRIAL_Q, 0, i, h, d) == get(&c, TRIAL_Q, 0, i, h, d);
                equal += get(&a, TRIAL_Q, 0, i, h, d) == get(&a, TRIAL_K, 0, i, 0, d);
                equal += get(&b, TRIAL_Q, 0, i, h, d) == get(&b, TRIAL_Q, 1, i, h, d);
            }
    assert_true(equal <= 1);
    trial_destroy(&a);
    trial_destroy(&b);
    trial_destroy(&c);
}

/* ---- what each exposes ---- */

static void moments(const trial *t, int tensor, double *mean, double *variance, double *largest)
{
    int64_t sizes[ATTUNE_RANK];
    sizes_of(&t->problem, tensor, sizes);
    const double n = (double)(sizes[1] * sizes[3]);
    double sum = 0.0, squares = 0.0;
    *largest = 0.0;
    for (int64_t s = 0; s < sizes[1]; s++)
        for (int64_t d = 0; d < sizes[3]; d++) {
            const double x = get(t, tensor, 0, s, 0, d);
            sum += x;
            squares += x * x;
            *largest = fmax(*largest, fabs(x));
        }
    *mean = sum / n;
    *variance = squares / n - *mean * *mean;
}

static void distributions_have_their_moments(void **state)
{
    (void)state;
    const struct {
        attune_fill fill;
        int tensor;
        double mean, variance, least_largest, most_largest;
    } cases[] = {
        {ATTUNE_FILL_normal, TRIAL_Q, 0.0, 1.0, 3.5, 6.0},
        {ATTUNE_FILL_normal, TRIAL_K, 0.0, 1.0, 3.5, 6.0},
        {ATTUNE_FILL_normal, TRIAL_V, 0.0, 1.0, 3.5, 6.0},
        {ATTUNE_FILL_outlier, TRIAL_K, 0.0, 1.1, 10.0, 66.0},
        {ATTUNE_FILL_peaked, TRIAL_Q, 0.0, 64.0, 28.0, 48.0},
        {ATTUNE_FILL_offset, TRIAL_V, 5.0, 1.0, 8.5, 11.0},
        {ATTUNE_FILL_tied, TRIAL_V, 2.0, 1.0, 5.5, 8.0},
    };
    FOR_DTYPES(dtype)
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        trial t = filled("op=forward,b=1,hq=1,hkv=1,sq=600,sk=600,d=64", dtype, cases[i].fill, 3);
        double mean, variance, largest;
        moments(&t, cases[i].tensor, &mean, &variance, &largest);
        const double sigma = sqrt(cases[i].variance);
        if (!(fabs(mean - cases[i].mean) < 0.03 * sigma &&
              fabs(variance / cases[i].variance - 1.0) < 0.06 && largest > cases[i].least_largest &&
              largest <= cases[i].most_largest))
            fail_msg("%s: mean %g, variance %g, largest %g", attune_fill_name(cases[i].fill), mean,
                     variance, largest);
        trial_destroy(&t);
    }
}

static const char *const scaled[] = {"", ",scale=-2", ",scale=30", ",scale=0.01"};

static void ramp_rises_in_every_block(void **state)
{
    (void)state;
    const struct {
        const char *shape;
        int64_t keys;
    } shapes[] = {{"op=forward,b=1,hq=1,hkv=1,sq=3,sk=2100,d=64", 2100},
                  {"op=forward,b=1,hq=1,hkv=1,sq=3,sk=2100,d=2", 2100},
                  {"op=forward,b=1,hq=1,hkv=1,sq=3,sk=2100,d=1", 2100},
                  {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=33,d=256", 33}};
    FOR_DTYPES(dtype)
    for (size_t i = 0; i < 4; i++)
        for (int s = 0; s < 4; s++) {
            char text[128];
            snprintf(text, sizeof text, "%s%s", shapes[i].shape, scaled[s]);
            trial t = filled(text, dtype, ATTUNE_FILL_ramp, 4);
            for (int64_t row = 0; row < t.problem.seqlen_q; row++) {
                double before = -INFINITY;
                for (int64_t first = 0; first < shapes[i].keys; first += 16) {
                    double top = -INFINITY;
                    for (int64_t j = first; j < first + 16 && j < shapes[i].keys; j++)
                        top = fmax(top, score(&t, row, j));
                    /* by more than an octave, so that a max rounded to an integer rises too */
                    if (!(top > before + 0.6931)) fail_msg("%s: %g after %g", text, top, before);
                    before = top;
                }
            }
            trial_destroy(&t);
        }
}

static void needle_is_one_key_almost_alone(void **state)
{
    (void)state;
    const struct {
        const char *shape;
        double share; /* that a needle has at least */
    } shapes[] = {{"op=forward,b=1,hq=1,hkv=1,sq=12,sk=3000,d=64", 0.999},
                  {"op=forward,b=1,hq=1,hkv=1,sq=12,sk=500,d=32,mask=causal", 0.999},
                  {"op=forward,b=1,hq=1,hkv=1,sq=12,sk=500,d=8", 0.95},
                  {"op=forward,b=1,hq=1,hkv=1,sq=12,sk=60,d=3", 0.9},
                  {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=128", 0.999}};
    FOR_DTYPES(dtype)
    for (size_t i = 0; i < 5; i++)
        for (int s = 0; s < 4; s++) {
            char text[128];
            snprintf(text, sizeof text, "%s%s", shapes[i].shape, scaled[s]);
            trial t = filled(text, dtype, ATTUNE_FILL_needle, 5);
            attune_reference *const r = trial_reference(&t);
            for (int64_t row = 0; row < t.problem.seqlen_q; row++) {
                int64_t needle = 0;
                for (int64_t j = 0; j < r->visible[row]; j++)
                    if (score(&t, row, j) > score(&t, row, needle)) needle = j;
                const double share = exp(score(&t, row, needle) - r->lse[row]);
                if (!(share > shapes[i].share)) fail_msg("%s row %d: %g", text, (int)row, share);
                if (row % 4 == 0) assert_int_equal(needle, r->visible[row] - 1);
                if (row % 4 == 2) assert_int_equal(needle, 0);
            }
            attune_reference_destroy(r);
            trial_destroy(&t);
        }
}

static void huge_is_beyond_f16_on_both_sides(void **state)
{
    (void)state;
    const char *const shapes[] = {"op=forward,b=1,hq=1,hkv=1,sq=4,sk=200,d=64",
                                  "op=forward,b=1,hq=1,hkv=1,sq=2,sk=40,d=1",
                                  "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=256"};
    FOR_DTYPES(dtype)
    for (size_t i = 0; i < 3; i++)
        for (int s = 0; s < 4; s++) {
            char text[128];
            snprintf(text, sizeof text, "%s%s", shapes[i], scaled[s]);
            trial t = filled(text, dtype, ATTUNE_FILL_huge, 6);
            for (int64_t row = 0; row < t.problem.seqlen_q; row++)
                for (int64_t j = 0; j < t.problem.seqlen_k; j++) {
                    const double x = score(&t, row, j) * (row % 2 == 0 ? -1.0 : 1.0);
                    if (!(x > 7.2e4 && x < 2.1e5)) fail_msg("%s: %g", text, x);
                }
            trial_destroy(&t);
        }
}

static void tied_keys_are_equal_and_above_all_others(void **state)
{
    (void)state;
    const char *const shapes[] = {"op=forward,b=1,hq=1,hkv=1,sq=5,sk=300,d=64",
                                  "op=forward,b=1,hq=1,hkv=1,sq=5,sk=7,d=1",
                                  "op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=3"};
    FOR_DTYPES(dtype)
    for (size_t i = 0; i < 3; i++)
        for (int s = 0; s < 4; s++) {
            char text[128];
            snprintf(text, sizeof text, "%s%s", shapes[i], scaled[s]);
            trial t = filled(text, dtype, ATTUNE_FILL_tied, 7);
            for (int64_t row = 0; row < t.problem.seqlen_q; row++)
                for (int64_t j = 0; j < t.problem.seqlen_k; j++) {
                    const double top = score(&t, row, 0), x = score(&t, row, j);
                    const bool tied = j % 5 == 0 || j == t.problem.seqlen_k - 1;
                    assert_true(tied ? x == top : x < top);
                }
            trial_destroy(&t);
        }
}

static void lastdim_is_zero_but_for_one(void **state)
{
    (void)state;
    FOR_DTYPES(dtype)
    {
        trial t =
            filled("op=forward,b=1,hq=1,hkv=1,sq=9,sk=9,d=5,dv=3", dtype, ATTUNE_FILL_lastdim, 8);
        for (int tensor = TRIAL_Q; tensor <= TRIAL_V; tensor++) {
            const int64_t width = tensor == TRIAL_V ? 3 : 5;
            for (int64_t s = 0; s < 9; s++)
                for (int64_t d = 0; d < width; d++)
                    assert_true((get(&t, tensor, 0, s, 0, d) != 0.0f) == (d == width - 1));
        }
        trial_destroy(&t);
    }
}

static void denormal_values_are_subnormal(void **state)
{
    (void)state;
    FOR_DTYPES(dtype)
    {
        trial t =
            filled("op=forward,b=1,hq=1,hkv=1,sq=1,sk=400,d=8", dtype, ATTUNE_FILL_denormal, 9);
        const float normal = dtype == ATTUNE_F16 ? 0x1p-14f : FLT_MIN;
        int negative = 0;
        for (int64_t j = 0; j < 400; j++)
            for (int64_t d = 0; d < 8; d++) {
                const float v = get(&t, TRIAL_V, 0, j, 0, d);
                assert_true(v != 0.0f && fabsf(v) < normal);
                negative += v < 0.0f;
            }
        assert_true(negative > 1400 && negative < 1800);
        trial_destroy(&t);
    }
}

static void outliers_are_in_the_smallest_tensors(void **state)
{
    (void)state;
    const char *const one = "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1";
    for (int tensor = TRIAL_Q; tensor <= TRIAL_V; tensor++) {
        double squares = 0.0;
        for (uint64_t seed = 0; seed < 100; seed++) {
            trial t = filled(one, ATTUNE_F32, ATTUNE_FILL_outlier, seed);
            squares += pow(get(&t, tensor, 0, 0, 0, 0), 2.0);
            trial_destroy(&t);
        }
        assert_true(squares / 100.0 > 60.0 && squares / 100.0 < 160.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same_on_every_platform),
        cmocka_unit_test(values_depend_on_the_index_alone),
        cmocka_unit_test(distributions_have_their_moments),
        cmocka_unit_test(ramp_rises_in_every_block),
        cmocka_unit_test(needle_is_one_key_almost_alone),
        cmocka_unit_test(huge_is_beyond_f16_on_both_sides),
        cmocka_unit_test(tied_keys_are_equal_and_above_all_others),
        cmocka_unit_test(lastdim_is_zero_but_for_one),
        cmocka_unit_test(denormal_values_are_subnormal),
        cmocka_unit_test(outliers_are_in_the_smallest_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
