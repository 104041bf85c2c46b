/* backends/<x>/tuned.tsv from what won. */
#ifndef ATTUNE_COMMAND_TUNED_TABLE_H
#define ATTUNE_COMMAND_TUNED_TABLE_H

#include "options.h"

/* Prints the whole table of the backend of --device: the built-in lines, with the device's class and build's winners put before them. 0, or an exit
 * code after one sentence. */
int tuned_table_print(const options *o);

#endif
