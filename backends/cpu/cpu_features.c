#include "cpu_features.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Not a word of clang 14's __builtin_cpu_supports. Intel SDM volume 1, 14.4: CPUID.1:ECX bit 29,
 * usable where AVX is. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
           (ecx & bit_F16C) != 0;
}

/* The classes are those of the x86-64 psABI, narrowed to the features that kernels use. */
void cpu_features(attune_device_caps *caps)
{
    __builtin_cpu_init();
    const struct {
        const char *word;
        bool v3, has;
    } features[] = {
        {.word = "avx2", .v3 = true, .has = __builtin_cpu_supports("avx2")},
        {.word = "fma", .v3 = true, .has = __builtin_cpu_supports("fma")},
        {.word = "f16c", .v3 = true, .has = has_f16c()},
        {.word = "avx512f", .has = __builtin_cpu_supports("avx512f")},
        {.word = "avx512dq", .has = __builtin_cpu_supports("avx512dq")},
        {.word = "avx512bw", .has = __builtin_cpu_supports("avx512bw")},
        {.word = "avx512vl", .has = __builtin_cpu_supports("avx512vl")},
    };
    bool v3 = true, v4 = true;
    size_t length = 0;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        v4 &= features[i].has;
        v3 &= features[i].has || !features[i].v3;
        if (!features[i].has) continue;
        length += (size_t)snprintf(caps->features + length, sizeof caps->features - length, "%s%s",
                                   length == 0 ? "" : " ", features[i].word);
    }
    strcpy(caps->device_class, v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "x86-64");
}

#elif defined(__aarch64__)

/* Every aarch64 processor has NEON with FMA. */
void cpu_features(attune_device_caps *caps)
{
    strcpy(caps->features, "neon");
    strcpy(caps->device_class, "aarch64");
}

#else

void cpu_features(attune_device_caps *caps)
{
    caps->features[0] = '\0';
    strcpy(caps->device_class, "portable");
}

#endif

/* Linux prints "model name : ..." for x86; other processors have no such line, and then the
 * machine's kind must do. */
void cpu_name(char *name, size_t size)
{
    struct utsname machine;
    snprintf(name, size, "%s", uname(&machine) == 0 ? machine.machine : "cpu");

    FILE *const file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *const value = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) != 0 || value == NULL) continue;
        snprintf(name, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
        break;
    }
    fclose(file);
}
