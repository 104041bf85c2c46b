#include "group_pool.h"

#include <pthread.h>

enum { MOST_GROUPS = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_cond_t one_is_idle = PTHREAD_COND_INITIALIZER;
static group *idle[MOST_GROUPS]; /* all of them when nothing runs */
static int idle_count, group_count, devices;

/* One for each thread, as far as that goes; threads without one wait for it. */
static bool make_groups(int threads)
{
    const int wanted = threads < MOST_GROUPS ? threads : MOST_GROUPS;
    while (group_count < wanted && (idle[idle_count] = group_create()) != NULL) {
        idle_count++;
        group_count++;
    }
    return group_count >= wanted;
}

static void destroy_groups(void)
{
    while (idle_count > 0) group_destroy(idle[--idle_count]);
    group_count = 0;
}

bool group_pool_open(int threads)
{
    pthread_mutex_lock(&lock);
    const bool made = make_groups(threads);
    if (made)
        devices++;
    else if (devices == 0)
        destroy_groups();
    pthread_mutex_unlock(&lock);
    return made;
}

void group_pool_close(void)
{
    pthread_mutex_lock(&lock);
    if (--devices == 0) destroy_groups();
    pthread_mutex_unlock(&lock);
}

group *group_pool_take(void)
{
    pthread_mutex_lock(&lock);
    while (idle_count == 0) pthread_cond_wait(&one_is_idle, &lock);
    group *const g = idle[--idle_count];
    pthread_mutex_unlock(&lock);
    return g;
}

void group_pool_give(group *g)
{
    pthread_mutex_lock(&lock);
    idle[idle_count++] = g;
    pthread_cond_signal(&one_is_idle);
    pthread_mutex_unlock(&lock);
}
