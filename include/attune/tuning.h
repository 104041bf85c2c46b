/* Measured choices: a database of what `attune tune` measured on a device, and what plans make of it.
 *
 * A database is one SQLite file (libsqlite3.so.0 is opened when it is first needed). A context reads it once, when its first plan is made, and keeps
 * what was measured on its own device (backend, name, platform, class, driver, number of compute units, of a processor the threads that were asked for) by its own build (library version, texts of
 * the kernels, compiler): anything else is a miss. A plan then prefers the winner of the nearest measured problem (attune.h, "tuning"). Without a
 * database, or with one that cannot be read, the built-in tables decide; running never measures.
 *
 * Several processes may read and write one database at once: each measurement is a transaction of its own (write-ahead log), so a process that is
 * killed loses none that was recorded. A handle is used by one thread at a time. ATTUNE_FILE_ERROR: a file cannot be opened, read or written, or
 * is no database of Attune; the detail says which, and why.
 */
#ifndef ATTUNE_TUNING_H
#define ATTUNE_TUNING_H

#include "attune/attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a context uses ---- */

/* Made by the library, so it may grow at its end. Lasts as long as the context. */
typedef struct attune_tuning_state {
    const char *path;   /* of the database; "" where the context uses none */
    const char *reason; /* why nothing in it is used; "" where something is */
    int32_t winners;    /* of this device and build */
    int32_t
        untimed; /* 1: times of this device say nothing (emulated), so nothing is tuned by them */
    const char
        *backend; /* these and the next are what measurements of the context are filed under */
    const char *device_class;
    const char *family;    /* the wider class, "" for none */
    const char *text_hash; /* of all texts of the backend's kernels */
    const char *compiler;  /* that made them, "" where the driver does */
} attune_tuning_state;

/* Reads the database unless that is done already. */
ATTUNE_API attune_status attune_context_tuning(attune_context *context,
                                               const attune_tuning_state **state);

/* ---- a database ---- */

typedef struct attune_tuning_db attune_tuning_db;

/* The file that contexts read by default: $ATTUNE_DB, else attune/tuning.db in $XDG_DATA_HOME, else in ~/.local/share. Writes it and its NUL into
 * path[size], cut short if it does not fit; returns the whole length, 0 where there is none ($ATTUNE_DB is "off", or there is no home). */
ATTUNE_API size_t attune_tuning_path(char *path, size_t size);

/* `writable` 1: the file and its folders are made where they are missing, and a database of an older version is brought up to date; 0: read only,
 * so an empty file, or one of an older version, is ATTUNE_FILE_ERROR. Only a regular file will do. */
ATTUNE_API attune_status attune_tuning_open(const char *path, int32_t writable,
                                            attune_tuning_db **db);
ATTUNE_API void attune_tuning_close(attune_tuning_db *db);

/* ---- runs: one problem tuned on one device ---- */

typedef enum attune_tuning_resume {
    ATTUNE_TUNING_NEW,     /* begins a run */
    ATTUNE_TUNING_RESUMED, /* goes on with the last run of the same device, build, problem and options, which was not finished */
    ATTUNE_TUNING_FINISHED /* that run was finished; nothing is begun */
} attune_tuning_resume;

/* `default_kernel` is what a plan uses without measurements. `resume`: in, 1 to look for an earlier run; out, an attune_tuning_resume. `options`
 * may be NULL. */
ATTUNE_API attune_status attune_tuning_run_begin(attune_tuning_db *db, attune_context *context,
                                                 const attune_problem *problem,
                                                 const attune_plan_options *options,
                                                 const char *default_kernel, int32_t *resume,
                                                 int64_t *run);
ATTUNE_API attune_status attune_tuning_run_finish(attune_tuning_db *db, int64_t run);

