/* One JSON object per line on stdout. */
#ifndef ATTUNE_COMMAND_JSON_H
#define ATTUNE_COMMAND_JSON_H

void json_begin(void);
void json_text(const char *key, const char *value);
/* A NaN or an infinity, which JSON cannot say, becomes null. */
void json_number(const char *key, double value);
void json_end(void);

#endif
