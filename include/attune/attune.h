/* Attune: exact tiled attention (FlashAttention) on every device.
 *
 *     O = softmax(scale · Q Kᵀ + mask) V          one row of O per query, one head at a time
 *
 * The walk of a caller: describe a problem (sizes and semantics, no pointers), open a context (one device, device.h),
 * create a plan (one kernel, chosen once), run it on buffers as often as you like.
 *
 * Threads: a context and a plan may be used from several threads at once; a plan is immutable.  Running a plan allocates
 * nothing, takes no lock, reads no environment and touches no file.
 * Ownership: the caller owns tensors, streams and the workspace.  Whatever an attune_*_create or _open gives out is given
 * back by its _destroy or _close, which accept NULL.
 * Errors: every function that can fail returns an attune_status; attune_error_detail() then says in one sentence what was
 * wrong.  Nothing aborts and nothing is printed unless ATTUNE_VERBOSE asks for it.
 * Versions: structs that may grow start with struct_size, which their _init sets.  A longer struct, of a newer header, is
 * accepted while all that this library does not know of it is 0; a shorter one than any version had is refused.
 * Environment: ATTUNE_DB, ATTUNE_DEVICE, ATTUNE_EMULATED, ATTUNE_KERNEL and ATTUNE_VERBOSE are read when a context is opened, and never again.
 */
#ifndef ATTUNE_ATTUNE_H
#define ATTUNE_ATTUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTUNE_API __attribute__((visibility("default")))
#else
#define ATTUNE_API
#endif

#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0

/* "0.1.0" of the library that is loaded, not of the header. Static. */
ATTUNE_API const char *attune_version(void);

/* ---- status ---- */

#define ATTUNE_STATUSES(X)                                                                         \
    X(ATTUNE_OK, "done")                                                                           \
    X(ATTUNE_INVALID_ARGUMENT, "an argument or a problem that means nothing")                      \
    X(ATTUNE_UNSUPPORTED, "a legal problem that no kernel of this device computes")                \
    X(ATTUNE_NO_DEVICE, "no such device, or its runtime is missing")                               \
    X(ATTUNE_OUT_OF_MEMORY, "host or device memory ran out")                                       \
    X(ATTUNE_BUILD_FAILED, "the device's compiler refused a kernel")                               \
    X(ATTUNE_DEVICE_ERROR, "the device or its runtime reported a failure")                         \
    X(ATTUNE_INTERNAL_ERROR, "a fault of this library")                                            \
    X(ATTUNE_FILE_ERROR, "a file that cannot be read or written, or is not what it should be")

typedef enum attune_status {
#define ATTUNE_STATUS_MEMBER(name, meaning) name,
    ATTUNE_STATUSES(ATTUNE_STATUS_MEMBER)
#undef ATTUNE_STATUS_MEMBER
} attune_status;

/* The code's name without prefix, "INVALID_ARGUMENT"; "UNKNOWN" for a value that is no status. Static. */
ATTUNE_API const char *attune_status_name(attune_status status);

/* One sentence about the calling thread's last failed call, with the offending value and what would be accepted; "" before
 * any failure. Valid until the thread's next failing call. */
ATTUNE_API const char *attune_error_detail(void);

/* ---- problem ---- */

/* Element type of q, k, v and o. Accumulation is fp32 for all of them. */
typedef enum attune_dtype { ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16 } attune_dtype;

/* Bytes of one element: 4, 2, 2; 0 for a value that is no dtype. */
ATTUNE_API size_t attune_dtype_size(attune_dtype dtype);
/* "f32", "f16", "bf16"; NULL for a value that is no dtype. Static. */
ATTUNE_API const char *attune_dtype_name(attune_dtype dtype);

typedef enum attune_op { ATTUNE_FORWARD } attune_op;

