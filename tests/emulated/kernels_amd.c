/* Kernels of instructions that only AMD's GPUs have, and of waves. */
#include "kernel_words.h"

/* ---- without a fault ---- */

/* Of a lane: c, then a, then b. */
#define MULTIPLIES(instruction, sums, words)                                                       \
    KERNEL(multiplies_##instruction)                                                               \
    {                                                                                              \
        const unsigned *const lane = (const unsigned *)k + (sums + 2 * words) * THREAD;            \
        float c[sums];                                                                             \
        unsigned a[words], b[words];                                                               \
        for (int r = 0; r < sums; r++) c[r] = ((const float *)lane)[r];                            \
        for (int w = 0; w < words; w++) a[w] = lane[sums + w], b[w] = lane[sums + words + w];      \
        emulated_##instruction(c, a, b, __LINE__);                                                 \
        for (int r = 0; r < sums; r++) ((float *)o)[sums * THREAD + r] = c[r];                     \
    }
MULTIPLIES(mfma_32x32x8_f16, 16, 2)
MULTIPLIES(mfma_32x32x8_bf16, 16, 2)
MULTIPLIES(mfma_16x16x16_f16, 4, 2)
MULTIPLIES(mfma_16x16x16_bf16, 4, 2)
MULTIPLIES(wmma_rdna3_f16, 8, 8)
MULTIPLIES(wmma_rdna3_bf16, 8, 8)
MULTIPLIES(wmma_rdna4_f16, 8, 4)
MULTIPLIES(wmma_rdna4_bf16, 8, 4)

KERNEL(shuffles_by_32)
{
    ((float *)o)[THREAD] = SHUFFLE((float)THREAD, 32);
}

/* No fault in a wave of 64, and one in two of 32. */
KERNEL(shares_in_waves)
{
    const int i = THREAD;
    shared()[i] = 0.0f;
    BARRIER();
    shared()[i] = (float)i; /* fault shares_in_waves 2 */
    WARP_BARRIER();
    ((float *)o)[i] = shared()[i ^ 32]; /* fault shares_in_waves 1 */
}

/* ---- waves that are not whole ---- */

KERNEL(mfma_missing_lane)
{
    float c[16] = {0};
    const unsigned a[2] = {0}, b[2] = {0};
    if (THREAD == 37) return;
    emulated_mfma_32x32x8_f16(c, a, b, __LINE__); /* fault mfma_missing_lane 1 */
    ((float *)o)[THREAD] = c[0];
}

KERNEL(mfma_in_a_branch)
{
    float c[16] = {0};
    const unsigned a[2] = {0}, b[2] = {0};
    if (THREAD < 32) emulated_mfma_32x32x8_bf16(c, a, b, __LINE__); /* fault mfma_in_a_branch 1 */
    BARRIER();                                                      /* fault mfma_in_a_branch 2 */
    ((float *)o)[THREAD] = c[0];
}

/* ---- operands that are not repeated ---- */

KERNEL(wmma_a_differs)
{
    float c[8] = {0};
    const unsigned a[8] = {[5] = THREAD == 19}, b[8] = {0};
    emulated_wmma_rdna3_f16(c, a, b, __LINE__); /* fault wmma_a_differs 1 */
    ((float *)o)[THREAD] = c[0];
}

KERNEL(wmma_b_differs)
{
    float c[8] = {0};
    const unsigned a[8] = {0}, b[8] = {[7] = THREAD == 35};
    emulated_wmma_rdna3_bf16(c, a, b, __LINE__); /* fault wmma_b_differs 1 */
    ((float *)o)[THREAD] = c[0];
}

/* ---- instructions of another GPU ---- */

KERNEL(comes_to_mfma)
{
    float c[4] = {0};
    const unsigned a[2] = {0}, b[2] = {0};
    emulated_mfma_16x16x16_f16(c, a, b, __LINE__); /* fault comes_to_mfma 1 */
    ((float *)o)[THREAD] = c[0];
}

KERNEL(comes_to_wmma_rdna3)
{
    float c[8] = {0};
    const unsigned a[8] = {0}, b[8] = {0};
    emulated_wmma_rdna3_f16(c, a, b, __LINE__); /* fault comes_to_wmma_rdna3 1 */
    ((float *)o)[THREAD] = c[0];
}

KERNEL(comes_to_wmma_rdna4)
{
    float c[8] = {0};
    const unsigned a[4] = {0}, b[4] = {0};
    emulated_wmma_rdna4_bf16(c, a, b, __LINE__); /* fault comes_to_wmma_rdna4 1 */
    ((float *)o)[THREAD] = c[0];
}

KERNEL(comes_to_mma)
{
    const emulated_floats c = emulated_mma_f16((emulated_floats){0}, (emulated_words){0}, 0, 0,
                                               __LINE__); /* fault comes_to_mma 1 */
    ((float *)o)[THREAD] = c[0];
}

KERNEL(comes_to_ldmatrix)
{
    ((unsigned *)o)[THREAD] = emulated_ldmatrix(0, __LINE__)[0]; /* fault comes_to_ldmatrix 1 */
}

KERNEL(comes_to_copy)
{
    emulated_copy_async(0, q, 16); /* fault comes_to_copy 1 */
}

KERNEL(comes_to_commit)
{
    emulated_copy_commit(); /* fault comes_to_commit 1 */
}

KERNEL(comes_to_wait)
{
    emulated_copy_wait(0); /* fault comes_to_wait 1 */
}

KERNEL(comes_to_tf32)
{
    ((unsigned *)o)[THREAD] = emulated_tf32(1); /* fault comes_to_tf32 1 */
}

/* ---- bank conflicts; each work-item has 16 bytes of shared memory ---- */

/* Writes its own 16 bytes, reads those of work-item 8 i, and three times, with every second lane, two words. */
KERNEL(conflicts)
{
    const int i = THREAD;
    const quad own = {(float)i, 0.0f, 0.0f, 0.0f};
    *((quad *)shared() + i) = own;
    BARRIER();
    const quad other = *((const quad *)shared() + i * 8 % 64);
    float sum = other[0];
    for (int round = 0; round < 3; round++)
        if (i % 2 == 0) sum += shared()[i * 4], sum += shared()[i * 4 + 1];
    ((float *)o)[i] = sum;
}
