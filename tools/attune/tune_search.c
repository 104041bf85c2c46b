#include "tune_search.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "statistics.h"
#include "tune_candidates.h"

enum {
    EXHAUSTIVE = 8,     /* so many are all timed to the end */
    LAST = 4,           /* so many halving leaves for the last rung */
    SCREEN_SAMPLES = 3, /* of a candidate at its first timing */
    LAST_SAMPLES = 21,
    LEAST_TURNS =
        7, /* of the last rung, whatever the time: fewer decide nothing (src/tuning/schema.c) */
    LEAST_WARPS =
        4 /* a multiprocessor of either vendor has four schedulers; fewer warps leave some idle */
};

/* What a candidate may cost, in times of the best: beyond it is given up. */
static const double HOPELESS = 2.0;
/* The share of the time that goes into compiling, judging and a first timing. */
static const double SCREENING = 0.6;

typedef struct search {
    const options *options;
    attune_tuning_db *db;
    attune_context *context;
    const attune_problem *problem;
    attune_plan_options plan;
    int64_t run;
    double start, end;
    candidates all;
    tune_worker worker;
    int rung;
    double best; /* milliseconds, of what this search has timed */
    tune_result *result;
} search;

/* ---- progress ---- */

static void show_progress(const search *s, const char *doing, int done, int all)
{
    if (s->options->json || !isatty(STDERR_FILENO)) return;
    enum { WIDTH = 24 };
    const int full = all > 0 ? done * WIDTH / all : 0;
    fprintf(stderr, "\r\033[K  [%.*s%.*s] %s %d of %d", full, "########################",
            WIDTH - full, "                        ", doing, done, all);
    if (isfinite(s->best)) fprintf(stderr, ", best %.4g ms", s->best);
    fflush(stderr);
}

