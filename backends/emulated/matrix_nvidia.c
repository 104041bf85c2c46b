/* What the lanes of a warp do with matrices on NVIDIA's GPUs. Section names are those of NVIDIA's "Parallel Thread Execution ISA". With groupID g = lane / 4 and
 * threadID_in_group t = lane % 4. */
#include "group.h"
#include "instructions.h"
#include "matrix_unit.h"

#include <stdio.h>
#include <string.h>

#define WHERE __builtin_return_address(0)

enum { LANES = 32 };

/* ---- "Warp-level matrix load instruction: ldmatrix", .m8n8.x4.b16 ---- */

enum { MATRICES = 4, SIDE = 8, ROW_BYTES = 16 };

typedef struct load_operands {
    unsigned at; /* of a row, in shared memory */
    emulated_words loaded;
} load_operands;

_Noreturn static void fail_misaligned(group *g, const work_item *lane, unsigned at)
{
    finding found = {.first = lane->where};
    snprintf(found.head, sizeof found.head, "work-item %d names shared byte %u at ", lane->id, at);
    snprintf(found.middle, sizeof found.middle, ", which is not aligned to 16");
    group_fail(g, &found);
}

/* Lane i names row i % 8 of matrix i / 8. In word m of each lane come two neighbours of row g of matrix m, columns 2t and 2t + 1, the left one in
 * the low half; with .trans, of row g of the transpose. */
static void load_matrices(group *g, work_item *lane)
{
    uint16_t at[MATRICES][SIDE][SIDE];
    for (int i = 0; i < LANES; i++) {
        const load_operands *const o = lane[i].operands;
        if (o->at % ROW_BYTES != 0) fail_misaligned(g, &lane[i], o->at);
        shared_read(g, &lane[i], o->at, ROW_BYTES, lane[i].where);
        memcpy(at[i / SIDE][i % SIDE], g->shared.memory + o->at, ROW_BYTES);
    }
    for (int i = 0; i < LANES; i++) {
        load_operands *const o = lane[i].operands;
        const int row = i / 4, column = 2 * (i % 4), is_transposed = lane[i].detail;
        for (int m = 0; m < MATRICES; m++) {
            const uint16_t low = is_transposed ? at[m][column][row] : at[m][row][column];
            const uint16_t high = is_transposed ? at[m][column + 1][row] : at[m][row][column + 1];
            o->loaded[m] = (unsigned)low | (unsigned)high << 16;
        }
    }
}

static const together load = {.name = "ldmatrix", .work = load_matrices};

emulated_words emulated_ldmatrix(unsigned at, int line)
{
    load_operands o = {.at = at};
    group_require(current_group, NVIDIA, load.name, line, WHERE);
    group_together(current_group, &load, &o, line, 0, WHERE);
    return o.loaded;
}

emulated_words emulated_ldmatrix_trans(unsigned at, int line)
{
    load_operands o = {.at = at};
    group_require(current_group, NVIDIA, load.name, line, WHERE);
    group_together(current_group, &load, &o, line, 1, WHERE);
    return o.loaded;
}

/* ---- "Matrix multiply-accumulate operation using mma instruction" ---- */

enum { M = 16, N = 8, MOST_K = 16 };

typedef struct multiply_operands {
    emulated_floats c;
    emulated_words a;
    unsigned b[2];
} multiply_operands;

/* "Matrix Fragments for mma.m16n8k16 with floating point type" (two elements a word) and "Matrix Fragments for mma.m16n8k8" (.tf32, one). With P
 * elements a word:
 *     A  word r, element e:  row g + 8 (r % 2)           column t P + e + 4 P (r / 2)
 *     B  word r, element e:  row t P + e + 4 P r         column g
 *     C  element i:          row g + 8 (i / 2)           column 2 t + i % 2 */
static void multiply(group *g, work_item *lane, unit_type type)
{
    const int per_word = type == UNIT_TF32 ? 1 : 2, k = 8 * per_word;
    float a[M][MOST_K], b[N][MOST_K], c[M][N]; /* B by columns */
    for (int i = 0; i < LANES; i++) {
        const multiply_operands *const o = lane[i].operands;
        const int row = i / 4, t = i % 4;
        for (int e = 0; e < per_word; e++) {
            for (int r = 0; r < 4; r++)
                a[row + 8 * (r % 2)][t * per_word + e + 4 * per_word * (r / 2)] =
                    matrix_unit_element(type, o->a[r], e);
            for (int r = 0; r < 2; r++)
                b[row][t * per_word + e + 4 * per_word * r] = matrix_unit_element(type, o->b[r], e);
        }
        for (int r = 0; r < 4; r++) c[row + 8 * (r / 2)][2 * t + r % 2] = o->c[r];
    }
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++)
            c[m][n] = matrix_unit_sum(g->gpu->unit, type, a[m], b[n], k, c[m][n]);
    for (int i = 0; i < LANES; i++) {
        multiply_operands *const o = lane[i].operands;
        for (int r = 0; r < 4; r++) o->c[r] = c[i / 4 + 8 * (r / 2)][2 * (i % 4) + r % 2];
    }
}

#define MULTIPLY(mma, type)                                                                        \
    static void mma##_work(group *g, work_item *lane)                                              \
    {                                                                                              \
        multiply(g, lane, type);                                                                   \
    }                                                                                              \
    static const together mma##_together = {.name = "mma.sync", .work = mma##_work};               \
    emulated_floats emulated_##mma(emulated_floats c, emulated_words a, unsigned b0, unsigned b1,  \
                                   int line)                                                       \
    {                                                                                              \
        multiply_operands o = {.c = c, .a = a, .b = {b0, b1}};                                     \
        group_require(current_group, NVIDIA, mma##_together.name, line, WHERE);                    \
        group_together(current_group, &mma##_together, &o, line, 0, WHERE);                        \
        return o.c;                                                                                \
    }
MULTIPLY(mma_f16, UNIT_F16)
MULTIPLY(mma_bf16, UNIT_BF16)
MULTIPLY(mma_tf32, UNIT_TF32)
