/* The text that a kernel's constants stand for. */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

static const char define[] = "#define ";

/* Room for what constants stand for: at most a word more for each line, and an id for each '@'. */
static size_t room_for(const attune_kernel_row *row)
{
    size_t size = strlen(row->constants) + sizeof define + 1;
    for (const char *at = row->constants; *at != '\0'; at++)
        size += *at == '\n' ? sizeof define : *at == '@' ? strlen(row->id) : 0;
    return size;
}

char *attune_kernel_defines(const attune_kernel_row *row)
{
    char *const text = malloc(room_for(row)), *to = text;
    if (text == NULL) return NULL;
    for (const char *line = row->constants; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        const int is_whole = line[0] == '#' || length == 0;
        if (!is_whole) to = strcpy(to, define) + sizeof define - 1;
        for (const char *at = line; at < line + length; at++) {
            if (*at == '@' && !is_whole)
                to = strcpy(to, row->id) + strlen(row->id);
            else
                *to++ = *at;
        }
        *to++ = '\n';
        line += length + (line[length] == '\n');
    }
    *to = '\0';
    return text;
}
