/* A machine on which a backend cannot be used: cpu works, and the list has one entry that says why.
 * usage: gpu_machine BACKEND LIBRARY WORD: its driver, and what the reason must hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "attune/attune.h"
#include "attune/device.h"

static const char *backend, *library, *expected;

/* Before anybody asks for a GPU. */
static void the_cpu_starts_no_driver(void **state)
{
    (void)state;
    attune_context *context = NULL;
    assert_int_equal(attune_context_open("cpu", NULL, &context), ATTUNE_OK);
    attune_context_close(context);
    assert_null(dlopen(library, RTLD_NOW | RTLD_NOLOAD));
}

static void the_list_says_why(void **state)
{
    (void)state;
    int entries = 0;
    for (int i = 0; i < attune_device_count(); i++) {
        attune_device_info info;
        assert_int_equal(attune_device_get(i, &info), ATTUNE_OK);
        if (strcmp(info.backend, backend) != 0) continue;
        entries++;
        print_message("%s: %s\n", info.id, info.reason);
        assert_non_null(strstr(info.reason, expected));
        assert_null(strchr(info.reason, '\n'));
    }
    assert_int_equal(entries, 1);
}

static void opening_says_why(void **state)
{
    (void)state;
    static const char *const places[] = {"", ":0", ":fake"};
    for (int i = 0; i < 3; i++) {
        char name[32];
        attune_context *context = NULL;
        snprintf(name, sizeof name, "%s%s", backend, places[i]);
        assert_int_equal(attune_context_open(name, NULL, &context), ATTUNE_NO_DEVICE);
        assert_null(context);
        assert_non_null(strstr(attune_error_detail(), expected));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_starts_no_driver),
        cmocka_unit_test(the_list_says_why),
        cmocka_unit_test(opening_says_why),
    };
    if (argc != 4) return 2;
    backend = argv[1];
    library = argv[2];
    expected = argv[3];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
