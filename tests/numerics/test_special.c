/* The exact answer where inputs are NaN or infinite, its error terms, single rows, and refusals. */
#include "trial.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double o_of(const attune_reference *r, int64_t seq, int64_t dim)
{
    return r->o[seq * r->problem.head_dim_v + dim];
}

/* ---- NaN and infinity ---- */

static const char *const causal =
    "op=forward,b=1,hq=1,hkv=1,sq=5,sk=7,d=4,dtype=f32,mask=causal,q_strides=0:9:0:1,"
    "k_strides=0:9:0:1,v_strides=0:9:0:1";

static void what_is_hidden_or_between_changes_nothing(void **state)
{
    (void)state;
    trial clean = trial_filled(causal, ATTUNE_FILL_normal, 1);
    trial poisoned = trial_filled(causal, ATTUNE_FILL_poison, 1);
    const double specials[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        for (int64_t d = 0; d < 4; d++) {
            set(&poisoned, TRIAL_K, 0, 6, 0, d, specials[i]);
            set(&poisoned, TRIAL_V, 0, 6, 0, d, specials[i]);
        }
        attune_reference *const a = trial_reference(&clean), *const b = trial_reference(&poisoned);
        assert_memory_equal(a->o, b->o, 4 * 4 * sizeof *a->o);
        assert_memory_equal(a->o_terms, b->o_terms, 4 * 4 * sizeof *a->o_terms);
        assert_memory_equal(a->lse, b->lse, 4 * sizeof *a->lse);
        assert_true(isnan(o_of(b, 4, 0)) && isnan(b->lse[4]));
        attune_reference_destroy(a);
        attune_reference_destroy(b);
    }
    trial_destroy(&clean);
    trial_destroy(&poisoned);
}

/* Sets one element, then asserts what becomes of row 1 (which sees keys 0 to 3), of the rows after it, and of row 0, which sees 0 to 2. */
static void assert_effect(int tensor, int64_t seq, double x, double o, double lse)
{
    trial t = trial_filled(causal, ATTUNE_FILL_normal, 2);
    attune_reference *const before = trial_reference(&t);
    set(&t, tensor, 0, seq, 0, 1, x);
    attune_reference *const after = trial_reference(&t);
    assert_memory_equal(after->o, before->o, 4 * sizeof *after->o);
    const int64_t last = tensor == TRIAL_Q ? 1 : 4;
    for (int64_t row = 1; row <= last; row++)
        for (int64_t d = 0; d < 4; d++) {
            const bool reached = tensor != TRIAL_V || d == 1;
            const double got = o_of(after, row, d);
            const double expected = reached ? o : o_of(before, row, d);
            assert_true(isnan(expected) ? isnan(got) : got == expected);
        }
    if (tensor == TRIAL_Q) assert_memory_equal(&after->o[8], &before->o[8], 12 * sizeof(double));
    const double expected = tensor == TRIAL_V ? before->lse[1] : lse;
    assert_true(isnan(expected) ? isnan(after->lse[1]) : after->lse[1] == expected);
    attune_reference_destroy(before);
    attune_reference_destroy(after);
    trial_destroy(&t);
}

static void what_is_visible_reaches_the_rows_that_see_it(void **state)
{
    (void)state;
    assert_effect(TRIAL_Q, 1, NAN, NAN, NAN);
    assert_effect(TRIAL_Q, 1, INFINITY, NAN, NAN);
    assert_effect(TRIAL_K, 3, NAN, NAN, NAN);
    assert_effect(TRIAL_V, 3, NAN, NAN, 0.0);
    assert_effect(TRIAL_V, 3, INFINITY, INFINITY, 0.0);
    assert_effect(TRIAL_V, 3, -INFINITY, -INFINITY, 0.0);
}

/* Keys whose scores are -inf weigh nothing; a row that has no others is a row without keys. */
static void scores_of_minus_infinity_weigh_nothing(void **state)
{
    (void)state;
    const attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=4,d=2,dtype=f16");
    trial t = trial_create(&problem);
    set_all(&t, TRIAL_Q, 1.0);
    set_all(&t, TRIAL_K, 0.0);
    for (int64_t j = 0; j < 4; j++)
        for (int64_t d = 0; d < 2; d++) set(&t, TRIAL_V, 0, j, 0, d, (double)(j + 1));
    for (int64_t j = 0; j < 4; j++) {
        set(&t, TRIAL_K, 0, j, 0, 0, -INFINITY);
        attune_reference *const r = trial_reference(&t);
        const double others = (double)(3 - j), sum = 10.0 - (double)((j + 1) * (j + 2)) / 2.0;
        assert_int_equal(r->visible[0], 4);
        if (j < 3) {
            assert_true(fabs(r->o[0] - sum / others) < 1e-14);
            assert_true(fabs(r->lse[0] - log(others)) < 1e-14);
            assert_true(isfinite(r->o_terms[0].score) && isfinite(r->o_terms[0].magnitude));
        } else {
            const attune_error_terms none = {.score = 0.0};
            assert_true(r->o[0] == 0.0 && r->o[1] == 0.0);
            assert_true(r->lse[0] == -INFINITY);
            assert_memory_equal(&r->o_terms[0], &none, sizeof none);
        }
        attune_reference_destroy(r);
    }
    trial_destroy(&t);
}

