/* White box of src/choose.h: made-up devices and tables. */
#include "choose.h"

#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void no_group(const attune_forward_args *args, const void *q, const void *k, const void *v,
                     void *o, float *lse, float *workspace, int64_t group)
{
    (void)args, (void)q, (void)k, (void)v, (void)o, (void)lse, (void)workspace, (void)group;
}

#define COMMON .op = ATTUNE_FORWARD, .engine = "vector", .block_k = 32
#define F32(dim, features)                                                                         \
    COMMON, .dtype = ATTUNE_F32, .head_dim = dim, .threads = 1, .requires_features = features

/* In the order of a generated table: by dtype and head_dim, then by preference. */
static const attune_kernel_row rows[] = {
    {F32(64, "wide fma"), .id = "f32_d64_wide", .block_q = 8, .panel = 32, .forward = no_group},
    {F32(64, ""), .id = "f32_d64_plain", .block_q = 8, .panel = 16, .forward = no_group},
    {F32(64, ""), .id = "f32_d64_slim", .block_q = 1, .forward = no_group},
    {F32(128, "wide"), .id = "f32_d128_wide", .block_q = 8, .forward = no_group},
    {F32(128, ""), .id = "f32_d128_plain", .block_q = 8, .forward = no_group},
    {COMMON, .id = "f16_d64_group", .dtype = ATTUNE_F16, .head_dim = 64, .block_q = 8,
     .threads = 128, .fast_memory = 40000, .requires_features = "", .forward = no_group},
    {COMMON, .id = "bf16_d64_absent", .dtype = ATTUNE_BF16, .head_dim = 64, .block_q = 8,
     .requires_features = ""},
    {COMMON, .id = "bf16_d64_source", .dtype = ATTUNE_BF16, .head_dim = 64, .block_q = 8,
     .requires_features = "", .body = "text"},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

#define TUNED(class, dim, most, id)                                                                \
    {                                                                                              \
        .device_class = class, .op = ATTUNE_FORWARD, .dtype = ATTUNE_F32, .head_dim = dim,         \
        .max_seqlen_q = most, .kernel = id                                                         \
    }

static const attune_tuned_row tuned[] = {
    TUNED("big", 64, 4, "f32_d64_slim"),          TUNED("big", 64, 100, "f32_d64_wide"),
    TUNED("big", 64, INT64_MAX, "f32_d64_plain"), TUNED("big", 128, INT64_MAX, "f32_d128_plain"),
    TUNED("*", 64, INT64_MAX, "f32_d64_slim"),    TUNED("*", 128, 10, "f32_d128_plain"),
};

static const attune_kernel_table table = {
    .rows = rows,
    .row_count = ROW_COUNT,
    .tuned = tuned,
    .tuned_count = sizeof tuned / sizeof tuned[0],
};

static const attune_kernel_table untuned = {.rows = rows, .row_count = ROW_COUNT};

static attune_device_caps device(const char *class, const char *features)
{
    attune_device_caps caps = {
        .info = {.id = "made-up:0"}, .max_threads = 256, .fast_memory = 65536};
    strcpy(caps.device_class, class);
    strcpy(caps.features, features);
    return caps;
}

static attune_problem problem_of(attune_dtype dtype, int64_t seqlen_q, int64_t head_dim,
                                 int64_t head_dim_v)
{
    attune_problem problem;
    attune_problem_init(&problem, dtype, 2, 6, 3, seqlen_q, 100, head_dim, head_dim_v);
    return problem;
}

/* The id of what is chosen, "" for nothing. */
static const char *chosen(const attune_kernel_table *from, const attune_device_caps *caps,
                          const attune_problem *problem, const char *glob, kernel_choice *choice)
{
    const kernel_request request = {.problem = problem, .caps = caps, .table = from, .glob = glob};
    ranked_kernel *const ranked = kernels_ranked(&request);
    assert_non_null(ranked);
    const int place = plan_choose(&request, ranked, 0, choice);
    free(ranked);
    return place < 0 ? "" : choice->row->id;
}

static void assert_chosen(const attune_kernel_table *from, const char *class, const char *features,
                          int64_t seqlen_q, int64_t head_dim, const char *id)
{
    const attune_device_caps caps = device(class, features);
    const attune_problem problem = problem_of(ATTUNE_F32, seqlen_q, head_dim, head_dim);
    kernel_choice choice;
    assert_string_equal(chosen(from, &caps, &problem, NULL, &choice), id);
}

static void the_table_orders_what_nothing_tunes(void **user)
{
    (void)user;
    assert_chosen(&untuned, "small", "fma wide", 50, 64, "f32_d64_wide");
    assert_chosen(&untuned, "small", "", 50, 64, "f32_d64_plain");
    assert_chosen(&untuned, "small", "wider fma", 50, 64, "f32_d64_plain");
    assert_chosen(&untuned, "small", "wide fmaddsub", 50, 64, "f32_d64_plain");
}

static void the_smallest_sufficient_head_dim_wins(void **user)
{
    (void)user;
    assert_chosen(&untuned, "small", "fma wide", 50, 1, "f32_d64_wide");
    assert_chosen(&untuned, "small", "fma wide", 50, 65, "f32_d128_wide");
    assert_chosen(&table, "big", "fma wide", 50, 65, "f32_d128_plain");
    assert_chosen(&table, "big", "fma wide", 50, 128, "f32_d128_plain");
    assert_chosen(&table, "big", "fma wide", 50, 129, "");

    const attune_device_caps caps = device("big", "fma wide");
    const attune_problem wide_values = problem_of(ATTUNE_F32, 50, 32, 100);
    kernel_choice choice;
    assert_string_equal(chosen(&untuned, &caps, &wide_values, NULL, &choice), "f32_d128_wide");
}

static void tuned_rows_go_by_class_and_seqlen_q(void **user)
{
    (void)user;
    assert_chosen(&table, "big", "fma wide", 1, 64, "f32_d64_slim");
    assert_chosen(&table, "big", "fma wide", 4, 64, "f32_d64_slim");
    assert_chosen(&table, "big", "fma wide", 5, 64, "f32_d64_wide");
    assert_chosen(&table, "big", "fma wide", 100, 64, "f32_d64_wide");
    assert_chosen(&table, "big", "fma wide", 101, 64, "f32_d64_plain");
    assert_chosen(&table, "other", "fma wide", 50, 64, "f32_d64_slim");
    assert_chosen(&table, "other", "fma wide", 10, 128, "f32_d128_plain");
    assert_chosen(&table, "other", "fma wide", 11, 128, "f32_d128_wide");
    /* What the device cannot run is passed over, tuned or not. */
    assert_chosen(&table, "big", "", 50, 64, "f32_d64_plain");
}

/* A row of a family counts where none of the class does, and before one of any device. */
static void classes_come_before_families(void **user)
{
    (void)user;
    static const attune_tuned_row rows_of_family[] = {
        TUNED("kin", 64, INT64_MAX, "f32_d64_plain"),
        TUNED("own", 64, 10, "f32_d64_slim"),
        TUNED("*", 64, INT64_MAX, "f32_d64_wide"),
    };
    const attune_kernel_table of_family = {
        .rows = rows, .row_count = ROW_COUNT, .tuned = rows_of_family, .tuned_count = 3};
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

static void a_launch_covers_the_problem(void **user)
{
    (void)user;
    const attune_device_caps caps = device("small", "wide fma");
    kernel_choice choice;
    attune_problem problem = problem_of(ATTUNE_F32, 17, 40, 24);

    chosen(&untuned, &caps, &problem, "*plain", &choice);
    assert_int_equal(choice.groups, 2 * 6 * 3);
    assert_int_equal(choice.pack_groups, 2 * 3 * 4);
    assert_int_equal(choice.workspace, 4 * 2 * 3 * (112 * 40 + 32 * 100));

    chosen(&untuned, &caps, &problem, "*slim", &choice);
    assert_int_equal(choice.groups, 2 * 6 * 17);
    assert_int_equal(choice.pack_groups, 0);
    assert_int_equal(choice.workspace, 0);

    problem.seqlen_k = 0;
    chosen(&untuned, &caps, &problem, "*plain", &choice);
    assert_int_equal(choice.groups, 2 * 6 * 3);
    assert_int_equal(choice.pack_groups, 0);
    assert_int_equal(choice.workspace, 0);

    problem.seqlen_q = 0;
    chosen(&untuned, &caps, &problem, NULL, &choice);
    assert_int_equal(choice.groups, 0);
}

/* The reason against rows[row]; "" where it is accepted. */
static const char *reason_against(const char *id, const attune_device_caps *caps,
                                  const attune_problem *problem, const char *glob)
{
    static char reason[KERNEL_REASON_SIZE];
    const kernel_request request = {
        .problem = problem, .caps = caps, .table = &table, .glob = glob};
    kernel_choice choice;
    for (int i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].id, id) == 0)
            return kernel_accepts(&request, &rows[i], &choice, reason) ? "" : reason;
    fail_msg("no row %s", id);
    return NULL;
}

