/* A libnvrtc.so.13 for tests of the backend: what it makes of a text is the text itself, behind a magic word and the architecture. */
#include "fake_nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_cuda.h"
#include "gpu.h"

#define EXPORT __attribute__((visibility("default")))

/* The backend's own declarations, so that its signatures are the ones tested here. */
#define PROTOTYPE(name, member) EXPORT extern __typeof__(*((gpu_compiler *)0)->member) name;
PROTOTYPE(nvrtcVersion, version)
PROTOTYPE(nvrtcCreateProgram, create)
PROTOTYPE(nvrtcCompileProgram, compile)
PROTOTYPE(nvrtcDestroyProgram, destroy)
PROTOTYPE(nvrtcGetProgramLogSize, log_size)
PROTOTYPE(nvrtcGetProgramLog, log)
PROTOTYPE(nvrtcGetCUBINSize, code_size)
PROTOTYPE(nvrtcGetCUBIN, code)
PROTOTYPE(nvrtcGetPTXSize, portable_size)
PROTOTYPE(nvrtcGetPTX, portable)
PROTOTYPE(nvrtcGetErrorString, error_text)
PROTOTYPE(nvrtcGetNumSupportedArchs, architecture_count)
PROTOTYPE(nvrtcGetSupportedArchs, architectures)

/* nvrtcResult */
enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_OPTION = 5, COMPILATION = 6 };

static void reset(void);

EXPORT fake_nvrtc_state fake_nvrtc = {.reset = reset};

static void reset(void)
{
    const int live = fake_nvrtc.live;
    fake_nvrtc = (fake_nvrtc_state){
        .major = 13,
        .minor = 0,
        .architectures = {75, 80, 86, 90, 100},
        .architecture_count = 5,
        .live = live,
        .reset = reset,
    };
}

__attribute__((constructor)) static void start(void)
{
    reset();
}

/* ---- what it knows ---- */

int nvrtcVersion(int *major, int *minor)
{
    *major = fake_nvrtc.major;
    *minor = fake_nvrtc.minor;
    return SUCCESS;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = fake_nvrtc.architecture_count;
    return SUCCESS;
}

int nvrtcGetSupportedArchs(int *architectures)
{
    memcpy(architectures, fake_nvrtc.architectures,
           (size_t)fake_nvrtc.architecture_count * sizeof *architectures);
    return SUCCESS;
}

const char *nvrtcGetErrorString(int code)
{
    return code == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OF_ANOTHER_KIND";
}

/* ---- programs ---- */

typedef struct program {
    char *source;
    char *cubin, *ptx; /* NULL: none was made */
} program;

int nvrtcCreateProgram(void **created, const char *source, const char *name, int headers,
                       const char *const *header_texts, const char *const *header_names)
{
    (void)name, (void)headers, (void)header_texts, (void)header_names;
    if (fake_nvrtc.create_code != SUCCESS) return fake_nvrtc.create_code;
    program *const made = calloc(1, sizeof *made);
    if (made == NULL) return OUT_OF_MEMORY;
    made->source = strdup(source);
    fake_nvrtc.live++;
    *created = made;
    return SUCCESS;
}

int nvrtcDestroyProgram(void **destroyed)
{
    program *const old = *destroyed;
    free(old->source);
    free(old->cubin);
    free(old->ptx);
    free(old);
    *destroyed = NULL;
    fake_nvrtc.live--;
    return SUCCESS;
}

static char *image(const char *magic, const char *architecture, const char *source)
{
    const size_t size = strlen(magic) + strlen(architecture) + strlen(source) + 2;
    char *const text = malloc(size);
    if (text != NULL) snprintf(text, size, "%s%s\n%s", magic, architecture, source);
    return text;
}

static int knows(int architecture)
{
    for (int i = 0; i < fake_nvrtc.architecture_count; i++)
        if (fake_nvrtc.architectures[i] == architecture) return 1;
    return 0;
}

/* Machine code for sm_NN only, as the real one; and not in no time, so that threads may meet here. */
int nvrtcCompileProgram(void *of, int count, const char *const *options)
{
    program *const compiled = of;
    int real = 0, virtual = 0;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    fake_nvrtc.compilations++;
    fake_nvrtc.option_count = count;
    for (int i = 0; i < count; i++) {
        snprintf(fake_nvrtc.options[i], sizeof fake_nvrtc.options[i], "%s", options[i]);
        sscanf(options[i], "--gpu-architecture=sm_%d", &real);
        sscanf(options[i], "--gpu-architecture=compute_%d", &virtual);
    }
    if (!knows(real) && !knows(virtual)) return INVALID_OPTION;
    if (strstr(compiled->source, "#error") != NULL) return COMPILATION;
    if (fake_nvrtc.refused != NULL && strstr(compiled->source, fake_nvrtc.refused) != NULL)
        return COMPILATION;
    char architecture[16];
    snprintf(architecture, sizeof architecture, "%d", real + virtual);
    if (real != 0) compiled->cubin = image(FAKE_CUBIN_MAGIC, architecture, compiled->source);
    compiled->ptx = image(FAKE_PTX_MAGIC, architecture, compiled->source);
    return SUCCESS;
}

static const char build_log[] =
    "kernel.cu(1): warning #1: nothing\n\nkernel.cu(3): error: refused\n  #error\n\n"
    "1 error detected in the compilation of \"kernel.cu\".\n";

int nvrtcGetProgramLogSize(void *of, size_t *bytes)
{
    (void)of;
    *bytes = sizeof build_log;
    return SUCCESS;
}

int nvrtcGetProgramLog(void *of, char *text)
{
    (void)of;
    memcpy(text, build_log, sizeof build_log);
    return SUCCESS;
}

static size_t size_of(const char *image)
{
    return image == NULL ? 0 : strlen(image) + 1;
}

int nvrtcGetCUBINSize(void *of, size_t *bytes)
{
    *bytes = size_of(((program *)of)->cubin);
    return SUCCESS;
}

int nvrtcGetCUBIN(void *of, char *to)
{
    const char *const cubin = ((program *)of)->cubin;
    memcpy(to, cubin, size_of(cubin));
    return SUCCESS;
}

int nvrtcGetPTXSize(void *of, size_t *bytes)
{
    *bytes = size_of(((program *)of)->ptx);
    return SUCCESS;
}

int nvrtcGetPTX(void *of, char *to)
{
    const char *const ptx = ((program *)of)->ptx;
    memcpy(to, ptx, size_of(ptx));
    return SUCCESS;
}
