/* What is HIP's alone of the backend: white box, with tests/hip/fake_hip.c as libamdhip64 and fake_hiprtc.c as libhiprtc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gpu/scratch.h"
#include "fake_hip.h"
#include "gpu.h"

static const attune_backend *const backend = &attune_backend_hip;
static fake_hip_state *hip;
static fake_hiprtc_state *hiprtc;

/* Kernels of the generated kernels' form; only the last is refused by the fake compiler. */
static const attune_kernel_row row_plain = {
    .id = "plain",
    .threads = 128,
    .fast_memory = 50000,
    .requires_features = "",
    .constants = "THREADS 128\n",
    .body = "void plain() {}\n",
};
static const attune_kernel_row row_broken = {
    .id = "broken",
    .threads = 64,
    .requires_features = "",
    .constants = "#error refused on purpose\n",
    .body = "",
};

static int find_fakes(void **state)
{
    (void)state;
    char reason[256];
    if (backend->count(reason) == 0) return -1;
    void *const runtime = dlopen("libamdhip64.so.7", RTLD_NOW), *const compiler = dlopen(
                                                                    "libhiprtc.so.7", RTLD_NOW);
    hip = runtime != NULL ? dlsym(runtime, "fake_hip") : NULL;
    hiprtc = compiler != NULL ? dlsym(compiler, "fake_hiprtc") : NULL;
    return hip != NULL && hiprtc != NULL ? 0 : -1;
}

enum { CALLERS = 0, OURS = 1 }; /* the caller's device, and the one that is opened */

static int start_fresh(void **state)
{
    (void)state;
    hip->reset();
    *hiprtc = (fake_hiprtc_state){.compilations = 0};
    *hip->current() = CALLERS;
    return setenv("ATTUNE_CACHE", "off", 1);
}

static int expect_nothing_left(void **state)
{
    (void)state;
    assert_int_equal(*hip->current(), CALLERS);
    assert_int_equal(hip->modules, 0);
    return 0;
}

#define FRESH_TEST(name) cmocka_unit_test_setup_teardown(name, start_fresh, expect_nothing_left)

static gpu_device *open_device(void)
{
    const attune_context_options options = {.struct_size = sizeof options};
    void *device = NULL;
    assert_int_equal(backend->open(OURS, &options, &device), ATTUNE_OK);
    assert_int_equal(*hip->current(), CALLERS);
    return device;
}

