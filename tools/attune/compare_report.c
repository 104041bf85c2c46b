#include "compare_report.h"

#include <math.h>
#include <stdio.h>

#include "inputs.h"
#include "json.h"

void compare_print_head(const compared_case *c)
{
    char problem[512];
    attune_problem_print(c->problem, problem, sizeof problem);
    printf("\n%s", problem);
    if (c->fill) printf("  fill %s, seed %llu", c->fill, (unsigned long long)c->seed);
    printf("\n  %-22s %-42s %8s %8s %8s %6s %6s %8s  %s\n", "device", "kernel", "max_abs",
           "rms_rel", "max_ulp", "ratio", "bias", "lse_abs", "verdict");
}

/* Figures that were not measured are null. */
static void print_json(const compared_case *c, const compare_row *row)
{
    const attune_metrics *const m = &row->metrics;
    const bool judged = !row->reason, timed = row->milliseconds > 0;
    char problem[512];
    attune_problem_print(c->problem, problem, sizeof problem);
    json_begin();
    json_text("problem", problem);
    json_text("fill", c->fill);
    c->fill ? json_integer("seed", c->seed) : json_null("seed");
    json_text("device", row->device);
    json_text("against", row->against);
    json_text("kernel", row->kernel);
    json_text("engine", row->engine);
    row->engine ? json_bool("reproducible", row->reproducible) : json_null("reproducible");
    json_number("max_abs", judged ? m->max_abs : NAN);
    json_number("rms_rel", judged ? m->rms_rel : NAN);
    json_number("max_ulp", judged ? m->max_ulp : NAN);
    json_number("bound_ratio", judged ? m->bound_ratio : NAN);
    json_number("bias", judged ? m->bias : NAN);
    json_number("lse_max_abs", judged ? m->lse_max_abs : NAN);
    json_number("lse_bound_ratio", judged ? m->lse_bound_ratio : NAN);
    row->against ? json_integer("differ", (uint64_t)m->differ) : json_null("differ");
    json_text("verdict", attune_verdict_name(m->verdict));
    json_text("reason", row->reason);
    json_number("milliseconds", timed ? row->milliseconds : NAN);
    json_number("gflops", timed ? problem_flops(c->problem) / (row->milliseconds * 1e6) : NAN);
    json_end();
}

static void print_text(const compared_case *c, const compare_row *row)
{
    const attune_metrics *const m = &row->metrics;
    char device[80], how[128];
    if (row->against)
        snprintf(device, sizeof device, "%s ~ %s", row->device, row->against);
    else
        snprintf(device, sizeof device, "%s", row->device);
    if (row->reason) {
        printf("  %-22s %s: %s\n", device, attune_verdict_name(m->verdict), row->reason);
        return;
    }
    if (row->against && m->differ == 0) {
        printf("  %-22s identical\n", device);
        return;
    }
    if (row->against)
        snprintf(how, sizeof how, "%lld numbers differ", (long long)m->differ);
    else if (row->kernel)
        snprintf(how, sizeof how, "%s", row->kernel);
    else
        snprintf(how, sizeof how, "three steps in %s", attune_dtype_name(c->problem->dtype));
    printf("  %-22s %-42s %8.1e %8.1e %8.3g %6.3f %+6.2f %8.1e  %s\n", device, how, m->max_abs,
           m->rms_rel, m->max_ulp, m->bound_ratio, m->bias, m->lse_max_abs,
           attune_verdict_name(m->verdict));
}

void compare_print_row(bool json, const compared_case *c, const compare_row *row)
{
    if (json)
        print_json(c, row);
    else
        print_text(c, row);
}

void compare_print_summary(const compare_tally *t)
{
    int runs = 0;
    for (int v = 0; v <= ATTUNE_VERDICT_SKIPPED; v++) runs += t->verdicts[v];
    printf("\n%d run%s:", runs, runs == 1 ? "" : "s");
    for (int v = 0; v <= ATTUNE_VERDICT_SKIPPED; v++)
        if (t->verdicts[v] > 0)
            printf(" %d %s", t->verdicts[v], attune_verdict_name((attune_verdict)v));
    if (t->identical + t->differing + t->beyond > 0)
        printf("; pairs of devices: %d identical, %d different within their bounds, %d beyond",
               t->identical, t->differing, t->beyond);
    putchar('\n');
}
