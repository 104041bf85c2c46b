#include "tuned_table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/device.h"
#include "database.h"
#include "fail.h"

static const char header[] = "device_class\top\tdtype\thead_dim\tmax_seqlen_q\tkernel";

/* A line of tuned.tsv. Lines of one place in the table stand in their order of preference. */
typedef struct line {
    char device_class[32], op[16], dtype[8];
    int head_dim;
    int64_t max_seqlen_q; /* INT64_MAX: any */
    int number;           /* in the table that it is of, from 1 on; 0: it is new */
    char kernel[96];
} line;

/* What won for a problem. */
typedef struct win {
    char dtype[8], kernel[96];
    int head_dim;
    int64_t seqlen_q;
    double gain; /* octaves that it is faster than the default */
} win;

typedef struct table {
    const attune_tuning_state *state;
    attune_context *context;
    line *lines;
    win *wins;
    int line_count, win_count;
} table;

/* ---- winners ---- */

typedef struct kernel_search {
    const char *id;
    int head_dim; /* 0: it is not there, or does not compute the problem */
} kernel_search;

static int find_kernel(const attune_kernel_info *kernel, void *user)
{
    kernel_search *const search = user;
    if (strcmp(kernel->id, search->id) != 0) return 0;
    if (kernel->preference) search->head_dim = kernel->head_dim;
    return 1;
}

/* Winners of the class count whatever device of it they were measured on; of other texts, of runs that were not finished, or that were sought with
 * options, none does: a line of the table serves every plan. */
static int take_winner(const attune_tuning_value *values, int count, void *user)
{
    table *const t = user;
    const char *const kernel = column_of(values, count, "kernel"), *const usual_time = column_of(
                                                                       values, count,
                                                                       "default_milliseconds");
    attune_problem problem;
    if (strcmp(column_of(values, count, "backend"), t->state->backend) != 0 ||
        strcmp(column_of(values, count, "device_class"), t->state->device_class) != 0 ||
        strcmp(column_of(values, count, "text_hash"), t->state->text_hash) != 0 ||
        column_of(values, count, "options")[0] != '\0' ||
        column_of(values, count, "finished")[0] == '\0' ||
        attune_problem_parse(column_of(values, count, "problem"), &problem) != ATTUNE_OK)
        return 0;
    kernel_search search = {.id = kernel};
    attune_kernels_visit(t->context, &problem, NULL, find_kernel, &search);
    if (search.head_dim == 0) return 0;
    t->wins = realloc(t->wins, (size_t)(t->win_count + 1) * sizeof *t->wins);
    if (!t->wins) exit(fail(EXIT_FAILED, "no memory for the table"));
    win *const w = &t->wins[t->win_count++];
    *w = (win){.head_dim = search.head_dim,
               .seqlen_q = problem.seqlen_q,
               .gain = usual_time[0]
                           ? log2(atof(usual_time) / atof(column_of(values, count, "milliseconds")))
                           : 0};
    snprintf(w->dtype, sizeof w->dtype, "%s", attune_dtype_name(problem.dtype));
    snprintf(w->kernel, sizeof w->kernel, "%s", kernel);
    return 0;
}

/* By place in the table, then seqlen_q, and there the largest gain first. */
static int by_place(const void *left, const void *right)
{
    const win *const a = left, *const b = right;
    const int dtype = strcmp(a->dtype, b->dtype);
    if (dtype) return dtype;
    if (a->head_dim != b->head_dim) return a->head_dim < b->head_dim ? -1 : 1;
    if (a->seqlen_q != b->seqlen_q) return a->seqlen_q < b->seqlen_q ? -1 : 1;
    return a->gain != b->gain ? (a->gain > b->gain ? -1 : 1) : strcmp(a->kernel, b->kernel);
}

static bool same_place(const win *a, const win *b)
{
    return strcmp(a->dtype, b->dtype) == 0 && a->head_dim == b->head_dim;
}

/* ---- lines ---- */

static line *add_line(table *t)
{
    t->lines = realloc(t->lines, (size_t)(t->line_count + 1) * sizeof *t->lines);
    if (!t->lines) exit(fail(EXIT_FAILED, "no memory for the table"));
    return &t->lines[t->line_count++];
}

