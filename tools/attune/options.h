/* The options of all subcommands, parsed by one table. */
#ifndef ATTUNE_COMMAND_OPTIONS_H
#define ATTUNE_COMMAND_OPTIONS_H

#include <stdbool.h>

#include "attune/attune.h"

enum { MAX_PROBLEMS = 4096 };

typedef struct options {
    bool json, why, help, reproducible, tf32, deterministic, resume, tsv, tuned, against_default;
    const char *q, *k, *v, *out, *lse;
    const char *device, *devices, *kernel, *engine, *layout, *fill;
    const char *problem_file, *db, *file;
    const char **problems; /* of --problem and --problem-file, in their order */
    int problem_count;
    bool has_dtype, has_mask, has_scale, has_seed;
    attune_dtype dtype;
    attune_mask mask;
    double scale;
    unsigned long long seed;
    int threads;
    double budget, timeout; /* seconds */
    char *file_text;        /* owner of the strings of --problem-file */
} options;

/* Parses what follows the subcommand. `accepted`: the options that it knows, "--json --device …", as its help prints them. 0, or EXIT_BAD_INPUT
 * after one sentence. */
int options_parse(int count, char **arguments, const char *command, const char *accepted,
                  options *options);
void options_free(options *options);

/* --kernel, --engine, --reproducible, --tf32 and --deterministic, for a plan. */
attune_plan_options options_of_plan(const options *options);

#endif
