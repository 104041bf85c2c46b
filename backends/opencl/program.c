#include "program.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Says OpenCL C 1.2 and nothing about arithmetic: every relaxation is opt-in, and the kernels' bits allow none. */
static const char build_options[] = "-cl-std=CL1.2 -w";

__attribute__((format(printf, 2, 3))) static void refuse(opencl_kernel *kernel, const char *format,
                                                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(kernel->failure, sizeof kernel->failure, format, arguments);
    va_end(arguments);
}

static void refuse_with_log(opencl_kernel *kernel, const opencl_entry *entry, cl_int code)
{
    char excerpt[300] = "";
    size_t size = 0;
    opencl.GetProgramBuildInfo(kernel->program, entry->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *const log = calloc(size + 1, 1);
    if (log != NULL && opencl.GetProgramBuildInfo(kernel->program, entry->id, CL_PROGRAM_BUILD_LOG,
                                                  size, log, NULL) == CL_SUCCESS)
        attune_log_excerpt(log, excerpt, sizeof excerpt);
    free(log);
    refuse(kernel, "the driver's compiler refused kernel %s with %s: %s", kernel->row->id,
           opencl_code_name(code), excerpt[0] != '\0' ? excerpt : "it gave no log");
}

/* A compiler may find that a kernel's registers or local memory allow smaller work-groups than the device's largest. */
static int fits(opencl_kernel *kernel, cl_kernel built, const opencl_entry *entry)
{
    if (entry->misreports) return 1;
    const attune_kernel_row *const row = kernel->row;
    size_t threads = 0;
    cl_ulong used = 0;
    const cl_int code = opencl.GetKernelWorkGroupInfo(built, entry->id, CL_KERNEL_WORK_GROUP_SIZE,
                                                      sizeof threads, &threads, NULL);
    opencl.GetKernelWorkGroupInfo(built, entry->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used,
                                  NULL);
    if (code != CL_SUCCESS)
        refuse(kernel, "clGetKernelWorkGroupInfo returned %s (%d) for kernel %s",
               opencl_code_name(code), (int)code, row->id);
    else if (threads < (size_t)row->threads)
        refuse(kernel, "kernel %s needs work-groups of %d, and as built it runs in %zu at most",
               row->id, row->threads, threads);
    else if (used > entry->caps.fast_memory)
        refuse(kernel,
               "kernel %s uses %llu bytes of local memory as built, and the device has %llu",
               row->id, (unsigned long long)used, (unsigned long long)entry->caps.fast_memory);
    return kernel->failure[0] == '\0';
}

/* NULL after a refusal. */
static cl_kernel create_kernel(opencl_kernel *kernel, const opencl_entry *entry, const char *name)
{
    cl_int code = CL_SUCCESS;
    const cl_kernel created = opencl.CreateKernel(kernel->program, name, &code);
    if (created == NULL || code != CL_SUCCESS) {
        refuse(kernel, "clCreateKernel returned %s (%d) for %s", opencl_code_name(code), (int)code,
               name);
        return NULL;
    }
    if (fits(kernel, created, entry)) return created;
    opencl.ReleaseKernel(created);
    return NULL;
}

static void create_slots(opencl_kernel *kernel, const opencl_entry *entry)
{
    const attune_kernel_row *const row = kernel->row;
    char pack_name[256];
    snprintf(pack_name, sizeof pack_name, "%s_pack", row->id);
    for (int i = 0; i < OPENCL_SLOTS; i++) {
        opencl_slot *const slot = &kernel->slots[i];
        slot->forward = create_kernel(kernel, entry, row->id);
        if (slot->forward == NULL) return;
        if (row->panel != 0 && (slot->pack = create_kernel(kernel, entry, pack_name)) == NULL)
            return;
    }
}

static void build(opencl_kernel *kernel, cl_context context, const opencl_entry *entry)
{
    const attune_kernel_row *const row = kernel->row;
    if (row->body == NULL) {
        refuse(kernel, "kernel %s has no source", row->id);
        return;
    }
    char *const defines = attune_kernel_defines(row);
    if (defines == NULL) {
        refuse(kernel, "no memory for the text of kernel %s", row->id);
        return;
    }
    const char *texts[] = {defines, row->body};
    cl_int code = CL_SUCCESS;
    kernel->program = opencl.CreateProgramWithSource(context, 2, texts, NULL, &code);
    free(defines); /* the program has its copy */
    if (kernel->program == NULL || code != CL_SUCCESS) {
        refuse(kernel, "clCreateProgramWithSource returned %s (%d) for kernel %s",
               opencl_code_name(code), (int)code, row->id);
        return;
    }
    code = opencl.BuildProgram(kernel->program, 1, &entry->id, build_options, NULL, NULL);
    if (code != CL_SUCCESS)
        refuse_with_log(kernel, entry, code);
    else
        create_slots(kernel, entry);
}

static int same_source(const attune_kernel_row *a, const attune_kernel_row *b)
{
    return strcmp(a->id, b->id) == 0 && a->constants == b->constants && a->body == b->body;
}

/* With the mutex held. NULL when memory ran out. */
static opencl_kernel *find_or_build(opencl_programs *programs, cl_context context,
                                    const opencl_entry *entry, const attune_kernel_row *row)
{
    for (opencl_kernel *at = programs->first; at != NULL; at = at->next)
        if (same_source(at->row, row)) return at;

    opencl_kernel *const kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) return NULL;
    kernel->row = row;
    for (int i = 0; i < OPENCL_SLOTS; i++) atomic_flag_clear(&kernel->slots[i].busy);
    build(kernel, context, entry);
    kernel->next = programs->first;
    programs->first = kernel;
    return kernel;
}

attune_status opencl_programs_load(opencl_programs *programs, cl_context context,
                                   const opencl_entry *entry, const attune_kernel_row *row,
                                   opencl_kernel **kernel)
{
    pthread_mutex_lock(&programs->mutex);
    opencl_kernel *const found = find_or_build(programs, context, entry, row);
    pthread_mutex_unlock(&programs->mutex);
    if (found == NULL) return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory to load %s", row->id);
    if (found->failure[0] != '\0') return attune_fail(ATTUNE_BUILD_FAILED, "%s", found->failure);
    *kernel = found;
    return ATTUNE_OK;
}

void opencl_programs_free(opencl_programs *programs)
{
    while (programs->first != NULL) {
        opencl_kernel *const kernel = programs->first;
        programs->first = kernel->next;
        for (int i = 0; i < OPENCL_SLOTS; i++) {
            if (kernel->slots[i].forward != NULL) opencl.ReleaseKernel(kernel->slots[i].forward);
            if (kernel->slots[i].pack != NULL) opencl.ReleaseKernel(kernel->slots[i].pack);
        }
        if (kernel->program != NULL) opencl.ReleaseProgram(kernel->program);
        free(kernel);
    }
}

opencl_slot *opencl_slot_take(opencl_kernel *kernel)
{
    for (;; sched_yield())
        for (int i = 0; i < OPENCL_SLOTS; i++)
            if (!atomic_flag_test_and_set_explicit(&kernel->slots[i].busy, memory_order_acquire))
                return &kernel->slots[i];
}

void opencl_slot_give(opencl_slot *slot)
{
    atomic_flag_clear_explicit(&slot->busy, memory_order_release);
}
