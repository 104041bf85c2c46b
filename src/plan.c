#include "plan.h"

#include "attune/numerics.h"
#include "context.h"
#include "log.h"
#include "occupancy.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

void attune_plan_options_init(attune_plan_options *options)
{
    *options = (attune_plan_options){.struct_size = sizeof *options};
}

attune_status attune_engine_check(const char *name)
{
#define IS_NAMED(engine, what) strcmp(name, #engine) == 0 ||
#define LISTED(engine, what) ", " #engine
    RETURN_IF_NULL(name);
    if (ATTUNE_ENGINES(IS_NAMED) false) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "no engine \"%s\"; there are %s", name,
                       &ATTUNE_ENGINES(LISTED)[sizeof ", " - 1]);
#undef IS_NAMED
#undef LISTED
}

static attune_status check_flag(const char *name, int32_t flag)
{
    if (flag == 0 || flag == 1) return ATTUNE_OK;
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is %" PRId32 "; 0 and 1 are accepted", name,
                       flag);
}

/* What is wanted of a kernel, by options that may be NULL. Naming an engine or one kernel asks for
 * what it does to f32, too. */
attune_status plan_request(attune_context *context, const attune_problem *normal,
                           const attune_plan_options *given, kernel_request *request)
{
    attune_plan_options options;
    attune_plan_options_init(&options);
    if (given != NULL)
        RETURN_IF_FAILED(struct_copy(&options, sizeof options,
                                     offsetof(attune_plan_options, engine), given,
                                     "attune_plan_options"));
    if (options.engine != NULL) RETURN_IF_FAILED(attune_engine_check(options.engine));
    RETURN_IF_FAILED(check_flag("reproducible", options.reproducible));
    RETURN_IF_FAILED(check_flag("allow_tf32", options.allow_tf32));
    RETURN_IF_FAILED(check_flag("deterministic", options.deterministic));
    if (options.deterministic == 0) tuning_lookup_read(context);

    const char *const glob = options.kernel != NULL ? options.kernel : context->kernel_glob;
    *request = (kernel_request){
        .problem = normal,
        .caps = context->caps,
        .table = context->backend->table,
        .glob = glob,
        .engine = options.engine,
        .reproducible = options.reproducible != 0,
        .tf32 =
            options.allow_tf32 != 0 || options.engine != NULL || (glob != NULL && glob_is_id(glob)),
        .hint = options.hint,
        .measured = context->tuning.winners,
        .measured_count = options.deterministic != 0 ? 0 : context->tuning.count,
    };
    return ATTUNE_OK;
}

/* ---- making ---- */

static attune_status no_kernel(const kernel_request *request, const ranked_kernel *ranked)
{
    char reasons[1536];
    kernels_explain(request, ranked, reasons, sizeof reasons);
    return attune_fail(ATTUNE_UNSUPPORTED, "%s", reasons);
}

/* The best kernel that the device accepts and its compiler builds. A compiler that refuses this many is not asked again; the
 * detail is then about the first, which is the one that matters. */
static attune_status load_best(attune_plan *plan, const kernel_request *request,
                               const ranked_kernel *ranked)
{
    enum { MOST_REFUSALS = 8 };
    const attune_context *const context = plan->context;
    char first[768] = "";
    int refusals = 0;
    for (int place = 0; refusals < MOST_REFUSALS &&
                        (place = plan_choose(request, ranked, place, &plan->choice)) >= 0;
         place++) {
        const attune_kernel_row *const row = plan->choice.row;
        const double start = clock_milliseconds();
        const attune_status status = context->backend->load(context->device, row, &plan->kernel);
        if (context->verbose)
            log_line(status == ATTUNE_OK ? "plan" : "passed-over", &plan->problem,
                     context->caps->info.id, row->id, clock_milliseconds() - start,
                     status == ATTUNE_OK ? "" : attune_error_detail());
        if (status != ATTUNE_BUILD_FAILED) return status;
        if (refusals++ == 0) snprintf(first, sizeof first, "%s", attune_error_detail());
    }
    if (refusals == 0) return no_kernel(request, ranked);
    if (refusals == 1) return attune_fail(ATTUNE_BUILD_FAILED, "%s", first);
    return attune_fail(ATTUNE_BUILD_FAILED, "%s; %d more kernels were refused too", first,
                       refusals - 1);
}

static void measure(attune_plan *plan)
{
    const attune_problem *const problem = &plan->problem;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const tensor_shape shape = problem_tensor(problem, t);
        plan->tensor_bytes[t] =
            attune_span(shape.sizes, shape.strides) * (int64_t)attune_dtype_size(problem->dtype);
    }
    if (problem->return_lse != 0)
        plan->lse_bytes =
            problem->batch * problem->heads_q * problem->seqlen_q * (int64_t)sizeof(float);
}

