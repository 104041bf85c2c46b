/* What the API says to arguments that mean nothing. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tiny[] = "op=forward,b=1,hq=2,hkv=1,sq=5,sk=7,d=8,dtype=f32,lse=1";

typedef struct state {
    attune_context *context;
    attune_problem problem;
    attune_plan *plan;
    fixture f;
} state;

static int set_up(void **user)
{
    state *const s = calloc(1, sizeof *s);
    s->context = open_cpu(NULL);
    s->problem = parse(tiny);
    s->f = fixture_make(s->context, &s->problem);
    assert_ok(attune_plan_create(s->context, &s->problem, NULL, &s->plan));
    *user = s;
    return 0;
}

static int tear_down(void **user)
{
    state *const s = *user;
    attune_plan_destroy(s->plan);
    fixture_free(&s->f);
    attune_context_close(s->context);
    free(s);
    return 0;
}

static void every_status_has_a_name(void **user)
{
    (void)user;
    assert_string_equal(attune_status_name(ATTUNE_OK), "OK");
    assert_string_equal(attune_status_name(ATTUNE_INVALID_ARGUMENT), "INVALID_ARGUMENT");
    assert_string_equal(attune_status_name(ATTUNE_INTERNAL_ERROR), "INTERNAL_ERROR");
    assert_string_equal(attune_status_name((attune_status)99), "UNKNOWN");
    assert_string_equal(attune_version(), "0.1.0");
    assert_int_equal(attune_dtype_size((attune_dtype)3), 0);
    assert_null(attune_dtype_name((attune_dtype)3));
}

static void null_is_refused_by_name(void **user)
{
    state *const s = *user;
    attune_plan *plan;
    attune_problem problem;
    attune_device_info info;
    attune_arithmetic arithmetic;
    attune_buffer buffer;
    size_t bytes;
    double milliseconds;
    char byte = 0;
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;

    assert_fails(attune_problem_check(NULL), bad, "problem is NULL");
    assert_fails(attune_problem_parse(NULL, &problem), bad, "text is NULL");
    assert_fails(attune_problem_parse(tiny, NULL), bad, "problem is NULL");
    assert_fails(attune_context_open("cpu", NULL, NULL), bad, "context is NULL");
    assert_fails(attune_context_device(NULL, &info), bad, "context is NULL");
    assert_fails(attune_context_device(s->context, NULL), bad, "info is NULL");
    assert_fails(attune_device_get(0, NULL), bad, "info is NULL");
    assert_fails(attune_plan_create(NULL, &s->problem, NULL, &plan), bad, "context is NULL");
    assert_null(plan);
    assert_fails(attune_plan_create(s->context, NULL, NULL, &plan), bad, "problem is NULL");
    assert_fails(attune_plan_create(s->context, &s->problem, NULL, NULL), bad, "plan is NULL");
    assert_fails(attune_plan_run(NULL, &s->f.tensors, NULL), bad, "plan is NULL");
    assert_fails(attune_plan_run(s->plan, NULL, NULL), bad, "tensors is NULL");
    assert_fails(attune_plan_time(NULL, &s->f.tensors, NULL, &milliseconds), bad, "plan is NULL");
    assert_fails(attune_plan_time(s->plan, &s->f.tensors, NULL, NULL), bad, "milliseconds is NULL");
    assert_fails(attune_plan_arithmetic(NULL, &arithmetic), bad, "plan is NULL");
    assert_fails(attune_plan_arithmetic(s->plan, NULL), bad, "arithmetic is NULL");
    assert_fails(attune_forward(NULL, &s->problem, &s->f.tensors, NULL), bad, "context is NULL");
    assert_fails(attune_forward(s->context, NULL, &s->f.tensors, NULL), bad, "problem is NULL");
    assert_fails(attune_forward(s->context, &s->problem, NULL, NULL), bad, "tensors is NULL");
    assert_fails(attune_forward_workspace_size(NULL, &s->problem, &bytes), bad, "context is NULL");
    assert_fails(attune_forward_workspace_size(s->context, &s->problem, NULL), bad,
                 "bytes is NULL");
    assert_fails(attune_kernels_visit(NULL, NULL, NULL, NULL, NULL), bad, "context is NULL");
    assert_fails(attune_kernels_visit(s->context, NULL, NULL, NULL, NULL), bad, "visitor is NULL");
    assert_fails(attune_buffer_alloc(NULL, 1, &buffer), bad, "context is NULL");
    assert_fails(attune_buffer_alloc(s->context, 1, NULL), bad, "buffer is NULL");
    assert_fails(attune_buffer_write(NULL, s->f.tensors.q, &byte, 1, NULL), bad, "context is NULL");
    assert_fails(attune_buffer_write(s->context, s->f.tensors.q, NULL, 1, NULL), bad,
                 "from is NULL");
    assert_fails(attune_buffer_write(s->context, (attune_buffer){.handle = NULL}, &byte, 1, NULL),
                 bad, "handle is NULL");
    assert_fails(attune_buffer_read(NULL, s->f.tensors.q, &byte, 1, NULL), bad, "context is NULL");
    assert_fails(attune_buffer_read(s->context, s->f.tensors.q, NULL, 1, NULL), bad, "to is NULL");
    assert_fails(attune_buffer_read(s->context, (attune_buffer){.handle = NULL}, &byte, 1, NULL),
                 bad, "handle is NULL");
    assert_fails(attune_synchronize(NULL, NULL), bad, "context is NULL");

    assert_ok(attune_buffer_write(s->context, (attune_buffer){.handle = NULL}, NULL, 0, NULL));
    assert_ok(attune_buffer_read(s->context, (attune_buffer){.handle = NULL}, NULL, 0, NULL));
    attune_context_close(NULL);
    attune_plan_destroy(NULL);
    attune_buffer_free(s->context, NULL);
    attune_buffer_free(NULL, NULL);
    assert_int_equal(attune_plan_workspace_size(NULL), 0);
    assert_null(attune_plan_kernel(NULL));
}

/* Structs of other headers: shorter ones, longer ones with and without something in the unknown
 * part. */