static void expect_detail(const char *word)
{
    if (strstr(attune_error_detail(), word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", attune_error_detail(), word);
}

/* ---- what a device is ---- */

static void caps_say_what_the_runtime_says(void **state)
{
    (void)state;
    attune_device_caps caps;
    backend->caps(1, &caps);
    assert_string_equal(caps.info.id, "hip:1");
    assert_string_equal(caps.info.backend, "hip");
    assert_string_equal(caps.info.platform, "HIP");
    assert_string_equal(caps.info.name, "Fake GPU 1");
    assert_string_equal(caps.info.driver, hip->version < 60000000 ? "HIP 5.2" : "HIP 6.3");
    assert_string_equal(caps.info.reason, "");
    assert_string_equal(caps.device_class, "gfx942");
    assert_string_equal(caps.family, "amd");
    assert_false(caps.untimed);
    assert_string_equal(caps.features, "mfma mfma_subnormals");
    assert_int_equal(caps.info.compute_units, 304);
    assert_int_equal(caps.info.global_memory, INT64_C(192) << 30);
    assert_int_equal(caps.max_threads, 1024);
    assert_int_equal(caps.fast_memory, 64 << 10);
    assert_int_equal(caps.warp, 64);
    assert_int_equal(caps.registers, 65536);
    assert_int_equal(caps.multiprocessor_threads, 2048);
    assert_int_equal(caps.multiprocessor_memory, 128 << 10);
    assert_int_equal(caps.l2_cache, 4 << 20);
    assert_int_equal(caps.clock_mhz, 2100);
}

static void an_architecture_is_class_and_features(void **state)
{
    (void)state;
    static const struct {
        const char *name, *device_class, *features;
    } cases[] = {
        {"gfx900:xnack-", "gfx900", ""},
        {"gfx908:sramecc+:xnack-", "gfx908", ""},
        {"gfx90a:sramecc+:xnack-", "gfx90a", "mfma"},
        {"gfx950:sramecc+:xnack-", "gfx950", "mfma mfma_subnormals"},
        {"gfx1030", "gfx1030", ""},
        {"gfx1100", "gfx1100", "wmma_rdna3"},
        {"gfx1151", "gfx1151", "wmma_rdna3"},
        {"gfx1201", "gfx1201", "wmma_rdna4"},
        {"gfx1250", "gfx1250", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attune_device_caps caps;
        snprintf(hip->architecture, sizeof hip->architecture, "%s", cases[i].name);
        backend->caps(0, &caps);
        assert_string_equal(caps.device_class, cases[i].device_class);
        assert_string_equal(caps.features, cases[i].features);
        assert_string_equal(caps.info.reason, "");
    }
}

/* A struct of another layout would give something like these. */
static void what_is_no_architecture_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",       "gfx",     "gfx9", "AMD Instinct",
        "gfx9Z0", "gfx942 ", ":gfx", "gfx90a90a90a90a90a90a90a90a90a90a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        attune_device_caps caps;
        snprintf(hip->architecture, sizeof hip->architecture, "%s", names[i]);
        backend->caps(0, &caps);
        assert_string_equal(caps.info.reason, "the driver does not tell its architecture");
    }
}

/* ---- the current device ---- */

static void work_is_done_on_the_opened_device(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = 1};
    gpu_device *const device = open_device();
    void *kernel = NULL, *buffer = NULL;
    double milliseconds = 0;
    float from[2] = {1, 2}, to[1] = {0};
#define EXPECT_HERE(call)                                                                          \
    do {                                                                                           \
        hip->work_device = CALLERS;                                                                \
        assert_int_equal((call), ATTUNE_OK);                                                       \
        assert_int_equal(hip->work_device, OURS);                                                  \
        assert_int_equal(*hip->current(), CALLERS);                                                \
    } while (0)
    EXPECT_HERE(backend->load(device, &row_plain, &kernel));
    EXPECT_HERE(backend->alloc(device, sizeof from, &buffer));
    const attune_buffer start = {.handle = buffer}, second = {.handle = buffer, .offset = 4};
    EXPECT_HERE(backend->write(device, start, from, sizeof from, NULL));
    EXPECT_HERE(backend->launch(device, kernel, &launch, NULL));
    EXPECT_HERE(backend->elapsed(device, kernel, &launch, NULL, &milliseconds));
    EXPECT_HERE(backend->sync(device, NULL));
    EXPECT_HERE(backend->read(device, second, to, sizeof to, NULL));
#undef EXPECT_HERE
    assert_true(to[0] == 2 && milliseconds == 2.5);
    assert_string_equal(hip->launches[0].kernel, "plain");
    assert_int_equal(hip->launches[0].block, 128);
    assert_int_equal(hip->launches[0].shared, 50000);
    hip->work_device = CALLERS;
    backend->free(device, buffer);
    assert_int_equal(hip->work_device, OURS);
    backend->close(device);
}

static void a_device_that_cannot_be_made_current_is_a_status(void **state)
{
    (void)state;
    const attune_context_options options = {.struct_size = sizeof options};
    void *device = NULL, *buffer = NULL;
    static const char *const functions[] = {"hipSetDevice", "hipGetDevice"};
    for (int i = 0; i < 2; i++) {
        hip->code = 101;
        strcpy(hip->failing, functions[i]);
        assert_int_equal(backend->open(OURS, &options, &device), ATTUNE_NO_DEVICE);
        expect_detail("hip:1 (Fake GPU 1) cannot be opened: FAKE_ERROR_101");
        hip->failing[0] = '\0';
        gpu_device *const opened = open_device();
        hip->code = 709;
        strcpy(hip->failing, functions[i]);
        assert_int_equal(backend->alloc(opened, 4, &buffer), ATTUNE_INVALID_ARGUMENT);
        expect_detail("FAKE_ERROR_709 (709, as the fake runtime puts it)");
        hip->failing[0] = '\0';
        backend->close(opened);
    }
}

static void a_native_context_is_refused(void **state)
{
    (void)state;
    int something;
    void *device = NULL;
    const attune_context_options options = {.struct_size = sizeof options,
                                            .native_context = &something};
    assert_int_equal(backend->open(OURS, &options, &device), ATTUNE_INVALID_ARGUMENT);
    expect_detail("native_context must be NULL: HIP has devices and no contexts");
    assert_null(device);
}

