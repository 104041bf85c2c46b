/* Results do not depend on threads, and one context and one plan serve many of them at once. */
#include "fixture.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 20 };

static const char *const texts[] = {
    "op=forward,b=2,hq=6,hkv=3,sq=75,sk=133,d=40,dtype=f32,mask=causal,lse=1",
    "op=forward,b=1,hq=4,hkv=1,sq=130,sk=70,d=64,dtype=f16,lse=1",
    "op=forward,b=3,hq=2,hkv=2,sq=33,sk=257,d=100,dv=72,dtype=bf16,mask=causal-top-left,lse=1",
};

enum { TEXTS = sizeof texts / sizeof texts[0] };

/* Runs a problem in a context of its own with the given options. */
static fixture run_with(const char *text, const attune_context_options *options)
{
    const attune_problem problem = parse(text);
    attune_context *const context = open_cpu(options);
    fixture f = fixture_make(context, &problem);
    fixture_run(context, &f);
    attune_context_close(context);
    return f;
}

static void the_number_of_threads_changes_no_bit(void **user)
{
    (void)user;
    for (int i = 0; i < TEXTS; i++) {
        fixture expected = run_with(texts[i], NULL);
        attune_context *const context = open_cpu(NULL);
        fixture_judge(context, &expected);
        attune_context_close(context);

        const int32_t counts[] = {1, 2, 3, 7};
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            attune_context_options options;
            attune_context_options_init(&options);
            options.threads = counts[c];
            fixture f = run_with(texts[i], &options);
            assert_same_bits(&f, &expected);
            fixture_free(&f);
        }
        fixture_free(&expected);
    }
}

/* ---- a caller's own parallel_for ---- */

typedef struct custom_pool {
    int calls;
    int64_t length; /* of a range */
} custom_pool;

/* On the calling thread, last range first. */
static void backwards(int64_t count, attune_range_body *body, void *user, void *pool)
{
    custom_pool *const custom = pool;
    custom->calls++;
    for (int64_t last = count; last > 0; last -= custom->length)
        body(last > custom->length ? last - custom->length : 0, last, user);
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

/* On one new thread a range. */
static void on_new_threads(int64_t count, attune_range_body *body, void *user, void *pool)
{
    custom_pool *const custom = pool;
    pthread_t threads[THREADS];
    range_task tasks[THREADS];
    custom->calls++;
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (range_task){.body = body,
                                .user = user,
                                .first = count * i / THREADS,
                                .last = count * (i + 1) / THREADS};
        assert_int_equal(pthread_create(&threads[i], NULL, run_range, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void parallel_for_can_be_replaced(void **user)
{
    (void)user;
    attune_parallel_for *const functions[] = {backwards, on_new_threads};
    for (int i = 0; i < TEXTS; i++) {
        fixture expected = run_with(texts[i], NULL);
        for (size_t j = 0; j < sizeof functions / sizeof functions[0]; j++) {
            custom_pool pool = {.length = 3};
            attune_context_options options;
            attune_context_options_init(&options);
            options.parallel_for = functions[j];
            options.pool = &pool;
            fixture f = run_with(texts[i], &options);
            assert_true(pool.calls >= 1);
            assert_same_bits(&f, &expected);
            fixture_free(&f);
        }
        fixture_free(&expected);
    }
}

/* ---- many callers at once ---- */

/* cmocka's assertions belong to its own thread, so a caller counts what is wrong. */
typedef struct caller {
    attune_context *context;
    const attune_plan *plan; /* NULL: in one shot */
    fixture own;
    const fixture *expected;
    int wrong;
    char detail[256];
} caller;

static void *call(void *user)
{
    caller *const c = user;
    fixture *const f = &c->own;
    for (int round = 0; round < ROUNDS; round++) {
        fixture_poison(f);
        const attune_status status =
            c->plan != NULL ? attune_plan_run(c->plan, &f->tensors, NULL)
                            : attune_forward(c->context, &f->problem, &f->tensors, NULL);
        if (status != ATTUNE_OK) snprintf(c->detail, sizeof c->detail, "%s", attune_error_detail());
        c->wrong += status != ATTUNE_OK;
        c->wrong += memcmp(f->tensors.o.handle, c->expected->tensors.o.handle, f->o_bytes) != 0;
        c->wrong +=
            memcmp(f->tensors.lse.handle, c->expected->tensors.lse.handle, f->lse_bytes) != 0;
    }
    return NULL;
}

static void run_callers(caller callers[THREADS])
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (callers[i].wrong != 0)
            fail_msg("thread %d: %d wrong, %s", i, callers[i].wrong, callers[i].detail);
        fixture_free(&callers[i].own);
    }
}

static void one_plan_serves_eight_threads(void **user)
{
    (void)user;
    attune_context *const context = open_cpu(NULL);
    const attune_problem problem = parse(texts[0]);
    fixture expected = run_with(texts[0], NULL);
    attune_plan *plan;
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));

    caller callers[THREADS];
    for (int i = 0; i < THREADS; i++)
        callers[i] =
            (caller){.plan = plan, .own = fixture_make(context, &problem), .expected = &expected};
    run_callers(callers);

    attune_plan_destroy(plan);
    fixture_free(&expected);
    attune_context_close(context);
}

