#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/numerics.h"
#include "fail.h"

typedef int option_reader(options *o, const char *name, const char *value);

static int read_dtype(options *o, const char *name, const char *value)
{
    for (attune_dtype dtype = ATTUNE_F32; attune_dtype_name(dtype); dtype++)
        if (strcmp(value, attune_dtype_name(dtype)) == 0) {
            o->dtype = dtype;
            o->has_dtype = true;
            return EXIT_DONE;
        }
    return fail(EXIT_BAD_INPUT, "%s: '%s' is none of f32, f16, bf16", name, value);
}

static int read_mask(options *o, const char *name, const char *value)
{
    static const char *const names[] = {[ATTUNE_MASK_NONE] = "none",
                                        [ATTUNE_MASK_CAUSAL] = "causal",
                                        [ATTUNE_MASK_CAUSAL_TOP_LEFT] = "causal-top-left"};
    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) {
            o->mask = (attune_mask)i;
            o->has_mask = true;
            return EXIT_DONE;
        }
    return fail(EXIT_BAD_INPUT, "%s: '%s' is none of none, causal, causal-top-left", name, value);
}

static int read_scale(options *o, const char *name, const char *value)
{
    char *end;
    o->scale = strtod(value, &end);
    o->has_scale = true;
    if (end == value || *end != '\0' || !isfinite(o->scale))
        return fail(EXIT_BAD_INPUT, "%s: '%s' is no finite number", name, value);
    return EXIT_DONE;
}

static int read_seed(options *o, const char *name, const char *value)
{
    char *end;
    errno = 0;
    o->seed = strtoull(value, &end, 10);
    o->has_seed = true;
    if (*end != '\0' || errno != 0 || *value < '0' || *value > '9')
        return fail(EXIT_BAD_INPUT, "%s: '%s' is no number from 0 to 2^64 - 1", name, value);
    return EXIT_DONE;
}

static int read_threads(options *o, const char *name, const char *value)
{
    char *end;
    const long threads = strtol(value, &end, 10);
    if (end == value || *end != '\0' || threads < 1 || threads > 4096)
        return fail(EXIT_BAD_INPUT, "%s: '%s' is no number from 1 to 4096", name, value);
    o->threads = (int)threads;
    return EXIT_DONE;
}

static int read_seconds(const char *name, const char *value, double *seconds)
{
    char *end;
    *seconds = strtod(value, &end);
    if (end == value || *end != '\0' || !(*seconds > 0) || *seconds > 1e7)
        return fail(EXIT_BAD_INPUT, "%s: '%s' is no number of seconds up to 1e7", name, value);
    return EXIT_DONE;
}

static int read_budget(options *o, const char *name, const char *value)
{
    return read_seconds(name, value, &o->budget);
}

static int read_timeout(options *o, const char *name, const char *value)
{
    return read_seconds(name, value, &o->timeout);
}

static int read_layout(options *o, const char *name, const char *value)
{
    o->layout = value;
    if (strcmp(value, "bshd") != 0 && strcmp(value, "bhsd") != 0)
        return fail(EXIT_BAD_INPUT, "%s: '%s' is none of bshd, bhsd", name, value);
    return EXIT_DONE;
}

static int read_engine(options *o, const char *name, const char *value)
{
    o->engine = value;
    if (attune_engine_check(value) == ATTUNE_OK) return EXIT_DONE;
    return fail(EXIT_BAD_INPUT, "%s: %s", name, attune_error_detail());
}

static int read_fill(options *o, const char *name, const char *value)
{
    o->fill = value;
    if (strcmp(value, "all") == 0 || attune_fill_find(value) >= 0) return EXIT_DONE;
    char known[256] = "all";
    for (int i = 0; i < ATTUNE_FILL_COUNT; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), ", %s",
                 attune_fill_name((attune_fill)i));
    return fail(EXIT_BAD_INPUT, "%s: '%s' is none of %s", name, value, known);
}

static int add_problem(options *o, const char *name, const char *value)
{
    if (o->problem_count == MAX_PROBLEMS)
        return fail(EXIT_BAD_INPUT, "%s: more than %d problems", name, MAX_PROBLEMS);
    o->problems[o->problem_count++] = value;
    return EXIT_DONE;
}

/* One problem string per line; what follows # is a comment. */
static int read_problem_file(options *o, const char *name, const char *value)
{
    if (o->file_text) return fail(EXIT_BAD_INPUT, "%s is given twice", name);
    FILE *const file = fopen(value, "rb");
    if (!file) return fail(EXIT_BAD_INPUT, "%s cannot be opened: %s", value, strerror(errno));
    const size_t room = 1 << 22;
    o->file_text = allocate(room + 1);
    const size_t length = fread(o->file_text, 1, room, file);
    const bool failed = ferror(file) || fgetc(file) != EOF || memchr(o->file_text, '\0', length);
    fclose(file);
    if (failed) return fail(EXIT_BAD_INPUT, "%s is no text file of at most 4 MiB", value);
    o->file_text[length] = '\0';
    for (char *line = o->file_text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        line += strspn(line, " \t\r");
        for (size_t end = strlen(line); end > 0 && strchr(" \t\r", line[end - 1]); end--)
            line[end - 1] = '\0';
        if (*line == '\0') continue;
        const int result = add_problem(o, name, line);
        if (result != EXIT_DONE) return result;
    }
    return EXIT_DONE;
}