static void struct_size_is_checked(void **user)
{
    state *const s = *user;
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;
    struct {
        attune_problem known;
        int64_t unknown;
    } longer = {.known = s->problem};
    longer.known.struct_size = sizeof longer;
    assert_ok(attune_problem_check(&longer.known));
    longer.unknown = 7;
    assert_fails(attune_problem_check(&longer.known), bad, "struct_size is");

    attune_problem shorter = s->problem;
    shorter.struct_size = sizeof shorter - 1;
    assert_fails(attune_problem_check(&shorter), bad, "attune_problem.struct_size is");
    shorter.struct_size = 0;
    assert_fails(attune_problem_check(&shorter), bad, "struct_size is 0");

    attune_forward_tensors tensors = s->f.tensors;
    tensors.struct_size = 8;
    assert_fails(attune_plan_run(s->plan, &tensors, NULL), bad,
                 "attune_forward_tensors.struct_size is 8");

    attune_plan_options plan_options;
    attune_plan_options_init(&plan_options);
    plan_options.struct_size = 0;
    attune_plan *plan;
    assert_fails(attune_plan_create(s->context, &s->problem, &plan_options, &plan), bad,
                 "attune_plan_options");

    attune_context_options context_options;
    attune_context_options_init(&context_options);
    context_options.struct_size = 1;
    attune_context *context;
    assert_fails(attune_context_open("cpu", &context_options, &context), bad,
                 "attune_context_options");
    assert_null(context);
    attune_context_options_init(&context_options);
    context_options.threads = -2;
    assert_fails(attune_context_open("cpu", &context_options, &context), bad, "threads is -2");
}

