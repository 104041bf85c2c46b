/* A folder of a test's own, which ATTUNE_CACHE names, and processes of its own. */
#ifndef ATTUNE_TESTS_GPU_SCRATCH_H
#define ATTUNE_TESTS_GPU_SCRATCH_H

#include <limits.h>

extern char scratch[PATH_MAX];

/* Set-up and tear-down of a test. */
int make_scratch(void **state);
int remove_scratch(void **state);

#define SCRATCH_TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)

/* Files in a folder, whose names start with `start`; `path` (or NULL) becomes that of the last. */
int files_in(const char *folder, const char *start, char path[PATH_MAX]);
/* The only file of the scratch folder. */
void only_file(char path[PATH_MAX]);

/* What `body` returns in a process of its own, 0 to 255; -1 where a signal ended it. */
int in_a_process(int (*body)(void));
/* The same of several at once: whether each returned 0. */
int in_processes(int count, int (*body)(void));

#endif
