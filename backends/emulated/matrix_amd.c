/* What the lanes of a wave do with matrices on AMD's GPUs: D = A·B + C, D in C's registers. The layouts are those of "AMD Instinct MI200" and
 * "MI300 Instruction Set Architecture", "Matrix Arithmetic Instructions", of "RDNA3 Instruction Set Architecture", "Wave Matrix Multiply
 * Accumulate (WMMA)", and of "RDNA4 Instruction Set Architecture", the section of the same name; AMD's matrix instruction calculator prints them
 * element by element. */
#include "group.h"
#include "instructions.h"
#include "matrix_unit.h"

#include <stdio.h>

#define WHERE __builtin_return_address(0)

/* A lane L holds row L % side of A, column L % side of B and column L % side of C. Of A and B it holds 2 · words elements, which follow each
 * other along k: lanes side apart hold the next ones, until all k are held, and then repeat. */
typedef struct matrix_shape {
    instruction_set set;
    unit_type type;
    int side, k;              /* A is side × k, B k × side, C side × side */
    int words, sums;          /* registers of a lane: of A, as of B; of C */
    int (*row)(int L, int r); /* of register r of C */
    bool is_repeated;         /* lanes hold the same of A and B as those `side` before */
} matrix_shape;

/* Group L / 32 of the lanes holds every second block of four rows. */
static int row_mfma_32(int L, int r)
{
    return 8 * (r / 4) + 4 * (L / 32) + r % 4;
}
static int row_mfma_16(int L, int r)
{
    return 4 * (L / 16) + r;
}
static int row_rdna3(int L, int r)
{
    return 2 * r + L / 16;
}
static int row_rdna4(int L, int r)
{
    return 8 * (L / 16) + r;
}

/* `common` comes first, so that a lane's `together` leads to it. */
typedef struct multiplication {
    together common;
    matrix_shape shape;
} multiplication;

typedef struct operands {
    float *c;
    const unsigned *a, *b;
} operands;

static const operands *operands_of(const work_item *lane)
{
    return lane->operands;
}

static void check_repeated(group *g, const matrix_shape *shape, const char *name, work_item *lane)
{
    for (int L = shape->side; L < warp_size(g); L++) {
        const operands *const one = operands_of(&lane[L - shape->side]);
        const operands *const other = operands_of(&lane[L]);
        for (int w = 0; w < shape->words; w++) {
            if (one->a[w] == other->a[w] && one->b[w] == other->b[w]) continue;
            finding found = {.first = lane[L].where, .first_line = lane[L].line};
            snprintf(found.head, sizeof found.head, "work-items %d and %d come to %s at ",
                     lane[L - shape->side].id, lane[L].id, name);
            snprintf(found.middle, sizeof found.middle,
                     " with different words %d of %s, which the one has to repeat", w,
                     one->a[w] != other->a[w] ? "A" : "B");
            group_fail(g, &found);
        }
    }
}

enum { MOST_SIDE = 32, MOST_K = 16 };

static void multiply(group *g, work_item *lane)
{
    const multiplication *const m = (const multiplication *)lane[0].together;
    const matrix_shape *const shape = &m->shape;
    float a[MOST_SIDE][MOST_K], b[MOST_SIDE][MOST_K]; /* B by columns */
    const int lanes = warp_size(g), elements = 2 * shape->words;
    if (shape->is_repeated) check_repeated(g, shape, m->common.name, lane);
    for (int L = 0; L < lanes; L++) {
        const operands *const o = operands_of(&lane[L]);
        const int first = L / shape->side * elements % shape->k;
        for (int e = 0; e < elements; e++) {
            a[L % shape->side][first + e] = matrix_unit_element(shape->type, o->a[e / 2], e % 2);
            b[L % shape->side][first + e] = matrix_unit_element(shape->type, o->b[e / 2], e % 2);
        }
    }
    for (int L = 0; L < lanes; L++) {
        float *const c = operands_of(&lane[L])->c;
        for (int r = 0; r < shape->sums; r++)
            c[r] = matrix_unit_sum(g->gpu->unit, shape->type, a[shape->row(L, r)],
                                   b[L % shape->side], shape->k, c[r]);
    }
}

static void multiply_together(const multiplication *m, operands *o, int line, const void *where)
{
    group_require(current_group, m->shape.set, m->common.name, line, where);
    group_together(current_group, &m->common, o, line, 0, where);
}

#define MULTIPLY(function, instruction, ...)                                                       \
    void emulated_##function(float *c, const unsigned *a, const unsigned *b, int line)             \
    {                                                                                              \
        static const multiplication m = {.common = {.name = instruction, .work = multiply},        \
                                         .shape = {__VA_ARGS__}};                                  \
        operands o = {.c = c, .a = a, .b = b};                                                     \
        multiply_together(&m, &o, line, WHERE);                                                    \
    }

#define MFMA_32 .set = AMD_MFMA, .side = 32, .k = 8, .words = 2, .sums = 16, .row = row_mfma_32
MULTIPLY(mfma_32x32x8_f16, "v_mfma_f32_32x32x8_f16", MFMA_32, .type = UNIT_F16)
MULTIPLY(mfma_32x32x8_bf16, "v_mfma_f32_32x32x8_bf16_1k", MFMA_32, .type = UNIT_BF16)

#define MFMA_16 .set = AMD_MFMA, .side = 16, .k = 16, .words = 2, .sums = 4, .row = row_mfma_16
MULTIPLY(mfma_16x16x16_f16, "v_mfma_f32_16x16x16_f16", MFMA_16, .type = UNIT_F16)
MULTIPLY(mfma_16x16x16_bf16, "v_mfma_f32_16x16x16_bf16_1k", MFMA_16, .type = UNIT_BF16)

#define WMMA_RDNA3                                                                                 \
    .set = AMD_WMMA_RDNA3, .side = 16, .k = 16, .words = 8, .sums = 8, .row = row_rdna3,           \
    .is_repeated = true
MULTIPLY(wmma_rdna3_f16, "v_wmma_f32_16x16x16_f16 of RDNA3", WMMA_RDNA3, .type = UNIT_F16)
MULTIPLY(wmma_rdna3_bf16, "v_wmma_f32_16x16x16_bf16 of RDNA3", WMMA_RDNA3, .type = UNIT_BF16)

#define WMMA_RDNA4                                                                                 \
    .set = AMD_WMMA_RDNA4, .side = 16, .k = 16, .words = 4, .sums = 8, .row = row_rdna4
MULTIPLY(wmma_rdna4_f16, "v_wmma_f32_16x16x16_f16 of RDNA4", WMMA_RDNA4, .type = UNIT_F16)
MULTIPLY(wmma_rdna4_bf16, "v_wmma_f32_16x16x16_bf16 of RDNA4", WMMA_RDNA4, .type = UNIT_BF16)
