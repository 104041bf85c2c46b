/* The fill `poison`: NaN exactly where it belongs, whatever the strides; spans; names. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool row_is_nan(const trial *t, int tensor, int64_t seq, int64_t head)
{
    int64_t sizes[ATTUNE_RANK], count = 0;
    sizes_of(&t->problem, tensor, sizes);
    for (int64_t d = 0; d < sizes[3]; d++)
        count += isnan(get(t, tensor, sizes[0] - 1, seq, head, d)) != 0;
    if (count != 0 && count != sizes[3]) fail_msg("%d of a row are NaN", (int)count);
    return count > 0;
}

/* `nan` has a character for every key: 'N' where it is NaN. */
static void assert_poisoned(const char *text, const char *nan)
{
    trial t = trial_filled(text, ATTUNE_FILL_poison, 1);
    trial normal = trial_filled(text, ATTUNE_FILL_normal, 1);
    for (int64_t j = 0; j < t.problem.seqlen_k; j++)
        for (int64_t h = 0; h < t.problem.heads_kv; h++)
            for (int tensor = TRIAL_K; tensor <= TRIAL_V; tensor++) {
                if (row_is_nan(&t, tensor, j, h) != (nan[j] == 'N'))
                    fail_msg("%s: key %d", text, (int)j);
                if (nan[j] != 'N')
                    assert_true(get(&t, tensor, 0, j, h, 1) == get(&normal, tensor, 0, j, h, 1));
            }
    for (int64_t i = 0; i < t.problem.seqlen_q; i++) assert_false(row_is_nan(&t, TRIAL_Q, i, 0));
    trial_destroy(&t);
    trial_destroy(&normal);
}

static void keys_that_no_row_sees_are_nan_and_the_last_ones_last(void **state)
{
    (void)state;
#define SHAPE(sizes, dtype) "op=forward,b=2,hq=4,hkv=2,d=4,dv=3," sizes ",dtype=" dtype
    assert_poisoned(SHAPE("sq=3,sk=5", "f32"), ".....");
    assert_poisoned(SHAPE("sq=3,sk=5,mask=causal", "f32"), "....N");
    assert_poisoned(SHAPE("sq=3,sk=5,mask=causal-top-left", "f16"), "..NNN");
    assert_poisoned(SHAPE("sq=5,sk=3,mask=causal", "bf16"), "..N");
    assert_poisoned(SHAPE("sq=5,sk=3,mask=causal-top-left", "f32"), "...");
    assert_poisoned(SHAPE("sq=1,sk=3,mask=causal", "f32"), "...");
    assert_poisoned(SHAPE("sq=1,sk=3,mask=causal-top-left", "f16"), ".NN");
    assert_poisoned(SHAPE("sq=4,sk=1,mask=causal", "f32"), "N");
    assert_poisoned(SHAPE("sq=0,sk=3", "f32"), "NNN");
#undef SHAPE
}

static void what_lies_between_is_nan(void **state)
{
    (void)state;
    for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++) {
        char text[256];
        snprintf(text, sizeof text,
                 "op=forward,b=1,hq=1,hkv=1,sq=4,sk=6,d=3,dtype=%s,q_strides=0:5:0:1,"
                 "k_strides=0:7:0:1,v_strides=0:4:0:1",
                 attune_dtype_name((attune_dtype)dtype));
        trial t = trial_filled(text, ATTUNE_FILL_poison, 2);
        const int64_t strides[] = {5, 7, 4}, rows[] = {4, 6, 6};
        for (int tensor = TRIAL_Q; tensor <= TRIAL_V; tensor++)
            for (int64_t i = 0; i < (rows[tensor] - 1) * strides[tensor] + 3; i++) {
                float x;
                const size_t size = attune_dtype_size((attune_dtype)dtype);
                attune_convert_to_f32((attune_dtype)dtype,
                                      (char *)t.tensors[tensor] + (size_t)i * size, &x, 1);
                assert_int_equal(isnan(x) != 0, i % strides[tensor] >= 3);
            }
        trial_destroy(&t);
    }
}

