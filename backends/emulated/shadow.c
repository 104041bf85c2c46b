#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "shadow.h"

#include "group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORD = 4, NAN_BYTE = 0xff, ITEM_BITS = 10 };
#define IN_FLIGHT ((uint64_t)1 << 63)

/* ---- memory ---- */

/* Pages of zeros that cost nothing before they are touched. */
static void *pages(size_t bytes)
{
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static const size_t whole_bytes = SHARED_MOST + 2 * SHARED_GUARD;
static const size_t word_bytes = SHARED_MOST / WORD * sizeof(shadow_cell);
static const size_t part_bytes = SHARED_MOST * sizeof(shadow_cell);

bool shared_create(shared_memory *s)
{
    *s = (shared_memory){.whole = pages(whole_bytes),
                         .words = pages(word_bytes),
                         .parts = pages(part_bytes),
                         .split = calloc(SHARED_MOST / WORD, 1)};
    if (s->whole == NULL || s->words == NULL || s->parts == NULL || s->split == NULL) {
        shared_destroy(s);
        return false;
    }
    s->memory = s->whole + SHARED_GUARD;
    return true;
}

void shared_destroy(shared_memory *s)
{
    if (s->whole != NULL) munmap(s->whole, whole_bytes);
    if (s->words != NULL) munmap(s->words, word_bytes);
    if (s->parts != NULL) munmap(s->parts, part_bytes);
    free(s->split);
    *s = (shared_memory){.whole = NULL};
}

void shared_clear(shared_memory *s, size_t bytes, int warp_bits)
{
    const size_t words = (bytes + WORD - 1) / WORD;
    s->bytes = bytes;
    s->warp_bits = warp_bits;
    s->time = s->barrier_time = 1;
    for (int w = 0; w < SHARED_WARPS; w++) s->warp_time[w] = 1;
    memset(s->memory, NAN_BYTE, bytes);
    memset(s->words, 0, words * sizeof *s->words);
    memset(s->split, 0, words);
}

/* ---- time ---- */

void shared_barrier(shared_memory *s)
{
    s->barrier_time = ++s->time;
}

void shared_warp_barrier(shared_memory *s, int warp)
{
    s->warp_time[warp] = ++s->time;
}

static uint64_t now(const shared_memory *s, const work_item *who)
{
    return s->time << ITEM_BITS | (unsigned)who->id;
}

static int item_of(uint64_t when)
{
    return (int)(when & ((1u << ITEM_BITS) - 1));
}

/* Whether what happened then is ordered before what `who` does now; true of what never happened. */
static inline bool is_ordered(const shared_memory *s, uint64_t when, const work_item *who)
{
    const int item = item_of(when), warp = item >> s->warp_bits;
    const uint64_t time = (when & ~IN_FLIGHT) >> ITEM_BITS;
    return time < s->barrier_time || item == who->id ||
           (warp == who->id >> s->warp_bits && time < s->warp_time[warp]);
}

/* ---- findings ---- */

typedef struct shared_access {
    const work_item *who;
    size_t offset, bytes;
    const char *verb; /* "reads" */
    const void *where;
} shared_access;

static void print_head(const shared_access *a, finding *found)
{
    snprintf(found->head, sizeof found->head, "work-item %d %s shared bytes %td to %td at ",
             a->who->id, a->verb, (ptrdiff_t)a->offset, (ptrdiff_t)(a->offset + a->bytes) - 1);
    found->first = a->where;
}

_Noreturn static void fail_outside(group *g, const shared_access *a)
{
    finding found = {.second = NULL};
    print_head(a, &found);
    snprintf(found.middle, sizeof found.middle, ", outside of the %zu that the group has",
             g->shared.bytes);
    group_fail(g, &found);
}

_Noreturn static void fail_unwritten(group *g, const shared_access *a)
{
    finding found = {.second = NULL};
    print_head(a, &found);
    snprintf(found.middle, sizeof found.middle, ", which nobody has written");
    group_fail(g, &found);
}

_Noreturn static void fail_in_flight(group *g, const shared_access *a, const stamp *copy)
{
    finding found = {.second = copy->where};
    print_head(a, &found);
    snprintf(found.middle, sizeof found.middle,
             ", where a copy is under way that work-item %d started at ", item_of(copy->when));
    snprintf(found.tail, sizeof found.tail, " and has not waited for");
    group_fail(g, &found);
}

_Noreturn static void fail_race(group *g, const shared_access *a, const stamp *other,
                                const char *verb)
{
    finding found = {.second = other->where};
    print_head(a, &found);
    snprintf(found.middle, sizeof found.middle, ", which work-item %d has %s at ",
             item_of(other->when), verb);
    snprintf(found.tail, sizeof found.tail, " with no barrier between");
    group_fail(g, &found);
}

/* ---- one cell ---- */

static inline void check_write(group *g, const shadow_cell *c, const shared_access *a)
{
    if (c->write.when & IN_FLIGHT) fail_in_flight(g, a, &c->write);
    if (!is_ordered(&g->shared, c->write.when, a->who)) fail_race(g, a, &c->write, "written");
    for (int i = 0; i < 2; i++)
        if (!is_ordered(&g->shared, c->read[i].when, a->who)) fail_race(g, a, &c->read[i], "read");
}

/* A read that is ordered before this one need not be remembered: who is ordered after this one is ordered after it as well. */
static inline void remember_read(const shared_memory *s, shadow_cell *c, const shared_access *a)
{
    const stamp read = {.when = now(s, a->who), .where = a->where};
    const bool replace[] = {is_ordered(s, c->read[0].when, a->who),
                            is_ordered(s, c->read[1].when, a->who)};
    if (replace[0]) {
        c->read[0] = read;
        if (replace[1]) c->read[1] = (stamp){.when = 0};
        return;
    }
    const int first = item_of(c->read[0].when) >> s->warp_bits;
    const int second = item_of(c->read[1].when) >> s->warp_bits;
    if (replace[1] || (first == second && a->who->id >> s->warp_bits != first)) c->read[1] = read;
}

static inline void cell_read(group *g, shadow_cell *c, const shared_access *a)
{
    if (c->write.when == 0) fail_unwritten(g, a);
    if (c->write.when & IN_FLIGHT) fail_in_flight(g, a, &c->write);
    if (!is_ordered(&g->shared, c->write.when, a->who)) fail_race(g, a, &c->write, "written");
    remember_read(&g->shared, c, a);
}

/* ---- ranges ---- */

static shadow_cell *split(shared_memory *s, size_t word)
{
    shadow_cell *const parts = &s->parts[word * WORD];
    if (!s->split[word]) {
        for (int i = 0; i < WORD; i++) parts[i] = s->words[word];
        s->split[word] = 1;
    }
    return parts;
}

static inline bool is_outside(const shared_memory *s, size_t offset, size_t bytes)
{
    return offset > s->bytes || bytes > s->bytes - offset;
}

void shared_read(group *g, const work_item *who, size_t offset, size_t bytes, const void *where)
{
    shared_memory *const s = &g->shared;
    const shared_access a = {
        .who = who, .offset = offset, .bytes = bytes, .verb = "reads", .where = where};
    if (is_outside(s, offset, bytes)) fail_outside(g, &a);
    for (size_t at = offset; at < offset + bytes;) {
        const size_t word = at / WORD;
        if (at % WORD == 0 && offset + bytes - at >= WORD && !s->split[word]) {
            cell_read(g, &s->words[word], &a);
            at += WORD;
        } else {
            cell_read(g, &split(s, word)[at % WORD], &a);
            at++;
        }
    }
}

/* Checks like a write, and makes `written` of what is touched; a word that is touched as a whole is no longer split. */
static void write_cells(group *g, const shared_access *a, const stamp *written)
{
    shared_memory *const s = &g->shared;
    const shadow_cell fresh = {.write = *written};
    if (is_outside(s, a->offset, a->bytes)) fail_outside(g, a);
    for (size_t at = a->offset; at < a->offset + a->bytes;) {
        const size_t word = at / WORD;
        const bool is_whole = at % WORD == 0 && a->offset + a->bytes - at >= WORD;
        if (is_whole) {
            for (int i = 0; i < WORD && s->split[word]; i++)
                check_write(g, &s->parts[word * WORD + (size_t)i], a);
            if (!s->split[word]) check_write(g, &s->words[word], a);
            s->split[word] = 0;
            s->words[word] = fresh;
            at += WORD;
        } else {
            shadow_cell *const part = &split(s, word)[at % WORD];
            check_write(g, part, a);
            *part = fresh;
            at++;
        }
    }
}

void shared_write(group *g, const work_item *who, size_t offset, size_t bytes, const void *where)
{
    const shared_access a = {
        .who = who, .offset = offset, .bytes = bytes, .verb = "writes", .where = where};
    const stamp written = {.when = now(&g->shared, who), .where = where};
    write_cells(g, &a, &written);
}

enum { COPY = 16 };

void shared_copy_begin(group *g, const work_item *who, size_t offset, const void *where)
{
    const shared_access a = {
        .who = who, .offset = offset, .bytes = COPY, .verb = "copies to", .where = where};
    const stamp flying = {.when = now(&g->shared, who) | IN_FLIGHT, .where = where};
    write_cells(g, &a, &flying);
}

void shared_copy_land(group *g, const work_item *who, size_t offset, const void *where)
{
    for (size_t word = offset / WORD; word < (offset + COPY) / WORD; word++)
        g->shared.words[word].write = (stamp){.when = now(&g->shared, who), .where = where};
}
