#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attune/device.h"
#include "commands.h"
#include "database.h"
#include "fail.h"
#include "inputs.h"
#include "json.h"
#include "peak.h"
#include "runner.h"
#include "statistics.h"
#include "tune_search.h"
#include "tune_worker.h"

/* Of a problem where no --budget is given. */
static const double SECONDS_A_PROBLEM = 60;

static void print_json(const char *problem, const attune_device_info *info, const tune_result *r)
{
    const bool timed = r->winner.kernel[0] != '\0';
    json_begin();
    json_text("problem", problem);
    json_text("device", info->id);
    json_text("default_kernel", r->default_kernel);
    json_number("default_milliseconds", r->winner.default_milliseconds);
    json_text("kernel", timed ? r->winner.kernel : NULL);
    json_number("milliseconds", r->winner.milliseconds);
    json_integer("candidates", (uint64_t)r->counts.candidates);
    json_integer("refused", (uint64_t)r->counts.refused);
    json_integer("pruned", (uint64_t)r->counts.pruned);
    json_integer("rejected", (uint64_t)r->counts.rejected);
    json_integer("judged", (uint64_t)r->counts.judged);
    json_integer("same_bits", (uint64_t)r->same_bits);
    json_integer("timed", (uint64_t)r->counts.timed);
    json_integer("known", (uint64_t)r->counts.known);
    json_integer("untried", (uint64_t)r->counts.untried);
    json_bool("untimed_device", r->untimed);
    json_bool("already_tuned", r->already_tuned);
    json_bool("interrupted", r->interrupted);
    json_end();
}

static void print_counts(const tune_result *r)
{
    const tune_counts *const n = &r->counts;
    printf("  %d candidate%s: %d right", n->candidates, n->candidates == 1 ? "" : "s", n->judged);
    if (n->rejected > 0) printf(", %d rejected", n->rejected);
    if (n->pruned > 0) printf(", %d pruned", n->pruned);
    if (n->known > 0) printf(", %d known from before", n->known);
    if (n->untried > 0) printf(", %d not tried (--resume goes on)", n->untried);
    if (n->refused > 0) printf("; %d more are ruled out (attune kernels --why)", n->refused);
    putchar('\n');
    if (r->same_bits > 0)
        printf("  the same bits: %d kernel%s against another of their kind, 0 differ\n",
               r->same_bits, r->same_bits == 1 ? "" : "s");
}

static void print_result(const tune_result *r)
{
    const attune_tuning_winner *const w = &r->winner;
    if (r->already_tuned)
        puts("  already tuned");
    else
        print_counts(r);
    if (w->kernel[0] == '\0')
        puts(r->untimed ? "  not timed: times of an emulated device say nothing"
                        : "  nothing was timed");
    else if (strcmp(w->kernel, r->default_kernel) == 0)
        printf("  best: the default, %s, %.4g ms\n", w->kernel, w->milliseconds);
    else if (isfinite(w->default_milliseconds))
        printf("  best: %s, %.4g ms; the default, %s, takes %.4g (%.2f times as long)\n", w->kernel,
               w->milliseconds, r->default_kernel, w->default_milliseconds,
               w->default_milliseconds / w->milliseconds);
    else
        printf("  best: %s, %.4g ms\n", w->kernel, w->milliseconds);
}

static int tune_problem(const options *o, const char *text, attune_tuning_db *db,
                        attune_context *context, const attune_device_info *info, double seconds,
                        bool *interrupted)
{
    attune_problem problem;
    tune_result result;
    char canonical[512];
    int code = problem_read(o, text, false, &problem);
    if (code != EXIT_DONE) return code;
    attune_problem_print(&problem, canonical, sizeof canonical);
    if (!o->json) {
        printf("%s  %s\n", info->id, canonical);
        fflush(stdout);
    }
    code = tune_search(o, db, context, &problem, seconds, &result);
    if (code != EXIT_DONE) return code;
    if (o->json)
        print_json(canonical, info, &result);
    else
        print_result(&result);
    fflush(stdout);
    *interrupted = result.interrupted;
    return EXIT_DONE;
}

/* Every problem gets an even share of the time that is left. */
static int tune_all(const options *o, attune_tuning_db *db, attune_context *context,
                    const attune_device_info *info)
{
    const double end = seconds_now() + o->budget;
    int code = EXIT_DONE;
    bool failed = false, interrupted = false;
    for (int i = 0; i < o->problem_count && code == EXIT_DONE && !interrupted; i++) {
        const double seconds =
            o->budget > 0 ? (end - seconds_now()) / (o->problem_count - i) : SECONDS_A_PROBLEM;
        code = tune_problem(o, o->problems[i], db, context, info, seconds, &interrupted);
        if (code == EXIT_FAILED) { /* of this problem; the next may be another matter */
            failed = true;
            code = EXIT_DONE;
        }
    }
    if (code == EXIT_DONE && interrupted)
        return fail(EXIT_FAILED, "interrupted; what was measured is kept (--resume goes on)");
    return code == EXIT_DONE && failed ? EXIT_FAILED : code;
}

int command_tune(const options *given)
{
    options o = *given;
    attune_tuning_db *db;
    attune_context *context = NULL;
    attune_device_info info;
    if (o.problem_count == 0) return fail(EXIT_BAD_INPUT, "--problem or --problem-file is needed");
    if (o.threads == 0) o.threads = usable_processors();
    attune_problem problem;
    for (int i = 0; i < o.problem_count; i++) {
        const int code = problem_read(&o, o.problems[i], false, &problem);
        if (code != EXIT_DONE) return code;
        if (problem.batch == 0 || problem.seqlen_q == 0 || problem.seqlen_k == 0)
            return fail(EXIT_BAD_INPUT, "problem '%s': nothing to be timed", o.problems[i]);
    }
    attune_status status = open_device(o.device, o.threads, &context, &info);
    if (status != ATTUNE_OK) return fail_status(status);
    o.device = info.id; /* the workers open the very same */
    int code = database_open(&o, true, &db);
    if (code == EXIT_DONE) {
        worker_catch_interrupts();
        code = tune_all(&o, db, context, &info);
        attune_tuning_close(db);
    }
    attune_context_close(context);
    return code;
}
