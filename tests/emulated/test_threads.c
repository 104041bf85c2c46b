/* Groups run on any number of threads, of OpenMP or of the caller. */
#include "fixture.h"
#include "kernels.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { GROUPS = 200, THREADS = 50 };

static void check_groups(const attune_context_options *options)
{
    emulated_run r = {.kernel = numbers_groups,
                      .threads = WORK_ITEMS,
                      .fast_memory = SHARED_FLOATS * sizeof(float),
                      .groups = GROUPS,
                      .options = options};
    if (run(&r) != ATTUNE_OK) fail_msg("%s", attune_error_detail());
    for (int i = 0; i < GROUPS; i++) assert_true(r.output[i] == (float)i);
}

static void own_threads(void **state)
{
    (void)state;
    attune_context_options options;
    attune_context_options_init(&options);
    for (options.threads = 0; options.threads <= THREADS; options.threads += 25)
        check_groups(&options);
}

typedef struct range_task {
    attune_range_body *body;
    void *user;
    int64_t first, last;
} range_task;

static void *run_range(void *task)
{
    const range_task *const range = task;
    range->body(range->first, range->last, range->user);
    return NULL;
}

/* More threads than a device has groups, all at once. */
static void on_new_threads(int64_t count, attune_range_body *body, void *user, void *pool)
{
    pthread_t threads[THREADS];
    range_task tasks[THREADS];
    ++*(int *)pool;
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (range_task){.body = body,
                                .user = user,
                                .first = count * i / THREADS,
                                .last = count * (i + 1) / THREADS};
        assert_int_equal(pthread_create(&threads[i], NULL, run_range, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void threads_of_the_caller(void **state)
{
    (void)state;
    int calls = 0;
    attune_context_options options;
    attune_context_options_init(&options);
    options.parallel_for = on_new_threads;
    options.pool = &calls;
    check_groups(&options);
    assert_int_equal(calls, 1);
}

/* The mappings that a process may have suffice for all devices. */
static void every_device_at_once(void **state)
{
    (void)state;
    const attune_backend *const backend = &attune_backend_emulated;
    attune_context_options options;
    attune_context_options_init(&options);
    options.threads = 64;
    char reason[256];
    void *devices[8];
    const int count = backend->count(reason);
    assert_in_range(count, 1, sizeof devices / sizeof *devices);
    for (int i = 0; i < count; i++)
        assert_int_equal(backend->open(i, &options, &devices[i]), ATTUNE_OK);
    for (int i = 0; i < count; i++) backend->close(devices[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_threads),
        cmocka_unit_test(threads_of_the_caller),
        cmocka_unit_test(every_device_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
