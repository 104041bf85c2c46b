#include "choose.h"

#include "problem.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the predicate ---- */

__attribute__((format(printf, 2, 3))) static bool reject(char *reason, const char *format, ...)
{
    if (reason != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(reason, KERNEL_REASON_SIZE, format, arguments);
        va_end(arguments);
    }
    return false;
}

static bool glob_matches(const char *glob, const char *id)
{
    const char *star = NULL,
               *retry = NULL; /* the last '*', and where what follows it is tried next */
    while (*id != '\0') {
        if (*glob == '*') {
            star = glob++;
            retry = id;
        } else if (*glob == '?' || *glob == *id) {
            glob++;
            id++;
        } else if (star != NULL) {
            glob = star + 1;
            id = ++retry;
        } else {
            return false;
        }
    }
    return glob[strspn(glob, "*")] == '\0';
}

bool glob_is_id(const char *glob)
{
    return strpbrk(glob, "*?") == NULL;
}

static bool has_word(const char *words, const char *word, size_t length)
{
    for (const char *at = words; *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strcspn(at, " ") == length && memcmp(at, word, length) == 0) return true;
    }
    return false;
}

bool device_has(const attune_device_caps *caps, const char *feature)
{
    return has_word(caps->features, feature, strlen(feature));
}

static bool device_accepts(const attune_kernel_row *row, const attune_device_caps *caps,
                           char *reason)
{
    const char *const device = caps->info.id;
    for (const char *word = row->requires_features; *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (length > 0 && !has_word(caps->features, word, length))
            return reject(reason, "needs %.*s, which %s lacks", (int)length, word, device);
        word += length + strspn(word + length, " ");
    }
    if (row->threads > caps->max_threads)
        return reject(reason, "needs %d work-items a group; %s has at most %d", row->threads,
                      device, caps->max_threads);
    if (row->fast_memory > caps->fast_memory)
        return reject(reason, "needs %zu bytes of local memory a group; %s has %zu",
                      row->fast_memory, device, caps->fast_memory);
    if (row->forward == NULL && row->body == NULL)
        return reject(reason, "is not compiled into this library");
    return true;
}

static bool computes(const attune_kernel_row *row, const attune_problem *problem, char *reason)
{
    if (row->op != problem->op) return reject(reason, "computes another op");
    if (row->dtype != problem->dtype)
        return reject(reason, "computes %s, not %s", attune_dtype_name(row->dtype),
                      attune_dtype_name(problem->dtype));
    if (problem->head_dim > row->head_dim)
        return reject(reason, "head_dim %" PRId64 " exceeds %d", problem->head_dim, row->head_dim);
    if (problem->head_dim_v > row->head_dim)
        return reject(reason, "head_dim_v %" PRId64 " exceeds %d", problem->head_dim_v,
                      row->head_dim);
    return true;
}

/* What the caller confines the choice to. */
static bool is_wanted(const kernel_request *request, const attune_kernel_row *row, char *reason)
{
    if (request->glob != NULL && !glob_matches(request->glob, row->id))
        return reject(reason, "is not matched by the pinned \"%s\"", request->glob);
    if (request->engine != NULL && strcmp(request->engine, row->engine) != 0)
        return reject(reason, "is of engine %s, not %s", row->engine, request->engine);
    if (request->reproducible && row->reproducible == 0)
        return reject(reason, "is not reproducible");
    if (request->problem != NULL && row->u_in > 0.0 && !request->tf32)
        return reject(reason, "reads f32 as tf32, which must be asked for: by allow_tf32 (--tf32), "
                              "by naming its engine, or by its whole id");
    return true;
}

/* Sizes fit 32 bits each, products of three need not fit 64. */
static bool launch_fits(const attune_kernel_row *row, const attune_problem *problem,
                        kernel_choice *choice, char *reason)
{
    const int64_t blocks = ATTUNE_CEIL_DIV(problem->seqlen_q, row->block_q);
    const int64_t tiles = row->panel == 0 ? 0 : ATTUNE_CEIL_DIV(problem->seqlen_k, row->block_k);
    const int64_t panels =
        row->panel == 0 ? 0
                        : ATTUNE_K_PANELS(problem->seqlen_k, problem->head_dim, row->panel) +
                              ATTUNE_V_PANELS(problem->seqlen_k, problem->head_dim_v, row->panel);
    if (__builtin_mul_overflow(problem->batch * problem->heads_q, blocks, &choice->groups) ||
        __builtin_mul_overflow(problem->batch * problem->heads_kv, tiles, &choice->pack_groups))
        return reject(reason, "needs more than 2^63 work-groups");
    if (__builtin_mul_overflow(problem->batch * problem->heads_kv, panels * (int64_t)sizeof(float),
                               &choice->workspace))
        return reject(reason, "needs more than 2^63 bytes of workspace");
    return true;
}