/* Nobody has made the plans before: the threads race for them. */
static void one_context_serves_eight_threads(void **user)
{
    (void)user;
    attune_context *const making = open_cpu(NULL), *const context = open_cpu(NULL);
    fixture expected[TEXTS];
    caller callers[THREADS];
    for (int i = 0; i < TEXTS; i++) expected[i] = run_with(texts[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        const attune_problem problem = parse(texts[i % TEXTS]);
        callers[i] = (caller){.context = context,
                              .own = fixture_make(making, &problem),
                              .expected = &expected[i % TEXTS]};
    }
    run_callers(callers);
    for (int i = 0; i < TEXTS; i++) fixture_free(&expected[i]);
    attune_context_close(making);
    attune_context_close(context);
}

/* More problems at once than the cache holds: plans are made, dropped and made again under
 * everybody's feet. Equal keys and values give that value. */
static void *run_many_problems(void *user)
{
    attune_context *const shared = user;
    float q[8] = {0}, k[40 * 8] = {0}, v[40 * 8], o[8];
    static _Thread_local float workspace[1 << 15];
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) v[i] = 1.0f;
    attune_forward_tensors tensors;
    attune_forward_tensors_init(&tensors);
    tensors.q.handle = q;
    tensors.k.handle = k;
    tensors.v.handle = v;
    tensors.o.handle = o;
    tensors.workspace.handle = workspace;
    for (int i = 0; i < 4 * ROUNDS; i++)
        for (int64_t seqlen_k = 1; seqlen_k <= 40; seqlen_k++)
            for (int64_t head_dim = 1; head_dim <= 8; head_dim += 7) {
                attune_problem problem;
                attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 1, seqlen_k, head_dim, head_dim);
                memset(o, 0xff, sizeof o);
                if (attune_forward(shared, &problem, &tensors, NULL) != ATTUNE_OK ||
                    !(fabsf(o[0] - 1.0f) < 1e-6f))
                    return "wrong";
            }
    return NULL;
}

static void the_cache_overflows_under_eight_threads(void **user)
{
    (void)user;
    attune_context_options options;
    attune_context_options_init(&options);
    options.threads = 1;
    attune_context *const context = open_cpu(&options);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many_problems, context), 0);
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        void *answer;
        pthread_join(threads[i], &answer);
        wrong += answer != NULL;
    }
    attune_context_close(context);
    assert_int_equal(wrong, 0);
}

/* ---- details belong to threads ---- */

static void *detail_after_failure(void *user)
{
    char *const detail = user;
    strcpy(detail, attune_error_detail());
    attune_problem_check(NULL);
    strcat(detail, "|");
    strcat(detail, attune_error_detail());
    return NULL;
}

static void each_thread_has_its_own_detail(void **user)
{
    (void)user;
    char detail[512];
    pthread_t thread;
    assert_fails(attune_problem_parse("op=backward", &(attune_problem){.op = 0}),
                 ATTUNE_INVALID_ARGUMENT, "op=backward");
    assert_int_equal(pthread_create(&thread, NULL, detail_after_failure, detail), 0);
    pthread_join(thread, NULL);
    assert_int_equal(detail[0], '|');
    assert_contains(detail, "problem is NULL");
    assert_contains(attune_error_detail(), "op=backward");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(parallel_for_can_be_replaced),
        cmocka_unit_test(one_plan_serves_eight_threads),
        cmocka_unit_test(one_context_serves_eight_threads),
        cmocka_unit_test(the_cache_overflows_under_eight_threads),
        cmocka_unit_test(each_thread_has_its_own_detail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
