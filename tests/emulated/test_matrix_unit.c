/* The models of the matrix unit where they differ: cases that were worked out by hand. */
#include "matrix_unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { K = 16, K_TF32 = 8 };

typedef struct sum_case {
    const char *what;
    unit_type type;
    float c, a[K], b[K];
    float exact, ampere, hopper;
} sum_case;

static const sum_case cases[] = {
    {.what = "c and one product that is half a unit of it: nearest even, cut off",
     .c = 1.0f,
     .a = {0x1p-12f},
     .b = {0x1p-12f},
     .exact = 1.0f,
     .ampere = 1.0f,
     .hopper = 1.0f},
    {.what = "the same with an odd c: only nearest rounds up",
     .c = 0x1.000002p0f,
     .a = {0x1p-12f},
     .b = {0x1p-12f},
     .exact = 0x1.000004p0f,
     .ampere = 0x1.000002p0f,
     .hopper = 0x1.000002p0f},
    {.what = "two halves of a unit, 2^-24 each, in one step: both have 24 bits",
     .c = 1.0f,
     .a = {0x1p-12f, 0x1p-12f},
     .b = {0x1p-12f, 0x1p-12f},
     .exact = 0x1.000002p0f,
     .ampere = 0x1.000002p0f,
     .hopper = 0x1.000002p0f},
    {.what = "two halves in steps of their own on Ampere, where each is cut off",
     .c = 1.0f,
     .a = {[0] = 0x1p-12f, [8] = 0x1p-12f},
     .b = {[0] = 0x1p-12f, [8] = 0x1p-12f},
     .exact = 0x1.000002p0f,
     .ampere = 1.0f,
     .hopper = 0x1.000002p0f},
    {.what = "four quarters of a unit, 2^-25: below Ampere's last bit, Hopper's last",
     .c = 1.0f,
     .a = {0x1p-12f, 0x1p-12f, 0x1p-12f, 0x1p-12f},
     .b = {0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f},
     .exact = 0x1.000002p0f,
     .ampere = 1.0f,
     .hopper = 0x1.000002p0f},
    {.what = "eight eighths of a unit, 2^-26: below Hopper's last bit too",
     .c = 1.0f,
     .a = {0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f},
     .b = {0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f},
     .exact = 0x1.000002p0f,
     .ampere = 1.0f,
     .hopper = 1.0f},
    {.what = "the sum is cut toward zero: Hopper has the 2^-25, and cuts what it leaves of 1",
     .c = -1.0f,
     .a = {0x1p-12f},
     .b = {0x1p-13f},
     .exact = -1.0f,
     .ampere = -1.0f,
     .hopper = -0x1.fffffep-1f},
    {.what = "a negative sum is cut toward zero too: -(1 + 2^-23 + 2^-24)",
     .c = -0x1.000002p0f,
     .a = {-0x1p-12f},
     .b = {0x1p-12f},
     .exact = -0x1.000004p0f,
     .ampere = -0x1.000002p0f,
     .hopper = -0x1.000002p0f},
    {.what = "1.5 * 1.5 has exponent 0, not 1: c keeps 24 bits below 2^0",
     .c = 0x1p-24f,
     .a = {1.5f, -1.5f},
     .b = {1.5f, 1.5f},
     .exact = 0x1p-24f,
     .ampere = 0x1p-24f,
     .hopper = 0x1p-24f},
    {.what = "what cancels hides what is small: 2^-24 beside 4",
     .c = 0x1p-24f,
     .a = {2.0f, -2.0f},
     .b = {2.0f, 2.0f},
     .exact = 0x1p-24f,
     .ampere = 0.0f,
     .hopper = 0.0f},
    {.what = "2^-23 beside 4: the last bit of Hopper alone",
     .c = 0x1p-23f,
     .a = {2.0f, -2.0f},
     .b = {2.0f, 2.0f},
     .exact = 0x1p-23f,
     .ampere = 0.0f,
     .hopper = 0x1p-23f},
    {.what = "c passes through a step of zeros whole",
     .c = 0x1.fffffep-130f,
     .exact = 0x1.fffffep-130f,
     .ampere = 0x1.fffffep-130f,
     .hopper = 0x1.fffffep-130f},
    {.what = "subnormal halves are not lost: 2^-24 * 2^-24",
     .a = {0x1p-24f},
     .b = {0x1p-24f},
     .exact = 0x1p-48f,
     .ampere = 0x1p-48f,
     .hopper = 0x1p-48f},
    {.what = "and have the exponent of the least normal one: 24 bits end at 2^-52, 25 at 2^-53",
     .c = 0x1p-53f,
     .a = {0x1p-24f},
     .b = {0x1p-24f},
     .exact = 0x1.08p-48f,
     .ampere = 0x1p-48f,
     .hopper = 0x1.08p-48f},
    {.what = "a step of eight on Ampere starts from the sum of the one before",
     .c = 0.0f,
     .a = {[7] = 1.0f, [15] = 0x1p-12f},
     .b = {[7] = 1.0f, [15] = 0x1p-11f},
     .exact = 0x1.000002p0f,
     .ampere = 0x1.000002p0f,
     .hopper = 0x1.000002p0f},
    {.what = "a sum beyond the largest float",
     .type = UNIT_BF16,
     .c = 0x1p127f,
     .a = {0x1p64f},
     .b = {0x1p63f},
     .exact = INFINITY,
     .ampere = INFINITY,
     .hopper = INFINITY},
    {.what = "just below it: only nearest rounds up",
     .type = UNIT_BF16,
     .c = 0x1.fffffep127f,
     .a = {0x1p60f},
     .b = {0x1p43f},
     .exact = INFINITY,
     .ampere = 0x1.fffffep127f,
     .hopper = 0x1.fffffep127f},
    {.what = "an infinite product",
     .c = 1.0f,
     .a = {INFINITY, 1.0f},
     .b = {-1.0f, 1.0f},
     .exact = -INFINITY,
     .ampere = -INFINITY,
     .hopper = -INFINITY},
    {.what = "infinity less infinity",
     .c = INFINITY,
     .a = {INFINITY},
     .b = {-1.0f},
     .exact = NAN,
     .ampere = NAN,
     .hopper = NAN},
    {.what = "infinity times zero",
     .a = {INFINITY},
     .b = {0.0f},
     .exact = NAN,
     .ampere = NAN,
     .hopper = NAN},
    {.what = "NaN",
     .a = {[9] = NAN},
     .b = {[9] = 1.0f},
     .exact = NAN,
     .ampere = NAN,
     .hopper = NAN},
    {.what = "tf32: steps of four on Ampere, of eight on Hopper",
     .type = UNIT_TF32,
     .c = 1.0f,
     .a = {[0] = 0x1p-12f, [4] = 0x1p-12f},
     .b = {[0] = 0x1p-12f, [4] = 0x1p-12f},
     .exact = 0x1.000002p0f,
     .ampere = 1.0f,
     .hopper = 0x1.000002p0f},
    {.what = "bf16: the smallest normal product is a float's subnormal",
     .type = UNIT_BF16,
     .a = {0x1p-70f},
     .b = {0x1p-70f},
     .exact = 0x1p-140f,
     .ampere = 0x1p-140f,
     .hopper = 0x1p-140f},
};

static int same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void sums(void **state)
{
    (void)state;
    static const matrix_unit *const units[] = {&matrix_unit_exact, &matrix_unit_ampere,
                                               &matrix_unit_hopper};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sum_case *const t = &cases[i];
        const float expected[] = {t->exact, t->ampere, t->hopper};
        for (int u = 0; u < 3; u++) {
            const int k = t->type == UNIT_TF32 ? K_TF32 : K;
            const float sum = matrix_unit_sum(units[u], t->type, t->a, t->b, k, t->c);
            if (!same(sum, expected[u]))
                fail_msg("%s: unit %d gives %a where %a belongs", t->what, u, (double)sum,
                         (double)expected[u]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