static void every_rejection_has_a_reason(void **user)
{
    (void)user;
    attune_device_caps caps = device("big", "wide");
    attune_problem f32 = problem_of(ATTUNE_F32, 50, 64, 64),
                   bf16 = problem_of(ATTUNE_BF16, 50, 64, 64);
    attune_problem f16 = problem_of(ATTUNE_F16, 50, 64, 64);

    assert_string_equal(reason_against("f32_d64_wide", &caps, &f32, NULL),
                        "needs fma, which made-up:0 lacks");
    assert_string_equal(reason_against("f32_d64_wide", &caps, NULL, NULL),
                        "needs fma, which made-up:0 lacks");
    assert_string_equal(reason_against("f32_d64_plain", &caps, &f16, NULL),
                        "computes f32, not f16");
    assert_string_equal(reason_against("f32_d64_plain", &caps, &f32, "*wide"),
                        "is not matched by the pinned \"*wide\"");
    assert_string_equal(reason_against("bf16_d64_absent", &caps, &bf16, NULL),
                        "is not compiled into this library");
    assert_string_equal(reason_against("bf16_d64_source", &caps, &bf16, NULL), "");
    assert_string_equal(reason_against("f16_d64_group", &caps, &f16, NULL), "");

    caps.max_threads = 64;
    assert_string_equal(reason_against("f16_d64_group", &caps, &f16, NULL),
                        "needs 128 work-items a group; made-up:0 has at most 64");
    caps.max_threads = 128;
    caps.fast_memory = 39999;
    assert_string_equal(reason_against("f16_d64_group", &caps, &f16, NULL),
                        "needs 40000 bytes of local memory a group; made-up:0 has 39999");

    f32.head_dim = 65;
    assert_string_equal(reason_against("f32_d64_plain", &caps, &f32, NULL),
                        "head_dim 65 exceeds 64");
    f32.head_dim = 64;
    f32.head_dim_v = 200;
    assert_string_equal(reason_against("f32_d64_plain", &caps, &f32, NULL),
                        "head_dim_v 200 exceeds 64");
}

