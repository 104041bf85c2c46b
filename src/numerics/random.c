#include "random.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

uint64_t random_stream(uint64_t stream, uint64_t index)
{
    return mixed(mixed(stream + golden) ^ (index * golden));
}

uint64_t random_bits(uint64_t stream, uint64_t index)
{
    return mixed(stream + (index + 1) * golden);
}

double random_uniform(uint64_t stream, uint64_t index)
{
    return (double)(random_bits(stream, index) >> 40) * 0x1p-24;
}

double random_normal(uint64_t stream, uint64_t index)
{
    enum { WORDS = 3, HALVES = 4 };
    int64_t twice_sum = 0;
    for (uint64_t i = 0; i < WORDS; i++) {
        const uint64_t bits = random_bits(stream, index * WORDS + i);
        for (int half = 0; half < HALVES; half++)
            twice_sum += 2 * (int64_t)((bits >> (16 * half)) & 0xffff);
    }
    return (double)(twice_sum - WORDS * HALVES * INT64_C(65535)) * 0x1p-17;
}
