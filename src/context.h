/* An opened device with what was read from the environment when it was opened. */
#ifndef ATTUNE_CONTEXT_H
#define ATTUNE_CONTEXT_H

#include "plan_cache.h"
#include "registry.h"
#include "tuning/lookup.h"

#include <stdbool.h>

struct attune_context {
    const attune_backend *backend;
    const attune_device_caps *caps; /* lasts as long as the process */
    void *device;                   /* the backend's */
    int threads;                    /* of a processor, as the caller asked; 0: its default */
    bool verbose;                   /* $ATTUNE_VERBOSE: see log.h */
    char *kernel_glob;              /* $ATTUNE_KERNEL; NULL: any kernel */
    tuning_lookup tuning;           /* $ATTUNE_DB, or the caller's database */
    plan_cache plans;
};

#endif
