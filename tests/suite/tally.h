/* What the suite counts for one device and dtype, and how it tells it. */
#ifndef ATTUNE_TESTS_TALLY_H
#define ATTUNE_TESTS_TALLY_H

#include "device.h"

enum { VERDICTS = ATTUNE_VERDICT_SKIPPED + 1, MAX_REASONS = 4 };

typedef struct tally {
    int64_t cases, verdicts[VERDICTS];
    int64_t proving;    /* cases whose fill and problem can tell a right output from a constant */
    int64_t mistrusted; /* of them */
    int64_t different;  /* cases whose bits differ from the first device's where they may not */
    int64_t may_differ; /* and where they may */
    double worst, worst_lse; /* largest bound ratios */
    char worst_case[640];
    char reasons[MAX_REASONS][REASON_SIZE]; /* why cases were skipped, each reason once */
} tally;

/* One verdict; `name` is the case as printed. `proves` says whether MISTRUSTED would be a surprise. */
void tally_add(tally *t, const attune_metrics *metrics, const char *name, bool proves);
void tally_skip(tally *t, const char *reason);

void tally_print_header(void);
void tally_print(const tally *t, const char *device, const char *dtype);

#endif
