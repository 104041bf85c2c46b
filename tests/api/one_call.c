/* Makes, runs and destroys plans: `one_call [COUNT]`. For tests that look at a process from
 * outside. */
#include <attune/attune.h>
#include <attune/device.h>

#include <stdio.h>
#include <stdlib.h>

static int run(attune_context *context, const attune_problem *problem)
{
    static float q[2 * 8], k[3 * 8], v[3 * 8], o[2 * 8], workspace[16384];
    attune_forward_tensors tensors;
    attune_plan *plan;
    attune_forward_tensors_init(&tensors);
    tensors.q.handle = q;
    tensors.k.handle = k;
    tensors.v.handle = v;
    tensors.o.handle = o;
    tensors.workspace.handle = workspace;
    if (attune_plan_create(context, problem, NULL, &plan) != ATTUNE_OK) return 1;
    const int fits = attune_plan_workspace_size(plan) <= sizeof workspace;
    const int failed = !fits || attune_plan_run(plan, &tensors, NULL) != ATTUNE_OK;
    attune_plan_destroy(plan);
    return failed || attune_forward(context, problem, &tensors, NULL) != ATTUNE_OK;
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 1;
    attune_context *context;
    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 2, 3, 8, 8);
    int failed = attune_context_open("cpu", NULL, &context) != ATTUNE_OK;
    for (int i = 0; i < count && !failed; i++) failed = run(context, &problem);
    if (failed) fprintf(stderr, "%s\n", attune_error_detail());
    attune_context_close(context);
    return failed;
}
