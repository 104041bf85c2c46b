/* The walk of one call. A problem is brought into its one spelling (problem.c), its plan is
 * found (plan_cache.c) or made by choosing a kernel (plan.c, choose.c), the buffers are bound to
 * the plan's arguments (plan.c), and the backend launches the kernel. */
#include "context.h"
#include "log.h"
#include "plan.h"
#include "status.h"

void attune_forward_tensors_init(attune_forward_tensors *tensors)
{
    *tensors = (attune_forward_tensors){.struct_size = sizeof *tensors};
}

/* ---- the one-shot form ---- */

static attune_status hold_plan(attune_context *context, const attune_problem *problem,
                               attune_plan **plan)
{
    attune_problem normal;
    RETURN_IF_NULL(context);
    RETURN_IF_FAILED(problem_normalise(problem, &normal));
    *plan = plan_cache_acquire(&context->plans, &normal);
    if (*plan != NULL) return ATTUNE_OK;

    RETURN_IF_FAILED(plan_make(context, &normal, NULL, plan));
    *plan = plan_cache_insert(&context->plans, *plan);
    return ATTUNE_OK;
}

attune_status attune_forward(attune_context *context, const attune_problem *problem,
                             const attune_forward_tensors *tensors, attune_stream stream)
{
    attune_plan *plan;
    RETURN_IF_FAILED(hold_plan(context, problem, &plan));
    const attune_status status = attune_plan_run(plan, tensors, stream);
    plan_cache_release(&context->plans, plan);
    return status;
}

attune_status attune_forward_workspace_size(attune_context *context, const attune_problem *problem,
                                            size_t *bytes)
{
    RETURN_IF_NULL(bytes);
    attune_plan *plan;
    RETURN_IF_FAILED(hold_plan(context, problem, &plan));
    *bytes = attune_plan_workspace_size(plan);
    plan_cache_release(&context->plans, plan);
    return ATTUNE_OK;
}

/* ---- running a plan ---- */

static attune_status launch_and_wait(const attune_plan *plan, const attune_launch *launch,
                                     attune_stream stream, double *milliseconds)
{
    const attune_backend *const backend = plan->context->backend;
    void *const device = plan->context->device;
    if (backend->elapsed != NULL)
        return backend->elapsed(device, plan->kernel, launch, stream, milliseconds);

    RETURN_IF_FAILED(backend->sync(device, stream));
    const double start = clock_milliseconds();
    RETURN_IF_FAILED(backend->launch(device, plan->kernel, launch, stream));
    RETURN_IF_FAILED(backend->sync(device, stream));
    *milliseconds = clock_milliseconds() - start;
    return ATTUNE_OK;
}

static attune_status launch_timed(const attune_plan *plan, const attune_launch *launch,
                                  attune_stream stream, double *milliseconds)
{
    RETURN_IF_FAILED(launch_and_wait(plan, launch, stream, milliseconds));
    if (plan->context->verbose)
        log_line("run", &plan->problem, plan->context->caps->info.id, attune_plan_kernel(plan),
                 *milliseconds, "");
    return ATTUNE_OK;
}

attune_status attune_plan_run(const attune_plan *plan, const attune_forward_tensors *tensors,
                              attune_stream stream)
{
    attune_forward_args arguments;
    attune_launch launch;
    double milliseconds;
    RETURN_IF_NULL(plan);
    RETURN_IF_FAILED(plan_bind(plan, tensors, &arguments, &launch));
    if (launch.groups == 0) return ATTUNE_OK;
    if (plan->context->verbose) return launch_timed(plan, &launch, stream, &milliseconds);
    return plan->context->backend->launch(plan->context->device, plan->kernel, &launch, stream);
}

attune_status attune_plan_time(const attune_plan *plan, const attune_forward_tensors *tensors,
                               attune_stream stream, double *milliseconds)
{
    attune_forward_args arguments;
    attune_launch launch;
    RETURN_IF_NULL(plan);
    RETURN_IF_NULL(milliseconds);
    *milliseconds = 0.0;
    RETURN_IF_FAILED(plan_bind(plan, tensors, &arguments, &launch));
    return launch.groups == 0 ? ATTUNE_OK : launch_timed(plan, &launch, stream, milliseconds);
}
