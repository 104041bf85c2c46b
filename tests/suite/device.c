#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool device_open(device *d, const char *name, const attune_context_options *options)
{
    *d = (device){.context = NULL};
    snprintf(d->name, sizeof d->name, "%s", name);
    if (attune_context_open(name, options, &d->context) != ATTUNE_OK ||
        attune_context_device(d->context, &d->info) != ATTUNE_OK) {
        snprintf(d->missing, sizeof d->missing, "%s", attune_error_detail());
        return false;
    }
    return true;
}

void device_close(device *d)
{
    attune_context_close(d->context);
    d->context = NULL;
}

static int devices_open_all(device devices[MAX_DEVICES])
{
    int count = 0;
    for (int i = 0; i < attune_device_count() && count < MAX_DEVICES; i++) {
        attune_device_info info;
        if (attune_device_get(i, &info) == ATTUNE_OK && strcmp(info.backend, "emulated") != 0)
            device_open(&devices[count++], info.id, NULL);
    }
    return count;
}

int devices_open(device devices[MAX_DEVICES], const char *names)
{
    if (names == NULL) return devices_open_all(devices);
    int count = 0;
    while (*names != '\0' && count < MAX_DEVICES) {
        char name[64];
        const size_t length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        device_open(&devices[count++], name, NULL);
        names += length + (names[length] == ',');
    }
    return count;
}

/* ---- guarded buffers ---- */

enum { GUARD = 256 };

typedef struct wanted_buffer {
    const char *name;
    const void *content; /* NULL: UNTOUCHED */
    size_t bytes, shift;
    bool output; /* a run may change it */
} wanted_buffer;

typedef struct guarded {
    const char *name;
    attune_buffer memory, tensor; /* the whole, and the place of the tensor in it */
    size_t lead, bytes, total;
    bool output;
    char *image; /* what was written there */
} guarded;

static bool guarded_create(attune_context *context, const wanted_buffer *wanted, guarded *g,
                           char why[REASON_SIZE])
{
    const size_t lead = GUARD + wanted->shift;
    *g = (guarded){.name = wanted->name,
                   .lead = lead,
                   .bytes = wanted->bytes,
                   .total = (lead + wanted->bytes + GUARD + 63) / 64 * 64,
                   .output = wanted->output};
    g->image = allocate(g->total);
    fill_untouched(g->image, g->total);
    if (wanted->content != NULL) memcpy(g->image + lead, wanted->content, wanted->bytes);
    if (attune_buffer_alloc(context, g->total, &g->memory) != ATTUNE_OK ||
        attune_buffer_write(context, g->memory, g->image, g->total, NULL) != ATTUNE_OK) {
        snprintf(why, REASON_SIZE, "%s", attune_error_detail());
        return false;
    }
    g->tensor = g->memory;
    g->tensor.offset += lead;
    return true;
}

static void guarded_free(attune_context *context, guarded *g)
{
    attune_buffer_free(context, &g->memory);
    free(g->image);
}

/* Reads everything back: only an output tensor may have changed, which `result` receives unless NULL. */
static bool guarded_check(attune_context *context, const guarded *g, void *result,
                          char why[REASON_SIZE])
{
    char *const seen = allocate(g->total);
    if (attune_buffer_read(context, g->memory, seen, g->total, NULL) != ATTUNE_OK) {
        snprintf(why, REASON_SIZE, "reading %s: %s", g->name, attune_error_detail());
        free(seen);
        return false;
    }
    if (result != NULL) memcpy(result, seen + g->lead, g->bytes);
    if (g->output) memcpy(g->image + g->lead, seen + g->lead, g->bytes);
    size_t at = 0;
    while (at < g->total && seen[at] == g->image[at]) at++;
    if (at < g->total)
        snprintf(why, REASON_SIZE, "the run wrote %s %s, at byte %td of a tensor of %zu",
                 at < g->lead              ? "before"
                 : at < g->lead + g->bytes ? "into"
                                           : "behind",
                 g->name, (ptrdiff_t)at - (ptrdiff_t)g->lead, g->bytes);
    free(seen);
    return at == g->total;
}

