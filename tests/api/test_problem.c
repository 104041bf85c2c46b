/* Which problems are legal, and the problem string. */
#include "fixture.h"

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 512 };

static attune_problem usual(void)
{
    attune_problem problem;
    attune_problem_init(&problem, ATTUNE_F16, 2, 6, 3, 10, 20, 64, 48);
    return problem;
}

static void init_sets_the_defaults(void **user)
{
    (void)user;
    const attune_problem p = usual();
    const int64_t q[] = {10 * 6 * 64, 6 * 64, 64, 1}, k[] = {20 * 3 * 64, 3 * 64, 64, 1};
    const int64_t v[] = {20 * 3 * 48, 3 * 48, 48, 1}, o[] = {10 * 6 * 48, 6 * 48, 48, 1};
    assert_int_equal(p.struct_size, sizeof p);
    assert_int_equal(p.mask, ATTUNE_MASK_NONE);
    assert_int_equal(p.return_lse, 0);
    assert_true(p.softmax_scale == 0.125);
    assert_memory_equal(p.q_strides, q, sizeof q);
    assert_memory_equal(p.k_strides, k, sizeof k);
    assert_memory_equal(p.v_strides, v, sizeof v);
    assert_memory_equal(p.o_strides, o, sizeof o);

    attune_problem bhsd = p;
    attune_problem_set_layout(&bhsd, ATTUNE_LAYOUT_BHSD);
    const int64_t q_bhsd[] = {6 * 10 * 64, 64, 10 * 64, 1};
    assert_memory_equal(bhsd.q_strides, q_bhsd, sizeof q_bhsd);
    assert_ok(attune_problem_check(&p));
    assert_ok(attune_problem_check(&bhsd));
}

/* One member of a legal problem is set to a value, and the check says what it thinks of it. */
#define CHECK_MEMBER(member, value, status, part)                                                  \
    do {                                                                                           \
        attune_problem problem = usual();                                                          \
        problem.member = (value);                                                                  \
        assert_status(attune_problem_check(&problem), status);                                     \
        if ((status) != ATTUNE_OK) assert_contains(attune_error_detail(), part);                   \
    } while (0)

static void sizes_are_checked(void **user)
{
    (void)user;
    const attune_status ok = ATTUNE_OK, bad = ATTUNE_INVALID_ARGUMENT, beyond = ATTUNE_UNSUPPORTED;
    CHECK_MEMBER(batch, 0, ok, "");
    CHECK_MEMBER(batch, -1, bad, "batch is -1; 0 or more");
    CHECK_MEMBER(batch, (int64_t)INT32_MAX + 1, beyond, "batch is 2147483648");
    CHECK_MEMBER(heads_q, 0, bad, "heads_q is 0; 1 or more");
    CHECK_MEMBER(heads_q, 7, bad, "heads_q is 7; a multiple of heads_kv, 3,");
    CHECK_MEMBER(heads_q, 2, bad, "heads_q is 2");
    CHECK_MEMBER(heads_kv, 0, bad, "heads_kv is 0");
    CHECK_MEMBER(heads_kv, -3, bad, "heads_kv is -3");
    CHECK_MEMBER(seqlen_q, 0, ok, "");
    CHECK_MEMBER(seqlen_q, -1, bad, "seqlen_q is -1; 0 to 2147483647");
    CHECK_MEMBER(seqlen_q, (int64_t)INT32_MAX + 1, bad, "seqlen_q is 2147483648");
    CHECK_MEMBER(seqlen_k, 0, ok, "");
    CHECK_MEMBER(seqlen_k, INT64_C(2147482624), ok, "");
    CHECK_MEMBER(seqlen_k, INT64_C(2147482625), bad, "seqlen_k is 2147482625; 0 to 2147482624");
    CHECK_MEMBER(seqlen_k, (int64_t)1 << 40, bad, "seqlen_k is 1099511627776");
    CHECK_MEMBER(head_dim, 0, bad, "head_dim is 0; 1 to 256");
    CHECK_MEMBER(head_dim, 257, bad, "head_dim is 257");
    CHECK_MEMBER(head_dim_v, 0, bad, "head_dim_v is 0");
    CHECK_MEMBER(head_dim_v, 257, bad, "head_dim_v is 257");
}

