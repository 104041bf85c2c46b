/* An open database of measurements, and what its statements have in common. */
#ifndef ATTUNE_DATABASE_H
#define ATTUNE_DATABASE_H

#include "attune/tuning.h"
#include "backend.h"
#include "sqlite.h"

enum { DATABASE_PATH_SIZE = 4096 };

struct attune_tuning_db {
    sqlite3 *handle;
    char path[DATABASE_PATH_SIZE];
};

/* Records "PATH: WHAT: why" for SQLite's last failure and returns ATTUNE_FILE_ERROR. */
attune_status database_fail(attune_tuning_db *db, const char *what);

/* One statement or several without parameters. */
attune_status database_run(attune_tuning_db *db, const char *sql, const char *what);

/* A statement to be stepped and finalized; NULL with a recorded failure. `values` are its parameters from the first on. */
typedef struct database_value {
    enum { VALUE_NULL, VALUE_TEXT, VALUE_INTEGER, VALUE_REAL } type;
    const char *text;
    int64_t integer;
    double real;
} database_value;

database_value text_value(const char *text); /* NULL: none */
database_value integer_value(int64_t integer);
database_value real_value(double real); /* not finite: none */

sqlite3_stmt *database_prepare(attune_tuning_db *db, const char *sql, const database_value values[],
                               int count);

/* Gives every row of a prepared statement to `take`, until that returns nonzero, and finalizes it. NULL: the failure of preparing it. */
typedef int database_taker(sqlite3_stmt *statement, void *user);
attune_status database_each(attune_tuning_db *db, sqlite3_stmt *statement, database_taker *take,
                            void *user);

/* Runs a statement that gives out no row. */
attune_status database_execute(attune_tuning_db *db, const char *sql, const database_value values[],
                               int count, const char *what);

/* The first column of the first row; `otherwise` where there is no row. */
attune_status database_integer(attune_tuning_db *db, const char *sql, const database_value values[],
                               int count, int64_t otherwise, int64_t *integer);

/* Values of the present row: NULL ("" of a word), NaN or -1 where there is none. A damaged file may hold NULL where its tables say that none is. */
const char *column_word(sqlite3_stmt *statement, int at);
const char *column_text(sqlite3_stmt *statement, int at);
double column_real(sqlite3_stmt *statement, int at);
int64_t column_count(sqlite3_stmt *statement, int at);

/* What a context's measurements are filed under: the columns of the tables device and build, in their order. */
enum { DEVICE_COLUMNS = 6, BUILD_COLUMNS = 3, KEY_COLUMNS = DEVICE_COLUMNS + BUILD_COLUMNS };
void context_key(const attune_context *context, database_value key[KEY_COLUMNS]);

#endif
