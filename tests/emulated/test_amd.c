/* Every instruction of the emulated AMD GPUs against its definition, element by element. */
#include "fixture.h"
#include "kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void must_run(emulated_run *r)
{
    if (run(r) != ATTUNE_OK) fail_msg("%s", attune_error_detail());
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A sequence that looks random: the same on every machine. */
static int small_random(uint32_t *state, int most)
{
    *state = *state * 1664525u + 1013904223u;
    return (int)((*state >> 8) % (unsigned)(2 * most + 1)) - most;
}

/* ---- where an element lies ---- */

typedef struct place {
    int lane, index; /* of an element in the lane's registers */
} place;

/* A (i, k), B (k, j) with j for i: as tables of the vendor's manuals are read, from the element to the lane. */
static place of_mfma_32(int i, int k)
{
    return (place){.lane = k < 4 ? i : 32 + i, .index = k % 4};
}
static place of_mfma_16(int i, int k)
{
    static const int first_lane[] = {0, 16, 32, 48};
    return (place){.lane = first_lane[k >> 2] + i, .index = k & 3};
}
static place of_rdna3(int i, int k)
{
    return (place){.lane = i, .index = k};
}
static place of_rdna4(int i, int k)
{
    return (place){.lane = k < 8 ? i : 16 + i, .index = k < 8 ? k : k - 8};
}

/* C (i, j) */
static place sum_mfma_32(int i, int j)
{
    static const int first_lane[] = {0, 32, 0, 32, 0, 32, 0, 32}; /* of four rows each */
    return (place){.lane = first_lane[i >> 2] + j, .index = 4 * (i >> 3) + (i & 3)};
}
static place sum_mfma_16(int i, int j)
{
    return (place){.lane = (i & 12) * 4 + j, .index = i & 3};
}
static place sum_rdna3(int i, int j)
{
    return (place){.lane = i & 1 ? 16 + j : j, .index = i >> 1};
}
static place sum_rdna4(int i, int j)
{
    return (place){.lane = i < 8 ? j : 16 + j, .index = i < 8 ? i : i - 8};
}

/* ---- shapes ---- */

typedef struct shape {
    attune_group_function *kernel;
    const char *devices[3];
    bool is_bf16;
    int lanes, side, k, sums, words;
    place (*factor)(int i, int k), (*sum)(int i, int j);
} shape;

#define CDNA                                                                                       \
    .devices = {"emulated:amd", "emulated:amd-cdna2", "emulated:amd-cdna3"}, .lanes = 64, .words = 2
#define MFMA_32 CDNA, .side = 32, .k = 8, .sums = 16, .factor = of_mfma_32, .sum = sum_mfma_32
#define MFMA_16 CDNA, .side = 16, .k = 16, .sums = 4, .factor = of_mfma_16, .sum = sum_mfma_16
#define RDNA3                                                                                      \
    .devices = {"emulated:amd-rdna3"}, .lanes = 32, .words = 8, .side = 16, .k = 16, .sums = 8,    \
    .factor = of_rdna3, .sum = sum_rdna3
#define RDNA4                                                                                      \
    .devices = {"emulated:amd-rdna4"}, .lanes = 32, .words = 4, .side = 16, .k = 16, .sums = 8,    \
    .factor = of_rdna4, .sum = sum_rdna4

static const shape shapes[] = {
    {.kernel = multiplies_mfma_32x32x8_f16, MFMA_32},
    {.kernel = multiplies_mfma_32x32x8_bf16, MFMA_32, .is_bf16 = true},
    {.kernel = multiplies_mfma_16x16x16_f16, MFMA_16},
    {.kernel = multiplies_mfma_16x16x16_bf16, MFMA_16, .is_bf16 = true},
    {.kernel = multiplies_wmma_rdna3_f16, RDNA3},
    {.kernel = multiplies_wmma_rdna3_bf16, RDNA3, .is_bf16 = true},
    {.kernel = multiplies_wmma_rdna4_f16, RDNA4},
    {.kernel = multiplies_wmma_rdna4_bf16, RDNA4, .is_bf16 = true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- operands ---- */

enum { SIDE = 32, K = 16 };

typedef struct matrices {
    float a[SIDE][K], b[K][SIDE], c[SIDE][SIDE];
} matrices;

/* Of a normal number that the type has, or 0. */
static uint32_t element_of(const shape *s, float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u;
    if (s->is_bf16) return bits >> 16;
    return x == 0.0f ? sign : sign | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 0x3ff);
}

/* As kernels_amd.c reads them: a lane's c, a and b. */
static void put_operands(const shape *s, const matrices *x, unsigned *operands)
{
    const int stride = s->sums + 2 * s->words;
    memset(operands, 0, OPERAND_WORDS * sizeof *operands);
    for (int i = 0; i < s->side; i++) {
        for (int k = 0; k < s->k; k++) {
            const place p = s->factor(i, k);
            unsigned *const a = operands + stride * p.lane + s->sums + p.index / 2;
            a[0] |= element_of(s, x->a[i][k]) << 16 * (p.index % 2);
            a[s->words] |= element_of(s, x->b[k][i]) << 16 * (p.index % 2);
        }
        for (int j = 0; j < s->side; j++) {
            const place p = s->sum(i, j);
            operands[stride * p.lane + p.index] = bits_of(x->c[i][j]);
        }
    }
    if (s->factor == of_rdna3)
        for (int lane = 16; lane < 32; lane++)
            memcpy(operands + stride * lane + s->sums, operands + stride * (lane - 16) + s->sums,
                   2 * (size_t)s->words * sizeof *operands);
}

/* x->c := A·B + C on that device. */
static void multiply(const shape *s, const char *device, matrices *x)
{
    unsigned operands[OPERAND_WORDS];
    put_operands(s, x, operands);
    emulated_run r = {.device = device,
                      .kernel = s->kernel,
                      .threads = s->lanes,
                      .fast_memory = 1024,
                      .seed = "seed=1",
                      .operands = operands};
    must_run(&r);
    for (int i = 0; i < s->side; i++)
        for (int j = 0; j < s->side; j++) {
            const place p = s->sum(i, j);
            x->c[i][j] = r.output[s->sums * p.lane + p.index];
        }
}

/* ---- tests ---- */

/* Small integers, exact in every type and every order. */
static void check_random(const shape *s, const char *device, uint32_t seed)
{
    matrices x = {.c = {{0}}};
    for (int i = 0; i < s->side; i++) {
        for (int k = 0; k < s->k; k++) {
            x.a[i][k] = (float)small_random(&seed, 7);
            x.b[k][i] = (float)small_random(&seed, 7);
        }
        for (int j = 0; j < s->side; j++) x.c[i][j] = (float)small_random(&seed, 1000);
    }
    const matrices before = x;
    multiply(s, device, &x);
    for (int i = 0; i < s->side; i++)
        for (int j = 0; j < s->side; j++) {
            float expected = before.c[i][j];
            for (int k = 0; k < s->k; k++) expected += before.a[i][k] * before.b[k][j];
            assert_true(x.c[i][j] == expected);
        }
}

/* A is 1 at one place, B a different number at each: row i of the product is row k of B, and the others are 0. */
static void check_one_hot(const shape *s, int one_i, int one_k)
{
    matrices x = {.a = {{0}}};
    x.a[one_i][one_k] = 1.0f;
    for (int k = 0; k < s->k; k++)
        for (int j = 0; j < s->side; j++) x.b[k][j] = (float)(1 + k * s->side + j);
    multiply(s, s->devices[0], &x);
    for (int i = 0; i < s->side; i++)
        for (int j = 0; j < s->side; j++)
            assert_true(x.c[i][j] == (i == one_i ? (float)(1 + one_k * s->side + j) : 0.0f));
}

static void matrices_multiply(void **state)
{
    (void)state;
    for (int n = 0; n < SHAPES; n++)
        for (int d = 0; d < 3 && shapes[n].devices[d] != NULL; d++)
            for (uint32_t seed = 1; seed <= 3; seed++)
                check_random(&shapes[n], shapes[n].devices[d], seed);
}

static void elements_lie_where_they_belong(void **state)
{
    (void)state;
    for (int n = 0; n < SHAPES; n++)
        for (int i = 0; i < shapes[n].side; i++)
            for (int k = 0; k < shapes[n].k; k++) check_one_hot(&shapes[n], i, k);
}

/* Two sums that tell how a device adds: 1 and a little less, and 2^24 and a one from each of two steps. */
static void devices_add_as_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        float one, large;
    } models[] = {
        {.device = "emulated:amd", .one = 1.0f, .large = 0x1.000002p24f},
        {.device = "emulated:amd-cdna2", .one = 1.0f, .large = 0x1p24f},
        {.device = "emulated:amd-cdna3", .one = 0x1.fffffep-1f, .large = 0x1.000002p24f},
        {.device = "emulated:amd-rdna3", .one = 1.0f, .large = 0x1.000002p24f},
        {.device = "emulated:amd-rdna4", .one = 1.0f, .large = 0x1.000002p24f},
    };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int n = 0; n < SHAPES; n++)
            for (int d = 0; d < 3 && shapes[n].devices[d] != NULL; d++) {
                if (strcmp(shapes[n].devices[d], models[m].device) != 0) continue;
                matrices x = {.c = {{-0x1p-30f}, {0x1p24f}}};
                x.a[0][0] = x.a[1][0] = x.a[1][4] = 1.0f;
                x.b[0][0] = x.b[4][0] = 1.0f;
                multiply(&shapes[n], models[m].device, &x);
                assert_true(x.c[0][0] == models[m].one);
                assert_true(x.c[1][0] == models[m].large);
            }
}

