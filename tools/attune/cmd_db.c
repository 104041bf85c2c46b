/* attune db: what the database of measurements holds, out and in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "commands.h"
#include "database.h"
#include "fail.h"
#include "json.h"
#include "tuned_table.h"

/* ---- rows as JSON lines and TSV ---- */

typedef struct listing {
    const options *options;
    int rows;
} listing;

static int print_json_row(const attune_tuning_value *values, int count)
{
    json_begin();
    for (int i = 0; i < count; i++) {
        if (values[i].text && values[i].is_number)
            json_literal(values[i].column, values[i].text);
        else
            json_text(values[i].column, values[i].text);
    }
    json_end();
    return 0;
}

/* No text of a database holds a tab or the end of a line; an empty field is no value. */
static int print_tsv_row(const attune_tuning_value *values, int count, bool header)
{
    for (int i = 0; header && i < count; i++)
        printf("%s%c", values[i].column, i + 1 < count ? '\t' : '\n');
    for (int i = 0; i < count; i++)
        printf("%s%c", values[i].text ? values[i].text : "", i + 1 < count ? '\t' : '\n');
    return 0;
}

static int print_row(const attune_tuning_value *values, int count, void *user)
{
    listing *const l = user;
    const bool first = l->rows++ == 0;
    return l->options->tsv ? print_tsv_row(values, count, first) : print_json_row(values, count);
}

/* For reading: the kernel, what became of it, and where. */
static int print_measurement(const attune_tuning_value *values, int count, void *user)
{
    listing *const l = user;
    static char last[33];
    const char *const run = column_of(values, count, "run"),
                      *const options = column_of(values, count, "options"),
                      *const invalid = column_of(values, count, "invalid"),
                      *const time = column_of(values, count, "milliseconds");
    l->rows++;
    if (strcmp(last, run) != 0) {
        snprintf(last, sizeof last, "%s", run);
        printf("%s  %s%s%s\n  %s %s, driver %s; library %s, texts %s, %s\n  begun %s, %s %s\n",
               column_of(values, count, "problem"), options, options[0] ? "  " : "",
               column_of(values, count, "backend"), column_of(values, count, "device"),
               column_of(values, count, "device_class"), column_of(values, count, "driver"),
               column_of(values, count, "version"), column_of(values, count, "text_hash"),
               column_of(values, count, "compiler"), column_of(values, count, "started"),
               column_of(values, count, "finished")[0] ? "finished" : "not finished",
               column_of(values, count, "finished"));
    }
    printf("    rung %-2s %-48s ", column_of(values, count, "rung"),
           column_of(values, count, "kernel"));
    if (invalid[0])
        printf("no: %s\n", invalid);
    else if (time[0])
        printf("%.6s ms (quartiles %.6s to %.6s, %s runs)\n", time,
               column_of(values, count, "milliseconds_q1"),
               column_of(values, count, "milliseconds_q3"), column_of(values, count, "samples"));
    else
        puts("right, not timed");
    return 0;
}

static int print_winner(const attune_tuning_value *values, int count, void *user)
{
    listing *const l = user;
    const char *const options = column_of(values, count, "options"),
                      *const kernel = column_of(values, count, "kernel"),
                      *const usual = column_of(values, count, "default_kernel");
    l->rows++;
    printf("%s %s (%s)  %s%s%s\n  %s  %.6s ms", column_of(values, count, "backend"),
           column_of(values, count, "device"), column_of(values, count, "device_class"),
           column_of(values, count, "problem"), options[0] ? "  " : "", options, kernel,
           column_of(values, count, "milliseconds"));
    if (strcmp(kernel, usual) == 0)
        puts(", the default");
    else
        printf("; the default %s  %.6s ms\n", usual,
               column_of(values, count, "default_milliseconds"));
    return 0;
}

/* ---- subcommands ---- */

