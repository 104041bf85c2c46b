#include "npy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

static const char MAGIC[] = "\x93NUMPY";
enum { MAGIC_SIZE = 6, MAX_HEADER = 65536, ALIGNMENT = 64 };

/* ---- the header: a Python dict literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3, 4), } ---- */

typedef struct npy_header {
    char descr[16];
    bool fortran;
    int rank;
    int64_t shape[32];
    unsigned seen; /* one bit for each key */
} npy_header;

static void skip_space(const char **at)
{
    *at += strspn(*at, " \t\n");
}

static bool accept(const char **at, const char *text)
{
    skip_space(at);
    const size_t length = strlen(text);
    if (strncmp(*at, text, length) != 0) return false;
    *at += length;
    return true;
}

/* A quoted string of printable ASCII without escapes. */
static bool parse_string(const char **at, char *text, size_t size)
{
    skip_space(at);
    const char quote = **at;
    if (quote != '\'' && quote != '"') return false;
    const char *const end = strchr(*at + 1, quote);
    if (!end || (size_t)(end - *at - 1) >= size) return false;
    const int length = (int)(end - *at - 1);
    snprintf(text, size, "%.*s", length, *at + 1);
    *at = end + 1;
    for (int i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~') return false;
    return true;
}

static bool parse_shape(const char **at, npy_header *header)
{
    if (!accept(at, "(")) return false;
    while (!accept(at, ")")) {
        skip_space(at);
        char *end;
        errno = 0;
        const long long size = strtoll(*at, &end, 10);
        if (end == *at || **at == '-' || **at == '+' || errno || header->rank == 32) return false;
        header->shape[header->rank++] = size;
        *at = end;
        if (!accept(at, ",")) {
            skip_space(at);
            if (**at != ')') return false;
        }
    }
    return true;
}

static bool parse_entry(const char **at, npy_header *header)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    if (!parse_string(at, key, sizeof key) || !accept(at, ":")) return false;
    unsigned which = 0;
    while (which < 3 && strcmp(key, keys[which]) != 0) which++;
    if (which == 3 || header->seen & 1u << which) return false;
    header->seen |= 1u << which;
    if (which == 0) return parse_string(at, header->descr, sizeof header->descr);
    if (which == 2) return parse_shape(at, header);
    header->fortran = accept(at, "True");
    return header->fortran || accept(at, "False");
}

static bool parse_header(const char *text, npy_header *header)
{
    *header = (npy_header){.seen = 0};
    if (!accept(&text, "{")) return false;
    while (!accept(&text, "}")) {
        if (!parse_entry(&text, header)) return false;
        if (!accept(&text, ",")) {
            skip_space(&text);
            if (*text != '}') return false;
        }
    }
    skip_space(&text);
    return *text == '\0' && header->seen == 7;
}

/* ---- reading ---- */

/* The header's text with a NUL; NULL where the file is no NumPy file. */
static char *read_header(FILE *file)
{
    unsigned char start[MAGIC_SIZE + 2], length[4] = {0};
    if (fread(start, 1, sizeof start, file) != sizeof start) return NULL;
    const int version = start[MAGIC_SIZE];
    if (memcmp(start, MAGIC, MAGIC_SIZE) != 0 || version < 1 || version > 3) return NULL;
    const size_t bytes = version == 1 ? 2 : 4;
    if (fread(length, 1, bytes, file) != bytes) return NULL;
    const size_t size =
        length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    if (size > MAX_HEADER) return NULL;
    char *const text = allocate(size + 1);
    if (fread(text, 1, size, file) != size || memchr(text, '\0', size)) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

/* Bytes of the elements, -1 where the shape exceeds what can be: strides of an empty array must not overflow either. */
static int64_t data_bytes(const npy_array *array)
{
    int64_t bytes = (int64_t)attune_dtype_size(array->dtype);
    bool empty = false;
    for (int i = 0; i < array->rank; i++) {
        const int64_t size = array->shape[i];
        empty |= size == 0;
        if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return -1;
    }
    return empty ? 0 : bytes;
}

static int read_array(FILE *file, const char *path, int rank, npy_array *array)
{
    npy_header header;
    char *const text = read_header(file);
    if (!text) return fail(EXIT_BAD_INPUT, "%s is no NumPy file (.npy)", path);
    const bool parsed = parse_header(text, &header);
    free(text);
    if (!parsed) return fail(EXIT_BAD_INPUT, "%s: the header of the NumPy file is malformed", path);
    if (header.fortran)
        return fail(EXIT_BAD_INPUT,
                    "%s is in Fortran order; C order is needed (numpy.ascontiguousarray)", path);
    if (header.rank != rank)
        return fail(EXIT_BAD_INPUT, "%s has %d dimensions where %d belong", path, header.rank,
                    rank);
    if (strcmp(header.descr, "<f4") == 0)
        array->dtype = ATTUNE_F32;
    else if (strcmp(header.descr, "<f2") == 0)
        array->dtype = ATTUNE_F16;
    else
        return fail(EXIT_BAD_INPUT, "%s holds '%s'; float32 ('<f4') or float16 ('<f2') is needed",
                    path, header.descr);
    array->rank = rank;
    memcpy(array->shape, header.shape, sizeof array->shape);

    const int64_t bytes = data_bytes(array);
    struct stat status;
    if (bytes < 0) return fail(EXIT_BAD_INPUT, "%s: its shape is larger than any memory", path);
    if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode)) {
        const int64_t rest = (int64_t)status.st_size - (int64_t)ftell(file);
        if (rest != bytes)
            return fail(EXIT_BAD_INPUT,
                        "%s holds %lld bytes of elements where its header promises %lld", path,
                        (long long)rest, (long long)bytes);
    }
    array->data = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!array->data)
        return fail(EXIT_BAD_INPUT, "%s: no memory for its %lld bytes", path, (long long)bytes);
    if (fread(array->data, 1, (size_t)bytes, file) != (size_t)bytes || fgetc(file) != EOF) {
        free(array->data);
        array->data = NULL;
        return fail(EXIT_BAD_INPUT,
                    "%s cannot be read whole, or holds more than its header promises", path);
    }
    return EXIT_DONE;
}

