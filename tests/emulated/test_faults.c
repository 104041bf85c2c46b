/* Every kind of fault is found, in any order of the work-items, and the report names work-items, bytes and lines; what is no fault is not
 * reported. */
#include "fixture.h"
#include "kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const seeds[] = {"", "seed=1", "seed=2", "seed=3", "seed=12345678901"};
enum { SEEDS = sizeof seeds / sizeof *seeds };

static const char *const sources[] = {"kernels.c", "kernels_nvidia.c", "kernels_amd.c"};
enum { SOURCES = sizeof sources / sizeof *sources };

/* The line of a source with the comment "fault NAME 1" or "2"; 0 where there is none. */
static int line_in(const char *source, const char *name, char side)
{
    char path[512], wanted[64], line[256];
    int number = 0, found = 0;
    snprintf(path, sizeof path, "%s/%s", KERNELS_FOLDER, source);
    snprintf(wanted, sizeof wanted, "fault %s ", name);
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    while (found == 0 && fgets(line, sizeof line, file) != NULL) {
        number++;
        const char *const at = strstr(line, wanted);
        if (at != NULL && strchr(at + strlen(wanted), side) != NULL) found = number;
    }
    fclose(file);
    return found;
}

/* "kernels.c:27 (missing_barrier)"; false where no source has the comment. */
static bool place_of(const char *name, char side, char place[128])
{
    for (int i = 0; i < SOURCES; i++) {
        const int line = line_in(sources[i], name, side);
        if (line == 0) continue;
        snprintf(place, 128, "%s:%d (%s)", sources[i], line, name);
        return true;
    }
    return false;
}

static emulated_run run_of(attune_group_function *kernel, const char *seed)
{
    return (emulated_run){.kernel = kernel,
                          .threads = WORK_ITEMS,
                          .fast_memory = SHARED_FLOATS * sizeof(float),
                          .seed = seed};
}

static void check_of(const char *name, const emulated_run *of, const char *const parts[])
{
    for (int s = 0; s < SEEDS; s++) {
        emulated_run r = *of;
        r.seed = seeds[s];
        assert_int_equal(run(&r), ATTUNE_DEVICE_ERROR);
        const char *const detail = attune_error_detail();
        char place[128];
        assert_true(place_of(name, '1', place));
        for (char side = '1'; side <= '2'; side++)
            if (place_of(name, side, place) && strstr(detail, place) == NULL)
                fail_msg("%s, \"%s\": no %s in: %s", name, seeds[s], place, detail);
        for (int i = 0; parts[i] != NULL; i++)
            if (strstr(detail, parts[i]) == NULL)
                fail_msg("%s, \"%s\": no \"%s\" in: %s", name, seeds[s], parts[i], detail);
        if (s == 0) print_message("%s\n", detail);
    }
}

static void check(const char *name, attune_group_function *kernel, const char *const parts[],
                  bool freed)
{
    emulated_run r = run_of(kernel, NULL);
    r.free_input_first = freed;
    check_of(name, &r, parts);
}

#define FINDS(kernel, ...) check(#kernel, kernel, (const char *const[]){__VA_ARGS__, NULL}, false)

static void correct_kernels(void **state)
{
    (void)state;
    for (int s = 0; s < SEEDS; s++) {
        emulated_run r = run_of(exchanges, seeds[s]);
        assert_int_equal(run(&r), ATTUNE_OK);
        for (int i = 0; i < WORK_ITEMS; i++)
            assert_true(r.output[i] == (float)(WORK_ITEMS - 1 - i + 2));
        assert_true(r.output[WORK_ITEMS] != r.output[WORK_ITEMS]); /* NaN */

        r = run_of(shares_in_warps, seeds[s]);
        assert_int_equal(run(&r), ATTUNE_OK);
        for (int i = 0; i < WORK_ITEMS; i++) assert_true(r.output[i] == (float)((i ^ 31) + 2));

        r = run_of(writes_halves, seeds[s]);
        assert_int_equal(run(&r), ATTUNE_OK);
        for (int i = 0; i < WORK_ITEMS; i++)
            assert_true(r.output[i] == (float)((i + 1) % WORK_ITEMS));

        r = run_of(sums_by_shuffles, seeds[s]);
        assert_int_equal(run(&r), ATTUNE_OK);
        for (int i = 0; i < WORK_ITEMS; i++) assert_true(r.output[i] == (i < 32 ? 496 : 1520));
    }
}

static void races(void **state)
{
    (void)state;
    FINDS(missing_barrier, " shared bytes ", ", which work-item ", " with no barrier between");
    FINDS(overwritten_while_read, " shared bytes ", ", which work-item ",
          " with no barrier between");
    FINDS(same_word_twice, " writes shared bytes ", " has written at ");
    FINDS(same_half_twice, " writes shared bytes ", " has written at ");
    FINDS(warp_barrier_only, " shared bytes ", ", which work-item ", " with no barrier between");
    FINDS(shuffle_only, " shared bytes ", ", which work-item ", " with no barrier between");
}

