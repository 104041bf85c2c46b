/* What is known of every byte of a group's shared memory: who wrote it, who has read it since, and whether a copy into it is under way.
 *
 * Time is counted in barriers: `time` rises at every barrier of the group and of a warp. What happened before the last barrier of the group is
 * ordered before everything now; what a neighbour of the same warp did before the warp's last barrier, too. Nothing else orders: a shuffle
 * and a matrix instruction wait for the lanes, but say nothing of memory (PTX ISA, "Memory Consistency Model": only barriers and fences
 * synchronise). */
#ifndef ATTUNE_EMULATED_SHADOW_H
#define ATTUNE_EMULATED_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group;
struct work_item;

enum { SHARED_MOST = 227 * 1024, SHARED_GUARD = 64 * 1024, SHARED_WARPS = 32 };

/* (time << 10 | work-item), 0: never; and the return address behind the access. */
typedef struct stamp {
    uint64_t when;
    const void *where;
} stamp;

/* Two reads are enough to find a conflict with any later write: of two warps where there were two, else of two work-items. */
typedef struct shadow_cell {
    stamp write, read[2];
} shadow_cell;

typedef struct shared_memory {
    char *whole; /* guard, memory, guard */
    char *memory;
    size_t bytes;  /* that the kernel has */
    int warp_bits; /* 2^warp_bits work-items are a warp */
    uint64_t time, barrier_time, warp_time[SHARED_WARPS];
    shadow_cell *words; /* of four bytes */
    shadow_cell *
        parts; /* of the bytes of a word that is split: one that was not always touched as a whole */
    unsigned char *split;
} shared_memory;

bool shared_create(shared_memory *s);
void shared_destroy(shared_memory *s);
/* Fresh memory of a group: NaN, and nobody has written it. */
void shared_clear(shared_memory *s, size_t bytes, int warp_bits);

void shared_barrier(shared_memory *s);
void shared_warp_barrier(shared_memory *s, int warp);

/* An access by a work-item: bounds, and who else touched the bytes. */
void shared_read(struct group *g, const struct work_item *who, size_t offset, size_t bytes,
                 const void *where);
void shared_write(struct group *g, const struct work_item *who, size_t offset, size_t bytes,
                  const void *where);

/* A copy of 16 bytes begins, and has landed. */
void shared_copy_begin(struct group *g, const struct work_item *who, size_t offset,
                       const void *where);
void shared_copy_land(struct group *g, const struct work_item *who, size_t offset,
                      const void *where);

#endif
