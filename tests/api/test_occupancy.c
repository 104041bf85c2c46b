/* The model of occupancy against numbers worked by hand. */
#include "fixture.h"

#include "occupancy.h"

#include <string.h>

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 9.0. */
static const attune_device_caps h100 = {
    .warp = 32,
    .reserved_memory = 1024, /* from 8.0 on: "Shared Memory" of 8.x and 9.0 there */
    .registers = 65536,
    .multiprocessor_threads = 2048,
    .multiprocessor_memory = 233472,
};

/* AMD CDNA 3 ISA: four SIMDs of 512 registers of 64 work-items and 8 waves each, 64 KiB of local data share. */
static const attune_device_caps mi300 = {
    .features = "mfma mfma_subnormals",
    .warp = 64,
    .registers = 131072,
    .multiprocessor_threads = 2048,
    .multiprocessor_memory = 65536,
};

static void expect_resident(const attune_device_caps *caps, attune_kernel_resources taken,
                            int groups, int warps)
{
    taken.resident_groups = taken.resident_warps = -7;
    occupancy_model(caps, &taken);
    if (taken.resident_groups != groups || taken.resident_warps != warps)
        fail_msg("%d threads, %d registers, %d bytes: %d groups, %d warps instead of %d, %d",
                 (int)taken.threads, (int)taken.registers, (int)taken.fast_memory,
                 (int)taken.resident_groups, (int)taken.resident_warps, groups, warps);
}

#define TAKEN(threads_, registers_, memory_)                                                       \
    (attune_kernel_resources)                                                                      \
    {                                                                                              \
        .threads = (threads_), .registers = (registers_), .fast_memory = (memory_)                 \
    }

static void an_h100_holds_what_its_data_sheet_allows(void **state)
{
    (void)state;
    /* places: 2048 / 128 = 16 groups of 4 warps; registers: 32 · 32 = 1024 a warp, 16384 / 1024 = 16 warps a quarter; memory: none
     * but 1024 of CUDA's, 233472 / 1024 = 228 */
    expect_resident(&h100, TAKEN(128, 32, 0), 16, 64);
    /* 168 · 32 = 5376 a warp, 3 in each quarter's 16384, 12 in all: 3 groups of 4 */
    expect_resident(&h100, TAKEN(128, 168, 0), 3, 12);
    /* 255 · 32 = 8160, rounded to 8192: 2 a quarter, 8 in all: one group of 8 */
    expect_resident(&h100, TAKEN(256, 255, 0), 1, 8);
    /* 97 · 32 = 3104, rounded to 3328: 4 a quarter (3104 would fit 5 times), 16 in all */
    expect_resident(&h100, TAKEN(128, 97, 0), 4, 16);
    /* 200 · 32 = 6400: 2 a quarter, 8 in all, though ten times 6400 is less than 65536: 4 groups of 2 */
    expect_resident(&h100, TAKEN(64, 200, 0), 4, 8);
    /* 73728 and 1024 of CUDA's are 74752: 3 in 233472 (224256); with 76800 they are 77824, and just 3; 128 more, and 2 */
    expect_resident(&h100, TAKEN(128, 32, 73728), 3, 12);
    expect_resident(&h100, TAKEN(128, 32, 76800), 3, 12);
    expect_resident(&h100, TAKEN(128, 32, 76801), 2, 8);
    /* 32276 and 1024 are 33300, of which 7 would fit, but they are given as 33408: 6 */
    expect_resident(&h100, TAKEN(128, 32, 32276), 6, 24);
    /* the largest group's memory: 227 KiB and CUDA's are all there is */
    expect_resident(&h100, TAKEN(128, 32, 232448), 1, 4);
    /* 100 work-items take the places of 4 warps */
    expect_resident(&h100, TAKEN(100, 32, 0), 16, 64);
    /* 1024 · 128 registers are twice what there is */
    expect_resident(&h100, TAKEN(1024, 128, 0), 0, 0);
}

