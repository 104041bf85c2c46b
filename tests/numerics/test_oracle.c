/* The exact answer against closed forms and identities: nothing here computes attention a second time. */
#include "trial.h"

#include <math.h>
#include <stdio.h>

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-13 * fmax(1.0, fabs(expected))))
        fail_msg("%.17g is not %.17g", got, expected);
}

static double o_of(const attune_reference *r, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    const attune_problem *const p = &r->problem;
    return r->o[((batch * p->seqlen_q + seq) * p->heads_q + head) * p->head_dim_v + dim];
}

static int64_t o_count(const attune_problem *p)
{
    return p->batch * p->seqlen_q * p->heads_q * p->head_dim_v;
}

static int64_t lse_count(const attune_problem *p)
{
    return p->batch * p->seqlen_q * p->heads_q;
}

/* ---- closed forms ---- */

static void one_key_is_the_answer(void **state)
{
    (void)state;
    trial t = trial_filled("op=forward,b=2,hq=2,hkv=1,sq=3,sk=1,d=4,dv=7,dtype=f16",
                           ATTUNE_FILL_peaked, 1);
    attune_reference *const r = trial_reference(&t);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t h = 0; h < 2; h++) {
                double s = 0.0;
                for (int64_t d = 0; d < 4; d++)
                    s += 0.5 * get(&t, TRIAL_Q, b, i, h, d) * get(&t, TRIAL_K, b, 0, 0, d);
                assert_near(r->lse[lse_place(&t.problem, b, h, i)], s);
                for (int64_t d = 0; d < 7; d++)
                    assert_true(o_of(r, b, i, h, d) == get(&t, TRIAL_V, b, 0, 0, d));
            }
    attune_reference_destroy(r);
    trial_destroy(&t);
}

static void two_keys_are_a_sigmoid(void **state)
{
    (void)state;
    for (double scale = -2.0; scale <= 2.0; scale += 1.0) {
        attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=1,dtype=bf16");
        problem.softmax_scale = scale;
        trial t = trial_create(&problem);
        set(&t, TRIAL_Q, 0, 0, 0, 0, 1.5);
        set(&t, TRIAL_K, 0, 0, 0, 0, 2.0);
        set(&t, TRIAL_K, 0, 1, 0, 0, -1.0);
        set(&t, TRIAL_V, 0, 0, 0, 0, 10.0);
        set(&t, TRIAL_V, 0, 1, 0, 0, 20.0);
        attune_reference *const r = trial_reference(&t);
        const double a = exp(3.0 * scale), b = exp(-1.5 * scale);
        assert_near(r->o[0], (10.0 * a + 20.0 * b) / (a + b));
        assert_near(r->lse[0], log(a + b));
        attune_reference_destroy(r);
        trial_destroy(&t);
    }
}

static void equal_values_are_the_answer(void **state)
{
    (void)state;
    trial t = trial_filled("op=forward,b=1,hq=4,hkv=2,sq=9,sk=50,d=8,dv=3,dtype=f32,mask=causal",
                           ATTUNE_FILL_constant, 2);
    attune_reference *const r = trial_reference(&t);
    for (int64_t i = 0; i < o_count(&t.problem); i++) assert_near(r->o[i], 1.0 + (double)(i % 3));
    attune_reference_destroy(r);
    trial_destroy(&t);
}

/* ---- who sees whom ---- */

/* Equal scores, and v = unit vectors: O_j = 1/n for the n keys seen, 0 for others. */
static void assert_truth_table(const char *text, const char *const *table)
{
    const attune_problem problem = problem_of(text);
    trial t = trial_create(&problem);
    set_all(&t, TRIAL_Q, 0.0);
    for (int64_t j = 0; j < problem.seqlen_k; j++) set(&t, TRIAL_V, 0, j, 0, j, 1.0);
    attune_reference *const r = trial_reference(&t);
    for (int64_t i = 0; i < problem.seqlen_q; i++) {
        int64_t seen = 0;
        for (int64_t j = 0; j < problem.seqlen_k; j++) seen += table[i][j] == 'x';
        for (int64_t j = 0; j < problem.seqlen_k; j++)
            assert_near(o_of(r, 0, i, 0, j), table[i][j] == 'x' ? 1.0 / (double)seen : 0.0);
        assert_int_equal(r->visible[i], seen);
        if (seen > 0) assert_near(r->lse[i], log((double)seen));
        if (seen == 0) assert_true(r->lse[i] == -INFINITY);
    }
    attune_reference_destroy(r);
    trial_destroy(&t);
}