/* An option is a flag (offset of a bool), a text (offset of a string), or read by a function. */
typedef struct option_row {
    const char *name;
    enum { FLAG, TEXT, READ } kind;
    size_t offset;
    option_reader *read;
} option_row;

#define FLAG_ROW(name, member)                                                                     \
    {                                                                                              \
        name, FLAG, offsetof(options, member), NULL                                                \
    }
#define TEXT_ROW(name, member)                                                                     \
    {                                                                                              \
        name, TEXT, offsetof(options, member), NULL                                                \
    }
#define READ_ROW(name, function)                                                                   \
    {                                                                                              \
        name, READ, 0, function                                                                    \
    }

static const option_row rows[] = {
    FLAG_ROW("--json", json),
    FLAG_ROW("--why", why),
    FLAG_ROW("--reproducible", reproducible),
    FLAG_ROW("--tf32", tf32),
    FLAG_ROW("--deterministic", deterministic),
    FLAG_ROW("--against-default", against_default),
    FLAG_ROW("--resume", resume),
    FLAG_ROW("--tsv", tsv),
    FLAG_ROW("--tuned", tuned),
    TEXT_ROW("--q", q),
    TEXT_ROW("--k", k),
    TEXT_ROW("--v", v),
    TEXT_ROW("--out", out),
    TEXT_ROW("--lse", lse),
    TEXT_ROW("--device", device),
    TEXT_ROW("--devices", devices),
    TEXT_ROW("--kernel", kernel),
    TEXT_ROW("--db", db),
    TEXT_ROW("--file", file),
    READ_ROW("--engine", read_engine),
    READ_ROW("--layout", read_layout),
    READ_ROW("--dtype", read_dtype),
    READ_ROW("--mask", read_mask),
    READ_ROW("--scale", read_scale),
    READ_ROW("--fill", read_fill),
    READ_ROW("--seed", read_seed),
    READ_ROW("--threads", read_threads),
    READ_ROW("--budget", read_budget),
    READ_ROW("--timeout", read_timeout),
    READ_ROW("--problem", add_problem),
    READ_ROW("--problem-file", read_problem_file),
};

/* Whether a word stands in a list of words separated by anything that cannot be in one. */
static bool is_accepted(const char *accepted, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = accepted; (at = strstr(at, name)); at += length)
        if (!strchr("-abcdefghijklmnopqrstuvwxyz", at[length]) || at[length] == '\0') return true;
    return false;
}

int options_parse(int count, char **arguments, const char *command, const char *accepted,
                  options *o)
{
    *o = (options){.seed = 1, .timeout = 60};
    o->problems = allocate(MAX_PROBLEMS * sizeof *o->problems);
    for (int i = 0; i < count; i++) {
        const char *const argument = arguments[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            o->help = true;
            return EXIT_DONE;
        }
        char name[32];
        const char *value = strchr(argument, '=');
        snprintf(name, sizeof name, "%.*s",
                 (int)(value ? value - argument : (long)strlen(argument)), argument);
        const option_row *row = rows, *const end = rows + sizeof rows / sizeof *rows;
        while (row < end && strcmp(row->name, name) != 0) row++;
        if (row == end || !is_accepted(accepted, name))
            return fail(EXIT_BAD_INPUT, "%s: unknown option '%s' (attune %s --help lists them)",
                        command, argument, command);
        if (row->kind == FLAG) {
            if (value) return fail(EXIT_BAD_INPUT, "%s takes no value", name);
            *(bool *)((char *)o + row->offset) = true;
            continue;
        }
        if (value)
            value++;
        else if (++i == count)
            return fail(EXIT_BAD_INPUT, "%s needs a value", name);
        else
            value = arguments[i];
        if (row->kind == TEXT) {
            *(const char **)((char *)o + row->offset) = value;
            continue;
        }
        const int result = row->read(o, row->name, value);
        if (result != EXIT_DONE) return result;
    }
    return EXIT_DONE;
}

void options_free(options *o)
{
    free(o->problems);
    free(o->file_text);
}

attune_plan_options options_of_plan(const options *o)
{
    attune_plan_options plan;
    attune_plan_options_init(&plan);
    plan.kernel = o->kernel;
    plan.engine = o->engine;
    plan.reproducible = o->reproducible;
    plan.allow_tf32 = o->tf32;
    plan.deterministic = o->deterministic;
    return plan;
}
