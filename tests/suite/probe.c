#include "probe.h"

#include "options.h"

#include <math.h>
#include <stdio.h>

/* under test */
static device now;
static attune_plan_options plan;

static attune_problem problem_of(const char *text, attune_dtype dtype)
{
    attune_problem problem;
    char whole[256];
    snprintf(whole, sizeof whole, "op=forward,%s,dtype=%s,lse=1", text, attune_dtype_name(dtype));
    if (attune_problem_parse(whole, &problem) != ATTUNE_OK) fail_msg("%s", attune_error_detail());
    return problem;
}

float eighths(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int)(*state >> 40) % 33 - 16) / 8;
}

void fill_tensor(inputs *in, tensor_name name, uint64_t seed)
{
    const tensor_shape shape = shape_of(&in->problem, name);
    for (int64_t b = 0; b < shape.sizes[0]; b++)
        for (int64_t s = 0; s < shape.sizes[1]; s++)
            for (int64_t h = 0; h < shape.sizes[2]; h++)
                for (int64_t d = 0; d < shape.sizes[3]; d++)
                    set(in, name, b, s, h, d, eighths(&seed));
}

inputs inputs_of(const char *text, attune_dtype dtype)
{
    const attune_problem problem = problem_of(text, dtype);
    inputs in = inputs_create(&problem);
    fill_tensor(&in, TENSOR_Q, 1);
    fill_tensor(&in, TENSOR_K, 2);
    fill_tensor(&in, TENSOR_V, 3);
    return in;
}

static outputs run_on(const device *d, const attune_plan_options *options, const inputs *in)
{
    outputs out = {.o = NULL};
    char why[REASON_SIZE] = "";
    if (device_run(d, in, options, &out, why) != RUN_DONE) fail_msg("%s: %s", d->name, why);
    return out;
}

/* A matrix unit need not take f32, which is for another engine then. */
outputs run(const inputs *in)
{
    outputs out = {.o = NULL};
    char why[REASON_SIZE];
    attune_plan_options options = plan;
    if (in->problem.dtype == ATTUNE_F32) {
        if (device_run(&now, in, &options, &out, why) == RUN_DONE) return out;
        options.engine = NULL;
    }
    return run_on(&now, &options, in);
}

outputs run_on_cpu(const inputs *in)
{
    device cpu;
    if (!device_open(&cpu, "cpu", NULL)) fail_msg("%s", cpu.missing);
    const outputs out = run_on(&cpu, NULL, in);
    device_close(&cpu);
    return out;
}

float o_at(const outputs *out, int64_t b, int64_t s, int64_t h, int64_t d)
{
    const tensor_shape shape = shape_of(&out->problem, TENSOR_O);
    float x;
    attune_convert_to_f32(out->problem.dtype,
                          (char *)out->o + (size_t)element(&shape, b, s, h, d) *
                                               attune_dtype_size(out->problem.dtype),
                          &x, 1);
    return x;
}

attune_reference *reference_of(const inputs *in)
{
    attune_reference *reference = NULL;
    if (attune_reference_create(&in->problem, in->q, in->k, in->v, &reference) != ATTUNE_OK)
        fail_msg("%s", attune_error_detail());
    return reference;
}

double bound_o(const outputs *out, const attune_reference *r, int64_t s, int64_t d)
{
    const int64_t at = s * r->problem.heads_q * r->problem.head_dim_v + d;
    return attune_bound_o(&out->arithmetic, &r->o_terms[at], r->o[at], r->problem.dtype);
}

double bound_lse(const outputs *out, const attune_reference *r, int64_t s)
{
    return attune_bound_lse(&out->arithmetic, &r->lse_terms[s], r->lse[s], r->visible[s]);
}

void assert_near(double a, double b, double bound, const char *what, int64_t s, int64_t d)
{
    if (!(fabs(a - b) <= bound))
        fail_msg("%s: %.9g and %.9g at row %lld, dim %lld are further apart than %.3g", what, a, b,
                 (long long)s, (long long)d, bound);
}

void assert_judged(const inputs *in, const outputs *out)
{
    attune_reference *const r = reference_of(in);
    attune_metrics metrics;
    assert_int_equal(attune_judge(r, &out->arithmetic, out->o, out->lse, &metrics), ATTUNE_OK);
    if (metrics.verdict == ATTUNE_VERDICT_FAIL)
        fail_msg("%s: bound_ratio %g, lse %g", out->kernel, metrics.bound_ratio,
                 metrics.lse_bound_ratio);
    attune_reference_destroy(r);
}

void assert_same_bits(const outputs *a, const outputs *b)
{
    assert_int_equal(count_different(a, b, (part){.batch = 0}), 0);
}

int run_on_devices(int argc, char **argv, const char *about, group_runner *group)
{
    const options o = options_parse(argc, argv, about);
    device devices[MAX_DEVICES];
    const int count = devices_open(devices, o.devices);
    int failed = 0, ran = 0;
    plan = options_of_plan(&o, 0, 1);
    if (o.test != NULL) cmocka_set_test_filter(o.test);
    for (int i = 0; i < count; i++) {
        now = devices[i];
        if (now.context == NULL) {
            const bool required = in_list(o.require, now.name);
            fprintf(stderr, "%s %s: %s\n", required ? "FAIL" : "SKIPPED", now.name, now.missing);
            failed += required;
            continue;
        }
        failed += group(now.name) != 0;
        ran++;
        device_close(&devices[i]);
    }
    if (ran == 0) fprintf(stderr, "FAIL: no device is open\n");
    return failed > 0 || ran == 0;
}
