#include "device_list.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct {
    pthread_once_t once;
    int count;
    opencl_entry *entries;
    char reason[256];
} list = {.once = PTHREAD_ONCE_INIT};

/* A property of a device that is one number; 0 where the driver does not answer, which no check below takes for good. */
static cl_ulong device_number(cl_device_id id, cl_uint property)
{
    cl_ulong value =
        0; /* drivers fill 4 or 8 bytes; the host is little endian wherever OpenCL runs */
    return opencl.GetDeviceInfo(id, property, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

/* A property that is a text, cut to fit; "" where the driver does not answer. */
static void device_text(cl_device_id id, cl_uint property, char *text, size_t size)
{
    text[0] = '\0';
    size_t length = 0;
    if (opencl.GetDeviceInfo(id, property, 0, NULL, &length) != CL_SUCCESS || length == 0) return;
    char *const whole = calloc(length + 1, 1);
    if (whole == NULL) return;
    if (opencl.GetDeviceInfo(id, property, length, whole, NULL) == CL_SUCCESS)
        snprintf(text, size, "%s", whole + strspn(whole, " "));
    free(whole);
}

static int has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return 1;
    return 0;
}

static void add_feature(attune_device_caps *caps, const char *word)
{
    const size_t used = strlen(caps->features);
    snprintf(caps->features + used, sizeof caps->features - used, "%s%s", used == 0 ? "" : " ",
             word);
}

__attribute__((format(printf, 2, 3))) static void refuse(attune_device_info *info,
                                                         const char *format, ...)
{
    if (info->reason[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(info->reason, sizeof info->reason, format, arguments);
    va_end(arguments);
}

/* What the kernels need and the full profile of OpenCL 1.2 promises. A fused multiply-add is promised too (specification 1.2,
 * section 7.4: fma is correctly rounded): CL_FP_FMA only says that it is fast, and half of the drivers that have it do not set it. The
 * embedded profile promises less, so there CL_FP_FMA and 64-bit integers are asked for. */
static void check_device(cl_device_id id, attune_device_caps *caps)
{
    attune_device_info *const info = &caps->info;
    char version[128], profile[64];
    int major = 0, minor = 0;
    device_text(id, CL_DEVICE_OPENCL_C_VERSION, version, sizeof version);
    device_text(id, CL_DEVICE_PROFILE, profile, sizeof profile);

    if (!device_number(id, CL_DEVICE_AVAILABLE)) refuse(info, "the driver says it is unavailable");
    if (!device_number(id, CL_DEVICE_COMPILER_AVAILABLE))
        refuse(info, "the driver has no compiler for kernel source");
    if (!device_number(id, CL_DEVICE_ENDIAN_LITTLE)) refuse(info, "it is not little endian");
    if (sscanf(version, "OpenCL C %d.%d", &major, &minor) != 2 || major * 10 + minor < 12)
        refuse(info, "it compiles \"%s\", and OpenCL C 1.2 or later is needed", version);
    if (strcmp(profile, "FULL_PROFILE") != 0 &&
        !(has_word(caps->features, "fma") && has_word(caps->features, "int64")))
        refuse(info, "it has an embedded profile without IEEE fma or 64-bit integers");
}

static void find_features(cl_device_id id, attune_device_caps *caps)
{
    char extensions[8192], profile[64];
    device_text(id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    device_text(id, CL_DEVICE_PROFILE, profile, sizeof profile);
    const cl_ulong fp32 = device_number(id, CL_DEVICE_SINGLE_FP_CONFIG);

    if (strcmp(profile, "FULL_PROFILE") == 0 || has_word(extensions, "cles_khr_int64"))
        add_feature(caps, "int64");
    if (fp32 & CL_FP_FMA) add_feature(caps, "fma");
    if (fp32 & CL_FP_DENORM) add_feature(caps, "denormals");
    if (has_word(extensions, "cl_khr_fp16")) add_feature(caps, "fp16");
    if (device_number(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0) add_feature(caps, "fp64");
}

/* The platform's name, and the short name that its extensions end in where the name does not hold it: PoCL calls itself "Portable
 * Computing Language" and has the suffix "POCL", by which users know it. */
static void name_platform(cl_platform_id platform, char *text, size_t size)
{
    char name[128] = "", suffix[32] = "";
    opencl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    opencl.GetPlatformInfo(platform, CL_PLATFORM_ICD_SUFFIX_KHR, sizeof suffix - 1, suffix, NULL);
    const size_t length = strlen(suffix);
    const char *at = name;
    while (*at != '\0' && strncasecmp(at, suffix, length) != 0) at++;
    if (length > 0 && *at == '\0')
        snprintf(text, size, "%s (%s)", name, suffix);
    else
        snprintf(text, size, "%s", name);
}

/* The device's vendor by its number, which is that of PCI, else the first word of the vendor's name as its driver spells it. */
static void name_vendor(cl_device_id id, char *text, size_t size)
{
    static const struct {
        cl_ulong number;
        const char *name;
    } vendors[] = {{0x10de, "nvidia"}, {0x1002, "amd"},      {0x8086, "intel"},
                   {0x13b5, "arm"},    {0x5143, "qualcomm"}, {0x106b, "apple"}};
    char name[128];
    const cl_ulong number = device_number(id, CL_DEVICE_VENDOR_ID);
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (number == vendors[i].number) {
            snprintf(text, size, "%s", vendors[i].name);
            return;
        }
    device_text(id, CL_DEVICE_VENDOR, name, sizeof name);
    size_t length = 0;
    for (const char *c = name; *c != '\0' && *c != ' ' && length + 1 < size; c++) {
        const char small = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        if ((small >= 'a' && small <= 'z') || (small >= '0' && small <= '9'))
            text[length++] = small;
    }
    text[length] = '\0';
    if (length == 0) snprintf(text, size, "unknown");
}

static void describe(cl_platform_id platform, cl_device_id id, int index, opencl_entry *entry)
{
    const cl_ulong threads = device_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    *entry = (opencl_entry){
        .platform = platform,
        .id = id,
        .caps = {.info = {.backend = "opencl",
                          .compute_units = (int64_t)device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS),
                          .global_memory = (int64_t)device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE),
                          .fast_memory = (int64_t)device_number(id, CL_DEVICE_LOCAL_MEM_SIZE)},
                 .max_threads = threads < 65536 ? (int)threads : 65536,
                 .fast_memory = (size_t)device_number(id, CL_DEVICE_LOCAL_MEM_SIZE),
                 .max_groups = OPENCL_MAX_WORK_ITEMS},
        .max_allocation = (size_t)device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE)};

    attune_device_caps *const caps = &entry->caps;
    snprintf(caps->info.id, sizeof caps->info.id, "opencl:%d", index);
    device_text(id, CL_DEVICE_NAME, caps->info.name, sizeof caps->info.name);
    device_text(id, CL_DRIVER_VERSION, caps->info.driver, sizeof caps->info.driver);
    name_platform(platform, caps->info.platform, sizeof caps->info.platform);
    /* rusticl compiles as for a GPU wherever it runs: the long unrolled text of `vector` takes it minutes. */
    const bool is_rusticl = strncmp(caps->info.platform, "rusticl", 7) == 0;
    const cl_ulong type = device_number(id, CL_DEVICE_TYPE);
    const bool is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0 && !is_rusticl;
    char vendor[24];
    name_vendor(id, vendor, sizeof vendor);
    entry->is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
    snprintf(caps->family, sizeof caps->family, "%s", is_cpu ? "cpu" : "gpu");
    snprintf(caps->device_class, sizeof caps->device_class, "%s-%s", is_cpu ? "cpu" : "gpu",
             vendor);
    /* rusticl of Mesa 22.3 runs work-groups of 1,024 and reports 32 for every kernel, counts local memory twice, and its profiling
     * times enclose the submission only. */
    entry->misreports = is_rusticl && strncmp(caps->info.driver, "22.", 3) == 0;
    find_features(id, caps);
    check_device(id, caps);
}

/* Adds the devices of one platform; one without any, or whose driver fails, adds none. */
static void add_platform(cl_platform_id platform)
{
    cl_uint count = 0;
    if (opencl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS ||
        count == 0)
        return;
    cl_device_id *const ids = calloc(count, sizeof *ids);
    opencl_entry *const entries =
        realloc(list.entries, ((size_t)list.count + count) * sizeof *entries);
    if (entries != NULL) list.entries = entries;
    if (ids != NULL && entries != NULL &&
        opencl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL) == CL_SUCCESS)
        for (cl_uint i = 0; i < count; i++, list.count++)
            describe(platform, ids[i], list.count, &list.entries[list.count]);
    free(ids);
}

static void find_devices(void)
{
    if (!opencl_load(list.reason)) return;

    cl_uint count = 0;
    const cl_int code = opencl.GetPlatformIDs(0, NULL, &count);
    if (code != CL_SUCCESS || count == 0) {
        snprintf(list.reason, sizeof list.reason,
                 "libOpenCL.so.1 is here, but no driver for it is: clGetPlatformIDs gave %s",
                 code != CL_SUCCESS ? opencl_code_name(code) : "none");
        return;
    }
    cl_platform_id *const platforms = calloc(count, sizeof *platforms);
    if (platforms != NULL && opencl.GetPlatformIDs(count, platforms, NULL) == CL_SUCCESS)
        for (cl_uint i = 0; i < count; i++) add_platform(platforms[i]);
    free(platforms);
    if (list.count == 0)
        snprintf(list.reason, sizeof list.reason, "OpenCL has %u platform%s, but no device", count,
                 count == 1 ? "" : "s");
}

int opencl_entry_count(const char **reason)
{
    pthread_once(&list.once, find_devices);
    *reason = list.reason;
    return list.count;
}

const opencl_entry *opencl_entry_get(int index)
{
    const char *reason;
    const int count = opencl_entry_count(&reason);
    return index >= 0 && index < count ? &list.entries[index] : NULL;
}
