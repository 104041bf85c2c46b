/* Device memory: every buffer lies between guard zones, and what was freed stays there for a while, so that an access beside or after it is
 * known for what it is. */
#ifndef ATTUNE_EMULATED_BUFFERS_H
#define ATTUNE_EMULATED_BUFFERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { BUFFER_GUARD = 4096 }; /* bytes before and after a buffer */

typedef struct device_buffer {
    char *begin;
    size_t bytes;
    bool freed;
} device_buffer;

typedef struct buffer_list {
    pthread_rwlock_t lock;
    device_buffer *at;
    int count, capacity;
    size_t freed_bytes; /* that are still there */
} buffer_list;

void buffers_init(buffer_list *list);
void buffers_destroy(buffer_list *list);

/* NULL without memory. Fresh memory, and freed memory, is full of NaN. */
void *buffers_alloc(buffer_list *list, size_t bytes);
void buffers_free(buffer_list *list, void *begin);

/* The buffer that holds the address, or in whose guard zones it lies. */
bool buffers_find(buffer_list *list, const void *address, device_buffer *found);

#endif