#define TABLE(sizes, mask, ...)                                                                    \
    assert_truth_table("op=forward,b=1,hq=1,hkv=1,dtype=f32," sizes ",mask=" mask,                 \
                       (const char *const[]){__VA_ARGS__})

static void masks_show_the_right_keys(void **state)
{
    (void)state;
    TABLE("sq=2,sk=5,d=5", "none", "xxxxx", "xxxxx");
    TABLE("sq=2,sk=5,d=5", "causal", "xxxx.", "xxxxx");
    TABLE("sq=2,sk=5,d=5", "causal-top-left", "x....", "xx...");
    TABLE("sq=5,sk=2,d=2", "none", "xx", "xx", "xx", "xx", "xx");
    TABLE("sq=5,sk=2,d=2", "causal", "..", "..", "..", "x.", "xx");
    TABLE("sq=5,sk=2,d=2", "causal-top-left", "x.", "xx", "xx", "xx", "xx");
    TABLE("sq=1,sk=4,d=4", "causal", "xxxx");
    TABLE("sq=1,sk=4,d=4", "causal-top-left", "x...");
    TABLE("sq=3,sk=3,d=3", "none", "xxx", "xxx", "xxx");
    TABLE("sq=3,sk=3,d=3", "causal", "x..", "xx.", "xxx");
    TABLE("sq=3,sk=3,d=3", "causal-top-left", "x..", "xx.", "xxx");
}

static void heads_read_the_key_head_of_their_group(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t of_head[6];
    } cases[] = {
        {"op=forward,b=2,hq=6,hkv=6,sq=1,sk=3,d=2,dtype=f32", {0, 1, 2, 3, 4, 5}},
        {"op=forward,b=2,hq=6,hkv=3,sq=1,sk=3,d=2,dtype=f32", {0, 0, 1, 1, 2, 2}},
        {"op=forward,b=2,hq=6,hkv=2,sq=1,sk=3,d=2,dtype=f32", {0, 0, 0, 1, 1, 1}},
        {"op=forward,b=2,hq=6,hkv=1,sq=1,sk=3,d=2,dtype=f32", {0, 0, 0, 0, 0, 0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        trial t = trial_filled(cases[c].text, ATTUNE_FILL_normal, 3);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t h = 0; h < t.problem.heads_kv; h++)
                for (int64_t j = 0; j < 3; j++)
                    for (int64_t d = 0; d < 2; d++)
                        set(&t, TRIAL_V, b, j, h, d, (double)(10 * b + h));
        attune_reference *const r = trial_reference(&t);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t h = 0; h < 6; h++)
                assert_near(o_of(r, b, 0, h, 1), (double)(10 * b + cases[c].of_head[h]));
        attune_reference_destroy(r);
        trial_destroy(&t);
    }
}

/* ---- identities ---- */

static const char *const ordinary = "op=forward,b=2,hq=4,hkv=2,sq=5,sk=23,d=6,dv=5,dtype=f32";

static void a_vector_added_to_every_key_moves_lse_only(void **state)
{
    (void)state;
    trial t = trial_filled(ordinary, ATTUNE_FILL_normal, 4);
    attune_reference *const before = trial_reference(&t);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t j = 0; j < 23; j++)
            for (int64_t h = 0; h < 2; h++)
                for (int64_t d = 0; d < 6;
                     d++) /* exact: the fill's numbers have 17 binary places */
                    set(&t, TRIAL_K, b, j, h, d, get(&t, TRIAL_K, b, j, h, d) + (double)(d + 1));
    attune_reference *const after = trial_reference(&t);
    for (int64_t i = 0; i < o_count(&t.problem); i++) assert_near(after->o[i], before->o[i]);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < 5; i++) {
                double shift = 0.0;
                for (int64_t d = 0; d < 6; d++)
                    shift += (double)(d + 1) * get(&t, TRIAL_Q, b, i, h, d);
                const int64_t place = lse_place(&t.problem, b, h, i);
                assert_near(after->lse[place],
                            before->lse[place] + t.problem.softmax_scale * shift);
            }
    attune_reference_destroy(before);
    attune_reference_destroy(after);
    trial_destroy(&t);
}

