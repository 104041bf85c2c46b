#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_SIZE = 2048 };

static _Thread_local char detail[DETAIL_SIZE];

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *attune_version(void)
{
    return VERSION_TEXT(ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
}

const char *attune_status_name(attune_status status)
{
    switch (status) {
#define NAME_CASE(name, meaning)                                                                   \
    case name:                                                                                     \
        return &#name[sizeof "ATTUNE_" - 1];
        ATTUNE_STATUSES(NAME_CASE)
#undef NAME_CASE
    }
    return "UNKNOWN";
}

const char *attune_error_detail(void)
{
    return detail;
}

/* The arguments may point into the detail that is replaced. */
attune_status attune_fail(attune_status status, const char *format, ...)
{
    char text[DETAIL_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(detail, text, strlen(text) + 1);
    return status;
}

void attune_log_excerpt(const char *log, char *text, size_t size)
{
    const char *from = strstr(log, "error");
    while (from != NULL && from > log && from[-1] != '\n') from--;
    if (from == NULL) from = log + strspn(log, " \t\r\n");
    snprintf(text, size, "%s", from);
    for (char *c = text; *c != '\0'; c++)
        if (strchr("\t\r\n", *c) != NULL) *c = ' ';
    for (size_t length = strlen(text); length > 0 && text[length - 1] == ' ';)
        text[--length] = '\0';
}

attune_status struct_copy(void *to, size_t size, size_t first, const void *from, const char *name)
{
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < size && given != first)
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.struct_size is %zu, which no version has; %s_init sets it to %zu",
                           name, given, name, size);
    for (size_t i = size; i < given; i++)
        if (((const unsigned char *)from)[i] != 0)
            return attune_fail(
                ATTUNE_INVALID_ARGUMENT,
                "%s.struct_size is %zu and byte %zu is set; version %s knows %zu bytes only", name,
                given, i, attune_version(), size);
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &size, sizeof size);
    return ATTUNE_OK;
}