static void scores_of_infinity_or_nothing_but_nan_are_nan(void **state)
{
    (void)state;
    const attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=1,dtype=f32");
    trial t = trial_create(&problem);
    set_all(&t, TRIAL_Q, 1.0);
    const double keys[][2] = {{INFINITY, 0.0}, {INFINITY, -INFINITY}, {NAN, -INFINITY}, {NAN, NAN}};
    for (int i = 0; i < 4; i++) {
        set(&t, TRIAL_K, 0, 0, 0, 0, keys[i][0]);
        set(&t, TRIAL_K, 0, 1, 0, 0, keys[i][1]);
        attune_reference *const r = trial_reference(&t);
        assert_true(isnan(r->o[0]) && isnan(r->lse[0]));
        attune_reference_destroy(r);
    }
    trial_destroy(&t);
}

/* Where fp32 cannot hold a score or a sum, the bound is infinite; just below it is not. */
static void what_fp32_cannot_hold_is_unbounded(void **state)
{
    (void)state;
    const struct {
        double q, k, v, scale;
        bool bounded;
    } cases[] = {
        {1e10, 1e27, 1.0, 1.0, true},   {1e20, 1e20, 1.0, 1e-20, false},
        {1.0, 1.0, 1.0, 1e38, true},    {10.0, 1.0, 1.0, 1e38, false},
        {1.0, 1.0, 1.0, 1.5e38, false}, /* in octaves */

        {1.0, 1.0, 1e38, 1.0, true},    {1.0, 1.0, 3e38, 1.0, false},
        {1e20, -1e20, 1.0, 1.0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32");
        problem.softmax_scale = cases[i].scale;
        trial t = trial_create(&problem);
        set_all(&t, TRIAL_Q, cases[i].q);
        set_all(&t, TRIAL_K, cases[i].k);
        set_all(&t, TRIAL_V, cases[i].v);
        attune_reference *const r = trial_reference(&t);
        const attune_arithmetic arithmetic = fp32_arithmetic(&problem, 32);
        const double bound = attune_bound_o(&arithmetic, r->o_terms, r->o[0], ATTUNE_F32);
        if (isfinite(bound) != cases[i].bounded) fail_msg("case %zu: bound %g", i, bound);
        attune_reference_destroy(r);
        trial_destroy(&t);
    }
}

/* ---- error terms ---- */

/* Two keys whose weights are 3/4 and 1/4: everything by hand. */
static void terms_are_what_the_header_says(void **state)
{
    (void)state;
    attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=2,dv=1,dtype=f32");
    problem.softmax_scale = -log(3.0);
    trial t = trial_create(&problem);
    set_all(&t, TRIAL_Q, 1.0);
    const double k[2][2] = {{1.5, -2.5}, {-2.0, 2.0}}, v[2] = {8.0, -4.0};
    for (int64_t j = 0; j < 2; j++) {
        for (int64_t d = 0; d < 2; d++) set(&t, TRIAL_K, 0, j, 0, d, k[j][d]);
        set(&t, TRIAL_V, 0, j, 0, 0, v[j]);
    }
    attune_reference *const r = trial_reference(&t);
    const double scale = log(3.0), l = 4.0 / 3.0, o = 5.0; /* s = log 3, 0 */
    const attune_error_terms of_o = {
        .score = 0.75 * 4.0 * scale * 3.0 + 0.25 * 4.0 * scale * 9.0,
        .magnitude = 0.75 * 2.0 * scale * 3.0 + 0.25 * scale * 9.0,
        .spread = 0.75 * 3.0 + 0.25 * 9.0,
        .values = 0.75 * 8.0 + 0.25 * 4.0,
        .underflow = (12.0 + 2.0 * 5.0) / l,
        .peak = 0.75,
    };
    const attune_error_terms of_lse = {
        .score = 4.0 * scale,
        .magnitude = 0.75 * 2.0 * scale + 0.25 * scale,
        .spread = 1.0,
        .values = 1.0,
        .underflow = 2.0 / l,
        .peak = 0.75,
    };
    const double *const got[] = {(const double *)r->o_terms, (const double *)r->lse_terms};
    const double *const expected[] = {(const double *)&of_o, (const double *)&of_lse};
    for (int i = 0; i < 2; i++)
        for (size_t member = 0; member < sizeof of_o / sizeof(double); member++)
            assert_true(fabs(got[i][member] - expected[i][member]) < 1e-13);
    assert_true(fabs(r->o[0] - o) < 1e-14);
    assert_true(fabs(r->lse[0] - log(4.0)) < 1e-14);
    attune_reference_destroy(r);
    trial_destroy(&t);
}

/* The same weights; of scores and values, those that a subnormal makes. */
static void what_is_flushed_is_what_subnormals_make(void **state)
{
    (void)state;
    attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=2,dv=2,dtype=f16");
    const double scale = 0x1p16, least = 0x1p-14, sub = 0x1p-17;
    problem.softmax_scale = -scale;
    trial t = trial_create(&problem);
    const double q[2] = {least, -sub}, k[2][2] = {{sub, 1.0}, {-least, 0.0}};
    const double v[2][2] = {{sub, 1.0}, {-least, 0.0}};
    for (int64_t j = 0; j < 2; j++) {
        set(&t, TRIAL_Q, 0, 0, 0, j, q[j]);
        for (int64_t d = 0; d < 2; d++) {
            set(&t, TRIAL_K, 0, j, 0, d, k[j][d]);
            set(&t, TRIAL_V, 0, j, 0, d, v[j][d]);
        }
    }
    attune_reference *const r = trial_reference(&t);
    const double s[2] = {scale * (sub - least * sub), scale * least * least};
    const double l = 1.0 + exp(s[1] - s[0]), p[2] = {1.0 / l, exp(s[1] - s[0]) / l};
    const double f = (1.0 + 0x1p-6) * scale *
                     (least * sub + sub); /* of the first key; the second has no subnormal */
    const double rise = p[0] * expm1(f), fallen = p[0] * exp(-f) + p[1];
    const double expected[2] = {rise * fabs(sub - r->o[0]) / fallen + p[0] * sub,
                                rise * fabs(1.0 - r->o[1]) / fallen};
    for (int d = 0; d < 2; d++)
        assert_true(fabs(r->o_terms[d].flushed / expected[d] - 1.0) < 1e-13);
    assert_true(fabs(r->lse_terms[0].flushed / log1p(rise) - 1.0) < 1e-13);
    attune_reference_destroy(r);
    trial_destroy(&t);
}

/* Of two keys the one with subnormals may lose its whole score, whatever that does to its weight: an output without them is within what is said. */
static void flushed_scores_are_bounded_exactly(void **state)
{
    (void)state;
    for (int large = 1; large <= 60000; large = large * 3 + 1) {
        attune_problem problem =
            problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=2,d=16,dv=2,dtype=f16,lse=1");
        trial t = trial_create(&problem);
        set_all(&t, TRIAL_Q, large);
        set_all(&t, TRIAL_K, 0.0);
        for (int64_t d = 0; d < 16; d++) set(&t, TRIAL_K, 0, 0, 0, d, -0x1p-15);
        set_all(&t, TRIAL_V, 1.0);
        set(&t, TRIAL_V, 0, 0, 0, 1, -2.0);
        attune_reference *const r = trial_reference(&t);
        const double flushed = 0.5 * 1.0 + 0.5 * -2.0; /* both weights alike */
        const double loss = fabs(flushed - r->o[1]), lse_loss = fabs(log(2.0) - r->lse[0]);
        assert_true(loss > 0.0 && loss <= r->o_terms[1].flushed);
        assert_true(r->o_terms[1].flushed <= 3.0 + 1e-12); /* the farthest value */
        assert_true(lse_loss <= r->lse_terms[0].flushed);
        assert_true(r->o_terms[0].flushed < 1e-12); /* equal values do not care */
        attune_reference_destroy(r);
        trial_destroy(&t);
    }
}

/* Products and sums of normal numbers may be subnormal in single precision. */
static void what_sums_lose_is_flushed_too(void **state)
{
    (void)state;
    attune_problem problem = problem_of("op=forward,b=1,hq=1,hkv=1,sq=1,sk=3,d=5,dv=1,dtype=bf16");
    problem.softmax_scale = 0x1p100;
    trial t = trial_create(&problem);
    set_all(&t, TRIAL_Q, 1.0);
    set_all(&t, TRIAL_K, 0.0);
    set_all(&t, TRIAL_V, 0.0);
    set(&t, TRIAL_V, 0, 0, 0, 0, 3.0);
    attune_reference *const r = trial_reference(&t);
    const double of_sums = 0x1p-123; /* 3 · 2^-123 / l, with l = 3 */
    const double of_scores = (1.0 + 0x1p-6) * 0x1p100 * 5.0 * 0x1p-124; /* of each key alike */
    const double o = expm1(of_scores) * exp(of_scores) * 4.0 / 3.0 + of_sums;
    const double lse = of_scores + of_sums;
    assert_true(fabs(r->o_terms[0].flushed / o - 1.0) < 1e-13);
    assert_true(fabs(r->lse_terms[0].flushed / lse - 1.0) < 1e-13);
    attune_reference_destroy(r);
    trial_destroy(&t);
}

/* Every member a different power of two, so that a sum tells which were taken, and how often. */
static void bounds_are_the_formula(void **state)
{
    (void)state;
    const attune_arithmetic a = {.u_out = 0x1p-3,
                                 .u_in = 0x1p-13,
                                 .u_p = 0x1p-5,
                                 .eta_p = 0x1p-7,
                                 .flushes = 1.0,
                                 .u_acc = 0x1p-9,
                                 .eps_exp = 0x1p-11,
                                 .n_s = 2.0,
                                 .n_pv = 8.0};
    const attune_error_terms t = {.score = 1e1,
                                  .magnitude = 1e2,
                                  .spread = 1e3,
                                  .values = 1e4,
                                  .underflow = 1e5,
                                  .peak = 0.5,
                                  .flushed = 1e-1};
    const double relative =
        (2.0 * 0x1p-9 + 2.0 * 0x1p-13) * 1e1 + 3.0 * 0x1p-24 * 1e2 + 0x1p-11 * 1e3 + 1e-1;
    const double o = (0x1p-3 + 0x1p-23) * 7.0 + relative + (0x1p-5 + 0x1p-13 + 8.0 * 0x1p-9) * 1e4 +
                     8.0 * 0x1p-24 * 7.0 + 0x1p-7 * 1e5;
    assert_true(fabs(attune_bound_o(&a, &t, -7.0, ATTUNE_F32) / o - 1.0) < 1e-14);
    const double lse = relative + 5.0 * 0x1p-24 + 0x1p-24 * 7.0;
    assert_true(fabs(attune_bound_lse(&a, &t, -7.0, 5) / lse - 1.0) < 1e-14);

    const attune_error_terms none = {.score = 0.0};
    const attune_arithmetic shorter = {.u_in = 0x1p-11};
    assert_true(attune_bound_o(&shorter, &none, 0.0, ATTUNE_F32) == 0x1p-137 + 0x1p-150);

    const attune_arithmetic exact = {.n_pv = 8.0};
    const attune_error_terms small = {.underflow = 0x1p-20, .peak = 0.5, .flushed = 1e-1};
    assert_true(attune_bound_o(&exact, &small, 0.0, ATTUNE_F32) ==
                0x1p-144 + 4.0 * 0x1p-149 + 0x1p-150);
    assert_true(attune_bound_o(&exact, &small, 0.0, ATTUNE_BF16) ==
                0x1p-144 + 4.0 * 0x1p-149 + 0x1p-134);
    assert_true(fabs(attune_bound_o(&exact, &small, 0.0, ATTUNE_F16) - 0x1p-25) < 0x1p-75);
}

/* ---- rows and refusals ---- */

static void one_row_is_a_row_of_all(void **state)
{
    (void)state;
    trial t = trial_filled("op=forward,b=2,hq=4,hkv=2,sq=5,sk=9,d=8,dv=3,dtype=bf16,mask=causal",
                           ATTUNE_FILL_normal, 3);
    attune_reference *const r = trial_reference(&t);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < 5; i++) {
                double o[3], lse;
                attune_error_terms o_terms[3], lse_terms;
                int64_t visible;
                assert_int_equal(attune_reference_row(&t.problem, t.tensors[TRIAL_Q],
                                                      t.tensors[TRIAL_K], t.tensors[TRIAL_V], b, h,
                                                      i, o, o_terms, &lse, &lse_terms, &visible),
                                 ATTUNE_OK);
                const int64_t at = ((b * 5 + i) * 4 + h) * 3;
                const int64_t place = lse_place(&t.problem, b, h, i);
                assert_memory_equal(o, r->o + at, sizeof o);
                assert_memory_equal(o_terms, r->o_terms + at, sizeof o_terms);
                assert_memory_equal(&lse, r->lse + place, sizeof lse);
                assert_memory_equal(&lse_terms, r->lse_terms + place, sizeof lse_terms);
                assert_int_equal(visible, r->visible[place]);
                assert_int_equal(attune_reference_row(&t.problem, t.tensors[TRIAL_Q],
                                                      t.tensors[TRIAL_K], t.tensors[TRIAL_V], b, h,
                                                      i, NULL, NULL, NULL, NULL, NULL),
                                 ATTUNE_OK);
            }
    attune_reference_destroy(r);
    trial_destroy(&t);
}

