#include <fnmatch.h>
#include <stdio.h>

#include "attune/device.h"
#include "commands.h"
#include "fail.h"
#include "inputs.h"
#include "json.h"

static int print_kernel(const char *id, const char *reason, void *user)
{
    const options *const o = user;
    if ((reason && !o->why) || (o->kernel && fnmatch(o->kernel, id, 0) != 0)) return 0;
    if (o->json) {
        json_begin();
        json_text("kernel", id);
        json_text("reason", reason);
        json_end();
    } else if (reason) {
        printf("%-48s no: %s\n", id, reason);
    } else {
        puts(id);
    }
    return 0;
}

int command_kernels(const options *o)
{
    attune_problem problem;
    if (o->problem_count > 1) return fail(EXIT_BAD_INPUT, "kernels takes one --problem");
    if (o->problem_count == 1 && problem_read(o, o->problems[0], false, &problem) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    attune_context *context = NULL;
    attune_status status = attune_context_open(o->device, NULL, &context);
    if (status == ATTUNE_OK)
        status = attune_kernels_visit(context, o->problem_count ? &problem : NULL, print_kernel,
                                      (void *)o);
    attune_context_close(context);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}