static void semantics_are_checked(void **user)
{
    (void)user;
    const attune_status ok = ATTUNE_OK, bad = ATTUNE_INVALID_ARGUMENT, beyond = ATTUNE_UNSUPPORTED;
    CHECK_MEMBER(op, (attune_op)1, bad, "op is 1");
    CHECK_MEMBER(dtype, (attune_dtype)3, bad, "dtype is 3");
    CHECK_MEMBER(mask, (attune_mask)3, bad, "mask is 3");
    CHECK_MEMBER(return_lse, 2, bad, "return_lse is 2");
    CHECK_MEMBER(softmax_scale, 0.0, ok, "");
    CHECK_MEMBER(softmax_scale, -3.5, ok, "");
    CHECK_MEMBER(softmax_scale, 1e38, ok, "");
    CHECK_MEMBER(softmax_scale, DBL_MIN, ok, "");
    CHECK_MEMBER(softmax_scale, (double)NAN, bad, "a finite number");
    CHECK_MEMBER(softmax_scale, (double)-INFINITY, bad, "a finite number");
    CHECK_MEMBER(softmax_scale, 1e300, beyond, "softmax_scale is 1e+300");
}

static void strides_are_checked(void **user)
{
    (void)user;
    const attune_status ok = ATTUNE_OK, bad = ATTUNE_INVALID_ARGUMENT, beyond = ATTUNE_UNSUPPORTED;
    const int64_t far = (int64_t)1 << 40;
    CHECK_MEMBER(q_strides[ATTUNE_BATCH], 0, ok, "");
    CHECK_MEMBER(k_strides[ATTUNE_HEAD], 0, ok, "");
    CHECK_MEMBER(v_strides[ATTUNE_SEQ], 0, ok, "");
    CHECK_MEMBER(v_strides[ATTUNE_SEQ], 1, ok, "");
    CHECK_MEMBER(k_strides[ATTUNE_SEQ], -1, bad, "k_strides[seq] is -1");
    CHECK_MEMBER(q_strides[ATTUNE_DIM], 2, beyond, "q_strides[dim] is 2; 1 is supported");
    CHECK_MEMBER(q_strides[ATTUNE_DIM], 0, beyond, "q_strides[dim] is 0");
    CHECK_MEMBER(k_strides[ATTUNE_BATCH], far, ok, "");
    CHECK_MEMBER(k_strides[ATTUNE_BATCH], INT64_MAX / 2 - 1000000, ok, "");
    CHECK_MEMBER(k_strides[ATTUNE_BATCH], INT64_MAX / 2, bad, "k spans 2^63 bytes");
    CHECK_MEMBER(v_strides[ATTUNE_SEQ], INT64_MAX, bad, "v spans 2^63 bytes");

    attune_problem both = usual();
    both.q_strides[ATTUNE_BATCH] = INT64_MAX;
    both.q_strides[ATTUNE_HEAD] = INT64_MAX;
    assert_fails(attune_problem_check(&both), bad, "q spans 2^63 bytes");
}

static void output_elements_share_no_place(void **user)
{
    (void)user;
    const attune_status ok = ATTUNE_OK, bad = ATTUNE_INVALID_ARGUMENT, beyond = ATTUNE_UNSUPPORTED;
    CHECK_MEMBER(o_strides[ATTUNE_BATCH], 0, bad,
                 "o_strides[batch] is 0 and puts two elements in one place");
    CHECK_MEMBER(o_strides[ATTUNE_HEAD], 0, bad, "o_strides[head] is 0");
    CHECK_MEMBER(o_strides[ATTUNE_HEAD], 47, bad,
                 "o_strides[head] is 47 and puts two elements in one place");
    CHECK_MEMBER(o_strides[ATTUNE_SEQ], 48, bad, "puts two elements in one place");
    CHECK_MEMBER(o_strides[ATTUNE_SEQ], 6 * 48 - 1, bad,
                 "o_strides[seq] is 287 and puts two elements");
    CHECK_MEMBER(o_strides[ATTUNE_SEQ], 6 * 48 + 1, beyond,
                 "o_strides[batch] is 2880 and may put two elements");
    CHECK_MEMBER(o_strides[ATTUNE_BATCH], 10 * 6 * 48 + 1, ok, "");

    /* Sequence outside batch, and heads outside both: any order will do. */
    attune_problem permuted = usual();
    permuted.o_strides[ATTUNE_BATCH] = 48;
    permuted.o_strides[ATTUNE_SEQ] = 2 * 48;
    permuted.o_strides[ATTUNE_HEAD] = 10 * 2 * 48;
    assert_ok(attune_problem_check(&permuted));

    attune_problem one_long_dimension;
    attune_problem_init(&one_long_dimension, ATTUNE_F32, 1, 1, 1, 5, 5, 1, 1);
    one_long_dimension.o_strides[ATTUNE_SEQ] = 0;
    assert_fails(attune_problem_check(&one_long_dimension), bad, "o_strides[seq] is 0");

    /* Elements at 0, 1, 3, 4 of one head and 4 further of the next: one place is met twice, by a
     * sum of strides. */
    attune_problem interleaved;
    attune_problem_init(&interleaved, ATTUNE_F32, 1, 2, 1, 2, 5, 1, 2);
    interleaved.o_strides[ATTUNE_HEAD] = 4;
    interleaved.o_strides[ATTUNE_SEQ] = 3;
    assert_fails(attune_problem_check(&interleaved), beyond, "may put two elements");
}

