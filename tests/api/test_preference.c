/* In which order kernels are preferred: hints, measurements, tables of classes and families. */
#include "made_up.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row of a family counts where none of the class does, and before one of any device. */
static void classes_come_before_families(void **user)
{
    (void)user;
    static const attune_tuned_row rows_of_family[] = {
        TUNED("kin", 64, INT64_MAX, "f32_d64_plain"),
        TUNED("own", 64, 10, "f32_d64_slim"),
        TUNED("*", 64, INT64_MAX, "f32_d64_wide"),
    };
    const attune_kernel_table of_family = {.rows = table.rows,
                                           .row_count = table.row_count,
                                           .tuned = rows_of_family,
                                           .tuned_count = 3};
    attune_device_caps caps = device("own", "fma wide");
    attune_problem problem = problem_of(ATTUNE_F32, 50, 64, 64);
    kernel_choice choice;
    assert_string_equal(chosen(&of_family, &caps, &problem, NULL, &choice), "f32_d64_wide");
    strcpy(caps.family, "kin");
    assert_string_equal(chosen(&of_family, &caps, &problem, NULL, &choice), "f32_d64_plain");
    problem.seqlen_q = 10;
    assert_string_equal(chosen(&of_family, &caps, &problem, NULL, &choice), "f32_d64_slim");
}

/* ---- measurements ---- */

static measured_winner winner_of(const char *kernel, int64_t seqlen_q, const char *options)
{
    measured_winner winner = {.problem = problem_of(ATTUNE_F32, seqlen_q, 64, 64),
                              .milliseconds = 1.0,
                              .default_milliseconds = 2.0};
    strcpy(winner.kernel, kernel);
    strcpy(winner.options, options);
    return winner;
}

static void assert_measured(const measured_winner *winners, int count, int64_t seqlen_q, bool tf32,
                            const char *id, kernel_level level)
{
    const attune_device_caps caps = device("big", "fma wide");
    const attune_problem problem = problem_of(ATTUNE_F32, seqlen_q, 64, 64);
    const kernel_request request = {.problem = &problem,
                                    .caps = &caps,
                                    .table = &table,
                                    .tf32 = tf32,
                                    .measured = winners,
                                    .measured_count = count};
    ranked_kernel *const ranked = kernels_ranked(&request);
    assert_non_null(ranked);
    assert_string_equal(ranked[0].row->id, id);
    assert_int_equal(ranked[0].level, level);
    free(ranked);
}

/* seqlen_q 50 is f32_d64_wide's by the table. */
static void the_nearest_winner_comes_before_the_table(void **user)
{
    (void)user;
    const measured_winner winners[] = {
        winner_of("f32_d64_slim", 50, ""), winner_of("f32_d64_plain", 100, ""),
        winner_of("f32_d128_plain", 50, ""), /* of more head_dim than is needed */
        winner_of("f32_d64_gone", 50, ""),   /* of another library */
    };
    assert_measured(winners, 0, 50, false, "f32_d64_wide", LEVEL_CLASS);
    assert_measured(winners, 4, 50, false, "f32_d64_slim", LEVEL_MEASURED);
    assert_measured(winners, 4, 60, false, "f32_d64_slim", LEVEL_MEASURED);
    assert_measured(winners, 4, 90, false, "f32_d64_plain", LEVEL_MEASURED);
    assert_measured(winners, 4, 300, false, "f32_d64_plain", LEVEL_MEASURED);
    assert_measured(winners, 4, 301, false, "f32_d64_plain", LEVEL_CLASS);
    assert_measured(winners + 1, 1, 33, false, "f32_d64_wide", LEVEL_CLASS);
    assert_measured(winners + 2, 2, 50, false, "f32_d64_wide", LEVEL_CLASS);
}

