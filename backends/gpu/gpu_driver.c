#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* ---- libraries ---- */

/* Fills the functions of `table` from a library; false where one is missing. */
static bool find_symbols(void *library, const char *name, const gpu_symbol *symbols, void *table,
                         char reason[256])
{
    for (; symbols->name != NULL; symbols++) {
        /* POSIX promises that a function's address fits an object pointer */
        void *const found = dlsym(library, symbols->name);
        if (found == NULL) {
            snprintf(reason, 256, "%s is too old or broken: it has no %s", name, symbols->name);
            return false;
        }
        memcpy((char *)table + symbols->place, &found, sizeof found);
    }
    return true;
}

bool gpu_driver_open(const gpu_vendor *vendor, char reason[256])
{
    void *const library = dlopen(vendor->driver_library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(reason, 256, "no %s driver: %s", vendor->platform, dlerror());
        return false;
    }
    return find_symbols(library, vendor->driver_library, vendor->driver_symbols, vendor->driver,
                        reason);
}

/* The first library that has all functions. */
static bool compiler_open(const gpu_vendor *vendor, char reason[256])
{
    snprintf(reason, 256, "there is no run-time compiler (%s or an older one)",
             vendor->compiler_libraries[0]);
    for (const char *const *name = vendor->compiler_libraries; *name != NULL; name++) {
        void *const library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) continue;
        if (find_symbols(library, *name, vendor->compiler_symbols, vendor->compiler, reason))
            return true;
        dlclose(library);
    }
    return false;
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