static int take_built_in(const attune_tuned_line *of, void *user)
{
    table *const t = user;
    line *const l = add_line(t);
    *l =
        (line){.head_dim = of->head_dim, .max_seqlen_q = of->max_seqlen_q, .number = t->line_count};
    snprintf(l->device_class, sizeof l->device_class, "%s", of->device_class);
    snprintf(l->op, sizeof l->op, "%s", of->op);
    snprintf(l->dtype, sizeof l->dtype, "%s", of->dtype);
    snprintf(l->kernel, sizeof l->kernel, "%s", of->kernel);
    return 0;
}

/* The lines of --file. */
static int read_lines(table *t, const char *path)
{
    char text[512], limit[24];
    FILE *const file = fopen(path, "r");
    if (!file) return fail(EXIT_BAD_INPUT, "%s cannot be opened: %s", path, strerror(errno));
    int code = EXIT_DONE;
    for (int number = 1; code == EXIT_DONE && fgets(text, sizeof text, file); number++) {
        text[strcspn(text, "\r\n")] = '\0';
        if (number == 1 && strcmp(text, header) == 0) continue;
        line l = {.number = t->line_count + 1};
        if (number == 1 || sscanf(text, "%31[^\t]\t%15[^\t]\t%7[^\t]\t%d\t%23[^\t]\t%95[^\t]",
                                  l.device_class, l.op, l.dtype, &l.head_dim, limit, l.kernel) != 6)
            code = fail(EXIT_BAD_INPUT, "%s, line %d: no line of a tuned.tsv", path, number);
        l.max_seqlen_q = strcmp(limit, "*") == 0 ? INT64_MAX : atoll(limit);
        if (code == EXIT_DONE) *add_line(t) = l;
    }
    fclose(file);
    return code;
}

static bool is_for(const line *l, const char *device_class, const win *w)
{
    return strcmp(l->device_class, device_class) == 0 && strcmp(l->dtype, w->dtype) == 0 &&
           l->head_dim == w->head_dim;
}

static void put_line(table *t, const win *w, int64_t limit, const char *kernel)
{
    line *const l = add_line(t);
    *l = (line){.op = "forward", .head_dim = w->head_dim, .max_seqlen_q = limit};
    snprintf(l->device_class, sizeof l->device_class, "%s", t->state->device_class);
    snprintf(l->dtype, sizeof l->dtype, "%s", w->dtype);
    snprintf(l->kernel, sizeof l->kernel, "%s", kernel);
}

/* As far as a measurement reaches in the other direction. */
static int64_t reach_of(const win *longest)
{
    return longest->seqlen_q < INT64_MAX / 3 ? 3 * longest->seqlen_q : INT64_MAX;
}

/* The line of that class that is preferred for that length, NULL where there is none. */
static const line *preferred(const table *t, const win *w, const char *device_class,
                             int64_t seqlen_q)
{
    const line *best = NULL;
    for (int i = 0; i < t->line_count; i++) {
        const line *const l = &t->lines[i];
        if (is_for(l, device_class, w) && l->max_seqlen_q >= seqlen_q &&
            (!best || l->max_seqlen_q < best->max_seqlen_q))
            best = l;
    }
    return best;
}

/* Up to a length below the measured ones the choice is to stay as it is, also where it is that of a wider class, which the device's own lines are about to
 * hide: its lines up to there become the device's. */
static void keep_choices(table *t, const win *w, int64_t reach)
{
    const char *const classes[] = {t->state->device_class, t->state->family, "*"};
    const line *best = NULL;
    int c = 0;
    while (c < 3 && !(best = preferred(t, w, classes[c], reach))) c++;
    if (!best || reach == 0) return;
    const int count = t->line_count;
    char kernel[96];
    snprintf(kernel, sizeof kernel, "%s", best->kernel);
    for (int i = 0; i < count && c > 0; i++) {
        const line l = t->lines[i];
        if (is_for(&l, classes[c], w) && l.max_seqlen_q < reach)
            put_line(t, w, l.max_seqlen_q, l.kernel);
    }
    put_line(t, w, reach, kernel);
}

/* Lines with a limit that holds for a length that a measurement reaches give way to it; `reach`: what lies below all of those. */
static void drop_covered(table *t, const win *shortest, int64_t reach, const win *longest)
{
    int left = 0;
    for (int i = 0; i < t->line_count; i++) {
        const line *const l = &t->lines[i];
        const bool covered = is_for(l, t->state->device_class, shortest) && l->number > 0 &&
                             l->max_seqlen_q > reach && l->max_seqlen_q <= reach_of(longest);
        if (!covered) t->lines[left++] = *l;
    }
    t->line_count = left;
}

