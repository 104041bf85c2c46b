/* A trial whose output starts as the exact answer, rounded, and is judged after the test has changed it. */
#ifndef ATTUNE_TESTS_JUDGEMENT_H
#define ATTUNE_TESTS_JUDGEMENT_H

#include "trial.h"

#define ORDINARY "op=forward,b=2,hq=2,hkv=1,sq=3,sk=40,d=8,dv=5,lse=1"

typedef struct judgement {
    trial t;
    attune_reference *reference;
    attune_arithmetic arithmetic;
    attune_metrics metrics;
} judgement;

/* The exact answer rounded to the type, and lse to fp32: what the best kernel could give. */
void write_exact(trial *t, const attune_reference *reference);

judgement judgement_begin(const char *problem, attune_fill fill);
void judgement_end(judgement *j);

/* Judges o and lse as they are now. */
attune_verdict judgement_verdict(judgement *j);

/* The bound of one element of packed o. */
double judgement_bound(const judgement *j, int64_t index);

#endif