static int visit(const options *o, attune_tuning_table table, attune_tuning_visitor *visitor,
                 int *rows)
{
    attune_tuning_db *db;
    listing l = {.options = o};
    int code = database_open(o, false, &db);
    if (code != EXIT_DONE) return code;
    const attune_status status = attune_tuning_visit(db, table, visitor, &l);
    attune_tuning_close(db);
    *rows = l.rows;
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

int command_db_export(const options *o)
{
    int rows;
    if (o->tuned) return tuned_table_print(o);
    return visit(o, ATTUNE_TUNING_MEASUREMENTS, print_row, &rows);
}

static int show(const options *o, attune_tuning_table table, attune_tuning_visitor *visitor,
                const char *none)
{
    int rows = 0;
    const int code = visit(o, table, o->json || o->tsv ? print_row : visitor, &rows);
    if (code == EXIT_DONE && rows == 0) fprintf(stderr, "attune db: %s\n", none);
    return code;
}

int command_db_show(const options *o)
{
    return show(o, ATTUNE_TUNING_MEASUREMENTS, print_measurement, "nothing was measured");
}

int command_db_best(const options *o)
{
    return show(o, ATTUNE_TUNING_WINNERS, print_winner, "nothing has won yet");
}

/* ---- import ---- */

enum { MOST_COLUMNS = 64 };

typedef struct tsv_header {
    char *line; /* owner of the names */
    const char *columns[MOST_COLUMNS];
    int count; /* 0: lines are JSON */
} tsv_header;

static int split(char *line, const char *fields[MOST_COLUMNS])
{
    int count = 0;
    for (char *next = line; next && count < MOST_COLUMNS; count++) {
        fields[count] = next;
        next = strchr(next, '\t');
        if (next) *next++ = '\0';
    }
    return count;
}

static attune_status import_line(attune_tuning_db *db, tsv_header *header, char *line,
                                 int32_t *added)
{
    const char *fields[MOST_COLUMNS];
    attune_tuning_value values[MOST_COLUMNS];
    if (header->count == 0) return attune_tuning_import_json(db, line, added);
    const int count = split(line, fields);
    for (int i = 0; i < count && i < header->count; i++)
        values[i] = (attune_tuning_value){.column = header->columns[i], .text = fields[i]};
    return attune_tuning_import(db, values, count < header->count ? count : header->count, added);
}

static bool is_column(const tsv_header *header, const char *name)
{
    for (int i = 0; i < header->count; i++)
        if (strcmp(header->columns[i], name) == 0) return true;
    return false;
}

/* Whether the first line is the header of a TSV file; another must be a JSON object. */
static bool is_header(tsv_header *header, const char *line)
{
    header->line = strdup(line);
    header->count = header->line ? split(header->line, header->columns) : 0;
    if (is_column(header, "run") && is_column(header, "kernel")) return true;
    header->count = 0;
    return false;
}

/* All lines or none. */
static int import_file(const options *o, attune_tuning_db *db, FILE *file, int64_t *rows,
                       int64_t *added)
{
    char *line = NULL;
    size_t room = 0;
    tsv_header header = {.count = 0};
    int64_t number = 0;
    int code = EXIT_DONE;
    ssize_t length;
    while (code == EXIT_DONE && (length = getline(&line, &room, file)) >= 0) {
        int32_t is_new = 0;
        number++;
        if (strlen(line) < (size_t)length) {
            code = fail(EXIT_BAD_INPUT, "%s, line %lld: a byte of it is 0", o->file,
                        (long long)number);
            break;
        }
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0' || (!header.line && is_header(&header, line))) continue;
        const attune_status status = import_line(db, &header, line, &is_new);
        if (status != ATTUNE_OK)
            code = fail(status == ATTUNE_INVALID_ARGUMENT ? EXIT_BAD_INPUT : EXIT_FAILED,
                        "%s, line %lld: %s", o->file, (long long)number, attune_error_detail());
        ++*rows;
        *added += is_new;
    }
    if (code == EXIT_DONE && ferror(file))
        code = fail(EXIT_BAD_INPUT, "%s cannot be read: %s", o->file, strerror(errno));
    free(header.line);
    free(line);
    return code;
}

int command_db_import(const options *o)
{
    attune_tuning_db *db;
    int64_t rows = 0, added = 0;
    if (!o->file) return fail(EXIT_BAD_INPUT, "--file is needed");
    FILE *const file = strcmp(o->file, "-") == 0 ? stdin : fopen(o->file, "r");
    if (!file) return fail(EXIT_BAD_INPUT, "%s cannot be opened: %s", o->file, strerror(errno));
    int code = database_open(o, true, &db);
    if (code == EXIT_DONE) {
        attune_status status = attune_tuning_import_begin(db);
        if (status == ATTUNE_OK) {
            code = import_file(o, db, file, &rows, &added);
            status = attune_tuning_import_end(db, code == EXIT_DONE);
        }
        if (code == EXIT_DONE && status != ATTUNE_OK) code = fail_status(status);
        attune_tuning_close(db);
    }
    if (file != stdin) fclose(file);
    if (code == EXIT_DONE)
        printf("%lld measurement%s, %lld of them new\n", (long long)rows, rows == 1 ? "" : "s",
               (long long)added);
    return code;
}