/* What lies between the elements of a strided o. */
static bool gaps_untouched(const outputs *out, size_t bytes, char why[REASON_SIZE])
{
    const attune_problem *const p = &out->problem;
    const tensor_shape shape = shape_of(p, TENSOR_O);
    const size_t size = attune_dtype_size(p->dtype);
    char *const rest = allocate(bytes);
    memcpy(rest, out->o, bytes);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t s = 0; s < p->seqlen_q; s++)
            for (int64_t h = 0; h < p->heads_q; h++)
                fill_untouched(rest + (size_t)element(&shape, b, s, h, 0) * size,
                               (size_t)p->head_dim_v * size);
    const bool good = is_untouched(rest, bytes);
    if (!good) snprintf(why, REASON_SIZE, "the run wrote between the elements of o");
    free(rest);
    return good;
}

/* ---- a run ---- */

enum { Q, K, V, O, LSE, WORKSPACE, BUFFERS };

static bool run_and_check(attune_context *context, const attune_plan *plan, guarded g[BUFFERS],
                          outputs *out, char why[REASON_SIZE])
{
    attune_forward_tensors tensors;
    attune_forward_tensors_init(&tensors);
    tensors.q = g[Q].tensor;
    tensors.k = g[K].tensor;
    tensors.v = g[V].tensor;
    tensors.o = g[O].tensor;
    tensors.workspace = g[WORKSPACE].tensor;
    if (out->problem.return_lse) tensors.lse = g[LSE].tensor;

    if (attune_plan_run(plan, &tensors, NULL) != ATTUNE_OK ||
        attune_synchronize(context, NULL) != ATTUNE_OK ||
        attune_plan_arithmetic(plan, &out->arithmetic) != ATTUNE_OK) {
        snprintf(why, REASON_SIZE, "%s", attune_error_detail());
        return false;
    }
    snprintf(out->kernel, sizeof out->kernel, "%s", attune_plan_kernel(plan));
    snprintf(out->engine, sizeof out->engine, "%s", attune_plan_engine(plan));
    out->reproducible = attune_plan_reproducible(plan);

    void *const results[BUFFERS] = {[O] = out->o, [LSE] = out->lse};
    bool good = true;
    for (int i = 0; good && i < BUFFERS; i++) good = guarded_check(context, &g[i], results[i], why);
    return good && gaps_untouched(out, g[O].bytes, why);
}

static bool run_plan(attune_context *context, const attune_plan *plan, const inputs *in,
                     outputs *out, char why[REASON_SIZE])
{
    const attune_problem *const p = &in->problem;
    const size_t size = attune_dtype_size(p->dtype);
    /* every other problem starts at multiples of 16 bytes, for kernels that copy in chunks of so many */
    const bool aligned = (p->seqlen_q + p->seqlen_k) % 2 == 0;
    const size_t shift = (size_t)(p->seqlen_q + 3 * p->seqlen_k + p->head_dim) % 8;
    const size_t lse_bytes = (size_t)lse_count(p) * sizeof(float);
    const wanted_buffer wanted[BUFFERS] = {
        [Q] = {.name = "q",
               .content = in->q,
               .bytes = span_bytes(p, TENSOR_Q),
               .shift = aligned ? 0 : shift * size},
        [K] = {.name = "k",
               .content = in->k,
               .bytes = span_bytes(p, TENSOR_K),
               .shift = aligned ? 0 : (shift * 3 + 1) % 8 * size},
        [V] = {.name = "v",
               .content = in->v,
               .bytes = span_bytes(p, TENSOR_V),
               .shift = aligned ? 0 : (shift * 5 + 2) % 8 * size},
        [O] = {.name = "o",
               .bytes = span_bytes(p, TENSOR_O),
               .shift = aligned ? 0 : (shift * 7 + 3) % 8 * size,
               .output = true},
        [LSE] = {.name = "lse", .bytes = lse_bytes, .shift = shift * sizeof(float), .output = true},
        [WORKSPACE] = {.name = "workspace",
                       .bytes = attune_plan_workspace_size(plan),
                       .output = true},
    };
    guarded g[BUFFERS] = {{.name = NULL}};
    *out = (outputs){.problem = *p,
                     .o = allocate(span_bytes(p, TENSOR_O)),
                     .lse = p->return_lse ? allocate(lse_bytes) : NULL};

    bool good = true;
    for (int i = 0; good && i < BUFFERS; i++)
        good = guarded_create(context, &wanted[i], &g[i], why);
    good = good && run_and_check(context, plan, g, out, why);
    for (int i = 0; i < BUFFERS; i++) guarded_free(context, &g[i]);
    if (!good) outputs_free(out);
    return good;
}

