/* Every instruction of the emulated NVIDIA GPUs against its definition, element by element. */
#include "fixture.h"
#include "kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LANES = 32 };

static emulated_run run_of(attune_group_function *kernel)
{
    return (emulated_run){
        .kernel = kernel, .threads = LANES, .fast_memory = 1024, .seed = "seed=1"};
}

static void must_run(emulated_run *r)
{
    if (run(r) != ATTUNE_OK) fail_msg("%s", attune_error_detail());
}

/* A sequence that looks random: the same on every machine. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float number(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- copies ---- */

static void copies_land(void **state)
{
    (void)state;
    emulated_run r = run_of(copies);
    must_run(&r);
    for (int i = 0; i < LANES; i++) assert_true(r.output[i] == (float)(4 * (31 - i) % 64 + 1));

    r = run_of(copies_in_flight);
    must_run(&r);
    for (int i = 0; i < LANES; i++) {
        assert_true(r.output[i] == (float)(4 * i % 64 + 2));
        assert_true(r.output[i + 32] == (float)(4 * (i + 32) % 64 + 3));
    }
}

/* Of the 16 bytes the first i % 17 are the source's, the rest 0; where none is, the source is not read. */
static void copies_fill_with_zeros(void **state)
{
    (void)state;
    emulated_run r = run_of(copies_in_part);
    must_run(&r);
    for (int i = 0; i < LANES; i++) {
        float expected[4] = {0};
        for (int byte = 0; byte < i % 17; byte++) {
            const float source = (float)(4 * i % 64 + byte / 4);
            ((unsigned char *)expected)[byte] = ((const unsigned char *)&source)[byte % 4];
        }
        assert_memory_equal(r.output + 4 * i, expected, sizeof expected);
    }
}

/* ---- ldmatrix ---- */

/* Element (row, column) of matrix m, of the four that lie one after the other in the 32 rows. */
static uint16_t stored(const uint16_t *halves, int m, int row, int column)
{
    return halves[(m * 64 + row * 8 + column) % (2 * INPUT_FLOATS)];
}

static void matrices_load(void **state)
{
    (void)state;
    uint32_t random = 1;
    uint16_t halves[2 * INPUT_FLOATS];
    for (int i = 0; i < 2 * INPUT_FLOATS; i++) halves[i] = (uint16_t)next_random(&random);
    float input[INPUT_FLOATS];
    memcpy(input, halves, sizeof input);
    emulated_run plain = run_of(loads_matrices), transposed = run_of(loads_transposed);
    plain.input = transposed.input = input;
    must_run(&plain);
    must_run(&transposed);
    for (int i = 0; i < LANES * 4 * 2; i++) {
        const int lane = i / 8, m = i / 2 % 4, e = i % 2, row = lane / 4,
                  column = 2 * (lane % 4) + e;
        const int word = 4 * lane + m, shift = 16 * e;
        assert_int_equal(bits_of(plain.output[word]) >> shift & 0xffff,
                         stored(halves, m, row, column));
        /* loads_transposed names the rows backwards: row i of matrix m is row 31 - (8 m + i) of all */
        assert_int_equal(bits_of(transposed.output[word]) >> shift & 0xffff,
                         stored(halves, 3 - m, 7 - column, row));
    }
}

/* ---- mma ---- */

typedef struct mma_shape {
    attune_group_function *kernel;
    int k, bits; /* of an element */
} mma_shape;

/* Small integers, exact in every type and every order, in the format's bits. */
static uint32_t small_integer(const mma_shape *shape, int value)
{
    const uint32_t bits = bits_of((float)value);
    if (shape->bits == 32) return bits;
    if (shape->kernel == multiplies_bf16) return bits >> 16;
    return value == 0
               ? 0
               : (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* Row and column of element e of word w of a lane, as tables of PTX ISA 8.5 have it: "mma.m16n8k16 with floating point type" and "mma.m16n8k8". */
static void place_of_a(const mma_shape *shape, int lane, int w, int e, int *row, int *column)
{
    const int group = lane >> 2, thread = lane % 4;
    *row = w == 0 || w == 2 ? group : group + 8;
    if (shape->bits == 16)
        *column = thread * 2 + e + (w < 2 ? 0 : 8);
    else
        *column = w < 2 ? thread : thread + 4;
}

static void place_of_b(const mma_shape *shape, int lane, int w, int e, int *row, int *column)
{
    const int group = lane >> 2, thread = lane % 4;
    *column = group;
    *row = shape->bits == 16 ? thread * 2 + e + (w == 0 ? 0 : 8) : thread + (w == 0 ? 0 : 4);
}

static void place_of_c(int lane, int i, int *row, int *column)
{
    *row = (lane >> 2) + (i < 2 ? 0 : 8);
    *column = lane % 4 * 2 + (i & 1);
}

typedef struct matrices {
    int a[16][16], b[16][8], c[16][8];
} matrices;

static matrices random_matrices(void)
{
    matrices x;
    uint32_t random = 7;
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 16; j++) x.a[i][j] = (int)(next_random(&random) % 15) - 7;
        for (int j = 0; j < 8; j++) {
            x.b[i][j] = (int)(next_random(&random) % 15) - 7;
            x.c[i][j] = (int)(next_random(&random) % 2001) - 1000;
        }
    }
    return x;
}