static void codes_are_statuses(void **state)
{
    (void)state;
    static const struct {
        int code;
        attune_status status;
    } cases[] = {{2, ATTUNE_OUT_OF_MEMORY},
                 {17, ATTUNE_INVALID_ARGUMENT},
                 {400, ATTUNE_INVALID_ARGUMENT},
                 {700, ATTUNE_DEVICE_ERROR},
                 {719, ATTUNE_DEVICE_ERROR}};
    gpu_device *const device = open_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hip->code = cases[i].code;
        strcpy(hip->failing, "hipStreamSynchronize");
        assert_int_equal(backend->sync(device, NULL), cases[i].status);
        assert_int_equal(*hip->current(), CALLERS);
    }
    hip->failing[0] = '\0';
    backend->close(device);
}

/* ---- launches ---- */

/* HIP counts the work-items of a grid in 32 bits. */
static void a_long_grid_is_cut(void **state)
{
    (void)state;
    const attune_forward_args args = {0};
    const attune_launch launch = {.args = &args, .groups = INT64_C(1) << 25};
    gpu_device *const device = open_device();
    void *kernel = NULL;
    int64_t first = 0;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    assert_int_equal(backend->launch(device, kernel, &launch, NULL), ATTUNE_OK);
    assert_true(hip->launch_count > FAKE_LAUNCHES);
    for (int i = 0; i < FAKE_LAUNCHES; i++) {
        assert_int_equal(hip->launches[i].first_group, first);
        assert_true((uint64_t)hip->launches[i].grid * 1024 <= UINT32_MAX);
        first += hip->launches[i].grid;
    }
    backend->close(device);
}

/* ---- code ---- */

static const gpu_image images[] = {
    {"plain", "gfx1100", FAKE_CODE_OBJECT "gfx1100\nplain("},
    {"plain", "gfx942", FAKE_CODE_OBJECT "gfx942\nplain("},
    {"other", "gfx90a", FAKE_CODE_OBJECT "gfx90a\nother("},
    {NULL, NULL, NULL},
};

static attune_status load(const char *architecture, const char *const *compilers)
{
    snprintf(hip->architecture, sizeof hip->architecture, "%s", architecture);
    gpu_device *const device = open_device();
    gpu_vendor changed = *device->vendor;
    void *kernel = NULL;
    changed.images = images;
    if (compilers != NULL) {
        changed.compiler_libraries = compilers;
        changed.compiler->opened = false;
    }
    device->vendor = &changed;
    const attune_status status = backend->load(device, &row_plain, &kernel);
    backend->close(device);
    return status;
}

static void code_of_the_device_s_own_architecture_is_used(void **state)
{
    (void)state;
    assert_int_equal(load("gfx1100", NULL), ATTUNE_OK);
    assert_int_equal(load("gfx942:sramecc+:xnack-", NULL), ATTUNE_OK);
    assert_int_equal(hiprtc->compilations, 0);
}

static void without_it_the_text_is_compiled_for_the_device(void **state)
{
    (void)state;
    static const char *const architectures[] = {"gfx90a", "gfx1101", "gfx9421"};
    for (int i = 0; i < 3; i++) {
        char options[128];
        assert_int_equal(load(architectures[i], NULL), ATTUNE_OK);
        assert_int_equal(hiprtc->compilations, i + 1);
        snprintf(options, sizeof options, " --offload-arch=%s -O3 -ffp-contract=off",
                 architectures[i]);
        assert_string_equal(hiprtc->options, options);
    }
}

/* What was compiled ahead of time names that compiler; else the one at run time is named. */
static void caps_say_what_compiles(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    gpu_vendor changed = *device->vendor;
    attune_device_caps caps;
    changed.images = images;
    changed.images_compiler = "clang version 1.2.3";
    gpu_caps(&changed, 0, &caps);
    assert_string_equal(caps.compiler, "clang version 1.2.3");
    hip->version = 70125424;
    strcpy(hip->architecture, "gfx1030");
    gpu_caps(&changed, 0, &caps);
    assert_string_equal(caps.compiler, "hipRTC 7.125424");
    backend->caps(0, &caps); /* nothing is compiled ahead of time for it */
    assert_string_equal(caps.compiler, "hipRTC 7.125424");
    backend->close(device);
}

