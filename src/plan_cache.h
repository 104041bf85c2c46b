/* The plans that attune_forward made, by problem: bounded, the one not used for longest goes
 * first. Its lock is never held while a plan is made, run or destroyed. */
#ifndef ATTUNE_PLAN_CACHE_H
#define ATTUNE_PLAN_CACHE_H

#include "backend.h"

#include <pthread.h>

enum { PLAN_CACHE_CAPACITY = 64 };

typedef struct plan_cache {
    pthread_mutex_t lock;
    uint64_t clock; /* counts uses */
    struct plan_cache_entry {
        attune_plan *plan; /* NULL: free */
        int users;         /* calls that hold it now; it stays while there are any */
        uint64_t last_use;
    } entries[PLAN_CACHE_CAPACITY];
} plan_cache;

void plan_cache_init(plan_cache *cache);
/* Destroys the plans. Nobody may hold one. */
void plan_cache_clear(plan_cache *cache);

/* The plan of a normalised problem, held until plan_cache_release; NULL where there is none. */
attune_plan *plan_cache_acquire(plan_cache *cache, const attune_problem *normal);

/* Takes a plan over and holds the plan of its problem: this one, or the one that another thread
 * brought in meanwhile. */
attune_plan *plan_cache_insert(plan_cache *cache, attune_plan *plan);

void plan_cache_release(plan_cache *cache, attune_plan *plan);

#endif