static void shared_memory(void **state)
{
    (void)state;
    FINDS(shared_overrun, "work-item 63 writes shared bytes 256 to 259 at ",
          "outside of the 256 that the group has");
    FINDS(shared_underrun, " reads shared bytes -", "outside of the 256 that the group has");
    FINDS(unwritten_read, "work-item 40 reads shared bytes 160 to 163 at ",
          "which nobody has written");
    FINDS(unwritten_half, " reads shared bytes ", "which nobody has written");
    FINDS(misaligned_shared, " writes 16 bytes at ", "not aligned");
}

static void waiting(void **state)
{
    (void)state;
    FINDS(divergent_barrier, "work-item 0 waits in a barrier at ",
          ", and work-item 7 in a barrier at ");
    FINDS(missing_work_item, "work-item 0 waits in a barrier at ", ", and work-item 50 has ended");
    FINDS(missing_lane, "work-item 32 waits in a shuffle at ", ", and work-item 37 has ended");
    FINDS(other_shuffle, " waits in a shuffle at ", ", and work-item ", " in a shuffle at ");
    FINDS(other_operand, "work-item 0 waits in a shuffle at ", ", and work-item 5 in a shuffle at ",
          " with another operand (1, 2)");
    FINDS(shuffle_and_barrier, " waits in a shuffle at ", ", and work-item ", " in a barrier at ");
}

static void buffers(void **state)
{
    (void)state;
    FINDS(buffer_overrun, "work-item 63 reads bytes 256 to 259 of q at ", ", which has 256");
    FINDS(buffer_underrun, "work-item 0 reads bytes -4 to -1 of q at ", ", which has 256");
    FINDS(buffer_overwrite, "work-item 63 writes bytes 4096 to 4099 of o at ", ", which has 4096");
    FINDS(stray_pointer, " writes 4 bytes outside of every buffer at ");
    FINDS(misaligned_buffer, " reads 16 bytes at ", "not aligned");
    check("buffer_overrun", buffer_overrun,
          (const char *const[]){" of q at ", "which has been freed", NULL}, true);
}

#define FINDS_IN_WARP(name, ...)                                                                   \
    check_of(#name, &(emulated_run){.kernel = name, .threads = 32, .fast_memory = 1024},           \
             (const char *const[]){__VA_ARGS__, NULL})

static void copies_under_way(void **state)
{
    (void)state;
    FINDS_IN_WARP(read_before_wait, " reads shared bytes ",
                  "where a copy is under way that work-item ", " and has not waited for");
    FINDS_IN_WARP(read_before_barrier, " shared bytes ", " with no barrier between");
    FINDS_IN_WARP(written_before_wait, " writes shared bytes ", "where a copy is under way");
    FINDS_IN_WARP(never_committed, " reads shared bytes ", "where a copy is under way");
    FINDS_IN_WARP(copied_twice, " copies to shared bytes ", "where a copy is under way");
    FINDS_IN_WARP(copied_while_read, " shared bytes ", ", which work-item ",
                  " with no barrier between");
    FINDS_IN_WARP(copy_overrun, "work-item 31 copies to shared bytes 1024 to 1039 at ",
                  "outside of the 1024 that the group has");
    FINDS_IN_WARP(copy_source_overrun, " reads bytes ", " of q at ", ", which has 256");
    FINDS_IN_WARP(copy_misaligned, " copies at ", ", where the source is not aligned to 16");
}

static void matrices(void **state)
{
    (void)state;
    FINDS_IN_WARP(load_misaligned, "work-item 0 names shared byte 8 at ", "not aligned to 16");
    FINDS_IN_WARP(load_unwritten, "work-item 31 reads shared bytes 496 to 511 at ",
                  "which nobody has written");
    FINDS_IN_WARP(load_unordered, "work-item 0 reads shared bytes 0 to 15 at ",
                  ", which work-item 1 has written at ", " with no barrier between");
}

/* ---- what depends on the device ---- */

#define FINDS_ON(id, name, ...)                                                                    \
    check_of(#name,                                                                                \
             &(emulated_run){.device = id,                                                         \
                             .kernel = name,                                                       \
                             .threads = WORK_ITEMS,                                                \
                             .fast_memory = SHARED_FLOATS * sizeof(float)},                        \
             (const char *const[]){id, __VA_ARGS__, NULL})