static void resources_are_what_the_runtime_says(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    attune_kernel_resources found = {.threads = 77};
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_plain, &kernel), ATTUNE_OK);
    backend->resources(device, kernel, &found);
    assert_int_equal(found.threads, 77);
    assert_int_equal(found.fast_memory, 50000);
    assert_int_equal(found.registers, 96);
    assert_int_equal(found.spill_bytes, 40);
    assert_int_equal(hip->work_device, OURS);
    strcpy(hip->failing, "hipFuncGetAttribute");
    hip->code = 1;
    backend->resources(device, kernel, &found);
    assert_int_equal(found.fast_memory, -1);
    assert_int_equal(found.registers, -1);
    assert_int_equal(found.spill_bytes, -1);
    hip->failing[0] = '\0';
    backend->close(device);
}

static void without_a_compiler_too_there_is_a_reason(void **state)
{
    (void)state;
    static const char *const none[] = {"libnone.so.7", NULL};
    attune_device_caps caps;
    assert_int_equal(load("gfx90a", none), ATTUNE_BUILD_FAILED);
    expect_detail(
        "kernel plain cannot be compiled: this library holds no code of it for gfx90a, and "
        "there is no run-time compiler (libnone.so.7 or an older one)");

    gpu_device *const device = open_device();
    gpu_vendor changed = *device->vendor;
    changed.images = images;
    changed.compiler_libraries = none;
    changed.compiler->opened = false;
    gpu_caps(&changed, 0, &caps);
    assert_string_equal(caps.info.reason, "");
    strcpy(hip->architecture, "gfx1030");
    gpu_caps(&changed, 0, &caps);
    assert_string_equal(caps.info.reason,
                        "this library holds no kernels compiled for it, and there is "
                        "no run-time compiler (libnone.so.7 or an older one)");
    backend->close(device);
}

static void an_error_of_the_compiler_is_told(void **state)
{
    (void)state;
    gpu_device *const device = open_device();
    void *kernel = NULL;
    assert_int_equal(backend->load(device, &row_broken, &kernel), ATTUNE_BUILD_FAILED);
    expect_detail("kernel broken cannot be compiled: the run-time compiler says "
                  "HIPRTC_ERROR_COMPILATION: kernel.hip:3:2: error: refused");
    backend->close(device);
}

/* hiprtcVersion says 9.0 whatever it is. */
static void another_runtime_compiles_anew(void **state)
{
    (void)state;
    static const int versions[] = {60342131, 60342134, 70125424};
    assert_int_equal(make_scratch(state), 0);
    gpu_device *const device = open_device();
    for (int i = 0; i < 6; i++) {
        gpu_code code;
        gpu_compilation c;
        char reason[512];
        hip->version = versions[i / 2];
        assert_true(gpu_compilation_open(&c, device, &row_plain, reason));
        assert_true(gpu_compile(&c, true, &code, reason));
        gpu_code_keep(&c, &code);
        gpu_code_free(&code);
        gpu_compilation_close(&c);
        assert_int_equal(code.cached, i % 2 == 1);
    }
    backend->close(device);
    remove_scratch(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH_TEST(caps_say_what_the_runtime_says),
        FRESH_TEST(an_architecture_is_class_and_features),
        FRESH_TEST(what_is_no_architecture_is_refused),
        FRESH_TEST(work_is_done_on_the_opened_device),
        FRESH_TEST(a_device_that_cannot_be_made_current_is_a_status),
        FRESH_TEST(a_native_context_is_refused),
        FRESH_TEST(codes_are_statuses),
        FRESH_TEST(a_long_grid_is_cut),
        FRESH_TEST(code_of_the_device_s_own_architecture_is_used),
        FRESH_TEST(without_it_the_text_is_compiled_for_the_device),
        FRESH_TEST(an_error_of_the_compiler_is_told),
        FRESH_TEST(caps_say_what_compiles),
        FRESH_TEST(resources_are_what_the_runtime_says),
        FRESH_TEST(another_runtime_compiles_anew),
        FRESH_TEST(without_a_compiler_too_there_is_a_reason),
    };
    return cmocka_run_group_tests(tests, find_fakes, NULL);
}
