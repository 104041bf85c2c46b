/* Environment variables; those that the library reads are in one table of README.md. */
#ifndef ATTUNE_ENVIRONMENT_H
#define ATTUNE_ENVIRONMENT_H

#include <stddef.h>
#include <stdlib.h>

/* The value; NULL where it is empty too. */
static inline const char *environment(const char *name)
{
    const char *const value = getenv(name);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

#endif
