/* What the lanes of a warp do together on any GPU. Section names are those of NVIDIA's "Parallel Thread Execution ISA". */
#include "group.h"
#include "instructions.h"

#define WHERE __builtin_return_address(0)

int emulated_thread(void)
{
    return current_group->running->id;
}

void *emulated_shared(void)
{
    return current_group->shared.memory;
}

unsigned emulated_shared_place(const void *p)
{
    return (unsigned)((const char *)p - current_group->shared.memory);
}

void emulated_barrier(int line)
{
    group_barrier(current_group, line, WHERE);
}

/* ---- "Parallel Synchronization and Communication Instructions: bar.warp.sync" ---- */

static void synchronise(group *g, work_item *lane)
{
    shared_warp_barrier(&g->shared, lane[0].id >> g->gpu->warp_bits);
}

void emulated_warp_barrier(int line)
{
    static const together warp_barrier = {.name = "a barrier of the warp", .work = synchronise};
    group_together(current_group, &warp_barrier, NULL, line, 0, WHERE);
}

/* ---- "Data Movement and Conversion Instructions: shfl.sync" ---- */

/* Mode .bfly with c = 0x1f: lane j gets the value of lane j ^ b. AMD's ds_bpermute_b32 with address 4 (j ^ b) ("LDS Data-Share Instructions"
 * of the ISA manuals) is the same for a whole wave. */
static void shuffle_xor(group *g, work_item *lane)
{
    const int lanes = warp_size(g);
    float before[MOST_WARP];
    for (int i = 0; i < lanes; i++) before[i] = *(float *)lane[i].operands;
    for (int i = 0; i < lanes; i++) *(float *)lane[i].operands = before[i ^ lane[i].detail];
}

float emulated_shuffle_xor(float x, int mask, int line)
{
    static const together shuffle = {.name = "a shuffle", .work = shuffle_xor};
    group *const g = current_group;
    group_together(g, &shuffle, &x, line, mask % warp_size(g), WHERE);
    return x;
}
