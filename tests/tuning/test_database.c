/* White box of src/tuning: databases that are new, old, foreign, damaged, or not to be written; what wins; and what a context makes of it. */
#include "attune/device.h"
#include "attune/tuning.h"
#include "tuning/schema.h"
#include "tuning/sqlite.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[128];

#define assert_ok(call) assert_string_equal((call) == ATTUNE_OK ? "" : attune_error_detail(), "")

/* The call fails with that status and a sentence that holds `part`. */
#define assert_fails(call, expected, part)                                                         \
    do {                                                                                           \
        assert_int_equal(call, expected);                                                          \
        if (strstr(attune_error_detail(), part) == NULL)                                           \
            fail_msg("\"%s\" lacks \"%s\"", attune_error_detail(), part);                          \
    } while (0)

static int make_folder(void **user)
{
    (void)user;
    strcpy(folder, "/tmp/attune-tuning-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/tuning.db", folder);
    return 0;
}

static int remove_folder(void **user)
{
    (void)user;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* ---- a context, a problem, a run ---- */

static attune_context *open_cpu(const char *database)
{
    attune_context_options options;
    attune_context *context;
    attune_context_options_init(&options);
    options.tuning_db = database;
    assert_ok(attune_context_open("cpu", &options, &context));
    return context;
}

static attune_problem problem_of(int64_t seqlen_q)
{
    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F32, 1, 2, 1, seqlen_q, 100, 64, 64);
    return problem;
}

/* The kernel of a plan; `options` may be NULL. */
static void plan_of(attune_context *context, int64_t seqlen_q, const attune_plan_options *options,
                    char kernel[96])
{
    const attune_problem problem = problem_of(seqlen_q);
    attune_plan *plan;
    assert_ok(attune_plan_create(context, &problem, options, &plan));
    snprintf(kernel, 96, "%s", attune_plan_kernel(plan));
    attune_plan_destroy(plan);
}

typedef struct second_kernel {
    const char *first;
    char id[96];
} second_kernel;

/* A kernel that computes the problem and is not the one that is chosen. */
static int find_second(const attune_kernel_info *kernel, void *user)
{
    second_kernel *const second = user;
    if (kernel->reason != NULL || strcmp(kernel->id, second->first) == 0) return 0;
    snprintf(second->id, sizeof second->id, "%s", kernel->id);
    return 1;
}

static void kernels_of(int64_t seqlen_q, char first[96], char second[96])
{
    attune_context *const context = open_cpu("off");
    const attune_problem problem = problem_of(seqlen_q);
    plan_of(context, seqlen_q, NULL, first);
    second_kernel search = {.first = first};
    assert_ok(attune_kernels_visit(context, &problem, NULL, find_second, &search));
    assert_string_not_equal(search.id, "");
    strcpy(second, search.id);
    attune_context_close(context);
}

static attune_measurement timed(const char *kernel, int rung, double q1, double median, double q3)
{
    attune_measurement m;
    attune_measurement_init(&m);
    m.kernel = kernel;
    m.rung = rung;
    m.milliseconds_min = m.milliseconds_q1 = q1;
    m.milliseconds = median;
    m.milliseconds_q3 = q3;
    m.samples = 21;
    return m;
}

static int64_t begin_run(attune_tuning_db *db, int64_t seqlen_q, const char *usual)
{
    attune_context *const context = open_cpu("off");
    const attune_problem problem = problem_of(seqlen_q);
    int32_t resume = 0;
    int64_t run;
    assert_ok(attune_tuning_run_begin(db, context, &problem, NULL, usual, &resume, &run));
    assert_int_equal(resume, ATTUNE_TUNING_NEW);
    attune_context_close(context);
    return run;
}

