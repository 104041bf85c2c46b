#include "database.h"

#include <string.h>

#include "fail.h"

const char *database_path(const options *o)
{
    static char path[4096];
    if (o->db) return o->db;
    const size_t length = attune_tuning_path(path, sizeof path);
    return length > 0 && length < sizeof path ? path : "off";
}

int database_open(const options *o, bool writable, attune_tuning_db **db)
{
    const char *const path = database_path(o);
    *db = NULL;
    if (strcmp(path, "off") == 0)
        return fail(EXIT_BAD_INPUT, "no database: ATTUNE_DB is off or there is no home; --db FILE "
                                    "names one");
    const attune_status status = attune_tuning_open(path, writable, db);
    return status == ATTUNE_OK ? EXIT_DONE : fail_status(status);
}

const char *column_of(const attune_tuning_value *values, int count, const char *column)
{
    for (int i = 0; i < count; i++)
        if (strcmp(values[i].column, column) == 0) return values[i].text ? values[i].text : "";
    return "";
}