static void sizes_beyond_64_bits_are_rejected(void **user)
{
    (void)user;
    const attune_device_caps caps = device("big", "");
    attune_problem problem = problem_of(ATTUNE_F32, INT32_MAX, 64, 64);
    problem.batch = problem.heads_q = INT32_MAX;
    assert_string_equal(reason_against("f32_d64_slim", &caps, &problem, NULL),
                        "needs more than 2^63 work-groups");
    problem.seqlen_q = 1;
    assert_string_equal(reason_against("f32_d64_slim", &caps, &problem, NULL), "");
    problem.heads_kv = INT32_MAX;
    problem.seqlen_k = 32;
    assert_string_equal(reason_against("f32_d64_plain", &caps, &problem, NULL),
                        "needs more than 2^63 bytes of workspace");
    problem.seqlen_k = INT32_MAX;
    assert_string_equal(reason_against("f32_d64_plain", &caps, &problem, NULL),
                        "needs more than 2^63 work-groups");
}

static void globs_confine_the_choice(void **user)
{
    (void)user;
    const attune_device_caps caps = device("big", "wide fma");
    const attune_problem problem = problem_of(ATTUNE_F32, 50, 64, 64);
    const struct {
        const char *glob, *id;
    } cases[] = {
        {"*", "f32_d64_wide"},
        {"*plain", "f32_d64_plain"},
        {"f32_d64_plain", "f32_d64_plain"},
        {"*d128*", "f32_d128_plain"},
        {"f??_d64_s*", "f32_d64_slim"},
        {"*_*_*m", "f32_d64_slim"},
        {"f32_d64", ""},
        {"f32_d64_plai?", "f32_d64_plain"},
        {"f32_d64_plain?", ""},
        {"", ""},
        {"**d64**slim**", "f32_d64_slim"},
        {"*d64*plain*x", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kernel_choice choice;
        assert_string_equal(chosen(&table, &caps, &problem, cases[i].glob, &choice), cases[i].id);
    }
}

static void the_next_one_follows_a_refused_one(void **user)
{
    (void)user;
    const attune_device_caps caps = device("small", "wide fma");
    const attune_problem problem = problem_of(ATTUNE_F32, 50, 64, 64);
    const kernel_request request = {.problem = &problem, .caps = &caps, .table = &untuned};
    const char *const expected[] = {"f32_d64_wide", "f32_d64_plain", "f32_d64_slim",
                                    "f32_d128_wide", "f32_d128_plain"};
    ranked_kernel *const ranked = kernels_ranked(&request);
    kernel_choice choice;
    int place = -1;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        place = plan_choose(&request, ranked, place + 1, &choice);
        assert_true(place >= 0);
        assert_string_equal(choice.row->id, expected[i]);
    }
    assert_int_equal(plan_choose(&request, ranked, place + 1, &choice), -1);
    free(ranked);
}

