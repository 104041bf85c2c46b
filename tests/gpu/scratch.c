#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

char scratch[PATH_MAX];

int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/attune-test-XXXXXX");
    return mkdtemp(scratch) != NULL ? setenv("ATTUNE_CACHE", scratch, 1) : -1;
}

static void remove_tree(const char *folder)
{
    DIR *const listing = opendir(folder);
    if (listing == NULL) return;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[2 * PATH_MAX];
        struct stat about;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode))
            remove_tree(path);
        else
            unlink(path);
    }
    closedir(listing);
    rmdir(folder);
}

int remove_scratch(void **state)
{
    (void)state;
    remove_tree(scratch);
    return 0;
}

int files_in(const char *folder, const char *start, char path[PATH_MAX])
{
    int count = 0;
    DIR *const listing = opendir(folder);
    if (listing == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        if (path != NULL && snprintf(path, PATH_MAX, "%s/%s", folder, entry->d_name) >= PATH_MAX)
            abort();
        count++;
    }
    closedir(listing);
    return count;
}

void only_file(char path[PATH_MAX])
{
    assert_int_equal(files_in(scratch, "", path), 1);
}

/* ---- processes ---- */

/* A failed assertion ends a child, which would go on with the parent's tests otherwise; and nothing of the parent's is flushed twice. */
static pid_t start(int (*body)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child != 0) return child;
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    _exit(body());
}

static int wait_for(pid_t child)
{
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int in_a_process(int (*body)(void))
{
    return wait_for(start(body));
}

int in_processes(int count, int (*body)(void))
{
    pid_t children[64];
    int good = 1;
    for (int i = 0; i < count; i++) children[i] = start(body);
    for (int i = 0; i < count; i++) good &= wait_for(children[i]) == 0;
    return good;
}
