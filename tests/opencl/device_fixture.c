#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device_fixture.h"

const attune_backend *const backend = &attune_backend_opencl;

int device_count(void)
{
    char reason[256];
    return backend->count(reason);
}

void write_floats(const fixture *on, void *handle, const float values[ROOM])
{
    const attune_buffer place = {.handle = handle};
    assert_int_equal(backend->write(on->device, place, values, ROOM * sizeof(float), NULL),
                     ATTUNE_OK);
}

void read_floats(const fixture *on, void *handle, float values[ROOM])
{
    const attune_buffer place = {.handle = handle};
    assert_int_equal(backend->read(on->device, place, values, ROOM * sizeof(float), NULL),
                     ATTUNE_OK);
}

void fixture_open(fixture *on, int index, const attune_context_options *options,
                  const attune_kernel_row *row)
{
    *on = (fixture){0};
    float hundreds[ROOM], zeros[ROOM] = {0};
    for (int i = 0; i < ROOM; i++) hundreds[i] = 100.0f * (float)i;
    assert_int_equal(backend->open(index, options, &on->device), ATTUNE_OK);
    assert_int_equal(backend->load(on->device, row, &on->kernel), ATTUNE_OK);
    void **const handles[] = {&on->q, &on->o, &on->lse, &on->workspace};
    for (int i = 0; i < 4; i++)
        assert_int_equal(backend->alloc(on->device, ROOM * sizeof(float), handles[i]), ATTUNE_OK);
    write_floats(on, on->q, hundreds);
    write_floats(on, on->o, zeros);
    write_floats(on, on->lse, zeros);
    on->launch = (attune_launch){.q = on->q, .k = on->q, .v = on->q, .o = on->o, .groups = GROUPS};
    if (row->panel != 0) {
        on->launch.workspace = on->workspace;
        on->launch.pack_groups = GROUPS;
    }
}

void fixture_close(fixture *on)
{
    void *const handles[] = {on->q, on->o, on->lse, on->workspace};
    for (int i = 0; i < 4; i++) backend->free(on->device, handles[i]);
    backend->unload(on->device, on->kernel);
    backend->close(on->device);
}

attune_status fixture_launch(const fixture *on, attune_stream stream)
{
    attune_launch launch = on->launch;
    launch.args = &on->args;
    return backend->launch(on->device, on->kernel, &launch, stream);
}

void check_output(const fixture *on, int first, int times, int threads)
{
    float o[ROOM];
    read_floats(on, on->o, o);
    for (int i = 0; i < ROOM; i++) {
        const int group = i - first;
        const int inside = group >= 0 && group < GROUPS;
        assert_int_equal((int)o[i], inside ? times * (group * 100 + threads) : 0);
    }
}
