#include "statistics.h"

#include <stdlib.h>
#include <time.h>

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

quartiles quartiles_of(double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, ascending);
    return (quartiles){.least = times[0],
                       .lower = times[count / 4],
                       .median = times[count / 2],
                       .upper = times[count * 3 / 4]};
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
