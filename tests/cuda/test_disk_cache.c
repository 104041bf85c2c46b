/* Entries of src/disk_cache.c: whatever is wrong with a file is a miss, and the next entry replaces it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "../gpu/scratch.h"
#include "backend.h"
#include "cache_entry.h"

/* ---- keys ---- */

static void what_was_written_is_read(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(read_data(), 0);
    write_data();
    assert_int_equal(read_data(), 1);
    write_data();
    only_file(path);
    assert_int_equal(in_a_process(read_data), 1);
}

static void another_key_is_a_miss(void **state)
{
    (void)state;
    static const char *const others[][6] = {
        {"hip", "13.0", "--option", "text of a kernel", NULL},
        {"cuda", "13.1", "--option", "text of a kernel", NULL},
        {"cuda", "13.0", "--other", "text of a kernel", NULL},
        {"cuda", "13.0", "--option", "text of another kernel", NULL},
        {"cuda", "13.0", "--option", "text of a kerne", NULL},
        {"cuda", "13.0", "--option", NULL},
        {"cuda", "13.0", "--option", "text of a kernel", "", NULL},
        {"cuda", "13.0", "--optiontext", " of a kernel", NULL},
        {NULL},
    };
    size_t bytes;
    write_data();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(attune_cache_read(others[i], &bytes));
}

/* As if two keys had one hash. */
static void a_file_of_another_key_is_a_miss(void **state)
{
    (void)state;
    static const char *const other[] = {"cuda", "13.0", "--option", "text of an other", NULL};
    char path[PATH_MAX], other_path[PATH_MAX];
    attune_cache_write(other, "data", 4);
    only_file(other_path);
    write_data();
    assert_int_equal(files_in(scratch, "", path), 2);
    if (strcmp(path, other_path) == 0) {
        unlink(path);
        only_file(path);
        attune_cache_write(other, "data", 4);
    }
    assert_int_equal(rename(other_path, path), 0);
    assert_int_equal(read_data(), 0);
}

static void nothing_is_not_kept(void **state)
{
    (void)state;
    static const char *const key[] = {"text", NULL};
    attune_cache_write(key, "", 0);
    assert_int_equal(files_in(scratch, "", NULL), 0);
}

/* ---- damage ---- */

static size_t file_size(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (size_t)about.st_size;
}

static void flip_a_bit(const char *path, size_t at)
{
    FILE *const file = fopen(path, "r+b");
    fseek(file, (long)at, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(byte ^ (1 << at % 8), file);
    fclose(file);
}

static void a_flipped_bit_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    const size_t size = file_size(path);
    for (size_t at = 0; at < size; at++) {
        flip_a_bit(path, at);
        assert_int_equal(read_data(), 0);
        write_data();
        assert_int_equal(read_data(), 1);
    }
}

static void a_flipped_bit_far_into_a_file_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_large();
    only_file(path);
    const size_t size = file_size(path);
    for (size_t at = size - 1; at > size / 8; at /= 2) {
        assert_int_equal(read_large(), 1);
        flip_a_bit(path, at);
        assert_int_equal(read_large(), 0);
        write_large();
    }
}

static void a_file_of_another_length_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    const size_t size = file_size(path);
    for (size_t length = 0; length <= size + 1; length++) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_int_equal(read_data(), length == size);
        write_data();
        assert_int_equal(read_data(), 1);
    }
}

/* A length that a file only claims costs no memory worth speaking of, and no fault. */
static void a_foreign_file_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    FILE *const file = fopen(path, "wb");
    for (int i = 0; i < 10000; i++) fputs("This is no kernel.\n", file);
    fclose(file);
    assert_int_equal(read_data(), 0);
    assert_int_equal(write_and_read(), 1);
    only_file(path);
}

static void a_pipe_in_its_place_is_replaced(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10); /* for a read that waits */
    assert_int_equal(read_data(), 0);
    const int writer = open(path, O_RDWR);
    assert_int_equal(read_data(), 0);
    close(writer);
    alarm(0);
    assert_int_equal(write_and_read(), 1);
    only_file(path);
}

static void a_dangling_link_in_its_place_is_replaced(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    assert_int_equal(read_data(), 0);
    assert_int_equal(write_and_read(), 1);
}

/* A folder is nobody's to remove: the kernel is compiled each time. */
static void a_folder_in_its_place_is_left_alone(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(write_and_read(), 0);
    only_file(path); /* and no draft */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_was_written_is_read),
        SCRATCH_TEST(another_key_is_a_miss),
        SCRATCH_TEST(a_file_of_another_key_is_a_miss),
        SCRATCH_TEST(nothing_is_not_kept),
        SCRATCH_TEST(a_flipped_bit_is_a_miss),
        SCRATCH_TEST(a_flipped_bit_far_into_a_file_is_a_miss),
        SCRATCH_TEST(a_file_of_another_length_is_a_miss),
        SCRATCH_TEST(a_foreign_file_is_a_miss),
        SCRATCH_TEST(a_pipe_in_its_place_is_replaced),
        SCRATCH_TEST(a_dangling_link_in_its_place_is_replaced),
        SCRATCH_TEST(a_folder_in_its_place_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
