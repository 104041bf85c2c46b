/* How the judge reads the tensors of a problem on the host. Private to src/numerics. */
#ifndef ATTUNE_HOST_TENSOR_H
#define ATTUNE_HOST_TENSOR_H

#include "attune/numerics.h"
#include "backend.h"

enum { MAX_HEAD_DIM = 256 };

/* Keys that a row sees are [0, host_visible_keys). */
int64_t host_visible_keys(const attune_problem *problem, int64_t row);

/* The key head that a query head reads. */
int64_t host_key_head(const attune_problem *problem, int64_t head);

/* Place of element (batch, seq, head, 0), in elements. */
int64_t host_place(const int64_t strides[ATTUNE_RANK], int64_t batch, int64_t seq, int64_t head);

/* One row of `dims` elements as fp32, and back. */
void host_row(attune_dtype dtype, const void *tensor, int64_t place, int64_t dims, float *row);
void host_row_store(attune_dtype dtype, void *tensor, int64_t place, int64_t dims,
                    const float *row);

/* OK for a problem and inputs that can be judged; `caller` starts the sentence otherwise. */
attune_status host_check(const attune_problem *problem, const void *q, const void *k, const void *v,
                         const char *caller);

/* Rows of a problem: batch · seqlen_q · heads_q, and the coordinates of row number `index` in that order. */
int64_t host_rows(const attune_problem *problem);
void host_row_at(const attune_problem *problem, int64_t index, int64_t *batch, int64_t *seq,
                 int64_t *head);

/* Place of a row in a packed (batch, heads_q, seqlen_q) array. */
int64_t host_lse_place(const attune_problem *problem, int64_t batch, int64_t seq, int64_t head);

#endif