static void the_explanation_names_every_reason(void **user)
{
    (void)user;
    const attune_device_caps caps = device("small", "");
    const attune_problem problem = problem_of(ATTUNE_F32, 50, 100, 100);
    const kernel_request request = {
        .problem = &problem, .caps = &caps, .table = &untuned, .glob = "*wide"};
    ranked_kernel *const ranked = kernels_ranked(&request);
    char text[1024], cut[40];
    kernels_explain(&request, ranked, text, sizeof text);
    kernels_explain(&request, ranked, cut, sizeof cut);
    free(ranked);
    assert_string_equal(
        text,
        "no kernel of made-up:0 computes op=forward,b=2,hq=6,hkv=3,sq=50,sk=100,d=100,dtype=f32"
        "; f32_d128_wide needs wide, which made-up:0 lacks"
        "; f32_d128_plain is not matched by the pinned \"*wide\""
        "; f32_d64_wide head_dim 100 exceeds 64, and so 2 more");
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, text, sizeof cut - 1);
}

static void an_empty_table_has_no_kernel(void **user)
{
    (void)user;
    const attune_kernel_table empty = {.row_count = 0};
    assert_chosen(&empty, "big", "", 1, 64, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_orders_what_nothing_tunes),
        cmocka_unit_test(the_smallest_sufficient_head_dim_wins),
        cmocka_unit_test(tuned_rows_go_by_class_and_seqlen_q),
        cmocka_unit_test(classes_come_before_families),
        cmocka_unit_test(the_nearest_winner_comes_before_the_table),
        cmocka_unit_test(winners_count_for_the_options_that_they_were_sought_with),
        cmocka_unit_test(a_hint_comes_first_where_it_can_run),
        cmocka_unit_test(distances_are_octaves),
        cmocka_unit_test(options_have_one_spelling),
        cmocka_unit_test(a_launch_covers_the_problem),
        cmocka_unit_test(every_rejection_has_a_reason),
        cmocka_unit_test(sizes_beyond_64_bits_are_rejected),
        cmocka_unit_test(globs_confine_the_choice),
        cmocka_unit_test(the_next_one_follows_a_refused_one),
        cmocka_unit_test(the_explanation_names_every_reason),
        cmocka_unit_test(an_empty_table_has_no_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
