/* How matrix units add: models of one fused multiplication, element by element. */
#ifndef ATTUNE_EMULATED_MATRIX_UNIT_H
#define ATTUNE_EMULATED_MATRIX_UNIT_H

typedef enum unit_type { UNIT_F16, UNIT_BF16, UNIT_TF32, UNIT_TYPES } unit_type;

/* `bits` 0: products and sums are formed in double precision, c first, then k in increasing order, and rounded to nearest once an instruction.
 * The sum of 17 numbers of like size is then right to the last bit; it is also what tests' stand-in for NVIDIA's driver does.
 *
 * Else an instruction is a chain of fused steps, k in increasing order, the sum of one the c of the next. In a step the products, exact, and c
 * are aligned to the largest exponent among them, that of a product being the sum of its factors' and that of 0 none; what lies below
 * 2^(exponent - bits) is cut off each of them; they are added exactly; and the sum is cut to 24 bits. */
typedef struct matrix_unit {
    int bits;
    int step[UNIT_TYPES]; /* products of a fused step */
} matrix_unit;

/* One rounding an instruction. */
extern const matrix_unit matrix_unit_exact __attribute__((visibility("hidden")));
/* A100 as measured in M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021; H100 as in F. Khattak,
 * M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025. */
extern const matrix_unit matrix_unit_ampere __attribute__((visibility("hidden")));
extern const matrix_unit matrix_unit_hopper __attribute__((visibility("hidden")));

/* c + Σ a[i] b[i], i < k, of elements of that type; an infinite or undefined sum as IEEE arithmetic has it. */
float matrix_unit_sum(const matrix_unit *unit, unit_type type, const float *a, const float *b,
                      int k, float c);

#endif