static void the_order_of_keys_means_nothing(void **state)
{
    (void)state;
    trial t = trial_filled(ordinary, ATTUNE_FILL_outlier, 5);
    trial other = trial_filled(ordinary, ATTUNE_FILL_outlier, 5);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t j = 0; j < 23; j++)
            for (int64_t h = 0; h < 2; h++) {
                const int64_t to = j * 7 % 23;
                for (int64_t d = 0; d < 6; d++)
                    set(&other, TRIAL_K, b, to, h, d, get(&t, TRIAL_K, b, j, h, d));
                for (int64_t d = 0; d < 5; d++)
                    set(&other, TRIAL_V, b, to, h, d, get(&t, TRIAL_V, b, j, h, d));
            }
    attune_reference *const r = trial_reference(&t), *const permuted = trial_reference(&other);
    for (int64_t i = 0; i < o_count(&t.problem); i++) assert_near(permuted->o[i], r->o[i]);
    for (int64_t i = 0; i < lse_count(&t.problem); i++) assert_near(permuted->lse[i], r->lse[i]);
    attune_reference_destroy(r);
    attune_reference_destroy(permuted);
    trial_destroy(&t);
    trial_destroy(&other);
}

static void the_answer_is_linear_in_v(void **state)
{
    (void)state;
    trial t = trial_filled(ordinary, ATTUNE_FILL_normal, 6);
    attune_reference *const r = trial_reference(&t);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t j = 0; j < 23; j++)
            for (int64_t h = 0; h < 2; h++)
                for (int64_t d = 0; d < 5; d++)
                    set(&t, TRIAL_V, b, j, h, d, 4.0 - 2.0 * get(&t, TRIAL_V, b, j, h, d));
    attune_reference *const mapped = trial_reference(&t);
    for (int64_t i = 0; i < o_count(&t.problem); i++)
        assert_near(mapped->o[i], 4.0 - 2.0 * r->o[i]);
    attune_reference_destroy(r);
    attune_reference_destroy(mapped);
    trial_destroy(&t);
}

static void parts_merge_by_lse(void **state)
{
    (void)state;
    trial t =
        trial_filled("op=forward,b=1,hq=1,hkv=1,sq=4,sk=30,d=8,dtype=f32", ATTUNE_FILL_peaked, 7);
    attune_reference *const whole = trial_reference(&t);
    for (int64_t split = 0; split <= 30; split += 10) {
        attune_reference *parts[2];
        for (int64_t i = 0; i < 2; i++) {
            attune_problem part = t.problem;
            part.seqlen_k = i == 0 ? split : 30 - split;
            const float *const k = (const float *)t.tensors[TRIAL_K] + (i == 0 ? 0 : split * 8);
            const float *const v = (const float *)t.tensors[TRIAL_V] + (i == 0 ? 0 : split * 8);
            assert_int_equal(attune_reference_create(&part, t.tensors[TRIAL_Q], k, v, &parts[i]),
                             ATTUNE_OK);
        }
        for (int64_t row = 0; row < 4; row++) {
            const double a = exp(parts[0]->lse[row] - whole->lse[row]);
            const double b = exp(parts[1]->lse[row] - whole->lse[row]);
            assert_near(a + b, 1.0);
            for (int64_t d = 0; d < 8; d++)
                assert_near(a * parts[0]->o[row * 8 + d] + b * parts[1]->o[row * 8 + d],
                            whole->o[row * 8 + d]);
        }
        attune_reference_destroy(parts[0]);
        attune_reference_destroy(parts[1]);
    }
    attune_reference_destroy(whole);
    trial_destroy(&t);
}

static void scale_zero_is_the_mean(void **state)
{
    (void)state;
    trial t = trial_filled("op=forward,b=1,hq=1,hkv=1,sq=2,sk=9,d=8,dtype=f32,scale=0",
                           ATTUNE_FILL_peaked, 8);
    attune_reference *const r = trial_reference(&t);
    for (int64_t d = 0; d < 8; d++) {
        double mean = 0.0;
        for (int64_t j = 0; j < 9; j++) mean += (double)get(&t, TRIAL_V, 0, j, 0, d) / 9.0;
        assert_near(o_of(r, 0, 1, 0, d), mean);
    }
    assert_near(r->lse[0], log(9.0));
    attune_reference_destroy(r);
    trial_destroy(&t);
}

