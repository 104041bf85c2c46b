#include "fixture.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

fake_cuda_state *cuda;
fake_nvrtc_state *nvrtc;

const attune_kernel_row row_plain = {
    .id = "plain",
    .threads = 128,
    .fast_memory = 100000,
    .requires_features = "",
    .constants = "THREADS 128\n",
    .body = "void plain() {}\n",
};
const attune_kernel_row row_packed = {
    .id = "packed",
    .threads = 64,
    .panel = 16,
    .fast_memory = 1000,
    .requires_features = "",
    .constants = "THREADS 64\n",
    .body = "void packed_pack() {}\nvoid packed() {}\n",
};
const attune_kernel_row row_broken = {
    .id = "broken",
    .threads = 1,
    .requires_features = "",
    .constants = "#error refused on purpose\n",
    .body = "",
};

static fake_context callers;

int find_fakes(void **state)
{
    (void)state;
    char reason[256];
    if (attune_backend_cuda.count(reason) == 0) return -1;
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW), *const compiler =
                                                               dlopen("libnvrtc.so.13", RTLD_NOW);
    cuda = driver != NULL ? dlsym(driver, "fake_cuda") : NULL;
    nvrtc = compiler != NULL ? dlsym(compiler, "fake_nvrtc") : NULL;
    return cuda != NULL && nvrtc != NULL ? 0 : -1;
}

int start_fresh(void **state)
{
    (void)state;
    cuda->reset();
    nvrtc->reset();
    memset(&cuda->live, 0, sizeof cuda->live);
    nvrtc->live = 0;
    *cuda->stack() = (fake_stack){.depth = 1, .contexts = {&callers}};
    return setenv("ATTUNE_CACHE", "off", 1);
}

void expect_callers_context(void)
{
    assert_int_equal(cuda->stack()->depth, 1);
    assert_ptr_equal(cuda->stack()->contexts[0], &callers);
}

int expect_nothing_left(void **state)
{
    (void)state;
    expect_callers_context();
    assert_int_equal(cuda->live.contexts, 0);
    assert_int_equal(cuda->live.modules, 0);
    assert_int_equal(cuda->live.allocations, 0);
    assert_int_equal(cuda->live.events, 0);
    assert_int_equal(nvrtc->live, 0);
    return 0;
}

/* ---- a device ---- */

gpu_device *open_device(void)
{
    const attune_context_options options = {.struct_size = sizeof options};
    void *device = NULL;
    assert_int_equal(attune_backend_cuda.open(0, &options, &device), ATTUNE_OK);
    return device;
}

void close_device(gpu_device *device)
{
    attune_backend_cuda.close(device);
    expect_callers_context();
}

static gpu_vendor changed;

void use_images(gpu_device *device, const gpu_image *images)
{
    changed = *device->vendor;
    changed.images = images;
    device->vendor = &changed;
}

void use_compilers(gpu_device *device, const char *const *libraries)
{
    changed = *device->vendor;
    changed.compiler_libraries = libraries;
    changed.compiler->opened = false;
    device->vendor = &changed;
}

void expect_detail(const char *word)
{
    const char *const detail = attune_error_detail();
    if (strstr(detail, word) == NULL || strchr(detail, '\n') != NULL)
        fail_msg("\"%s\" does not say \"%s\" in one sentence", detail, word);
}
