#include "tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tally_add(tally *t, const attune_metrics *metrics, const char *name, bool proves)
{
    t->cases++;
    t->verdicts[metrics->verdict]++;
    t->proving += proves;
    t->mistrusted += proves && metrics->verdict == ATTUNE_VERDICT_MISTRUSTED;
    if (metrics->lse_bound_ratio > t->worst_lse) t->worst_lse = metrics->lse_bound_ratio;
    if (metrics->bound_ratio > t->worst) {
        t->worst = metrics->bound_ratio;
        snprintf(t->worst_case, sizeof t->worst_case, "%s", name);
    }
}

void tally_skip(tally *t, const char *reason)
{
    t->cases++;
    t->verdicts[ATTUNE_VERDICT_SKIPPED]++;
    for (int i = 0; i < MAX_REASONS; i++) {
        if (strcmp(t->reasons[i], reason) == 0) return;
        if (t->reasons[i][0] == '\0') {
            snprintf(t->reasons[i], sizeof t->reasons[i], "%s", reason);
            return;
        }
    }
}

void tally_print_header(void)
{
    printf("\n%-22s %-5s %8s %8s %8s %10s %6s %8s %9s %9s %9s %9s\n", "device", "dtype", "cases",
           "PASS", "MARGINAL", "MISTRUSTED", "FAIL", "SKIPPED", "differ", "may", "ratio", "lse");
}

void tally_print(const tally *t, const char *device, const char *dtype)
{
    printf("%-22s %-5s %8" PRId64 " %8" PRId64 " %8" PRId64 " %10" PRId64 " %6" PRId64 " %8" PRId64
           " %9" PRId64 " %9" PRId64 " %9.3g %9.3g\n",
           device, dtype, t->cases, t->verdicts[ATTUNE_VERDICT_PASS],
           t->verdicts[ATTUNE_VERDICT_MARGINAL], t->verdicts[ATTUNE_VERDICT_MISTRUSTED],
           t->verdicts[ATTUNE_VERDICT_FAIL], t->verdicts[ATTUNE_VERDICT_SKIPPED], t->different,
           t->may_differ, t->worst, t->worst_lse);
    if (t->worst_case[0] != '\0') printf("    worst: %s\n", t->worst_case);
    for (int i = 0; i < MAX_REASONS && t->reasons[i][0] != '\0'; i++)
        printf("    skipped: %s\n", t->reasons[i]);
}
