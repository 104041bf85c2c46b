/* A problem with host memory for its tensors, for the tests of the judge. Everything that can fail ends the test. */
#ifndef ATTUNE_TESTS_TRIAL_H
#define ATTUNE_TESTS_TRIAL_H

#include "attune/numerics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TRIAL_Q, TRIAL_K, TRIAL_V, TRIAL_O, TRIAL_TENSORS };

typedef struct trial {
    attune_problem problem;
    void *tensors[TRIAL_TENSORS];
    float *lse;
} trial;

attune_problem problem_of(const char *text);

/* Tensors of the problem's spans, o and lse all NaN. */
trial trial_create(const attune_problem *problem);
trial trial_filled(const char *problem, attune_fill fill, uint64_t seed);
void trial_destroy(trial *t);

attune_reference *trial_reference(const trial *t);

/* What a kernel with fp32 P and an FMA for every term may do wrong, in tiles of block_k keys. */
attune_arithmetic fp32_arithmetic(const attune_problem *problem, int64_t block_k);

/* One element, widened and narrowed. */
float get(const trial *t, int tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim);
void set(trial *t, int tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim, double x);

/* Every element of a tensor. */
void set_all(trial *t, int tensor, double x);

/* Widths of a tensor in logical order. */
void sizes_of(const attune_problem *problem, int tensor, int64_t sizes[ATTUNE_RANK]);

/* Place of a row in packed lse. */
int64_t lse_place(const attune_problem *problem, int64_t batch, int64_t head, int64_t seq);

/* Keys that row i sees, written down a second time: straight from the definition of the masks. */
bool sees(const attune_problem *problem, int64_t row, int64_t key);

#endif
