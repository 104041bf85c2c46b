/* What the host hands to a generated kernel: one plain struct, compiled by the host and by every dialect, so only fixed-size
 * members at their natural alignment, no pointers, no padding. The dialect's compiler has no standard headers: a dialect defines
 * ATTUNE_ABI_INT32 and ATTUNE_ABI_INT64 before this text where <stdint.h> is missing. */
#ifndef ATTUNE_KERNEL_ABI_H
#define ATTUNE_KERNEL_ABI_H

#ifndef ATTUNE_ABI_INT64
#include <stdint.h>
#define ATTUNE_ABI_INT32 int32_t
#define ATTUNE_ABI_INT64 int64_t
#endif

/* A tensor (batch, seq, head, dim) with dim stride 1; everything in elements. */
typedef struct attune_view {
    ATTUNE_ABI_INT64 offset; /* of element (0, 0, 0, 0) from the buffer's handle */
    ATTUNE_ABI_INT64 batch;
    ATTUNE_ABI_INT64 seq;
    ATTUNE_ABI_INT64 head;
} attune_view;

typedef struct attune_forward_args {
    attune_view q, k, v, o;
    ATTUNE_ABI_INT64 lse_offset; /* floats from the handle; lse is (batch, heads_q, seqlen_q) */
    ATTUNE_ABI_INT64 workspace_offset; /* floats from the handle */
    ATTUNE_ABI_INT64 first_group;      /* of this launch: long grids go in several launches */
    ATTUNE_ABI_INT32 batch;
    ATTUNE_ABI_INT32 heads_q;
    ATTUNE_ABI_INT32 heads_kv;
    ATTUNE_ABI_INT32 seqlen_q;
    ATTUNE_ABI_INT32 seqlen_k;
    ATTUNE_ABI_INT32 head_dim; /* the true ones, at most HEAD_DIM of the kernel */
    ATTUNE_ABI_INT32 head_dim_v;
    ATTUNE_ABI_INT32 causal;     /* 1: row i sees keys j <= i + diagonal; 0: all keys */
    ATTUNE_ABI_INT32 diagonal;   /* seqlen_k - seqlen_q (bottom-right) or 0 (top-left) */
    ATTUNE_ABI_INT32 return_lse; /* 1: lse is written */
    float scale_log2; /* fp32(softmax_scale · log2 e), rounded once: scores are in log2 units */
    ATTUNE_ABI_INT32 reserved; /* 0 */
} attune_forward_args;

#define ATTUNE_CEIL_DIV(x, n) (((x) + (n)-1) / (n))
#define ATTUNE_ROUND_UP(x, n) (ATTUNE_CEIL_DIV(x, n) * (n))

/* Packed panels of K and V in the workspace, floats, for one key head (an engine with PANEL columns a panel):
 *   K  [ceil(seqlen_k / PANEL)][head_dim][PANEL]      one row of a panel = one dimension of PANEL keys
 *   V  [ceil(head_dim_v / PANEL)][seqlen_k][PANEL]    one row of a panel = PANEL dimensions of one key
 * All K panels of (batch, heads_kv) come first, then all V panels. */
#define ATTUNE_K_PANELS(seqlen_k, head_dim, panel)                                                 \
    (ATTUNE_ROUND_UP((ATTUNE_ABI_INT64)(seqlen_k), panel) * (head_dim))
#define ATTUNE_V_PANELS(seqlen_k, head_dim_v, panel)                                               \
    (ATTUNE_ROUND_UP((ATTUNE_ABI_INT64)(head_dim_v), panel) * (seqlen_k))

#endif
