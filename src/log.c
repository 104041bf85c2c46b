#include "log.h"

#include "problem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void print_schema(void)
{
    fputs("attune: schema event problem device kernel milliseconds\n", stderr);
}

void log_line(const char *event, const attune_problem *problem, const char *device,
              const char *kernel, double milliseconds, const char *note)
{
    static pthread_once_t schema = PTHREAD_ONCE_INIT;
    pthread_once(&schema, print_schema);
    char text[PROBLEM_TEXT_SIZE];
    attune_problem_print(problem, text, sizeof text);
    fprintf(stderr, "attune: %s %s %s %s %.3f%s%.*s\n", event, text, device, kernel, milliseconds,
            note[0] == '\0' ? "" : " ", (int)strcspn(note, "\n"), note);
}

/* A reason that is about the file names it. */
void log_tuning(const char *path, int winners, const char *reason)
{
    if (reason[0] == '\0')
        fprintf(stderr, "attune: tuning %s %d winners\n", path, winners);
    else if (strncmp(reason, path, strlen(path)) == 0)
        fprintf(stderr, "attune: tuning %s\n", reason);
    else
        fprintf(stderr, "attune: tuning %s %s\n", path, reason);
}

double clock_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}
