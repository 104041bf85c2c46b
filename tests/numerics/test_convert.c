/* Every number of both 16-bit types, and every place where rounding to them changes its mind. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct format {
    attune_dtype dtype;
    int fraction_bits;
    int bias;
    uint16_t infinity;
} format;

static const format formats[] = {
    {.dtype = ATTUNE_F16, .fraction_bits = 10, .bias = 15, .infinity = 0x7c00},
    {.dtype = ATTUNE_BF16, .fraction_bits = 7, .bias = 127, .infinity = 0x7f80},
};

/* The value of a pattern up to infinity, by the definition; infinity counts as the power of two that comes next. */
static double defined_value(const format *f, uint16_t pattern)
{
    const int exponent = pattern >> f->fraction_bits;
    const int fraction = pattern & ((1 << f->fraction_bits) - 1);
    const int whole = exponent > 0 ? fraction + (1 << f->fraction_bits) : fraction;
    return ldexp(whole, (exponent > 0 ? exponent : 1) - f->bias - f->fraction_bits);
}

static float widened(const format *f, uint16_t pattern)
{
    float x;
    attune_convert_to_f32(f->dtype, &pattern, &x, 1);
    return x;
}

static uint16_t narrowed(const format *f, float x)
{
    uint16_t pattern;
    attune_convert_from_f32(f->dtype, &x, &pattern, 1);
    return pattern;
}

static void assert_narrows(const format *f, float x, uint16_t pattern)
{
    const uint16_t positive = narrowed(f, x), negative = narrowed(f, -x);
    if (positive != pattern || negative != (pattern | 0x8000))
        fail_msg("%a narrows to %04x and %04x, not to %04x", (double)x, positive, negative,
                 pattern);
}

static void every_number_is_widened_exactly(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const format *const f = &formats[i];
        for (unsigned pattern = 0; pattern < f->infinity; pattern++) {
            const uint16_t positive = (uint16_t)pattern, negative = (uint16_t)(pattern | 0x8000);
            assert_true((double)widened(f, positive) == defined_value(f, positive));
            assert_true((double)widened(f, negative) == -defined_value(f, positive));
            assert_true(signbit(widened(f, negative)));
        }
        assert_true(widened(f, f->infinity) == INFINITY);
        assert_true(widened(f, f->infinity | 0x8000) == -INFINITY);
        for (unsigned pattern = f->infinity + 1u; pattern < 0x8000; pattern++)
            assert_true(isnan(widened(f, (uint16_t)pattern)));
    }
}

static void narrowing_goes_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const format *const f = &formats[i];
        for (unsigned pattern = 0; pattern < f->infinity; pattern++) {
            const uint16_t below = (uint16_t)pattern, above = (uint16_t)(pattern + 1);
            const float middle = (float)((defined_value(f, below) + defined_value(f, above)) / 2);
            assert_narrows(f, (float)defined_value(f, below), below);
            assert_narrows(f, nextafterf(middle, 0.0f), below);
            assert_narrows(f, middle, pattern % 2 == 0 ? below : above);
            assert_narrows(f, nextafterf(middle, INFINITY), above);
        }
    }
}

static void what_is_too_large_is_infinite_and_too_small_is_zero(void **state)
{
    (void)state;
    assert_narrows(&formats[0], 65519.996f, 0x7bff);
    assert_narrows(&formats[0], 65520.0f, 0x7c00);
    assert_narrows(&formats[0], 70000.0f, 0x7c00);
    assert_narrows(&formats[0], 0x1.8p127f, 0x7c00);
    assert_narrows(&formats[0], 0x1p-25f, 0);
    assert_narrows(&formats[0], 0x1p-149f, 0);
    assert_narrows(&formats[1], 0x1.fffffep127f, 0x7f80);
    assert_narrows(&formats[1], 0x1p-134f, 0);
    for (int i = 0; i < 2; i++) assert_narrows(&formats[i], INFINITY, formats[i].infinity);
}

/* A payload in the low bits alone must not make an infinity. */
static void nan_stays_nan(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1)
            for (uint32_t sign = 0; sign < 2; sign++) {
                const uint32_t bits = sign << 31 | 0x7f800000u | payload;
                float nan;
                memcpy(&nan, &bits, sizeof nan);
                const uint16_t pattern = narrowed(&formats[i], nan);
                assert_true(isnan(widened(&formats[i], pattern)));
                assert_int_equal(pattern >> 15, sign);
                assert_true((pattern >> (formats[i].fraction_bits - 1) & 1) == 1);
            }
}

static void fp32_is_copied_and_nothing_is_nothing(void **state)
{
    (void)state;
    const uint32_t patterns[] = {0x80000000u, 1u, 0x7f800001u, 0xffc00000u, 0x3f800000u};
    uint32_t there[5] = {0}, back[5] = {0};
    float numbers[5];
    memcpy(numbers, patterns, sizeof numbers);
    attune_convert_from_f32(ATTUNE_F32, numbers, there, 5);
    assert_memory_equal(there, patterns, sizeof there);
    attune_convert_to_f32(ATTUNE_F32, there, numbers, 5);
    memcpy(back, numbers, sizeof back);
    assert_memory_equal(back, patterns, sizeof back);
    for (int dtype = ATTUNE_F32; dtype <= ATTUNE_BF16; dtype++) {
        attune_convert_from_f32((attune_dtype)dtype, NULL, NULL, 0);
        attune_convert_to_f32((attune_dtype)dtype, NULL, NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_widened_exactly),
        cmocka_unit_test(narrowing_goes_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(what_is_too_large_is_infinite_and_too_small_is_zero),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(fp32_is_copied_and_nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
