#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK = 128 * 1024 };

_Thread_local group *current_group;

/* ---- life ---- */

/* One mapping, the first page of each stack out of bounds. */
static char *stacks_create(void)
{
    char *const stacks = mmap(NULL, (size_t)STACK * MOST_WORK_ITEMS, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return NULL;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < MOST_WORK_ITEMS; i++)
        if (mprotect(stacks + (size_t)i * STACK, page, PROT_NONE) != 0) {
            munmap(stacks, (size_t)STACK * MOST_WORK_ITEMS);
            return NULL;
        }
    return stacks;
}

group *group_create(void)
{
    group *const g = calloc(1, sizeof *g);
    char *const stacks = stacks_create();
    if (g == NULL || stacks == NULL || !shared_create(&g->shared)) {
        if (stacks != NULL) munmap(stacks, (size_t)STACK * MOST_WORK_ITEMS);
        free(g);
        return NULL;
    }
    for (int i = 0; i < MOST_WORK_ITEMS; i++) {
        g->items[i].id = i;
        g->items[i].stack = stacks + (size_t)i * STACK;
    }
    return g;
}

void group_destroy(group *g)
{
    if (g == NULL) return;
    for (int i = 0; i < MOST_WORK_ITEMS; i++) {
        free(g->items[i].copies);
        free(g->items[i].lds.at);
    }
    munmap(g->items[0].stack, (size_t)STACK * MOST_WORK_ITEMS);
    shared_destroy(&g->shared);
    free(g);
}

bool group_stack_holds(const group *g, const void *address)
{
    return (uintptr_t)address - (uintptr_t)g->running->stack < STACK;
}

/* ---- who runs next ---- */

static void make_ready(group *g, work_item *item)
{
    item->state = READY;
    g->ready[(g->ready_first + g->ready_count++) % MOST_WORK_ITEMS] = item->id;
}

static work_item *next_ready(group *g)
{
    int *const first = &g->ready[g->ready_first];
    if (g->random != 0) {
        const int chosen = (g->ready_first + (int)((g->random >> 33) % (unsigned)g->ready_count)) %
                           MOST_WORK_ITEMS;
        const int id = g->ready[chosen];
        g->ready[chosen] = *first;
        *first = id;
        g->random = g->random * 6364136223846793005u + 1442695040888963407u;
        if (g->random == 0) g->random = 1;
    }
    work_item *const item = &g->items[*first];
    g->ready_first = (g->ready_first + 1) % MOST_WORK_ITEMS;
    g->ready_count--;
    return item;
}

static void leave(group *g)
{
    coroutine_switch(&g->running->context, &g->scheduler);
}

void group_yield(group *g)
{
    make_ready(g, g->running);
    leave(g);
}

static void set_finding(group *g, const finding *found)
{
    g->found = *found;
    g->has_finding = true;
}

void group_fail(group *g, const finding *found)
{
    set_finding(g, found);
    for (;;) leave(g); /* once is enough: nobody comes back */
}

void group_require(group *g, instruction_set wanted, const char *instruction, int line,
                   const void *where)
{
    if (g->gpu->instructions == wanted) return;
    finding found = {.first = where, .first_line = line};
    snprintf(found.head, sizeof found.head, "work-item %d comes to %s at ", g->running->id,
             instruction);
    snprintf(found.middle, sizeof found.middle, ", which %s does not have", g->gpu->id);
    group_fail(g, &found);
}

/* ---- waiting for each other ---- */

static void set_place(work_item *item, item_state state, int line, const void *where)
{
    item->state = state;
    item->line = line;
    item->where = where;
}

/* `other` does not come to what `item` waits for. */
static void find_apart(group *g, const work_item *item, const work_item *other)
{
    finding found = {.first = item->where, .first_line = item->line};
    snprintf(found.head, sizeof found.head, "work-item %d waits in %s at ", item->id,
             item->state == TOGETHER ? item->together->name : "a barrier");
    if (other->state == ENDED) {
        snprintf(found.middle, sizeof found.middle, ", and work-item %d has ended", other->id);
    } else {
        found.second = other->where;
        found.second_line = other->line;
        snprintf(found.middle, sizeof found.middle, ", and work-item %d in %s at ", other->id,
                 other->state == TOGETHER ? other->together->name : "a barrier");
        if (item->state == TOGETHER && other->state == TOGETHER && item->line == other->line)
            snprintf(found.tail, sizeof found.tail, " with another operand (%d, %d)", item->detail,
                     other->detail);
    }
    set_finding(g, &found);
}

