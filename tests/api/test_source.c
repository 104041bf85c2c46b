/* White box of src/kernel_source.c: what a table's constants stand for. */
#include "backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_defines(const char *constants, const char *expected)
{
    const attune_kernel_row row = {.id = "forward_x", .constants = constants};
    char *const defines = attune_kernel_defines(&row);
    assert_string_equal(defines, expected);
    free(defines);
}

static void constants_become_defines(void **user)
{
    (void)user;
    assert_defines("", "");
    assert_defines("THREADS 128\n", "#define THREADS 128\n");
    assert_defines("A 1\nB (A + 2)", "#define A 1\n#define B (A + 2)\n");
    assert_defines("KERNEL_NAME @\nPACK_NAME @_pack\n",
                   "#define KERNEL_NAME forward_x\n#define PACK_NAME forward_x_pack\n");
    assert_defines("@@\n", "#define forward_xforward_x\n");
    assert_defines("#error @\nA 1\n", "#error @\n#define A 1\n");
    assert_defines("\nA 1\n", "\n#define A 1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_become_defines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
