/* The instructions of GPUs that the generated text of templates/dialect/emulated.j2 is made of, each called by one work-item; one that the
 * device does not have is a finding. `line` is the line of the text, by which work-items are known to be at the same place. Places in shared
 * memory are offsets in bytes. */
#ifndef ATTUNE_EMULATED_INSTRUCTIONS_H
#define ATTUNE_EMULATED_INSTRUCTIONS_H

/* ---- where a work-item is ---- */

int emulated_thread(void) __attribute__((const));

/* The group's shared memory, and the place of what lies in it. */
void *emulated_shared(void) __attribute__((const));
unsigned emulated_shared_place(const void *p) __attribute__((const));

/* ---- all work-items of the group ---- */

/* bar.sync; s_barrier between two fences: orders memory. */
void emulated_barrier(int line);

/* ---- all lanes of the warp: 32, or AMD's wave of 32 or 64 ---- */

/* bar.warp.sync, or a fence of AMD's wave: orders memory between the lanes. */
void emulated_warp_barrier(int line);

/* shfl.sync.bfly, ds_bpermute_b32: x of the lane whose number differs by `mask`. */
float emulated_shuffle_xor(float x, int mask, int line);

/* ---- a work-item alone ---- */

/* ex2.approx.ftz.f32, v_exp_f32 */
float emulated_exp2(float x) __attribute__((const));

/* ---- NVIDIA, all lanes of the warp ---- */

/* Registers of a fragment, by value, so that the caller's can stay in registers. */
typedef float emulated_floats __attribute__((vector_size(16)));
typedef unsigned emulated_words __attribute__((vector_size(16)));

/* ldmatrix.sync.aligned.m8n8.x4.shared.b16, and with .trans. */
emulated_words emulated_ldmatrix(unsigned at, int line);
emulated_words emulated_ldmatrix_trans(unsigned at, int line);

/* mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32, ....f32.bf16.bf16.f32, and .m16n8k8.row.col.f32.tf32.tf32.f32. */
emulated_floats emulated_mma_f16(emulated_floats c, emulated_words a, unsigned b0, unsigned b1,
                                 int line);
emulated_floats emulated_mma_bf16(emulated_floats c, emulated_words a, unsigned b0, unsigned b1,
                                  int line);
emulated_floats emulated_mma_tf32(emulated_floats c, emulated_words a, unsigned b0, unsigned b1,
                                  int line);

/* ---- NVIDIA, a work-item alone ---- */

/* cvt.rna.tf32.f32, of and to the bits of floats */
unsigned emulated_tf32(unsigned x) __attribute__((const));

/* cp.async.cg.shared.global [to], [from], 16, bytes: lands at the wait. */
void emulated_copy_async(unsigned to, const void *from, int bytes);
/* cp.async.commit_group */
void emulated_copy_commit(void);
/* cp.async.wait_group */
void emulated_copy_wait(int groups);

/* ---- AMD, all lanes of the wave: c := A·B + c; a and b two elements a word, the first in the low half ---- */

/* v_mfma_f32_32x32x8_f16, v_mfma_f32_32x32x8_bf16_1k: c has 16, a and b have 2. */
void emulated_mfma_32x32x8_f16(float *c, const unsigned *a, const unsigned *b, int line);
void emulated_mfma_32x32x8_bf16(float *c, const unsigned *a, const unsigned *b, int line);
/* v_mfma_f32_16x16x16_f16, v_mfma_f32_16x16x16_bf16_1k: 4, 2, 2. */
void emulated_mfma_16x16x16_f16(float *c, const unsigned *a, const unsigned *b, int line);
void emulated_mfma_16x16x16_bf16(float *c, const unsigned *a, const unsigned *b, int line);
/* v_wmma_f32_16x16x16_f16 and ..._bf16 of RDNA3: 8, 8, 8; lanes 16 to 31 repeat a and b of lanes 0 to 15. */
void emulated_wmma_rdna3_f16(float *c, const unsigned *a, const unsigned *b, int line);
void emulated_wmma_rdna3_bf16(float *c, const unsigned *a, const unsigned *b, int line);
/* The same of RDNA4: 8, 4, 4. */
void emulated_wmma_rdna4_f16(float *c, const unsigned *a, const unsigned *b, int line);
void emulated_wmma_rdna4_bf16(float *c, const unsigned *a, const unsigned *b, int line);

#endif
