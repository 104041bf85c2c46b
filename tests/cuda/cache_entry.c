#include "cache_entry.h"

#include <stdlib.h>
#include <string.h>

#include "backend.h"

static const char *const key[] = {"cuda", "13.0", "--option", "text of a kernel", NULL};
static const char data[] = "machine code\0with a NUL in it";

void write_data(void)
{
    attune_cache_write(key, data, sizeof data);
}

int read_data(void)
{
    size_t bytes = 0;
    void *const found = attune_cache_read(key, &bytes);
    if (found == NULL) return 0;
    if (bytes != sizeof data || memcmp(found, data, bytes) != 0) abort();
    free(found);
    return 1;
}

int write_and_read(void)
{
    write_data();
    return read_data();
}

static const char *const large_key[] = {"large", NULL};
static char large[LARGE];

void write_large(void)
{
    memset(large, 'x', sizeof large);
    attune_cache_write(large_key, large, sizeof large);
}

int read_large(void)
{
    size_t bytes = 0;
    void *const found = attune_cache_read(large_key, &bytes);
    if (found == NULL) return 0;
    if (bytes != sizeof large || memcmp(found, large, bytes) != 0) abort();
    free(found);
    return 1;
}

int write_and_read_large(void)
{
    write_large();
    return read_large();
}