/* Which keys j a query i may see. Causality is never inferred from sizes. */
typedef enum attune_mask {
    ATTUNE_MASK_NONE, /* all keys */
    ATTUNE_MASK_CAUSAL, /* j <= i + seqlen_k - seqlen_q: the last query sees every key (bottom-right) */
    ATTUNE_MASK_CAUSAL_TOP_LEFT /* j <= i: the first query sees the first key only */
} attune_mask;

typedef enum attune_layout {
    ATTUNE_LAYOUT_BSHD, /* (batch, seq, head, dim), packed: the default */
    ATTUNE_LAYOUT_BHSD  /* (batch, head, seq, dim), packed */
} attune_layout;

/* A strided tensor's element strides in logical order. strides[3] must be 1 (else UNSUPPORTED); 0 elsewhere broadcasts an
 * input along that dimension; negative strides are INVALID_ARGUMENT. A stride along a dimension of size 1 is ignored. */
typedef enum attune_stride {
    ATTUNE_BATCH,
    ATTUNE_SEQ,
    ATTUNE_HEAD,
    ATTUNE_DIM,
    ATTUNE_RANK
} attune_stride;

/* Sizes, types, strides and semantics of one attention call; no pointers, so plans can be cached and shared.
 * Fill it with attune_problem_init, then change what differs. */
typedef struct attune_problem {
    size_t struct_size; /* sizeof(attune_problem) of the caller's header */
    attune_op op;
    attune_dtype dtype;
    attune_mask mask;
    int32_t return_lse; /* 1: lse is written too; default 0 */
    int64_t batch;      /* 0 or more; 0 does nothing */
    int64_t
        heads_q; /* 1 or more, a multiple of heads_kv; query head h reads key head h / (heads_q / heads_kv) */
    int64_t heads_kv;   /* 1 or more */
    int64_t seqlen_q;   /* 0 to 2^31 - 1; 0 does nothing */
    int64_t seqlen_k;   /* 0 to 2^31 - 1024; 0 gives o = 0 and lse = -inf */
    int64_t head_dim;   /* of q and k, 1 to 256 */
    int64_t head_dim_v; /* of v and o, 1 to 256 */
    double
        softmax_scale; /* any finite number; 0 and negative ones mean what they say. Default 1/sqrt(head_dim) */
    int64_t q_strides[ATTUNE_RANK]; /* (batch, seqlen_q, heads_q,  head_dim)   elements */
    int64_t k_strides[ATTUNE_RANK]; /* (batch, seqlen_k, heads_kv, head_dim)   */
    int64_t v_strides[ATTUNE_RANK]; /* (batch, seqlen_k, heads_kv, head_dim_v) */
    int64_t o_strides
        [ATTUNE_RANK]; /* (batch, seqlen_q, heads_q,  head_dim_v); no two elements may share a place */
} attune_problem;

/* Sets every field: the given sizes, no mask, no lse, scale 1/sqrt(head_dim), packed BSHD strides. Sizes are not checked here. */
ATTUNE_API void attune_problem_init(attune_problem *problem, attune_dtype dtype, int64_t batch,
                                    int64_t heads_q, int64_t heads_kv, int64_t seqlen_q,
                                    int64_t seqlen_k, int64_t head_dim, int64_t head_dim_v);

/* Sets all four tensors' strides to a packed layout of the problem's present sizes. */
ATTUNE_API void attune_problem_set_layout(attune_problem *problem, attune_layout layout);

/* OK, or the reason why the problem is INVALID_ARGUMENT or UNSUPPORTED on every device. Needs no device. */
ATTUNE_API attune_status attune_problem_check(const attune_problem *problem);

/* The problem string: comma-separated key=value, accepted by every tool of Attune.
 *     op=forward,b=2,hq=8,hkv=2,sq=128,sk=1024,d=64,dtype=f16,mask=causal
 * op, b, hq, hkv, sq, sk, d and dtype are always there. Optional: dv (default d), mask (none, causal, causal-top-left;
 * default none), scale (default 1/sqrt(d)), lse (0 or 1), layout (bshd, bhsd; default bshd), and for other strides
 * q_strides, k_strides, v_strides, o_strides (batch:seq:head:dim, after any layout). An unknown, missing, repeated or
 * malformed key is INVALID_ARGUMENT and the detail names it. `text` ends at its NUL. */
