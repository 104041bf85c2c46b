/* The groups that run at once, shared by all open devices: each needs two mappings for the stack of each work-item, and Linux lets a process
 * have 65,530. */
#ifndef ATTUNE_EMULATED_GROUP_POOL_H
#define ATTUNE_EMULATED_GROUP_POOL_H

#include "group.h"

#include <stdbool.h>

/* One more device is open, whose launches have that many threads; false without memory. */
bool group_pool_open(int threads);
/* The last to close destroys the groups. */
void group_pool_close(void);

/* Waits until one is idle. */
group *group_pool_take(void);
void group_pool_give(group *g);

#endif
