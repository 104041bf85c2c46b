/* The same bits everywhere: o and lse of a problem must not depend on the device, the kernel, the tile, the number of threads, the batch
 * around a row, how a prompt is cut into chunks of queries, the grouping of heads or the layout. Everything is compared with the first
 * device's run. Exit status 1 where something differs. */
#include "device.h"
#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char about[] =
    "same_bits: runs each problem on every device with other kernels, threads, layouts and cuts, "
    "and\n"
    "compares the bits with the first device's run. Exit status 1 where something differs that is\n"
    "promised not to. With --kernel tiles every kernel is compared that the device has for the\n"
    "problem (on GPUs: of the smallest head_dim), else a few.\n";

enum { CPU_KERNELS = 64, OTHER_KERNELS = 5, ROWS_ALONE = 8 };

typedef struct session {
    options options;
    device devices[MAX_DEVICES];
    int device_count;
    device threads[5]; /* cpu again, with other threads */
    int thread_count;
    int64_t comparisons, failures, skipped, unpromised;
} session;

typedef struct trial {
    const inputs *in;
    const outputs *whole;
    const char *name;
} trial;

/* The place of a device in the list; devices with other threads are beside it, and confined by nothing. */
static attune_plan_options plan_on(const session *s, const device *d)
{
    for (int i = 0; i < s->device_count; i++)
        if (d == &s->devices[i]) return options_of_plan(&s->options, i, s->device_count);
    return options_of_plan(&s->options, 0, s->device_count + 1);
}

/* Runs `in` on the device and compares with the part of the whole that it computes. A kernel's id goes before what the options say. */
static void compare(session *s, const trial *t, const device *d, const inputs *in,
                    const char *kernel, part at, const char *what)
{
    attune_plan_options plan = plan_on(s, d);
    if (kernel != NULL) plan.kernel = kernel;
    outputs out;
    char why[REASON_SIZE];
    const run_result result = device_run(d, in, &plan, &out, why);
    if (result == RUN_SKIPPED) {
        s->skipped++;
        return;
    }
    if (result == RUN_DONE && !must_be_same(&out, t->whole)) {
        s->unpromised++;
        outputs_free(&out);
        return;
    }
    s->comparisons++;
    const int64_t different = result == RUN_DONE ? count_different(&out, t->whole, at) : 0;
    if (result == RUN_DONE && different > 0)
        snprintf(why, sizeof why, "%s: %" PRId64 " elements differ from %s", out.kernel, different,
                 t->whole->kernel);
    if (result == RUN_FAILED || different > 0) {
        s->failures++;
        printf("FAIL %s, %s: %s\n    %s\n", d->name, what, why, t->name);
    }
    if (result == RUN_DONE) outputs_free(&out);
}

static const part everything = {.batch = 0};

static void other_kernels(session *s, const trial *t, const device *d)
{
    const bool cpu = strcmp(d->info.backend, "cpu") == 0;
    const int few = cpu ? CPU_KERNELS : OTHER_KERNELS;
    const attune_plan_options plan = plan_on(s, d);
    kernel_ids ids =
        kernels_select(d, &t->in->problem, &plan, s->options.tiles ? EVERY_KERNEL : few, !cpu);
    for (int i = 0; i < ids.count; i++)
        compare(s, t, d, t->in, ids.at[i], everything, "another kernel");
    kernel_ids_free(&ids);
}

/* ---- a part of the rows ---- */

static int64_t keys_of_row(const attune_problem *p, int64_t row)
{
    if (p->mask == ATTUNE_MASK_NONE) return p->seqlen_k;
    const int64_t diagonal = p->mask == ATTUNE_MASK_CAUSAL ? p->seqlen_k - p->seqlen_q : 0;
    const int64_t keys = row + 1 + diagonal;
    return keys < 0 ? 0 : keys < p->seqlen_k ? keys : p->seqlen_k;
}

/* Rows [first, last) of one head as a problem of their own on the same memory: keys that none of them sees are cut off, so that the
 * bottom-right diagonal, or no mask at all, says the same. False where it does not. */
