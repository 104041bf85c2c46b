#include "tune_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"
#include "statistics.h"

extern char **environ;

/* ---- interrupts ---- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void worker_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like another */
}

bool worker_interrupted(void)
{
    return interrupted != 0;
}

/* ---- processes ---- */

static void close_pipes(tune_worker *worker)
{
    close(worker->requests);
    close(worker->answers);
}

/* Ends the process and says how it ended, if by itself. */
static void reap(tune_worker *worker, bool killed)
{
    int status = 0;
    if (killed) kill(worker->process, SIGKILL);
    close_pipes(worker);
    while (waitpid(worker->process, &status, 0) < 0 && errno == EINTR) continue;
    worker->process = 0;
    if (killed) return;
    if (WIFSIGNALED(status))
        snprintf(worker->line, sizeof worker->line, "crashes its process: %s",
                 strsignal(WTERMSIG(status)));
    else
        snprintf(worker->line, sizeof worker->line, "ends its process with status %d",
                 WEXITSTATUS(status));
}

void worker_close(tune_worker *worker)
{
    if (worker->process != 0) reap(worker, true);
}

/* Out of the way of 0 to 3, which a child has other uses for, and not left open there. */
static bool make_pipe(int ends[2])
{
    enum { LOWEST = 4 };
    int made[2];
    if (pipe(made) != 0) return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(made[i], F_DUPFD_CLOEXEC, LOWEST);
        close(made[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0) return true;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
    return false;
}

/* Questions come in at 0 and answers go out at 3, so that nothing a driver prints is taken for one. */
static bool start(tune_worker *worker)
{
    enum { ANSWERS = 3 };
    int in[2], out[2];
    char threads[16], seed[32];
    const options *const o = worker->options;
    snprintf(threads, sizeof threads, "%d", o->threads);
    snprintf(seed, sizeof seed, "%llu", o->seed);
    const char *const arguments[] = {"attune",    "tune-worker",   "--device", o->device,
                                     "--problem", worker->problem, "--seed",   seed,
                                     "--threads", threads,         NULL};
    if (!make_pipe(in)) return false;
    if (!make_pipe(out)) {
        close(in[0]);
        close(in[1]);
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], ANSWERS);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    const int code = posix_spawn(&worker->process, "/proc/self/exe", &actions, NULL,
                                 (char *const *)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    worker->requests = in[1];
    worker->answers = out[0];
    if (code == 0) return true;
    close_pipes(worker);
    worker->process = 0;
    errno = code;
    return false;
}

/* ---- lines ---- */

/* Reads a line into worker->line, without its end. */
static worker_answer read_line(tune_worker *worker, double seconds)
{
    const double end = seconds_now() + seconds;
    for (size_t length = 0;;) {
        const double left = end - seconds_now();
        if (worker_interrupted()) return WORKER_STOPPED;
        if (left <= 0) return WORKER_LATE;
        struct pollfd waited = {.fd = worker->answers, .events = POLLIN};
        const int ready = poll(&waited, 1, left > 0.2 ? 200 : (int)(left * 1000) + 1);
        if (ready <= 0) continue;
        const ssize_t got = read(worker->answers, worker->line + length, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return WORKER_DIED;
        if (worker->line[length] == '\n') {
            worker->line[length] = '\0';
            return WORKER_OK;
        }
        if (length + 2 < sizeof worker->line) length++;
    }
}

static worker_answer read_answer(tune_worker *worker, double seconds)
{
    const worker_answer answer = read_line(worker, seconds);
    if (answer == WORKER_DIED) {
        reap(worker, false);
        return answer;
    }
    if (answer != WORKER_OK) {
        reap(worker, true);
        snprintf(worker->line, sizeof worker->line, WORKER_TOO_LATE " within %.3g s", seconds);
        return answer;
    }
    const bool is_ok = strncmp(worker->line, "ok ", 3) == 0;
    if (is_ok || strncmp(worker->line, "no ", 3) == 0)
        memmove(worker->line, worker->line + 3, strlen(worker->line + 3) + 1);
    return is_ok ? WORKER_OK : WORKER_NO;
}

/* A new worker says "ok ready" when the problem's inputs and the exact answers are made. */
static worker_answer get_ready(tune_worker *worker)
{
    enum { READY_SECONDS = 600 };
    if (!start(worker)) {
        snprintf(worker->line, sizeof worker->line, "no process can be started: %s",
                 strerror(errno));
        return WORKER_NO_WORKER;
    }
    const worker_answer answer = read_answer(worker, READY_SECONDS);
    return answer == WORKER_OK || answer == WORKER_STOPPED || answer == WORKER_DIED
               ? answer
               : WORKER_NO_WORKER;
}

worker_answer worker_ask(tune_worker *worker, double seconds, const char *question)
{
    if (worker->process == 0) {
        worker_answer ready = get_ready(worker);
        if (ready == WORKER_DIED) ready = get_ready(worker); /* no kernel had a part in that */
        if (ready != WORKER_OK) return ready == WORKER_STOPPED ? ready : WORKER_NO_WORKER;
    }
    char line[512];
    const int length = snprintf(line, sizeof line, "%s\n", question);
    if (write(worker->requests, line, (size_t)length) != length) {
        reap(worker, false);
        return WORKER_DIED;
    }
    return read_answer(worker, seconds);
}
