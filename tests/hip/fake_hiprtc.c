/* A libhiprtc for tests of the backend: what it makes of a text is the text itself, behind a magic word and the architecture. */
#include "fake_hip.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* hiprtcResult */
enum { SUCCESS = 0, INVALID_OPTION = 5, COMPILATION = 6 };

EXPORT fake_hiprtc_state fake_hiprtc;

typedef struct program {
    char *source, *code;
} program;

EXPORT int hiprtcVersion(int *major, int *minor)
{
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

EXPORT const char *hiprtcGetErrorString(int code)
{
    return code == COMPILATION ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR_OF_ANOTHER_KIND";
}

EXPORT int hiprtcCreateProgram(void **created, const char *source, const char *name, int headers,
                               const char *const *header_texts, const char *const *header_names)
{
    (void)name, (void)headers, (void)header_texts, (void)header_names;
    program *const made = calloc(1, sizeof *made);
    made->source = strdup(source);
    *created = made;
    return SUCCESS;
}

EXPORT int hiprtcDestroyProgram(void **destroyed)
{
    program *const old = *destroyed;
    free(old->source);
    free(old->code);
    free(old);
    return SUCCESS;
}

EXPORT int hiprtcCompileProgram(void *of, int count, const char *const *options)
{
    program *const compiled = of;
    char architecture[32] = "";
    fake_hiprtc.compilations++;
    fake_hiprtc.options[0] = '\0';
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(fake_hiprtc.options);
        snprintf(fake_hiprtc.options + length, sizeof fake_hiprtc.options - length, " %s",
                 options[i]);
        sscanf(options[i], "--offload-arch=%31s", architecture);
    }
    if (architecture[0] == '\0') return INVALID_OPTION;
    if (strstr(compiled->source, "#error") != NULL) return COMPILATION;
    const size_t size = strlen(compiled->source) + 100;
    compiled->code = malloc(size);
    snprintf(compiled->code, size, FAKE_CODE_OBJECT "%s\n%s", architecture, compiled->source);
    return SUCCESS;
}

static const char build_log[] = "kernel.hip:3:2: error: refused\n1 error generated.\n";

EXPORT int hiprtcGetProgramLogSize(void *of, size_t *bytes)
{
    (void)of;
    *bytes = sizeof build_log;
    return SUCCESS;
}

EXPORT int hiprtcGetProgramLog(void *of, char *text)
{
    (void)of;
    memcpy(text, build_log, sizeof build_log);
    return SUCCESS;
}

EXPORT int hiprtcGetCodeSize(void *of, size_t *bytes)
{
    *bytes = strlen(((program *)of)->code) + 1;
    return SUCCESS;
}

EXPORT int hiprtcGetCode(void *of, char *to)
{
    const char *const code = ((program *)of)->code;
    memcpy(to, code, strlen(code) + 1);
    return SUCCESS;
}
