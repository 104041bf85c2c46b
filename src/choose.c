#include "choose.h"

#include "problem.h"

#include <inttypes.h>
#include <math.h>
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

size_t request_options(const kernel_request *request, char text[REQUEST_OPTIONS_SIZE])
{
    const bool is_tf32 = request->tf32 && request->engine == NULL && request->glob == NULL &&
                         request->problem->dtype == ATTUNE_F32;
    char all[REQUEST_OPTIONS_SIZE + 1];
    const int length = snprintf(
        all, sizeof all, "%s%s%s%s%s%s", request->engine != NULL ? ",engine=" : "",
        request->engine != NULL ? request->engine : "",
        request->reproducible ? ",reproducible" : "", is_tf32 ? ",tf32" : "",
        request->glob != NULL ? ",kernel=" : "", request->glob != NULL ? request->glob : "");
    snprintf(text, REQUEST_OPTIONS_SIZE, "%s", all + (all[0] == ','));
    return (size_t)length - (all[0] == ',');
}

/* 2^octaves is how many times as large one is; 0 counts as 1. */
static double octaves(int64_t a, int64_t b)
{
    return fabs(log2((double)(a > 0 ? a : 1) / (double)(b > 0 ? b : 1)));
}

double problem_distance(const attune_problem *a, const attune_problem *b)
{
    const double farthest = 4.0;
    const int64_t short_q = a->seqlen_q < b->seqlen_q ? a->seqlen_q : b->seqlen_q;
    const int64_t long_q = a->seqlen_q < b->seqlen_q ? b->seqlen_q : a->seqlen_q;
    if (a->op != b->op || a->dtype != b->dtype || long_q > 3 * (short_q > 0 ? short_q : 1))
        return INFINITY;
    const double all = 2.0 * octaves(short_q, long_q) + octaves(a->seqlen_k, b->seqlen_k) +
                       octaves(a->batch * a->heads_q, b->batch * b->heads_q) +
                       0.5 * octaves(a->heads_q / a->heads_kv, b->heads_q / b->heads_kv) +
                       0.5 * octaves(a->head_dim, b->head_dim) +
                       0.5 * octaves(a->head_dim_v, b->head_dim_v) +
                       0.5 * ((a->mask == ATTUNE_MASK_NONE) != (b->mask == ATTUNE_MASK_NONE));
    return all <= farthest ? all : INFINITY;
}

/* What won among all kernels is the best of fewer, too, if it is one of them; but tf32 brings in kernels that were left out. */
static bool options_allow(const char *measured_for, const char *asked)
{
    return strcmp(measured_for, asked) == 0 ||
           (measured_for[0] == '\0' && strcmp(asked, "tf32") != 0 &&
            strcmp(asked, "reproducible,tf32") != 0);
}

/* The nearest winner that is this kernel; a winner that was sought with the very options comes before one that was sought without any. */
static void rank_by_measurements(const kernel_request *request, const char *options,
                                 ranked_kernel *kernel)
{
    for (int i = 0; i < request->measured_count; i++) {
        const measured_winner *const winner = &request->measured[i];
        if (strcmp(winner->kernel, kernel->row->id) != 0 ||
            !options_allow(winner->options, options))
            continue;
        const double distance = problem_distance(&winner->problem, request->problem) +
                                (strcmp(winner->options, options) == 0 ? 0.0 : 0.25);
        if (isinf(distance) || (kernel->winner != NULL && distance >= kernel->place)) continue;
        kernel->level = LEVEL_MEASURED;
        kernel->place = distance;
        kernel->winner = winner;
    }
}

static kernel_level level_of(const attune_tuned_row *tuned, const attune_device_caps *caps)
{
    return strcmp(tuned->device_class, caps->device_class) == 0 ? LEVEL_CLASS
           : strcmp(tuned->device_class, caps->family) == 0     ? LEVEL_FAMILY
           : strcmp(tuned->device_class, "*") == 0              ? LEVEL_ANY
                                                                : LEVEL_NONE;
}

