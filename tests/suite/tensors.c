#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *allocate(size_t bytes)
{
    void *const memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        abort();
    }
    return memory;
}

void fill_untouched(void *memory, size_t bytes)
{
    uint16_t *const at = memory;
    for (size_t i = 0; i < bytes / 2; i++) at[i] = UNTOUCHED;
}

bool is_untouched(const void *memory, size_t bytes)
{
    const uint16_t *const at = memory;
    for (size_t i = 0; i < bytes / 2; i++)
        if (at[i] != UNTOUCHED) return false;
    return true;
}

/* ---- problems ---- */

bool problem_list_add(problem_list *list, const char *text)
{
    attune_problem problem;
    if (attune_problem_parse(text, &problem) != ATTUNE_OK ||
        attune_problem_check(&problem) != ATTUNE_OK) {
        fprintf(stderr, "%s: %s\n", text, attune_error_detail());
        return false;
    }
    attune_problem *const longer = realloc(list->at, (size_t)(list->count + 1) * sizeof *longer);
    if (longer == NULL) return false;
    longer[list->count] = problem;
    *list = (problem_list){.at = longer, .count = list->count + 1};
    return true;
}

bool problem_list_read(problem_list *list, const char *path)
{
    FILE *const file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return false;
    }
    char line[1024];
    bool good = true;
    for (int number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
        line[strcspn(line, " #\r\n")] = '\0';
        if (line[0] == '\0') continue;
        good = problem_list_add(list, line);
        if (!good) fprintf(stderr, "%s:%d: no problem\n", path, number);
    }
    fclose(file);
    return good;
}

void problem_list_free(problem_list *list)
{
    free(list->at);
    *list = (problem_list){.at = NULL};
}

attune_problem with_dtype(attune_problem problem, attune_dtype dtype)
{
    problem.dtype = dtype;
    return problem;
}

/* ---- shapes ---- */

tensor_shape shape_of(const attune_problem *p, tensor_name name)
{
    const bool query = name == TENSOR_Q || name == TENSOR_O;
    const int64_t *const strides[] = {p->q_strides, p->k_strides, p->v_strides, p->o_strides};
    tensor_shape shape = {
        .sizes = {p->batch, query ? p->seqlen_q : p->seqlen_k, query ? p->heads_q : p->heads_kv,
                  name == TENSOR_Q || name == TENSOR_K ? p->head_dim : p->head_dim_v}};
    for (int i = 0; i < ATTUNE_RANK; i++)
        shape.strides[i] = shape.sizes[i] > 1 ? strides[name][i] : 0;
    return shape;
}

size_t span_bytes(const attune_problem *problem, tensor_name name)
{
    const tensor_shape shape = shape_of(problem, name);
    return (size_t)attune_span(shape.sizes, shape.strides) * attune_dtype_size(problem->dtype);
}

int64_t lse_count(const attune_problem *problem)
{
    return problem->return_lse ? problem->batch * problem->heads_q * problem->seqlen_q : 0;
}

int64_t element(const tensor_shape *shape, int64_t b, int64_t s, int64_t h, int64_t d)
{
    return b * shape->strides[ATTUNE_BATCH] + s * shape->strides[ATTUNE_SEQ] +
           h * shape->strides[ATTUNE_HEAD] + d;
}

/* ---- inputs ---- */

static void *untouched_tensor(const attune_problem *problem, tensor_name name)
{
    const size_t bytes = span_bytes(problem, name);
    void *const memory = allocate(bytes);
    fill_untouched(memory, bytes);
    return memory;
}

inputs inputs_create(const attune_problem *problem)
{
    return (inputs){.problem = *problem,
                    .q = untouched_tensor(problem, TENSOR_Q),
                    .k = untouched_tensor(problem, TENSOR_K),
                    .v = untouched_tensor(problem, TENSOR_V)};
}

void inputs_fill(inputs *in, attune_fill fill, uint64_t seed)
{
    if (attune_fill_inputs(&in->problem, fill, seed, in->q, in->k, in->v) != ATTUNE_OK) {
        fprintf(stderr, "fill: %s\n", attune_error_detail());
        abort();
    }
}

void inputs_free(inputs *in)
{
    free(in->q);
    free(in->k);
    free(in->v);
    *in = (inputs){.q = NULL};
}

static void *data(const inputs *in, tensor_name name)
{
    return name == TENSOR_Q ? in->q : name == TENSOR_K ? in->k : in->v;
}