static void clear_progress(const search *s)
{
    if (!s->options->json && isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

/* What the user should see while it goes on: rejections. */
static void tell(const search *s, const candidate *c, const char *what, const char *why)
{
    if (s->options->json) return;
    clear_progress(s);
    printf("  %s %s: %s\n", what, c->id, why);
    fflush(stdout);
}

/* ---- the run ---- */

static attune_status begin_run(search *s)
{
    int32_t resume = s->options->resume;
    attune_status status = attune_tuning_run_begin(s->db, s->context, s->problem, &s->plan,
                                                   s->all.at[0].id, &resume, &s->run);
    s->result->already_tuned = status == ATTUNE_OK && resume == ATTUNE_TUNING_FINISHED;
    if (status == ATTUNE_OK && resume == ATTUNE_TUNING_RESUMED)
        status = candidates_take_known(&s->all, s->db, s->run, &s->result->counts.known, &s->rung);
    /* times of another session were taken in other turns */
    if (status == ATTUNE_OK && resume == ATTUNE_TUNING_RESUMED) s->rung++;
    return status;
}

/* ---- asking the worker ---- */

static worker_answer ask(search *s, candidate *c, double seconds, const char *format, int samples)
{
    char question[256];
    snprintf(question, sizeof question, format, c->id, samples);
    return worker_ask(&s->worker, seconds, question);
}

static attune_status record(search *s, const candidate *c, int rung)
{
    attune_measurement m = c->of;
    m.kernel = c->id;
    m.rung = rung;
    m.bits = c->bits;
    return attune_tuning_record(s->db, s->run, &m);
}

/* Writes down why a candidate cannot win. */
static int give_up(search *s, candidate *c, const char *what, const char *why)
{
    char reason[WORKER_LINE];
    snprintf(reason, sizeof reason, "%s", why);
    tell(s, c, what, reason);
    c->alive = false;
    snprintf(c->reason, sizeof c->reason, "%.255s", reason);
    c->of.invalid = reason;
    const attune_status status = record(s, c, s->rung);
    c->of.invalid = NULL;
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

/* ---- screening ---- */

/* The first candidate that c must agree with and does not; NULL where there is none. */
static const candidate *contradicted(search *s, const candidate *c)
{
    for (const candidate *other = s->all.at; other < s->all.at + s->all.count; other++) {
        if (other == c || !other->alive || other->bits[0] == '\0' ||
            !candidates_must_agree(other, c))
            continue;
        if (strcmp(other->bits, c->bits) != 0) return other;
        s->result->same_bits++;
        return NULL;
    }
    return NULL;
}

static void take_quartiles(candidate *c, int samples)
{
    const quartiles of = quartiles_of(c->times, samples);
    c->of.milliseconds = of.median;
    c->of.milliseconds_q1 = of.lower;
    c->of.milliseconds_q3 = of.upper;
    c->of.milliseconds_min = of.least;
    c->of.samples = samples;
}

/* Adds to c->times from `had` on what the worker's answer lists. */
static int read_times(candidate *c, const char *line, int had)
{
    char *end;
    for (double time; had < WORKER_MOST_SAMPLES; line = end) {
        time = strtod(line, &end);
        if (end == line) break;
        c->times[had++] = time;
    }
    return had;
}

/* What one question may take: --timeout, or, where it is more, ten times what the samples should. */
static double patience(const search *s, int samples)
{
    const double expected = isfinite(s->best) ? 1e-3 * s->best * samples * 10 : 0;
    return fmax(s->options->timeout, expected);
}

typedef enum outcome { GO_ON, NEXT, STOP, BROKEN } outcome;

/* Turns an answer that is not WORKER_OK into what follows from it. */
static outcome no_answer(search *s, candidate *c, worker_answer answer, int *code)
{
    if (answer == WORKER_STOPPED) return STOP;
    if (answer == WORKER_NO_WORKER) {
        *code = fail(EXIT_FAILED, "no kernel of %s can be run: the process for it %s",
                     s->worker.problem, s->worker.line);
        return BROKEN;
    }
    *code = give_up(s, c, "rejected", s->worker.line);
    s->result->counts.rejected++;
    return *code == EXIT_DONE ? NEXT : BROKEN;
}

static outcome prune(search *s, candidate *c, int *code)
{
    char why[128] = "";
    sscanf(s->worker.line, "%" SCNd32 " %" SCNd64 " %" SCNd32, &c->of.registers, &c->of.spill_bytes,
           &c->of.resident_warps);
    if (c == s->all.at) return GO_ON; /* the default is measured in any case */
    if (c->of.spill_bytes > 0)
        snprintf(why, sizeof why, "spills %" PRId64 " bytes of a work-item", c->of.spill_bytes);
    else if (c->of.resident_warps >= 0 && c->of.resident_warps < LEAST_WARPS)
        snprintf(why, sizeof why, "%" PRId32 " warps at once leave schedulers idle",
                 c->of.resident_warps);
    if (why[0] == '\0') return GO_ON;
    s->result->counts.pruned++;
    *code = give_up(s, c, "pruned", why);
    return *code == EXIT_DONE ? NEXT : BROKEN;
}

/* Three times; once where that, or the run that was judged, is hopeless. The first run of a kernel may be slow by itself, so it is given some room. */
static outcome time_first(search *s, candidate *c, int *code)
{
    int samples = 1;
    if (!(c->times[0] > 2.0 * HOPELESS * s->best)) {
        worker_answer answer = ask(s, c, patience(s, 1), "time %s %d", 1);
        if (answer != WORKER_OK) return no_answer(s, c, answer, code);
        samples = read_times(c, s->worker.line, 0);
        if (c->times[0] <= HOPELESS * s->best) {
            answer = ask(s, c, patience(s, SCREEN_SAMPLES - 1), "time %s %d", SCREEN_SAMPLES - 1);
            if (answer != WORKER_OK) return no_answer(s, c, answer, code);
            samples = read_times(c, s->worker.line, samples);
        }
    }
    take_quartiles(c, samples);
    return GO_ON;
}

/* Loads, judges, compares bits and, where times mean something, times a candidate for the first time. */
static outcome screen(search *s, candidate *c, int *code)
{
    worker_answer answer = ask(s, c, s->options->timeout, "load %s", 0);
    if (answer != WORKER_OK) return no_answer(s, c, answer, code);
    outcome next = prune(s, c, code);
    if (next != GO_ON) return next;
    answer = ask(s, c, s->options->timeout, "judge %s", 0);
    if (answer != WORKER_OK) return no_answer(s, c, answer, code);
    sscanf(s->worker.line, "%lf %23s %lf", &c->of.bound_ratio, c->bits, &c->times[0]);
    const candidate *const other = contradicted(s, c);
    if (other) {
        snprintf(s->worker.line, sizeof s->worker.line,
                 "its bits are not those of %s, as is promised", other->id);
        return no_answer(s, c, WORKER_NO, code);
    }
    c->alive = true;
    s->result->counts.judged++;
    if (!s->result->untimed) {
        const outcome timed = time_first(s, c, code);
        if (timed != GO_ON) return timed;
        s->result->counts.timed++;
        if (c->of.milliseconds < s->best) s->best = c->of.milliseconds;
    }
    const attune_status status = record(s, c, s->rung);
    if (status == ATTUNE_OK) return GO_ON;
    *code = fail_status(status);
    return BROKEN;
}

/* Until the share of time for it is over. The default comes first, whatever the time. */
static int screen_all(search *s)
{
    const double end = s->start + (s->result->untimed ? 1.0 : SCREENING) * (s->end - s->start);
    int code = EXIT_DONE;
    for (int i = 0; i < s->all.count; i++) {
        candidate *const c = &s->all.at[i];
        if (c->known) continue;
        if (i > 0 && (seconds_now() > end || s->result->interrupted)) {
            s->result->counts.untried++;
            continue;
        }
        show_progress(s, "screened", i, s->all.count);
        const outcome next = screen(s, c, &code);
        if (next == BROKEN) return code;
        if (next == STOP) {
            s->result->interrupted = true;
            s->result->counts.untried++;
        }
    }
    clear_progress(s);
    return EXIT_DONE;
}

/* ---- halving ---- */

static double least_of(const double *times, int count)
{
    double least = INFINITY;
    for (int i = 0; i < count; i++) least = fmin(least, times[i]);
    return least;
}

/* Keeps the first `kept` of the field, and the default, which every other is measured against. */
static int keep(search *s, candidate **field, int count, int kept)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (i < kept || field[i] == s->all.at)
            field[left++] = field[i];
        else
            field[i]->alive = false;
    }
    return left;
}

/* Times the field in turns, so that what slows the machine slows them all. One that is hopeless after two turns, against the others' least of these
 * turns, drops out: what was seen in quieter moments must not leave nobody. The last rung ends early where its time is over, and not before
 * LEAST_TURNS. */
static int run_rung(search *s, candidate **field, int count, int samples, double end)
{
    int had[TUNE_MOST_CANDIDATES] = {0};
    int code = EXIT_DONE;
    double best = INFINITY;
    s->rung++;
    for (int turn = 0; turn < samples; turn++) {
        if (turn >= LEAST_TURNS && seconds_now() > end) break;
        show_progress(s, "timed: turn", turn, samples);
        for (int i = 0; i < count; i++) {
            candidate *const c = field[i];
            if (!c->alive) continue;
            const worker_answer answer = ask(s, c, patience(s, 1), "time %s %d", 1);
            if (answer != WORKER_OK) {
                const outcome next = no_answer(s, c, answer, &code);
                if (next == BROKEN) return code;
                if (next == STOP) s->result->interrupted = true;
                if (s->result->interrupted) break;
                had[i] = 0; /* what was written down against it stays */
                continue;
            }
            had[i] = read_times(c, s->worker.line, had[i]);
            const double least = least_of(c->times, had[i]);
            best = fmin(best, least);
            s->best = fmin(s->best, best);
            if (turn >= 1 && least > HOPELESS * best && c != s->all.at) c->alive = false;
        }
        if (s->result->interrupted) break;
    }
    clear_progress(s);
    for (int i = 0; i < count; i++) {
        candidate *const c = field[i];
        if (had[i] == 0) continue;
        take_quartiles(c, had[i]);
        const attune_status status = record(s, c, s->rung);
        if (status != ATTUNE_OK) return fail_status(status);
    }
    return EXIT_DONE;
}

/* Of those known from before, or of those screened now: the machine may have been a quieter one then. */
static void drop_hopeless(search *s, bool known)
{
    candidate *const end = s->all.at + s->all.count;
    double best = INFINITY;
    for (const candidate *c = s->all.at; c < end; c++)
        if (c->alive && c->known == known) best = fmin(best, c->of.milliseconds);
    for (candidate *c = s->all.at + 1; c < end; c++) /* but not the default */
        if (c->known == known && c->of.milliseconds > HOPELESS * best) c->alive = false;
}

static int halve(search *s)
{
    candidate **const field = allocate((size_t)s->all.count * sizeof(candidate *));
    int code = EXIT_DONE, samples = SCREEN_SAMPLES;
    drop_hopeless(s, true);
    drop_hopeless(s, false);
    int count = candidates_alive(&s->all, field);
    while (count > EXHAUSTIVE && code == EXIT_DONE && !s->result->interrupted) {
        code = run_rung(s, field, count, samples, s->end);
        samples = samples * 2 < LAST_SAMPLES ? samples * 2 : LAST_SAMPLES;
        count = candidates_alive(&s->all, field);
        const int half = (count + 1) / 2;
        count = keep(s, field, count, half > LAST ? half : LAST);
    }
    /* the default alone has nothing to be measured against; any other must be timed often enough to win, even alone */
    const bool decided = count == 0 || (count == 1 && field[0] == s->all.at);
    if (code == EXIT_DONE && !s->result->interrupted && !decided)
        code = run_rung(s, field, count, LAST_SAMPLES, s->end);
    free(field);
    return code;
}

/* ---- one problem ---- */

static int finish(search *s)
{
    const bool complete = !s->result->interrupted && s->result->counts.untried == 0;
    attune_status status = complete ? attune_tuning_run_finish(s->db, s->run) : ATTUNE_OK;
    if (status == ATTUNE_OK) status = attune_tuning_run_winner(s->db, s->run, &s->result->winner);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

int tune_search(const options *o, attune_tuning_db *db, attune_context *context,
                const attune_problem *problem, double seconds, tune_result *result)
{
    *result = (tune_result){.counts.candidates = 0};
    char text[512];
    attune_problem_print(problem, text, sizeof text);
    const attune_tuning_state *state;
    search s = {.options = o,
                .db = db,
                .context = context,
                .problem = problem,
                .plan = options_of_plan(o),
                .start = seconds_now(),
                .worker = {.options = o, .problem = text},
                .best = INFINITY,
                .result = result};
    s.end = s.start + seconds;
    attune_status status = attune_context_tuning(context, &state);
    if (status == ATTUNE_OK) result->untimed = state->untimed != 0;
    if (status == ATTUNE_OK) status = candidates_find(&s.all, context, problem, &s.plan);
    if (status == ATTUNE_OK) {
        result->counts.candidates = s.all.count;
        result->counts.refused = s.all.refused;
        snprintf(result->default_kernel, sizeof result->default_kernel, "%s", s.all.at[0].id);
        status = begin_run(&s);
    }
    int code = status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
    if (code == EXIT_DONE && !result->already_tuned) {
        code = screen_all(&s);
        if (code == EXIT_DONE && !result->untimed && !result->interrupted) code = halve(&s);
        if (code == EXIT_DONE && !result->interrupted && s.all.at[0].reason[0] != '\0')
            code = fail(EXIT_FAILED, "the default kernel %s cannot be used: it %s", s.all.at[0].id,
                        s.all.at[0].reason);
    }
    worker_close(&s.worker);
    if (code == EXIT_DONE) code = finish(&s);
    free(s.all.at);
    return code;
}
