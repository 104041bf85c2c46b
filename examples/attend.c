/* Causal attention of the last 128 of 1024 tokens, 8 query heads on 2 key heads, on the device that is named (or the default one). */
#include <attune/attune.h>
#include <attune/device.h>
#include <stdbool.h>
#include <stdio.h>

/* (seq, head, dim). Where q is 0 all visible keys weigh alike, so that o is the mean of their values. */
static float q[128][8][64], k[1024][2][64], v[1024][2][64], o[128][8][64];

int main(int argc, char **argv)
{
    for (int j = 0; j < 1024; j++)
        for (int d = 0; d < 64; d++) v[j][0][d] = v[j][1][d] = (float)j;

    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F32, 1, 8, 2, 128, 1024, 64, 64);
    problem.mask = ATTUNE_MASK_CAUSAL;

    attune_context *device = NULL;
    attune_plan *plan = NULL;
    attune_forward_tensors t;
    attune_forward_tensors_init(&t);
    const bool failed =
        attune_context_open(argc > 1 ? argv[1] : NULL, NULL, &device) ||
        attune_plan_create(device, &problem, NULL, &plan) ||
        attune_buffer_alloc(device, sizeof q, &t.q) ||
        attune_buffer_alloc(device, sizeof k, &t.k) ||
        attune_buffer_alloc(device, sizeof v, &t.v) ||
        attune_buffer_alloc(device, sizeof o, &t.o) ||
        attune_buffer_alloc(device, attune_plan_workspace_size(plan), &t.workspace) ||
        attune_buffer_write(device, t.q, q, sizeof q, NULL) ||
        attune_buffer_write(device, t.k, k, sizeof k, NULL) ||
        attune_buffer_write(device, t.v, v, sizeof v, NULL) || /* the same queue, so in order */
        attune_plan_run(plan, &t, NULL) || attune_buffer_read(device, t.o, o, sizeof o, NULL);
    if (failed)
        fprintf(stderr, "%s\n", attune_error_detail());
    else
        printf("%s: first %g, last %g\n", attune_plan_kernel(plan), o[0][0][0], o[127][7][63]);

    attune_buffer *const buffers[] = {&t.q, &t.k, &t.v, &t.o, &t.workspace};
    for (int i = 0; i < 5; i++) attune_buffer_free(device, buffers[i]);
    attune_plan_destroy(plan);
    attune_context_close(device);
    return failed;
}
