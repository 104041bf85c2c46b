#include "database.h"

#include "../context.h"
#include "../environment.h"
#include "../status.h"
#include "schema.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A writer waits for others; a plan does not wait for long. */
enum { WRITER_MILLISECONDS = 20000, READER_MILLISECONDS = 1000 };

/* ---- where ---- */

size_t attune_tuning_path(char *path, size_t size)
{
    const char *const own = environment("ATTUNE_DB"), *const data = environment("XDG_DATA_HOME"),
                      *const home = environment("HOME");
    int length = 0;
    if (own != NULL)
        length = strcmp(own, "off") == 0 ? 0 : snprintf(path, size, "%s", own);
    else if (data != NULL && data[0] == '/')
        length = snprintf(path, size, "%s/attune/tuning.db", data);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.local/share/attune/tuning.db", home);
    if (length <= 0 && size > 0) path[0] = '\0';
    return length < 0 ? 0 : (size_t)length;
}

/* Makes the folders above a file; what cannot be made shows when the file is opened. */
static void make_folders(const char *file)
{
    char path[DATABASE_PATH_SIZE];
    snprintf(path, sizeof path, "%s", file);
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/') continue;
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}

/* ---- statements ---- */

attune_status database_fail(attune_tuning_db *db, const char *what)
{
    const char *const said = db->handle == NULL ? "no memory" : sqlite.errmsg(db->handle);
    switch (db->handle == NULL ? SQLITE_OK
                               : sqlite.extended_errcode(db->handle) & SQLITE_PRIMARY_CODE) {
    case SQLITE_NOTADB:
        return attune_fail(ATTUNE_FILE_ERROR, "%s is no database of Attune: %s", db->path, said);
    case SQLITE_CORRUPT:
        return attune_fail(ATTUNE_FILE_ERROR, "%s is damaged: %s", db->path, said);
    case SQLITE_FULL:
        return attune_fail(ATTUNE_FILE_ERROR, "%s: %s: the disk is full", db->path, what);
    default:
        return attune_fail(ATTUNE_FILE_ERROR, "%s: %s: %s", db->path, what, said);
    }
}

attune_status database_run(attune_tuning_db *db, const char *sql, const char *what)
{
    return sqlite.exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? ATTUNE_OK
                                                                       : database_fail(db, what);
}

database_value text_value(const char *text)
{
    return (database_value){.type = text == NULL ? VALUE_NULL : VALUE_TEXT, .text = text};
}

database_value integer_value(int64_t integer)
{
    return (database_value){.type = VALUE_INTEGER, .integer = integer};
}

database_value real_value(double real)
{
    return (database_value){.type = isfinite(real) ? VALUE_REAL : VALUE_NULL, .real = real};
}

static int bind(sqlite3_stmt *statement, int at, const database_value *value)
{
    switch (value->type) {
    case VALUE_TEXT:
        return sqlite.bind_text(statement, at, value->text, -1, SQLITE_TRANSIENT);
    case VALUE_INTEGER:
        return sqlite.bind_int64(statement, at, value->integer);
    case VALUE_REAL:
        return sqlite.bind_double(statement, at, value->real);
    default:
        return sqlite.bind_null(statement, at);
    }
}

sqlite3_stmt *database_prepare(attune_tuning_db *db, const char *sql, const database_value values[],
                               int count)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite.prepare_v2(db->handle, sql, -1, &statement, NULL);
    for (int i = 0; i < count && code == SQLITE_OK; i++) code = bind(statement, i + 1, &values[i]);
    if (code == SQLITE_OK) return statement;
    database_fail(db, "a statement");
    sqlite.finalize(statement);
    return NULL;
}

attune_status database_each(attune_tuning_db *db, sqlite3_stmt *statement, database_taker *take,
                            void *user)
{
    if (statement == NULL) return ATTUNE_FILE_ERROR;
    int code;
    while ((code = sqlite.step(statement)) == SQLITE_ROW)
        if (take(statement, user) != 0) break;
    const attune_status status =
        code == SQLITE_ROW || code == SQLITE_DONE ? ATTUNE_OK : database_fail(db, "reading");
    sqlite.finalize(statement);
    return status;
}

attune_status database_execute(attune_tuning_db *db, const char *sql, const database_value values[],
                               int count, const char *what)
{
    sqlite3_stmt *const statement = database_prepare(db, sql, values, count);
    if (statement == NULL) return ATTUNE_FILE_ERROR;
    const int code = sqlite.step(statement);
    const attune_status status = code == SQLITE_DONE ? ATTUNE_OK : database_fail(db, what);
    sqlite.finalize(statement);
    return status;
}

