/* SQLite 3 by dlopen: the functions that the database of measurements needs, without SQLite's header. Types, numbers and meanings are those of
 * its C interface (sqlite.org/c3ref/intro.html), which promises to keep them. */
#ifndef ATTUNE_SQLITE_H
#define ATTUNE_SQLITE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef void sqlite_destructor(void *text);

#define SQLITE_TRANSIENT ((sqlite_destructor *)(intptr_t)-1) /* SQLite keeps a copy of the text */

enum {
    SQLITE_OK = 0,
    SQLITE_BUSY = 5,
    SQLITE_READONLY = 8,
    SQLITE_IOERR = 10,
    SQLITE_CORRUPT = 11,
    SQLITE_FULL = 13,
    SQLITE_CANTOPEN = 14,
    SQLITE_CONSTRAINT = 19,
    SQLITE_NOTADB = 26,
    SQLITE_ROW = 100,
    SQLITE_DONE = 101,
    SQLITE_PRIMARY_CODE = 0xff, /* of an extended result code */

    SQLITE_OPEN_READONLY = 0x1,
    SQLITE_OPEN_READWRITE = 0x2,
    SQLITE_OPEN_CREATE = 0x4,
    SQLITE_OPEN_URI = 0x40,

    SQLITE_INTEGER = 1,
    SQLITE_FLOAT = 2,
    SQLITE_NULL = 5
};

#define SQLITE_FUNCTIONS(X)                                                                        \
    X(int, open_v2, (const char *path, sqlite3 **db, int flags, const char *vfs))                  \
    X(int, close_v2, (sqlite3 * db))                                                               \
    X(int, busy_timeout, (sqlite3 * db, int milliseconds))                                         \
    X(int, extended_errcode, (sqlite3 * db))                                                       \
    X(const char *, errmsg, (sqlite3 * db))                                                        \
    X(const char *, errstr, (int code))                                                            \
    X(int, changes, (sqlite3 * db))                                                                \
    X(int, exec,                                                                                   \
      (sqlite3 * db, const char *sql, int (*visit)(void *, int, char **, char **), void *user,     \
       char **message))                                                                            \
    X(int, prepare_v2,                                                                             \
      (sqlite3 * db, const char *sql, int bytes, sqlite3_stmt **statement, const char **rest))     \
    X(int, finalize, (sqlite3_stmt * statement))                                                   \
    X(int, step, (sqlite3_stmt * statement))                                                       \
    X(int, bind_double, (sqlite3_stmt * statement, int at, double value))                          \
    X(int, bind_int64, (sqlite3_stmt * statement, int at, int64_t value))                          \
    X(int, bind_null, (sqlite3_stmt * statement, int at))                                          \
    X(int, bind_text,                                                                              \
      (sqlite3_stmt * statement, int at, const char *text, int bytes, sqlite_destructor *destroy)) \
    X(int, column_count, (sqlite3_stmt * statement))                                               \
    X(const char *, column_name, (sqlite3_stmt * statement, int at))                               \
    X(int, column_type, (sqlite3_stmt * statement, int at))                                        \
    X(const unsigned char *, column_text, (sqlite3_stmt * statement, int at))                      \
    X(double, column_double, (sqlite3_stmt * statement, int at))                                   \
    X(int64_t, column_int64, (sqlite3_stmt * statement, int at))

typedef struct sqlite_functions {
#define SQLITE_MEMBER(type, name, parameters) type(*name) parameters;
    SQLITE_FUNCTIONS(SQLITE_MEMBER)
#undef SQLITE_MEMBER
} sqlite_functions;

extern sqlite_functions sqlite;

/* Opens the library, once for all threads; false with a clause that says why it cannot. */
bool sqlite_load(const char **reason);

#endif
