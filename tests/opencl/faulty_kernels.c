/* Launches a kernel with the fault that the argument names (race, uninitialised, bounds), for a checker that must find it. */
#include <stdio.h>
#include <string.h>

#include "opencl_device.h"

#define PARAMETERS                                                                                 \
    "#define PARAMETERS const args a, __global const float *q, __global const float *k,\\\n"       \
    "    __global const float *v, __global float *o, __global float *lse,\\\n"                     \
    "    __global float *workspace\n"                                                              \
    "typedef struct { long at[25]; } args;\n"

#define FAULTY(name, statements)                                                                   \
    {                                                                                              \
        .id = name, .threads = 4, .requires_features = "", .constants = PARAMETERS,                \
        .body = "__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void " name               \
                "(PARAMETERS)\n{\n"                                                                \
                "    const int i = get_local_id(0);\n" statements "}\n",                           \
    }

static const attune_kernel_row rows[] = {
    FAULTY("race", "    __local float shared[4];\n"
                   "    shared[i] = 1.0f;\n"
                   "    o[i] = shared[3 - i];\n"),
    FAULTY("uninitialised", "    __local float shared[4];\n"
                            "    if (i == 0) shared[0] = 1.0f;\n"
                            "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                            "    if (shared[i] > 0.5f) o[i] = 1.0f;\n"),
    FAULTY("bounds", "    o[i + 1] = 1.0f;\n"),
};

int main(int argc, char **argv)
{
    const attune_backend *const backend = &attune_backend_opencl;
    const attune_forward_args args = {0};
    attune_launch launch = {.args = &args, .groups = 1};
    char reason[256];
    void *device = NULL, *kernel = NULL;
    attune_status status = ATTUNE_INVALID_ARGUMENT;
    if (argc == 2 && backend->count(reason) > 0) status = backend->open(0, NULL, &device);
    if (status == ATTUNE_OK) status = backend->alloc(device, 4 * sizeof(float), &launch.o);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == ATTUNE_OK; i++)
        if (strcmp(rows[i].id, argv[1]) == 0) status = backend->load(device, &rows[i], &kernel);
    if (kernel != NULL) status = backend->launch(device, kernel, &launch, NULL);
    if (kernel != NULL && status == ATTUNE_OK) status = backend->sync(device, NULL);
    if (kernel == NULL || status != ATTUNE_OK) {
        fprintf(stderr, "nothing was launched: %s\n", attune_error_detail());
        return 1;
    }
    backend->free(device, launch.o);
    backend->close(device);
    return 0;
}
