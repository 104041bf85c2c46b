#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static bool is_first;

/* Bytes of the UTF-8 sequence at `at`, 0 where there is none (RFC 3629, section 4). */
static int sequence_length(const unsigned char *at)
{
    if (at[0] < 0x80) return 1;
    const int length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    const unsigned char least = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < least || at[1] > most) return 0;
    for (int i = 2; i < length; i++)
        if (at[i] < 0x80 || at[i] > 0xbf) return 0;
    return length;
}

static void print_text(const char *text)
{
    putchar('"');
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        const int length = sequence_length(at);
        if (length == 0)
            fputs("\\ufffd", stdout);
        else if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < 0x20)
            printf("\\u%04x", *at);
        else
            fwrite(at, 1, (size_t)length, stdout);
        at += length > 0 ? length : 1;
    }
    putchar('"');
}

static void print_key(const char *key)
{
    if (!is_first) fputs(", ", stdout);
    is_first = false;
    print_text(key);
    fputs(": ", stdout);
}

void json_begin(void)
{
    putchar('{');
    is_first = true;
}

void json_null(const char *key)
{
    print_key(key);
    fputs("null", stdout);
}

void json_text(const char *key, const char *value)
{
    if (!value) {
        json_null(key);
        return;
    }
    print_key(key);
    print_text(value);
}

void json_bool(const char *key, bool value)
{
    print_key(key);
    fputs(value ? "true" : "false", stdout);
}

void json_integer(const char *key, uint64_t value)
{
    print_key(key);
    printf("%" PRIu64, value);
}

void json_number(const char *key, double value)
{
    if (!isfinite(value)) {
        json_null(key);
        return;
    }
    print_key(key);
    printf("%.9g", value);
}

void json_literal(const char *key, const char *number)
{
    print_key(key);
    fputs(number, stdout);
}

void json_end(void)
{
    puts("}");
}
