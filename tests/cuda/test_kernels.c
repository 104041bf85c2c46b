/* How a row becomes a kernel: which image is loaded, what is compiled, and which words tell of what went wrong. */
#include "fixture.h"

#include <string.h>

static const attune_backend *const backend = &attune_backend_cuda;

/* A fat binary, as far as the fake driver looks. */
static const unsigned fat_binary[] = {0xBA55ED50u, 0};
static const gpu_image images[] = {{"plain", "", fat_binary}, {NULL, NULL, NULL}};

/* INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED */
static const int unfit[] = {200, 209, 218, 221, 222, 223};
enum { UNFIT = sizeof unfit / sizeof *unfit };

static attune_status load(gpu_device *device, const attune_kernel_row *row)
{
    void *kernel = NULL;
    const attune_status status = backend->load(device, row, &kernel);
    expect_callers_context();
    if (status == ATTUNE_OK) assert_non_null(kernel);
    return status;
}

static void expect_option(const char *option)
{
    for (int i = 0; i < nvrtc->option_count; i++)
        if (strcmp(nvrtc->options[i], option) == 0) return;
    fail_msg("%s was not asked for", option);
}

/* ---- images ---- */

static void code_that_was_built_in_is_used_first(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    use_images(device, images);
    assert_int_equal(load(device, &row_plain), ATTUNE_OK);
    assert_int_equal(load(device, &row_plain), ATTUNE_OK);
    assert_int_equal(nvrtc->compilations, 0);
    assert_int_equal(cuda->calls[FAKE_cuModuleLoadDataEx], 1);
    close_device(device);
}

/* An older library on a newer GPU, or PTX that is too new for the driver. */
static void an_unfit_image_is_compiled_here(void **state)
{
    (void)state;
    for (int i = 0; i < UNFIT; i++) {
        gpu_device *const device = open_device();
        use_images(device, images);
        cuda->machine.load_codes[FAKE_FAT_BINARY] = unfit[i];
        assert_int_equal(load(device, &row_plain), ATTUNE_OK);
        assert_int_equal(nvrtc->compilations, i + 1);
        close_device(device);
    }
}

/* Drivers that load lazily find out about an image when its function is asked for. */
static void an_image_may_turn_out_unfit_late(void **state)
{
    (void)state;
    static const int codes[] = {209, 222, 500};
    for (int i = 0; i < 3; i++) {
        gpu_device *const device = open_device();
        use_images(device, images);
        cuda->faults[FAKE_cuModuleGetFunction] = (fake_fault){1, codes[i]};
        assert_int_equal(load(device, &row_plain), ATTUNE_OK);
        assert_int_equal(nvrtc->compilations, i + 1);
        assert_int_equal(cuda->live.modules, 1);
        close_device(device);
    }
}

static void unfit_machine_code_leaves_ptx(void **state)
{
    (void)state;
    for (int i = 0; i < UNFIT; i++) {
        gpu_device *const device = open_device();
        cuda->machine.load_codes[FAKE_CUBIN] = unfit[i];
        assert_int_equal(load(device, &row_plain), ATTUNE_OK);
        assert_int_equal(cuda->calls[FAKE_cuModuleLoadDataEx], 2 * (i + 1));
        assert_int_equal(nvrtc->compilations, i + 1);
        close_device(device);
    }
}

static void where_nothing_fits_the_row_is_refused(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    use_images(device, images);
    cuda->machine.load_codes[FAKE_FAT_BINARY] = 209;
    cuda->machine.load_codes[FAKE_CUBIN] = 209;
    cuda->machine.load_codes[FAKE_PTX] = 222;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
        expect_detail("kernel plain: loading its code returned FAKE_ERROR_222 (222, ");
    }
    assert_int_equal(nvrtc->compilations, 1);
    close_device(device);
}

/* What ails the device is no fault of the row: nothing else is tried, and the row is not refused for good. */
static void trouble_of_the_device_may_pass(void **state)
{
    (void)state;
    static const struct {
        int code;
        attune_status status;
    } cases[] = {
        {2, ATTUNE_OUT_OF_MEMORY}, /* OUT_OF_MEMORY */
        {719, ATTUNE_DEVICE_ERROR} /* LAUNCH_FAILED, of an earlier launch */
    };
    static const fake_function functions[] = {FAKE_cuModuleLoadDataEx, FAKE_cuModuleGetFunction,
                                              FAKE_cuFuncGetAttribute};
    for (int f = 0; f < 3; f++)
        for (int c = 0; c < 2; c++) {
            gpu_device *const device = open_device();
            use_images(device, images);
            cuda->faults[functions[f]] = (fake_fault){1, cases[c].code};
            assert_int_equal(load(device, &row_plain), cases[c].status);
            expect_detail("kernel plain: ");
            expect_detail(cases[c].code == 2 ? "FAKE_ERROR_2 (2, " : "FAKE_ERROR_719 (719, ");
            assert_int_equal(cuda->live.modules, 0);
            assert_int_equal(load(device, &row_plain), ATTUNE_OK);
            close_device(device);
        }
    assert_int_equal(nvrtc->compilations, 0);
}

