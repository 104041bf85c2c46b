/* The fake driver and the fake compiler as the backend has opened them, and a caller that has a context of its own. */
#ifndef ATTUNE_TESTS_CUDA_FIXTURE_H
#define ATTUNE_TESTS_CUDA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_cuda.h"
#include "fake_nvrtc.h"
#include "gpu.h"

extern fake_cuda_state *cuda;
extern fake_nvrtc_state *nvrtc;

/* Set-up of a group of tests. */
int find_fakes(void **state);
/* Set-up of a test: both fakes as they were at first, no disk cache, the caller's own context current. */
int start_fresh(void **state);
/* Tear-down of a test: nothing lives, and the caller's context is current. */
int expect_nothing_left(void **state);

#define FRESH_TEST(name) cmocka_unit_test_setup_teardown(name, start_fresh, expect_nothing_left)

/* Fails the test unless the caller's context, and nothing else of this thread, is current. */
void expect_callers_context(void);

/* Opens the first device; its vendor may be changed for tests of one device only. */
gpu_device *open_device(void);
void close_device(gpu_device *device);

/* The backend's vendor with other images, or other libraries of the compiler, for `device`. */
void use_images(gpu_device *device, const gpu_image *images);
void use_compilers(gpu_device *device, const char *const *libraries);

/* The last failure's sentence, which must hold `word`. */
void expect_detail(const char *word);

/* Kernels of the generated kernels' form; only the last is refused by the fake compiler. */
extern const attune_kernel_row row_plain, row_packed, row_broken;

#endif
