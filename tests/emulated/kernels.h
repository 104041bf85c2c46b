/* Kernels with one fault each, and some without. In kernels*.c a line that a report must name ends with a comment "fault NAME 1" (the access that is
 * found) or "fault NAME 2" (the other side). */
#ifndef ATTUNE_TESTS_EMULATED_KERNELS_H
#define ATTUNE_TESTS_EMULATED_KERNELS_H

#include "backend.h"

enum { WORK_ITEMS = 64, SHARED_FLOATS = 64 };

/* without a fault */
attune_group_function exchanges, shares_in_warps, writes_halves, sums_by_shuffles, numbers_groups;

attune_group_function missing_barrier, overwritten_while_read, same_word_twice, same_half_twice,
    warp_barrier_only, shuffle_only, shared_overrun, shared_underrun, unwritten_read,
    unwritten_half, divergent_barrier, missing_work_item, missing_lane, other_shuffle,
    other_operand, shuffle_and_barrier, buffer_overrun, buffer_underrun, buffer_overwrite,
    stray_pointer, misaligned_shared, misaligned_buffer, late_groups;

/* copies and matrices; a group of 32 has 1024 bytes of shared memory here. What a lane works on it reads at q, what comes out it writes at o. */
attune_group_function copies, copies_in_flight, copies_in_part, loads_matrices, loads_transposed,
    multiplies_f16, multiplies_bf16, multiplies_tf32, exponentiates, rounds_tf32;

attune_group_function read_before_wait, read_before_barrier, written_before_wait, never_committed,
    copied_twice, copied_while_read, copy_overrun, copy_source_overrun, copy_misaligned,
    load_misaligned, load_unwritten, load_unordered;

/* AMD's, of one wave. What a lane multiplies it reads at k. */
attune_group_function multiplies_mfma_32x32x8_f16, multiplies_mfma_32x32x8_bf16,
    multiplies_mfma_16x16x16_f16, multiplies_mfma_16x16x16_bf16, multiplies_wmma_rdna3_f16,
    multiplies_wmma_rdna3_bf16, multiplies_wmma_rdna4_f16, multiplies_wmma_rdna4_bf16,
    shuffles_by_32, shares_in_waves, conflicts;

attune_group_function mfma_missing_lane, mfma_in_a_branch, wmma_a_differs, wmma_b_differs;

/* Each comes to an instruction that some GPUs do not have. */
attune_group_function comes_to_mfma, comes_to_wmma_rdna3, comes_to_wmma_rdna4, comes_to_mma,
    comes_to_ldmatrix, comes_to_copy, comes_to_commit, comes_to_wait, comes_to_tf32;

#endif
