/* Compiled as generated kernels are: every access is announced. */
#include "kernel_words.h"

#include <time.h>

/* ---- without a fault ---- */

KERNEL(exchanges)
{
    const int i = THREAD;
    float *const out = o;
    for (int round = 0; round < 3; round++) {
        shared()[i] = (float)(i + round);
        BARRIER();
        out[i] = shared()[WORK_ITEMS - 1 - i];
        BARRIER();
    }
}

KERNEL(shares_in_warps)
{
    const int i = THREAD;
    float *const out = o;
    for (int round = 0; round < 3; round++) {
        shared()[i] = (float)(i + round);
        WARP_BARRIER();
        out[i] = shared()[i ^ 31];
        WARP_BARRIER();
    }
}

KERNEL(writes_halves)
{
    const int i = THREAD;
    uint16_t *const half = (uint16_t *)shared();
    half[i] = (uint16_t)i;
    BARRIER();
    ((float *)o)[i] = (float)half[(i + 1) % WORK_ITEMS];
}

KERNEL(sums_by_shuffles)
{
    float x = (float)THREAD;
    for (int mask = 16; mask > 0; mask /= 2) x += SHUFFLE(x, mask);
    ((float *)o)[THREAD] = x;
}

/* Takes a while, so that all threads have a group at once. */
KERNEL(numbers_groups)
{
    if (THREAD != 0) return;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ((float *)o)[group] = (float)group;
}

/* ---- races ---- */

KERNEL(missing_barrier)
{
    const int i = THREAD;
    shared()[i] = 0.0f;
    BARRIER();
    shared()[i] = (float)i;                            /* fault missing_barrier 2 */
    ((float *)o)[i] = shared()[(i + 33) % WORK_ITEMS]; /* fault missing_barrier 1 */
}

KERNEL(overwritten_while_read)
{
    const int i = THREAD;
    shared()[i] = (float)i;
    BARRIER();
    ((float *)o)[i] = shared()[WORK_ITEMS - 1 - i]; /* fault overwritten_while_read 2 */
    shared()[i] = 0.0f;                             /* fault overwritten_while_read 1 */
}

KERNEL(same_word_twice)
{
    shared()[THREAD / 2] = 1.0f; /* fault same_word_twice 1 2 */
}

KERNEL(same_half_twice)
{
    uint16_t *const half = (uint16_t *)shared();
    half[THREAD] = 1;
    half[THREAD ^ 1] = 2; /* fault same_half_twice 1 */
}

KERNEL(warp_barrier_only)
{
    const int i = THREAD;
    shared()[i] = 0.0f;
    BARRIER();
    shared()[i] = (float)i; /* fault warp_barrier_only 2 */
    WARP_BARRIER();
    ((float *)o)[i] = shared()[i ^ 32]; /* fault warp_barrier_only 1 */
}

KERNEL(shuffle_only)
{
    const int i = THREAD;
    shared()[i] = 0.0f;
    BARRIER();
    shared()[i] = (float)i; /* fault shuffle_only 2 */
    const float x = SHUFFLE(1.0f, 1);
    ((float *)o)[i] = x + shared()[i ^ 1]; /* fault shuffle_only 1 */
}

/* ---- shared memory ---- */

KERNEL(shared_overrun)
{
    shared()[THREAD + 1] = 1.0f; /* fault shared_overrun 1 */
}

KERNEL(shared_underrun)
{
    ((float *)o)[0] = shared()[THREAD - WORK_ITEMS]; /* fault shared_underrun 1 */
}

KERNEL(unwritten_read)
{
    if (THREAD != 40) shared()[THREAD] = 1.0f;
    BARRIER();
    ((float *)o)[THREAD] = shared()[THREAD]; /* fault unwritten_read 1 */
}

KERNEL(unwritten_half)
{
    ((uint16_t *)shared())[2 * THREAD] = 1;
    ((float *)o)[THREAD] = shared()[THREAD]; /* fault unwritten_half 1 */
}

KERNEL(misaligned_shared)
{
    quad *const at = (quad *)(shared() + 1);
    *at = (quad){1.0f}; /* fault misaligned_shared 1 */
}

/* ---- waiting for each other ---- */

KERNEL(divergent_barrier)
{
    if (THREAD < 7)
        BARRIER(); /* fault divergent_barrier 1 */
    else
        BARRIER(); /* fault divergent_barrier 2 */
}

KERNEL(missing_work_item)
{
    if (THREAD == 50) return;
    BARRIER(); /* fault missing_work_item 1 */
}

KERNEL(missing_lane)
{
    if (THREAD == 37) return;
    ((float *)o)[THREAD] = SHUFFLE(1.0f, 2); /* fault missing_lane 1 */
}

KERNEL(other_shuffle)
{
    float x = 1.0f;
    if (THREAD % 2 == 0)
        x = SHUFFLE(x, 1); /* fault other_shuffle 1 */
    else
        x = SHUFFLE(x, 1); /* fault other_shuffle 2 */
    ((float *)o)[THREAD] = x;
}

KERNEL(other_operand)
{
    ((float *)o)[THREAD] = SHUFFLE(1.0f, THREAD == 5 ? 2 : 1); /* fault other_operand 1 2 */
}

KERNEL(shuffle_and_barrier)
{
    float x = 1.0f;
    if (THREAD % 32 < 16)
        x = SHUFFLE(x, 1); /* fault shuffle_and_barrier 1 */
    else
        BARRIER(); /* fault shuffle_and_barrier 2 */
    ((float *)o)[THREAD] = x;
}

/* ---- buffers: INPUT_FLOATS = 64 floats at q, OUTPUT_FLOATS = 1024 at o ---- */

KERNEL(buffer_overrun)
{
    ((float *)o)[THREAD] = ((const float *)q)[THREAD + 1]; /* fault buffer_overrun 1 */
}

KERNEL(buffer_underrun)
{
    ((float *)o)[THREAD] = ((const float *)q)[THREAD - 1]; /* fault buffer_underrun 1 */
}

KERNEL(buffer_overwrite)
{
    ((float *)o)[1024 - WORK_ITEMS + 1 + THREAD] = 0.0f; /* fault buffer_overwrite 1 */
}

KERNEL(stray_pointer)
{
    *(volatile float *)(uintptr_t)64 = 0.0f; /* fault stray_pointer 1 */
}

KERNEL(misaligned_buffer)
{
    const float *const at = (const float *)q + 2;
    *(quad *)o = *(const quad *)at; /* fault misaligned_buffer 1 */
}

KERNEL(late_groups)
{
    if (group >= 3) shared()[THREAD + (int)group - 2] = 1.0f; /* fault late_groups 1 */
}
