#include "tune_judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "runner.h"

/* ---- small problems ---- */

/* The fills that expose what a wrong tile does: a rescale left out, keys taken for others, the everyday case, and what is hidden or beyond the last
 * key let in. */
static const struct small_kind {
    attune_fill fill;
    enum { OWN_MASK, CAUSAL, FULL } mask;
} kinds[SMALL_CASES] = {
    {ATTUNE_FILL_ramp, OWN_MASK}, {ATTUNE_FILL_needle, OWN_MASK}, {ATTUNE_FILL_normal, OWN_MASK},
    {ATTUNE_FILL_poison, CAUSAL}, {ATTUNE_FILL_poison, FULL},
};

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

/* Whole tiles and a tail of queries and of keys, whatever the tile; few heads. */
static void make_small(const attune_problem *tuned, const struct small_kind *kind,
                       attune_problem *small)
{
    enum { QUERIES = 161, KEYS = 301 };
    const int64_t ratio = tuned->heads_q / tuned->heads_kv,
                  heads_kv = at_most(tuned->heads_kv, ratio > 4 ? 1 : 2);
    attune_problem_init(small, tuned->dtype, 1, heads_kv * ratio, heads_kv,
                        at_most(tuned->seqlen_q, QUERIES), at_most(tuned->seqlen_k, KEYS),
                        tuned->head_dim, tuned->head_dim_v);
    small->softmax_scale = tuned->softmax_scale;
    small->mask = kind->mask == CAUSAL ? ATTUNE_MASK_CAUSAL
                  : kind->mask == FULL ? ATTUNE_MASK_NONE
                                       : tuned->mask;
    small->return_lse = 1;
}

