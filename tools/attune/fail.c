#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int fail(int code, const char *format, ...)
{
    va_list arguments;
    fflush(stdout); /* the sentence comes last where both go to one place */
    va_start(arguments, format);
    fputs("attune: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}

int fail_status(attune_status status)
{
    const int code = status == ATTUNE_NO_DEVICE ? EXIT_NO_DEVICE
                     : status == ATTUNE_INVALID_ARGUMENT || status == ATTUNE_UNSUPPORTED ||
                             status == ATTUNE_FILE_ERROR
                         ? EXIT_BAD_INPUT
                         : EXIT_FAILED;
    return fail(code, "%s", attune_error_detail());
}

void *allocate(size_t bytes)
{
    void *const memory = malloc(bytes > 0 ? bytes : 1);
    if (!memory) exit(fail(EXIT_FAILED, "no memory for %zu bytes", bytes));
    return memory;
}