static int take_integer(sqlite3_stmt *statement, void *user)
{
    *(int64_t *)user = sqlite.column_int64(statement, 0);
    return 1;
}

attune_status database_integer(attune_tuning_db *db, const char *sql, const database_value values[],
                               int count, int64_t otherwise, int64_t *integer)
{
    *integer = otherwise;
    return database_each(db, database_prepare(db, sql, values, count), take_integer, integer);
}

const char *column_text(sqlite3_stmt *statement, int at)
{
    return (const char *)sqlite.column_text(statement, at);
}

const char *column_word(sqlite3_stmt *statement, int at)
{
    const char *const text = column_text(statement, at);
    return text == NULL ? "" : text;
}

double column_real(sqlite3_stmt *statement, int at)
{
    return sqlite.column_type(statement, at) == SQLITE_NULL ? NAN
                                                            : sqlite.column_double(statement, at);
}

int64_t column_count(sqlite3_stmt *statement, int at)
{
    return sqlite.column_type(statement, at) == SQLITE_NULL ? -1
                                                            : sqlite.column_int64(statement, at);
}

/* ---- versions ---- */

static attune_status version_of(attune_tuning_db *db, int64_t *version)
{
    int64_t application, tables;
    RETURN_IF_FAILED(
        database_integer(db, "SELECT count(*) FROM sqlite_master", NULL, 0, 0, &tables));
    RETURN_IF_FAILED(database_integer(db, "PRAGMA application_id", NULL, 0, 0, &application));
    RETURN_IF_FAILED(database_integer(db, "PRAGMA user_version", NULL, 0, 0, version));
    if (application != SCHEMA_APPLICATION && (tables != 0 || *version != 0 || application != 0))
        return attune_fail(ATTUNE_FILE_ERROR, "%s is a database of another program", db->path);
    if (*version < 0)
        return attune_fail(ATTUNE_FILE_ERROR, "%s is damaged: its version is %lld", db->path,
                           (long long)*version);
    if (*version > SCHEMA_VERSION)
        return attune_fail(ATTUNE_FILE_ERROR,
                           "%s is a database of version %lld; this library knows versions up to %d",
                           db->path, (long long)*version, SCHEMA_VERSION);
    return ATTUNE_OK;
}

/* Inside a transaction that no other process writes in. */
static attune_status take_steps(attune_tuning_db *db)
{
    int64_t version;
    char pragmas[96];
    RETURN_IF_FAILED(version_of(db, &version));
    for (; version < SCHEMA_VERSION; version++)
        RETURN_IF_FAILED(database_run(db, schema_steps[version], "making its tables"));
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             SCHEMA_APPLICATION, SCHEMA_VERSION);
    return database_run(db, pragmas, "making its tables");
}