/* The winner of one length gives way to that of the next at their geometric mean. Below a third of the shortest and above three times the
 * longest, which is as far as a measurement reaches (attune.h), the lines choose as before. */
static void put_winners(table *t, const win *first, const win *end)
{
    const int64_t reach = first->seqlen_q / 3;
    keep_choices(t, first, reach);
    drop_covered(t, first, reach, end - 1);
    for (const win *w = first, *next; w < end; w = next) {
        const win *last = w; /* the longest length with this winner, before another's */
        for (next = w + 1; next < end; next++) {
            if (next->seqlen_q == next[-1].seqlen_q) continue; /* it gains less */
            if (strcmp(next->kernel, w->kernel) != 0) break;
            last = next;
        }
        put_line(t, w,
                 next == end ? reach_of(end - 1)
                             : (int64_t)sqrt((double)last->seqlen_q * (double)next->seqlen_q),
                 w->kernel);
    }
}

/* ---- the whole table ---- */

/* As the runtime scans it: classes, "*" last, then dtype as they are numbered, head_dim, limit, preference. */
static int dtype_number(const char *name)
{
    attune_dtype dtype = ATTUNE_F32;
    while (attune_dtype_name(dtype) && strcmp(attune_dtype_name(dtype), name) != 0) dtype++;
    return (int)dtype;
}

static int in_order(const void *left, const void *right)
{
    const line *const a = left, *const b = right;
    const bool a_any = strcmp(a->device_class, "*") == 0, b_any = strcmp(b->device_class, "*") == 0;
    if (a_any != b_any) return a_any ? 1 : -1;
    const int class = strcmp(a->device_class, b->device_class), op = strcmp(a->op, b->op),
              dtype = dtype_number(a->dtype) - dtype_number(b->dtype);
    if (class) return class;
    if (op) return op;
    if (dtype) return dtype;
    if (a->head_dim != b->head_dim) return a->head_dim < b->head_dim ? -1 : 1;
    if (a->max_seqlen_q != b->max_seqlen_q) return a->max_seqlen_q < b->max_seqlen_q ? -1 : 1;
    return a->number - b->number;
}

static bool is_same_line(const line *a, const line *b)
{
    return strcmp(a->device_class, b->device_class) == 0 && a->max_seqlen_q == b->max_seqlen_q &&
           strcmp(a->kernel, b->kernel) == 0;
}

static void print_lines(table *t)
{
    puts(header);
    qsort(t->lines, (size_t)t->line_count, sizeof *t->lines, in_order);
    for (int i = 0; i < t->line_count; i++) {
        const line *const l = &t->lines[i];
        bool again = false;
        for (int j = 0; j < i && !again; j++) again = is_same_line(&t->lines[j], l);
        if (again) continue;
        printf("%s\t%s\t%s\t%d\t", l->device_class, l->op, l->dtype, l->head_dim);
        if (l->max_seqlen_q == INT64_MAX)
            printf("*\t%s\n", l->kernel);
        else
            printf("%" PRId64 "\t%s\n", l->max_seqlen_q, l->kernel);
    }
}

static int merge(table *t, const options *o, attune_tuning_db *db)
{
    attune_status status = attune_tuning_visit(db, ATTUNE_TUNING_WINNERS, take_winner, t);
    int code = status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
    if (code != EXIT_DONE) return code;
    if (t->win_count == 0)
        return fail(EXIT_FAILED, "nothing was measured on a device of class %s with these texts",
                    t->state->device_class);
    if (o->file)
        code = read_lines(t, o->file);
    else
        attune_tuned_visit(t->state->backend, take_built_in, t);
    if (code != EXIT_DONE) return code;
    qsort(t->wins, (size_t)t->win_count, sizeof *t->wins, by_place);
    for (const win *first = t->wins, *end = first; end < t->wins + t->win_count; first = end) {
        while (end < t->wins + t->win_count && same_place(first, end)) end++;
        put_winners(t, first, end);
    }
    print_lines(t);
    return EXIT_DONE;
}

int tuned_table_print(const options *o)
{
    table t = {.lines = NULL};
    attune_tuning_db *db;
    attune_status status = attune_context_open(o->device, NULL, &t.context);
    if (status == ATTUNE_OK) status = attune_context_tuning(t.context, &t.state);
    int code = status == ATTUNE_OK ? database_open(o, false, &db) : fail_status(status);
    if (code == EXIT_DONE) {
        code = merge(&t, o, db);
        attune_tuning_close(db);
    }
    attune_context_close(t.context);
    free(t.lines);
    free(t.wins);
    return code;
}
