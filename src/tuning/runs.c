/* Recording: a run for each tuned problem, a transaction for each measurement. */
#include "runs.h"

#include "../choose.h"
#include "../context.h"
#include "../plan.h"
#include "../problem.h"
#include "../status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')" /* of a clock that all machines share */

void attune_measurement_init(attune_measurement *measurement)
{
    *measurement = (attune_measurement){
        .struct_size = sizeof *measurement,
        .kernel = "",
        .milliseconds = NAN,
        .milliseconds_q1 = NAN,
        .milliseconds_q3 = NAN,
        .milliseconds_min = NAN,
        .bound_ratio = NAN,
        .bits = "",
        .registers = -1,
        .spill_bytes = -1,
        .resident_warps = -1,
    };
}

/* ---- runs ---- */

/* The row of a table that has these values, made where it is missing. */
static attune_status find_or_insert(attune_tuning_db *db, const char *insert, const char *select,
                                    const database_value values[], int count, int64_t *id)
{
    RETURN_IF_FAILED(database_execute(db, insert, values, count, "recording"));
    return database_integer(db, select, values, count, 0, id);
}

attune_status device_row(attune_tuning_db *db, const database_value values[DEVICE_COLUMNS],
                         int64_t *id)
{
    return find_or_insert(
        db,
        "INSERT INTO device (backend, device, platform, device_class, driver, compute_units)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        " ON CONFLICT (backend, device, platform, device_class, driver, compute_units) DO NOTHING",
        "SELECT id FROM device WHERE backend = ?1 AND device = ?2 AND platform = ?3"
        " AND device_class = ?4 AND driver = ?5 AND compute_units = ?6",
        values, DEVICE_COLUMNS, id);
}

attune_status build_row(attune_tuning_db *db, const database_value values[BUILD_COLUMNS],
                        int64_t *id)
{
    return find_or_insert(
        db,
        "INSERT INTO build (version, text_hash, compiler) VALUES (?1, ?2, ?3)"
        " ON CONFLICT (version, text_hash, compiler) DO NOTHING",
        "SELECT id FROM build WHERE version = ?1 AND text_hash = ?2 AND compiler = ?3", values,
        BUILD_COLUMNS, id);
}

/* The last run of the key: its id, or 0, and whether it was finished. */
static attune_status last_run(attune_tuning_db *db, const database_value key[4], int64_t *run,
                              int32_t *resume)
{
    int64_t finished;
    RETURN_IF_FAILED(
        database_integer(db,
                         "SELECT id FROM run WHERE device_id = ?1 AND build_id = ?2 AND problem "
                         "= ?3 AND options = ?4 ORDER BY id DESC LIMIT 1",
                         key, 4, 0, run));
    const database_value of[] = {integer_value(*run)};
    RETURN_IF_FAILED(database_integer(db, "SELECT finished IS NOT NULL FROM run WHERE id = ?1", of,
                                      1, 0, &finished));
    *resume = *run == 0       ? ATTUNE_TUNING_NEW
              : finished != 0 ? ATTUNE_TUNING_FINISHED
                              : ATTUNE_TUNING_RESUMED;
    return ATTUNE_OK;
}

static attune_status begin(attune_tuning_db *db, const attune_context *context,
                           const attune_problem *normal, const char *options,
                           const char *default_kernel, int32_t *resume, int64_t *run)
{
    char problem[PROBLEM_TEXT_SIZE];
    database_value key[KEY_COLUMNS];
    int64_t device, build;
    context_key(context, key);
    RETURN_IF_FAILED(device_row(db, key, &device));
    RETURN_IF_FAILED(build_row(db, key + DEVICE_COLUMNS, &build));
    attune_problem_print(normal, problem, sizeof problem);
    const database_value values[] = {integer_value(device), integer_value(build),
                                     text_value(problem), text_value(options),
                                     text_value(default_kernel)};
    if (*resume != 0) {
        RETURN_IF_FAILED(last_run(db, values, run, resume));
        if (*run != 0) return ATTUNE_OK;
    }
    *resume = ATTUNE_TUNING_NEW;
    RETURN_IF_FAILED(database_execute(
        db,
        "INSERT INTO run (uid, device_id, build_id, problem, options, default_kernel, started)"
        " VALUES (lower(hex(randomblob(16))), ?1, ?2, ?3, ?4, ?5, " NOW ")",
        values, 5, "recording"));
    return database_integer(db, "SELECT last_insert_rowid()", NULL, 0, 0, run);
}

/* Several statements that succeed together or not at all. */
static attune_status transact_end(attune_tuning_db *db, attune_status status)
{
    if (status == ATTUNE_OK) status = database_run(db, "COMMIT", "recording");
    if (status != ATTUNE_OK) sqlite.exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

attune_status attune_tuning_run_begin(attune_tuning_db *db, attune_context *context,
                                      const attune_problem *problem,
                                      const attune_plan_options *plan_options,
                                      const char *default_kernel, int32_t *resume, int64_t *run)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(context);
    RETURN_IF_NULL(default_kernel);
    RETURN_IF_NULL(resume);
    RETURN_IF_NULL(run);
    attune_problem normal;
    kernel_request request;
    char options[REQUEST_OPTIONS_SIZE];
    RETURN_IF_FAILED(problem_normalise(problem, &normal));
    RETURN_IF_FAILED(plan_request(context, &normal, plan_options, &request));
    if (request_options(&request, options) >= sizeof options)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "options of more than %d bytes",
                           REQUEST_OPTIONS_SIZE - 1);
    RETURN_IF_FAILED(database_run(db, "BEGIN IMMEDIATE", "recording"));
    return transact_end(db, begin(db, context, &normal, options, default_kernel, resume, run));
}

