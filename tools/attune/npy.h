/* NumPy files (format 1.0 to 3.0 of numpy.lib.format): little-endian float32 and float16 in C order. */
#ifndef ATTUNE_COMMAND_NPY_H
#define ATTUNE_COMMAND_NPY_H

#include "attune/attune.h"

enum { NPY_MAX_RANK = 4 };

typedef struct npy_array {
    attune_dtype dtype; /* ATTUNE_F32 or ATTUNE_F16, as the file stores it */
    int rank;
    int64_t shape[NPY_MAX_RANK];
    void *data; /* free() it */
} npy_array;

/* Reads a file of that rank. 0, or EXIT_BAD_INPUT after one sentence on stderr that names the file. */
int npy_read(const char *path, int rank, npy_array *array);

/* Writes a file: into a temporary one beside it, renamed when it is whole, so that no partial file is ever seen under the name. A path that
 * is no regular file (a pipe, a device) is written in place. */
int npy_write(const char *path, const npy_array *array);

#endif
