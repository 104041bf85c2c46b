#include "plan_cache.h"

#include "plan.h"

#include <string.h>

void plan_cache_init(plan_cache *cache)
{
    *cache = (plan_cache){.clock = 0};
    pthread_mutex_init(&cache->lock, NULL);
}

void plan_cache_clear(plan_cache *cache)
{
    for (int i = 0; i < PLAN_CACHE_CAPACITY; i++) attune_plan_destroy(cache->entries[i].plan);
    pthread_mutex_destroy(&cache->lock);
}

/* Normalised problems have no padding and one spelling, so equal ones have equal bytes. The lock
 * is held. */
static attune_plan *hold(plan_cache *cache, const attune_problem *normal)
{
    for (int i = 0; i < PLAN_CACHE_CAPACITY; i++) {
        struct plan_cache_entry *const entry = &cache->entries[i];
        if (entry->plan == NULL || memcmp(&entry->plan->problem, normal, sizeof *normal) != 0)
            continue;
        entry->users++;
        entry->last_use = ++cache->clock;
        return entry->plan;
    }
    return NULL;
}

attune_plan *plan_cache_acquire(plan_cache *cache, const attune_problem *normal)
{
    pthread_mutex_lock(&cache->lock);
    attune_plan *const plan = hold(cache, normal);
    pthread_mutex_unlock(&cache->lock);
    return plan;
}

/* The free entry, or the one whose plan nobody holds and nobody used for longest; NULL where all
 * are held. */
static struct plan_cache_entry *entry_to_fill(plan_cache *cache)
{
    struct plan_cache_entry *oldest = NULL;
    for (int i = 0; i < PLAN_CACHE_CAPACITY; i++) {
        struct plan_cache_entry *const entry = &cache->entries[i];
        if (entry->users == 0 && (oldest == NULL || entry->last_use < oldest->last_use))
            oldest = entry;
    }
    return oldest;
}

attune_plan *plan_cache_insert(plan_cache *cache, attune_plan *plan)
{
    attune_plan *surplus = plan;
    pthread_mutex_lock(&cache->lock);
    attune_plan *held = hold(cache, &plan->problem);
    if (held == NULL) {
        struct plan_cache_entry *const entry = entry_to_fill(cache);
        held = plan;
        surplus = NULL;
        if (entry != NULL) {
            surplus = entry->plan;
            *entry =
                (struct plan_cache_entry){.plan = plan, .users = 1, .last_use = ++cache->clock};
        }
    }
    pthread_mutex_unlock(&cache->lock);
    attune_plan_destroy(surplus);
    return held;
}

/* A plan that found no entry goes with its only use. */
void plan_cache_release(plan_cache *cache, attune_plan *plan)
{
    bool cached = false;
    pthread_mutex_lock(&cache->lock);
    for (int i = 0; i < PLAN_CACHE_CAPACITY; i++)
        if (cache->entries[i].plan == plan) {
            cache->entries[i].users--;
            cached = true;
        }
    pthread_mutex_unlock(&cache->lock);
    if (!cached) attune_plan_destroy(plan);
}