static void assert_refused(attune_status status, attune_status expected, const char *word)
{
    assert_int_equal(status, expected);
    if (strstr(attune_error_detail(), word) == NULL)
        fail_msg("\"%s\" does not speak of %s", attune_error_detail(), word);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    trial t =
        trial_filled("op=forward,b=2,hq=4,hkv=2,sq=5,sk=9,d=8,dtype=f32", ATTUNE_FILL_normal, 4);
    const attune_problem *const p = &t.problem;
    const void *const q = t.tensors[TRIAL_Q], *const k = t.tensors[TRIAL_K],
                      *const v = t.tensors[TRIAL_V];
    attune_reference *r = NULL;
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;
    assert_refused(attune_reference_create(p, NULL, k, v, &r), bad, "q is NULL");
    assert_refused(attune_reference_create(p, q, NULL, v, &r), bad, "k is NULL");
    assert_refused(attune_reference_create(p, q, k, NULL, &r), bad, "v is NULL");
    assert_refused(attune_reference_create(p, q, k, v, NULL), bad, "reference");
    assert_refused(attune_reference_create(NULL, q, k, v, &r), bad, "NULL");
    attune_problem other = *p;
    other.heads_kv = 3;
    assert_refused(attune_reference_create(&other, q, k, v, &r), bad, "heads_q");
    assert_null(r);

    const int64_t outside[][3] = {{2, 0, 0},  {-1, 0, 0}, {0, 4, 0},
                                  {0, -1, 0}, {0, 0, 5},  {0, 0, -1}};
    const char *const words[] = {"batch", "batch", "head", "head", "row", "row"};
    for (int i = 0; i < 6; i++)
        assert_refused(attune_reference_row(p, q, k, v, outside[i][0], outside[i][1], outside[i][2],
                                            NULL, NULL, NULL, NULL, NULL),
                       bad, words[i]);
    trial_destroy(&t);
}

