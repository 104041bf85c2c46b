/* What wins, and what plans make of it. */
#include "fixture.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what wins ---- */

static attune_measurement twice(const char *kernel, int rung, double q1, double median, double q3)
{
    attune_measurement m = timed(kernel, rung, q1, median, q3);
    m.samples = 2;
    return m;
}

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
        {"timed twice", twice("other", 1, 8.8, 9.0, 9.2), NULL, "usual"},
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
        const bool was_in_turns = cases[i].of.rung == 1 && cases[i].of.samples >= 3;
        assert_string_equal(winner.kernel, cases[i].invalid == NULL && was_in_turns ? "other" : "");
        attune_tuning_close(db);
    }
}

static int take_kernel(const attune_tuning_value *values, int count, void *user)
{
    for (int i = 0; i < count; i++)
        if (strcmp(values[i].column, "kernel") == 0) snprintf(user, 96, "%s", values[i].text);
    return 0;
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
    char kernel[96];
    assert_ok(attune_tuning_visit(db, ATTUNE_TUNING_WINNERS, take_kernel, kernel));
    assert_string_equal(kernel, "new");
    attune_tuning_close(db);
}

/* What was interrupted early, or had too little time, does not displace what was measured longer. */
static void a_run_of_the_default_alone_decides_nothing(void **user)
{
    (void)user;
    attune_tuning_db *db;
    char kernel[96];
    const attune_measurement usual = timed("usual", 1, 9.5, 10.0, 10.5),
                             other = timed("other", 1, 4.5, 5.0, 5.5);
    assert_ok(attune_tuning_open(path, 1, &db));
    const int64_t longer = begin_run(db, 8, "usual"), shorter = begin_run(db, 8, "usual");
    assert_ok(attune_tuning_record(db, longer, &usual));
    assert_ok(attune_tuning_record(db, longer, &other));
    assert_ok(attune_tuning_record(db, shorter, &usual));
    assert_ok(attune_tuning_visit(db, ATTUNE_TUNING_WINNERS, take_kernel, kernel));
    assert_string_equal(kernel, "other");
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
    assert_fails(attune_tuning_run_finish(db, 999), ATTUNE_INVALID_ARGUMENT, "no run 999");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(the_default_stays_unless_it_is_clearly_beaten),
        IN_A_FOLDER(the_last_finished_run_decides),
        IN_A_FOLDER(a_run_of_the_default_alone_decides_nothing),
        IN_A_FOLDER(runs_go_on_where_they_ended),
        IN_A_FOLDER(plans_use_what_won),
        IN_A_FOLDER(another_device_or_build_is_a_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