/* Along one element, and where there is none, a stride is multiplied by nothing. */
static void strides_without_effect_are_ignored(void **user)
{
    (void)user;
    attune_problem p;
    attune_problem_init(&p, ATTUNE_F32, 1, 1, 1, 1, 1, 1, 1);
    int64_t *const strides[] = {p.q_strides, p.k_strides, p.v_strides, p.o_strides};
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < ATTUNE_RANK; i++) strides[t][i] = INT64_MIN + i;
    assert_ok(attune_problem_check(&p));
    p.seqlen_k = 0;
    assert_ok(attune_problem_check(&p));
    p.seqlen_q = 2;
    assert_fails(attune_problem_check(&p), ATTUNE_INVALID_ARGUMENT, "q_strides[seq]");
}

/* ---- the problem string ---- */

static void assert_round_trip(const attune_problem *problem)
{
    char text[1024];
    const size_t length = attune_problem_print(problem, text, sizeof text);
    assert_int_equal(length, strlen(text));
    const attune_problem back = parse(text);
    if (memcmp(&back, problem, sizeof back) != 0) fail_msg("%s parses to another problem", text);
}

static uint64_t random_state = 20;

static int64_t pick(int64_t first, int64_t last)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return first + (int64_t)((random_state >> 33) % (uint64_t)(last - first + 1));
}

static void random_problems_come_back(void **user)
{
    (void)user;
    for (int i = 0; i < 20000; i++) {
        const int64_t heads_kv = pick(1, 9);
        attune_problem p;
        attune_problem_init(&p, (attune_dtype)pick(0, 2), pick(0, 5), heads_kv * pick(1, 9),
                            heads_kv, pick(0, INT32_MAX), pick(0, 99), pick(1, 256), pick(1, 256));
        if (pick(0, 1)) p.head_dim_v = p.head_dim;
        p.mask = (attune_mask)pick(0, 2);
        p.return_lse = (int32_t)pick(0, 1);
        attune_problem_set_layout(&p, (attune_layout)pick(0, 1));
        if (pick(0, 1))
            p.softmax_scale = ldexp((double)pick(-INT32_MAX, INT32_MAX), (int)pick(-200, 60));
        if (pick(0, 3) == 0) p.softmax_scale = (double)pick(-100, 100) / 10;
        int64_t *const strides[] = {p.q_strides, p.k_strides, p.v_strides, p.o_strides};
        for (int t = 0; t < 4; t++)
            if (pick(0, 2) == 0) strides[t][pick(0, 3)] = pick(0, INT32_MAX) * pick(0, 1000000);
        assert_round_trip(&p);
    }
}

static void defaults_are_left_out(void **user)
{
    (void)user;
    const char *const texts[] = {
        "op=forward,b=2,hq=8,hkv=2,sq=128,sk=1024,d=64,dtype=f16,mask=causal",
        "op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32",
        "op=forward,b=2,hq=4,hkv=4,sq=3,sk=5,d=9,dv=8,dtype=bf16,mask=causal-top-left,scale=0.1",
        "op=forward,b=2,hq=4,hkv=4,sq=3,sk=5,d=64,dv=32,dtype=f32,lse=1,layout=bhsd",
        "op=forward,b=2,hq=4,hkv=4,sq=3,sk=5,d=64,dtype=f32,scale=0,k_strides=0:64:0:1",
        "op=forward,b=2,hq=4,hkv=4,sq=3,sk=5,d=64,dtype=f32,scale=-1e-20",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[TEXT_SIZE];
        const attune_problem problem = parse(texts[i]);
        attune_problem_print(&problem, text, sizeof text);
        assert_string_equal(text, texts[i]);
    }
    const attune_problem spelled = parse("sk=5,sq=3,lse=0,dv=64,hq=4,layout=bshd,hkv=4,d=64,mask="
                                         "none,dtype=f32,b=2,op=forward,scale=0.125");
    char text[TEXT_SIZE];
    attune_problem_print(&spelled, text, sizeof text);
    assert_string_equal(text, "op=forward,b=2,hq=4,hkv=4,sq=3,sk=5,d=64,dtype=f32");
}