/* ---- what a kernel takes ---- */

static void expect_resources(gpu_device *device, void *kernel, int64_t fast_memory, int registers,
                             int64_t spill_bytes)
{
    attune_kernel_resources found = {.threads = 77};
    attune_backend_cuda.resources(device, kernel, &found);
    expect_callers_context();
    assert_int_equal(found.threads, 77);
    assert_int_equal(found.fast_memory, fast_memory);
    assert_int_equal(found.registers, registers);
    assert_int_equal(found.spill_bytes, spill_bytes);
}

static void resources_are_what_the_driver_says(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    void *kernel = NULL;
    cuda->machine.static_memory = 16;
    cuda->machine.registers = 168;
    cuda->machine.slow_memory = 24;
    assert_int_equal(attune_backend_cuda.load(device, &row_plain, &kernel), ATTUNE_OK);
    expect_resources(device, kernel, 100016, 168, 24);
    /* what the driver does not say, nobody does */
    fake_fault *const query = &cuda->faults[FAKE_cuFuncGetAttribute];
    *query = (fake_fault){1, 1};
    expect_resources(device, kernel, -1, 168, 24);
    *query = (fake_fault){2, 1};
    expect_resources(device, kernel, 100016, -1, 24);
    *query = (fake_fault){3, 1};
    expect_resources(device, kernel, 100016, 168, -1);
    cuda->faults[FAKE_cuCtxPushCurrent_v2] = (fake_fault){1, 709};
    expect_resources(device, kernel, -1, -1, -1);
    close_device(device);
}

/* ---- the run-time compiler ---- */

static void without_a_compiler_the_row_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"libnone.so.13", "libnone.so.12", NULL};
    gpu_device *const device = open_device();
    use_compilers(device, none);
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_detail("kernel plain cannot be compiled: this library holds no code of it for sm_90, "
                  "and there is no run-time compiler (libnone.so.13 or an older one)");
    close_device(device);
}

static void without_code_and_compiler_there_is_no_device(void **state)
{
    (void)state;
    static const char *const none[] = {"libnone.so.13", NULL};
    static const gpu_image no_images[] = {{NULL, NULL, NULL}};
    gpu_device *const device = open_device();
    attune_device_caps caps;
    use_compilers(device, none);
    gpu_vendor vendor = *device->vendor;
    vendor.images = no_images;
    gpu_caps(&vendor, 0, &caps);
    assert_string_equal(
        caps.info.reason,
        "this library holds no kernels compiled for it, and there is no run-time compiler "
        "(libnone.so.13 or an older one)");
    vendor.images = images;
    gpu_caps(&vendor, 0, &caps);
    assert_string_equal(caps.info.reason, "");
    close_device(device);
}

/* As on a machine that has several toolkits. */
static void a_compiler_that_is_too_old_is_passed_over(void **state)
{
    (void)state;
    static const char *const old_only[] = {"libnvrtc-old.so", NULL};
    static const char *const two[] = {"libnvrtc-old.so", "libnvrtc.so.13", NULL};
    gpu_device *device = open_device();
    use_compilers(device, old_only);
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_detail("libnvrtc-old.so is too old or broken: it has no nvrtcVersion");
    close_device(device);

    device = open_device();
    use_compilers(device, two);
    assert_int_equal(load(device, &row_plain), ATTUNE_OK);
    close_device(device);
}

static void an_error_of_the_compiler_is_told(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(load(device, &row_broken), ATTUNE_BUILD_FAILED);
        expect_detail("kernel broken cannot be compiled: the run-time compiler says "
                      "NVRTC_ERROR_COMPILATION: kernel.cu(3): error: refused");
        assert_null(strstr(attune_error_detail(), "warning"));
    }
    assert_int_equal(nvrtc->compilations, 1);
    assert_int_equal(load(device, &row_plain), ATTUNE_OK);
    close_device(device);
}

static void a_program_that_cannot_be_made_is_told(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    nvrtc->create_code = 1;
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_detail("the run-time compiler says NVRTC_ERROR_OF_ANOTHER_KIND");
    close_device(device);
}

