/* Helpers of the cmocka programs of this folder: small inputs, a run that must succeed, and bounds by row. */
#ifndef ATTUNE_TESTS_PROBE_H
#define ATTUNE_TESTS_PROBE_H

#include "device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FOR_EACH_DTYPE(dtype)                                                                      \
    for (attune_dtype dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype = (attune_dtype)(dtype + 1))

/* Inputs for a problem string without op, dtype and lse: eighths between -2 and 2, which every dtype holds and whose sums are exact. */
inputs inputs_of(const char *text, attune_dtype dtype);
void fill_tensor(inputs *in, tensor_name name, uint64_t seed);
float eighths(uint64_t *state);

/* A run on the device under test, with the options of the command line, or on cpu; anything but success fails the test. */
outputs run(const inputs *in);
outputs run_on_cpu(const inputs *in);

float o_at(const outputs *out, int64_t b, int64_t s, int64_t h, int64_t d);

attune_reference *reference_of(const inputs *in);
/* Bounds of (batch 0, row s, head 0). */
double bound_o(const outputs *out, const attune_reference *r, int64_t s, int64_t d);
double bound_lse(const outputs *out, const attune_reference *r, int64_t s);

void assert_near(double a, double b, double bound, const char *what, int64_t s, int64_t d);
/* The verdict of the judge is not FAIL. */
void assert_judged(const inputs *in, const outputs *out);
void assert_same_bits(const outputs *a, const outputs *b);

/* Runs the tests on every device that the options name; a missing one is SKIPPED, and an error if it is required. Returns the exit status. */
typedef int group_runner(const char *name);
int run_on_devices(int argc, char **argv, const char *about, group_runner *group);

#endif
