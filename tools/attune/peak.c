#define _GNU_SOURCE /* sched_getaffinity */
#include "peak.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* More chains than latency times units need; a loop over them that the compiler must unroll. */
enum { CHAINS = 12 };

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Defines a function that runs `rounds` times CHAINS independent vector FMAs and returns a number that depends on all of them. */
#define DEFINE_CHAINS(name, attributes, vec, SET, FMA, FIRST)                                      \
    attributes static float name(long rounds)                                                      \
    {                                                                                              \
        const vec x = SET(0.999f), y = SET(0.001f);                                                \
        vec a0 = SET(0), a1 = SET(1), a2 = SET(2), a3 = SET(3), a4 = SET(4), a5 = SET(5);          \
        vec b0 = SET(6), b1 = SET(7), b2 = SET(8), b3 = SET(9), b4 = SET(10), b5 = SET(11);        \
        for (long i = 0; i < rounds; i++) {                                                        \
            a0 = FMA(a0, x, y), a1 = FMA(a1, x, y), a2 = FMA(a2, x, y);                            \
            a3 = FMA(a3, x, y), a4 = FMA(a4, x, y), a5 = FMA(a5, x, y);                            \
            b0 = FMA(b0, x, y), b1 = FMA(b1, x, y), b2 = FMA(b2, x, y);                            \
            b3 = FMA(b3, x, y), b4 = FMA(b4, x, y), b5 = FMA(b5, x, y);                            \
        }                                                                                          \
        const vec a = FMA(FMA(a0, a1, a2), FMA(a3, a4, a5), x),                                    \
                  b = FMA(FMA(b0, b1, b2), FMA(b3, b4, b5), y);                                    \
        return FIRST(FMA(a, b, x));                                                                \
    }

typedef struct peak_kind {
    float (*run)(long rounds);
    int lanes;
} peak_kind;

#if defined(__x86_64__)
DEFINE_CHAINS(chains_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps,
              _mm512_fmadd_ps, _mm512_cvtss_f32)
DEFINE_CHAINS(chains_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps,
              _mm256_fmadd_ps, _mm256_cvtss_f32)

static peak_kind peak_of_processor(void)
{
    if (__builtin_cpu_supports("avx512f")) return (peak_kind){chains_avx512, 16};
    if (__builtin_cpu_supports("fma")) return (peak_kind){chains_avx2, 8};
    return (peak_kind){NULL, 0};
}
#elif defined(__aarch64__)
#define NEON_FMA(a, b, c) vfmaq_f32(c, a, b)
#define NEON_FIRST(x) vgetq_lane_f32(x, 0)
DEFINE_CHAINS(chains_neon, , float32x4_t, vdupq_n_f32, NEON_FMA, NEON_FIRST)

static peak_kind peak_of_processor(void)
{
    return (peak_kind){chains_neon, 4};
}
#else
static peak_kind peak_of_processor(void)
{
    return (peak_kind){NULL, 0};
}
#endif

int usable_processors(void)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return online > 0 ? (int)online : 1;
}

/* Threads that start together, so that those that share a core or a clock slow each other down as they do in earnest. */
enum { ROUNDS = 2000000, TRIES = 6 };

typedef struct worker {
    pthread_t thread;
    peak_kind kind;
    pthread_barrier_t *together;
    double start[TRIES], end[TRIES];
    volatile float sink; /* the sums must be computed */
} worker;

static void *work(void *argument)
{
    worker *const w = argument;
    for (int i = 0; i < TRIES; i++) {
        pthread_barrier_wait(w->together);
        w->start[i] = seconds_now();
        w->sink = w->kind.run(ROUNDS);
        w->end[i] = seconds_now();
    }
    return NULL;
}

double peak_fma_gflops(int threads)
{
    const peak_kind kind = peak_of_processor();
    if (!kind.run || threads == 0) return 0;
    worker *const workers = allocate((size_t)threads * sizeof *workers);
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){.kind = kind, .together = &together};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(fail(EXIT_FAILED, "the system starts no more than %d threads", i));
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    double least = INFINITY;
    for (int t = 0; t < TRIES; t++) {
        double start = INFINITY, end = 0;
        for (int i = 0; i < threads; i++) {
            start = fmin(start, workers[i].start[t]);
            end = fmax(end, workers[i].end[t]);
        }
        least = fmin(least, end - start);
    }
    pthread_barrier_destroy(&together);
    free(workers);
    return 2e-9 * ROUNDS * CHAINS * kind.lanes * threads / least;
}
