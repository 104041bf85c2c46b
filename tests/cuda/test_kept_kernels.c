/* Kernels that were compiled here and kept on disk: who may use them, and that a bad one costs a compilation and no more. */
#include "../gpu/scratch.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const attune_backend *const backend = &attune_backend_cuda;

static int start_with_a_cache(void **state)
{
    return start_fresh(state) == 0 ? make_scratch(state) : -1;
}

static int end_with_a_cache(void **state)
{
    remove_scratch(state);
    return expect_nothing_left(state);
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, start_with_a_cache, end_with_a_cache)

/* Loads a row in a context of its own; how often the compiler ran for it. The fake driver finds a function only in code that was
 * compiled from the text that names it. */
static int compilations_of(const attune_kernel_row *row)
{
    const int before = nvrtc->compilations;
    gpu_device *const device = open_device();
    void *kernel = NULL;
    if (backend->load(device, row, &kernel) != ATTUNE_OK) fail_msg("%s", attune_error_detail());
    close_device(device);
    return nvrtc->compilations - before;
}

static int compilations_here(void)
{
    return compilations_of(&row_plain);
}

static void a_kernel_is_compiled_once_for_all_processes(void **state)
{
    (void)state;
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(compilations_here(), 0);
    assert_int_equal(in_a_process(compilations_here), 0);
    assert_int_equal(compilations_of(&row_packed), 1);
    assert_int_equal(compilations_of(&row_packed), 0);
    assert_int_equal(files_in(scratch, "", NULL), 2);
}

/* ---- what a compilation depends on ---- */

static void another_text_is_compiled(void **state)
{
    (void)state;
    attune_kernel_row other = row_plain;
    assert_int_equal(compilations_here(), 1);
    other.constants = "THREADS 129\n";
    assert_int_equal(compilations_of(&other), 1);
    other = row_plain;
    other.body = "void plain() { }\n";
    assert_int_equal(compilations_of(&other), 1);
    other = row_plain;
    other.threads = 64; /* the launch's, no part of the text */
    assert_int_equal(compilations_of(&other), 0);
}

static void another_architecture_is_compiled(void **state)
{
    (void)state;
    assert_int_equal(compilations_here(), 1);
    cuda->machine.capability = 80;
    assert_int_equal(compilations_here(), 1);
    cuda->machine.capability = 89; /* PTX of 8.6 */
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(compilations_here(), 0);
    cuda->machine.capability = 90;
    assert_int_equal(compilations_here(), 0);
}

static void another_compiler_compiles(void **state)
{
    (void)state;
    assert_int_equal(compilations_here(), 1);
    nvrtc->minor = 1;
    assert_int_equal(compilations_here(), 1);
    nvrtc->major = 12;
    assert_int_equal(compilations_here(), 1);
    nvrtc->major = 13;
    nvrtc->minor = 0;
    assert_int_equal(compilations_here(), 0);
}

static void other_options_are_compiled(void **state)
{
    (void)state;
    static const char *const options[] = {"--fmad=false", NULL};
    assert_int_equal(compilations_here(), 1);
    gpu_device *const device = open_device();
    gpu_vendor vendor = *device->vendor;
    vendor.compile_options = options;
    device->vendor = &vendor;
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(nvrtc->compilations, 2);
    close_device(device);
}

/* ---- what is kept ---- */

static void what_did_not_work_is_not_kept(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_broken, &kernel), ATTUNE_BUILD_FAILED);
    cuda->machine.load_codes[FAKE_CUBIN] = 209;
    cuda->machine.load_codes[FAKE_PTX] = 222;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_BUILD_FAILED);
    close_device(device);
    assert_int_equal(files_in(scratch, "", NULL), 0);
}

/* Where the driver takes PTX only, that is what the next process finds. */
static void what_the_driver_took_is_kept(void **state)
{
    (void)state;
    cuda->machine.load_codes[FAKE_CUBIN] = 209;
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(compilations_here(), 0);
}

/* The driver was changed for one that does not take what is there. */
static void what_the_driver_does_not_take_is_replaced(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(compilations_here(), 1);
    cuda->machine.load_codes[FAKE_CUBIN] = 209;
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(compilations_here(), 0);
    only_file(path);
}

/* No memory for a kept kernel: compiling it again would not help. */
static void trouble_of_the_device_is_no_fault_of_a_file(void **state)
{
    (void)state;
    assert_int_equal(compilations_here(), 1);
    gpu_device *const device = open_device();
    void *kernel = NULL;
    cuda->faults[FAKE_cuModuleLoadDataEx] = (fake_fault){1, 2};
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(nvrtc->compilations, 1);
    close_device(device);
    assert_int_equal(compilations_here(), 0);
}

static void off_keeps_nothing(void **state)
{
    (void)state;
    setenv("ATTUNE_CACHE", "off", 1);
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(files_in(scratch, "", NULL), 0);
}

/* ---- damage ---- */

static void cut_in_half(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size / 2), 0);
}

static void empty(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

static void change_the_last_byte(const char *path)
{
    FILE *const file = fopen(path, "r+b");
    fseek(file, -1, SEEK_END);
    fputc('x', file);
    fclose(file);
}

static void make_foreign(const char *path)
{
    FILE *const file = fopen(path, "wb");
    fputs("This is no kernel.\n", file);
    fclose(file);
}

static void make_a_pipe(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void a_damaged_file_is_replaced(void **state)
{
    (void)state;
    void (*const damages[])(const char *path) = {cut_in_half, empty, change_the_last_byte,
                                                 make_foreign, make_a_pipe};
    char path[PATH_MAX];
    assert_int_equal(compilations_here(), 1);
    only_file(path);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        damages[i](path);
        assert_int_equal(compilations_here(), 1);
        assert_int_equal(compilations_here(), 0);
        only_file(path);
    }
}

static void a_folder_in_its_place_costs_a_compilation(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(compilations_here(), 1);
    only_file(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(compilations_here(), 1);
    assert_int_equal(compilations_here(), 1);
    only_file(path);
}

/* ---- several processes ---- */

static int load_both(void)
{
    return compilations_of(&row_plain) > 1 || compilations_of(&row_packed) > 1;
}

static void processes_compile_the_same_kernels_at_once(void **state)
{
    (void)state;
    assert_int_equal(in_processes(8, load_both), 1);
    assert_int_equal(files_in(scratch, "", NULL), 2);
    assert_int_equal(files_in(scratch, "draft-", NULL), 0);
    assert_int_equal(compilations_here(), 0);
    assert_int_equal(compilations_of(&row_packed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(a_kernel_is_compiled_once_for_all_processes),
        CACHE_TEST(another_text_is_compiled),
        CACHE_TEST(another_architecture_is_compiled),
        CACHE_TEST(another_compiler_compiles),
        CACHE_TEST(other_options_are_compiled),
        CACHE_TEST(what_did_not_work_is_not_kept),
        CACHE_TEST(what_the_driver_took_is_kept),
        CACHE_TEST(what_the_driver_does_not_take_is_replaced),
        CACHE_TEST(trouble_of_the_device_is_no_fault_of_a_file),
        CACHE_TEST(off_keeps_nothing),
        CACHE_TEST(a_damaged_file_is_replaced),
        CACHE_TEST(a_folder_in_its_place_costs_a_compilation),
        CACHE_TEST(processes_compile_the_same_kernels_at_once),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
