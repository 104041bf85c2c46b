#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* ---- libraries ---- */

/* Fills the functions of `table` from a library; false where one is missing that is not optional. */
static bool find_symbols(void *library, const char *name, const gpu_symbol *symbols, void *table,
                         char reason[256])
{
    for (; symbols->name != NULL; symbols++) {
        /* POSIX promises that a function's address fits an object pointer */
        void *const found = dlsym(library, symbols->name);
        if (found == NULL && !symbols->optional) {
            snprintf(reason, 256, "%s is too old or broken: it has no %s", name, symbols->name);
            return false;
        }
        memcpy((char *)table + symbols->place, &found, sizeof found);
    }
    return true;
}

/* Keeps the loader's first message; but that of a library which is there, and lacks another, tells more than that one is not there. */
static void keep_message(const char *name, char message[200])
{
    const char *const text = dlerror();
    if (text == NULL) return;
    if (message[0] == '\0' || strncmp(text, name, strlen(name)) != 0)
        snprintf(message, 200, "%s", text);
}

/* The first library that has all functions. Where there is none, the reason tells of the last one that was opened, or is left; the message is
 * the loader's. */
static bool open_first(const char *const *names, const gpu_symbol *symbols, void *table,
                       char reason[256], char message[200])
{
    message[0] = '\0';
    for (; *names != NULL; names++) {
        void *const library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            keep_message(*names, message);
            continue;
        }
        if (find_symbols(library, *names, symbols, table, reason)) return true;
        dlclose(library);
    }
    return false;
}

bool gpu_driver_open(const gpu_vendor *vendor, char reason[256])
{
    char message[200];
    reason[0] = '\0';
    if (open_first(vendor->driver_libraries, vendor->driver_symbols, vendor->driver, reason,
                   message))
        return true;
    if (reason[0] == '\0') snprintf(reason, 256, "no %s driver: %s", vendor->platform, message);
    return false;
}

static bool compiler_open(const gpu_vendor *vendor, char reason[256])
{
    char message[200];
    snprintf(reason, 256, "there is no run-time compiler (%s or an older one)",
             vendor->compiler_libraries[0]);
    return open_first(vendor->compiler_libraries, vendor->compiler_symbols, vendor->compiler,
                      reason, message);
}

bool gpu_compiler_open(const gpu_vendor *vendor, char reason[256])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!vendor->compiler->opened) vendor->compiler->opened = compiler_open(vendor, reason);
    const bool opened = vendor->compiler->opened;
    pthread_mutex_unlock(&lock);
    return opened;
}

/* ---- errors ---- */

void gpu_code_text(const gpu_vendor *vendor, int code, char *text, size_t size)
{
    const char *name = NULL, *meaning = NULL;
    if (vendor->driver->error_name(code, &name) != 0 || name == NULL) name = "an unknown code";
    if (vendor->driver->error_text(code, &meaning) != 0 || meaning == NULL) meaning = "";
    snprintf(text, size, "%s (%d%s%s)", name, code, meaning[0] != '\0' ? ", " : "", meaning);
}

attune_status gpu_status(const gpu_vendor *vendor, int code)
{
    static const attune_status statuses[] = {
        [GPU_FAULT_OTHER] = ATTUNE_DEVICE_ERROR,
        [GPU_FAULT_MEMORY] = ATTUNE_OUT_OF_MEMORY,
        [GPU_FAULT_HANDLE] = ATTUNE_INVALID_ARGUMENT,
        [GPU_FAULT_IMAGE] = ATTUNE_BUILD_FAILED,
    };
    return statuses[vendor->fault(code)];
}

attune_status gpu_fail(const gpu_vendor *vendor, int code, const char *call, const char *what)
{
    char text[256];
    gpu_code_text(vendor, code, text, sizeof text);
    return attune_fail(gpu_status(vendor, code), "%s: %s returned %s", what, call, text);
}
