/* What the processor can do at most: fused multiply-adds in registers only. */
#ifndef ATTUNE_COMMAND_PEAK_H
#define ATTUNE_COMMAND_PEAK_H

/* Processors that this process may run on. */
int usable_processors(void);

/* GFLOP/s in fp32 of `threads` threads at once with the widest FMA of this processor; 0 where it has none that we know, or for no thread.
 * Takes about
 * 50 ms. */
double peak_fma_gflops(int threads);

#endif