static void buffers_are_checked(void **user)
{
    state *const s = *user;
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;
    const struct {
        const char *name;
        size_t offset_in_tensors, misaligned;
    } buffers[] = {
        {"q", offsetof(attune_forward_tensors, q), 2},
        {"k", offsetof(attune_forward_tensors, k), 1},
        {"v", offsetof(attune_forward_tensors, v), 3},
        {"o", offsetof(attune_forward_tensors, o), 2},
        {"lse", offsetof(attune_forward_tensors, lse), 2},
        {"workspace", offsetof(attune_forward_tensors, workspace), 4},
    };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        attune_forward_tensors tensors = s->f.tensors;
        attune_buffer *const buffer =
            (attune_buffer *)((char *)&tensors + buffers[i].offset_in_tensors);
        void *const handle = buffer->handle;
        char part[64];

        buffer->handle = NULL;
        snprintf(part, sizeof part, "%s.handle is NULL", buffers[i].name);
        assert_fails(attune_plan_run(s->plan, &tensors, NULL), bad, part);

        buffer->handle = handle;
        buffer->offset = buffers[i].misaligned;
        snprintf(part, sizeof part, "%s.offset is %zu; a multiple of ", buffers[i].name,
                 buffers[i].misaligned);
        assert_fails(attune_plan_run(s->plan, &tensors, NULL), bad, part);

        buffer->offset = SIZE_MAX - 63;
        snprintf(part, sizeof part, "%s.offset is %zu; at most", buffers[i].name, buffer->offset);
        assert_fails(attune_plan_run(s->plan, &tensors, NULL), bad, part);
    }
    attune_forward_tensors in_place = s->f.tensors;
    in_place.o = in_place.q;
    assert_fails(attune_plan_run(s->plan, &in_place, NULL), bad, "o starts where q does");
}

static void cpu_has_no_streams(void **user)
{
    state *const s = *user;
    const attune_status bad = ATTUNE_INVALID_ARGUMENT;
    int stream;
    char byte = 0;
    assert_fails(attune_plan_run(s->plan, &s->f.tensors, &stream), bad, "NULL is accepted");
    assert_fails(attune_synchronize(s->context, &stream), bad, "NULL is accepted");
    assert_fails(attune_buffer_write(s->context, s->f.tensors.o, &byte, 1, &stream), bad,
                 "NULL is accepted");
    assert_fails(attune_buffer_read(s->context, s->f.tensors.o, &byte, 1, &stream), bad,
                 "NULL is accepted");
    assert_ok(attune_synchronize(s->context, NULL));
}

static void devices_are_found_by_name(void **user)
{
    (void)user;
    attune_context *context;
    attune_device_info info;
    const int count = attune_device_count();
    assert_true(count >= 1);
    assert_fails(attune_device_get(count, &info), ATTUNE_INVALID_ARGUMENT, "device index is");
    assert_fails(attune_device_get(-1, &info), ATTUNE_INVALID_ARGUMENT, "device index is -1");
    assert_ok(attune_device_get(0, &info));
    assert_string_equal(info.id, "cpu");
    assert_string_equal(info.reason, "");
    assert_true(info.compute_units >= 1 && info.global_memory > 0);

    const char *const names[] = {"cpu", "CPU", "cpu:", "Cpu:X86", NULL};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && strstr(names[i], "X86") != NULL &&
            strstr(info.platform, "x86") == NULL)
            continue;
        unsetenv("ATTUNE_DEVICE");
        assert_ok(attune_context_open(names[i], NULL, &context));
        attune_context_close(context);
    }
    setenv("ATTUNE_DEVICE", "cpu:no such part", 1);
    assert_fails(attune_context_open(NULL, NULL, &context), ATTUNE_NO_DEVICE,
                 "\"cpu:no such part\" matches no device; there is cpu");
    assert_ok(attune_context_open("cpu", NULL, &context));
    attune_context_close(context);
    setenv("ATTUNE_DEVICE", "", 1);
    assert_ok(attune_context_open(NULL, NULL, &context));
    attune_context_close(context);
    unsetenv("ATTUNE_DEVICE");

    assert_fails(attune_context_open("abacus:0", NULL, &context), ATTUNE_NO_DEVICE,
                 "no such backend; there are cpu");
    assert_null(context);
    assert_fails(attune_context_open("", NULL, &context), ATTUNE_NO_DEVICE, "no such backend");
}

