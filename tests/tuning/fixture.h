/* Databases in a folder of their own, with measurements that were never made. Every function fails the running test where something fails. */
#ifndef ATTUNE_TESTS_TUNING_FIXTURE_H
#define ATTUNE_TESTS_TUNING_FIXTURE_H

#include "attune/device.h"
#include "attune/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define assert_ok(call) assert_string_equal((call) == ATTUNE_OK ? "" : attune_error_detail(), "")

/* The call fails with that status and a sentence that holds `part`. */
#define assert_fails(call, expected, part)                                                         \
    do {                                                                                           \
        assert_int_equal(call, expected);                                                          \
        if (strstr(attune_error_detail(), part) == NULL)                                           \
            fail_msg("\"%s\" lacks \"%s\"", attune_error_detail(), part);                          \
    } while (0)

/* A test with a folder, and the path of a database in it that does not exist yet. */
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
extern char folder[64], path[128];
int make_folder(void **user);
int remove_folder(void **user);

/* The cpu with that database, or "off". */
attune_context *open_cpu(const char *database);
attune_problem problem_of(int64_t seqlen_q);

/* The kernel of a plan; `options` may be NULL. */
void plan_of(attune_context *context, int64_t seqlen_q, const attune_plan_options *options,
             char kernel[96]);

/* The kernel that a plan chooses without measurements, and another that computes the problem. */
void kernels_of(int64_t seqlen_q, char first[96], char second[96]);

attune_measurement timed(const char *kernel, int rung, double q1, double median, double q3);
int64_t begin_run(attune_tuning_db *db, int64_t seqlen_q, const char *usual);

/* Makes `path` a database in which `kernel` has won against `usual` for seqlen_q. */
void make_database(int64_t seqlen_q, const char *usual, const char *kernel);

int rows_of(attune_tuning_db *db, attune_tuning_table table);

/* Rows of `path` into another database, with the text of one column replaced (NULL: none is). */
typedef struct changed_import {
    attune_tuning_db *to;
    const char *column, *text;
    int rows, added; /* how many were tried, until one was refused, and how many were new */
} changed_import;
changed_import copy_changed(const char *to, const char *column, const char *text);

#endif
