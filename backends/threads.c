#include "threads.h"

#if defined(_OPENMP)
#include <omp.h>

/* Ranges per thread: enough that uneven work (a causal mask, a busy core) evens out, few enough
 * that handing them out costs nothing. */
enum { RANGES_PER_THREAD = 32 };

void threads_parallel_for(int64_t count, attune_range_body *body, void *user, void *pool)
{
    const int threads = threads_count(*(const int32_t *)pool);
    const int64_t most = (int64_t)threads * RANGES_PER_THREAD, ranges = count < most ? count : most;
    const int64_t length = ranges == 0 ? 0 : count / ranges,
                  longer = ranges == 0 ? 0 : count % ranges;

#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < ranges; i++) {
        const int64_t first = i * length + (i < longer ? i : longer);
        body(first, first + length + (i < longer ? 1 : 0), user);
    }
}

int threads_count(int32_t wanted)
{
    return wanted > 0 ? wanted : omp_get_max_threads();
}

const char *threads_name(void)
{
    return "OpenMP";
}

#else

void threads_parallel_for(int64_t count, attune_range_body *body, void *user, void *pool)
{
    (void)pool;
    if (count > 0) body(0, count, user);
}

int threads_count(int32_t wanted)
{
    (void)wanted;
    return 1;
}

const char *threads_name(void)
{
    return "one thread, built without OpenMP";
}

#endif