static void open_barrier(group *g)
{
    for (int i = 1; i < g->row->threads; i++)
        if (g->items[i].line != g->items[0].line) {
            find_apart(g, &g->items[0], &g->items[i]);
            return;
        }
    shared_barrier(&g->shared);
    g->waiting = 0;
    for (int i = 0; i < g->row->threads; i++) make_ready(g, &g->items[i]);
}

void group_barrier(group *g, int line, const void *where)
{
    set_place(g->running, AT_BARRIER, line, where);
    if (++g->waiting == g->row->threads) open_barrier(g);
    leave(g);
}

static void act_together(group *g, int warp)
{
    const int lanes = warp_size(g);
    work_item *const lane = &g->items[warp * lanes];
    for (int i = 1; i < lanes; i++)
        if (lane[i].together != lane->together || lane[i].line != lane->line ||
            lane[i].detail != lane->detail) {
            find_apart(g, lane, &lane[i]);
            return;
        }
    lane->together->work(g, lane);
    g->gathered[warp] = 0;
    for (int i = 0; i < lanes; i++) make_ready(g, &lane[i]);
}

void group_together(group *g, const together *what, void *operands, int line, int detail,
                    const void *where)
{
    work_item *const item = g->running;
    const int warp = item->id >> g->gpu->warp_bits;
    set_place(item, TOGETHER, line, where);
    item->together = what;
    item->detail = detail;
    item->operands = operands;
    if (++g->gathered[warp] == warp_size(g)) act_together(g, warp);
    leave(g);
}

/* ---- the scheduler ---- */

static const work_item *waiting_item(const group *g, item_state state)
{
    for (int i = 0; i < g->row->threads; i++)
        if (g->items[i].state == state) return &g->items[i];
    return NULL;
}

/* Nobody can go on and not all have ended: somebody waits in vain. */
static void find_stuck(group *g)
{
    const work_item *item = waiting_item(g, TOGETHER);
    if (item == NULL) item = waiting_item(g, AT_BARRIER);
    const bool in_warp = item->state == TOGETHER;
    const int first = in_warp ? item->id & -warp_size(g) : 0;
    const int last = in_warp ? first + warp_size(g) : g->row->threads;
    for (int i = first; i < last && !g->has_finding; i++)
        if (g->items[i].state != item->state) find_apart(g, item, &g->items[i]);
}

static void item_main(void)
{
    group *const g = current_group;
    const attune_launch *const launch = g->launch;
    g->row->forward(launch->args, launch->q, launch->k, launch->v, launch->o, launch->lse,
                    launch->workspace, g->number);
    g->running->state = ENDED;
    g->ended++;
    leave(g);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

bool group_run(group *g, uint64_t seed)
{
    g->random = seed == 0 ? 0 : mix(seed * 0x9e3779b97f4a7c15u + (uint64_t)g->number) | 1;
    g->ready_first = g->ready_count = g->waiting = g->ended = g->known_next = 0;
    g->has_finding = false;
    for (int i = 0; i < MOST_WARPS; i++) g->gathered[i] = 0;
    for (size_t i = 0; i < sizeof g->known / sizeof *g->known; i++)
        g->known[i] = (device_buffer){.begin = NULL};
    shared_clear(&g->shared, g->row->fast_memory, g->gpu->warp_bits);
    for (int i = 0; i < g->row->threads; i++) {
        work_item *const item = &g->items[i];
        item->copy_count = 0;
        item->copy_groups = 0;
        item->lds.count = 0;
        coroutine_prepare(&item->context, item->stack, STACK, item_main);
        make_ready(g, item);
    }

    current_group = g;
    while (g->ready_count > 0 && !g->has_finding) {
        g->running = next_ready(g);
        coroutine_switch(&g->scheduler, &g->running->context);
    }
    if (!g->has_finding && g->ended < g->row->threads) find_stuck(g);
    current_group = NULL;
    return !g->has_finding;
}
