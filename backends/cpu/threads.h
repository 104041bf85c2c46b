/* The library's own parallel_for. */
#ifndef ATTUNE_CPU_THREADS_H
#define ATTUNE_CPU_THREADS_H

#include "attune/device.h"

/* An attune_parallel_for over OpenMP's threads, or over the calling thread alone where the
 * library was built without OpenMP. `pool` points to an int32_t, the number of threads; 0 is
 * OpenMP's default. */
attune_parallel_for cpu_parallel_for;

/* What runs the threads, in words. Static. */
const char *cpu_threads_name(void);

#endif
