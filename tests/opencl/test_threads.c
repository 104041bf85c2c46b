/* One device and one kernel used by several threads at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "device_fixture.h"

enum { THREADS = 8, RUNS = 40 };

typedef struct worker {
    const fixture *on;
    void *o;
    int first;
    attune_status status;
} worker;

/* Threads share a device, a queue and a kernel; each has its own output and offset. */
static void *work(void *user)
{
    worker *const mine = user;
    attune_forward_args args = {.o.offset = mine->first};
    attune_launch launch = mine->on->launch;
    launch.args = &args;
    launch.o = mine->o;
    for (int run = 0; run < RUNS && mine->status == ATTUNE_OK; run++)
        mine->status = backend->launch(mine->on->device, mine->on->kernel, &launch, NULL);
    return NULL;
}

static void threads_share_a_kernel(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        worker workers[THREADS] = {0};
        pthread_t threads[THREADS];
        const float zeros[ROOM] = {0};
        fixture_open(&on, i, NULL, &row_plain);
        for (int t = 0; t < THREADS; t++) {
            workers[t] = (worker){.on = &on, .first = t};
            assert_int_equal(backend->alloc(on.device, sizeof zeros, &workers[t].o), ATTUNE_OK);
            write_floats(&on, workers[t].o, zeros);
        }
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        void *const own = on.o;
        for (int t = 0; t < THREADS; t++) {
            assert_int_equal(workers[t].status, ATTUNE_OK);
            on.o = workers[t].o;
            check_output(&on, t, RUNS, row_plain.threads);
            backend->free(on.device, workers[t].o);
        }
        on.o = own;
        fixture_close(&on);
    }
}

static void *load_in_thread(void *user)
{
    fixture *const on = user;
    void *kernel = NULL;
    return backend->load(on->device, &row_packed, &kernel) == ATTUNE_OK ? kernel : NULL;
}

static void threads_load_one_kernel_once(void **state)
{
    (void)state;
    for (int i = 0; i < device_count(); i++) {
        fixture on;
        pthread_t threads[THREADS];
        void *kernels[THREADS];
        fixture_open(&on, i, NULL, &row_plain);
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, load_in_thread, &on), 0);
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], &kernels[t]);
            assert_non_null(kernels[t]);
            assert_ptr_equal(kernels[t], kernels[0]);
        }
        fixture_close(&on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_kernel),
        cmocka_unit_test(threads_load_one_kernel_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
