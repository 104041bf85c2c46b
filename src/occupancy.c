#include "occupancy.h"

/* cuda_occupancy.h of CUDA 13 (cudaOccRegAllocationGranularity, cudaOccSMemAllocationGranularity, cudaOccSubPartitionsPerMultiprocessor): registers
 * are given to a warp by 256, local memory to a group by 128 bytes (256 before compute capability 8.0), and a multiprocessor has four parts with
 * a quarter of its registers each, between which warps do not move. So have AMD's CDNA, which give registers to a wave by 256 or 512; RDNA has two
 * larger parts and gives by up to 768 (LLVM, AMDGPUBaseInfo.cpp, getEUsPerCU and getVGPRAllocGranule), which this does not tell apart. */
enum { REGISTER_UNIT = 256, MEMORY_UNIT = 128, PARTS = 4 };

/* How many fit that take `each` of `all`; -1 where one of them is not known. */
static int64_t fitting(int64_t all, int64_t each)
{
    return all > 0 && each > 0 ? all / each : -1;
}

static int64_t groups_by_threads(const attune_device_caps *caps, int64_t threads)
{
    const int warp = caps->warp > 0 ? caps->warp : 1;
    return fitting(caps->multiprocessor_threads, ATTUNE_ROUND_UP(threads, warp));
}

static int64_t groups_by_registers(const attune_device_caps *caps, int64_t threads,
                                   int64_t registers)
{
    if (registers < 0 || caps->warp <= 0) return -1;
    const int64_t warps =
        fitting(caps->registers / PARTS, ATTUNE_ROUND_UP(registers * caps->warp, REGISTER_UNIT));
    return warps < 0 ? -1 : PARTS * warps / ATTUNE_CEIL_DIV(threads, caps->warp);
}

static int64_t groups_by_memory(const attune_device_caps *caps, int64_t memory)
{
    if (memory < 0) return -1;
    return fitting((int64_t)caps->multiprocessor_memory,
                   ATTUNE_ROUND_UP(memory + (int64_t)caps->reserved_memory, MEMORY_UNIT));
}

void occupancy_model(const attune_device_caps *caps, attune_kernel_resources *resources)
{
    const int64_t limits[] = {
        groups_by_threads(caps, resources->threads),
        groups_by_registers(caps, resources->threads, resources->registers),
        groups_by_memory(caps, resources->fast_memory),
    };
    int64_t groups = -1;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] >= 0 && (groups < 0 || limits[i] < groups)) groups = limits[i];
    resources->resident_groups = (int32_t)groups;
    resources->resident_warps =
        groups >= 0 && caps->warp > 0
            ? (int32_t)(groups * ATTUNE_CEIL_DIV(resources->threads, caps->warp))
            : -1;
}
