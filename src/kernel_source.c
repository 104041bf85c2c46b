/* The text that a kernel's constants stand for. */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

/* Writes what a line, without its end, stands for to `to`, unless that is NULL; returns its length. */
static size_t define(const char *line, size_t length, const char *id, char *to)
{
    static const char word[] = "#define ";
    const size_t id_length = strlen(id);
    size_t written = 0;
#define PUT(text, count)                                                                           \
    do {                                                                                           \
        if (to != NULL) memcpy(to + written, text, count);                                         \
        written += count;                                                                          \
    } while (0)
    const int is_whole = length > 0 && line[0] == '#';
    if (!is_whole && length > 0) PUT(word, sizeof word - 1);
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '@' && !is_whole)
            PUT(id, id_length);
        else
            PUT(&line[i], 1);
    }
    PUT("\n", 1);
#undef PUT
    return written;
}

static size_t define_all(const attune_kernel_row *row, char *to)
{
    size_t written = 0;
    for (const char *line = row->constants; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        written += define(line, length, row->id, to == NULL ? NULL : to + written);
        line += length + (line[length] == '\n');
    }
    return written;
}

char *attune_kernel_defines(const attune_kernel_row *row)
{
    const size_t size = define_all(row, NULL);
    char *const text = malloc(size + 1);
    if (text == NULL) return NULL;
    define_all(row, text);
    text[size] = '\0';
    return text;
}
