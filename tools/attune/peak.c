#include "peak.h"

#include <pthread.h>
#include <time.h>

#include "fail.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include <stdlib.h>

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

typedef struct worker {
    pthread_t thread;
    peak_kind kind;
    double gflops;
    float sink;
} worker;

static void *measure(void *argument)
{
    enum { ROUNDS = 200000, TRIES = 5 };
    worker *const w = argument;
    for (int i = 0; i < TRIES; i++) {
        const double start = seconds_now();
        w->sink += w->kind.run(ROUNDS);
        const double gflops = 2e-9 * ROUNDS * CHAINS * w->kind.lanes / (seconds_now() - start);
        if (gflops > w->gflops) w->gflops = gflops;
    }
    return NULL;
}

double peak_fma_gflops(int threads)
{
    const peak_kind kind = peak_of_processor();
    if (!kind.run) return 0;
    worker *const workers = allocate((size_t)threads * sizeof *workers);
    int started = 0;
    double total = 0;
    for (; started < threads; started++) {
        workers[started] = (worker){.kind = kind};
        if (pthread_create(&workers[started].thread, NULL, measure, &workers[started]) != 0) break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        total += workers[i].gflops;
    }
    free(workers);
    return total;
}