attune_status attune_tuning_run_finish(attune_tuning_db *db, int64_t run)
{
    RETURN_IF_NULL(db);
    const database_value of[] = {integer_value(run)};
    int64_t runs;
    RETURN_IF_FAILED(
        database_integer(db, "SELECT count(*) FROM run WHERE id = ?1", of, 1, 0, &runs));
    if (runs == 0) return attune_fail(ATTUNE_INVALID_ARGUMENT, "there is no run %" PRId64, run);
    return database_execute(db, "UPDATE run SET finished = " NOW " WHERE id = ?1", of, 1,
                            "recording");
}

/* ---- measurements ---- */

/* A reason, which may be a compiler's, as a text that TSV and an import take. */
static const char *one_line(const char *text, char line[LONGEST_TEXT + 1])
{
    snprintf(line, LONGEST_TEXT + 1, "%s", text);
    for (char *at = line; *at != '\0'; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    return line;
}

attune_status attune_tuning_record(attune_tuning_db *db, int64_t run,
                                   const attune_measurement *measurement)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(measurement);
    attune_measurement m;
    RETURN_IF_FAILED(struct_copy(&m, sizeof m, sizeof m, measurement, "attune_measurement"));
    for (const char *at = m.kernel; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ')
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "kernel is \"%.40s\"; an id is accepted",
                               m.kernel);
    char invalid[LONGEST_TEXT + 1];
    const database_value values[] = {
        integer_value(run),
        text_value(m.kernel),
        integer_value(m.rung),
        text_value(m.invalid == NULL ? NULL : one_line(m.invalid, invalid)),
        real_value(m.milliseconds),
        real_value(m.milliseconds_q1),
        real_value(m.milliseconds_q3),
        real_value(m.milliseconds_min),
        integer_value(m.samples),
        real_value(m.bound_ratio),
        text_value(m.bits),
        m.registers < 0 ? text_value(NULL) : integer_value(m.registers),
        m.spill_bytes < 0 ? text_value(NULL) : integer_value(m.spill_bytes),
        m.resident_warps < 0 ? text_value(NULL) : integer_value(m.resident_warps),
    };
    return database_execute(db,
                            "INSERT OR REPLACE INTO measurement (run_id, " MEASURED_COLUMNS
                            ", measured) VALUES (?1, ?2, "
                            "?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, " NOW ")",
                            values, sizeof values / sizeof *values, "recording");
}

typedef struct measurement_visit {
    attune_measurement_visitor *visitor;
    void *user;
} measurement_visit;

static int take_measurement(sqlite3_stmt *statement, void *user)
{
    const measurement_visit *const visit = user;
    const attune_measurement m = {
        .struct_size = sizeof m,
        .kernel = column_word(statement, 0),
        .rung = (int32_t)sqlite.column_int64(statement, 1),
        .invalid = column_text(statement, 2),
        .milliseconds = column_real(statement, 3),
        .milliseconds_q1 = column_real(statement, 4),
        .milliseconds_q3 = column_real(statement, 5),
        .milliseconds_min = column_real(statement, 6),
        .samples = (int32_t)sqlite.column_int64(statement, 7),
        .bound_ratio = column_real(statement, 8),
        .bits = column_word(statement, 9),
        .registers = (int32_t)column_count(statement, 10),
        .spill_bytes = column_count(statement, 11),
        .resident_warps = (int32_t)column_count(statement, 12),
    };
    return visit->visitor(&m, visit->user);
}

attune_status attune_tuning_run_visit(attune_tuning_db *db, int64_t run,
                                      attune_measurement_visitor *visitor, void *user)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(visitor);
    const database_value of[] = {integer_value(run)};
    measurement_visit visit = {visitor, user};
    sqlite3_stmt *const statement = database_prepare(
        db, "SELECT " MEASURED_COLUMNS " FROM measurement WHERE run_id = ?1 ORDER BY id", of, 1);
    return database_each(db, statement, take_measurement, &visit);
}

static int take_winner(sqlite3_stmt *statement, void *user)
{
    attune_tuning_winner *const winner = user;
    snprintf(winner->kernel, sizeof winner->kernel, "%s", column_word(statement, 0));
    winner->milliseconds = column_real(statement, 1);
    winner->default_milliseconds = column_real(statement, 2);
    return 1;
}

attune_status attune_tuning_run_winner(attune_tuning_db *db, int64_t run,
                                       attune_tuning_winner *winner)
{
    RETURN_IF_NULL(db);
    RETURN_IF_NULL(winner);
    *winner = (attune_tuning_winner){.milliseconds = NAN, .default_milliseconds = NAN};
    const database_value of[] = {integer_value(run)};
    sqlite3_stmt *const statement = database_prepare(
        db, "SELECT kernel, milliseconds, default_milliseconds FROM winner WHERE run_id = ?1", of,
        1);
    return database_each(db, statement, take_winner, winner);
}