/* One buffer with a row of q, k and v in turn: the NaN of one must not wipe out another. */
static void views_of_one_buffer_keep_their_values(void **state)
{
    (void)state;
    const attune_problem packed = problem_of(
        "op=forward,b=1,hq=2,hkv=2,sq=5,sk=5,d=4,dtype=f32,mask=causal,q_strides=0:24:4:1,"
        "k_strides=0:24:4:1,v_strides=0:24:4:1");
    float buffer[5 * 24];
    memset(buffer, 0, sizeof buffer);
    assert_int_equal(
        attune_fill_inputs(&packed, ATTUNE_FILL_poison, 3, buffer, buffer + 8, buffer + 16),
        ATTUNE_OK);
    for (int64_t i = 0; i < 5 * 24; i++)
        assert_int_equal(isnan(buffer[i]) != 0, i / 24 == 4 && i % 24 >= 8);
}

/* A place that a visible key has is that key's, whoever else has it too. */
static void shared_places_stay_visible(void **state)
{
    (void)state;
    const char *const broadcast[] = {"k_strides=0:0:0:1,v_strides=0:0:0:1",
                                     "k_strides=0:1:0:1,v_strides=0:2:0:1"};
    for (int i = 0; i < 2; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "op=forward,b=2,hq=4,hkv=2,sq=3,sk=6,d=4,dtype=f32,mask=causal,%s", broadcast[i]);
        trial t = trial_filled(text, ATTUNE_FILL_poison, 4);
        attune_reference *const r = trial_reference(&t);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t row = 0; row < 2; row++)
                for (int64_t e = 0; e < 16; e++)
                    assert_true(isfinite(r->o[(b * 3 + row) * 16 + e]));
        attune_reference_destroy(r);
        trial_destroy(&t);
    }
}

/* Whatever shares a place has one value: a needle is found where k is one for all heads and batches. */
static void broadcast_keys_are_still_needles(void **state)
{
    (void)state;
    trial t = trial_filled("op=forward,b=2,hq=4,hkv=2,sq=9,sk=40,d=32,dtype=f32,"
                           "k_strides=0:32:0:1,v_strides=0:32:0:1",
                           ATTUNE_FILL_needle, 5);
    attune_reference *const r = trial_reference(&t);
    for (int64_t i = 0; i < 2 * 4 * 9; i++) assert_true(r->lse_terms[i].peak > 0.999);
    attune_reference_destroy(r);
    trial_destroy(&t);
}

static void spans_reach_from_the_first_to_the_last_element(void **state)
{
    (void)state;
    const struct {
        int64_t sizes[ATTUNE_RANK], strides[ATTUNE_RANK], span;
    } cases[] = {
        {{2, 3, 4, 5}, {60, 20, 5, 1}, 120},
        {{2, 3, 4, 5}, {0, 0, 0, 1}, 5},
        {{2, 3, 4, 5}, {1000, 7, 100, 1}, 1000 + 14 + 300 + 4 + 1},
        {{1, 1, 1, 1}, {-5, 9, 1 << 30, 1}, 1},
        {{2, 0, 4, 5}, {60, 20, 5, 1}, 0},
        {{3, 1, 1, 1}, {INT64_C(1) << 40, 1, 1, 1}, (INT64_C(1) << 41) + 1},
        {{3, 1, 1, 1}, {INT64_C(1) << 62, 1, 1, 1}, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(attune_span(cases[i].sizes, cases[i].strides) == cases[i].span);
}

static void fills_have_names(void **state)
{
    (void)state;
    for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++)
        assert_int_equal(attune_fill_find(attune_fill_name((attune_fill)fill)), fill);
    assert_string_equal(attune_fill_name(ATTUNE_FILL_lastdim), "lastdim");
    assert_null(attune_fill_name(ATTUNE_FILL_COUNT));
    assert_null(attune_fill_name((attune_fill)-1));
    assert_int_equal(attune_fill_find("Normal"), -1);
    assert_int_equal(attune_fill_find(""), -1);
    assert_int_equal(attune_fill_find(NULL), -1);

    const attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32");
    float x = 0.0f;
    assert_int_equal(attune_fill_inputs(&problem, ATTUNE_FILL_COUNT, 0, &x, &x, &x),
                     ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_fill_inputs(&problem, ATTUNE_FILL_normal, 0, NULL, &x, &x),
                     ATTUNE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_no_row_sees_are_nan_and_the_last_ones_last),
        cmocka_unit_test(what_lies_between_is_nan),
        cmocka_unit_test(views_of_one_buffer_keep_their_values),
        cmocka_unit_test(shared_places_stay_visible),
        cmocka_unit_test(broadcast_keys_are_still_needles),
        cmocka_unit_test(spans_reach_from_the_first_to_the_last_element),
        cmocka_unit_test(fills_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
