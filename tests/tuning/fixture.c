#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char folder[64], path[128];

int make_folder(void **user)
{
    (void)user;
    strcpy(folder, "/tmp/attune-tuning-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/tuning.db", folder);
    return 0;
}

int remove_folder(void **user)
{
    (void)user;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* ---- a context, a problem, a run ---- */

attune_context *open_cpu(const char *database)
{
    attune_context_options options;
    attune_context *context;
    attune_context_options_init(&options);
    options.tuning_db = database;
    assert_ok(attune_context_open("cpu", &options, &context));
    return context;
}

attune_problem problem_of(int64_t seqlen_q)
{
    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F32, 1, 2, 1, seqlen_q, 100, 64, 64);
    return problem;
}

void plan_of(attune_context *context, int64_t seqlen_q, const attune_plan_options *options,
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

void kernels_of(int64_t seqlen_q, char first[96], char second[96])
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

attune_measurement timed(const char *kernel, int rung, double q1, double median, double q3)
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

int64_t begin_run(attune_tuning_db *db, int64_t seqlen_q, const char *usual)
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

void make_database(int64_t seqlen_q, const char *usual, const char *kernel)
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

static int count_rows(const attune_tuning_value *values, int count, void *user)
{
    (void)values, (void)count;
    ++*(int *)user;
    return 0;
}

int rows_of(attune_tuning_db *db, attune_tuning_table table)
{
    int rows = 0;
    assert_ok(attune_tuning_visit(db, table, count_rows, &rows));
    return rows;
}

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

changed_import copy_changed(const char *to, const char *column, const char *text)
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