static void an_mi300_holds_what_its_data_sheet_allows(void **state)
{
    (void)state;
    /* places: 2048 / 256 = 8 groups of 4 waves; registers: 64 · 64 = 4096 a wave, 8 in a SIMD's 32768 */
    expect_resident(&mi300, TAKEN(256, 64, 0), 8, 32);
    /* 128 · 64 = 8192: 4 a SIMD, 16 in all */
    expect_resident(&mi300, TAKEN(256, 128, 0), 4, 16);
    /* 200 · 64 = 12800: 2 a SIMD, 8 in all, though ten times 12800 is less than 131072 */
    expect_resident(&mi300, TAKEN(64, 200, 0), 8, 8);
    /* 512 · 64 is a whole SIMD */
    expect_resident(&mi300, TAKEN(256, 512, 0), 1, 4);
    /* nothing is kept for anybody: two groups share 64 KiB, and with a byte more there is one */
    expect_resident(&mi300, TAKEN(256, 64, 32768), 2, 8);
    expect_resident(&mi300, TAKEN(256, 64, 32769), 1, 4);
    expect_resident(&mi300, TAKEN(256, 64, 65536), 1, 4);
}

static void what_is_not_known_limits_nothing(void **state)
{
    (void)state;
    attune_device_caps caps = {.warp = 0};
    expect_resident(&caps, TAKEN(128, 100, 1000), -1, -1);
    expect_resident(&h100, TAKEN(128, -1, -1), 16, 64);
    expect_resident(&h100, TAKEN(128, 168, -1), 3, 12);
    caps = h100;
    caps.multiprocessor_threads = 0;
    expect_resident(&caps, TAKEN(128, -1, -1), -1, -1);
    expect_resident(&caps, TAKEN(128, 168, -1), 3, 12);
    expect_resident(&caps, TAKEN(128, -1, 73728), 3, 12);

    caps = (attune_device_caps){.warp = 0};
    caps.multiprocessor_threads = 1024; /* without a warp nobody knows how registers are given */
    caps.registers = 16;
    expect_resident(&caps, TAKEN(100, 100, 1000), 10, -1);
    caps.warp = 32;
    expect_resident(&caps, TAKEN(100, -1, 1000), 8, 32);
    caps.multiprocessor_threads = 0;
    expect_resident(&caps, TAKEN(100, -1, 1000), -1, -1);
    caps.multiprocessor_memory = 4096;
    expect_resident(&caps, TAKEN(100, -1, 1000), 4, 16); /* 1000 bytes take 1024 */
}

/* A kernel of the processor is a function of this library: nobody says what it takes. */
static void a_plan_tells_what_is_known(void **state)
{
    (void)state;
    attune_context *const context = open_cpu(NULL);
    const attune_problem problem = parse("op=forward,b=1,hq=1,hkv=1,sq=4,sk=4,d=64,dtype=f32");
    attune_plan *plan = NULL;
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));
    attune_kernel_resources resources;
    memset(&resources, 0x5a, sizeof resources);
    assert_ok(attune_plan_resources(plan, &resources));
    assert_int_equal(resources.threads, 1);
    assert_int_equal(resources.fast_memory, -1);
    assert_int_equal(resources.registers, -1);
    assert_int_equal(resources.spill_bytes, -1);
    assert_int_equal(resources.resident_groups, -1);
    assert_int_equal(resources.resident_warps, -1);
    assert_fails(attune_plan_resources(NULL, &resources), ATTUNE_INVALID_ARGUMENT, "plan");
    assert_fails(attune_plan_resources(plan, NULL), ATTUNE_INVALID_ARGUMENT, "resources");
    attune_plan_destroy(plan);
    attune_context_close(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_h100_holds_what_its_data_sheet_allows),
        cmocka_unit_test(an_mi300_holds_what_its_data_sheet_allows),
        cmocka_unit_test(what_is_not_known_limits_nothing),
        cmocka_unit_test(a_plan_tells_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
