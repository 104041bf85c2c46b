/* The instructions of an NVIDIA GPU that the generated text of templates/dialect/emulated.j2 is made of, each called by one work-item; named
 * sections are of the PTX ISA. `line` is the line of the text, by which work-items are known to be at the same place. Places in shared
 * memory are offsets in bytes. */
#ifndef ATTUNE_EMULATED_INSTRUCTIONS_H
#define ATTUNE_EMULATED_INSTRUCTIONS_H

/* Registers of a fragment, by value, so that the caller's can stay in registers. */
typedef float emulated_floats __attribute__((vector_size(16)));
typedef unsigned emulated_words __attribute__((vector_size(16)));

/* ---- where a work-item is ---- */

int emulated_thread(void) __attribute__((const));

/* The group's shared memory, and the place of what lies in it. */
void *emulated_shared(void) __attribute__((const));
unsigned emulated_shared_place(const void *p) __attribute__((const));

/* ---- all work-items of the group ---- */

/* bar.sync: orders memory. */
void emulated_barrier(int line);

/* ---- all lanes of the warp ---- */

/* bar.warp.sync: orders memory between the lanes. */
void emulated_warp_barrier(int line);

/* shfl.sync.bfly: x of the lane whose number differs by `mask`. */
float emulated_shuffle_xor(float x, int mask, int line);

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

/* ---- a work-item alone ---- */

/* ex2.approx.ftz.f32 */
float emulated_exp2(float x) __attribute__((const));

/* cvt.rna.tf32.f32, of and to the bits of floats */
unsigned emulated_tf32(unsigned x) __attribute__((const));

/* cp.async.cg.shared.global [to], [from], 16, bytes: lands at the wait. */
void emulated_copy_async(unsigned to, const void *from, int bytes);
/* cp.async.commit_group */
void emulated_copy_commit(void);
/* cp.async.wait_group */
void emulated_copy_wait(int groups);

#endif
