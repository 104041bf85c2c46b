/* How the command ends (exit codes of the README) and how it says why. */
#ifndef ATTUNE_COMMAND_FAIL_H
#define ATTUNE_COMMAND_FAIL_H

#include "attune/attune.h"

enum {
    EXIT_DONE = 0,      /* and every check passed */
    EXIT_FAILED = 1,    /* a check failed */
    EXIT_BAD_INPUT = 2, /* bad usage or input */
    EXIT_NO_DEVICE = 3  /* no such device */
};

/* Prints "attune: <sentence>" on stderr and returns `code`. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with the library's own sentence and the code that its status means. */
int fail_status(attune_status status);

/* malloc that ends the process with one sentence where memory is out; 0 bytes give a pointer too. */
void *allocate(size_t bytes);

#endif
