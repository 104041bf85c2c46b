/* Whether a kernel may be used at all: judged against the oracle before any time of it counts. */
#ifndef ATTUNE_COMMAND_TUNE_JUDGE_H
#define ATTUNE_COMMAND_TUNE_JUDGE_H

#include <stdint.h>

#include "attune/device.h"
#include "attune/numerics.h"
#include "inputs.h"

/* A small problem with its inputs and exact answer; made when it is first needed. */
typedef struct small_case {
    inputs in;
    attune_reference *reference;
} small_case;

enum { SMALL_CASES = 5, JUDGED_ROWS = 16 };

typedef struct tune_judge {
    small_case cases[SMALL_CASES]; /* like the tuned problem, but small, with tails in every tile */
    /* rows of the tuned problem itself; head_dim_v numbers each */
    double *o[JUDGED_ROWS];
    attune_error_terms *terms[JUDGED_ROWS];
    int rows;
} tune_judge;

/* 0, or an exit code after one sentence. */
int tune_judge_open(tune_judge *judge, const options *o, const inputs *tuned);
void tune_judge_close(tune_judge *judge);

/* Judges a kernel on the small problems. The largest ratio of an error to its bound; false with a reason where the kernel is wrong or fails. */
bool tune_judge_small(const tune_judge *judge, attune_context *context, const char *kernel,
                      double *bound_ratio, char reason[256]);

/* Judges what it made of the tuned problem: some rows within their bounds. `o` and `lse` are on the host, `lse` packed or
 * NULL; `bits` becomes a hash of both. */
bool tune_judge_full(const tune_judge *judge, const inputs *tuned, const attune_plan *plan,
                     const void *o, const float *lse, double *bound_ratio, uint64_t *bits,
                     char reason[256]);

#endif
