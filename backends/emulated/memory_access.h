/* What a work-item may touch. */
#ifndef ATTUNE_EMULATED_MEMORY_ACCESS_H
#define ATTUNE_EMULATED_MEMORY_ACCESS_H

#include "group.h"

/* An access that the compiler announces, before it happens: to shared memory, to a buffer, to the arguments or to the work-item's own
 * stack. `alignment` is that which the device asks for; 1 is none. */
void memory_access(group *g, const void *address, size_t bytes, size_t alignment, bool is_write,
                   const void *where);

#endif
