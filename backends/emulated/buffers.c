#include "buffers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, NAN_BYTE = 0xff };

/* What is freed goes when more than this has been freed after it. */
static const size_t most_freed_bytes = (size_t)64 << 20;
enum { MOST_BUFFERS = 256 };

void buffers_init(buffer_list *list)
{
    *list = (buffer_list){.at = NULL};
    pthread_rwlock_init(&list->lock, NULL);
}

static void release(const device_buffer *buffer)
{
    free(buffer->begin - BUFFER_GUARD);
}

void buffers_destroy(buffer_list *list)
{
    for (int i = 0; i < list->count; i++) release(&list->at[i]);
    free(list->at);
    pthread_rwlock_destroy(&list->lock);
}

/* With the lock held. */
static bool make_room(buffer_list *list)
{
    if (list->count < list->capacity) return true;
    const int capacity = 2 * list->capacity + 16;
    device_buffer *const more = realloc(list->at, (size_t)capacity * sizeof *more);
    if (more == NULL) return false;
    list->at = more;
    list->capacity = capacity;
    return true;
}

void *buffers_alloc(buffer_list *list, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    const size_t whole = (bytes + 2 * BUFFER_GUARD + ALIGNMENT - 1) / ALIGNMENT * (size_t)ALIGNMENT;
    char *const memory = aligned_alloc(ALIGNMENT, whole);
    if (memory == NULL) return NULL;

    pthread_rwlock_wrlock(&list->lock);
    const bool has_room = make_room(list);
    if (has_room)
        list->at[list->count++] = (device_buffer){.begin = memory + BUFFER_GUARD, .bytes = bytes};
    pthread_rwlock_unlock(&list->lock);
    if (!has_room) {
        free(memory);
        return NULL;
    }
    memset(memory, NAN_BYTE, whole);
    return memory + BUFFER_GUARD;
}

/* Lets the buffers go that were freed first, until few enough are left. They stand in the order in which they were made, which is near
 * enough. */
static void forget_oldest(buffer_list *list)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        const device_buffer buffer = list->at[i];
        const bool many =
            list->freed_bytes > most_freed_bytes || list->count - i + kept > MOST_BUFFERS;
        if (buffer.freed && many) {
            list->freed_bytes -= buffer.bytes;
            release(&buffer);
        } else {
            list->at[kept++] = buffer;
        }
    }
    list->count = kept;
}

void buffers_free(buffer_list *list, void *begin)
{
    pthread_rwlock_wrlock(&list->lock);
    for (int i = 0; i < list->count; i++) {
        device_buffer *const buffer = &list->at[i];
        if (buffer->begin != begin || buffer->freed) continue;
        buffer->freed = true;
        list->freed_bytes += buffer->bytes;
        memset(buffer->begin, NAN_BYTE, buffer->bytes);
        break;
    }
    forget_oldest(list);
    pthread_rwlock_unlock(&list->lock);
}

bool buffers_find(buffer_list *list, const void *address, device_buffer *found)
{
    const uintptr_t at = (uintptr_t)address;
    bool is_found = false;
    pthread_rwlock_rdlock(&list->lock);
    for (int i = list->count - 1; i >= 0 && !is_found; i--) {
        const device_buffer *const buffer = &list->at[i];
        is_found =
            at - (uintptr_t)(buffer->begin - BUFFER_GUARD) < buffer->bytes + 2 * BUFFER_GUARD;
        if (is_found) *found = *buffer;
    }
    pthread_rwlock_unlock(&list->lock);
    return is_found;
}