static bool cut(const inputs *in, part at, int64_t rows, inputs *out)
{
    const attune_problem *const p = &in->problem;
    const int64_t last = keys_of_row(p, at.row + rows - 1);
    *out = (inputs){.problem = *p};
    out->problem.batch = out->problem.heads_q = out->problem.heads_kv = 1;
    out->problem.seqlen_q = rows;
    out->problem.seqlen_k = last;
    out->problem.mask = keys_of_row(p, at.row) == last ? ATTUNE_MASK_NONE : ATTUNE_MASK_CAUSAL;
    for (int64_t i = 0; i < rows; i++)
        if (keys_of_row(&out->problem, i) != keys_of_row(p, at.row + i)) return false;

    const size_t size = attune_dtype_size(p->dtype);
    const int64_t head_kv = at.head / (p->heads_q / p->heads_kv);
    const tensor_shape q = shape_of(p, TENSOR_Q), k = shape_of(p, TENSOR_K),
                       v = shape_of(p, TENSOR_V);
    out->q = (char *)in->q + (size_t)element(&q, at.batch, at.row, at.head, 0) * size;
    out->k = (char *)in->k + (size_t)element(&k, at.batch, 0, head_kv, 0) * size;
    out->v = (char *)in->v + (size_t)element(&v, at.batch, 0, head_kv, 0) * size;
    return true;
}

/* A few rows, spread over batches, heads and queries, each computed alone. */
static void rows_alone(session *s, const trial *t, const device *d)
{
    const attune_problem *const p = &t->in->problem;
    const int64_t all = p->batch * p->heads_q * p->seqlen_q;
    for (int64_t i = 0; i < ROWS_ALONE && i < all; i++) {
        const int64_t index = i * (all - 1) / (ROWS_ALONE - 1);
        const part at = {.batch = index / p->seqlen_q / p->heads_q,
                         .head = index / p->seqlen_q % p->heads_q,
                         .row = index % p->seqlen_q};
        inputs row;
        if (cut(t->in, at, 1, &row)) compare(s, t, d, &row, NULL, at, "a row alone");
    }
}

/* The last head's queries in chunks of growing length, the way a long prompt is computed. */
static void chunks(session *s, const trial *t, const device *d)
{
    const attune_problem *const p = &t->in->problem;
    if (p->batch == 0) return;
    part at = {.batch = p->batch - 1, .head = p->heads_q - 1};
    for (int64_t length = 2; at.row < p->seqlen_q; at.row += length, length = length * 2 + 1) {
        inputs chunk;
        if (length > p->seqlen_q - at.row) length = p->seqlen_q - at.row;
        if (cut(t->in, at, length, &chunk))
            compare(s, t, d, &chunk, NULL, at, "a chunk of queries");
    }
}

/* ---- the same values elsewhere ---- */

static void compare_reshaped(session *s, const trial *t, const device *d,
                             const attune_problem *problem, const char *what)
{
    inputs other = inputs_reshaped(t->in, problem);
    compare(s, t, d, &other, NULL, everything, what);
    inputs_free(&other);
}

/* Every row `gap` elements longer than its head, every sequence a little longer than its rows. */
static void odd_strides(int64_t strides[ATTUNE_RANK], int64_t seqlen, int64_t heads, int64_t dim,
                        int64_t gap)
{
    strides[ATTUNE_DIM] = 1;
    strides[ATTUNE_HEAD] = dim + gap;
    strides[ATTUNE_SEQ] = heads * strides[ATTUNE_HEAD] + gap;
    strides[ATTUNE_BATCH] = seqlen * strides[ATTUNE_SEQ] + gap;
}

static void layouts(session *s, const trial *t, const device *d)
{
    attune_problem p = t->in->problem;
    attune_problem_set_layout(&p, ATTUNE_LAYOUT_BSHD);
    compare_reshaped(s, t, d, &p, "packed bshd");
    attune_problem_set_layout(&p, ATTUNE_LAYOUT_BHSD);
    compare_reshaped(s, t, d, &p, "packed bhsd");
    odd_strides(p.q_strides, p.seqlen_q, p.heads_q, p.head_dim, 1);
    odd_strides(p.k_strides, p.seqlen_k, p.heads_kv, p.head_dim, 3);
    odd_strides(p.v_strides, p.seqlen_k, p.heads_kv, p.head_dim_v, 5);
    odd_strides(p.o_strides, p.seqlen_q, p.heads_q, p.head_dim_v, 7);
    compare_reshaped(s, t, d, &p, "odd strides");
    if (p.heads_kv == p.heads_q) return;
    p.heads_kv = p.heads_q;
    attune_problem_set_layout(&p, ATTUNE_LAYOUT_BSHD);
    compare_reshaped(s, t, d, &p, "a key head for each query head");
}

