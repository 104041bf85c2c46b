/* Two entries of the disk cache: a small one, and one that no single write or read of stdio's holds. */
#ifndef ATTUNE_TESTS_CUDA_CACHE_ENTRY_H
#define ATTUNE_TESTS_CUDA_CACHE_ENTRY_H

enum { LARGE = 1 << 20 }; /* bytes of the second's data */

void write_data(void);
void write_large(void);
/* 1 for a hit, 0 for a miss; anything but the data to the byte ends the process. */
int read_data(void);
int read_large(void);
int write_and_read(void);
int write_and_read_large(void);

#endif
