/* The library's own parallel_for, for backends that run kernels on the CPU. */
#ifndef ATTUNE_THREADS_H
#define ATTUNE_THREADS_H

#include "attune/device.h"

/* An attune_parallel_for over OpenMP's threads, or over the calling thread alone where the
 * library was built without OpenMP. `pool` points to an int32_t, the number of threads; 0 is
 * OpenMP's default. */
attune_parallel_for threads_parallel_for;

/* How many threads that is for a number `wanted`, 0 being the default. */
int threads_count(int32_t wanted);

/* What runs the threads, in words. Static. */
const char *threads_name(void);

#endif