/* ---- where things lie ---- */

static void strides_change_nothing(void **state)
{
    (void)state;
    const char *const layouts[] = {
        ",layout=bhsd",
        ",q_strides=200:40:9:1,k_strides=997:43:20:1,v_strides=1:89:7:1",
        ",q_strides=140:28:7:1,k_strides=0:14:7:1,v_strides=0:12:6:1",
        ",q_strides=140:28:7:1,k_strides=14:0:7:1,v_strides=12:0:6:1",
    };
    for (size_t c = 0; c < sizeof layouts / sizeof layouts[0]; c++) {
        char text[256];
        snprintf(text, sizeof text, "%s%s", ordinary, layouts[c]);
        trial t = trial_filled(text, ATTUNE_FILL_normal, 9);
        const attune_problem packed = problem_of(ordinary);
        trial same = trial_create(&packed);
        for (int tensor = TRIAL_Q; tensor <= TRIAL_V; tensor++) {
            int64_t sizes[ATTUNE_RANK];
            sizes_of(&packed, tensor, sizes);
            for (int64_t b = 0; b < sizes[0]; b++)
                for (int64_t s = 0; s < sizes[1]; s++)
                    for (int64_t h = 0; h < sizes[2]; h++)
                        for (int64_t d = 0; d < sizes[3]; d++)
                            set(&same, tensor, b, s, h, d, get(&t, tensor, b, s, h, d));
        }
        attune_reference *const r = trial_reference(&t), *const expected = trial_reference(&same);
        assert_memory_equal(r->o, expected->o, (size_t)o_count(&packed) * sizeof *r->o);
        assert_memory_equal(r->lse, expected->lse, (size_t)lse_count(&packed) * sizeof *r->lse);
        attune_reference_destroy(r);
        attune_reference_destroy(expected);
        trial_destroy(&t);
        trial_destroy(&same);
    }
}

static void empty_problems_have_empty_answers(void **state)
{
    (void)state;
    const char *const empty[] = {"op=forward,b=0,hq=2,hkv=1,sq=3,sk=4,d=8,dtype=f32",
                                 "op=forward,b=2,hq=2,hkv=1,sq=0,sk=4,d=8,dtype=f32"};
    for (int i = 0; i < 2; i++) {
        const attune_problem problem = problem_of(empty[i]);
        attune_reference *r = NULL;
        const float k[2 * 4 * 8] = {0.0f};
        assert_int_equal(attune_reference_create(&problem, NULL, k, k, &r), ATTUNE_OK);
        assert_non_null(r);
        attune_reference_destroy(r);
    }
    trial t = trial_filled("op=forward,b=2,hq=2,hkv=1,sq=3,sk=0,d=8,dtype=f16,mask=causal",
                           ATTUNE_FILL_normal, 1);
    attune_reference *r = NULL;
    assert_int_equal(attune_reference_create(&t.problem, t.tensors[TRIAL_Q], NULL, NULL, &r),
                     ATTUNE_OK);
    const attune_error_terms none = {.score = 0.0};
    for (int64_t i = 0; i < o_count(&t.problem); i++) {
        assert_true(r->o[i] == 0.0);
        assert_memory_equal(&r->o_terms[i], &none, sizeof none);
    }
    for (int64_t i = 0; i < lse_count(&t.problem); i++) assert_true(r->lse[i] == -INFINITY);
    attune_reference_destroy(r);
    trial_destroy(&t);
    attune_reference_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_is_the_answer),
        cmocka_unit_test(two_keys_are_a_sigmoid),
        cmocka_unit_test(equal_values_are_the_answer),
        cmocka_unit_test(masks_show_the_right_keys),
        cmocka_unit_test(heads_read_the_key_head_of_their_group),
        cmocka_unit_test(a_vector_added_to_every_key_moves_lse_only),
        cmocka_unit_test(the_order_of_keys_means_nothing),
        cmocka_unit_test(the_answer_is_linear_in_v),
        cmocka_unit_test(parts_merge_by_lse),
        cmocka_unit_test(scale_zero_is_the_mean),
        cmocka_unit_test(strides_change_nothing),
        cmocka_unit_test(empty_problems_have_empty_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
