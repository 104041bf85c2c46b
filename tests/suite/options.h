/* Command line that the programs of this folder share.
 *
 *     --devices ID,ID,...    default: every device of the machine; the first one is what the others are compared with
 *     --require ID,...       of --devices: missing ones are errors instead of SKIPPED
 *     --problem STRING       (repeatable)
 *     --problem-file FILE    (repeatable)
 *     --fill NAME,...|all    default: normal
 *     --dtype NAME,...|all   default: what each problem says
 *     --kernel GLOB|tiles    default: what the plan chooses; a glob confines every device but the first; tiles: several kernels of each
 *     --seed N               default: 1
 *     --shard I/N            problems I, I + N, I + 2N ... (I from 0)
 *     --hash                 same_bits: print a hash for each problem instead of comparing
 */
#ifndef ATTUNE_TESTS_OPTIONS_H
#define ATTUNE_TESTS_OPTIONS_H

#include "tensors.h"

enum { DTYPES = 3, OWN_DTYPE = -1 };

typedef struct options {
    const char *devices, *require; /* NULL: not given */
    problem_list problems;
    bool fills[ATTUNE_FILL_COUNT];
    int dtypes[DTYPES]; /* attune_dtype, or OWN_DTYPE */
    int dtype_count;
    const char *kernel; /* NULL: any */
    bool tiles;
    uint64_t seed;
    int shard, shards;
    bool hash;
} options;

/* Exits with 2 and a line on stderr where the arguments are wrong. */
options options_parse(int argc, char **argv);

/* Whether a name stands in a list with commas; NULL holds nothing. */
bool in_list(const char *list, const char *name);

#endif
