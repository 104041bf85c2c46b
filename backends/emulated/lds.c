#include "lds.h"

#include "group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BANKS = 32, WORD = 4, LONGEST = 16 };

/* ---- one access of a wave ---- */

/* The lanes that are served together have one number, below 8. */
static int phase_of(const gpu *gpu, int bytes, bool is_write, int lane)
{
    if (bytes <= 4) return lane / 32;
    if (bytes <= 8) return lane / 16;
    if (is_write || !gpu->lds_swizzles_reads) return lane / 8;
    return lane / 32 * 4 + lane / 8 % 2 * 2 + (lane / 4 ^ lane / 16) % 2;
}

void lds_passes(const gpu *gpu, int bytes, bool is_write, const uint32_t *offsets, int *passes,
                int *least)
{
    const int lanes = 1 << gpu->warp_bits;
    *passes = *least = 0;
    for (int phase = 0; phase < MOST_WARP / 8; phase++) {
        uint32_t words[BANKS];
        int count = 0, of_bank[BANKS] = {0}, most = 0;
        for (int lane = 0; lane < lanes; lane++) {
            if (offsets[lane] == LDS_IDLE || phase_of(gpu, bytes, is_write, lane) != phase)
                continue;
            for (uint32_t at = offsets[lane] / WORD; at * WORD < offsets[lane] + (uint32_t)bytes;
                 at++) {
                int i = 0;
                while (i < count && words[i] != at) i++;
                if (i < count) continue;
                words[count++] = at;
                const int now = ++of_bank[at % BANKS];
                most = now > most ? now : most;
            }
        }
        *passes += most;
        *least += most > 0;
    }
}

/* ---- a group ---- */

bool lds_note(group *g, const lds_access *access)
{
    lds_log *const log = &g->running->lds;
    if (access->bytes > LONGEST) return true;
    if (log->count == log->capacity) {
        const int capacity = 2 * log->capacity + 256;
        lds_access *const more = realloc(log->at, (size_t)capacity * sizeof *more);
        if (more == NULL) return false;
        log->at = more;
        log->capacity = capacity;
    }
    log->at[log->count++] = *access;
    return true;
}

/* An access as one of its wave. */
typedef struct wave_access {
    lds_access access;
    int lane, number; /* which of the lane's, at first of all, then of those at this place */
} wave_access;

static int compare_places(const wave_access *a, const wave_access *b)
{
    const uintptr_t x = (uintptr_t)a->access.where, y = (uintptr_t)b->access.where;
    return (x > y) - (x < y);
}

static int by_lane(const void *a, const void *b)
{
    const wave_access *const x = a, *const y = b;
    const int place = compare_places(x, y);
    return place != 0 ? place : x->lane != y->lane ? x->lane - y->lane : x->number - y->number;
}

static int by_number(const void *a, const void *b)
{
    const wave_access *const x = a, *const y = b;
    const int place = compare_places(x, y);
    return place != 0 ? place : x->number != y->number ? x->number - y->number : x->lane - y->lane;
}

static lds_place *place_in(lds_table *table, const char *kernel, const lds_access *access)
{
    for (int i = 0; i < table->count; i++)
        if (table->at[i].where == access->where && table->at[i].kernel == kernel)
            return &table->at[i];
    if (table->count == table->capacity) {
        const int capacity = 2 * table->capacity + 64;
        lds_place *const more = realloc(table->at, (size_t)capacity * sizeof *more);
        if (more == NULL) return NULL;
        table->at = more;
        table->capacity = capacity;
    }
    lds_place *const place = &table->at[table->count++];
    *place = (lds_place){.kernel = kernel,
                         .where = access->where,
                         .bytes = access->bytes,
                         .is_write = access->is_write};
    return place;
}

/* How many follow the first that are of the same instruction, it included. */
static int same_access(const wave_access *first, const wave_access *end)
{
    int count = 1;
    while (first + count < end && compare_places(first, first + count) == 0 &&
           first[count].number == first->number)
        count++;
    return count;
}

static bool count_sorted(const group *g, const wave_access *at, int count, lds_table *table)
{
    for (const wave_access *first = at, *const end = at + count; first < end;) {
        const int lanes = same_access(first, end);
        uint32_t offsets[MOST_WARP];
        for (int lane = 0; lane < MOST_WARP; lane++) offsets[lane] = LDS_IDLE;
        for (int i = 0; i < lanes; i++) offsets[first[i].lane] = first[i].access.offset;
        lds_place *const place = place_in(table, g->row->id, &first->access);
        if (place == NULL) return false;
        int passes, least;
        lds_passes(g->gpu, place->bytes, place->is_write, offsets, &passes, &least);
        place->accesses++;
        place->passes += passes;
        place->least += least;
        first += lanes;
    }
    return true;
}

static bool count_wave(const group *g, const work_item *lane, lds_table *table)
{
    int count = 0;
    for (int i = 0; i < warp_size(g); i++) count += lane[i].lds.count;
    if (count == 0) return true;
    wave_access *const all = malloc((size_t)count * sizeof *all);
    if (all == NULL) return false;
    int next = 0;
    for (int i = 0; i < warp_size(g); i++)
        for (int n = 0; n < lane[i].lds.count; n++)
            all[next++] = (wave_access){.access = lane[i].lds.at[n], .lane = i, .number = n};
    qsort(all, (size_t)count, sizeof *all, by_lane);
    for (int i = 0, number = 0; i < count; i++) {
        const bool goes_on = i + 1 < count && compare_places(&all[i], &all[i + 1]) == 0 &&
                             all[i].lane == all[i + 1].lane;
        all[i].number = number;
        number = goes_on ? number + 1 : 0;
    }
    qsort(all, (size_t)count, sizeof *all, by_number);
    const bool counted = count_sorted(g, all, count, table);
    free(all);
    return counted;
}

bool lds_count(group *g, lds_table *table)
{
    for (int i = 0; i < g->row->threads; i += warp_size(g))
        if (!count_wave(g, &g->items[i], table)) return false;
    return true;
}

/* ---- report ---- */

static bool is_one_line(const lds_place *a, const lds_place *b)
{
    return strcmp(a->text, b->text) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
           a->bytes == b->bytes && a->is_write == b->is_write;
}

/* A compiler may have made many instructions of a line, by inlining and unrolling. */
static void add_to_lines(lds_table *lines, const lds_place *place)
{
    int i = 0;
    while (i < lines->count && !is_one_line(&lines->at[i], place)) i++;
    if (i == lines->count) {
        lines->at[lines->count++] = *place;
        return;
    }
    lines->at[i].accesses += place->accesses;
    lines->at[i].passes += place->passes;
    lines->at[i].least += place->least;
}

void lds_print(lds_table *table)
{
    lds_table lines = {.at = table->at}; /* never ahead of what is read */
    for (int i = 0; i < table->count; i++) {
        lds_place place = table->at[i];
        place_describe(place.where, 0, place.text);
        add_to_lines(&lines, &place);
    }
    table->count = lines.count;
    fprintf(stderr, "lds\tkernel\tplace\tverb\tbytes\taccesses\tpasses\tleast\n");
    for (int i = 0; i < table->count; i++) {
        const lds_place *const place = &table->at[i];
        fprintf(stderr, "lds\t%s\t%s\t%s\t%d\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n",
                place->kernel, place->text, place->is_write ? "writes" : "reads", place->bytes,
                place->accesses, place->passes, place->least);
    }
}
