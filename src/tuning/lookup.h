/* What a context knows of measurements: read once, then only memory. */
#ifndef ATTUNE_LOOKUP_H
#define ATTUNE_LOOKUP_H

#include "../choose.h"
#include "attune/tuning.h"

#include <pthread.h>

typedef struct tuning_lookup {
    pthread_mutex_t lock;
    bool done; /* under the lock; what follows changes no more once it is set */
    char *path;
    char reason[512];
    measured_winner *winners;
    int count;
    attune_tuning_state state;
} tuning_lookup;

/* `path` as in attune_context_options. False without memory. */
bool tuning_lookup_init(tuning_lookup *lookup, const char *path);
void tuning_lookup_clear(tuning_lookup *lookup);

/* Reads the database at the first call. */
void tuning_lookup_read(attune_context *context);

#endif