/* A database in which `kernel` has won against `usual` for seqlen_q. */
static void make_database(int64_t seqlen_q, const char *usual, const char *kernel)
{
    attune_tuning_db *db;
    assert_ok(attune_tuning_open(path, 1, &db));
    const int64_t run = begin_run(db, seqlen_q, usual);
    const attune_measurement slow = timed(usual, 1, 9.5, 10.0, 10.5),
                             fast = timed(kernel, 1, 4.5, 5.0, 5.5);
    assert_ok(attune_tuning_record(db, run, &slow));
    assert_ok(attune_tuning_record(db, run, &fast));
    assert_ok(attune_tuning_run_finish(db, run));
    attune_tuning_close(db);
}

/* ---- what wins ---- */

static void the_default_stays_unless_it_is_clearly_beaten(void **user)
{
    (void)user;
    const struct {
        const char *why;
        attune_measurement of; /* against a default of 9.5, 10.0, 10.5 in rung 1 */
        const char *invalid, *winner;
    } cases[] = {
        {"slower", timed("other", 1, 10.5, 11.0, 12.0), NULL, "usual"},
        {"by less than 3 %", timed("other", 1, 9.0, 9.75, 9.4), NULL, "usual"},
        {"in the noise", timed("other", 1, 8.0, 9.0, 9.6), NULL, "usual"},
        {"clearly faster", timed("other", 1, 8.8, 9.0, 9.2), NULL, "other"},
        {"of an earlier rung", timed("other", 0, 8.8, 9.0, 9.2), NULL, "usual"},
        {"fast and wrong", timed("other", 1, 0.1, 0.1, 0.1), "is wrong", "usual"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attune_tuning_db *db;
        attune_tuning_winner winner;
        attune_measurement usual = timed("usual", 1, 9.5, 10.0, 10.5), other = cases[i].of;
        other.invalid = cases[i].invalid;
        assert_ok(attune_tuning_open(path, 1, &db));
        const int64_t run = begin_run(db, 8, "usual");
        assert_ok(attune_tuning_record(db, run, &usual));
        assert_ok(attune_tuning_record(db, run, &other));
        assert_ok(attune_tuning_run_winner(db, run, &winner));
        if (strcmp(winner.kernel, cases[i].winner) != 0)
            fail_msg("%s: %s wins", cases[i].why, winner.kernel);
        assert_true(winner.default_milliseconds == 10.0);
        usual.invalid = "crashes"; /* then whatever is right is better */
        assert_ok(attune_tuning_record(db, run, &usual));
        assert_ok(attune_tuning_run_winner(db, run, &winner));
        assert_string_equal(winner.kernel, cases[i].invalid != NULL ? "" : "other");
        attune_tuning_close(db);
    }
}

static int count_rows(const attune_tuning_value *values, int count, void *user)
{
    (void)values, (void)count;
    ++*(int *)user;
    return 0;
}

static int rows_of(attune_tuning_db *db, attune_tuning_table table)
{
    int rows = 0;
    assert_ok(attune_tuning_visit(db, table, count_rows, &rows));
    return rows;
}

static void the_last_finished_run_decides(void **user)
{
    (void)user;
    attune_tuning_db *db;
    make_database(8, "usual", "old");
    make_database(8, "usual", "new");
    assert_ok(attune_tuning_open(path, 1, &db));
    const int64_t run = begin_run(db, 8, "usual"); /* interrupted: nothing but the default */
    const attune_measurement usual = timed("usual", 0, 1, 1, 1);
    assert_ok(attune_tuning_record(db, run, &usual));
    assert_int_equal(rows_of(db, ATTUNE_TUNING_WINNERS), 1);
    assert_int_equal(rows_of(db, ATTUNE_TUNING_MEASUREMENTS), 5);
    sqlite3 *handle;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite.open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite.prepare_v2(handle, "SELECT kernel FROM winner", -1, &statement, NULL);
    assert_int_equal(sqlite.step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite.column_text(statement, 0), "new");
    sqlite.finalize(statement);
    sqlite.close_v2(handle);
    attune_tuning_close(db);
}

static void runs_go_on_where_they_ended(void **user)
{
    (void)user;
    attune_tuning_db *db;
    attune_context *const context = open_cpu("off");
    const attune_problem problem = problem_of(8);
    attune_plan_options options;
    attune_plan_options_init(&options);
    int64_t first, run;
    int32_t resume = 1;
    assert_ok(attune_tuning_open(path, 1, &db));
    assert_ok(attune_tuning_run_begin(db, context, &problem, NULL, "usual", &resume, &first));
    assert_int_equal(resume, ATTUNE_TUNING_NEW);
    resume = 1;
    assert_ok(attune_tuning_run_begin(db, context, &problem, &options, "usual", &resume, &run));
    assert_int_equal(resume, ATTUNE_TUNING_RESUMED);
    assert_int_equal(run, first);
    options.reproducible = 1;
    resume = 1;
    assert_ok(attune_tuning_run_begin(db, context, &problem, &options, "usual", &resume, &run));
    assert_int_equal(resume, ATTUNE_TUNING_NEW);
    assert_ok(attune_tuning_run_finish(db, first));
    resume = 1;
    assert_ok(attune_tuning_run_begin(db, context, &problem, NULL, "usual", &resume, &run));
    assert_int_equal(resume, ATTUNE_TUNING_FINISHED);
    resume = 0;
    assert_ok(attune_tuning_run_begin(db, context, &problem, NULL, "usual", &resume, &run));
    assert_int_equal(resume, ATTUNE_TUNING_NEW);
    assert_true(run != first);
    attune_tuning_close(db);
    attune_context_close(context);
}

/* ---- what a context makes of it ---- */

static void plans_use_what_won(void **user)
{
    (void)user;
    char usual[96], other[96], kernel[96];
    kernels_of(8, usual, other);
    make_database(8, usual, other);
    attune_context *context = open_cpu(path);
    attune_plan_options options;
    attune_plan_options_init(&options);
    const attune_tuning_state *state;

    plan_of(context, 8, NULL, kernel);
    assert_string_equal(kernel, other);
    options.deterministic = 1;
    plan_of(context, 8, &options, kernel);
    assert_string_equal(kernel, usual);
    options.deterministic = 0;
    options.hint = usual;
    plan_of(context, 8, &options, kernel);
    assert_string_equal(kernel, usual);
    options.hint = NULL;
    assert_ok(attune_context_tuning(context, &state));
    assert_int_equal(state->winners, 1);
    assert_string_equal(state->path, path);
    assert_string_equal(state->reason, "");

    unlink(path); /* it was read; it is not read again */
    plan_of(context, 9, NULL, kernel);
    assert_string_equal(kernel, other);
    attune_context_close(context);

    context = open_cpu(path);
    plan_of(context, 8, NULL, kernel);
    assert_string_equal(kernel, usual);
    assert_ok(attune_context_tuning(context, &state));
    assert_non_null(strstr(state->reason, "No such file"));
    attune_context_close(context);

    context = open_cpu("off");
    assert_ok(attune_context_tuning(context, &state));
    assert_string_equal(state->path, "");
    attune_context_close(context);
}

typedef struct changed_import {
    attune_tuning_db *to;
    const char *column, *text; /* replaced; NULL: none */
    int rows, added;
} changed_import;

static int import_changed(const attune_tuning_value *values, int count, void *user)
{
    changed_import *const change = user;
    attune_tuning_value row[64];
    int32_t added;
    memcpy(row, values, (size_t)count * sizeof *values);
    for (int i = 0; i < count; i++)
        if (change->column != NULL && strcmp(row[i].column, change->column) == 0)
            row[i].text = change->text;
    change->rows++;
    const attune_status status = attune_tuning_import(change->to, row, count, &added);
    change->added += added;
    return status != ATTUNE_OK;
}

/* Rows of `path` into another database, with one column changed. */
static changed_import copy_changed(const char *to, const char *column, const char *text)
{
    attune_tuning_db *from;
    changed_import change = {.column = column, .text = text};
    assert_ok(attune_tuning_open(path, 0, &from));
    assert_ok(attune_tuning_open(to, 1, &change.to));
    assert_ok(attune_tuning_visit(from, ATTUNE_TUNING_MEASUREMENTS, import_changed, &change));
    attune_tuning_close(change.to);
    attune_tuning_close(from);
    return change;
}

static void another_device_or_build_is_a_miss(void **user)
{
    (void)user;
    static const char *const columns[] = {"backend",      "device",    "platform",
                                          "device_class", "driver",    "compute_units",
                                          "version",      "text_hash", "compiler"};
    char usual[96], other[96], kernel[96], copy[160];
    kernels_of(8, usual, other);
    make_database(8, usual, other);
    snprintf(copy, sizeof copy, "%s/copy.db", folder);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        unlink(copy);
        const changed_import change = copy_changed(copy, columns[i], "77");
        assert_int_equal(change.added, 2);
        attune_context *const context = open_cpu(copy);
        plan_of(context, 8, NULL, kernel);
        if (strcmp(kernel, usual) != 0) fail_msg("another %s is no miss", columns[i]);
        attune_context_close(context);
    }
    unlink(copy);
    assert_int_equal(copy_changed(copy, NULL, NULL).added, 2);
    assert_int_equal(copy_changed(copy, NULL, NULL).added, 0); /* what is there stays */
    attune_context *const context = open_cpu(copy);
    plan_of(context, 8, NULL, kernel);
    assert_string_equal(kernel, other);
    attune_context_close(context);
}

