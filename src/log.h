/* What ATTUNE_VERBOSE=1 prints on stderr: the schema once in a process, then a line for every plan
 * made and every run.
 *
 *     attune: schema event problem device kernel milliseconds
 *     attune: plan op=forward,b=2,… cpu forward_f32_d64_vector_q12r12k128n32w16 0.021
 *     attune: run op=forward,b=2,… cpu forward_f32_d64_vector_q12r12k128n32w16 1.234
 *     attune: passed-over op=forward,b=2,… opencl:0 forward_… 310.251 the compiler's first words
 *
 * A run that is logged is timed, so it waits for the device. */
#ifndef ATTUNE_LOG_H
#define ATTUNE_LOG_H

#include "backend.h"

/* `note` is cut at its first line's end; "" for none. */
void log_line(const char *event, const attune_problem *problem, const char *device,
              const char *kernel, double milliseconds, const char *note);

/* What a context found in its database of measurements, once a context that has one:
 *     attune: tuning /home/me/.local/share/attune/tuning.db 12 winners
 *     attune: tuning /tmp/notes.txt is no database of Attune: file is not a database */
void log_tuning(const char *path, int winners, const char *reason);

/* Milliseconds of a clock that only goes forward. */
double clock_milliseconds(void);

#endif
