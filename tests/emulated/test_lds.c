/* Bank conflicts are counted as AMD's LDS serves lanes, one access of a wave at a time and over the launches of a device. */
#include "fixture.h"
#include "gpus.h"
#include "kernels.h"
#include "lds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LANES = 64 };

static const gpu *gpu_of(const char *id)
{
    for (int i = 0; i < GPUS; i++)
        if (strcmp(gpus[i].id, id) == 0) return &gpus[i];
    fail_msg("no %s", id);
    return NULL;
}

typedef struct counts {
    int passes, least;
} counts;

static counts count(const char *id, int bytes, bool is_write, const uint32_t offsets[LANES])
{
    counts c;
    lds_passes(gpu_of(id), bytes, is_write, offsets, &c.passes, &c.least);
    return c;
}

/* Lane i at i · stride, as the measurements were made. */
static counts strided(const char *id, int bytes, bool is_write, uint32_t stride)
{
    uint32_t offsets[LANES];
    for (uint32_t i = 0; i < LANES; i++) offsets[i] = i * stride;
    return count(id, bytes, is_write, offsets);
}

/* Conflicts of one instruction on MI300X, "Empirical LDS Measurements": those of a block of 64 reads, divided by 64. */
static void strides_conflict_as_measured(void **state)
{
    (void)state;
    static const struct {
        int bytes;
        uint32_t stride;
        int least, conflicts;
    } cases[] = {
        {.bytes = 4, .stride = 4, .least = 2, .conflicts = 0},
        {.bytes = 4, .stride = 8, .least = 2, .conflicts = 2},
        {.bytes = 4, .stride = 32, .least = 2, .conflicts = 14},
        {.bytes = 4, .stride = 128, .least = 2, .conflicts = 62},
        {.bytes = 8, .stride = 8, .least = 4, .conflicts = 0},
        {.bytes = 8, .stride = 16, .least = 4, .conflicts = 4},
        {.bytes = 8, .stride = 64, .least = 4, .conflicts = 28},
        {.bytes = 8, .stride = 256, .least = 4, .conflicts = 60},
        {.bytes = 16, .stride = 16, .least = 8, .conflicts = 0},
        {.bytes = 16, .stride = 32, .least = 8, .conflicts = 8},
        {.bytes = 16, .stride = 64, .least = 8, .conflicts = 24},
        {.bytes = 16, .stride = 512, .least = 8, .conflicts = 56},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const counts c = strided("emulated:amd-cdna3", cases[i].bytes, false, cases[i].stride);
        assert_int_equal(c.least, cases[i].least);
        assert_int_equal(c.passes, cases[i].least + cases[i].conflicts);
    }
}

/* Two lanes that want other words of a bank and no other lane: whether they are served together. */
static bool meet(const char *id, int bytes, bool is_write, int one, int other)
{
    uint32_t offsets[LANES];
    for (int i = 0; i < LANES; i++) offsets[i] = LDS_IDLE;
    offsets[one] = 0;
    offsets[other] = 128;
    const counts c = count(id, bytes, is_write, offsets);
    assert_int_equal(c.passes, 2);
    return c.least == 1;
}

/* Lanes of each phase of a read of 16 bytes: Triton, pull request 11365, for MI300. */
static void wide_reads_are_served_in_their_own_order(void **state)
{
    (void)state;
    static const int phases[8][2] = {{0, 20},  {4, 16},  {8, 28},  {12, 24},
                                     {32, 52}, {36, 48}, {40, 60}, {44, 56}};
    int phase_of[LANES];
    for (int p = 0; p < 8; p++)
        for (int i = 0; i < 8; i++) phase_of[phases[p][i / 4] + i % 4] = p;
    for (int one = 0; one < LANES; one++)
        for (int other = 0; other < LANES; other++) {
            if (one == other) continue;
            const bool neighbours = one / 8 == other / 8;
            assert_int_equal(meet("emulated:amd", 16, false, one, other),
                             phase_of[one] == phase_of[other]);
            assert_int_equal(meet("emulated:amd", 16, true, one, other), neighbours);
            if (one >= 32 || other >= 32) continue;
            assert_int_equal(meet("emulated:amd-rdna3", 16, false, one, other),
                             phase_of[one] == phase_of[other]);
            assert_int_equal(meet("emulated:amd-rdna4", 16, false, one, other), neighbours);
        }
}

static void one_word_is_given_to_all(void **state)
{
    (void)state;
    for (int bytes = 1; bytes <= 16; bytes *= 2) {
        const counts c = strided("emulated:amd", bytes, false, 0);
        assert_int_equal(c.passes, c.least);
    }
}

/* ---- a device ---- */

/* What the device writes to stderr. */
static void run_and_read(emulated_run *r, char *text, size_t size)
{
    FILE *const file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    const attune_status status = run(r);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(status, ATTUNE_OK);
}

static emulated_run run_of(const char *device, const char *words)
{
    return (emulated_run){.device = device,
                          .seed = words,
                          .kernel = conflicts,
                          .threads = 128,
                          .fast_memory = 128 * 16,
                          .groups = 2};
}

/* The numbers at the end of the line about that access; each group has two waves of 64. */
static void check_line(const char *text, const char *verb, int bytes, int accesses, int passes,
                       int least)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, " (conflicts)\t%s\t%d\t%d\t%d\t%d\n", verb, bytes, accesses,
             passes, least);
    if (strstr(text, wanted) == NULL) fail_msg("no \"%s\" in:\n%s", wanted, text);
}

static void launches_are_added_up(void **state)
{
    (void)state;
    char text[4096];
    static const char header[] = "lds\tkernel\tplace\tverb\tbytes\taccesses\tpasses\tleast\n";
    static const char *const words[] = {"conflicts", "conflicts,seed=7", "seed=8,conflicts"};
    for (int i = 0; i < 3; i++) {
        emulated_run r = run_of("emulated:amd", words[i]);
        run_and_read(&r, text, sizeof text);
        assert_int_equal(strncmp(text, header, strlen(header)), 0);
        check_line(text, "writes", 16, 4, 4 * 8, 4 * 8);
        /* 16 bytes that are 128 apart: the eight lanes of a phase want one and the same banks */
        check_line(text, "reads", 16, 4, 4 * 64, 4 * 8);
        /* 16 lanes of each half, four in each of four banks; two instructions on one line */
        check_line(text, "reads", 4, 24, 24 * 2 * 4, 24 * 2);
    }
}

static void nothing_is_counted_unasked(void **state)
{
    (void)state;
    char text[4096];
    emulated_run r = run_of("emulated:amd", "seed=1");
    run_and_read(&r, text, sizeof text);
    assert_string_equal(text, "");
    r = run_of("emulated:nvidia", "conflicts");
    run_and_read(&r, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_conflict_as_measured),
        cmocka_unit_test(wide_reads_are_served_in_their_own_order),
        cmocka_unit_test(one_word_is_given_to_all),
        cmocka_unit_test(launches_are_added_up),
        cmocka_unit_test(nothing_is_counted_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
