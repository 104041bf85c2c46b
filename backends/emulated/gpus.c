#include "gpus.h"

#include "shadow.h"

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": what it says of 9.0. */
#define NVIDIA_GPU                                                                                 \
    .device_class = "nvidia", .features = "nvidia sm_75 sm_80 sm_86 sm_89 sm_90",                  \
    .fast_memory = SHARED_MOST, .warp_bits = 5, .multiprocessor_threads = 2048,                    \
    .instructions = NVIDIA

/* LDS of a work-group: "AMD Instinct MI300 Instruction Set Architecture" and "RDNA3 Instruction Set Architecture", "Local Data Share". Waves of a
 * compute unit: LLVM, AMDGPUBaseInfo.cpp, getMaxWavesPerEU and getEUsPerCU: 8 on each of 4 SIMDs from gfx90a on, 16 on each of 2 of RDNA. */
enum { LDS = 64 * 1024, CDNA_THREADS = 8 * 4 * 64, RDNA_THREADS = 16 * 2 * 32 };
#define AMD_CDNA                                                                                   \
    .device_class = "amd", .fast_memory = LDS, .warp_bits = 6,                                     \
    .multiprocessor_threads = CDNA_THREADS, .instructions = AMD_MFMA, .has_lds = true,             \
    .lds_swizzles_reads = true

/* The arithmetic of WMMA is not published: one rounding an instruction is a guess. */
#define AMD_RDNA                                                                                   \
    .device_class = "amd", .fast_memory = LDS, .warp_bits = 5,                                     \
    .multiprocessor_threads = RDNA_THREADS, .unit = &matrix_unit_exact, .has_lds = true

const gpu gpus[GPUS] = {
    {
        .id = "emulated:nvidia",
        .name = "NVIDIA GPU emulated on the CPU",
        NVIDIA_GPU,
        .unit = &matrix_unit_exact,
    },
    {
        .id = "emulated:nvidia-ampere",
        .name = "NVIDIA GPU emulated on the CPU, sums as on A100",
        NVIDIA_GPU,
        .unit = &matrix_unit_ampere,
    },
    {
        .id = "emulated:nvidia-hopper",
        .name = "NVIDIA GPU emulated on the CPU, sums as on H100",
        NVIDIA_GPU,
        .unit = &matrix_unit_hopper,
    },
    {
        .id = "emulated:amd",
        .name = "AMD GPU emulated on the CPU",
        .features = "amd mfma mfma_subnormals",
        AMD_CDNA,
        .unit = &matrix_unit_exact,
    },
    {
        .id = "emulated:amd-cdna2",
        .name = "AMD GPU emulated on the CPU, sums as on MI200",
        .features = "amd mfma",
        AMD_CDNA,
        .unit = &matrix_unit_cdna2,
    },
    {
        .id = "emulated:amd-cdna3",
        .name = "AMD GPU emulated on the CPU, sums as on MI300",
        .features = "amd mfma mfma_subnormals",
        AMD_CDNA,
        .unit = &matrix_unit_cdna3,
    },
    {
        .id = "emulated:amd-rdna3",
        .name = "AMD GPU emulated on the CPU, RDNA3",
        .features = "amd wmma_rdna3",
        AMD_RDNA,
        .instructions = AMD_WMMA_RDNA3,
        .lds_swizzles_reads = true,
    },
    {
        .id = "emulated:amd-rdna4",
        .name = "AMD GPU emulated on the CPU, RDNA4",
        .features = "amd wmma_rdna4",
        AMD_RDNA,
        .instructions = AMD_WMMA_RDNA4,
    },
};