static void shuffles_reach_across_32_lanes(void **state)
{
    (void)state;
    emulated_run r = {
        .device = "emulated:amd", .kernel = shuffles_by_32, .threads = 128, .seed = "seed=2"};
    must_run(&r);
    for (int i = 0; i < 128; i++) assert_true(r.output[i] == (float)(i ^ 32));
}

static void exponentials(void **state)
{
    (void)state;
    emulated_run r = {.device = "emulated:amd", .kernel = exponentiates, .threads = 64};
    float input[INPUT_FLOATS] = {3.0f, -126.0f, -126.5f, -INFINITY, 0x1p-140f, 0.5f};
    r.input = input;
    must_run(&r);
    const float expected[] = {8.0f, 0x1p-126f, 0.0f, 0.0f, 1.0f, sqrtf(2.0f)};
    for (int i = 0; i < 6; i++) assert_true(r.output[i] == expected[i]);
}

/* While a device is open, those that come and go need no new stacks for their work-items: this is for speed alone. */
static int open_one(void **device)
{
    attune_context_options options;
    attune_context_options_init(&options);
    return attune_backend_emulated.open(0, &options, device) == ATTUNE_OK ? 0 : -1;
}

static int close_one(void **device)
{
    attune_backend_emulated.close(*device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_multiply),
        cmocka_unit_test(elements_lie_where_they_belong),
        cmocka_unit_test(devices_add_as_they_say),
        cmocka_unit_test(shuffles_reach_across_32_lanes),
        cmocka_unit_test(exponentials),
    };
    return cmocka_run_group_tests(tests, open_one, close_one);
}