static void waves(void **state)
{
    (void)state;
    FINDS_ON("emulated:amd", mfma_missing_lane, "work-item 0 waits in v_mfma_f32_32x32x8_f16 at ",
             ", and work-item 37 has ended");
    FINDS_ON("emulated:amd", mfma_in_a_branch,
             "work-item 0 waits in v_mfma_f32_32x32x8_bf16_1k at ",
             ", and work-item 32 in a barrier at ");
    FINDS_ON("emulated:amd-rdna3", shares_in_waves, " shared bytes ", ", which work-item ",
             " with no barrier between");
    for (int s = 0; s < SEEDS; s++) {
        emulated_run r = run_of(shares_in_waves, seeds[s]);
        r.device = "emulated:amd";
        assert_int_equal(run(&r), ATTUNE_OK);
        for (int i = 0; i < WORK_ITEMS; i++) assert_true(r.output[i] == (float)(i ^ 32));
    }
}

static void repeated_operands(void **state)
{
    (void)state;
    FINDS_ON("emulated:amd-rdna3", wmma_a_differs,
             "work-items 3 and 19 come to v_wmma_f32_16x16x16_f16 of RDNA3 at ",
             " with different words 5 of A, which the one has to repeat");
    FINDS_ON("emulated:amd-rdna3", wmma_b_differs,
             "work-items 35 and 51 come to v_wmma_f32_16x16x16_bf16 of RDNA3 at ",
             " with different words 7 of B, which the one has to repeat");
}

static void instructions_of_others(void **state)
{
    (void)state;
    FINDS_ON("emulated:nvidia", comes_to_mfma, " comes to v_mfma_f32_16x16x16_f16 at ",
             ", which emulated:nvidia does not have");
    FINDS_ON("emulated:amd-rdna3", comes_to_mfma, " comes to v_mfma_f32_16x16x16_f16 at ",
             ", which emulated:amd-rdna3 does not have");
    FINDS_ON("emulated:amd-rdna4", comes_to_wmma_rdna3, " v_wmma_f32_16x16x16_f16 of RDNA3 at ",
             ", which emulated:amd-rdna4 does not have");
    FINDS_ON("emulated:amd-rdna3", comes_to_wmma_rdna4, " v_wmma_f32_16x16x16_bf16 of RDNA4 at ",
             ", which emulated:amd-rdna3 does not have");
    FINDS_ON("emulated:amd", comes_to_wmma_rdna4, " v_wmma_f32_16x16x16_bf16 of RDNA4 at ",
             ", which emulated:amd does not have");
    FINDS_ON("emulated:amd-cdna3", comes_to_mma, " comes to mma.sync at ",
             ", which emulated:amd-cdna3 does not have");
    FINDS_ON("emulated:amd", comes_to_ldmatrix, " comes to ldmatrix at ", " does not have");
    FINDS_ON("emulated:amd", comes_to_copy, " comes to cp.async at ", " does not have");
    FINDS_ON("emulated:amd", comes_to_commit, " comes to cp.async.commit_group at ",
             " does not have");
    FINDS_ON("emulated:amd-rdna4", comes_to_wait, " comes to cp.async.wait_group at ",
             " does not have");
    FINDS_ON("emulated:amd", comes_to_tf32, " comes to cvt.rna.tf32 at ", " does not have");
}

static void groups_are_whole_waves(void **state)
{
    (void)state;
    emulated_run r = run_of(exchanges, NULL);
    r.threads = 96;
    r.device = "emulated:amd";
    assert_int_equal(run(&r), ATTUNE_BUILD_FAILED);
    assert_non_null(
        strstr(attune_error_detail(), "96 work-items a group are no whole warps of 64"));
    r.threads = 48;
    r.device = "emulated:amd-rdna4";
    assert_int_equal(run(&r), ATTUNE_BUILD_FAILED);
    assert_non_null(
        strstr(attune_error_detail(), "48 work-items a group are no whole warps of 32"));
}

/* Of many findings the report is about the first group, whatever thread ran first. */
static void first_of_many(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        emulated_run r = run_of(late_groups, seeds[i % SEEDS]);
        r.groups = 40;
        assert_int_equal(run(&r), ATTUNE_DEVICE_ERROR);
        assert_non_null(
            strstr(attune_error_detail(), "emulated:nvidia, kernel, group 3: work-item 63 writes"));
        assert_non_null(strstr(attune_error_detail(), "; 36 more groups have a finding"));
    }
}

static void seeds_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "seed",     "seed=",   "seed=-1",    "seed=1x",         "3", "seed=99999999999999999999",
        "conflict", "seed=1,", ",conflicts", "conflicts;seed=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        emulated_run r = run_of(exchanges, bad[i]);
        assert_int_equal(run(&r), ATTUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(attune_error_detail(), bad[i]));
        assert_non_null(strstr(attune_error_detail(), "ATTUNE_EMULATED"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_kernels),
        cmocka_unit_test(races),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(waiting),
        cmocka_unit_test(buffers),
        cmocka_unit_test(copies_under_way),
        cmocka_unit_test(matrices),
        cmocka_unit_test(waves),
        cmocka_unit_test(repeated_operands),
        cmocka_unit_test(instructions_of_others),
        cmocka_unit_test(groups_are_whole_waves),
        cmocka_unit_test(first_of_many),
        cmocka_unit_test(seeds_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
