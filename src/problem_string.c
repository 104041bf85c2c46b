/* The problem string: printed and parsed from the same lists of keys. */
#include "problem.h"

#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

typedef struct size_key {
    const char *key;
    size_t offset; /* of the int64_t in attune_problem */
} size_key;

static const size_key size_keys[] = {
    {"b", offsetof(attune_problem, batch)},      {"hq", offsetof(attune_problem, heads_q)},
    {"hkv", offsetof(attune_problem, heads_kv)}, {"sq", offsetof(attune_problem, seqlen_q)},
    {"sk", offsetof(attune_problem, seqlen_k)},  {"d", offsetof(attune_problem, head_dim)},
};

enum { SIZE_KEYS = sizeof size_keys / sizeof size_keys[0], MAX_KEYS = 20 };

static const attune_dtype dtypes[] = {ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16};

static const char *const mask_names[] = {
    [ATTUNE_MASK_NONE] = "none",
    [ATTUNE_MASK_CAUSAL] = "causal",
    [ATTUNE_MASK_CAUSAL_TOP_LEFT] = "causal-top-left",
};

static const char *const layout_names[] = {
    [ATTUNE_LAYOUT_BSHD] = "bshd",
    [ATTUNE_LAYOUT_BHSD] = "bhsd",
};

static const char *const stride_keys[TENSOR_COUNT] = {"q_strides", "k_strides", "v_strides",
                                                      "o_strides"};

/* ---- numbers ---- */

/* A number is spelled with a point whatever the process's locale says. */
static locale_t enter_c_locale(locale_t *previous)
{
    const locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    *previous = c == (locale_t)0 ? (locale_t)0 : uselocale(c);
    return c;
}

static void leave_c_locale(locale_t c, locale_t previous)
{
    if (c == (locale_t)0) return;
    uselocale(previous);
    freelocale(c);
}

/* The shortest decimal that reads back as `x`. */
static void print_double(double x, char text[32])
{
    locale_t previous;
    const locale_t c = enter_c_locale(&previous);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    leave_c_locale(c, previous);
}

static bool parse_double(const char *text, double *x)
{
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') return false;
    locale_t previous;
    const locale_t c = enter_c_locale(&previous);
    char *end;
    *x = strtod(text, &end);
    leave_c_locale(c, previous);
    return *end == '\0' && isfinite(*x);
}

/* An integer that `stop` follows; *text moves behind it. */
static bool parse_integer(const char **text, char stop, int64_t *x)
{
    const char *const digits = **text == '-' ? *text + 1 : *text;
    if (*digits < '0' || *digits > '9') return false;
    char *end;
    errno = 0;
    const long long value = strtoll(*text, &end, 10);
    if (errno != 0 || *end != stop) return false;
    *x = value;
    *text = end + (stop != '\0');
    return true;
}

static bool parse_strides(const char *text, int64_t strides[ATTUNE_RANK])
{
    for (int i = 0; i < ATTUNE_RANK; i++)
        if (!parse_integer(&text, i == ATTUNE_RANK - 1 ? '\0' : ':', &strides[i])) return false;
    return true;
}

static int find_name(const char *const names[], int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

/* ---- parsing ---- */

/* `text` cut into its keys and values, each of them a string. */
typedef struct fields {
    int count;
    struct {
        const char *key, *value;
        bool used;
    } at[MAX_KEYS];
} fields;

static attune_status fields_split(fields *f, char *text)
{
    *f = (fields){.count = 0};
    for (char *next = text; next != NULL;) {
        char *const key = next;
        next = strchr(key, ',');
        if (next != NULL) *next++ = '\0';
        char *const value = strchr(key, '=');
        if (value == NULL)
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "problem string: \"%.40s\" is no key=value",
                               key);
        *value = '\0';
        for (int i = 0; i < f->count; i++)
            if (strcmp(f->at[i].key, key) == 0)
                return attune_fail(ATTUNE_INVALID_ARGUMENT,
                                   "problem string: key \"%.40s\" is given twice", key);
        if (f->count == MAX_KEYS)
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "problem string: unknown key \"%.40s\"",
                               key);
        f->at[f->count].key = key;
        f->at[f->count].value = value + 1;
        f->count++;
    }
    return ATTUNE_OK;
}