run_result device_run(const device *d, const inputs *in, const attune_plan_options *options,
                      outputs *out, char why[REASON_SIZE])
{
    attune_plan *plan = NULL;
    const attune_status status = attune_plan_create(d->context, &in->problem, options, &plan);
    if (status != ATTUNE_OK) {
        snprintf(why, REASON_SIZE, "%s", attune_error_detail());
        return status == ATTUNE_UNSUPPORTED ? RUN_SKIPPED : RUN_FAILED;
    }
    const bool good = run_plan(d->context, plan, in, out, why);
    attune_plan_destroy(plan);
    if (good) snprintf(out->device, sizeof out->device, "%s", d->info.id);
    return good ? RUN_DONE : RUN_FAILED;
}

/* The unit that ends a matrix kernel's id, "u1"; "" of the other engines. */
static const char *unit_of(const outputs *o)
{
    return strcmp(o->engine, "matrix") == 0 ? strrchr(o->kernel, 'u') : "";
}

bool must_be_same(const outputs *a, const outputs *b)
{
    const char *const unit = unit_of(a);
    if (!a->reproducible || !b->reproducible || strcmp(unit, unit_of(b)) != 0) return false;
    return unit[0] == '\0' || strcmp(a->device, b->device) == 0;
}

/* ---- kernels ---- */

typedef struct runnable {
    kernel_ids ids;
    bool one_head_dim;
} runnable;

/* Characters of an id that say what the kernel computes, "forward_f32_d64_". */
static int computed_part(const char *id)
{
    const char *const engine = strpbrk(strstr(id, "_d") + 2, "_");
    return (int)(engine - id) + 1;
}

static int collect(const attune_kernel_info *kernel, void *user)
{
    runnable *const r = user;
    kernel_ids *const ids = &r->ids;
    if (kernel->reason != NULL || ids->count == EVERY_KERNEL) return 0;
    if (r->one_head_dim && ids->count > 0 &&
        strncmp(kernel->id, ids->at[0], (size_t)computed_part(ids->at[0])) != 0)
        return 0;
    snprintf(ids->at[ids->count++], sizeof *ids->at, "%s", kernel->id);
    return 0;
}

kernel_ids kernels_select(const device *d, const attune_problem *problem,
                          const attune_plan_options *options, int limit, bool one_head_dim)
{
    runnable r = {.ids.at = allocate(EVERY_KERNEL * sizeof *r.ids.at),
                  .one_head_dim = one_head_dim};
    if (attune_kernels_visit(d->context, problem, options, collect, &r) != ATTUNE_OK)
        r.ids.count = 0;
    const int all = r.ids.count;
    if (all > limit) r.ids.count = limit;
    for (int i = 0; i < r.ids.count; i++)
        memmove(r.ids.at[i], r.ids.at[i * all / r.ids.count], sizeof *r.ids.at);
    return r.ids;
}

void kernel_ids_free(kernel_ids *ids)
{
    free(ids->at);
    *ids = (kernel_ids){.at = NULL};
}