/* ---- threads ---- */

/* One group at a time, from the last to the first. */
static void backwards(int64_t count, attune_range_body *body, void *user, void *pool)
{
    (void)pool;
    for (int64_t i = count; i-- > 0;) body(i, i + 1, user);
}

static void open_threads(session *s)
{
    static const int32_t counts[] = {1, 2, 3, 7};
    attune_context_options options;
    attune_context_options_init(&options);
    for (int i = 0; i < 4; i++) {
        options.threads = counts[i];
        s->thread_count += device_open(&s->threads[s->thread_count], "cpu", &options);
    }
    options.threads = 0;
    options.parallel_for = backwards;
    s->thread_count += device_open(&s->threads[s->thread_count], "cpu", &options);
}

/* ---- */

static void run_trial(session *s, const trial *t)
{
    for (int i = 0; i < s->device_count; i++) {
        const device *const d = &s->devices[i];
        if (d->context == NULL) continue;
        other_kernels(s, t, d);
        rows_alone(s, t, d);
        chunks(s, t, d);
        layouts(s, t, d);
    }
    for (int i = 0; i < s->thread_count; i++)
        compare(s, t, &s->threads[i], t->in, NULL, everything, "other threads");
}

static void run_problem(session *s, const attune_problem *problem)
{
    inputs in = inputs_create(problem);
    for (int fill = 0; fill < ATTUNE_FILL_COUNT; fill++) {
        if (!s->options.fills[fill]) continue;
        char text[512], name[640], why[REASON_SIZE];
        attune_problem_print(problem, text, sizeof text);
        snprintf(name, sizeof name, "--problem '%s' --fill %s --seed %" PRIu64, text,
                 attune_fill_name((attune_fill)fill), s->options.seed);
        inputs_fill(&in, (attune_fill)fill, s->options.seed);
        outputs whole;
        const attune_plan_options plan = plan_on(s, &s->devices[0]);
        if (device_run(&s->devices[0], &in, &plan, &whole, why) != RUN_DONE) {
            s->failures++;
            printf("FAIL %s: %s\n    %s\n", s->devices[0].name, why, name);
            continue;
        }
        if (s->options.hash)
            printf("%016" PRIx64 " %s\n", outputs_hash(&whole, 0xcbf29ce484222325u), name);
        else
            run_trial(s, &(trial){.in = &in, .whole = &whole, .name = name});
        outputs_free(&whole);
    }
    inputs_free(&in);
}

static bool open_devices(session *s)
{
    s->device_count = devices_open(s->devices, s->options.devices);
    for (int i = 0; i < s->device_count; i++) {
        const device *const d = &s->devices[i];
        if (d->context != NULL) continue;
        const bool required = i == 0 || in_list(s->options.require, d->name);
        s->failures += required;
        printf("%s %s: %s\n", required ? "FAIL" : "SKIPPED", d->name, d->missing);
    }
    return s->device_count > 0 && s->devices[0].context != NULL;
}

int main(int argc, char **argv)
{
    session s = {.options = options_parse_problems(argc, argv, about)};
    const options *const o = &s.options;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!open_devices(&s)) return 1;
    if (!o->hash) open_threads(&s);
    for (int i = o->shard; i < o->problems.count; i += o->shards)
        for (int t = 0; t < o->dtype_count; t++) {
            const attune_problem problem =
                o->dtypes[t] == OWN_DTYPE
                    ? o->problems.at[i]
                    : with_dtype(o->problems.at[i], (attune_dtype)o->dtypes[t]);
            run_problem(&s, &problem);
        }
    for (int i = 0; i < s.device_count; i++) device_close(&s.devices[i]);
    for (int i = 0; i < s.thread_count; i++) device_close(&s.threads[i]);
    problem_list_free(&s.options.problems);
    if (!o->hash)
        printf("%" PRId64 " comparisons, %" PRId64 " failures, %" PRId64
               " without a kernel, %" PRId64 " without a promise\n",
               s.comparisons, s.failures, s.skipped, s.unpromised);
    if (!o->hash && s.comparisons == 0) {
        s.failures++;
        printf("FAIL: nothing was compared\n");
    }
    return s.failures > 0;
}
