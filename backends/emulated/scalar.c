/* What a work-item does alone. Section names are those of NVIDIA's "Parallel Thread Execution ISA" where no other document is named. */
#include "group.h"
#include "instructions.h"
#include "memory_access.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE __builtin_return_address(0)

/* ---- numbers ---- */

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* "Floating Point Instructions: ex2", .approx.ftz.f32: subnormal operands and results are 0. The device's own result is off by a relative 2^-22 at most; this
 * is the nearest float. AMD's v_exp_f32 does the same: off by one unit in the last place at most, no subnormals (LLVM, "User Guide for AMDGPU
 * Backend", llvm.exp2; the kernels use the instruction as it is). */
float emulated_exp2(float x)
{
    return flush((float)exp2((double)flush(x)));
}

/* "Data Movement and Conversion Instructions: cvt", .rna.tf32.f32: to 10 bits of fraction, to nearest, ties away from zero. */
unsigned emulated_tf32(unsigned x)
{
    group_require(current_group, NVIDIA, "cvt.rna.tf32", 0, WHERE);
    const unsigned magnitude = x & 0x7fffffffu;
    return magnitude > 0x7f800000u ? 0x7fffffffu & 0xffffe000u : (x + 0x1000u) & 0xffffe000u;
}

/* ---- "Data Movement and Conversion Instructions: cp.async", .cg, cp-size 16 ---- */

enum { COPY = 16, NAN_BYTE = 0xff, NOT_COMMITTED = -1 };

_Noreturn static void fail_copy(group *g, const char *what, const void *where)
{
    finding found = {.first = where};
    snprintf(found.head, sizeof found.head, "work-item %d copies at ", g->running->id);
    snprintf(found.middle, sizeof found.middle, ", where %s", what);
    group_fail(g, &found);
}

static async_copy *new_copy(group *g, const void *where)
{
    work_item *const item = g->running;
    if (item->copy_count == item->copy_capacity) {
        const int capacity = 2 * item->copy_capacity + 16;
        async_copy *const more = realloc(item->copies, (size_t)capacity * sizeof *more);
        if (more == NULL) fail_copy(g, "there is no memory for what is under way", where);
        item->copies = more;
        item->copy_capacity = capacity;
    }
    return &item->copies[item->copy_count++];
}

void emulated_copy_async(unsigned to, const void *from, int bytes)
{
    group *const g = current_group;
    group_require(g, NVIDIA, "cp.async", 0, WHERE);
    if (to % COPY != 0) fail_copy(g, "the destination is not aligned to 16", WHERE);
    if (bytes < 0 || bytes > COPY) fail_copy(g, "src-size is not between 0 and 16", WHERE);
    if (bytes > 0 && (uintptr_t)from % COPY != 0)
        fail_copy(g, "the source is not aligned to 16", WHERE);
    group_may_yield(g);
    if (bytes > 0) memory_access(g, from, (size_t)bytes, 1, false, WHERE);
    shared_copy_begin(g, g->running, to, WHERE);
    memset(g->shared.memory + to, NAN_BYTE, COPY);
    async_copy *const copy = new_copy(g, WHERE);
    *copy = (async_copy){.to = to, .copy_group = NOT_COMMITTED, .where = WHERE};
    memcpy(copy->bytes, from, (size_t)bytes); /* the rest is 0 */
}

/* "cp.async.commit_group" */
void emulated_copy_commit(void)
{
    work_item *const item = current_group->running;
    group_require(current_group, NVIDIA, "cp.async.commit_group", 0, WHERE);
    for (int i = item->copy_count - 1; i >= 0 && item->copies[i].copy_group == NOT_COMMITTED; i--)
        item->copies[i].copy_group = item->copy_groups;
    item->copy_groups++;
}

/* "cp.async.wait_group": what has landed is this work-item's write of now. */
void emulated_copy_wait(int groups)
{
    group *const g = current_group;
    work_item *const item = g->running;
    group_require(g, NVIDIA, "cp.async.wait_group", 0, WHERE);
    int kept = 0;
    for (int i = 0; i < item->copy_count; i++) {
        const async_copy copy = item->copies[i];
        if (copy.copy_group == NOT_COMMITTED || copy.copy_group >= item->copy_groups - groups) {
            item->copies[kept++] = copy;
        } else {
            shared_copy_land(g, item, copy.to, copy.where);
            memcpy(g->shared.memory + copy.to, copy.bytes, COPY);
        }
    }
    item->copy_count = kept;
}
