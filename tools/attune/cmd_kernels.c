#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>

#include "attune/device.h"
#include "attune/tuning.h"
#include "commands.h"
#include "fail.h"
#include "inputs.h"
#include "json.h"

/* --why is about the kernels of the glob, if there is one. */
static bool is_asked_for(const options *o, const attune_kernel_info *kernel)
{
    if (!kernel->reason) return true;
    return o->why && (!o->kernel || fnmatch(o->kernel, kernel->id, 0) == 0);
}

typedef struct listing {
    const options *options;
    int lines;
} listing;

static int print_kernel(const attune_kernel_info *kernel, void *user)
{
    listing *const l = user;
    const options *const o = l->options;
    if (!is_asked_for(o, kernel)) return 0;
    l->lines++;
    if (o->json) {
        json_begin();
        json_text("kernel", kernel->id);
        json_text("engine", kernel->engine);
        json_bool("reproducible", kernel->reproducible);
        json_text("preference", kernel->preference);
        json_text("reason", kernel->reason);
        json_end();
    } else {
        printf("%-48s %-7s %s%s", kernel->id, kernel->engine,
               kernel->reproducible ? "reproducible" : "usual", kernel->tf32 ? " tf32" : "");
        if (kernel->reason) printf("  no: %s", kernel->reason);
        if (o->why && !kernel->reason && kernel->preference) printf("  %s", kernel->preference);
        putchar('\n');
    }
    return 0;
}

/* With --why: whether measurements had a say. */
static attune_status print_tuning(const options *o, attune_context *context)
{
    const attune_tuning_state *state;
    const attune_status status = attune_context_tuning(context, &state);
    if (status != ATTUNE_OK || !o->why || o->json) return status;
    if (state->winners > 0)
        printf("measurements: %s, %d for this device and build\n", state->path,
               (int)state->winners);
    else
        printf("measurements: none, %s\n", state->reason);
    return status;
}

int command_kernels(const options *o)
{
    attune_problem problem;
    if (o->problem_count > 1) return fail(EXIT_BAD_INPUT, "kernels takes one --problem");
    if (o->problem_count == 1 && problem_read(o, o->problems[0], false, &problem) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    attune_context *context = NULL;
    const attune_plan_options plan = options_of_plan(o);
    listing l = {.options = o};
    attune_status status = attune_context_open(o->device, NULL, &context);
    if (status == ATTUNE_OK) status = print_tuning(o, context);
    if (status == ATTUNE_OK)
        status = attune_kernels_visit(context, o->problem_count ? &problem : NULL, &plan,
                                      print_kernel, &l);
    attune_context_close(context);
    if (status == ATTUNE_OK && l.lines == 0 && !o->json)
        fprintf(stderr, "attune kernels: none%s\n", o->why ? "" : "; --why says why not");
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}
