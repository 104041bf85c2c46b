#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/numerics.h"
#include "fail.h"
#include "npy.h"

static size_t span_bytes(const attune_problem *p, int64_t seq, int64_t heads, int64_t dims,
                         const int64_t strides[ATTUNE_RANK])
{
    const int64_t sizes[ATTUNE_RANK] = {p->batch, seq, heads, dims};
    return (size_t)attune_span(sizes, strides) * attune_dtype_size(p->dtype);
}

tensor_sizes problem_bytes(const attune_problem *p)
{
    return (tensor_sizes){
        .q = span_bytes(p, p->seqlen_q, p->heads_q, p->head_dim, p->q_strides),
        .k = span_bytes(p, p->seqlen_k, p->heads_kv, p->head_dim, p->k_strides),
        .v = span_bytes(p, p->seqlen_k, p->heads_kv, p->head_dim_v, p->v_strides),
        .o = span_bytes(p, p->seqlen_q, p->heads_q, p->head_dim_v, p->o_strides),
        .lse = p->return_lse ? (size_t)(p->batch * p->heads_q * p->seqlen_q) * sizeof(float) : 0,
    };
}

double problem_flops(const attune_problem *p)
{
    double pairs = (double)p->seqlen_q * (double)p->seqlen_k;
    if (p->mask != ATTUNE_MASK_NONE) {
        const int64_t diagonal = p->mask == ATTUNE_MASK_CAUSAL ? p->seqlen_k - p->seqlen_q : 0;
        pairs = 0;
        for (int64_t row = 0; row < p->seqlen_q; row++) {
            const int64_t keys = row + diagonal + 1;
            pairs += keys < 0 ? 0 : keys < p->seqlen_k ? (double)keys : (double)p->seqlen_k;
        }
    }
    return 2 * pairs * (double)(p->head_dim + p->head_dim_v) * (double)p->batch *
           (double)p->heads_q;
}

static void apply_semantics(const options *o, bool lse, attune_problem *problem)
{
    if (o->has_mask) problem->mask = o->mask;
    if (o->has_scale) problem->softmax_scale = o->scale;
    if (lse) problem->return_lse = 1;
}

/* ---- files ---- */

/* The file's elements in the problem's type, rounded to nearest even; the array gives its memory up. */
static void *take(npy_array *array, attune_dtype dtype)
{
    enum { BLOCK = 1024 };
    char *const from = array->data;
    array->data = NULL;
    if (array->dtype == dtype) return from;

    size_t count = 1;
    for (int i = 0; i < array->rank; i++) count *= (size_t)array->shape[i];
    const size_t from_size = attune_dtype_size(array->dtype), size = attune_dtype_size(dtype);
    char *const to = allocate(count * size);
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t length = count - i < BLOCK ? count - i : BLOCK;
        float wide[BLOCK];
        attune_convert_to_f32(array->dtype, from + i * from_size, wide, length);
        attune_convert_from_f32(dtype, wide, to + i * size, length);
    }
    free(from);
    return to;
}

static const char *shape_text(const npy_array *array, char text[96])
{
    snprintf(text, 96, "(%lld, %lld, %lld, %lld)", (long long)array->shape[0],
             (long long)array->shape[1], (long long)array->shape[2], (long long)array->shape[3]);
    return text;
}

/* The problem that three arrays describe. */
static int describe(const options *o, bool lse, const npy_array array[3], inputs *in)
{
    const bool bhsd = o->layout && strcmp(o->layout, "bhsd") == 0;
    const int seq = bhsd ? 2 : 1, head = bhsd ? 1 : 2;
    const int64_t *const q = array[0].shape, *const k = array[1].shape, *const v = array[2].shape;
    char first[96], second[96];
    if (q[0] != k[0] || q[3] != k[3])
        return fail(EXIT_BAD_INPUT, "%s has shape %s and %s has %s: batch and head_dim must agree",
                    o->q, shape_text(&array[0], first), o->k, shape_text(&array[1], second));
    if (k[0] != v[0] || k[1] != v[1] || k[2] != v[2])
        return fail(EXIT_BAD_INPUT, "%s has shape %s and %s has %s: all but head_dim must agree",
                    o->k, shape_text(&array[1], first), o->v, shape_text(&array[2], second));
    if (k[head] > 0 && q[head] % k[head] != 0)
        return fail(EXIT_BAD_INPUT,
                    "%s has shape %s and %s has %s: the query heads must be a multiple of the key "
                    "heads",
                    o->q, shape_text(&array[0], first), o->k, shape_text(&array[1], second));
    if (!o->has_dtype && (array[1].dtype != array[0].dtype || array[2].dtype != array[0].dtype))
        return fail(EXIT_BAD_INPUT, "%s, %s and %s hold different types: --dtype must choose one",
                    o->q, o->k, o->v);
    attune_problem_init(&in->problem, o->has_dtype ? o->dtype : array[0].dtype, q[0], q[head],
                        k[head], q[seq], k[seq], q[3], v[3]);
    attune_problem_set_layout(&in->problem, bhsd ? ATTUNE_LAYOUT_BHSD : ATTUNE_LAYOUT_BSHD);
    apply_semantics(o, lse, &in->problem);
    const attune_status status = attune_problem_check(&in->problem);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

int inputs_from_files(const options *o, bool lse, inputs *in)
{
    const char *const paths[] = {o->q, o->k, o->v};
    npy_array array[3] = {{.data = NULL}, {.data = NULL}, {.data = NULL}};
    *in = (inputs){.q = NULL};
    int result = EXIT_DONE;
    for (int i = 0; i < 3 && result == EXIT_DONE; i++)
        result = paths[i] ? npy_read(paths[i], 4, &array[i])
                          : fail(EXIT_BAD_INPUT, "--q, --k and --v are needed together");
    if (result == EXIT_DONE) result = describe(o, lse, array, in);
    if (result == EXIT_DONE) {
        in->q = take(&array[0], in->problem.dtype);
        in->k = take(&array[1], in->problem.dtype);
        in->v = take(&array[2], in->problem.dtype);
    }
    for (int i = 0; i < 3; i++) free(array[i].data);
    return result;
}

/* ---- fills ---- */

int problem_read(const options *o, const char *text, bool lse, attune_problem *problem)
{
    attune_status status = attune_problem_parse(text, problem);
    if (status == ATTUNE_OK) {
        if (o->has_dtype) problem->dtype = o->dtype;
        apply_semantics(o, lse, problem);
        status = attune_problem_check(problem);
    }
    if (status == ATTUNE_OK) return EXIT_DONE;
    return fail(EXIT_BAD_INPUT, "problem '%s': %s", text, attune_error_detail());
}

int inputs_from_problem(const options *o, const attune_problem *problem, int fill, inputs *in)
{
    const tensor_sizes bytes = problem_bytes(problem);
    *in = (inputs){.problem = *problem,
                   .q = allocate(bytes.q),
                   .k = allocate(bytes.k),
                   .v = allocate(bytes.v)};
    const attune_status status =
        attune_fill_inputs(problem, (attune_fill)fill, o->seed, in->q, in->k, in->v);
    if (status == ATTUNE_OK) return EXIT_DONE;
    inputs_free(in);
    return fail_status(status);
}

void inputs_free(inputs *in)
{
    free(in->q);
    free(in->k);
    free(in->v);
    in->q = in->k = in->v = NULL;
}
