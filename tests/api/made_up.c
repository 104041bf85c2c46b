#include "made_up.h"

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

static const attune_tuned_row tuned[] = {
    TUNED("big", 64, 4, "f32_d64_slim"),          TUNED("big", 64, 100, "f32_d64_wide"),
    TUNED("big", 64, INT64_MAX, "f32_d64_plain"), TUNED("big", 128, INT64_MAX, "f32_d128_plain"),
    TUNED("*", 64, INT64_MAX, "f32_d64_slim"),    TUNED("*", 128, 10, "f32_d128_plain"),
};

const attune_kernel_table table = {
    .rows = rows,
    .row_count = ROW_COUNT,
    .tuned = tuned,
    .tuned_count = sizeof tuned / sizeof tuned[0],
};

const attune_kernel_table untuned = {.rows = rows, .row_count = ROW_COUNT};

attune_device_caps device(const char *class, const char *features)
{
    attune_device_caps caps = {
        .info = {.id = "made-up:0"}, .max_threads = 256, .fast_memory = 65536};
    strcpy(caps.device_class, class);
    strcpy(caps.features, features);
    return caps;
}

attune_problem problem_of(attune_dtype dtype, int64_t seqlen_q, int64_t head_dim,
                          int64_t head_dim_v)
{
    attune_problem problem;
    attune_problem_init(&problem, dtype, 2, 6, 3, seqlen_q, 100, head_dim, head_dim_v);
    return problem;
}

const char *chosen(const attune_kernel_table *from, const attune_device_caps *caps,
                   const attune_problem *problem, const char *glob, kernel_choice *choice)
{
    const kernel_request request = {.problem = problem, .caps = caps, .table = from, .glob = glob};
    ranked_kernel *const ranked = kernels_ranked(&request);
    assert_non_null(ranked);
    const int place = plan_choose(&request, ranked, 0, choice);
    free(ranked);
    return place < 0 ? "" : choice->row->id;
}
