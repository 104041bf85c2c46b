/* The folder of src/disk_cache.c: where it is, when it cannot be written, and when several processes share it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
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
#include <utime.h>

#include "../gpu/scratch.h"
#include "cache_entry.h"

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
static void touch(const char *path, time_t ago)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    const struct utimbuf times = {time(NULL) - ago, time(NULL) - ago};
    assert_int_equal(utime(path, &times), 0);
}

static void old_drafts_go_away(void **state)
{
    (void)state;
    char folder[2 * PATH_MAX], old[3 * PATH_MAX], fresh[3 * PATH_MAX], other[3 * PATH_MAX];
    snprintf(folder, sizeof folder, "%s/drafts", scratch);
    snprintf(old, sizeof old, "%s/draft-killed", folder);
    snprintf(fresh, sizeof fresh, "%s/draft-at-work", folder);
    snprintf(other, sizeof other, "%s/somebody-elses", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    setenv("ATTUNE_CACHE", folder, 1);
    touch(old, 7200);
    touch(fresh, 60);
    touch(other, 7200);
    assert_int_equal(write_and_read(), 1);
    assert_int_not_equal(access(old, F_OK), 0);
    assert_int_equal(access(fresh, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
}

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
        SCRATCH_TEST(the_folder_is_the_first_that_is_named),
        SCRATCH_TEST(a_path_that_is_too_long_is_no_folder),
        SCRATCH_TEST(a_folder_for_reading_only_is_only_read),
        SCRATCH_TEST(a_full_disk_keeps_nothing),
        SCRATCH_TEST(a_limit_of_file_sizes_ends_nothing),
        SCRATCH_TEST(processes_never_see_half_a_file),
        SCRATCH_TEST(old_drafts_go_away),
        SCRATCH_TEST(a_killed_process_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