attune_status plan_make(attune_context *context, const attune_problem *normal,
                        const attune_plan_options *options, attune_plan **plan)
{
    kernel_request request;
    RETURN_IF_FAILED(plan_request(context, normal, options, &request));
    attune_plan *const made = malloc(sizeof *made);
    ranked_kernel *const ranked = kernels_ranked(&request);
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    if (made == NULL || ranked == NULL) {
        attune_fail(status, "no memory for a plan");
    } else {
        *made = (attune_plan){
            .context = context, .problem = *normal, .arguments = problem_arguments(normal)};
        measure(made);
        status = load_best(made, &request, ranked);
    }
    free(ranked);
    if (status == ATTUNE_OK)
        *plan = made;
    else
        free(made);
    return status;
}

attune_status attune_plan_create(attune_context *context, const attune_problem *problem,
                                 const attune_plan_options *options, attune_plan **plan)
{
    RETURN_IF_NULL(plan);
    *plan = NULL;
    RETURN_IF_NULL(context);
    attune_problem normal;
    RETURN_IF_FAILED(problem_normalise(problem, &normal));
    return plan_make(context, &normal, options, plan);
}

void attune_plan_destroy(attune_plan *plan)
{
    if (plan == NULL) return;
    plan->context->backend->unload(plan->context->device, plan->kernel);
    free(plan);
}

/* ---- what a plan knows ---- */

size_t attune_plan_workspace_size(const attune_plan *plan)
{
    return plan == NULL ? 0 : (size_t)plan->choice.workspace;
}

const char *attune_plan_kernel(const attune_plan *plan)
{
    return plan == NULL ? NULL : plan->choice.row->id;
}

const char *attune_plan_engine(const attune_plan *plan)
{
    return plan == NULL ? NULL : plan->choice.row->engine;
}

int32_t attune_plan_reproducible(const attune_plan *plan)
{
    return plan == NULL ? 0 : plan->choice.row->reproducible;
}

attune_status attune_plan_arithmetic(const attune_plan *plan, attune_arithmetic *arithmetic)
{
    RETURN_IF_NULL(plan);
    RETURN_IF_NULL(arithmetic);
    static const double roundoff[] = {
        [ATTUNE_F32] = 0x1p-24, [ATTUNE_F16] = 0x1p-11, [ATTUNE_BF16] = 0x1p-8};
    const attune_kernel_row *const row = plan->choice.row;
    const attune_problem *const problem = &plan->problem;
    const bool flushes =
        row->subnormals != NULL && !device_has(plan->context->caps, row->subnormals);
    *arithmetic = (attune_arithmetic){
        .u_out = roundoff[problem->dtype],
        .u_in = row->u_in,
        .u_p = row->u_p,
        /* of a P that is read as 0 all is lost, not half a unit in its last place */
        .eta_p = flushes ? row->eta_p / row->u_p : row->eta_p,
        .flushes = flushes ? 1.0 : 0.0,
        .u_acc = row->u_acc,
        .eps_exp = row->eps_exp,
        .n_s = (double)ATTUNE_CEIL_DIV(problem->head_dim, row->qk_step),
        .n_pv = (double)(ATTUNE_CEIL_DIV(problem->seqlen_k, row->pv_step) +
                         ATTUNE_CEIL_DIV(problem->seqlen_k, row->block_k)),
    };
    return ATTUNE_OK;
}

attune_status attune_plan_resources(const attune_plan *plan, attune_kernel_resources *resources)
{
    RETURN_IF_NULL(plan);
    RETURN_IF_NULL(resources);
    const attune_context *const context = plan->context;
    *resources = (attune_kernel_resources){.threads = plan->choice.row->threads,
                                           .fast_memory = -1,
                                           .registers = -1,
                                           .spill_bytes = -1};
    if (context->backend->resources != NULL)
        context->backend->resources(context->device, plan->kernel, resources);
    occupancy_model(context->caps, resources);
    return ATTUNE_OK;
}

