/* Makes, runs and destroys plans on the fake GPU: `many_plans COUNT`. Nothing may live on it afterwards; valgrind looks after the host. */
#include <attune/attune.h>
#include <attune/device.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_cuda.h"

static attune_status run(attune_context *context, const attune_problem *problem)
{
    enum { BUFFERS = 5, BYTES = 4096 };
    attune_forward_tensors tensors;
    attune_forward_tensors_init(&tensors);
    attune_buffer *const buffers[BUFFERS] = {&tensors.q, &tensors.k, &tensors.v, &tensors.o,
                                             &tensors.lse};
    attune_plan *plan = NULL;
    double milliseconds;
    attune_status status = attune_plan_create(context, problem, NULL, &plan);
    for (int i = 0; i < BUFFERS && status == ATTUNE_OK; i++)
        status = attune_buffer_alloc(context, BYTES, buffers[i]);
    if (status == ATTUNE_OK) status = attune_plan_run(plan, &tensors, NULL);
    if (status == ATTUNE_OK) status = attune_forward(context, problem, &tensors, NULL);
    if (status == ATTUNE_OK) status = attune_plan_time(plan, &tensors, NULL, &milliseconds);
    if (status == ATTUNE_OK) status = attune_synchronize(context, NULL);
    for (int i = 0; i < BUFFERS; i++) attune_buffer_free(context, buffers[i]);
    attune_plan_destroy(plan);
    return status;
}

/* Different problems, so that there are several kernels and more plans than a context keeps. */
static attune_status run_all(int count)
{
    attune_context *context = NULL;
    attune_status status = attune_context_open("cuda:0", NULL, &context);
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        attune_problem problem;
        attune_problem_init(&problem, (attune_dtype)(i % 3), 1, 1, 1, 2, 1 + i % 100, 8, 8);
        problem.return_lse = i % 2;
        status = run(context, &problem);
    }
    attune_context_close(context);
    return status;
}

int main(int argc, char **argv)
{
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    fake_cuda_state *const cuda = driver != NULL ? dlsym(driver, "fake_cuda") : NULL;
    if (cuda == NULL) return 2;
    cuda->machine.load_codes[FAKE_FAT_BINARY] = 209; /* so that the compiler has work */
    if (run_all(argc > 1 ? atoi(argv[1]) : 1) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", attune_error_detail());
        return 1;
    }
    const int live = cuda->live.contexts + cuda->live.modules + cuda->live.allocations +
                     cuda->live.events + cuda->stack()->depth;
    if (live != 0) fprintf(stderr, "%d objects live on\n", live);
    return live != 0;
}
