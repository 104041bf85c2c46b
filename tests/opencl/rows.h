/* Kernels of the generated kernels' form, small enough to know what they must give. */
#ifndef ATTUNE_TESTS_OPENCL_ROWS_H
#define ATTUNE_TESTS_OPENCL_ROWS_H

#include "backend.h"

/* args: attune_forward_args, spelled for the device. Group g packs workspace[g] = q[g] and adds to o[g] the sum of its work-items,
 * THREADS, and workspace[g] (or q[g] without a workspace); lse, where there is one, becomes g. */
#define ROW_BODY                                                                                   \
    "typedef struct { long views[16], lse_offset, workspace_offset, first_group; int sizes[10];\n" \
    "    float scale; int reserved; } args;\n"                                                     \
    "#define PARAMETERS const args a, __global const float *q, __global const float *k,\\\n"       \
    "    __global const float *v, __global float *o, __global float *lse,\\\n"                     \
    "    __global float *workspace\n"                                                              \
    "#define SIZED __attribute__((reqd_work_group_size(THREADS, 1, 1)))\n"                         \
    "__kernel SIZED void PACK_NAME(PARAMETERS)\n"                                                  \
    "{\n"                                                                                          \
    "    const long g = a.first_group + get_group_id(0);\n"                                        \
    "    if (get_local_id(0) == 0) workspace[a.workspace_offset + g] = q[a.views[0] + g];\n"       \
    "}\n"                                                                                          \
    "__kernel SIZED void KERNEL_NAME(PARAMETERS)\n"                                                \
    "{\n"                                                                                          \
    "    const long g = a.first_group + get_group_id(0);\n"                                        \
    "    __local int present[THREADS];\n"                                                          \
    "    present[get_local_id(0)] = 1;\n"                                                          \
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"                                                          \
    "    if (get_local_id(0) == 0) {\n"                                                            \
    "        int sum = 0;\n"                                                                       \
    "        for (int i = 0; i < THREADS; i++) sum += present[i];\n"                               \
    "        o[a.views[12] + g] +=\n"                                                              \
    "            sum + (workspace ? workspace[a.workspace_offset + g] : q[a.views[0] + g]);\n"     \
    "        if (lse) lse[a.lse_offset + g] = g;\n"                                                \
    "    }\n"                                                                                      \
    "}\n"

#define ROW_CONSTANTS(threads) "KERNEL_NAME @\nPACK_NAME @_pack\nTHREADS " #threads "\n"

static const attune_kernel_row row_plain = {.id = "plain",
                                            .threads = 4,
                                            .requires_features = "",
                                            .constants = ROW_CONSTANTS(4),
                                            .body = ROW_BODY};

static const attune_kernel_row row_packed = {.id = "packed",
                                             .threads = 2,
                                             .panel = 16,
                                             .requires_features = "",
                                             .constants = ROW_CONSTANTS(2),
                                             .body = ROW_BODY};

static const attune_kernel_row row_broken = {.id = "broken",
                                             .threads = 1,
                                             .requires_features = "",
                                             .constants = "#error refused on purpose\n",
                                             .body = ROW_BODY};

#endif
