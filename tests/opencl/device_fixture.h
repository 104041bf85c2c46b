/* A real device with a kernel of rows.h and its buffers, for white-box tests below the public API. */
#ifndef ATTUNE_TESTS_OPENCL_DEVICE_FIXTURE_H
#define ATTUNE_TESTS_OPENCL_DEVICE_FIXTURE_H

#include "opencl_device.h"
#include "rows.h"

enum { GROUPS = 23, ROOM = 32 };

/* Buffers of ROOM floats: q holds 0, 100, 200 …, o and lse zeros. */
typedef struct fixture {
    void *device, *kernel;
    void *q, *o, *lse, *workspace;
    attune_forward_args args;
    attune_launch launch; /* of GROUPS groups, without lse */
} fixture;

extern const attune_backend *const backend;

int device_count(void);

/* Any failure fails the test. */
void fixture_open(fixture *on, int index, const attune_context_options *options,
                  const attune_kernel_row *row);
void fixture_close(fixture *on);

/* fixture.launch with fixture.args. */
attune_status fixture_launch(const fixture *on, attune_stream stream);

void write_floats(const fixture *on, void *handle, const float values[ROOM]);
void read_floats(const fixture *on, void *handle, float values[ROOM]);

/* o[first + g] must be the sum of `times` launches, each g · 100 + threads, and 0 elsewhere. */
void check_output(const fixture *on, int first, int times, int threads);

#endif