static void rank_by_table(const kernel_request *request, ranked_kernel *kernel)
{
    const attune_kernel_row *const row = kernel->row;
    for (int i = 0; i < request->table->tuned_count; i++) {
        const attune_tuned_row *const tuned = &request->table->tuned[i];
        const kernel_level level = level_of(tuned, request->caps);
        if (level >= kernel->level || tuned->max_seqlen_q < request->problem->seqlen_q ||
            tuned->op != row->op || tuned->dtype != row->dtype ||
            tuned->head_dim != row->head_dim || strcmp(tuned->kernel, row->id) != 0)
            continue;
        kernel->level = level;
        kernel->place = i;
    }
}

static int compare_ranks(const void *left, const void *right)
{
    const ranked_kernel *const a = left, *const b = right;
    if (a->computes != b->computes) return a->computes ? -1 : 1;
    if ((a->level == LEVEL_HINT) != (b->level == LEVEL_HINT))
        return a->level == LEVEL_HINT ? -1 : 1;
    if (a->computes && a->row->head_dim != b->row->head_dim)
        return a->row->head_dim < b->row->head_dim ? -1 : 1;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    if (a->place < b->place || a->place > b->place) return a->place < b->place ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

ranked_kernel *kernels_ranked(const kernel_request *request)
{
    const int count = request->table->row_count;
    char options[REQUEST_OPTIONS_SIZE] = "";
    ranked_kernel *const ranked = malloc((size_t)(count > 0 ? count : 1) * sizeof *ranked);
    if (ranked == NULL) return NULL;
    if (request->problem != NULL) request_options(request, options);
    for (int i = 0; i < count; i++) {
        const attune_kernel_row *const row = &request->table->rows[i];
        ranked_kernel *const kernel = &ranked[i];
        *kernel = (ranked_kernel){.row = row,
                                  .computes = request->problem != NULL &&
                                              computes(row, request->problem, NULL),
                                  .level = LEVEL_NONE};
        if (!kernel->computes) continue;
        if (request->hint != NULL && strcmp(request->hint, row->id) == 0)
            kernel->level = LEVEL_HINT;
        else
            rank_by_measurements(request, options, kernel);
        if (kernel->level == LEVEL_NONE) rank_by_table(request, kernel);
    }
    qsort(ranked, (size_t)count, sizeof *ranked, compare_ranks);
    return ranked;
}

void kernel_preference(const kernel_request *request, const ranked_kernel *kernel,
                       char text[KERNEL_PREFERENCE_SIZE])
{
    char problem[PROBLEM_TEXT_SIZE];
    const measured_winner *const winner = kernel->winner;
    switch (kernel->level) {
    case LEVEL_HINT:
        snprintf(text, KERNEL_PREFERENCE_SIZE, "the hint");
        break;
    case LEVEL_MEASURED:
        attune_problem_print(&winner->problem, problem, sizeof problem);
        if (isnan(winner->default_milliseconds))
            snprintf(text, KERNEL_PREFERENCE_SIZE, "won here: %.4g ms, for %s",
                     winner->milliseconds, problem);
        else
            snprintf(text, KERNEL_PREFERENCE_SIZE, "won here: %.4g ms, the default %.4g, for %s",
                     winner->milliseconds, winner->default_milliseconds, problem);
        break;
    case LEVEL_CLASS:
    case LEVEL_FAMILY:
        snprintf(text, KERNEL_PREFERENCE_SIZE, "built-in choice for %s",
                 kernel->level == LEVEL_CLASS ? request->caps->device_class
                                              : request->caps->family);
        break;
    case LEVEL_ANY:
        snprintf(text, KERNEL_PREFERENCE_SIZE, "built-in choice for every device");
        break;
    default:
        snprintf(text, KERNEL_PREFERENCE_SIZE, "no choice for this problem");
    }
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
