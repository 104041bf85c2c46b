/* The subcommands: each takes its parsed options and returns the exit status. */
#ifndef ATTUNE_COMMAND_COMMANDS_H
#define ATTUNE_COMMAND_COMMANDS_H

#include "options.h"

int command_devices(const options *o);
int command_kernels(const options *o);
int command_run(const options *o);
int command_compare(const options *o);
int command_bench(const options *o);
int command_tune(const options *o);
int command_db_export(const options *o);
int command_db_import(const options *o);
int command_db_show(const options *o);
int command_db_best(const options *o);
int command_tune_worker(const options *o); /* tune_worker.h */

#endif