static attune_status bring_up_to_date(attune_tuning_db *db)
{
    int64_t version;
    RETURN_IF_FAILED(version_of(db, &version));
    if (version == SCHEMA_VERSION) return ATTUNE_OK;
    RETURN_IF_FAILED(database_run(db, "BEGIN IMMEDIATE", "making its tables"));
    const attune_status status = take_steps(db);
    if (status == ATTUNE_OK) return database_run(db, "COMMIT", "making its tables");
    sqlite.exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* ---- opening ---- */

static int open_handle(attune_tuning_db *db, const char *name, int flags)
{
    sqlite.close_v2(db->handle);
    db->handle = NULL;
    const int code = sqlite.open_v2(name, &db->handle, flags, NULL);
    const bool writes = (flags & SQLITE_OPEN_READWRITE) != 0;
    if (code == SQLITE_OK)
        sqlite.busy_timeout(db->handle, writes ? WRITER_MILLISECONDS : READER_MILLISECONDS);
    return code;
}

/* A write-ahead log lets others read while one writes; where the file system cannot have one, SQLite keeps its journal, which is as safe. While
 * another process does the same, the change is refused at once, and is not needed. */
static attune_status open_writable(attune_tuning_db *db)
{
    if (open_handle(db, db->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) != SQLITE_OK)
        return database_fail(db, "it cannot be opened");
    int64_t version;
    RETURN_IF_FAILED(version_of(db, &version));
    sqlite.exec(db->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    RETURN_IF_FAILED(
        database_run(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", "it is opened"));
    return bring_up_to_date(db);
}

/* "file:PATH?immutable=1", every byte of the path that means something in a URI spelled in hexadecimal. */
static void immutable_name(const char *path, char name[3 * DATABASE_PATH_SIZE + 32])
{
    char *at = name + sprintf(name, "file:");
    for (; *path != '\0'; path++)
        at += strchr("%?#", *path) == NULL ? sprintf(at, "%c", *path)
                                           : sprintf(at, "%%%02X", (unsigned char)*path);
    sprintf(at, "?immutable=1");
}

/* The log of a folder that may not be written cannot be read in the ordinary way: there nobody else writes either. */
static attune_status open_readable(attune_tuning_db *db)
{
    int64_t version;
    int code = open_handle(db, db->path, SQLITE_OPEN_READONLY);
    attune_status status = code == SQLITE_OK ? version_of(db, &version) : ATTUNE_FILE_ERROR;
    if (status != ATTUNE_OK && db->handle != NULL) {
        code = sqlite.extended_errcode(db->handle) & SQLITE_PRIMARY_CODE;
        if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY) {
            static _Thread_local char name[3 * DATABASE_PATH_SIZE + 32];
            immutable_name(db->path, name);
            code = open_handle(db, name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
            status = code == SQLITE_OK ? version_of(db, &version) : ATTUNE_FILE_ERROR;
        }
    }
    if (code != SQLITE_OK) return database_fail(db, "it cannot be opened");
    if (status == ATTUNE_OK && version == 0)
        return attune_fail(ATTUNE_FILE_ERROR, "%s is empty", db->path);
    if (status == ATTUNE_OK && version < SCHEMA_VERSION)
        return attune_fail(ATTUNE_FILE_ERROR,
                           "%s is a database of version %lld; whoever writes to it (attune tune, "
                           "attune db import) makes it one of version %d",
                           db->path, (long long)version, SCHEMA_VERSION);
    return status;
}

/* To open a pipe would wait for its other end, and a device is no database; a file may be missing where it is made. */
static attune_status check_kind(const char *path, bool may_be_missing)
{
    struct stat is;
    if (stat(path, &is) != 0)
        return may_be_missing && errno == ENOENT
                   ? ATTUNE_OK
                   : attune_fail(ATTUNE_FILE_ERROR, "%s cannot be opened: %s", path,
                                 strerror(errno));
    if (S_ISREG(is.st_mode)) return ATTUNE_OK;
    return attune_fail(ATTUNE_FILE_ERROR, "%s cannot be opened: it is no regular file", path);
}

attune_status attune_tuning_open(const char *path, int32_t writable, attune_tuning_db **db)
{
    RETURN_IF_NULL(db);
    *db = NULL;
    RETURN_IF_NULL(path);
    const char *reason;
    if (!sqlite_load(&reason)) return attune_fail(ATTUNE_FILE_ERROR, "%s: %s", path, reason);
    if (path[0] == '\0' || strlen(path) >= DATABASE_PATH_SIZE - 2)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "a path of %zu bytes; 1 to %d are accepted",
                           strlen(path), DATABASE_PATH_SIZE - 3);
    attune_tuning_db *const opened = calloc(1, sizeof *opened);
    if (opened == NULL) return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a database");
    /* to SQLite ":memory:" and "file:…" are no files of that name */
    snprintf(opened->path, sizeof opened->path, "%s%s", path[0] == '/' ? "" : "./", path);
    attune_status status = ATTUNE_OK;
    if (writable != 0) make_folders(opened->path);
    status = check_kind(opened->path, writable != 0);
    if (status == ATTUNE_OK) status = writable != 0 ? open_writable(opened) : open_readable(opened);
    if (status == ATTUNE_OK)
        *db = opened;
    else
        attune_tuning_close(opened);
    return status;
}

void attune_tuning_close(attune_tuning_db *db)
{
    if (db == NULL) return;
    sqlite.close_v2(db->handle);
    free(db);
}

/* ---- keys ---- */

void context_key(const attune_context *context, database_value key[KEY_COLUMNS])
{
    const attune_device_caps *const caps = context->caps;
    const bool is_limited = context->threads > 0 && strcmp(context->backend->name, "cpu") == 0;
    const int64_t units = is_limited ? context->threads : caps->info.compute_units;
    const database_value values[KEY_COLUMNS] = {
        text_value(context->backend->name), text_value(caps->info.name),
        text_value(caps->info.platform),    text_value(caps->device_class),
        text_value(caps->info.driver),      integer_value(units),
        text_value(attune_version()),       text_value(context->backend->table->text_hash),
        text_value(caps->compiler),
    };
    memcpy(key, values, sizeof values);
}
