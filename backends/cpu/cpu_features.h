/* What this processor can do, asked of the processor that runs and never of the one that built. */
#ifndef ATTUNE_CPU_FEATURES_H
#define ATTUNE_CPU_FEATURES_H

#include "backend.h"

/* Fills device_class and features. A feature counts only where the operating system keeps its
 * registers. */
void cpu_features(attune_device_caps *caps);

/* The processor's name as the operating system gives it. */
void cpu_name(char *name, size_t size);

#endif
