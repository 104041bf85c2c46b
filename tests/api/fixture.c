#include "fixture.h"

#include <stdlib.h>
#include <string.h>

void assert_contains_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) != NULL) return;
    print_error("\"%s\" does not contain \"%s\"\n", text, part);
    _fail(file, line);
}

attune_context *open_cpu(const attune_context_options *options)
{
    attune_context *context;
    assert_ok(attune_context_open("cpu", options, &context));
    return context;
}

attune_problem parse(const char *text)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return problem;
}

static attune_buffer host_buffer(size_t bytes)
{
    void *const memory = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(memory);
    return (attune_buffer){.handle = memory};
}

static size_t bytes_of(const attune_problem *p, int64_t seq, int64_t heads, int64_t dim,
                       const int64_t strides[ATTUNE_RANK])
{
    const int64_t sizes[ATTUNE_RANK] = {p->batch, seq, heads, dim};
    return (size_t)attune_span(sizes, strides) * attune_dtype_size(p->dtype);
}

fixture fixture_make(attune_context *context, const attune_problem *problem)
{
    const attune_problem *const p = problem;
    fixture f = {.problem = *p};
    attune_forward_tensors *const t = &f.tensors;
    size_t workspace;
    assert_ok(attune_forward_workspace_size(context, p, &workspace));
    attune_forward_tensors_init(t);
    t->q = host_buffer(bytes_of(p, p->seqlen_q, p->heads_q, p->head_dim, p->q_strides));
    t->k = host_buffer(bytes_of(p, p->seqlen_k, p->heads_kv, p->head_dim, p->k_strides));
    t->v = host_buffer(bytes_of(p, p->seqlen_k, p->heads_kv, p->head_dim_v, p->v_strides));
    f.o_bytes = bytes_of(p, p->seqlen_q, p->heads_q, p->head_dim_v, p->o_strides);
    t->o = host_buffer(f.o_bytes);
    f.lse_bytes = (size_t)(p->batch * p->heads_q * p->seqlen_q) * sizeof(float);
    t->lse = host_buffer(f.lse_bytes);
    t->workspace = host_buffer(workspace);
    assert_ok(attune_fill_inputs(p, ATTUNE_FILL_normal, 1, t->q.handle, t->k.handle, t->v.handle));
    fixture_poison(&f);
    return f;
}

void fixture_free(fixture *f)
{
    const attune_forward_tensors *const t = &f->tensors;
    void *const handles[] = {t->q.handle, t->k.handle,   t->v.handle,
                             t->o.handle, t->lse.handle, t->workspace.handle};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) free(handles[i]);
}

/* All bits set is a NaN of every type. */
void fixture_poison(fixture *f)
{
    memset(f->tensors.o.handle, 0xff, f->o_bytes);
    memset(f->tensors.lse.handle, 0xff, f->lse_bytes);
}

void fixture_run(attune_context *context, fixture *f)
{
    assert_ok(attune_forward(context, &f->problem, &f->tensors, NULL));
}

void fixture_judge(attune_context *context, const fixture *f)
{
    const attune_forward_tensors *const t = &f->tensors;
    attune_plan *plan;
    attune_arithmetic arithmetic;
    attune_reference *reference;
    attune_metrics metrics;
    assert_ok(attune_plan_create(context, &f->problem, NULL, &plan));
    assert_ok(attune_plan_arithmetic(plan, &arithmetic));
    assert_ok(
        attune_reference_create(&f->problem, t->q.handle, t->k.handle, t->v.handle, &reference));
    assert_ok(attune_judge(reference, &arithmetic, t->o.handle,
                           f->problem.return_lse != 0 ? t->lse.handle : NULL, &metrics));
    if (metrics.verdict == ATTUNE_VERDICT_FAIL)
        fail_msg("error is %g bounds at (%d, %d, %d, %d)", metrics.bound_ratio,
                 (int)metrics.worst[0], (int)metrics.worst[1], (int)metrics.worst[2],
                 (int)metrics.worst[3]);
    attune_reference_destroy(reference);
    attune_plan_destroy(plan);
}

void assert_same_bits(const fixture *a, const fixture *b)
{
    assert_int_equal(a->o_bytes, b->o_bytes);
    assert_memory_equal(a->tensors.o.handle, b->tensors.o.handle, a->o_bytes);
    assert_memory_equal(a->tensors.lse.handle, b->tensors.lse.handle, a->lse_bytes);
}
