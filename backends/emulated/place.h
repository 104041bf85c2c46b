/* Where in the source a piece of code is: for reports only. */
#ifndef ATTUNE_EMULATED_PLACE_H
#define ATTUNE_EMULATED_PLACE_H

enum { PLACE_SIZE = 256 };

/* "file.c:412 (dims_load in output_accumulate)" for the instruction before a return address: addr2line is asked. Where it or the line table is
 * missing, the library and the offset in it. `line` is the line where it is known better, since a compiler may have made one call of two, else
 * 0. */
void place_describe(const void *return_address, int line, char text[PLACE_SIZE]);

#endif