static void rows_that_nobody_measured_are_refused(void **user)
{
    (void)user;
    static const struct {
        const char *column, *text, *part;
    } cases[] = {
        {"milliseconds", "-1", "milliseconds is"},
        {"milliseconds", "nan", "milliseconds is"},
        {"milliseconds", "0", "no measurement"},
        {"rung", "-1", "no measurement"},
        {"rung", "1.5", "rung is"},
        {"samples", "", "samples is"},
        {"kernel", "", "no measurement"},
        {"problem", "op=forward", "problem string"},
        {"run", "short", "no measurement"},
        {"device", "two\nlines", "device is no single"},
        {"compute_units", NULL, "compute_units is"},
        {"kernel", NULL, "no measurement"},
    };
    char copy[160];
    make_database(8, "usual", "other");
    snprintf(copy, sizeof copy, "%s/copy.db", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unlink(copy);
        const changed_import change = copy_changed(copy, cases[i].column, cases[i].text);
        assert_int_equal(change.rows, 1);
        if (change.added != 0 || strstr(attune_error_detail(), cases[i].part) == NULL)
            fail_msg("%s=%s: %s", cases[i].column, cases[i].text, attune_error_detail());
    }
    attune_tuning_db *db;
    int32_t added;
    assert_ok(attune_tuning_open(copy, 1, &db));
    assert_fails(attune_tuning_import_json(db, "{", &added), ATTUNE_INVALID_ARGUMENT, "JSON");
    assert_fails(attune_tuning_import_json(db, "[1]", &added), ATTUNE_INVALID_ARGUMENT, "JSON");
    assert_fails(attune_tuning_import_json(db, "{}", &added), ATTUNE_INVALID_ARGUMENT, "missing");
    attune_tuning_close(db);
}