ATTUNE_API attune_status attune_problem_parse(const char *text, attune_problem *problem);

/* Writes the problem string (defaults omitted, parses back to an equal problem) and its NUL into text[size], cut short if it
 * does not fit; returns the length of the whole string. 512 bytes always suffice. */
ATTUNE_API size_t attune_problem_print(const attune_problem *problem, char *text, size_t size);

/* ---- running ---- */

typedef struct attune_context attune_context; /* one opened device, see device.h */
typedef struct attune_plan
    attune_plan; /* a problem, one kernel for it, and the launch: decided once */

/* A place in device memory. `handle` is a host pointer (cpu), a device pointer or a cl_mem; `offset` counts bytes from it and
 * must be a multiple of the element size. */
typedef struct attune_buffer {
    void *handle;
    size_t offset;
} attune_buffer;

/* The device's native stream or queue (cl_command_queue, CUstream, hipStream_t); NULL is the context's (device.h, native_queue). On cpu it must be
 * NULL and runs are finished when the call returns; elsewhere they are asynchronous and in order. */
typedef void *attune_stream;

/* What a forward call reads and writes. q, k, v, o follow the problem's sizes, dtype and strides; no alignment beyond the
 * element's is needed. o and lse are written completely; o may overlap no input. */
typedef struct attune_forward_tensors {
    size_t struct_size; /* sizeof(attune_forward_tensors) */
    attune_buffer q, k, v, o;
    attune_buffer
        lse; /* fp32 (batch, heads_q, seqlen_q) packed, natural log, -inf for a row without keys; used with return_lse */
    attune_buffer
        workspace; /* attune_plan_workspace_size bytes, offset a multiple of 64; contents need no care; not shared by concurrent runs */
} attune_forward_tensors;

/* Zeroes everything and sets struct_size. */
ATTUNE_API void attune_forward_tensors_init(attune_forward_tensors *tensors);

/* How kernels compute; one engine may be missing on a device. */
#define ATTUNE_ENGINES(X)                                                                          \
    X(vector, "explicit SIMD vectors: processors")                                                 \
    X(simt, "one fused multiply-add per work-item and step: GPUs")                                 \
    X(matrix, "matrix units: GPUs that have them")

/* INVALID_ARGUMENT, and a detail that lists them, where no engine has the name. */
ATTUNE_API attune_status attune_engine_check(const char *name);

/* Tuning. Of the kernels that compute a problem, a plan prefers
 *   1. the one that options.hint names, then those of the smallest head_dim that suffices, and of these
 *   2. what won on this very device and build for the nearest measured problem (tuning.h): of the same dtype and kernel head_dim, its seqlen_q at most
 *      a factor of 3 away, and in all (seqlen_q twice, seqlen_k, batch · heads_q) at most 4 octaves,
 *   3. what the built-in table names for the device's class, 4. for its family (the vendor; of opencl cpu or gpu), 5. for every device,
 *   6. any other, in the table's order.
 * With `deterministic` the second is left out: then the choice depends on the library, the class of device and the problem alone. A tuned choice never
 * changes the bits of engines vector and simt, nor of reproducible kernels of one unit; attune_kernels_visit tells the reason for every place. */

/* A reproducible kernel gives a row the same bits whatever the tiles, the rest of the batch and the chunks that a prompt is cut into; `vector`
 * and `simt` are always so, and agree with each other besides. `matrix` has a mode that is, on one kind of unit (the number after u in an id;
 * what plans choose for a device and a head_dim is of one kind), and a mode that need not be, each with kernels of its own. It takes f16
 * and bf16 as they are stored, and reads f32 as tf32 (10 bits of fraction). Since that is less than was handed in, a plan for f32 uses
 * such a kernel only where it is asked for: by allow_tf32, by naming the engine, or by a whole kernel id. */
