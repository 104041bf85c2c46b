/* Kernels of instructions that only NVIDIA's GPUs have. */
#include "kernel_words.h"

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