static void too_much_memory_is_a_status(void **user)
{
    state *const s = *user;
    attune_buffer buffer;
    assert_fails(attune_buffer_alloc(s->context, SIZE_MAX, &buffer), ATTUNE_OUT_OF_MEMORY,
                 "no memory for");
    assert_null(buffer.handle);
    assert_fails(attune_buffer_alloc(s->context, SIZE_MAX / 2, &buffer), ATTUNE_OUT_OF_MEMORY,
                 "no memory for");
    assert_ok(attune_buffer_alloc(s->context, 0, &buffer));
    assert_non_null(buffer.handle);
    assert_int_equal((uintptr_t)buffer.handle % 64, 0);
    attune_buffer_free(s->context, &buffer);
    assert_null(buffer.handle);
    attune_buffer_free(s->context, &buffer);
}

typedef struct tally {
    int accepted, rejected, limit;
    char first[128], reason[256];
} tally;

static int count_kernel(const attune_kernel_info *kernel, void *user)
{
    tally *const t = user;
    if (t->accepted + t->rejected == 0) strncpy(t->first, kernel->id, sizeof t->first - 1);
    if (kernel->reason == NULL) {
        t->accepted++;
    } else {
        t->rejected++;
        strncpy(t->reason, kernel->reason, sizeof t->reason - 1);
    }
    return t->accepted + t->rejected == t->limit;
}

static void kernels_are_visited_best_first(void **user)
{
    state *const s = *user;
    tally all = {.limit = -1}, one = {.limit = 1}, judged = {.limit = -1};
    assert_ok(attune_kernels_visit(s->context, NULL, NULL, count_kernel, &all));
    assert_true(all.accepted > 0);
    assert_ok(attune_kernels_visit(s->context, &s->problem, NULL, count_kernel, &one));
    assert_int_equal(one.accepted + one.rejected, 1);
    assert_ok(attune_kernels_visit(s->context, &s->problem, NULL, count_kernel, &judged));
    assert_int_equal(judged.accepted + judged.rejected, all.accepted + all.rejected);
    assert_true(judged.rejected > 0);
    assert_string_equal(judged.first, attune_plan_kernel(s->plan));
    attune_problem invalid = s->problem;
    invalid.batch = -1;
    assert_fails(attune_kernels_visit(s->context, &invalid, NULL, count_kernel, &all),
                 ATTUNE_INVALID_ARGUMENT, "batch is -1");
}

static void a_kernel_can_be_pinned(void **user)
{
    state *const s = *user;
    attune_plan_options options;
    attune_plan *plan;
    attune_plan_options_init(&options);
    options.kernel = attune_plan_kernel(s->plan);
    assert_ok(attune_plan_create(s->context, &s->problem, &options, &plan));
    assert_string_equal(attune_plan_kernel(plan), options.kernel);
    attune_plan_destroy(plan);

    options.kernel = "no-such-*";
    assert_fails(attune_plan_create(s->context, &s->problem, &options, &plan), ATTUNE_UNSUPPORTED,
                 "is not matched by the pinned \"no-such-*\"");
    assert_null(plan);

    /* The environment is read when a context is opened; a plan's own glob goes before it. */
    setenv("ATTUNE_KERNEL", "no-such-*", 1);
    attune_context *const pinned = open_cpu(NULL);
    unsetenv("ATTUNE_KERNEL");
    assert_fails(attune_plan_create(pinned, &s->problem, NULL, &plan), ATTUNE_UNSUPPORTED,
                 "no-such-*");
    assert_fails(attune_forward(pinned, &s->problem, &s->f.tensors, NULL), ATTUNE_UNSUPPORTED,
                 "no-such-*");
    options.kernel = "*";
    assert_ok(attune_plan_create(pinned, &s->problem, &options, &plan));
    attune_plan_destroy(plan);
    attune_context_close(pinned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(null_is_refused_by_name),
        cmocka_unit_test(struct_size_is_checked),
        cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(cpu_has_no_streams),
        cmocka_unit_test(devices_are_found_by_name),
        cmocka_unit_test(too_much_memory_is_a_status),
        cmocka_unit_test(kernels_are_visited_best_first),
        cmocka_unit_test(a_kernel_can_be_pinned),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