int npy_read(const char *path, int rank, npy_array *array)
{
    *array = (npy_array){.data = NULL};
    FILE *const file = fopen(path, "rb");
    if (!file) return fail(EXIT_BAD_INPUT, "%s cannot be opened: %s", path, strerror(errno));
    struct stat status;
    int result;
    if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
        result = fail(EXIT_BAD_INPUT, "%s is a folder", path);
    else
        result = read_array(file, path, rank, array);
    fclose(file);
    return result;
}

/* ---- writing ---- */

/* 0 or errno. */
static int write_array(FILE *file, const npy_array *array)
{
    char text[256];
    size_t length =
        (size_t)snprintf(text, sizeof text, "{'descr': '<f%zu', 'fortran_order': False, 'shape': (",
                         attune_dtype_size(array->dtype));
    for (int i = 0; i < array->rank; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld",
                                   i == 0 ? "" : ", ", (long long)array->shape[i]);
    length += (size_t)snprintf(text + length, sizeof text - length, "), }");
    const size_t start = MAGIC_SIZE + 4,
                 padded = (start + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - start;
    const unsigned char version_and_size[] = {1, 0, padded & 255, (unsigned char)(padded >> 8)};
    const size_t bytes = (size_t)data_bytes(array);
    errno = 0;
    fwrite(MAGIC, 1, MAGIC_SIZE, file);
    fwrite(version_and_size, 1, sizeof version_and_size, file);
    fprintf(file, "%s%*s\n", text, (int)(padded - length - 1), "");
    fwrite(array->data, 1, bytes, file);
    return fflush(file) != 0 || ferror(file) ? (errno != 0 ? errno : EIO) : 0;
}

/* 0 or errno. */
static int write_file(const char *path, const npy_array *array)
{
    FILE *const file = fopen(path, "wb");
    if (!file) return errno;
    const int error = write_array(file, array);
    return fclose(file) != 0 && error == 0 ? errno : error;
}

/* Whether the path is something that a new file must not replace: a pipe, a device. */
static bool is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* The name beside `path` that a file has until it is whole. */
static char *partial_name(const char *path)
{
    const size_t size = strlen(path) + 32;
    char *const name = allocate(size);
    snprintf(name, size, "%s.%ld.partial", path, (long)getpid());
    return name;
}

int npy_write(const npy_output *outputs, int count)
{
    char **const partial = allocate((size_t)count * sizeof *partial);
    int written = 0, error = 0;
    for (; written < count && error == 0; written++) {
        const char *const path = outputs[written].path;
        partial[written] = is_special(path) ? NULL : partial_name(path);
        error = path[0] == '\0' ? ENOENT
                                : write_file(partial[written] ? partial[written] : path,
                                             &outputs[written].array);
    }
    int failed = written - 1;
    for (int i = 0; i < written; i++) {
        if (partial[i] && error == 0 && rename(partial[i], outputs[i].path) != 0) {
            error = errno;
            failed = i;
        }
        if (partial[i] && error != 0) remove(partial[i]);
        free(partial[i]);
    }
    free(partial);
    if (error == 0) return EXIT_DONE;
    return fail(EXIT_BAD_INPUT, "%s cannot be written: %s", outputs[failed].path, strerror(error));
}