static void winners_count_for_the_options_that_they_were_sought_with(void **user)
{
    (void)user;
    const measured_winner winners[] = {winner_of("f32_d64_slim", 50, ""),
                                       winner_of("f32_d64_plain", 50, "tf32"),
                                       winner_of("f32_d64_plain", 50, "kernel=*plain")};
    assert_measured(winners, 1, 50, false, "f32_d64_slim", LEVEL_MEASURED);
    assert_measured(winners, 1, 50, true, "f32_d64_wide", LEVEL_CLASS); /* tf32 brings in others */
    assert_measured(winners, 2, 50, true, "f32_d64_plain", LEVEL_MEASURED);
    assert_measured(winners + 1, 2, 50, false, "f32_d64_wide", LEVEL_CLASS);
}

static void a_hint_comes_first_where_it_can_run(void **user)
{
    (void)user;
    const attune_device_caps caps = device("big", "");
    const attune_problem problem = problem_of(ATTUNE_F32, 50, 64, 64);
    const measured_winner winner = winner_of("f32_d64_slim", 50, "");
    kernel_request request = {.problem = &problem,
                              .caps = &caps,
                              .table = &table,
                              .hint = "f32_d128_plain",
                              .measured = &winner,
                              .measured_count = 1};
    ranked_kernel *ranked = kernels_ranked(&request);
    kernel_choice choice;
    assert_int_equal(ranked[0].level, LEVEL_HINT);
    assert_int_equal(plan_choose(&request, ranked, 0, &choice), 0);
    assert_string_equal(choice.row->id, "f32_d128_plain");
    free(ranked);
    request.hint = "f32_d64_wide"; /* which this device lacks a feature for */
    ranked = kernels_ranked(&request);
    assert_int_equal(plan_choose(&request, ranked, 0, &choice), 1);
    assert_string_equal(choice.row->id, "f32_d64_slim");
    free(ranked);
    request.hint = "f16_d64_group"; /* of another dtype */
    ranked = kernels_ranked(&request);
    assert_int_equal(ranked[0].level, LEVEL_MEASURED);
    free(ranked);
}

static void distances_are_octaves(void **user)
{
    (void)user;
    const attune_problem from = problem_of(ATTUNE_F32, 64, 64, 64);
    attune_problem to = from;
    assert_true(problem_distance(&from, &to) == 0.0);
    to.seqlen_q = 128;
    assert_true(problem_distance(&from, &to) == 2.0);
    assert_true(problem_distance(&to, &from) == 2.0);
    to.seqlen_k = 400; /* four times as long */
    assert_true(problem_distance(&from, &to) == 4.0);
    to.mask = ATTUNE_MASK_CAUSAL;
    assert_true(isinf(problem_distance(&from, &to)));
    to = from;
    to.mask = ATTUNE_MASK_CAUSAL;
    to.batch = 4;
    assert_true(problem_distance(&from, &to) == 1.5);
    to = from;
    to.dtype = ATTUNE_F16;
    assert_true(isinf(problem_distance(&from, &to)));
    to = from;
    to.seqlen_q = 0; /* as good as 1 */
    assert_true(isinf(problem_distance(&from, &to)));
}

static void options_have_one_spelling(void **user)
{
    (void)user;
    const attune_problem f32 = problem_of(ATTUNE_F32, 1, 1, 1),
                         f16 = problem_of(ATTUNE_F16, 1, 1, 1);
    char text[REQUEST_OPTIONS_SIZE];
    request_options(&(kernel_request){.problem = &f32}, text);
    assert_string_equal(text, "");
    request_options(&(kernel_request){.problem = &f32, .tf32 = true, .reproducible = true}, text);
    assert_string_equal(text, "reproducible,tf32");
    request_options(&(kernel_request){.problem = &f16, .tf32 = true}, text);
    assert_string_equal(text, "");
    request_options(&(kernel_request){.problem = &f32, .tf32 = true, .engine = "matrix"}, text);
    assert_string_equal(text, "engine=matrix");
    request_options(&(kernel_request){.problem = &f16, .glob = "*_simt_*"}, text);
    assert_string_equal(text, "kernel=*_simt_*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_come_before_families),
        cmocka_unit_test(the_nearest_winner_comes_before_the_table),
        cmocka_unit_test(winners_count_for_the_options_that_they_were_sought_with),
        cmocka_unit_test(a_hint_comes_first_where_it_can_run),
        cmocka_unit_test(distances_are_octaves),
        cmocka_unit_test(options_have_one_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