/* A lane's words, as kernels.c reads them: 4 of A, 2 of B, 4 of C. */
static void put_operands(const mma_shape *shape, const matrices *x, int lane, unsigned words[10])
{
    int row, column;
    memset(words, 0, 10 * sizeof *words);
    for (int e = 0; e < 32 / shape->bits; e++) {
        for (int w = 0; w < 4; w++) {
            place_of_a(shape, lane, w, e, &row, &column);
            words[w] |= small_integer(shape, x->a[row][column]) << 16 * e;
        }
        for (int w = 0; w < 2; w++) {
            place_of_b(shape, lane, w, e, &row, &column);
            words[4 + w] |= small_integer(shape, x->b[row][column]) << 16 * e;
        }
    }
    for (int i = 0; i < 4; i++) {
        place_of_c(lane, i, &row, &column);
        words[6 + i] = bits_of((float)x->c[row][column]);
    }
}

static void check_mma(const mma_shape *shape, const char *device)
{
    const matrices x = random_matrices();
    unsigned operands[OPERAND_WORDS];
    for (int lane = 0; lane < LANES; lane++) put_operands(shape, &x, lane, operands + 10 * lane);
    emulated_run r = run_of(shape->kernel);
    r.device = device;
    r.operands = operands;
    must_run(&r);
    for (int i = 0; i < 4 * LANES; i++) {
        int row, column;
        place_of_c(i / 4, i % 4, &row, &column);
        int expected = x.c[row][column];
        for (int k = 0; k < shape->k; k++) expected += x.a[row][k] * x.b[k][column];
        assert_true(r.output[i] == (float)expected);
    }
}

static void matrices_multiply(void **state)
{
    (void)state;
    static const mma_shape shapes[] = {{.kernel = multiplies_f16, .k = 16, .bits = 16},
                                       {.kernel = multiplies_bf16, .k = 16, .bits = 16},
                                       {.kernel = multiplies_tf32, .k = 8, .bits = 32}};
    static const char *const devices[] = {"emulated:nvidia", "emulated:nvidia-ampere",
                                          "emulated:nvidia-hopper"};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 3; d++) check_mma(&shapes[i], devices[d]);
}

/* ---- numbers ---- */

static void exponentials(void **state)
{
    (void)state;
    emulated_run r = run_of(exponentiates);
    float input[INPUT_FLOATS];
    uint32_t random = 3;
    for (int i = 0; i < INPUT_FLOATS; i++)
        input[i] = (float)((int)(next_random(&random) % 200000) - 100000) * 0x1p-10f;
    const float special[] = {0.0f,    -0.0f,     0x1p-140f, -0x1p-149f, 128.0f, -126.0f,
                             -126.5f, -INFINITY, INFINITY,  NAN,        127.0f, -200.0f};
    const float results[] = {1.0f, 1.0f, 1.0f,     1.0f, INFINITY, 0x1p-126f,
                             0.0f, 0.0f, INFINITY, NAN,  0x1p127f, 0.0f};
    enum { SPECIAL = sizeof special / sizeof *special };
    memcpy(input, special, sizeof special);
    r.input = input;
    must_run(&r);
    for (int i = 0; i < SPECIAL; i++)
        assert_true(isnan(results[i]) ? isnan(r.output[i]) : r.output[i] == results[i]);
    for (int i = SPECIAL; i < INPUT_FLOATS; i++) {
        const double exact = pow(2.0, (double)input[i]);
        assert_true(fabs((double)r.output[i] - exact) <= 0x1p-22 * exact);
    }
    /* exactly 2^k times the result of x for x + k */
    const float fraction = 0.3701171875f;
    for (int i = 0; i < INPUT_FLOATS; i++) input[i] = fraction + (float)(i - 32);
    must_run(&r);
    for (int i = 0; i < INPUT_FLOATS; i++) assert_true(r.output[i] == ldexpf(r.output[32], i - 32));
}

/* The nearest of the two neighbours with 10 bits of fraction; ties go away from zero. */
static void tf32_rounds(void **state)
{
    (void)state;
    emulated_run r = run_of(rounds_tf32);
    float input[INPUT_FLOATS];
    uint32_t random = 5;
    for (int i = 0; i < INPUT_FLOATS; i++)
        input[i] = ldexpf((float)(int)(next_random(&random) - 0x800000u),
                          (int)(next_random(&random) % 60) - 50);
    const float special[] = {0x1.002p0f, -0x1.002p0f, 0x1.001ffep0f, 0x1.006p0f, 0x1.fffffep127f,
                             INFINITY,   -INFINITY,   0.0f,          0x1p-149f,  0x1.ffep0f};
    const float results[] = {0x1.004p0f, -0x1.004p0f, 0x1.0p0f, 0x1.008p0f, INFINITY,
                             INFINITY,   -INFINITY,   0.0f,     0.0f,       2.0f};
    enum { SPECIAL = sizeof special / sizeof *special };
    memcpy(input, special, sizeof special);
    input[SPECIAL] = number(0x7fffffff);
    input[SPECIAL + 1] = number(0xff800001);
    r.input = input;
    must_run(&r);
    for (int i = 0; i < SPECIAL; i++) assert_true(r.output[i] == results[i]);
    assert_true(isnan(r.output[SPECIAL]) && isnan(r.output[SPECIAL + 1]));
    for (int i = SPECIAL + 2; i < INPUT_FLOATS; i++) {
        const float x = input[i];
        const double unit = ldexp(1.0, ilogb((double)x) - 10);
        assert_true((double)r.output[i] == round((double)x / unit) * unit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_land),   cmocka_unit_test(copies_fill_with_zeros),
        cmocka_unit_test(matrices_load), cmocka_unit_test(matrices_multiply),
        cmocka_unit_test(exponentials),  cmocka_unit_test(tf32_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
