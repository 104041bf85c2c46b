/* The tables of the database of measurements, and how one of an older version becomes one of this. */
#ifndef ATTUNE_SCHEMA_H
#define ATTUNE_SCHEMA_H

/* What SQLite keeps in the file's header for us: application_id, "Attn". */
enum { SCHEMA_APPLICATION = 0x4174746e };

enum { SCHEMA_VERSION = 2 };

/* schema_steps[n] turns version n into n + 1; version 0 is an empty file. */
extern const char *const schema_steps[SCHEMA_VERSION];

#endif