typedef struct attune_measurement {
    size_t struct_size; /* sizeof(attune_measurement) */
    const char *kernel; /* its id */
    int32_t rung;       /* 0, 1, …: rounds of the search; times of one rung were taken in turns */
    const char *invalid; /* why the kernel must not be used; NULL where it may */
    double milliseconds, milliseconds_q1, milliseconds_q3,
        milliseconds_min; /* median, quartiles, least; NaN where nothing was timed */
    int32_t samples;      /* runs that were timed */
    double bound_ratio;   /* largest error over its bound that the judge saw; NaN: not judged */
    const char *bits;     /* hash of o and lse of the timed problem; "" where there is none */
    int32_t registers;    /* of attune_kernel_resources; -1 unknown, as the next two */
    int64_t spill_bytes;
    int32_t resident_warps;
} attune_measurement;

/* Nothing timed, nothing judged, nothing known. */
ATTUNE_API void attune_measurement_init(attune_measurement *measurement);

/* Committed when it returns. A second measurement of the same run, kernel and rung replaces the first. */
ATTUNE_API attune_status attune_tuning_record(attune_tuning_db *db, int64_t run,
                                              const attune_measurement *measurement);

/* Everything is valid during the call only. Return nonzero to stop. */
typedef int attune_measurement_visitor(const attune_measurement *measurement, void *user);
ATTUNE_API attune_status attune_tuning_run_visit(attune_tuning_db *db, int64_t run,
                                                 attune_measurement_visitor *visitor, void *user);

/* What the run has come to so far. `kernel` is "" where nothing was timed; `default_milliseconds` is NaN where the default was not. */
typedef struct attune_tuning_winner {
    char kernel[96];
    double milliseconds, default_milliseconds;
} attune_tuning_winner;

ATTUNE_API attune_status attune_tuning_run_winner(attune_tuning_db *db, int64_t run,
                                                  attune_tuning_winner *winner);

/* ---- looking, taking out, bringing in ---- */

typedef enum attune_tuning_table {
    ATTUNE_TUNING_MEASUREMENTS, /* every measurement with its run, device and build: what import takes */
    ATTUNE_TUNING_WINNERS /* for each device, build, problem and options: the kernel that won, and the default that it was measured against */
} attune_tuning_table;

/* One value of a row; a number is as SQLite prints it. */
typedef struct attune_tuning_value {
    const char *column;
    const char *text; /* NULL: none */
    int32_t is_number;
} attune_tuning_value;

/* Rows in the order in which they were made; everything is valid during the call only. Return nonzero to stop. */
typedef int attune_tuning_visitor(const attune_tuning_value *values, int count, void *user);
ATTUNE_API attune_status attune_tuning_visit(attune_tuning_db *db, attune_tuning_table table,
                                             attune_tuning_visitor *visitor, void *user);

/* Between begin and end, imports are one transaction: all or, with `keep` 0, nothing. */
ATTUNE_API attune_status attune_tuning_import_begin(attune_tuning_db *db);
ATTUNE_API attune_status attune_tuning_import_end(attune_tuning_db *db, int32_t keep);

/* A row of ATTUNE_TUNING_MEASUREMENTS; one that is there already is left alone. Columns may be in any order; those that may be NULL (finished, invalid,
 * times, bound_ratio and resources) may be missing or "".
 * INVALID_ARGUMENT for a row that no database of Attune could hold. `added` is 1 where it is new. */
ATTUNE_API attune_status attune_tuning_import(attune_tuning_db *db,
                                              const attune_tuning_value *values, int count,
                                              int32_t *added);
/* The same from one JSON object. */
ATTUNE_API attune_status attune_tuning_import_json(attune_tuning_db *db, const char *json,
                                                   int32_t *added);

/* ---- the built-in tables ---- */

/* A line of backends/<x>/tuned.tsv, as it was built in; sorted. Strings last as long as the process. */
typedef struct attune_tuned_line {
    const char *device_class; /* or "*" */
    const char *op, *dtype;
    int32_t head_dim;     /* of the kernel */
    int64_t max_seqlen_q; /* INT64_MAX: any */
    const char *kernel;
} attune_tuned_line;

typedef int attune_tuned_visitor(const attune_tuned_line *line, void *user);
/* Of the backend of that name. INVALID_ARGUMENT where there is none. */
ATTUNE_API attune_status attune_tuned_visit(const char *backend, attune_tuned_visitor *visitor,
                                            void *user);

#ifdef __cplusplus
}
#endif
#endif