/* Sizes whose answer no machine holds, on tensors that are one broadcast element. */
static void too_large_is_out_of_memory(void **state)
{
    (void)state;
    attune_problem problem =
        problem_of("op=forward,b=2147483647,hq=2147483647,hkv=1,sq=4,sk=1,d=1,dtype=f32");
    memset(problem.q_strides, 0, sizeof problem.q_strides);
    memset(problem.k_strides, 0, sizeof problem.k_strides);
    memset(problem.v_strides, 0, sizeof problem.v_strides);
    problem.q_strides[ATTUNE_DIM] = problem.k_strides[ATTUNE_DIM] = 1;
    problem.v_strides[ATTUNE_DIM] = 1;
    problem.o_strides[ATTUNE_SEQ] = 1;
    problem.o_strides[ATTUNE_HEAD] = 4;
    problem.o_strides[ATTUNE_BATCH] = INT64_C(4) * INT32_MAX;
    problem.batch = 1 << 26;
    const float one = 1.0f;
    attune_reference *r = NULL;
    assert_refused(attune_reference_create(&problem, &one, &one, &one, &r), ATTUNE_OUT_OF_MEMORY,
                   "memory");
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_hidden_or_between_changes_nothing),
        cmocka_unit_test(what_is_visible_reaches_the_rows_that_see_it),
        cmocka_unit_test(scores_of_minus_infinity_weigh_nothing),
        cmocka_unit_test(scores_of_infinity_or_nothing_but_nan_are_nan),
        cmocka_unit_test(what_fp32_cannot_hold_is_unbounded),
        cmocka_unit_test(terms_are_what_the_header_says),
        cmocka_unit_test(what_is_flushed_is_what_subnormals_make),
        cmocka_unit_test(flushed_scores_are_bounded_exactly),
        cmocka_unit_test(what_sums_lose_is_flushed_too),
        cmocka_unit_test(bounds_are_the_formula),
        cmocka_unit_test(one_row_is_a_row_of_all),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(too_large_is_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