static void reshape(const inputs *from, const inputs *to, tensor_name name)
{
    const tensor_shape a = shape_of(&from->problem, name), b = shape_of(&to->problem, name);
    const size_t bytes = attune_dtype_size(from->problem.dtype), row = bytes * (size_t)b.sizes[3];
    const int64_t copies = b.sizes[ATTUNE_HEAD] / a.sizes[ATTUNE_HEAD];
    for (int64_t i = 0; i < b.sizes[ATTUNE_BATCH]; i++)
        for (int64_t s = 0; s < b.sizes[ATTUNE_SEQ]; s++)
            for (int64_t h = 0; h < b.sizes[ATTUNE_HEAD]; h++)
                memcpy((char *)data(to, name) + (size_t)element(&b, i, s, h, 0) * bytes,
                       (char *)data(from, name) + (size_t)element(&a, i, s, h / copies, 0) * bytes,
                       row);
}

inputs inputs_reshaped(const inputs *from, const attune_problem *problem)
{
    const inputs to = inputs_create(problem);
    reshape(from, &to, TENSOR_Q);
    reshape(from, &to, TENSOR_K);
    reshape(from, &to, TENSOR_V);
    return to;
}

static char *place(const inputs *in, tensor_name name, int64_t b, int64_t s, int64_t h, int64_t d)
{
    const tensor_shape shape = shape_of(&in->problem, name);
    return (char *)data(in, name) +
           (size_t)element(&shape, b, s, h, d) * attune_dtype_size(in->problem.dtype);
}

float get(const inputs *in, tensor_name name, int64_t b, int64_t s, int64_t h, int64_t d)
{
    float x;
    attune_convert_to_f32(in->problem.dtype, place(in, name, b, s, h, d), &x, 1);
    return x;
}

void set(inputs *in, tensor_name name, int64_t b, int64_t s, int64_t h, int64_t d, float x)
{
    attune_convert_from_f32(in->problem.dtype, &x, place(in, name, b, s, h, d), 1);
}

/* ---- outputs ---- */

void outputs_free(outputs *out)
{
    free(out->o);
    free(out->lse);
    *out = (outputs){.o = NULL};
}

/* An element's bits; every NaN gives the same. */
static uint32_t bits_of(attune_dtype dtype, const void *tensor, int64_t index)
{
    const size_t size = attune_dtype_size(dtype);
    const char *const at = (const char *)tensor + (size_t)index * size;
    float x;
    attune_convert_to_f32(dtype, at, &x, 1);
    if (isnan(x)) return UINT32_MAX;
    uint16_t narrow;
    uint32_t bits;
    memcpy(size == 2 ? (void *)&narrow : (void *)&bits, at, size);
    return size == 2 ? narrow : bits;
}

int64_t count_different(const outputs *small, const outputs *whole, part at)
{
    const attune_problem *const p = &small->problem, *const w = &whole->problem;
    const tensor_shape a = shape_of(p, TENSOR_O), b = shape_of(w, TENSOR_O);
    int64_t different = 0;
    for (int64_t i = 0; i < p->batch; i++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t s = 0; s < p->seqlen_q; s++) {
                const int64_t wb = at.batch + i, wh = at.head + h, ws = at.row + s;
                for (int64_t d = 0; d < p->head_dim_v; d++)
                    different += bits_of(p->dtype, small->o, element(&a, i, s, h, d)) !=
                                 bits_of(w->dtype, whole->o, element(&b, wb, ws, wh, d));
                if (small->lse != NULL && whole->lse != NULL)
                    different +=
                        bits_of(ATTUNE_F32, small->lse, (i * p->heads_q + h) * p->seqlen_q + s) !=
                        bits_of(ATTUNE_F32, whole->lse, (wb * w->heads_q + wh) * w->seqlen_q + ws);
            }
    return different;
}

static uint64_t hash_add(uint64_t hash, uint32_t bits)
{
    for (int i = 0; i < 4; i++) hash = (hash ^ ((bits >> 8 * i) & 0xffu)) * 0x100000001b3u;
    return hash;
}

uint64_t outputs_hash(const outputs *out, uint64_t hash)
{
    const attune_problem *const p = &out->problem;
    const tensor_shape shape = shape_of(p, TENSOR_O);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t s = 0; s < p->seqlen_q; s++)
            for (int64_t h = 0; h < p->heads_q; h++)
                for (int64_t d = 0; d < p->head_dim_v; d++)
                    hash = hash_add(hash, bits_of(p->dtype, out->o, element(&shape, b, s, h, d)));
    for (int64_t i = 0; i < lse_count(p); i++)
        hash = hash_add(hash, bits_of(ATTUNE_F32, out->lse, i));
    return hash;
}
