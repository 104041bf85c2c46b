#include "json.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static bool is_first;

static void print_text(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            putchar(*c);
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

void json_text(const char *key, const char *value)
{
    print_key(key);
    print_text(value);
}

void json_number(const char *key, double value)
{
    print_key(key);
    if (isfinite(value))
        printf("%.9g", value);
    else
        fputs("null", stdout);
}

void json_end(void)
{
    puts("}");
}