static int open_case(small_case *c, const options *o, const attune_problem *tuned,
                     const struct small_kind *kind)
{
    attune_problem problem;
    make_small(tuned, kind, &problem);
    const int code = inputs_from_problem(o, &problem, (int)kind->fill, &c->in);
    if (code != EXIT_DONE) return code;
    const attune_status status =
        attune_reference_create(&problem, c->in.q, c->in.k, c->in.v, &c->reference);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

/* The sentence says where the largest error is. */
static bool judge_case(const small_case *c, attune_context *context, const char *kernel,
                       double *bound_ratio, char reason[256])
{
    char problem[512];
    attune_problem_print(&c->in.problem, problem, sizeof problem);
    attune_plan_options options;
    attune_plan_options_init(&options);
    options.kernel = kernel;
    options.deterministic = 1;
    runner r;
    attune_metrics metrics = {.verdict = ATTUNE_VERDICT_SKIPPED};
    attune_arithmetic arithmetic;
    double milliseconds;
    attune_status status = runner_open(&r, context, &c->in, &options);
    if (status == ATTUNE_OK) {
        status = runner_run(&r, &milliseconds);
        if (status == ATTUNE_OK) status = runner_read(&r);
        if (status == ATTUNE_OK) status = attune_plan_arithmetic(r.plan, &arithmetic);
        if (status == ATTUNE_OK)
            status = attune_judge(c->reference, &arithmetic, r.o, r.lse, &metrics);
        runner_close(&r);
    }
    *bound_ratio = fmax(*bound_ratio, fmax(metrics.bound_ratio, metrics.lse_bound_ratio));
    if (status != ATTUNE_OK)
        snprintf(reason, 256, "fails: %.200s", attune_error_detail());
    else if (metrics.verdict == ATTUNE_VERDICT_FAIL)
        snprintf(reason, 256, "is wrong: an error of %.3g times its bound, for %.160s",
                 fmax(metrics.bound_ratio, metrics.lse_bound_ratio), problem);
    return status == ATTUNE_OK && metrics.verdict != ATTUNE_VERDICT_FAIL;
}

bool tune_judge_small(const tune_judge *judge, attune_context *context, const char *kernel,
                      double *bound_ratio, char reason[256])
{
    for (int i = 0; i < SMALL_CASES; i++)
        if (!judge_case(&judge->cases[i], context, kernel, bound_ratio, reason)) return false;
    return true;
}

/* ---- the tuned problem ---- */

/* The rows that are judged: the first, the last, and some between them. */
static void row_at(const attune_problem *p, int which, int rows, int64_t *batch, int64_t *head,
                   int64_t *row)
{
    const int64_t count = p->batch * p->heads_q * p->seqlen_q;
    const int64_t at = rows == 1 ? 0 : (int64_t)((double)(count - 1) * which / (rows - 1));
    *row = at % p->seqlen_q;
    *head = at / p->seqlen_q % p->heads_q;
    *batch = at / p->seqlen_q / p->heads_q;
}

int tune_judge_open(tune_judge *judge, const options *o, const inputs *tuned)
{
    const attune_problem *const p = &tuned->problem;
    *judge = (tune_judge){.rows = (int)at_most(p->batch * p->heads_q * p->seqlen_q, JUDGED_ROWS)};
    int code = EXIT_DONE;
    for (int i = 0; i < SMALL_CASES && code == EXIT_DONE; i++)
        code = open_case(&judge->cases[i], o, p, &kinds[i]);
    for (int i = 0; i < judge->rows && code == EXIT_DONE; i++) {
        int64_t batch, head, row;
        row_at(p, i, judge->rows, &batch, &head, &row);
        judge->o[i] = allocate((size_t)p->head_dim_v * sizeof *judge->o[i]);
        judge->terms[i] = allocate((size_t)p->head_dim_v * sizeof *judge->terms[i]);
        const attune_status status =
            attune_reference_row(p, tuned->q, tuned->k, tuned->v, batch, head, row, judge->o[i],
                                 judge->terms[i], NULL, NULL, NULL);
        if (status != ATTUNE_OK) code = fail_status(status);
    }
    return code;
}

void tune_judge_close(tune_judge *judge)
{
    for (int i = 0; i < SMALL_CASES; i++) {
        attune_reference_destroy(judge->cases[i].reference);
        inputs_free(&judge->cases[i].in);
    }
    for (int i = 0; i < judge->rows; i++) {
        free(judge->o[i]);
        free(judge->terms[i]);
    }
}

/* FNV-1a, eight bytes at a time. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (; bytes > 0;) {
        uint64_t word = 0;
        const size_t taken = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, at, taken);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 29;
        at += taken;
        bytes -= taken;
    }
    return h;
}

static bool judge_row(const tune_judge *judge, const attune_problem *p,
                      const attune_arithmetic *arithmetic, int which, const void *o,
                      double *bound_ratio)
{
    int64_t batch, head, row;
    row_at(p, which, judge->rows, &batch, &head, &row);
    const int64_t first = batch * p->o_strides[ATTUNE_BATCH] + row * p->o_strides[ATTUNE_SEQ] +
                          head * p->o_strides[ATTUNE_HEAD];
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        float value;
        const double exact = judge->o[which][d];
        attune_convert_to_f32(p->dtype,
                              (const char *)o + (size_t)(first + d) * attune_dtype_size(p->dtype),
                              &value, 1);
        const double bound = attune_bound_o(arithmetic, &judge->terms[which][d], exact, p->dtype);
        const double ratio = fabs((double)value - exact) / bound;
        if (!(ratio <= 1.0)) {
            *bound_ratio = isnan(ratio) ? INFINITY : ratio;
            return false;
        }
        *bound_ratio = fmax(*bound_ratio, ratio);
    }
    return true;
}

bool tune_judge_full(const tune_judge *judge, const inputs *tuned, const attune_plan *plan,
                     const void *o, const float *lse, double *bound_ratio, uint64_t *bits,
                     char reason[256])
{
    const attune_problem *const p = &tuned->problem;
    const tensor_sizes bytes = problem_bytes(p);
    attune_arithmetic arithmetic;
    if (attune_plan_arithmetic(plan, &arithmetic) != ATTUNE_OK) {
        snprintf(reason, 256, "fails: %.200s", attune_error_detail());
        return false;
    }
    for (int i = 0; i < judge->rows; i++) {
        if (judge_row(judge, p, &arithmetic, i, o, bound_ratio)) continue;
        snprintf(reason, 256, "is wrong: an error of %.3g times its bound in the tuned problem",
                 *bound_ratio);
        return false;
    }
    *bits = hash(hash(0xcbf29ce484222325u, o, bytes.o), lse, lse ? bytes.lse : 0);
    return true;
}
