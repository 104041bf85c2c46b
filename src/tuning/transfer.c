/* Rows out of a database and into another. */
#include "../problem.h"
#include "../status.h"
#include "runs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- out ---- */

typedef struct row_visit {
    attune_tuning_visitor *visitor;
    void *user;
} row_visit;

static int take_row(sqlite3_stmt *statement, void *user)
{
    enum { MOST_COLUMNS = 64 };
    const row_visit *const visit = user;
    const int all = sqlite.column_count(statement),
              columns = all < MOST_COLUMNS ? all : MOST_COLUMNS;
    attune_tuning_value values[MOST_COLUMNS];
    for (int i = 0; i < columns; i++) {
        const int type = sqlite.column_type(statement, i);
        values[i] = (attune_tuning_value){
            .column = sqlite.column_name(statement, i),
            .text = column_text(statement, i),
            .is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT,
        };
    }
    return visit->visitor(values, columns, visit->user);
}

attune_status attune_tuning_visit(attune_tuning_db *db, attune_tuning_table table,
                                  attune_tuning_visitor *visitor, void *user)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(visitor);
    row_visit visit = {visitor, user};
    sqlite3_stmt *const statement = database_prepare(
        db,
        table == ATTUNE_TUNING_WINNERS
            ? "SELECT backend, device, platform, device_class, driver, compute_units, version, "
              "text_hash, compiler, problem, options, default_kernel, default_milliseconds, "
              "kernel, milliseconds, run, started, finished FROM winner ORDER BY backend, device, "
              "platform, driver, version, text_hash, compiler, problem, options"
            : "SELECT * FROM record",
        NULL, 0);
    return database_each(db, statement, take_row, &visit);
}

/* ---- in ---- */

/* The columns of a row, and what they hold: a text, an integer or a real number; `optional` ones may be NULL. */
#define COLUMNS(X)                                                                                 \
    X(backend, TEXT, false)                                                                        \
    X(device, TEXT, false)                                                                         \
    X(platform, TEXT, false)                                                                       \
    X(device_class, TEXT, false)                                                                   \
    X(driver, TEXT, false)                                                                         \
    X(compute_units, INTEGER, false)                                                               \
    X(version, TEXT, false)                                                                        \
    X(text_hash, TEXT, false)                                                                      \
    X(compiler, TEXT, false)                                                                       \
    X(run, TEXT, false)                                                                            \
    X(problem, TEXT, false)                                                                        \
    X(options, TEXT, false)                                                                        \
    X(default_kernel, TEXT, false)                                                                 \
    X(started, TEXT, false)                                                                        \
    X(finished, TEXT, true)                                                                        \
    X(kernel, TEXT, false)                                                                         \
    X(rung, INTEGER, false)                                                                        \
    X(invalid, TEXT, true)                                                                         \
    X(milliseconds, REAL, true)                                                                    \
    X(milliseconds_q1, REAL, true)                                                                 \
    X(milliseconds_q3, REAL, true)                                                                 \
    X(milliseconds_min, REAL, true)                                                                \
    X(samples, INTEGER, false)                                                                     \
    X(bound_ratio, REAL, true)                                                                     \
    X(bits, TEXT, false)                                                                           \
    X(registers, INTEGER, true)                                                                    \
    X(spill_bytes, INTEGER, true)                                                                  \
    X(resident_warps, INTEGER, true)                                                               \
    X(measured, TEXT, false)

typedef enum column_place {
#define COLUMN_PLACE(name, type, optional) COLUMN_##name,
    COLUMNS(COLUMN_PLACE)
#undef COLUMN_PLACE
        COLUMN_COUNT
} column_place;

static const struct column {
    const char *name;
    int type;
    bool optional;
} columns[COLUMN_COUNT] = {
#define COLUMN_ROW(name, type, optional) {#name, VALUE_##type, optional},
    COLUMNS(COLUMN_ROW)
#undef COLUMN_ROW
};

static attune_status read_value(const struct column *column, const char *text,
                                database_value *value)
{
    char *end;
    if (text != NULL && text[0] == '\0' && column->optional) text = NULL; /* as TSV spells it */
    if (text == NULL && !column->optional)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is missing", column->name);
    *value = text_value(text);
    if (text == NULL) return ATTUNE_OK;
    errno = 0;
    switch (column->type) {
    case VALUE_INTEGER:
        *value = integer_value(strtoll(text, &end, 10));
        if (end != text && *end == '\0' && errno == 0) return ATTUNE_OK;
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is \"%.40s\"; an integer is accepted",
                           column->name, text);
    case VALUE_REAL:
        *value = real_value(strtod(text, &end));
        if (end != text && *end == '\0' && value->type == VALUE_REAL && value->real >= 0)
            return ATTUNE_OK;
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s is \"%.40s\"; a finite number of 0 or more is accepted",
                           column->name, text);
    default:
        if (strlen(text) <= LONGEST_TEXT && strpbrk(text, "\t\r\n") == NULL) return ATTUNE_OK;
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s is no single line of at most %d bytes without tabs", column->name,
                           LONGEST_TEXT);
    }
}

