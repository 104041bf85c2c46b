/* What a test holds in host memory: problems from a file, the inputs of a problem, and what a device made of them. */
#ifndef ATTUNE_TESTS_TENSORS_H
#define ATTUNE_TESTS_TENSORS_H

#include "attune/attune.h"
#include "attune/numerics.h"

#include <stdbool.h>

/* Every 16 bits of a buffer before anybody writes there: a NaN in each of the three types that no computation gives, so an element that
 * was not written can be told from one that came out as NaN. */
enum { UNTOUCHED = 0xffa5 };

void fill_untouched(void *memory, size_t bytes);
bool is_untouched(const void *memory, size_t bytes);

/* Aborts where memory runs out: a test cannot go on. */
void *allocate(size_t bytes);

/* ---- problems ---- */

typedef struct problem_list {
    attune_problem *at;
    int count;
} problem_list;

/* Appends the problem strings of a file, one a line, '#' starts a comment. False, and a line on stderr, where something is wrong. */
bool problem_list_read(problem_list *list, const char *path);
bool problem_list_add(problem_list *list, const char *text);
void problem_list_free(problem_list *list);

/* The problem with another dtype. */
attune_problem with_dtype(attune_problem problem, attune_dtype dtype);

/* ---- tensors ---- */

typedef enum tensor_name { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O } tensor_name;

typedef struct tensor_shape {
    int64_t sizes[ATTUNE_RANK], strides[ATTUNE_RANK];
} tensor_shape;

tensor_shape shape_of(const attune_problem *problem, tensor_name name);
/* Bytes from the first element to behind the last. */
size_t span_bytes(const attune_problem *problem, tensor_name name);
/* Elements of the packed lse, 0 where the problem has none. */
int64_t lse_count(const attune_problem *problem);
/* Place of an element, in elements. */
int64_t element(const tensor_shape *shape, int64_t b, int64_t s, int64_t h, int64_t d);

typedef struct inputs {
    attune_problem problem;
    void *q, *k, *v; /* UNTOUCHED between strided elements */
} inputs;

inputs inputs_create(const attune_problem *problem);
void inputs_fill(inputs *in, attune_fill fill, uint64_t seed);
void inputs_free(inputs *in);

/* The same values in the shapes of `problem`, which may have other strides and more key heads (each a copy of its group's). */
inputs inputs_reshaped(const inputs *from, const attune_problem *problem);

/* Converts one element. */
float get(const inputs *in, tensor_name name, int64_t b, int64_t s, int64_t h, int64_t d);
void set(inputs *in, tensor_name name, int64_t b, int64_t s, int64_t h, int64_t d, float x);

typedef struct outputs {
    attune_problem problem;
    void *o;    /* UNTOUCHED between strided elements */
    float *lse; /* NULL where the problem has none */
    char device[32], kernel[128], engine[16];
    bool reproducible; /* the kernel is */
    attune_arithmetic arithmetic;
} outputs;

void outputs_free(outputs *out);

/* Rows [row, row + rows) of one batch and head, or of all of them, found inside a bigger output. */
typedef struct part {
    int64_t batch, head, row;
} part;

/* Number of elements of o and lse of `small` whose bits differ from those at `at` in `whole`; any NaN equals any NaN. Strides may
 * differ. */
int64_t count_different(const outputs *small, const outputs *whole, part at);

/* FNV-1a over the bits of o and lse in logical order, all NaN counted as one. */
uint64_t outputs_hash(const outputs *out, uint64_t hash);

#endif
