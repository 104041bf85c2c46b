/* The database that --db or $ATTUNE_DB names, or the default one. */
#ifndef ATTUNE_COMMAND_DATABASE_H
#define ATTUNE_COMMAND_DATABASE_H

#include "attune/tuning.h"
#include "options.h"

/* 0, or an exit code after one sentence. */
int database_open(const options *o, bool writable, attune_tuning_db **db);

/* The text of a row's column, "" where there is none. */
const char *column_of(const attune_tuning_value *values, int count, const char *column);

/* Its path, or "off" where there is none. */
const char *database_path(const options *o);

#endif