static attune_status read_row(const attune_tuning_value *given, int count,
                              database_value row[COLUMN_COUNT])
{
    attune_problem problem, normal;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const char *text = NULL;
        for (int i = 0; i < count; i++)
            if (strcmp(given[i].column, columns[c].name) == 0) text = given[i].text;
        RETURN_IF_FAILED(read_value(&columns[c], text, &row[c]));
    }
    RETURN_IF_FAILED(attune_problem_parse(row[COLUMN_problem].text, &problem));
    return problem_normalise(&problem, &normal);
}

static attune_status insert_row(attune_tuning_db *db, const database_value row[COLUMN_COUNT],
                                int32_t *added)
{
    int64_t device, build, run;
    RETURN_IF_FAILED(device_row(db, &row[COLUMN_backend], &device));
    RETURN_IF_FAILED(build_row(db, &row[COLUMN_version], &build));
    const database_value run_values[] = {row[COLUMN_run],      integer_value(device),
                                         integer_value(build), row[COLUMN_problem],
                                         row[COLUMN_options],  row[COLUMN_default_kernel],
                                         row[COLUMN_started],  row[COLUMN_finished]};
    RETURN_IF_FAILED(database_execute(
        db,
        "INSERT INTO run (uid, device_id, build_id, problem, options, "
        "default_kernel, started, finished) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
        "?8) ON CONFLICT (uid) DO UPDATE SET finished = coalesce(finished, excluded.finished)",
        run_values, 8, "importing"));
    RETURN_IF_FAILED(database_integer(
        db,
        "SELECT id FROM run WHERE uid = ?1 AND device_id = ?2 AND build_id = ?3 AND problem = ?4 "
        "AND options = ?5 AND default_kernel = ?6",
        run_values, 6, 0, &run));
    if (run == 0)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "run %s is there with another device, build, problem, options or "
                           "default_kernel",
                           row[COLUMN_run].text);
    database_value values[1 + COLUMN_COUNT - COLUMN_kernel] = {integer_value(run)};
    memcpy(values + 1, &row[COLUMN_kernel], sizeof values - sizeof *values);
    RETURN_IF_FAILED(database_execute(
        db,
        "INSERT INTO measurement (run_id, " MEASURED_COLUMNS ", measured) VALUES (?1, ?2, ?3, ?4, "
        "?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT (run_id, kernel, rung) DO "
        "NOTHING",
        values, sizeof values / sizeof *values, "importing"));
    *added = sqlite.changes(db->handle) != 0;
    return ATTUNE_OK;
}

/* What a table's own checks refuse is the row's fault, not the file's. */
attune_status attune_tuning_import(attune_tuning_db *db, const attune_tuning_value *values,
                                   int count, int32_t *added)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(values);
    RETURN_IF_NULL(added);
    *added = 0;
    database_value row[COLUMN_COUNT];
    RETURN_IF_FAILED(read_row(values, count, row));
    const attune_status status = insert_row(db, row, added);
    if (status == ATTUNE_OK ||
        (sqlite.extended_errcode(db->handle) & SQLITE_PRIMARY_CODE) != SQLITE_CONSTRAINT)
        return status;
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "a row that no measurement makes: %s",
                       sqlite.errmsg(db->handle));
}

attune_status attune_tuning_import_json(attune_tuning_db *db, const char *json, int32_t *added)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(json);
    char sql[2048] = "SELECT json_type(?1)";
    for (int c = 0; c < COLUMN_COUNT; c++)
        snprintf(sql + strlen(sql), sizeof sql - strlen(sql), ", json_extract(?1, '$.%s')",
                 columns[c].name);
    const database_value text[] = {text_value(json)};
    sqlite3_stmt *const statement = database_prepare(db, sql, text, 1);
    if (statement == NULL) return ATTUNE_FILE_ERROR;
    attune_status status;
    if (sqlite.step(statement) != SQLITE_ROW || strcmp(column_word(statement, 0), "object") != 0) {
        status = attune_fail(ATTUNE_INVALID_ARGUMENT, "\"%.60s\" is no JSON object", json);
    } else {
        attune_tuning_value values[COLUMN_COUNT];
        for (int c = 0; c < COLUMN_COUNT; c++)
            values[c] = (attune_tuning_value){
                .column = columns[c].name,
                .text = column_text(statement, c + 1),
            };
        status = attune_tuning_import(db, values, COLUMN_COUNT, added);
    }
    sqlite.finalize(statement);
    return status;
}

attune_status attune_tuning_import_begin(attune_tuning_db *db)
{
    RETURN_IF_NULL(db);
    return database_run(db, "BEGIN IMMEDIATE", "importing");
}

attune_status attune_tuning_import_end(attune_tuning_db *db, int32_t keep)
{
    RETURN_IF_NULL(db);
    return database_run(db, keep != 0 ? "COMMIT" : "ROLLBACK", "importing");
}
