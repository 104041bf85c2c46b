/* Rows that recording and importing share. */
#ifndef ATTUNE_RUNS_H
#define ATTUNE_RUNS_H

#include "database.h"

enum { LONGEST_TEXT = 1024 }; /* bytes of a text that is brought in, or of a reason */

/* What attune_measurement holds, in its order. */
#define MEASURED_COLUMNS                                                                           \
    "kernel, rung, invalid, milliseconds, milliseconds_q1, milliseconds_q3, milliseconds_min, "    \
    "samples, bound_ratio, bits, registers, spill_bytes, resident_warps"

/* The id of the row with these values, made where it is missing. Inside a transaction. */
attune_status device_row(attune_tuning_db *db, const database_value values[DEVICE_COLUMNS],
                         int64_t *id);
attune_status build_row(attune_tuning_db *db, const database_value values[BUILD_COLUMNS],
                        int64_t *id);

#endif
