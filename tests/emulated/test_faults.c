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

/* The line of kernels.c with the comment "fault NAME 1" or "2"; 0 where there is none. */
static int line_of(const char *name, char side)
{
    FILE *const file = fopen(KERNELS_SOURCE, "r");
    assert_non_null(file);
    char wanted[64], line[256];
    int number = 0, found = 0;
    snprintf(wanted, sizeof wanted, "fault %s ", name);
    while (found == 0 && fgets(line, sizeof line, file) != NULL) {
        number++;
        const char *const at = strstr(line, wanted);
        if (at != NULL && strchr(at + strlen(wanted), side) != NULL) found = number;
    }
    fclose(file);
    return found;
}

static emulated_run run_of(attune_group_function *kernel, const char *seed)
{
    return (emulated_run){.kernel = kernel,
                          .threads = WORK_ITEMS,
                          .fast_memory = SHARED_FLOATS * sizeof(float),
                          .seed = seed};
}

static void check_of(const char *name, attune_group_function *kernel, int threads,
                     size_t fast_memory, const char *const parts[], bool freed)
{
    for (int s = 0; s < SEEDS; s++) {
        emulated_run r = {.kernel = kernel,
                          .threads = threads,
                          .fast_memory = fast_memory,
                          .seed = seeds[s],
                          .free_input_first = freed};
        assert_int_equal(run(&r), ATTUNE_DEVICE_ERROR);
        const char *const detail = attune_error_detail();
        for (char side = '1'; side <= '2'; side++) {
            char place[64];
            const int line = line_of(name, side);
            snprintf(place, sizeof place, "kernels.c:%d (%s)", line, name);
            if (line != 0 && strstr(detail, place) == NULL)
                fail_msg("%s, \"%s\": no %s in: %s", name, seeds[s], place, detail);
        }
        assert_true(line_of(name, '1') != 0);
        for (int i = 0; parts[i] != NULL; i++)
            if (strstr(detail, parts[i]) == NULL)
                fail_msg("%s, \"%s\": no \"%s\" in: %s", name, seeds[s], parts[i], detail);
        if (s == 0) print_message("%s\n", detail);
    }
}

static void check(const char *name, attune_group_function *kernel, const char *const parts[],
                  bool freed)
{
    check_of(name, kernel, WORK_ITEMS, SHARED_FLOATS * sizeof(float), parts, freed);
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

#define FINDS_IN_WARP(kernel, ...)                                                                 \
    check_of(#kernel, kernel, 32, 1024, (const char *const[]){__VA_ARGS__, NULL}, false)

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
    static const char *const bad[] = {"seed",    "seed=", "seed=-1",
                                      "seed=1x", "3",     "seed=99999999999999999999"};
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
        cmocka_unit_test(correct_kernels),   cmocka_unit_test(races),
        cmocka_unit_test(shared_memory),     cmocka_unit_test(waiting),
        cmocka_unit_test(buffers),           cmocka_unit_test(copies_under_way),
        cmocka_unit_test(matrices),          cmocka_unit_test(first_of_many),
        cmocka_unit_test(seeds_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
