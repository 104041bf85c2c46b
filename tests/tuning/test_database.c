/* White box of src/tuning: databases that are old, foreign, damaged, or not to be written, and rows that are none. */
#include "fixture.h"
#include "tuning/schema.h"
#include "tuning/sqlite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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
        {"problem", "op=forward,b=1,hq=2,hkv=0,sq=8,sk=8,d=8,dtype=f32", "heads_kv"},
        {"run", "short", "no measurement"},
        {"device", "two\nlines", "device is no single"},
        {"compute_units", NULL, "compute_units is"},
        {"kernel", NULL, "kernel is missing"},
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
    assert_int_equal(copy_changed(copy, NULL, NULL).added, 2);
    const changed_import other = copy_changed(copy, "device", "another"); /* the same run */
    assert_int_equal(other.rows, 1);
    assert_non_null(strstr(attune_error_detail(), "is there with another device"));
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

/* Neither a plan nor a writer takes the file, and both say why. It is removed. */
static void assert_refused(const char *part)
{
    attune_tuning_db *db;
    assert_ignored(part);
    assert_fails(attune_tuning_open(path, 1, &db), ATTUNE_FILE_ERROR, part);
    assert_int_equal(remove(path), 0);
}

static void foreign_files_are_named_and_left_alone(void **user)
{
    (void)user;
    /* places in a database's header: sqlite.org/fileformat2.html, section 1.3 */
    enum { APPLICATION_ID = 68, USER_VERSION = 60 };
    static const struct {
        long at;
        const char *bytes, *part;
    } changes[] = {
        {APPLICATION_ID, "\x12\x34\x56\x78", "another program"},
        {USER_VERSION, "\0\0\0\x63", "version 99"},
        {USER_VERSION, "\x80\0\0\2", "damaged"},
    };
    char usual[96], other[96];
    kernels_of(8, usual, other);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        make_database(8, usual, other);
        overwrite(changes[i].at, changes[i].bytes, 4);
        assert_refused(changes[i].part);
    }
    FILE *const file = fopen(path, "w");
    fputs("these are the notes of somebody who had no database in mind, and they are longer than a "
          "header of a hundred bytes\n",
          file);
    fclose(file);
    assert_refused("no database of Attune");
    assert_int_equal(mkfifo(path, 0600), 0); /* which would be waited for */
    assert_refused("no regular file");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("no regular file");
}

/* What a plan cannot read it leaves as it is; a writer may make more of it. */
static void unreadable_databases_are_ignored(void **user)
{
    (void)user;
    char usual[96], other[96];
    attune_tuning_db *db;
    struct stat is;
    kernels_of(8, usual, other);
    make_database(8, usual, other);
    assert_int_equal(truncate(path, 5000), 0);
    assert_ignored("damaged");
    assert_int_equal(truncate(path, 0), 0);
    assert_ignored("is empty");
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_size, 0);
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
    assert_fails(attune_tuning_open(path, 0, &db), ATTUNE_FILE_ERROR, "of version 1");
    assert_ok(attune_tuning_open(path, 1, &db));
    assert_int_equal(rows_of(db, ATTUNE_TUNING_MEASUREMENTS), 1);
    assert_int_equal(rows_of(db, ATTUNE_TUNING_WINNERS), 1);
    attune_tuning_close(db);
}

/* Rows that no tuner writes, in tables that are as they should be: none of them is used, and nothing fails. */
static void damaged_rows_are_no_winners(void **user)
{
    (void)user;
    static const char *const damages[] = {
        "UPDATE run SET problem = 'op=forward,b=1,hq=2,hkv=0,sq=8,sk=100,d=64,dtype=f32'",
        "UPDATE run SET problem = 'op=forward,b=-1,hq=2,hkv=1,sq=8,sk=100,d=64,dtype=f32'",
        "UPDATE run SET problem = ''",
        "DROP VIEW winner; CREATE VIEW winner AS SELECT d.*, b.*, NULL AS problem, NULL AS options,"
        " NULL AS kernel, NULL AS milliseconds, NULL AS default_kernel, NULL AS "
        "default_milliseconds"
        " FROM run AS r JOIN device AS d ON d.id = r.device_id JOIN build AS b ON b.id = "
        "r.build_id",
    };
    char usual[96], other[96], kernel[96];
    kernels_of(8, usual, other);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        sqlite3 *handle;
        make_database(8, usual, other);
        assert_int_equal(sqlite.open_v2(path, &handle, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
        assert_int_equal(sqlite.exec(handle, damages[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite.close_v2(handle);
        attune_context *const context = open_cpu(path);
        plan_of(context, 8, NULL, kernel);
        assert_string_equal(kernel, usual);
        attune_context_close(context);
        unlink(path);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(rows_that_nobody_measured_are_refused),
        IN_A_FOLDER(foreign_files_are_named_and_left_alone),
        IN_A_FOLDER(unreadable_databases_are_ignored),
        IN_A_FOLDER(damaged_rows_are_no_winners),
        IN_A_FOLDER(an_older_database_is_brought_up_to_date),
        IN_A_FOLDER(a_folder_that_cannot_be_written_can_be_read),
        IN_A_FOLDER(a_full_disk_loses_nothing_that_was_there),
        cmocka_unit_test(the_default_path_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
