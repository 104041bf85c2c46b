/* src/disk_cache.c by itself: whatever is wrong with a file or a folder is a miss, and costs nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "scratch.h"

#define SCRATCH_TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)

static const char *const key[] = {"cuda", "13.0", "--option", "text of a kernel", NULL};
static const char data[] = "machine code\0with a NUL in it";

static void write_data(void)
{
    attune_cache_write(key, data, sizeof data);
}

/* 1 for a hit, which must be the data to the byte, 0 for a miss. */
static int read_data(void)
{
    size_t bytes = 0;
    void *const found = attune_cache_read(key, &bytes);
    if (found == NULL) return 0;
    if (bytes != sizeof data || memcmp(found, data, bytes) != 0) abort();
    free(found);
    return 1;
}

static int write_and_read(void)
{
    write_data();
    return read_data();
}

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
    attune_cache_write(other, data, sizeof data);
    only_file(other_path);
    write_data();
    assert_int_equal(files_in(scratch, "", path), 2);
    if (strcmp(path, other_path) == 0) {
        unlink(path);
        only_file(path);
        attune_cache_write(other, data, sizeof data);
    }
    assert_int_equal(rename(other_path, path), 0);
    assert_int_equal(read_data(), 0);
}

static void nothing_is_not_kept(void **state)
{
    (void)state;
    attune_cache_write(key, data, 0);
    assert_int_equal(files_in(scratch, "", NULL), 0);
}

/* ---- damage ---- */

static size_t file_size(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (size_t)about.st_size;
}

