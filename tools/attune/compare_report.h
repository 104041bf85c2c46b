/* What `attune compare` prints: a row for each run and each pair of devices, as a table or as JSON, and a summary. */
#ifndef ATTUNE_COMMAND_COMPARE_REPORT_H
#define ATTUNE_COMMAND_COMPARE_REPORT_H

#include <stdbool.h>

#include "attune/numerics.h"

/* One input. */
typedef struct compared_case {
    const attune_problem *problem;
    const char *fill; /* NULL: files */
    uint64_t seed;
} compared_case;

typedef struct compare_row {
    const char *device;
    const char *against;    /* the other device of a pair, else NULL */
    const char *kernel;     /* NULL of standard attention, and where none ran */
    const char *engine;     /* of the kernel; NULL where it is not known */
    bool reproducible;      /* the kernel is */
    const char *reason;     /* of SKIPPED, or of a run that failed; else NULL */
    attune_metrics metrics; /* only the verdict means something where there is a reason */
    double milliseconds;    /* of a run that is judged; else 0 */
} compare_row;

typedef struct compare_tally {
    int verdicts[ATTUNE_VERDICT_SKIPPED + 1]; /* of runs */
    int identical, differing, beyond; /* pairs: no bit, within the sum of the bounds, more */
} compare_tally;

void compare_print_head(const compared_case *c);
void compare_print_row(bool json, const compared_case *c, const compare_row *row);
void compare_print_summary(const compare_tally *tally);

#endif
