/* A folder of files, one a compiled kernel, shared by processes. A file holds its whole key, so that a name that two keys share, or
 * a file of another version, is a miss; and a checksum, so that a torn or damaged one is. It is written under a name of its own and
 * then renamed, so that nobody sees half of one. Whatever goes wrong costs a compilation and nothing else. */
#include "backend.h"
#include "environment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, LARGEST_FILE = 256 << 20 };

/* ---- where ---- */

/* $ATTUNE_CACHE ("off" for no cache), else the user's folder of caches; false where there is none. */
static bool cache_folder(char folder[PATH_SIZE])
{
    const char *const own = environment("ATTUNE_CACHE"),
                      *const caches = environment("XDG_CACHE_HOME"),
                      *const home = environment("HOME");
    int length = PATH_SIZE;
    if (own != NULL)
        length = strcmp(own, "off") == 0 ? PATH_SIZE : snprintf(folder, PATH_SIZE, "%s", own);
    else if (caches != NULL && caches[0] == '/')
        length = snprintf(folder, PATH_SIZE, "%s/attune", caches);
    else if (home != NULL && home[0] == '/')
        length = snprintf(folder, PATH_SIZE, "%s/.cache/attune", home);
    return length < PATH_SIZE - 64;
}

/* Makes a folder and those above it. */
static bool make_folder(const char *folder)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s", folder);
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/') continue;
        *at = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
        *at = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* ---- what is in a file ---- */

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *const at = data;
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * 0x100000001b3u;
    return h;
}

typedef struct header {
    char magic[8];
    uint64_t key_size, data_size, checksum; /* of the data */
} header;

static const char magic[8] = "ATTUNE1";

static size_t key_size(const char *const key[])
{
    size_t size = 0;
    for (; *key != NULL; key++) size += strlen(*key) + 1;
    return size;
}

static uint64_t key_hash(const char *const key[])
{
    uint64_t h = 0;
    for (; *key != NULL; key++) h = hash(h, *key, strlen(*key) + 1);
    return h;
}

static bool file_path(const char *const key[], char folder[PATH_SIZE], char path[PATH_SIZE + 64])
{
    if (!cache_folder(folder)) return false;
    snprintf(path, PATH_SIZE + 64, "%s/%016llx.kernel", folder, (unsigned long long)key_hash(key));
    return true;
}

/* ---- reading ---- */

static bool has_key(FILE *file, const char *const key[])
{
    char part[4096];
    for (; *key != NULL; key++) {
        const char *rest = *key;
        for (size_t left = strlen(rest) + 1; left > 0;) {
            const size_t bytes = left < sizeof part ? left : sizeof part;
            if (fread(part, 1, bytes, file) != bytes || memcmp(part, rest, bytes) != 0)
                return false;
            rest += bytes;
            left -= bytes;
        }
    }
    return true;
}

static void *read_file(FILE *file, const char *const key[], size_t *bytes)
{
    header h;
    if (fread(&h, sizeof h, 1, file) != 1 || memcmp(h.magic, magic, sizeof magic) != 0 ||
        h.key_size != key_size(key) || h.data_size == 0 || h.data_size > LARGEST_FILE ||
        !has_key(file, key))
        return NULL;
    void *const data = malloc(h.data_size);
    if (data != NULL && fread(data, 1, h.data_size, file) == h.data_size && fgetc(file) == EOF &&
        hash(0, data, h.data_size) == h.checksum) {
        *bytes = h.data_size;
        return data;
    }
    free(data);
    return NULL;
}

void *attune_cache_read(const char *const key[], size_t *bytes)
{
    char folder[PATH_SIZE], path[PATH_SIZE + 64];
    if (!file_path(key, folder, path)) return NULL;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *const file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
    if (file == NULL) {
        if (descriptor >= 0) close(descriptor);
        return NULL;
    }
    void *const data = read_file(file, key, bytes);
    fclose(file);
    return data;
}

/* ---- writing ---- */

static const char draft_prefix[] = "draft-";

/* A process that writes beyond its limit of file sizes is ended by a signal. */
static bool is_within_limit(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur;
}

static bool write_file(FILE *file, const char *const key[], const void *data, size_t bytes)
{
    header h = {.key_size = key_size(key), .data_size = bytes, .checksum = hash(0, data, bytes)};
    memcpy(h.magic, magic, sizeof magic);
    bool good = fwrite(&h, sizeof h, 1, file) == 1;
    for (; *key != NULL && good; key++) good = fwrite(*key, strlen(*key) + 1, 1, file) == 1;
    return good && fwrite(data, bytes, 1, file) == 1;
}

/* What processes left that were killed while they wrote: no other draft is an hour old. */
static void remove_old_drafts(const char *folder)
{
    enum { OLD = 3600 };
    DIR *const entries = opendir(folder);
    if (entries == NULL) return;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[PATH_SIZE + 256];
        struct stat is;
        if (strncmp(entry->d_name, draft_prefix, sizeof draft_prefix - 1) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (lstat(path, &is) == 0 && S_ISREG(is.st_mode) && time(NULL) - is.st_mtime > OLD)
            unlink(path);
    }
    closedir(entries);
}

void attune_cache_write(const char *const key[], const void *data, size_t bytes)
{
    char folder[PATH_SIZE], path[PATH_SIZE + 64], draft[PATH_SIZE + 64];
    if (bytes == 0 || !is_within_limit(sizeof(header) + key_size(key) + bytes)) return;
    if (!file_path(key, folder, path) || !make_folder(folder)) return;
    remove_old_drafts(folder);
    snprintf(draft, sizeof draft, "%s/%sXXXXXX", folder, draft_prefix);
    const int descriptor = mkstemp(draft);
    FILE *const file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (file == NULL) {
        if (descriptor >= 0) {
            close(descriptor);
            unlink(draft);
        }
        return;
    }
    bool good = write_file(file, key, data, bytes);
    good = fclose(file) == 0 && good; /* a full disk may show here only */
    if (!good || rename(draft, path) != 0) unlink(draft);
}