static void printing_cuts_and_counts(void **user)
{
    (void)user;
    const attune_problem problem = usual();
    char whole[TEXT_SIZE], part[TEXT_SIZE];
    const size_t length = attune_problem_print(&problem, whole, sizeof whole);
    assert_int_equal(attune_problem_print(&problem, NULL, 0), length);
    for (size_t size = 1; size <= length + 1; size++) {
        memset(part, '#', sizeof part);
        assert_int_equal(attune_problem_print(&problem, part, size), length);
        assert_int_equal(strlen(part), size - 1);
        assert_memory_equal(part, whole, size - 1);
        assert_int_equal(part[size], '#');
    }
    assert_int_equal(attune_problem_print(NULL, part, sizeof part), 0);
    assert_string_equal(part, "");
}

static void legal_problems_fit_512_bytes(void **user)
{
    (void)user;
    attune_problem p;
    attune_problem_init(&p, ATTUNE_BF16, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, 2147482624,
                        254, 255);
    p.mask = ATTUNE_MASK_CAUSAL_TOP_LEFT;
    p.softmax_scale = -1.1234567890123456e-300;
    p.return_lse = 1;
    int64_t *const strides[] = {p.q_strides, p.k_strides, p.v_strides, p.o_strides};
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < ATTUNE_DIM; i++) strides[t][i] = INT32_MAX / 2;
    assert_true(attune_problem_print(&p, NULL, 0) < TEXT_SIZE);
    assert_round_trip(&p);
}

static void parse_errors_name_the_key(void **user)
{
    (void)user;
    const struct {
        const char *text, *part;
    } cases[] = {
        {"", "\"\" is no key=value"},
        {"b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "\"op\" is missing"},
        {"op=forward,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "\"b\" is missing"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1", "\"dtype\" is missing"},
        {"op=backward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "op=backward"},
        {"op=forward,b=one,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "b=one"},
        {"op=forward,b=1x,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "b=1x"},
        {"op=forward,b= 1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "b= 1"},
        {"op=forward,b=+1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "b=+1"},
        {"op=forward,b=,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "b=; an integer"},
        {"op=forward,b=9223372036854775808,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32",
         "b=9223372036854775808"},
        {"op=forward,b=1,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32", "\"b\" is given twice"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f64", "dtype=f64; f32, f16 or bf16"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,mask=diagonal",
         "mask=diagonal; none, causal or"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=inf", "scale=inf"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=nan", "scale=nan"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=0x1p3", "scale=0x1p3"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=1e999", "scale=1e999"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=", "scale="},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=e", "scale=e"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,lse=yes", "lse=yes; 0 or 1"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,layout=dshb", "layout=dshb"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,q_strides=1:2:3",
         "q_strides=1:2:3; batch:seq:head:dim"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,o_strides=1:2:3:4:5",
         "o_strides=1:2:3:4:5"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,colour=red", "unknown key \"colour\""},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,causal", "\"causal\" is no key=value"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,", "\"\" is no key=value"},
        {"op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,=1", "unknown key \"\""},
        {"a=,b=,c=,d=,e=,f=,g=,h=,i=,j=,k=,l=,m=,n=,o=,p=,q=,r=,s=,t=,u=,v=", "unknown key \"u\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune_problem problem, untouched;
        memset(&problem, 0x5a, sizeof problem);
        memset(&untouched, 0x5a, sizeof untouched);
        assert_fails(attune_problem_parse(cases[i].text, &problem), ATTUNE_INVALID_ARGUMENT,
                     cases[i].part);
        assert_memory_equal(&problem, &untouched, sizeof problem);
    }
}

/* A program's locale may write 0,1: the problem string does not. */
static void scale_is_spelled_in_no_locale(void **user)
{
    (void)user;
    const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "it_IT.UTF-8",
                                 "de_DE"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && set == NULL; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (set == NULL) {
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }
    const attune_problem problem =
        parse("op=forward,b=1,hq=1,hkv=1,sq=1,sk=1,d=1,dtype=f32,scale=0.75");
    char text[TEXT_SIZE], number[16];
    attune_problem_print(&problem, text, sizeof text);
    snprintf(number, sizeof number, "%g", 0.75);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(number, "0,75");
    assert_true(problem.softmax_scale == 0.75);
    assert_contains(text, "scale=0.75");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_sets_the_defaults),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(semantics_are_checked),
        cmocka_unit_test(strides_are_checked),
        cmocka_unit_test(output_elements_share_no_place),
        cmocka_unit_test(strides_without_effect_are_ignored),
        cmocka_unit_test(random_problems_come_back),
        cmocka_unit_test(defaults_are_left_out),
        cmocka_unit_test(printing_cuts_and_counts),
        cmocka_unit_test(legal_problems_fit_512_bytes),
        cmocka_unit_test(parse_errors_name_the_key),
        cmocka_unit_test(scale_is_spelled_in_no_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