attune_status attune_kernels_visit(attune_context *context, const attune_problem *problem,
                                   const attune_plan_options *options,
                                   attune_kernel_visitor *visitor, void *user)
{
    RETURN_IF_NULL(context);
    RETURN_IF_NULL(visitor);
    attune_problem normal;
    if (problem != NULL) RETURN_IF_FAILED(problem_normalise(problem, &normal));
    kernel_request request;
    RETURN_IF_FAILED(plan_request(context, problem == NULL ? NULL : &normal, options, &request));
    ranked_kernel *const ranked = kernels_ranked(&request);
    if (ranked == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for the list of kernels");

    bool stop = false;
    for (int i = 0; i < request.table->row_count && !stop; i++) {
        char reason[KERNEL_REASON_SIZE], preference[KERNEL_PREFERENCE_SIZE];
        kernel_choice choice;
        const attune_kernel_row *const row = ranked[i].row;
        const bool accepted = kernel_accepts(&request, row, &choice, reason);
        const attune_kernel_info info = {
            .id = row->id,
            .engine = row->engine,
            .reason = accepted ? NULL : reason,
            .reproducible = row->reproducible,
            .tf32 = row->u_in > 0.0,
            .head_dim = row->head_dim,
            .block_q = row->block_q,
            .block_k = row->block_k,
            .threads = row->threads,
            .preference = ranked[i].computes ? preference : NULL,
        };
        if (ranked[i].computes) kernel_preference(&request, &ranked[i], preference);
        stop = visitor(&info, user) != 0;
    }
    free(ranked);
    return ATTUNE_OK;
}

/* ---- binding buffers ---- */

/* Checks a place of `bytes` bytes, whose offset must be a multiple of `unit`, and turns the
 * offset into units. */
static attune_status bind_buffer(const char *name, attune_buffer buffer, int64_t bytes, size_t unit,
                                 int64_t *units)
{
    *units = 0;
    if (bytes == 0) return ATTUNE_OK;
    if (buffer.handle == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.handle is NULL; a buffer of %" PRId64 " bytes is needed", name,
                           bytes);
    if (buffer.offset % unit != 0)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.offset is %zu; a multiple of %zu is accepted", name, buffer.offset,
                           unit);
    if (buffer.offset > (size_t)(INT64_MAX - bytes))
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.offset is %zu; at most %" PRId64 " is accepted", name, buffer.offset,
                           INT64_MAX - bytes);
    *units = (int64_t)(buffer.offset / unit);
    return ATTUNE_OK;
}

/* Beyond what is checked here, only the caller can know what o overlaps. */
static attune_status check_output(const attune_plan *plan,
                                  const attune_buffer buffers[TENSOR_COUNT])
{
    static const char *const names[] = {"q", "k", "v"};
    const attune_buffer o = buffers[TENSOR_O];
    for (int t = TENSOR_Q; t < TENSOR_O; t++)
        if (plan->tensor_bytes[t] > 0 && buffers[t].handle == o.handle &&
            buffers[t].offset == o.offset)
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "o starts where %s does; o may overlap no input", names[t]);
    return ATTUNE_OK;
}

attune_status plan_bind(const attune_plan *plan, const attune_forward_tensors *tensors,
                        attune_forward_args *arguments, attune_launch *launch)
{
    enum { WORKSPACE_ALIGNMENT = 64 };
    RETURN_IF_NULL(tensors);
    attune_forward_tensors given;
    RETURN_IF_FAILED(
        struct_copy(&given, sizeof given, sizeof given, tensors, "attune_forward_tensors"));
    const size_t element = attune_dtype_size(plan->problem.dtype);
    int64_t lines; /* of the workspace's alignment */

    *arguments = plan->arguments;
    RETURN_IF_FAILED(
        bind_buffer("q", given.q, plan->tensor_bytes[TENSOR_Q], element, &arguments->q.offset));
    RETURN_IF_FAILED(
        bind_buffer("k", given.k, plan->tensor_bytes[TENSOR_K], element, &arguments->k.offset));
    RETURN_IF_FAILED(
        bind_buffer("v", given.v, plan->tensor_bytes[TENSOR_V], element, &arguments->v.offset));
    RETURN_IF_FAILED(
        bind_buffer("o", given.o, plan->tensor_bytes[TENSOR_O], element, &arguments->o.offset));
    RETURN_IF_FAILED(
        bind_buffer("lse", given.lse, plan->lse_bytes, sizeof(float), &arguments->lse_offset));
    RETURN_IF_FAILED(bind_buffer("workspace", given.workspace, plan->choice.workspace,
                                 WORKSPACE_ALIGNMENT, &lines));
    arguments->workspace_offset = lines * (WORKSPACE_ALIGNMENT / (int64_t)sizeof(float));

    const attune_buffer buffers[TENSOR_COUNT] = {given.q, given.k, given.v, given.o};
    RETURN_IF_FAILED(check_output(plan, buffers));

    *launch = (attune_launch){
        .args = arguments,
        .q = given.q.handle,
        .k = given.k.handle,
        .v = given.v.handle,
        .o = given.o.handle,
        .lse = given.lse.handle,
        .workspace = given.workspace.handle,
        .pack_groups = plan->choice.pack_groups,
        .groups = plan->choice.groups,
    };
    return ATTUNE_OK;
}
