/* Command line that programs of this folder share; --help prints it. */
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
    const char *kernel, *engine; /* NULL: any */
    bool tiles, reproducible, tf32;
    uint64_t seed;
    int shard, shards;
    bool thin, hash;
    const char *test; /* NULL: all */
} options;

/* Exits with 2 and a line on stderr where the arguments are wrong, and with 0 after --help, which prints `about` (what the program does and
 * what it prints), and the options. */
options options_parse(int argc, char **argv, const char *about);

/* Exits as well where no problem is given. */
options options_parse_problems(int argc, char **argv, const char *about);

/* Of the plans on device `index` of `devices`: a kernel's glob and an engine confine every device but the first, which the others are
 * compared with, unless it is alone; the rest is for all. */
attune_plan_options options_of_plan(const options *o, int index, int devices);

/* Whether a name stands in a list with commas; NULL holds nothing. */
bool in_list(const char *list, const char *name);

#endif
