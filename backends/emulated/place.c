#define _GNU_SOURCE /* dladdr */
#include "place.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_FRAMES = 8, NAME_SIZE = 512 };

/* A function, and the place in it, innermost of what was inlined first. */
typedef struct frames {
    char functions[MOST_FRAMES][NAME_SIZE], lines[MOST_FRAMES][NAME_SIZE];
    int count;
} frames;

/* What addr2line prints: a line with the function, a line with file:line, for each frame. */
static void read_frames(FILE *output, frames *found)
{
    while (found->count < MOST_FRAMES) {
        char *const function = found->functions[found->count], *const line =
                                                                   found->lines[found->count];
        if (fgets(function, NAME_SIZE, output) == NULL || fgets(line, NAME_SIZE, output) == NULL)
            break;
        function[strcspn(function, "\n")] = '\0';
        line[strcspn(line, "\n (")] = '\0'; /* " (discriminator 3)" may follow */
        found->count++;
    }
}

static bool ask(const char *file, uintptr_t address, frames *found)
{
    char number[32];
    snprintf(number, sizeof number, "0x%jx", (uintmax_t)address);
    char *const arguments[] = {"addr2line", "-fis", "-e", (char *)(uintptr_t)file, number, NULL};
    int ends[2];
    if (pipe(ends) != 0) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    const bool started =
        posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);

    FILE *const output = started ? fdopen(ends[0], "r") : NULL;
    if (output != NULL) {
        read_frames(output, found);
        fclose(output);
    } else {
        close(ends[0]);
    }
    if (started) waitpid(child, NULL, 0);
    return found->count > 0 && found->lines[0][0] != '?';
}

/* The last function is the kernel itself, which goes without saying; it is the only one where nothing was inlined. */
static void print_frames(const frames *found, int line, char text[PLACE_SIZE])
{
    const char *const at = found->lines[0];
    const int file = (int)strcspn(at, ":");
    size_t length = line > 0 ? (size_t)snprintf(text, PLACE_SIZE, "%.*s:%d (", file, at, line)
                             : (size_t)snprintf(text, PLACE_SIZE, "%s (", at);
    for (int i = 0; (i == 0 || i < found->count - 1) && length < PLACE_SIZE; i++)
        length += (size_t)snprintf(text + length, PLACE_SIZE - length, "%s%s", i == 0 ? "" : " in ",
                                   found->functions[i]);
    if (length < PLACE_SIZE) snprintf(text + length, PLACE_SIZE - length, ")");
}

void place_describe(const void *return_address, int line, char text[PLACE_SIZE])
{
    const void *const instruction = (const char *)return_address - 1;
    Dl_info info;
    if (dladdr(instruction, &info) == 0 || info.dli_fname == NULL) {
        snprintf(text, PLACE_SIZE, "%p", instruction);
        return;
    }
    const unsigned char *const header = info.dli_fbase;
    const bool is_fixed = header[EI_CLASS] == ELFCLASS64
                              ? ((const Elf64_Ehdr *)info.dli_fbase)->e_type == ET_EXEC
                              : ((const Elf32_Ehdr *)info.dli_fbase)->e_type == ET_EXEC;
    const uintptr_t offset = (uintptr_t)instruction - (is_fixed ? 0 : (uintptr_t)info.dli_fbase);
    /* of a program that was found on the PATH only its name is known */
    char program[NAME_SIZE] = "";
    const char *file = info.dli_fname;
    if (access(file, R_OK) != 0 && readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        file = program;
    frames found = {.count = 0};
    if (ask(file, offset, &found)) {
        print_frames(&found, line, text);
        return;
    }
    const char *const slash = strrchr(file, '/');
    snprintf(text, PLACE_SIZE, "%.200s+0x%jx", slash == NULL ? file : slash + 1, (uintmax_t)offset);
}
