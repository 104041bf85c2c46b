/* Compiled as generated kernels are: every access is announced. */
#include "kernels.h"

#include "emulated/instructions.h"

#include <stdint.h>
#include <time.h>

#define KERNEL(name)                                                                               \
    void name(const attune_forward_args *args, const void *q, const void *k, const void *v,        \
              void *o, float *lse, float *workspace, int64_t group)

#define THREAD emulated_thread()
#define BARRIER() emulated_barrier(__LINE__)
#define WARP_BARRIER() emulated_warp_barrier(__LINE__)
#define SHUFFLE(x, mask) emulated_shuffle_xor(x, mask, __LINE__)

typedef float quad __attribute__((vector_size(16)));

/* The group's WORK_ITEMS floats of shared memory. */
static inline float *shared(void)
{
    return emulated_shared();
}

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

/* ---- copies: floats i and on of q, 16 bytes a work-item ---- */

#define AT(i) (16u * (unsigned)(i))
#define COPY(i, bytes) emulated_copy_async(AT(i), (const float *)q + 4 * (i) % 64, bytes)

KERNEL(copies)
{
    const int i = THREAD;
    COPY(i, 16);
    emulated_copy_commit();
    emulated_copy_wait(0);
    BARRIER();
    ((float *)o)[i] = shared()[4 * (31 - i) + 1];
}

/* The first group lands, the second is still under way. */
KERNEL(copies_in_flight)
{
    const int i = THREAD;
    COPY(i, 16);
    emulated_copy_commit();
    COPY(i + 32, 16);
    emulated_copy_commit();
    emulated_copy_wait(1);
    ((float *)o)[i] = shared()[4 * i + 2];
    emulated_copy_wait(0);
    ((float *)o)[i + 32] = shared()[4 * (i + 32) + 3];
}

KERNEL(copies_in_part)
{
    const int i = THREAD;
    emulated_copy_async(
        AT(i), i % 17 == 0 ? (const void *)(uintptr_t)16 : (const float *)q + 4 * i % 64, i % 17);
    emulated_copy_commit();
    emulated_copy_wait(0);
    for (int d = 0; d < 4; d++) ((float *)o)[4 * i + d] = shared()[4 * i + d];
}

KERNEL(read_before_wait)
{
    COPY(THREAD, 16); /* fault read_before_wait 2 */
    emulated_copy_commit();
    ((float *)o)[THREAD] = shared()[4 * THREAD]; /* fault read_before_wait 1 */
}

KERNEL(read_before_barrier)
{
    const int i = THREAD;
    shared()[4 * i] = 0.0f;
    BARRIER();
    COPY(i, 16); /* fault read_before_barrier 2 */
    emulated_copy_commit();
    emulated_copy_wait(0);
    ((float *)o)[i] = shared()[4 * (i ^ 1)]; /* fault read_before_barrier 1 */
}

KERNEL(written_before_wait)
{
    COPY(THREAD, 16); /* fault written_before_wait 2 */
    emulated_copy_commit();
    shared()[4 * THREAD + 3] = 1.0f; /* fault written_before_wait 1 */
}

KERNEL(never_committed)
{
    COPY(THREAD, 16); /* fault never_committed 2 */
    emulated_copy_wait(0);
    ((float *)o)[THREAD] = shared()[4 * THREAD]; /* fault never_committed 1 */
}

KERNEL(copied_twice)
{
    COPY(THREAD, 16); /* fault copied_twice 2 */
    COPY(THREAD, 8);  /* fault copied_twice 1 */
}

KERNEL(copied_while_read)
{
    const int i = THREAD;
    for (int d = 0; d < 4; d++) shared()[4 * i + d] = 0.0f;
    BARRIER();
    ((float *)o)[i] = shared()[4 * (i ^ 1)]; /* fault copied_while_read 2 */
    COPY(i, 16);                             /* fault copied_while_read 1 */
    emulated_copy_commit();
    emulated_copy_wait(0);
}

KERNEL(copy_overrun)
{
    COPY(THREAD + 33, 16); /* fault copy_overrun 1 */
}

KERNEL(copy_source_overrun)
{
    const float *const from = (const float *)q + 4 * THREAD;
    emulated_copy_async(AT(THREAD), from, 16); /* fault copy_source_overrun 1 */
}

KERNEL(copy_misaligned)
{
    emulated_copy_async(AT(THREAD), (const float *)q + 1, 16); /* fault copy_misaligned 1 */
}

/* ---- matrices ---- */

/* 32 rows of eight elements, which repeat the 128 of q. */
static inline void fill(const void *q)
{
    const uint16_t *const from = q;
    uint16_t *const to = (uint16_t *)shared();
    for (int i = THREAD; i < 32 * 8; i += 32) to[i] = from[i % 128];
}

KERNEL(loads_matrices)
{
    fill(q);
    WARP_BARRIER();
    const emulated_words x = emulated_ldmatrix(AT(THREAD), __LINE__);
    for (int m = 0; m < 4; m++) ((unsigned *)o)[4 * THREAD + m] = x[m];
}

KERNEL(loads_transposed)
{
    fill(q);
    WARP_BARRIER();
    const emulated_words x = emulated_ldmatrix_trans(AT(31 - THREAD), __LINE__);
    for (int m = 0; m < 4; m++) ((unsigned *)o)[4 * THREAD + m] = x[m];
}

KERNEL(load_misaligned)
{
    fill(q);
    WARP_BARRIER();
    ((unsigned *)o)[0] =
        emulated_ldmatrix(AT(THREAD) + 8, __LINE__)[0]; /* fault load_misaligned 1 */
}

KERNEL(load_unwritten)
{
    if (THREAD < 31)
        for (int d = 0; d < 4; d++) shared()[4 * THREAD + d] = 0.0f;
    WARP_BARRIER();
    ((unsigned *)o)[0] = emulated_ldmatrix(AT(THREAD), __LINE__)[0]; /* fault load_unwritten 1 */
}

KERNEL(load_unordered)
{
    for (int d = 0; d < 4; d++) shared()[4 * (THREAD ^ 1) + d] = 0.0f; /* fault load_unordered 2 */
    ((unsigned *)o)[0] = emulated_ldmatrix(AT(THREAD), __LINE__)[0];   /* fault load_unordered 1 */
}

/* Words 0 to 3 of a lane are A's, then two of B and, as floats, four of C. */
#define MULTIPLIES(type)                                                                           \
    KERNEL(multiplies_##type)                                                                      \
    {                                                                                              \
        const unsigned *const w = (const unsigned *)k + 10 * THREAD;                               \
        const float *const c = (const float *)w + 6;                                               \
        const emulated_floats sum =                                                                \
            emulated_mma_##type((emulated_floats){c[0], c[1], c[2], c[3]},                         \
                                (emulated_words){w[0], w[1], w[2], w[3]}, w[4], w[5], __LINE__);   \
        for (int i = 0; i < 4; i++) ((float *)o)[4 * THREAD + i] = sum[i];                         \
    }
MULTIPLIES(f16)
MULTIPLIES(bf16)
MULTIPLIES(tf32)

/* ---- numbers ---- */

KERNEL(exponentiates)
{
    for (int i = THREAD; i < 64; i += 32) ((float *)o)[i] = emulated_exp2(((const float *)q)[i]);
}

KERNEL(rounds_tf32)
{
    for (int i = THREAD; i < 64; i += 32)
        ((unsigned *)o)[i] = emulated_tf32(((const unsigned *)q)[i]);
}