static void options_keep_the_bits(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    assert_int_equal(load(device, &row_plain), ATTUNE_OK);
    expect_option("--gpu-architecture=sm_90");
    expect_option("--fmad=false");
    assert_int_equal(cuda->calls[FAKE_cuModuleLoadDataEx], 1);
    close_device(device);
}

/* A GPU that the compiler does not know yet gets PTX of the newest that it does. */
static void a_compiler_older_than_the_device_gives_ptx(void **state)
{
    (void)state;
    static const struct {
        int capability;
        const char *option;
    } cases[] = {
        {121, "--gpu-architecture=compute_100"},
        {89, "--gpu-architecture=compute_86"},
        {75, "--gpu-architecture=sm_75"},
    };
    for (int i = 0; i < 3; i++) {
        cuda->machine.capability = cases[i].capability;
        gpu_device *const device = open_device();
        assert_int_equal(load(device, &row_plain), ATTUNE_OK);
        expect_option(cases[i].option);
        close_device(device);
    }
}

/* CUDA 13 compiles for nothing older than 7.5, say. */
static void a_compiler_without_the_device_says_so(void **state)
{
    (void)state;
    nvrtc->architectures[0] = 80;
    cuda->machine.capability = 75;
    gpu_device *const device = open_device();
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_option("--gpu-architecture=sm_75");
    expect_detail("the run-time compiler says ");
    close_device(device);
}

static void a_row_without_a_text_is_refused(void **state)
{
    (void)state;
    static const attune_kernel_row row = {.id = "bare", .threads = 1, .requires_features = ""};
    gpu_device *const device = open_device();
    assert_int_equal(load(device, &row), ATTUNE_BUILD_FAILED);
    expect_detail(
        "kernel bare cannot be compiled: this library holds neither its code nor its text");
    close_device(device);
}

/* ---- functions as built ---- */

static void too_few_threads_as_built_cost_the_row(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    cuda->machine.max_threads = 127;
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_detail("kernel plain needs blocks of 128 threads, and as built it runs in 127 at most");
    assert_int_equal(load(device, &row_packed), ATTUNE_OK);
    close_device(device);
}

static void too_much_memory_as_built_costs_the_row(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    cuda->machine.static_memory = (227 << 10) - 99999;
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_detail("kernel plain needs 232449 bytes of shared memory as built, "
                  "and the device has 232448");
    assert_int_equal(load(device, &row_packed), ATTUNE_OK);
    close_device(device);
}

/* Some of the device's shared memory may be the driver's own. */
static void shared_memory_that_is_not_given_costs_the_row(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    cuda->machine.fast_memory = 99999;
    assert_int_equal(load(device, &row_plain), ATTUNE_BUILD_FAILED);
    expect_detail("kernel plain: asking for its shared memory returned FAKE_ERROR_1 (1, ");
    assert_int_equal(load(device, &row_packed), ATTUNE_OK);
    close_device(device);
}

static void shared_memory_is_asked_for_and_used(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_int_equal(cuda->launches[0].shared, row_plain.fast_memory);
    close_device(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH_TEST(code_that_was_built_in_is_used_first),
        FRESH_TEST(an_unfit_image_is_compiled_here),
        FRESH_TEST(an_image_may_turn_out_unfit_late),
        FRESH_TEST(unfit_machine_code_leaves_ptx),
        FRESH_TEST(where_nothing_fits_the_row_is_refused),
        FRESH_TEST(trouble_of_the_device_may_pass),
        FRESH_TEST(resources_are_what_the_driver_says),
        FRESH_TEST(without_a_compiler_the_row_is_refused),
        FRESH_TEST(without_code_and_compiler_there_is_no_device),
        FRESH_TEST(a_compiler_that_is_too_old_is_passed_over),
        FRESH_TEST(an_error_of_the_compiler_is_told),
        FRESH_TEST(a_program_that_cannot_be_made_is_told),
        FRESH_TEST(options_keep_the_bits),
        FRESH_TEST(a_compiler_older_than_the_device_gives_ptx),
        FRESH_TEST(a_compiler_without_the_device_says_so),
        FRESH_TEST(a_row_without_a_text_is_refused),
        FRESH_TEST(too_few_threads_as_built_cost_the_row),
        FRESH_TEST(too_much_memory_as_built_costs_the_row),
        FRESH_TEST(shared_memory_that_is_not_given_costs_the_row),
        FRESH_TEST(shared_memory_is_asked_for_and_used),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
