/* A problem on host memory, ready to run on cpu. Every function fails the running test where
 * something fails. */
#ifndef ATTUNE_TESTS_API_FIXTURE_H
#define ATTUNE_TESTS_API_FIXTURE_H

#include <attune/attune.h>
#include <attune/device.h>
#include <attune/numerics.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct fixture {
    attune_problem problem;
    attune_forward_tensors
        tensors; /* host memory; q, k and v are filled, o and lse hold NaN everywhere */
    size_t o_bytes, lse_bytes;
} fixture;

/* Asserts a status, and prints the detail where it is another. */
#define assert_status(call, expected)                                                              \
    do {                                                                                           \
        const attune_status status_of_call = (call);                                               \
        if (status_of_call != (expected))                                                          \
            fail_msg("%s gives %s (%s), not %s", #call, attune_status_name(status_of_call),        \
                     attune_error_detail(), attune_status_name(expected));                         \
    } while (0)
#define assert_ok(call) assert_status(call, ATTUNE_OK)

/* Asserts a failure whose detail contains `part`. */
#define assert_fails(call, expected, part)                                                         \
    do {                                                                                           \
        assert_status(call, expected);                                                             \
        assert_contains(attune_error_detail(), part);                                              \
    } while (0)
#define assert_contains(text, part) assert_contains_at(text, part, __FILE__, __LINE__)
void assert_contains_at(const char *text, const char *part, const char *file, int line);

attune_context *open_cpu(const attune_context_options *options);

attune_problem parse(const char *text);

/* Buffers for a problem, with the normal fill. */
fixture fixture_make(attune_context *context, const attune_problem *problem);
void fixture_free(fixture *f);
/* Writes NaN into o and lse. */
void fixture_poison(fixture *f);

/* Runs on cpu in one shot. */
void fixture_run(attune_context *context, fixture *f);
/* Judges o and lse against the oracle. */
void fixture_judge(attune_context *context, const fixture *f);
/* o and lse of the two have the same bits. */
void assert_same_bits(const fixture *a, const fixture *b);

#endif
