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

typedef struct npy_output {
    const char *path;
    npy_array array;
} npy_output;

/* Writes files, all or none: each into a temporary one beside its path, and when all are whole they are renamed, so that no partial file is
 * ever seen and a failure leaves what was there. A path that is no regular file (a pipe, a device) is written in place. 0, or EXIT_BAD_INPUT
 * after one sentence. */
int npy_write(const npy_output *outputs, int count);

#endif
