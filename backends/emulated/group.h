/* A work-group that runs: its work-items, one coroutine each, their shared memory and what is known of every byte of it. A group belongs to
 * one thread; what a work-item does there is seen through current_group. */
#ifndef ATTUNE_EMULATED_GROUP_H
#define ATTUNE_EMULATED_GROUP_H

#include "backend.h"

#include "buffers.h"
#include "coroutine.h"
#include "gpus.h"
#include "lds.h"
#include "shadow.h"

#include <stdbool.h>
#include <stdint.h>

enum { LEAST_WARP = 32, MOST_WARP = 64 }; /* lanes */
enum { MOST_WORK_ITEMS = 1024, MOST_WARPS = MOST_WORK_ITEMS / LEAST_WARP };

struct group;
struct work_item;

/* What the work-items of a warp do together. All of them come to it, at one line and with the same `detail`; the last to come calls `work` for
 * all, with their first; they have left their operands in work_item.operands. */
typedef struct together {
    const char *name;
    void (*work)(struct group *g, struct work_item *lane);
} together;

typedef enum item_state { READY, AT_BARRIER, TOGETHER, ENDED } item_state;

/* A copy to shared memory that is under way. */
typedef struct async_copy {
    uint32_t to;        /* offset of 16 bytes */
    int64_t copy_group; /* that it was committed to; -1 before */
    const void *where;  /* it was started */
    unsigned char bytes[16];
} async_copy;

typedef struct work_item {
    coroutine context;
    char *stack;
    int id;
    item_state state;
    /* where it waits */
    const together *together;
    int line, detail;
    const void *where;
    void *operands;
    /* copies under way, in the order in which they were started */
    async_copy *copies;
    int copy_count, copy_capacity;
    int64_t copy_groups; /* committed so far */
    lds_log lds;
} work_item;

/* A finding, one sentence: `head` place(first) `middle` place(second) `tail`. */
typedef struct finding {
    char head[256], middle[192], tail[128];
    const void *first, *second;  /* return addresses, or NULL */
    int first_line, second_line; /* where they are known, else 0 */
} finding;

typedef struct group {
    /* the launch */
    const attune_kernel_row *row;
    const attune_launch *launch;
    const gpu *gpu;
    buffer_list *buffers;
    bool counts_conflicts;
    int64_t number;
    uint64_t random; /* 0: work-items run in order, and only barriers stop them */

    work_item items[MOST_WORK_ITEMS];
    coroutine scheduler;
    work_item *running;
    int ready[MOST_WORK_ITEMS]; /* a ring of ready_count numbers from ready_first */
    int ready_first, ready_count;
    int waiting, ended;       /* at a barrier; for good */
    int gathered[MOST_WARPS]; /* work-items of the warp that wait in something to do together */

    shared_memory shared;
    device_buffer known[8]; /* buffers met lately */
    int known_next;

    bool has_finding;
    finding found;
} group;

/* NULL outside of work-items. */
extern _Thread_local group *current_group __attribute__((visibility("hidden")));

/* NULL without memory. A group can run one launch's groups one after the other. */
group *group_create(void);
void group_destroy(group *g);

/* Runs one group of a kernel to its end; false where there was a finding, which is in g->found then. row, launch, gpu, buffers, counts_conflicts and number
 * are set; `seed` 0 is the fixed order. */
bool group_run(group *g, uint64_t seed);

/* Lanes of a warp. */
static inline int warp_size(const group *g)
{
    return 1 << g->gpu->warp_bits;
}

/* ---- for what runs in a work-item ---- */

/* Ends the group with a finding; does not return. */
_Noreturn void group_fail(group *g, const finding *found);

/* Fails where the GPU does not have these instructions. */
void group_require(group *g, instruction_set wanted, const char *instruction, int line,
                   const void *where);

/* Whether the address is on the stack of the work-item that runs. */
bool group_stack_holds(const group *g, const void *address);

/* Lets others run. */
void group_yield(group *g);

/* With a seed, lets others run now and then. */
static inline void group_may_yield(group *g)
{
    if (g->random == 0) return;
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    if ((g->random >> 32) % 32 == 0) group_yield(g);
}

void group_barrier(group *g, int line, const void *where);
void group_together(group *g, const together *what, void *operands, int line, int detail,
                    const void *where);

#endif