static void a_flipped_bit_is_a_miss(void **state)
{
    (void)state;
    char path[PATH_MAX];
    write_data();
    only_file(path);
    const size_t size = file_size(path);
    for (size_t at = 0; at < size; at++) {
        FILE *const file = fopen(path, "r+b");
        fseek(file, (long)at, SEEK_SET);
        const int byte = fgetc(file);
        fseek(file, (long)at, SEEK_SET);
        fputc(byte ^ (1 << at % 8), file);
        fclose(file);
        assert_int_equal(read_data(), 0);
        write_data();
        assert_int_equal(read_data(), 1);
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

/* ---- folders ---- */

static void set_environment(const char *own, const char *caches, const char *home)
{
    setenv("ATTUNE_CACHE", own, 1);
    setenv("XDG_CACHE_HOME", caches, 1);
    setenv("HOME", home, 1);
}

static void the_folder_is_the_first_that_is_named(void **state)
{
    (void)state;
    char *const saved = strdup(getenv("HOME") != NULL ? getenv("HOME") : "");
    char home[2 * PATH_MAX], caches[2 * PATH_MAX], in_home[3 * PATH_MAX], in_caches[3 * PATH_MAX];
    snprintf(home, sizeof home, "%s/home", scratch);
    snprintf(caches, sizeof caches, "%s/caches", scratch);
    snprintf(in_home, sizeof in_home, "%s/.cache/attune", home);
    snprintf(in_caches, sizeof in_caches, "%s/attune", caches);

    set_environment("off", caches, home);
    assert_int_equal(write_and_read(), 0);
    set_environment("", "", "");
    assert_int_equal(write_and_read(), 0);
    set_environment("", "relative", "relative");
    assert_int_equal(write_and_read(), 0);
    unsetenv("ATTUNE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(write_and_read(), 0);
    assert_int_equal(files_in(scratch, "", NULL), 0);

    set_environment("", "relative", home);
    assert_int_equal(write_and_read(), 1);
    assert_int_equal(files_in(in_home, "", NULL), 1);
    set_environment("", caches, home);
    assert_int_equal(read_data(), 0);
    assert_int_equal(write_and_read(), 1);
    assert_int_equal(files_in(in_caches, "", NULL), 1);
    set_environment("", "", saved);
    free(saved);
}

static void a_path_that_is_too_long_is_no_folder(void **state)
{
    (void)state;
    char path[5000];
    for (size_t length = 4000; length < sizeof path; length++) {
        memset(path, 'x', length);
        for (size_t i = 0; i < length; i += 100) path[i] = '/';
        memcpy(path, scratch, strlen(scratch));
        path[length] = '\0';
        setenv("ATTUNE_CACHE", path, 1);
        assert_int_equal(read_data(), 0);
    }
    assert_int_equal(write_and_read(), 0);
    setenv("ATTUNE_CACHE", "/dev/null/attune", 1);
    assert_int_equal(write_and_read(), 0);
}

/* Root may write anywhere, so a process that is root becomes nobody first. */
static int write_as_nobody(void)
{
    enum { NOBODY = 65534 };
    if (getuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) return 77;
    return write_and_read();
}

static void a_folder_for_reading_only_is_only_read(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(chmod(scratch, 0555), 0);
    const int written = in_a_process(write_as_nobody);
    assert_int_equal(chmod(scratch, 0700), 0);
    if (written == 77) skip();
    assert_int_equal(written, 0);
    assert_int_equal(files_in(scratch, "", NULL), 0);

    write_data();
    only_file(path);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(scratch, 0555), 0);
    assert_int_equal(in_a_process(write_as_nobody), 1);
    assert_int_equal(chmod(scratch, 0700), 0);
}

/* ---- full disks ---- */

enum { LARGE = 1 << 20 };

/* 1 for a hit, as above. */
static int write_and_read_large(void)
{
    static const char *const large_key[] = {"large", NULL};
    static char large[LARGE];
    size_t bytes;
    memset(large, 'x', sizeof large);
    attune_cache_write(large_key, large, sizeof large);
    void *const found = attune_cache_read(large_key, &bytes);
    if (found == NULL) return 0;
    if (bytes != sizeof large || memcmp(found, large, bytes) != 0) abort();
    free(found);
    return 1;
}

static void a_full_disk_keeps_nothing(void **state)
{
    (void)state;
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "mount -t tmpfs -o size=64k attune_test %s >/dev/null 2>&1",
             scratch);
    if (system(command) != 0) {
        print_message("no folder of a limited size can be made here\n");
        skip();
    }
    const int large_hit = write_and_read_large(), files = files_in(scratch, "", NULL);
    const int hit = write_and_read();
    snprintf(command, sizeof command, "umount %s", scratch);
    assert_int_equal(system(command), 0);
    assert_int_equal(large_hit, 0);
    assert_int_equal(files, 0);
    assert_int_equal(hit, 1);
}

static int write_within_a_limit(void)
{
    const struct rlimit limit = {.rlim_cur = LARGE / 2, .rlim_max = LARGE / 2};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    const int large_hit = write_and_read_large();
    return !large_hit && files_in(scratch, "draft-", NULL) == 0 && write_and_read() ? 0 : 1;
}

static int write_within_a_limit_that_is_no_signal(void)
{
    signal(SIGXFSZ, SIG_IGN);
    return write_within_a_limit();
}

/* `ulimit -f` ends a process that writes too long a file: that must not happen for the sake of a cache. */
static void a_limit_of_file_sizes_ends_nothing(void **state)
{
    (void)state;
    assert_int_equal(in_a_process(write_within_a_limit_that_is_no_signal), 0);
    assert_int_equal(in_a_process(write_within_a_limit), 0);
}

/* ---- several processes ---- */

static int write_and_read_often(void)
{
    int good = 1;
    for (int i = 0; i < 50; i++) good &= write_and_read();
    return !good;
}

static void processes_never_see_half_a_file(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(in_processes(8, write_and_read_often), 1);
    only_file(path);
    assert_int_equal(read_data(), 1);
}

/* Killed at any time, a process leaves whole entries, and at most one draft. */
static void a_killed_process_breaks_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0)
            for (;;) write_and_read_large();
        nanosleep(&(struct timespec){.tv_nsec = 3000000 + 500000 * i}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_true(files_in(scratch, "draft-", NULL) <= i + 1);
        assert_int_equal(write_and_read_large(), 1);
    }
    assert_int_equal(write_and_read(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_was_written_is_read),
        SCRATCH_TEST(another_key_is_a_miss),
        SCRATCH_TEST(a_file_of_another_key_is_a_miss),
        SCRATCH_TEST(nothing_is_not_kept),
        SCRATCH_TEST(a_flipped_bit_is_a_miss),
        SCRATCH_TEST(a_file_of_another_length_is_a_miss),
        SCRATCH_TEST(a_foreign_file_is_a_miss),
        SCRATCH_TEST(a_pipe_in_its_place_is_replaced),
        SCRATCH_TEST(a_dangling_link_in_its_place_is_replaced),
        SCRATCH_TEST(a_folder_in_its_place_is_left_alone),
        SCRATCH_TEST(the_folder_is_the_first_that_is_named),
        SCRATCH_TEST(a_path_that_is_too_long_is_no_folder),
        SCRATCH_TEST(a_folder_for_reading_only_is_only_read),
        SCRATCH_TEST(a_full_disk_keeps_nothing),
        SCRATCH_TEST(a_limit_of_file_sizes_ends_nothing),
        SCRATCH_TEST(processes_never_see_half_a_file),
        SCRATCH_TEST(a_killed_process_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
