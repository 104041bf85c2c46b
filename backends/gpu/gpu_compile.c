#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* ---- what a compilation depends on ---- */

bool gpu_compilation_open(gpu_compilation *c, const gpu_device *device,
                          const attune_kernel_row *row, char reason[512])
{
    const gpu_vendor *const vendor = device->vendor;
    char why[256] = "";
    int major = 0, minor = 0;
    *c = (gpu_compilation){.compiler = vendor->compiler, .row = row};
    if (row->body == NULL) {
        snprintf(reason, 512, "this library holds neither its code nor its text");
        return false;
    }
    if (!gpu_compiler_open(vendor, why)) {
        snprintf(reason, 512, "this library holds no code of it for %s, and %s",
                 device->caps.device_class, why);
        return false;
    }
    c->compiler->version(&major, &minor);
    snprintf(c->version, sizeof c->version, "%d.%d", major, minor);
    vendor->architecture_option(device->caps.device_class, c->architecture);
    c->options[c->option_count++] = c->architecture;
    for (const char *const *o = vendor->compile_options; *o != NULL; o++)
        c->options[c->option_count++] = *o;

    char *const defines = attune_kernel_defines(row);
    const size_t size = defines == NULL ? 0 : strlen(defines) + strlen(row->body) + 1;
    c->source = defines == NULL ? NULL : malloc(size);
    if (c->source != NULL) snprintf(c->source, size, "%s%s", defines, row->body);
    free(defines);
    if (c->source == NULL) {
        snprintf(reason, 512, "no memory for its text");
        return false;
    }

    int parts = 0;
    c->key[parts++] = vendor->backend;
    c->key[parts++] = c->version;
    for (int i = 0; i < c->option_count; i++) c->key[parts++] = c->options[i];
    c->key[parts++] = c->source;
    return true;
}

void gpu_compilation_close(gpu_compilation *c)
{
    free(c->source);
}

/* ---- the compiler ---- */

static void log_excerpt(const gpu_compilation *c, void *program, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    if (c->compiler->log_size(program, &length) != 0 || length == 0) return;
    char *const log = calloc(length + 1, 1);
    if (log != NULL && c->compiler->log(program, log) == 0) attune_log_excerpt(log, text, size);
    free(log);
}

typedef int size_function(void *program, size_t *bytes);
typedef int text_function(void *program, char *image);

/* NULL where the compiler has none. */
static void *fetch(void *program, size_function *size_of, text_function *text_of, size_t *size)
{
    *size = 0;
    if (size_of == NULL || size_of(program, size) != 0 || *size == 0) return NULL;
    char *const image = malloc(*size);
    if (image != NULL && text_of(program, image) == 0) return image;
    free(image);
    return NULL;
}

static bool run_compiler(const gpu_compilation *c, gpu_code *code, char reason[512])
{
    const gpu_compiler *const compiler = c->compiler;
    void *program = NULL;
    int result = compiler->create(&program, c->source, c->row->id, 0, NULL, NULL);
    if (result == 0) result = compiler->compile(program, c->option_count, c->options);
    if (result == 0) {
        code->image = fetch(program, compiler->code_size, compiler->code, &code->image_size);
        code->portable =
            fetch(program, compiler->portable_size, compiler->portable, &code->portable_size);
    } else {
        char excerpt[300] = "";
        if (program != NULL) log_excerpt(c, program, excerpt, sizeof excerpt);
        snprintf(reason, 512, "the run-time compiler says %s%s%s", compiler->error_text(result),
                 excerpt[0] != '\0' ? ": " : "", excerpt);
    }
    if (program != NULL) compiler->destroy(&program);
    if (result == 0 && code->image == NULL && code->portable == NULL)
        snprintf(reason, 512, "the run-time compiler gave no code");
    return code->image != NULL || code->portable != NULL;
}

/* ---- with the cache ---- */

bool gpu_compile(const gpu_compilation *c, bool use_cache, gpu_code *code, char reason[512])
{
    *code = (gpu_code){.image = NULL};
    if (use_cache) code->image = attune_cache_read(c->key, &code->image_size);
    code->cached = code->image != NULL;
    return code->cached || run_compiler(c, code, reason);
}

void gpu_code_keep(const gpu_compilation *c, const gpu_code *code)
{
    if (code->image != NULL)
        attune_cache_write(c->key, code->image, code->image_size);
    else
        attune_cache_write(c->key, code->portable, code->portable_size);
}

void gpu_code_free(gpu_code *code)
{
    free(code->image);
    free(code->portable);
}
