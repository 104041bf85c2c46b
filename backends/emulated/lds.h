/* Bank conflicts in the LDS of AMD's GPUs, counted: no profiler is needed, and no GPU.
 *
 * The LDS has 32 banks of four bytes (MI300 ISA, "Local Data Share"; RDNA3 in CU mode alike). It serves an access of a wave some lanes at a time: 32
 * of four bytes and less, 16 of 8 bytes, 8 of 16 bytes; lanes that want the same word get it together, and those that want other words of one bank wait
 * for each other. Lanes follow each other in their order, except when 16 bytes are read on CDNA3 and RDNA3: there, in each
 * half of 32, lanes 0 to 3 go with 20 to 23, 4 to 7 with 16 to 19, 8 to 11 with 28 to 31, and 12 to 15 with 24 to 27 (measured: nod-ai, "Empirical LDS Measurements", for MI300X, W7900 and
 * RX 9070 XT; Triton, pull request 11365, for MI300; AMD, "Avoiding LDS Bank Conflicts on AMD GPUs Using CK-Tile Framework", has the writes too).
 * CDNA2 is taken for CDNA3: nobody has published a measurement. */
#ifndef ATTUNE_EMULATED_LDS_H
#define ATTUNE_EMULATED_LDS_H

#include "place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group;
struct gpu;

/* An access by one work-item. */
typedef struct lds_access {
    const void *where;
    uint32_t offset;
    uint8_t bytes;
    bool is_write;
} lds_access;

/* What one work-item has done in the group that runs. */
typedef struct lds_log {
    lds_access *at;
    int count, capacity;
} lds_log;

/* Of all accesses of waves at one place of a kernel: `passes` of the banks, and how many there are without conflicts. */
typedef struct lds_place {
    const char *kernel;
    const void *where;
    int bytes;
    bool is_write;
    int64_t accesses, passes, least;
    char text[PLACE_SIZE]; /* the place in words, once printed */
} lds_place;

typedef struct lds_table {
    lds_place *at;
    int count, capacity;
} lds_table;

/* Notes an access of the work-item that runs. False without memory. */
bool lds_note(struct group *g, const lds_access *access);

/* Adds up what the group has noted, the nth access of a lane at a place with the nth of the others. False without memory. */
bool lds_count(struct group *g, lds_table *table);

/* Passes of one access of a wave, and how many there are without conflicts: lane i reads or writes `bytes` at offsets[i], unless that is
 * LDS_IDLE. */
#define LDS_IDLE UINT32_MAX
void lds_passes(const struct gpu *gpu, int bytes, bool is_write, const uint32_t *offsets,
                int *passes, int *least);

/* Writes it to stderr, tab-separated, after a line with the names of the columns. Places on one line of the source become one. */
void lds_print(lds_table *table);

#endif
