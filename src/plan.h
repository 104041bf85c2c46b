/* A plan: everything about a call that can be decided before it. Immutable once made. */
#ifndef ATTUNE_PLAN_H
#define ATTUNE_PLAN_H

#include "choose.h"
#include "problem.h"

struct attune_plan {
    attune_context *context;
    attune_problem problem; /* normalised */
    kernel_choice choice;
    void *kernel;                       /* the backend's, ready to launch */
    attune_forward_args arguments;      /* but for the offsets, which a run adds */
    int64_t tensor_bytes[TENSOR_COUNT]; /* from the first element to behind the last */
    int64_t lse_bytes;
};

/* What is wanted of a kernel, by options that may be NULL; reads the context's measurements unless the options leave them out. */
attune_status plan_request(attune_context *context, const attune_problem *normal,
                           const attune_plan_options *given, kernel_request *request);

/* attune_plan_create for a normalised problem; NULL for the default options. */
attune_status plan_make(attune_context *context, const attune_problem *normal,
                        const attune_plan_options *options, attune_plan **plan);

/* Checks the tensors and adds their places to the plan's arguments: what a backend launches. */
attune_status plan_bind(const attune_plan *plan, const attune_forward_tensors *tensors,
                        attune_forward_args *arguments, attune_launch *launch);

#endif
