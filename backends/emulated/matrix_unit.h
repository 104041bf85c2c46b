/* How matrix units add: models of one fused multiplication, element by element. */
#ifndef ATTUNE_EMULATED_MATRIX_UNIT_H
#define ATTUNE_EMULATED_MATRIX_UNIT_H

#include <stdint.h>

typedef enum unit_type { UNIT_F16, UNIT_BF16, UNIT_TF32, UNIT_TYPES } unit_type;

/* An instruction is a chain of steps of `products` each, k in increasing order, the sum of one the c of the next. */
typedef struct matrix_unit {
    float (*step)(const struct matrix_unit *unit, unit_type type, const float *a, const float *b,
                  int k, float c);
    int products[UNIT_TYPES]; /* 0: all of an instruction */
    int bits;                 /* what a fused step keeps below the largest exponent */
} matrix_unit;

/* Products and sums are formed in double precision, c first, and rounded to nearest once an instruction. The sum of 17 numbers of like size is
 * then right to the last bit; it is also what tests' stand-ins for the drivers of NVIDIA and AMD do. */
extern const matrix_unit matrix_unit_exact __attribute__((visibility("hidden")));

/* In a fused step the products, exact, and c are aligned to the largest exponent among them, that of a product being the sum of its factors' and
 * that of 0 none; what lies below 2^(exponent - bits) is cut off each of them; they are added exactly; and the sum is cut to 24 bits.
 * A100 as measured in M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021; H100 as in F. Khattak,
 * M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025. */
extern const matrix_unit matrix_unit_ampere __attribute__((visibility("hidden")));
extern const matrix_unit matrix_unit_hopper __attribute__((visibility("hidden")));

/* AMD's MFMA of f16 and of bf16 (the _1k forms), as measured in P. Xie, Y. Wang, F. Yang, M. Yang, "MMA-Sim: Bit-Accurate Reference Model of
 * Tensor Cores and Matrix Cores", 2025, and its code.
 *
 * MI200 (gfx90a): four products are added in a tree, (0 + 1) + (2 + 3), and then to c, each operation in single precision, to nearest. Nothing is
 * subnormal: elements of A and B below the least normal number of their type, and c below that of single precision, count as +0; a product or
 * a sum that would be subnormal is 0 of its sign. (MIOpen, "MI200 MFMA behavior specifics", says so of inputs and outputs.)
 *
 * MI300 (gfx942): eight products are aligned to the largest exponent among them, E, cut toward zero below 2^(E - 24) and added exactly. With F the
 * larger of E and c's exponent, that sum is rounded down to a multiple of 2^(F - 31), c down to one of 2^(F - 24), and their sum to nearest.
 * Subnormals count. A product of 2^128 and more is infinite. */
extern const matrix_unit matrix_unit_cdna2 __attribute__((visibility("hidden")));
extern const matrix_unit matrix_unit_cdna3 __attribute__((visibility("hidden")));

/* The element in the low half of a word, or with `half` 1 in the high one; tf32 is the whole word. */
float matrix_unit_element(unit_type type, uint32_t word, int half);

/* c + Σ a[i] b[i], i < k, of elements of that type; an infinite or undefined sum as IEEE arithmetic has it. */
float matrix_unit_sum(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                      int k, float c);

#endif
