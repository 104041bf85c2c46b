/* Attention over equal keys: the mean of the values. */
#include <attune/attune.h>
#include <attune/device.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const float q[2] = {1, 1}, k[4] = {1, 1, 1, 1}, v[4] = {1, 2, 3, 4};
    float o[2] = {0, 0};
    attune_context *context = NULL;
    attune_problem problem;
    attune_forward_tensors tensors;
    size_t bytes = 0;

    attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 1, 2, 2, 2);
    attune_forward_tensors_init(&tensors);
    if (attune_context_open("cpu", NULL, &context) != ATTUNE_OK ||
        attune_forward_workspace_size(context, &problem, &bytes) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", attune_error_detail());
        return 1;
    }
    void *const workspace = malloc(bytes);
    tensors.q.handle = (void *)(size_t)q;
    tensors.k.handle = (void *)(size_t)k;
    tensors.v.handle = (void *)(size_t)v;
    tensors.o.handle = o;
    tensors.workspace.handle = workspace;
    const attune_status status = attune_forward(context, &problem, &tensors, NULL);
    printf("attune %s: %s, o = (%g, %g)\n", attune_version(), attune_status_name(status), o[0],
           o[1]);
    free(workspace);
    attune_context_close(context);
    return status == ATTUNE_OK && o[0] == 2 && o[1] == 3 ? 0 : 1;
}