typedef struct attune_plan_options {
    size_t struct_size; /* sizeof(attune_plan_options) */
    const char *
        kernel; /* glob over kernel ids ('*', '?') that the choice is confined to; NULL: the context's $ATTUNE_KERNEL, else any */
    const char *engine;    /* name of the only engine that will do; NULL: any */
    int32_t reproducible;  /* 1: reproducible kernels only; default 0: any */
    int32_t allow_tf32;    /* 1: f32 may be read as tf32; default 0 */
    int32_t deterministic; /* 1: measurements are ignored; default 0 */
    const char *
        hint; /* id of a kernel that is preferred where it computes the problem under the other options; NULL: none */
} attune_plan_options;

/* Sets the documented defaults. */
ATTUNE_API void attune_plan_options_init(attune_plan_options *options);

/* Chooses and loads the kernel. `options` may be NULL. UNSUPPORTED with every candidate's reason where none fits. A kernel that
 * the device's compiler refuses is passed over for the next. The plan must not outlive its context. */
ATTUNE_API attune_status attune_plan_create(attune_context *context, const attune_problem *problem,
                                            const attune_plan_options *options, attune_plan **plan);
ATTUNE_API void attune_plan_destroy(attune_plan *plan);

/* Bytes of workspace that each run needs; may be 0. */
ATTUNE_API size_t attune_plan_workspace_size(const attune_plan *plan);

/* The chosen kernel's id, for example "forward_f32_d64_vector_q12r12k128n32w16". Lives as long as the plan. */
ATTUNE_API const char *attune_plan_kernel(const attune_plan *plan);

/* Its engine's name. Static. */
ATTUNE_API const char *attune_plan_engine(const attune_plan *plan);

/* 1 where it is reproducible, else 0. */
ATTUNE_API int32_t attune_plan_reproducible(const attune_plan *plan);

/* Computes o (and lse). Errors that only the device can know are reported by the call that learns of them: this one, or
 * attune_synchronize. */
ATTUNE_API attune_status attune_plan_run(const attune_plan *plan,
                                         const attune_forward_tensors *tensors,
                                         attune_stream stream);

/* The one-shot form: the plan comes from the context's cache, made on the first call with a problem. The workspace must hold
 * attune_forward_workspace_size bytes. For other options than the defaults make a plan. */
ATTUNE_API attune_status attune_forward(attune_context *context, const attune_problem *problem,
                                        const attune_forward_tensors *tensors,
                                        attune_stream stream);
ATTUNE_API attune_status attune_forward_workspace_size(attune_context *context,
                                                       const attune_problem *problem,
                                                       size_t *bytes);

/* ---- kernels ---- */

/* Of a kernel; made by the library, so it may grow at its end. */
typedef struct attune_kernel_info {
    const char *id;
    const char *engine;
    const char *reason;   /* NULL where a plan may use it, else why not */
    int32_t reproducible; /* 1 or 0 */
    int32_t tf32;         /* 1: it reads f32 as tf32 */
    int32_t head_dim;     /* the largest head_dim and head_dim_v that it computes */
    int32_t block_q, block_k,
        threads; /* rows of queries and keys in a tile, work-items of a group */
    const char *
        preference; /* why it stands where it stands, in a clause; without a problem NULL, as for one that computes another dtype or less head_dim */
} attune_kernel_info;

/* Called once per kernel of the context's device, in order of preference for the problem. Everything is valid during the call only.
 * Return nonzero to stop. */
typedef int attune_kernel_visitor(const attune_kernel_info *kernel, void *user);

/* Visits the kernels of the context's device as attune_plan_create would consider them. `problem` may be NULL (then only the device and the
 * options are judged), and so may `options`. */
ATTUNE_API attune_status attune_kernels_visit(attune_context *context,
                                              const attune_problem *problem,
                                              const attune_plan_options *options,
                                              attune_kernel_visitor *visitor, void *user);

#ifdef __cplusplus
}
#endif
#endif
