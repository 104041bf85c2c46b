/* Which kernel computes a problem, by rules and built-in tables. */
#include "made_up.h"

#include <stdlib.h>
#include <string.h>

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
    for (int i = 0; i < table.row_count; i++)
        if (strcmp(table.rows[i].id, id) == 0)
            return kernel_accepts(&request, &table.rows[i], &choice, reason) ? "" : reason;
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