bool kernel_accepts(const kernel_request *request, const attune_kernel_row *row,
                    kernel_choice *choice, char reason[KERNEL_REASON_SIZE])
{
    *choice = (kernel_choice){.row = row};
    if (request->problem != NULL && !computes(row, request->problem, reason)) return false;
    if (!is_wanted(request, row, reason)) return false;
    if (!device_accepts(row, request->caps, reason)) return false;
    return request->problem == NULL || launch_fits(row, request->problem, choice, reason);
}

/* ---- order of preference ---- */

static bool is_tuned_for(const attune_tuned_row *tuned, const kernel_request *request,
                         const attune_kernel_row *row)
{
    const bool of_device = strcmp(tuned->device_class, request->caps->device_class) == 0 ||
                           strcmp(tuned->device_class, request->caps->family) == 0 ||
                           strcmp(tuned->device_class, "*") == 0;
    return of_device && tuned->max_seqlen_q >= request->problem->seqlen_q && tuned->op == row->op &&
           tuned->dtype == row->dtype && tuned->head_dim == row->head_dim &&
           strcmp(tuned->kernel, row->id) == 0;
}

static int place_in_tuned(const kernel_request *request, const attune_kernel_row *row)
{
    const attune_kernel_table *const table = request->table;
    for (int i = 0; i < table->tuned_count; i++)
        if (is_tuned_for(&table->tuned[i], request, row)) return i;
    return INT_MAX;
}

static int compare_ranks(const void *left, const void *right)
{
    const ranked_kernel *const a = left, *const b = right;
    if (a->computes != b->computes) return a->computes ? -1 : 1;
    if (a->computes && a->row->head_dim != b->row->head_dim)
        return a->row->head_dim < b->row->head_dim ? -1 : 1;
    if (a->tuned != b->tuned) return a->tuned < b->tuned ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

ranked_kernel *kernels_ranked(const kernel_request *request)
{
    const int count = request->table->row_count;
    ranked_kernel *const ranked = malloc((size_t)(count > 0 ? count : 1) * sizeof *ranked);
    if (ranked == NULL) return NULL;
    for (int i = 0; i < count; i++) {
        const attune_kernel_row *const row = &request->table->rows[i];
        const bool suits = request->problem != NULL && computes(row, request->problem, NULL);
        ranked[i] = (ranked_kernel){
            .row = row, .computes = suits, .tuned = suits ? place_in_tuned(request, row) : INT_MAX};
    }
    qsort(ranked, (size_t)count, sizeof *ranked, compare_ranks);
    return ranked;
}

int plan_choose(const kernel_request *request, const ranked_kernel *ranked, int first,
                kernel_choice *choice)
{
    for (int i = first; i < request->table->row_count; i++)
        if (kernel_accepts(request, ranked[i].row, choice, NULL)) return i;
    return -1;
}

/* ---- why not ---- */

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...)
{
    const size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

/* Neighbours in the order of preference often fail for one reason, which is then given once. */
void kernels_explain(const kernel_request *request, const ranked_kernel *ranked, char *text,
                     size_t size)
{
    const attune_problem *const problem = request->problem;
    char problem_text[PROBLEM_TEXT_SIZE], reason[KERNEL_REASON_SIZE], last[KERNEL_REASON_SIZE] = "";
    kernel_choice choice;
    int more = 0;

    attune_problem_print(problem, problem_text, sizeof problem_text);
    snprintf(text, size, "no kernel of %s computes %s", request->caps->info.id, problem_text);
    for (int i = 0; i < request->table->row_count; i++) {
        const attune_kernel_row *const row = ranked[i].row;
        if (row->op != problem->op || row->dtype != problem->dtype) continue;
        if (kernel_accepts(request, row, &choice, reason)) continue;
        if (strcmp(reason, last) == 0) {
            more++;
            continue;
        }
        if (more > 0) append(text, size, ", and so %d more", more);
        append(text, size, "; %s %s", row->id, reason);
        memcpy(last, reason, sizeof last);
        more = 0;
    }
    if (more > 0) append(text, size, ", and so %d more", more);
}
