/* White box: what the options of a plan pick among kernels of several engines, on a made-up device. */
#include "context.h"

#include "fixture.h"

#include "attune/numerics.h"

#include <string.h>

#define F16 .op = ATTUNE_FORWARD, .dtype = ATTUNE_F16, .head_dim = 64, .block_q = 64, .block_k = 64
#define F32 .op = ATTUNE_FORWARD, .dtype = ATTUNE_F32, .head_dim = 64, .block_q = 64, .block_k = 64
#define SIMT                                                                                       \
    .engine = "simt", .reproducible = 1, .requires_features = "", .qk_step = 1, .pv_step = 1,      \
    .body = "text"
#define MATRIX                                                                                     \
    .engine = "matrix", .requires_features = "units", .qk_step = 16, .pv_step = 16, .body = "text"
#define TF32 .u_in = 0x1p-11, .u_p = 0x1p-11
#define ROUNDS_P .u_p = 0x1p-11, .eta_p = 0x1p-32

/* The table alone would prefer what nobody tuned. */
static const attune_kernel_row rows[] = {
    {F32, SIMT, .id = "f32_simt_odd"},
    {F32, SIMT, .id = "f32_simt"},
    {F32, MATRIX, TF32, .id = "f32_matrix_usual"},
    {F32, MATRIX, TF32, .id = "f32_matrix_same", .reproducible = 1},
    {F16, SIMT, .id = "f16_simt_odd"},
    {F16, SIMT, .id = "f16_simt"},
    {F16, MATRIX, ROUNDS_P, .id = "f16_matrix_usual", .subnormals = "units_subnormals"},
    {F16, MATRIX, .id = "f16_matrix_same", .reproducible = 1},
    {F16, MATRIX, .id = "f16_matrix_short"},
};

#define TUNED(class, type, most, id)                                                               \
    {                                                                                              \
        .device_class = class, .op = ATTUNE_FORWARD, .dtype = type, .head_dim = 64,                \
        .max_seqlen_q = most, .kernel = id                                                         \
    }

static const attune_tuned_row tuned[] = {
    TUNED("new", ATTUNE_F32, INT64_MAX, "f32_matrix_usual"),
    TUNED("new", ATTUNE_F32, INT64_MAX, "f32_matrix_same"),
    TUNED("new", ATTUNE_F16, 8, "f16_matrix_short"),
    TUNED("new", ATTUNE_F16, INT64_MAX, "f16_matrix_usual"),
    TUNED("new", ATTUNE_F16, INT64_MAX, "f16_matrix_same"),
    TUNED("*", ATTUNE_F32, INT64_MAX, "f32_simt"),
    TUNED("*", ATTUNE_F16, INT64_MAX, "f16_simt"),
};

static const attune_kernel_table table = {
    .rows = rows,
    .row_count = sizeof rows / sizeof rows[0],
    .tuned = tuned,
    .tuned_count = sizeof tuned / sizeof tuned[0],
};

static const char *refused; /* the id of a kernel that the compiler refuses */

static attune_status load(void *device, const attune_kernel_row *row, void **kernel)
{
    (void)device;
    *kernel = NULL;
    if (refused != NULL && strcmp(row->id, refused) == 0)
        return attune_fail(ATTUNE_BUILD_FAILED, "%s is refused", row->id);
    return ATTUNE_OK;
}

static void unload(void *device, void *kernel)
{
    (void)device, (void)kernel;
}

static const attune_backend backend = {
    .name = "made-up", .table = &table, .load = load, .unload = unload};

static const attune_device_caps with_units = {
    .info = {.id = "new:0"}, .device_class = "new", .features = "units", .fast_memory = 65536};
static const attune_device_caps without_units = {
    .info = {.id = "old:0"}, .device_class = "old", .fast_memory = 65536};

static const attune_device_caps with_better_units = {.info = {.id = "newer:0"},
                                                     .device_class = "new",
                                                     .features = "units units_subnormals",
                                                     .fast_memory = 65536};

static attune_context context_on(const attune_device_caps *caps)
{
    return (attune_context){.backend = &backend, .caps = caps};
}

static attune_problem problem_of(attune_dtype dtype, int64_t seqlen_q)
{
    attune_problem problem;
    attune_problem_init(&problem, dtype, 1, 1, 1, seqlen_q, 100, 64, 64);
    return problem;
}

static attune_plan_options options_of(const char *engine, int32_t reproducible, int32_t allow_tf32)
{
    attune_plan_options options;
    attune_plan_options_init(&options);
    options.engine = engine;
    options.reproducible = reproducible;
    options.allow_tf32 = allow_tf32;
    return options;
}