/* The value of a key, NULL where it is not given. */
static const char *field(fields *f, const char *key)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->at[i].key, key) == 0) {
            f->at[i].used = true;
            return f->at[i].value;
        }
    return NULL;
}

static attune_status malformed(const char *key, const char *value, const char *accepted)
{
    if (value == NULL)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "problem string: key \"%s\" is missing; %s is accepted", key, accepted);
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "problem string: %s=%.40s; %s is accepted", key,
                       value, accepted);
}

static attune_status parse_sizes(fields *f, attune_problem *problem)
{
    const char *const op = field(f, "op");
    if (op == NULL || strcmp(op, "forward") != 0) return malformed("op", op, "forward");
    problem->op = ATTUNE_FORWARD;

    for (int i = 0; i < SIZE_KEYS; i++) {
        const char *const value = field(f, size_keys[i].key), *text = value;
        int64_t size;
        if (value == NULL || !parse_integer(&text, '\0', &size))
            return malformed(size_keys[i].key, value, "an integer");
        memcpy((char *)problem + size_keys[i].offset, &size, sizeof size);
    }
    const char *const dv = field(f, "dv"), *text = dv;
    problem->head_dim_v = problem->head_dim;
    if (dv != NULL && !parse_integer(&text, '\0', &problem->head_dim_v))
        return malformed("dv", dv, "an integer");
    return ATTUNE_OK;
}

static attune_status parse_semantics(fields *f, attune_problem *problem)
{
    const char *const dtype = field(f, "dtype");
    bool known = false;
    for (size_t i = 0; dtype != NULL && !known && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        known = strcmp(dtype, attune_dtype_name(dtypes[i])) == 0;
        problem->dtype = dtypes[i];
    }
    if (!known) return malformed("dtype", dtype, "f32, f16 or bf16");

    const char *const mask = field(f, "mask");
    const int mask_found = find_name(mask_names, 3, mask == NULL ? "none" : mask);
    if (mask_found < 0) return malformed("mask", mask, "none, causal or causal-top-left");
    problem->mask = (attune_mask)mask_found;

    const char *const scale = field(f, "scale");
    problem->softmax_scale = problem_default_scale(problem->head_dim);
    if (scale != NULL && !parse_double(scale, &problem->softmax_scale))
        return malformed("scale", scale, "a finite decimal number");

    const char *const lse = field(f, "lse");
    if (lse != NULL && strcmp(lse, "0") != 0 && strcmp(lse, "1") != 0)
        return malformed("lse", lse, "0 or 1");
    problem->return_lse = lse != NULL && lse[0] == '1';
    return ATTUNE_OK;
}

static attune_status parse_layout(fields *f, attune_problem *problem)
{
    const char *const layout = field(f, "layout");
    const int found = find_name(layout_names, 2, layout == NULL ? "bshd" : layout);
    if (found < 0) return malformed("layout", layout, "bshd or bhsd");
    attune_problem_set_layout(problem, (attune_layout)found);

    int64_t *const strides[] = {problem->q_strides, problem->k_strides, problem->v_strides,
                                problem->o_strides};
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const char *const value = field(f, stride_keys[t]);
        if (value != NULL && !parse_strides(value, strides[t]))
            return malformed(stride_keys[t], value, "batch:seq:head:dim");
    }
    return ATTUNE_OK;
}

static attune_status parse_fields(fields *f, attune_problem *problem)
{
    *problem = (attune_problem){.struct_size = sizeof *problem};
    RETURN_IF_FAILED(parse_sizes(f, problem));
    RETURN_IF_FAILED(parse_semantics(f, problem));
    RETURN_IF_FAILED(parse_layout(f, problem));
    for (int i = 0; i < f->count; i++)
        if (!f->at[i].used)
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "problem string: unknown key \"%.40s\"",
                               f->at[i].key);
    return ATTUNE_OK;
}

