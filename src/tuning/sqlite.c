#include "sqlite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

sqlite_functions sqlite;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256];

static void load(void)
{
    void *const library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(failure, sizeof failure, "SQLite is missing: %s", dlerror());
        return;
    }
    /* ISO C has no cast from dlsym's object pointer to a function pointer; POSIX promises the same representation. */
#define SQLITE_FIND(type, name, parameters)                                                        \
    do {                                                                                           \
        void *const symbol = dlsym(library, "sqlite3_" #name);                                     \
        if (symbol == NULL)                                                                        \
            snprintf(failure, sizeof failure, "libsqlite3.so.0 has no sqlite3_%s", #name);         \
        memcpy(&sqlite.name, &symbol, sizeof symbol);                                              \
    } while (0);
    SQLITE_FUNCTIONS(SQLITE_FIND)
#undef SQLITE_FIND
}

bool sqlite_load(const char **reason)
{
    pthread_once(&once, load);
    *reason = failure;
    return failure[0] == '\0';
}
