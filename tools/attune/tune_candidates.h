/* The kernels that may win for a problem, and what is known of each. */
#ifndef ATTUNE_COMMAND_TUNE_CANDIDATES_H
#define ATTUNE_COMMAND_TUNE_CANDIDATES_H

#include <stdbool.h>

#include "attune/tuning.h"
#include "tune_worker.h"

enum { TUNE_MOST_CANDIDATES = 4096 };

typedef struct candidate {
    char id[96], engine[16];
    bool reproducible;
    int block_q, block_k, threads;
    double distance;       /* from the default, in octaves of its sizes */
    bool alive;            /* was found right, and may still win */
    bool known;            /* from the run that this one goes on with */
    char reason[256];      /* why it is not alive; "" where it is, or was only too slow */
    attune_measurement of; /* its last; `kernel` and `bits` point into this struct */
    char bits[24];
    double times[WORKER_MOST_SAMPLES]; /* of the present rung */
} candidate;

typedef struct candidates {
    candidate *at; /* the default first, then its neighbours; freed by the owner */
    int count;
    int head_dim; /* of all of them */
    int refused;  /* kernels for the problem that the rules refuse on this device */
} candidates;

/* Of the kernels that a plan could use those of the smallest head_dim that suffices. UNSUPPORTED, with the plan's own sentence, where there is none. */
attune_status candidates_find(candidates *c, attune_context *context, const attune_problem *problem,
                              const attune_plan_options *options);

/* Takes over what a run has measured: how many candidates that is; `rung` becomes its last one. */
attune_status candidates_take_known(candidates *c, attune_tuning_db *db, int64_t run, int *known,
                                    int *rung);

/* Whether a promise says that the two give the same bits: engines vector and simt together, and the reproducible kernels of one matrix unit, whose
 * number ends their ids. */
bool candidates_must_agree(const candidate *a, const candidate *b);

/* Those that may still win and were timed, the fastest first: their number. `field` has room for all. */
int candidates_alive(candidates *c, candidate **field);

#endif