attune_status attune_problem_parse(const char *text, attune_problem *problem)
{
    RETURN_IF_NULL(text);
    RETURN_IF_NULL(problem);
    char *const copy = strdup(text);
    if (copy == NULL)
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "problem string: no memory for %zu bytes",
                           strlen(text));
    fields f;
    attune_problem parsed;
    attune_status status = fields_split(&f, copy);
    if (status == ATTUNE_OK) status = parse_fields(&f, &parsed);
    if (status == ATTUNE_OK) *problem = parsed;
    free(copy);
    return status;
}

/* ---- printing ---- */

typedef struct writer {
    char *text;
    size_t size, length; /* room, and what the whole string needs */
} writer;

__attribute__((format(printf, 2, 3))) static void write_text(writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = w->length < w->size ? w->size - w->length : 0;
    const int written = vsnprintf(room > 0 ? w->text + w->length : NULL, room, format, arguments);
    va_end(arguments);
    w->length += written > 0 ? (size_t)written : 0;
}

static bool has_layout(const attune_problem *problem, int tensor, attune_layout layout)
{
    const tensor_shape shape = problem_tensor(problem, tensor);
    int64_t packed[ATTUNE_RANK];
    problem_packed_strides(shape.sizes, layout, packed);
    return memcmp(packed, shape.strides, sizeof packed) == 0;
}

static void write_layout(writer *w, const attune_problem *problem)
{
    bool bshd = true, bhsd = true;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        bshd &= has_layout(problem, t, ATTUNE_LAYOUT_BSHD);
        bhsd &= has_layout(problem, t, ATTUNE_LAYOUT_BHSD);
    }
    const attune_layout layout = bhsd && !bshd ? ATTUNE_LAYOUT_BHSD : ATTUNE_LAYOUT_BSHD;
    if (layout != ATTUNE_LAYOUT_BSHD) write_text(w, ",layout=%s", layout_names[layout]);

    for (int t = 0; t < TENSOR_COUNT; t++) {
        if (has_layout(problem, t, layout)) continue;
        write_text(w, ",%s=", stride_keys[t]);
        for (int i = 0; i < ATTUNE_RANK; i++)
            write_text(w, "%s%" PRId64, i == 0 ? "" : ":", problem_tensor(problem, t).strides[i]);
    }
}

/* A value that is no dtype or mask, which a check has yet to refuse, is printed as its number. */
static void write_semantics(writer *w, const attune_problem *problem)
{
    const char *const dtype = attune_dtype_name(problem->dtype);
    if (dtype != NULL)
        write_text(w, ",dtype=%s", dtype);
    else
        write_text(w, ",dtype=%d", (int)problem->dtype);

    if (problem->mask == ATTUNE_MASK_CAUSAL || problem->mask == ATTUNE_MASK_CAUSAL_TOP_LEFT)
        write_text(w, ",mask=%s", mask_names[problem->mask]);
    else if (problem->mask != ATTUNE_MASK_NONE)
        write_text(w, ",mask=%d", (int)problem->mask);

    if (problem->softmax_scale != problem_default_scale(problem->head_dim)) {
        char scale[32];
        print_double(problem->softmax_scale, scale);
        write_text(w, ",scale=%s", scale);
    }
    if (problem->return_lse != 0) write_text(w, ",lse=%" PRId32, problem->return_lse);
}

size_t attune_problem_print(const attune_problem *problem, char *text, size_t size)
{
    writer w = {.text = text, .size = text == NULL ? 0 : size};
    if (w.size > 0) text[0] = '\0';
    if (problem == NULL) return 0;
    write_text(&w, "op=forward");
    for (int i = 0; i < SIZE_KEYS; i++) {
        int64_t value;
        memcpy(&value, (const char *)problem + size_keys[i].offset, sizeof value);
        write_text(&w, ",%s=%" PRId64, size_keys[i].key, value);
    }
    if (problem->head_dim_v != problem->head_dim)
        write_text(&w, ",dv=%" PRId64, problem->head_dim_v);
    write_semantics(&w, problem);
    write_layout(&w, problem);
    return w.length;
}
