/* Random numbers that are pure functions of a stream and a place in it, from integer arithmetic and exact conversions alone, so that every
 * platform gives the same bits. */
#ifndef ATTUNE_NUMERICS_RANDOM_H
#define ATTUNE_NUMERICS_RANDOM_H

#include <stdint.h>

/* The stream of (stream, index): streams of streams number anything. */
uint64_t random_stream(uint64_t stream, uint64_t index);

/* 64 random bits. */
uint64_t random_bits(uint64_t stream, uint64_t index);

/* Uniform in [0, 1), a multiple of 2^-24. */
double random_uniform(uint64_t stream, uint64_t index);

/* N(0,1) but for its tails: twelve uniform numbers of 16 bits less their mean (Irwin-Hall), within ±6; a multiple of 2^-17. */
double random_normal(uint64_t stream, uint64_t index);

#endif