/* ---- files that are something else ---- */

/* The plan is the built-in one, and the reason has `part`. */
static void assert_ignored(const char *part)
{
    char usual[96], other[96], kernel[96];
    kernels_of(8, usual, other);
    attune_context *const context = open_cpu(path);
    const attune_tuning_state *state;
    plan_of(context, 8, NULL, kernel);
    assert_string_equal(kernel, usual);
    assert_ok(attune_context_tuning(context, &state));
    if (strstr(state->reason, part) == NULL || strstr(state->reason, path) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", state->reason, part);
    attune_context_close(context);
}

static void overwrite(long at, const void *bytes, size_t count)
{
    FILE *const file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* The numbers' places in a database's header: sqlite.org/fileformat2.html, section 1.3. */
static void foreign_files_are_named_and_left_alone(void **user)
{
    (void)user;
    char usual[96], other[96];
    attune_tuning_db *db;
    kernels_of(8, usual, other);

    FILE *const file = fopen(path, "w");
    fputs("these are the notes of somebody who had no database in mind, and they are longer than a "
          "header of a hundred bytes\n",
          file);
    fclose(file);
    assert_ignored("no database of Attune");
    assert_fails(attune_tuning_open(path, 1, &db), ATTUNE_FILE_ERROR, "no database of Attune");
    unlink(path);

    make_database(8, usual, other);
    overwrite(68, "\x12\x34\x56\x78", 4);
    assert_ignored("another program");
    assert_fails(attune_tuning_open(path, 1, &db), ATTUNE_FILE_ERROR, "another program");
    unlink(path);

    make_database(8, usual, other);
    overwrite(60, "\0\0\0\x63", 4);
    assert_ignored("version 99");
    assert_fails(attune_tuning_open(path, 1, &db), ATTUNE_FILE_ERROR, "version 99");
    unlink(path);

    make_database(8, usual, other);
    assert_int_equal(truncate(path, 5000), 0);
    assert_ignored("damaged");
    unlink(path);

    assert_int_equal(mkdir(path, 0700), 0);
    assert_ignored("cannot be opened");
    assert_fails(attune_tuning_open(path, 1, &db), ATTUNE_FILE_ERROR, "cannot be opened");
    rmdir(path);
    assert_fails(attune_tuning_open("/proc/none/tuning.db", 1, &db), ATTUNE_FILE_ERROR,
                 "cannot be opened");
    assert_fails(attune_tuning_open("", 1, &db), ATTUNE_INVALID_ARGUMENT, "0 bytes");
}

static void an_older_database_is_brought_up_to_date(void **user)
{
    (void)user;
    sqlite3 *handle;
    attune_tuning_db *db;
    char sql[128];
    assert_ok(attune_tuning_open(path, 1, &db)); /* loads SQLite */
    attune_tuning_close(db);
    unlink(path);
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = 1",
             SCHEMA_APPLICATION);
    assert_int_equal(
        sqlite.open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    assert_int_equal(sqlite.exec(handle, schema_steps[0], NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite.exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite.exec(
            handle,
            "INSERT INTO device VALUES (1, 'cpu', 'old', 'p', 'c', 'd', 2);"
            "INSERT INTO build VALUES (1, '0.0.1', 'h', 'gcc');"
            "INSERT INTO run VALUES (1, '0123456789abcdef0123456789abcdef', 1, 1,"
            " 'op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32', '', 'usual', 't', 't');"
            "INSERT INTO measurement VALUES"
            " (1, 1, 'usual', 0, NULL, 1.5, 1.0, 2.0, 1.0, 3, 0.5, '', NULL, NULL, NULL, 't')",
            NULL, NULL, NULL),
        SQLITE_OK);
    sqlite.close_v2(handle);
    assert_ok(attune_tuning_open(path, 0, &db)); /* a reader does it too */
    assert_int_equal(rows_of(db, ATTUNE_TUNING_MEASUREMENTS), 1);
    assert_int_equal(rows_of(db, ATTUNE_TUNING_WINNERS), 1);
    attune_tuning_close(db);
}

/* ---- files that cannot be written ---- */

/* Root may write everywhere, so the test is somebody else. */
static void a_folder_that_cannot_be_written_can_be_read(void **user)
{
    (void)user;
    char usual[96], other[96], kernel[96];
    attune_tuning_db *db;
    kernels_of(8, usual, other);
    make_database(8, usual, other);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    const uid_t me = geteuid();
    if (me == 0) assert_int_equal(seteuid(65534), 0);
    attune_context *const context = open_cpu(path);
    plan_of(context, 8, NULL, kernel);
    attune_context_close(context);
    const attune_status status = attune_tuning_open(path, 1, &db);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", attune_error_detail());
    if (me == 0) assert_int_equal(seteuid(0), 0);
    chmod(folder, 0755);
    assert_string_equal(kernel, other);
    assert_int_equal(status, ATTUNE_FILE_ERROR);
    assert_non_null(strstr(sentence, "readonly"));
}

static void a_full_disk_loses_nothing_that_was_there(void **user)
{
    (void)user;
    attune_tuning_db *db;
    make_database(8, "usual", "other");
    assert_ok(attune_tuning_open(path, 1, &db));
    const int64_t run = begin_run(db, 9, "usual");
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    attune_status status = ATTUNE_OK;
    int rows = 0;
    char kernel[32];
    for (; status == ATTUNE_OK && rows < 5000; rows++) {
        snprintf(kernel, sizeof kernel, "k%d", rows);
        const attune_measurement m = timed(kernel, 0, 1, 1, 1);
        status = attune_tuning_record(db, run, &m);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, ATTUNE_FILE_ERROR);
    assert_non_null(strstr(attune_error_detail(), path));
    attune_tuning_close(db);
    assert_ok(attune_tuning_open(path, 1, &db));
    assert_int_equal(rows_of(db, ATTUNE_TUNING_MEASUREMENTS), 2 + rows - 1);
    attune_tuning_close(db);
}

/* ---- where ---- */

static void the_default_path_follows_the_environment(void **user)
{
    (void)user;
    char text[64];
    setenv("ATTUNE_DB", "/somewhere/own.db", 1);
    assert_int_equal(attune_tuning_path(text, sizeof text), strlen("/somewhere/own.db"));
    assert_string_equal(text, "/somewhere/own.db");
    setenv("ATTUNE_DB", "off", 1);
    assert_int_equal(attune_tuning_path(text, sizeof text), 0);
    assert_string_equal(text, "");
    unsetenv("ATTUNE_DB");
    setenv("XDG_DATA_HOME", "/data", 1);
    setenv("HOME", "/home/me", 1);
    attune_tuning_path(text, sizeof text);
    assert_string_equal(text, "/data/attune/tuning.db");
    setenv("XDG_DATA_HOME", "relative", 1); /* which its specification says to ignore */
    attune_tuning_path(text, sizeof text);
    assert_string_equal(text, "/home/me/.local/share/attune/tuning.db");
    assert_int_equal(attune_tuning_path(text, 4), strlen("/home/me/.local/share/attune/tuning.db"));
    assert_string_equal(text, "/ho");
    unsetenv("HOME");
    unsetenv("XDG_DATA_HOME");
    assert_int_equal(attune_tuning_path(text, sizeof text), 0);
    setenv("ATTUNE_DB", "off", 1);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(the_default_stays_unless_it_is_clearly_beaten),
        IN_A_FOLDER(the_last_finished_run_decides),
        IN_A_FOLDER(runs_go_on_where_they_ended),
        IN_A_FOLDER(plans_use_what_won),
        IN_A_FOLDER(another_device_or_build_is_a_miss),
        IN_A_FOLDER(rows_that_nobody_measured_are_refused),
        IN_A_FOLDER(foreign_files_are_named_and_left_alone),
        IN_A_FOLDER(an_older_database_is_brought_up_to_date),
        IN_A_FOLDER(a_folder_that_cannot_be_written_can_be_read),
        IN_A_FOLDER(a_full_disk_loses_nothing_that_was_there),
        cmocka_unit_test(the_default_path_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
