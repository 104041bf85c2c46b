/* The process that runs candidates: one that crashes or hangs costs itself only. The parent asks in lines, the worker answers in lines:
 *
 *     load KERNEL      ok REGISTERS SPILL_BYTES RESIDENT_WARPS       compiles and loads
 *     judge KERNEL     ok BOUND_RATIO BITS MILLISECONDS              tune_judge.h; of the one run of the whole problem
 *     time KERNEL N    ok MILLISECONDS…                              N runs, caches flushed before each
 *
 * or `no REASON`. */
#ifndef ATTUNE_COMMAND_TUNE_WORKER_H
#define ATTUNE_COMMAND_TUNE_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "options.h"

/* What every answer of WORKER_LATE begins with. */
#define WORKER_TOO_LATE "gives no answer"
/* What is said of a process that a person or the system has killed. */
#define WORKER_KILLED "crashes its process: Killed"

enum { WORKER_LINE = 4096, WORKER_MOST_SAMPLES = 64 };

typedef struct tune_worker {
    const options *options; /* device, threads, seed */
    const char *problem;
    pid_t process; /* 0: none runs */
    int requests, answers;
    char line[WORKER_LINE]; /* the last answer, or why there is none */
} tune_worker;

typedef enum worker_answer {
    WORKER_OK,       /* line is what follows "ok " */
    WORKER_NO,       /* line is the reason */
    WORKER_DIED,     /* line says how; the next question starts another process */
    WORKER_LATE,     /* no answer within the time: killed */
    WORKER_STOPPED,  /* the user interrupted: killed */
    WORKER_NO_WORKER /* it cannot be started, or it refuses the problem; line says why */
} worker_answer;

/* `stop` is set by a signal handler. */
worker_answer worker_ask(tune_worker *worker, double seconds, const char *question);
void worker_close(tune_worker *worker);

/* Set when the user interrupts. */
void worker_catch_interrupts(void);
bool worker_interrupted(void);

#endif
