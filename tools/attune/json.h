/* One JSON object per line on stdout. */
#ifndef ATTUNE_COMMAND_JSON_H
#define ATTUNE_COMMAND_JSON_H

#include <stdbool.h>
#include <stdint.h>

void json_begin(void);
/* NULL becomes null; a byte that is no UTF-8, which drivers' names may hold, becomes U+FFFD. */
void json_text(const char *key, const char *value);
void json_bool(const char *key, bool value);
void json_integer(const char *key, uint64_t value);
void json_null(const char *key);
/* A NaN or an infinity, which JSON cannot say, becomes null. */
void json_number(const char *key, double value);
/* A number as it is spelled already. */
void json_literal(const char *key, const char *number);
void json_end(void);

#endif