/* The plan's kernel, whose engine and mode must be the row's; "" where there is no plan. */
static const char *planned(attune_context *context, attune_dtype dtype, int64_t seqlen_q,
                           const attune_plan_options *options)
{
    const attune_problem problem = problem_of(dtype, seqlen_q);
    attune_plan *plan;
    const attune_status status = attune_plan_create(context, &problem, options, &plan);
    if (status != ATTUNE_OK) {
        assert_int_equal(status, ATTUNE_UNSUPPORTED);
        return "";
    }
    const char *const id = attune_plan_kernel(plan);
    const bool matrix = strstr(id, "matrix") != NULL;
    assert_string_equal(attune_plan_engine(plan), matrix ? "matrix" : "simt");
    assert_int_equal(attune_plan_reproducible(plan), !matrix || strstr(id, "same") != NULL);
    attune_arithmetic arithmetic;
    assert_ok(attune_plan_arithmetic(plan, &arithmetic));
    assert_true(arithmetic.u_in == (matrix && dtype == ATTUNE_F32 ? 0x1p-11 : 0.0));
    attune_plan_destroy(plan);
    return id;
}

static void options_pick_the_best_tuned_kernel(void **user)
{
    (void)user;
    const struct {
        const attune_device_caps *caps;
        attune_dtype dtype;
        int seqlen_q;
        const char *engine;
        int reproducible, allow_tf32;
        const char *expected;
    } cases[] = {
        {&with_units, ATTUNE_F16, 50, NULL, 0, 0, "f16_matrix_usual"},
        {&with_units, ATTUNE_F16, 8, NULL, 0, 0, "f16_matrix_short"},
        {&with_units, ATTUNE_F16, 50, NULL, 1, 0, "f16_matrix_same"},
        {&with_units, ATTUNE_F16, 8, NULL, 1, 0, "f16_matrix_same"},
        {&with_units, ATTUNE_F16, 50, "matrix", 0, 0, "f16_matrix_usual"},
        {&with_units, ATTUNE_F16, 50, "matrix", 1, 0, "f16_matrix_same"},
        {&with_units, ATTUNE_F16, 50, "simt", 0, 0, "f16_simt"},
        {&with_units, ATTUNE_F16, 50, "simt", 1, 0, "f16_simt"},
        {&with_units, ATTUNE_F16, 50, "vector", 0, 0, ""},
        {&without_units, ATTUNE_F16, 50, NULL, 0, 0, "f16_simt"},
        {&without_units, ATTUNE_F16, 50, NULL, 1, 0, "f16_simt"},
        {&without_units, ATTUNE_F16, 50, "matrix", 0, 0, ""},
        {&with_units, ATTUNE_F32, 50, NULL, 0, 0, "f32_simt"},
        {&with_units, ATTUNE_F32, 50, NULL, 1, 0, "f32_simt"},
        {&with_units, ATTUNE_F32, 50, NULL, 0, 1, "f32_matrix_usual"},
        {&with_units, ATTUNE_F32, 50, NULL, 1, 1, "f32_matrix_same"},
        {&with_units, ATTUNE_F32, 50, "matrix", 0, 0, "f32_matrix_usual"},
        {&with_units, ATTUNE_F32, 50, "matrix", 1, 0, "f32_matrix_same"},
        {&with_units, ATTUNE_F32, 50, "simt", 0, 1, "f32_simt"},
        {&without_units, ATTUNE_F32, 50, NULL, 0, 1, "f32_simt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune_context context = context_on(cases[i].caps);
        const attune_plan_options options =
            options_of(cases[i].engine, cases[i].reproducible, cases[i].allow_tf32);
        const char *const id = planned(&context, cases[i].dtype, cases[i].seqlen_q, &options);
        if (strcmp(id, cases[i].expected) != 0)
            fail_msg("case %zu: \"%s\", not \"%s\"", i, id, cases[i].expected);
    }
    attune_context context = context_on(&with_units);
    assert_string_equal(planned(&context, ATTUNE_F16, 50, NULL), "f16_matrix_usual");
    assert_string_equal(planned(&context, ATTUNE_F32, 50, NULL), "f32_simt");
}

static void a_refused_kernel_is_followed_by_the_next_tuned_one(void **user)
{
    (void)user;
    attune_context context = context_on(&with_units);
    refused = "f16_matrix_short";
    assert_string_equal(planned(&context, ATTUNE_F16, 8, NULL), "f16_matrix_usual");
    refused = "f16_matrix_usual";
    assert_string_equal(planned(&context, ATTUNE_F16, 50, NULL), "f16_matrix_same");
    const attune_plan_options reproducible = options_of(NULL, 1, 0);
    refused = "f16_matrix_same";
    assert_string_equal(planned(&context, ATTUNE_F16, 50, &reproducible), "f16_simt");
    refused = NULL;
}

/* One kernel by its whole name is meant; a pattern that happens to match is not. */
static void tf32_must_be_meant(void **user)
{
    (void)user;
    attune_context context = context_on(&with_units);
    attune_plan_options options = options_of(NULL, 0, 0);
    options.kernel = "f32_matrix_usual";
    assert_string_equal(planned(&context, ATTUNE_F32, 50, &options), "f32_matrix_usual");
    options.kernel = "f32_matrix_*";
    assert_string_equal(planned(&context, ATTUNE_F32, 50, &options), "");
    assert_non_null(strstr(attune_error_detail(), "f32_matrix_usual reads f32 as tf32, which must "
                                                  "be asked for: by allow_tf32 (--tf32)"));
    options.allow_tf32 = 1;
    assert_string_equal(planned(&context, ATTUNE_F32, 50, &options), "f32_matrix_usual");

    context.kernel_glob = "f32_matrix_same"; /* $ATTUNE_KERNEL */
    assert_string_equal(planned(&context, ATTUNE_F32, 50, NULL), "f32_matrix_same");
    context.kernel_glob = "*_matrix_same";
    assert_string_equal(planned(&context, ATTUNE_F32, 50, NULL), "");
    assert_string_equal(planned(&context, ATTUNE_F16, 50, NULL), "f16_matrix_same");
}

/* The kernel's row says that some units do, the device that this one does not. */
static void a_unit_takes_subnormals_for_0_unless_the_device_reads_them(void **user)
{
    (void)user;
    static const struct {
        const attune_device_caps *caps;
        const char *kernel;
        double flushes, eta_p;
    } cases[] = {
        {&with_units, "f16_matrix_usual", 1.0, 0x1p-21},
        {&with_better_units, "f16_matrix_usual", 0.0, 0x1p-32},
        {&with_units, "f16_matrix_same", 0.0, 0.0},
        {&without_units, "f16_simt", 0.0, 0.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune_context context = context_on(cases[i].caps);
        const attune_problem problem = problem_of(ATTUNE_F16, 50);
        attune_plan_options options = options_of(NULL, 0, 0);
        options.kernel = cases[i].kernel;
        attune_plan *plan;
        attune_arithmetic arithmetic;
        assert_ok(attune_plan_create(&context, &problem, &options, &plan));
        assert_ok(attune_plan_arithmetic(plan, &arithmetic));
        assert_true(arithmetic.flushes == cases[i].flushes);
        assert_true(arithmetic.eta_p == cases[i].eta_p);
        attune_plan_destroy(plan);
    }
}

static void what_nothing_serves_is_explained(void **user)
{
    (void)user;
    attune_context context = context_on(&without_units);
    const attune_plan_options matrix = options_of("matrix", 1, 0);
    assert_string_equal(planned(&context, ATTUNE_F16, 50, &matrix), "");
    const char *const detail = attune_error_detail();
    assert_non_null(strstr(detail, "f16_simt is of engine simt, not matrix"));
    assert_non_null(strstr(detail, "f16_matrix_usual is not reproducible"));
    assert_non_null(strstr(detail, "f16_matrix_same needs units, which old:0 lacks"));
}

static void options_that_mean_nothing_are_refused(void **user)
{
    (void)user;
    attune_context context = context_on(&with_units);
    const attune_problem problem = problem_of(ATTUNE_F16, 50);
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;
    attune_plan *plan;
    attune_plan_options options = options_of("abacus", 0, 0);
    assert_fails(attune_plan_create(&context, &problem, &options, &plan), bad,
                 "no engine \"abacus\"; there are vector, simt, matrix");
    options = options_of("", 0, 0);
    assert_fails(attune_plan_create(&context, &problem, &options, &plan), bad, "no engine \"\"");
    options = options_of(NULL, 2, 0);
    assert_fails(attune_plan_create(&context, &problem, &options, &plan), bad,
                 "reproducible is 2; 0 and 1 are accepted");
    options = options_of(NULL, 0, -1);
    assert_fails(attune_plan_create(&context, &problem, &options, &plan), bad,
                 "allow_tf32 is -1; 0 and 1 are accepted");
    assert_null(plan);
    assert_null(attune_plan_engine(NULL));
    assert_int_equal(attune_plan_reproducible(NULL), 0);
}

/* A program that was compiled when the struct ended with the glob. What lies behind is not its. */
static void options_of_older_programs_still_work(void **user)
{
    (void)user;
    attune_context context = context_on(&with_units);
    struct {
        struct {
            size_t struct_size;
            const char *kernel;
        } first;
        const char *behind[4];
    } old = {.first = {.struct_size = sizeof old.first}, .behind = {"not", "an", "engine", "!"}};
    const attune_plan_options *const options = (const attune_plan_options *)(const void *)&old;
    assert_string_equal(planned(&context, ATTUNE_F16, 50, options), "f16_matrix_usual");
    old.first.kernel = "f16_simt*";
    assert_string_equal(planned(&context, ATTUNE_F16, 50, options), "f16_simt");

    const attune_problem problem = problem_of(ATTUNE_F16, 50);
    attune_plan *plan;
    const size_t never[] = {0, sizeof old.first - 1, sizeof old.first + 1,
                            sizeof(attune_plan_options) - 1};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        old.first.struct_size = never[i];
        assert_fails(attune_plan_create(&context, &problem, options, &plan),
                     ATTUNE_INVALID_ARGUMENT, "which no version has");
    }

    struct {
        attune_plan_options known;
        int64_t unknown;
    } newer = {.known = options_of("simt", 0, 0)};
    newer.known.struct_size = sizeof newer;
    assert_string_equal(planned(&context, ATTUNE_F16, 50, &newer.known), "f16_simt");
    newer.unknown = 1;
    assert_fails(attune_plan_create(&context, &problem, &newer.known, &plan),
                 ATTUNE_INVALID_ARGUMENT, "is set; version");
}

/* ---- the list of kernels ---- */

typedef struct seen {
    int count, accepted;
    char first[64];
} seen;

static int look(const attune_kernel_info *kernel, void *user)
{
    seen *const s = user;
    const bool matrix = strstr(kernel->id, "matrix") != NULL;
    assert_string_equal(kernel->engine, matrix ? "matrix" : "simt");
    assert_int_equal(kernel->reproducible, !matrix || strstr(kernel->id, "same") != NULL);
    assert_int_equal(kernel->tf32, strncmp(kernel->id, "f32_matrix", 10) == 0);
    if (kernel->reason == NULL && s->accepted++ == 0) strcpy(s->first, kernel->id);
    s->count++;
    return 0;
}

static void the_list_of_kernels_follows_the_options(void **user)
{
    (void)user;
    attune_context context = context_on(&with_units);
    const attune_problem f32 = problem_of(ATTUNE_F32, 50), f16 = problem_of(ATTUNE_F16, 50);
    const attune_plan_options tf32 = options_of(NULL, 0, 1), same = options_of("matrix", 1, 0);
    const struct {
        const attune_problem *problem;
        const attune_plan_options *options;
        int accepted;
        const char *first;
    } cases[] = {
        {NULL, NULL, 9, "f32_simt_odd"},     {NULL, &same, 2, "f32_matrix_same"},
        {&f32, NULL, 2, "f32_simt"},         {&f32, &tf32, 4, "f32_matrix_usual"},
        {&f16, NULL, 5, "f16_matrix_usual"}, {&f16, &same, 1, "f16_matrix_same"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        seen s = {.count = 0};
        assert_ok(attune_kernels_visit(&context, cases[i].problem, cases[i].options, look, &s));
        assert_int_equal(s.count, table.row_count);
        assert_int_equal(s.accepted, cases[i].accepted);
        assert_string_equal(s.first, cases[i].first);
    }
    const attune_plan_options wrong = options_of("abacus", 0, 0);
    assert_fails(attune_kernels_visit(&context, &f16, &wrong, look, NULL), ATTUNE_INVALID_ARGUMENT,
                 "abacus");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_pick_the_best_tuned_kernel),
        cmocka_unit_test(a_refused_kernel_is_followed_by_the_next_tuned_one),
        cmocka_unit_test(tf32_must_be_meant),
        cmocka_unit_test(a_unit_takes_subnormals_for_0_unless_the_device_reads_them),
        cmocka_unit_test(what_nothing_serves_is_explained),
        cmocka_unit_test(options_that_mean_nothing_are_refused),
        cmocka_unit_test(options_of_older_programs_still_work),
        cmocka_unit_test(the_list_of_kernels_follows_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
