/* The search for the best kernel of one problem on one device. */
#ifndef ATTUNE_COMMAND_TUNE_SEARCH_H
#define ATTUNE_COMMAND_TUNE_SEARCH_H

#include "attune/tuning.h"
#include "options.h"

typedef struct tune_counts {
    int candidates; /* kernels that compute the problem on the device, of the smallest head_dim that suffices */
    int refused;  /* by the rules, against the device's real limits */
    int judged;   /* right */
    int rejected; /* wrong, crashed, hung, other bits, or not built */
    int pruned;   /* right or not, they spill, or leave schedulers idle */
    int timed;
    int known;   /* from the run that this one goes on with */
    int untried; /* for lack of time */
} tune_counts;

typedef struct tune_result {
    char default_kernel[96];
    tune_counts counts;
    int same_bits;      /* kernels whose o and lse had to have the same bits, and had */
    bool already_tuned; /* and so nothing was done: --resume */
    bool interrupted;   /* by the user */
    bool untimed;       /* times of this device say nothing */
    attune_tuning_winner winner;
} tune_result;

/* `seconds`: what it may take; the default kernel is measured at least. 0, or an exit code after one sentence; EXIT_FAILED where the default itself
 * is wrong. */
int tune_search(const options *o, attune_tuning_db *db, attune_context *context,
                const attune_problem *problem, double seconds, tune_result *result);

#endif
