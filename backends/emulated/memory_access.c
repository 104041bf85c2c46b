#include "memory_access.h"

#include <stdio.h>
#include <string.h>

static const char *verb(bool is_write)
{
    return is_write ? "writes" : "reads";
}

/* ---- buffers ---- */

static const char *buffer_name(const attune_launch *launch, const void *begin)
{
    return begin == launch->o           ? "o"
           : begin == launch->lse       ? "lse"
           : begin == launch->workspace ? "workspace"
           : begin == launch->q         ? "q"
           : begin == launch->k         ? "k"
           : begin == launch->v         ? "v"
                                        : "a buffer that is none of its arguments";
}

_Noreturn static void fail_buffer(group *g, const device_buffer *buffer, const char *address,
                                  size_t bytes, bool is_write, const void *where)
{
    finding found = {.first = where};
    if (buffer == NULL) {
        snprintf(found.head, sizeof found.head,
                 "work-item %d %s %zu bytes outside of every buffer at ", g->running->id,
                 verb(is_write), bytes);
    } else {
        const ptrdiff_t offset = address - buffer->begin;
        snprintf(found.head, sizeof found.head, "work-item %d %s bytes %td to %td of %s at ",
                 g->running->id, verb(is_write), offset, offset + (ptrdiff_t)bytes - 1,
                 buffer_name(g->launch, buffer->begin));
        if (buffer->freed)
            snprintf(found.middle, sizeof found.middle, ", which has been freed");
        else
            snprintf(found.middle, sizeof found.middle, ", which has %zu", buffer->bytes);
    }
    group_fail(g, &found);
}

static inline bool holds(const device_buffer *buffer, const char *address, size_t bytes)
{
    const size_t offset = (size_t)(uintptr_t)address - (size_t)(uintptr_t)buffer->begin;
    return offset < buffer->bytes && bytes <= buffer->bytes - offset;
}

static void buffer_access(group *g, const char *address, size_t bytes, bool is_write,
                          const void *where)
{
    enum { KNOWN = sizeof g->known / sizeof *g->known };
    for (int i = 0; i < KNOWN; i++)
        if (holds(&g->known[i], address, bytes)) return;

    device_buffer buffer;
    const bool is_near = buffers_find(g->buffers, address, &buffer);
    if (!is_near || buffer.freed || !holds(&buffer, address, bytes))
        fail_buffer(g, is_near ? &buffer : NULL, address, bytes, is_write, where);
    g->known[g->known_next] = buffer;
    g->known_next = (g->known_next + 1) % KNOWN;
}

/* ---- any access ---- */

_Noreturn static void fail_aligned(group *g, const void *address, size_t bytes, bool is_write,
                                   const void *where)
{
    finding found = {.first = where};
    snprintf(found.head, sizeof found.head, "work-item %d %s %zu bytes at ", g->running->id,
             verb(is_write), bytes);
    snprintf(found.middle, sizeof found.middle, " from address %p, which is not aligned to them",
             address);
    group_fail(g, &found);
}

static void note_conflicts(group *g, size_t offset, size_t bytes, bool is_write, const void *where)
{
    const lds_access access = {.where = where,
                               .offset = (uint32_t)offset,
                               .bytes = bytes <= UINT8_MAX ? (uint8_t)bytes : UINT8_MAX,
                               .is_write = is_write};
    if (lds_note(g, &access)) return;
    finding found = {.first = where};
    snprintf(found.head, sizeof found.head, "there is no memory to count bank conflicts at ");
    group_fail(g, &found);
}

void memory_access(group *g, const void *address, size_t bytes, size_t alignment, bool is_write,
                   const void *where)
{
    const uintptr_t at = (uintptr_t)address;
    const shared_memory *const s = &g->shared;
    const bool is_shared = at - (uintptr_t)s->whole < s->bytes + 2 * SHARED_GUARD;
    if (!is_shared && group_stack_holds(g, address)) return;
    if (!is_shared && at - (uintptr_t)g->launch->args < sizeof *g->launch->args) return;
    if (at % alignment != 0) fail_aligned(g, address, bytes, is_write, where);
    if (!is_shared) {
        buffer_access(g, address, bytes, is_write, where);
        return;
    }
    const size_t offset = at - (uintptr_t)s->memory;
    group_may_yield(g);
    if (is_write)
        shared_write(g, g->running, offset, bytes, where);
    else
        shared_read(g, g->running, offset, bytes, where);
    if (g->counts_conflicts) note_conflicts(g, offset, bytes, is_write, where);
}
