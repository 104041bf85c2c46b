/* The judge: an oracle in double precision, standard attention in working precision, a componentwise error bound, metrics and
 * input fills. Everything works on host memory, shares nothing with the kernels and needs no device.
 *
 * For one query row with scores s_j = scale · Σ_d q_d k_jd over the visible keys, m = max s_j, l = Σ exp(s_j - m),
 * P_j = exp(s_j - m) / l, O_d = Σ_j P_j v_jd and LSE = m + ln l, an output Ô is accepted where |Ô_d - O_d| <= B_d:
 *
 *   theta_j = |scale| (n_s · u_acc + 2 u_in) Σ_d |q_d k_jd|  +  3·2^-24 (|s_j| + |m|)  +  eps_exp  relative error of p_j
 *   B_d     = (u_out + 2^-23) |O_d|  +  Σ_j P_j theta_j |v_jd - O_d|  +  (u_p + u_in + n_pv · u_acc) Σ_j P_j |v_jd|
 *             +  n_pv · 2^-24 |O_d|  +  (eta_p + 2^-124) Σ_j (|v_jd| + |O_d|) / l  +  n_pv · 2^-149 / l  +  u_in · 2^-126  +  tiny
 *   B_LSE   = Σ_j P_j theta_j  +  n · 2^-24  +  2^-24 |LSE|                                        n visible keys
 *
 * u_in is 0 but for units that read their operands in a shorter format: then q and k each bring u_in to every product, and v brings it to its own.
 *
 * Four terms speak of underflow. `tiny` is half the smallest subnormal of the output's type: a stored output cannot be nearer. u_in · 2^-126
 * is half the distance of a shorter format's subnormals, which v may have been rounded to. 2^-124 is
 * what kernels may drop of a p_j that is no normal fp32 number (2^-125, against a max of up to one octave above m), and with it of the sum that
 * divides O. 2^-149 / l is what one accumulation step loses there (2^-150, l likewise).
 *
 * A unit that may take subnormals for 0, in its operands, products or sums, adds `flushes` times the sum `flushed` of attune_error_terms to both
 * bounds: all that subnormal q, k and v make, exactly and not of first order (a large q times a subnormal k is no small score), and 2^-126 for
 * each operation that may lose as much.
 *
 * The bound is a linear combination of sums that do not depend on the kernel, so one pass of the oracle serves every kernel that is judged against
 * it. It is of first order in theta_j, so it says nothing where theta_j nears 1:
 * beyond scores of 1e6 in fp32, of 1e3 where scores are rounded to 16 bits or inputs to tf32.
 * Outputs of two kernels must agree within the sum of their bounds.
 */
#ifndef ATTUNE_NUMERICS_H
#define ATTUNE_NUMERICS_H

#include "attune/attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- how a computation rounds ---- */

typedef struct attune_arithmetic {
    double u_out; /* unit roundoff of the stored output: 2^-24 f32, 2^-11 f16, 2^-8 bf16 */
    double
        u_in; /* unit roundoff of q, k and v as the unit reads them: 2^-11 where it takes f32 as tf32, 0 where it takes what is stored */
    double u_p; /* unit roundoff of P as it enters the second product */
    double
        eta_p; /* 2^-25 where P is rounded to f16 (underflow), 2^-14 where it is then taken for 0, else 0 */
    double
        flushes; /* 1 where the unit may take what is subnormal (in its type, as it is stored) for 0, else 0 */
    double u_acc;   /* relative error of one accumulation step: 2^-24 for an FMA */
    double eps_exp; /* relative error of the exponential: 2^-23 libm quality, 2^-22 fast exp2 */
    double n_s;     /* accumulation steps of Q Kᵀ */
    double n_pv;    /* accumulation steps of P V, plus the number of key blocks */
} attune_arithmetic;

/* Of the kernel that a plan runs. */
ATTUNE_API attune_status attune_plan_arithmetic(const attune_plan *plan,
                                                attune_arithmetic *arithmetic);
/* Of attune_standard_forward. */
ATTUNE_API void attune_standard_arithmetic(const attune_problem *problem,
                                           attune_arithmetic *arithmetic);

/* ---- oracle ---- */

/* The parts of the bound that do not depend on the kernel, for one output element (or, with v = 1 and O = 0, for one LSE). `score` is infinity
 * where fp32 cannot hold a score, in octaves or without the scale, or Σ_j exp(s_j - m) |v_jd|: nothing is promised there and any output is
 * accepted. */
typedef struct attune_error_terms {
    double
        score; /* Σ_j P_j |scale| Σ_d |q_d k_jd| · |v_jd - O_d|   multiplies n_s · u_acc + 2 u_in */
    double magnitude; /* Σ_j P_j (|s_j| + |m|) · |v_jd - O_d|            multiplies 3 · 2^-24 */
    double spread;    /* Σ_j P_j |v_jd - O_d|                            multiplies eps_exp */
    double
        values; /* Σ_j P_j |v_jd|                                  multiplies u_p + u_in + n_pv · u_acc */
    double
        underflow; /* Σ_j (|v_jd| + |O_d|) / l                        multiplies eta_p + 2^-124 */
    double peak;   /* 1 / l, the largest P_j                          multiplies n_pv · 2^-149 */
    double
        flushed; /* min(Σ_j P_j (e^f_j - 1) |v_jd - O_d| / Σ_j P_j e^-f_j, max_j |v_jd - O_d|)  +  Σ_j P_j |v_jd| over subnormal v_jd
                    +  n · 2^-123 / l, of LSE ln Σ_j P_j e^f_j  +  n · 2^-123 / l, with f_j = (1 + 2^-6)
                    |scale| (Σ_d |q_d k_jd| over subnormal q_d or k_jd  +  head_dim · 2^-124)   multiplies flushes */
} attune_error_terms;

/* The exact answer for a problem's inputs, packed: o[batch][seqlen_q][heads_q][head_dim_v], lse[batch][heads_q][seqlen_q]; terms
 * likewise. Read only. A hidden key is never read. A row without keys has o = 0, lse = -inf and zero terms, and so has one whose visible
 * scores are all -inf. NaN or infinity in a visible input gives what IEEE arithmetic gives for the row: a score of NaN or +inf makes it NaN, a
 * score of -inf gives its key P = 0, and P = 0 times a visible NaN or infinity is NaN. */
typedef struct attune_reference {
    attune_problem problem;
    double *o;
    double *lse;
    attune_error_terms *o_terms;
    attune_error_terms *lse_terms;
    int64_t *visible; /* [batch][heads_q][seqlen_q] number of keys that the row sees */
} attune_reference;

/* One row: o[head_dim_v], o_terms[head_dim_v]; the other outputs are single values. q, k, v are host arrays in the problem's dtype and
 * strides. Any output may be NULL. O(seqlen_k · (head_dim + head_dim_v)) time, O(seqlen_k) memory: for samples of long problems. */
ATTUNE_API attune_status attune_reference_row(const attune_problem *problem, const void *q,
                                              const void *k, const void *v, int64_t batch,
                                              int64_t head, int64_t row, double *o,
                                              attune_error_terms *o_terms, double *lse,
                                              attune_error_terms *lse_terms, int64_t *visible);

/* Every row, in parallel. */
ATTUNE_API attune_status attune_reference_create(const attune_problem *problem, const void *q,
                                                 const void *k, const void *v,
                                                 attune_reference **reference);
ATTUNE_API void attune_reference_destroy(attune_reference *reference);

/* The bounds B_d and B_LSE from an element's exact value and terms. */
ATTUNE_API double attune_bound_o(const attune_arithmetic *arithmetic,
                                 const attune_error_terms *terms, double o, attune_dtype dtype);
ATTUNE_API double attune_bound_lse(const attune_arithmetic *arithmetic,
                                   const attune_error_terms *terms, double lse, int64_t visible);

/* Standard attention in working precision: materialised scores rounded to fp32 (f32) or to the dtype (f16, bf16), softmax in fp32, P rounded
 * to the dtype, both products accumulated in fp32: what a user gets from the three-step form. o in the problem's dtype and strides,
 * lse packed or NULL. */
ATTUNE_API attune_status attune_standard_forward(const attune_problem *problem, const void *q,
                                                 const void *k, const void *v, void *o, float *lse);

/* ---- verdict ---- */

#define ATTUNE_VERDICTS(X)                                                                         \
    X(PASS, "every element within its bound")                                                      \
    X(MARGINAL, "within, but an error takes more than 0.8 of what its bound leaves beyond "        \
                "rounding the output")                                                             \
    X(FAIL, "some element beyond its bound, not written, or NaN where it must not be")             \
    X(MISTRUSTED,                                                                                  \
      "within, but so would one constant be: the output is too uniform to prove anything")         \
    X(SKIPPED, "not run, with a reason")

typedef enum attune_verdict {
#define ATTUNE_VERDICT_MEMBER(name, meaning) ATTUNE_VERDICT_##name,
    ATTUNE_VERDICTS(ATTUNE_VERDICT_MEMBER)
#undef ATTUNE_VERDICT_MEMBER
} attune_verdict;

/* "PASS" and so on. Static. */
ATTUNE_API const char *attune_verdict_name(attune_verdict verdict);

typedef struct attune_metrics {
    attune_verdict verdict;
    double
        bound_ratio; /* largest |error| / bound over o, both less half a unit in the last place: correct rounding to the stored type is 0,
                        anything up to 1 is within the bound; infinity where a NaN or an unwritten element is wrong */
    double
        max_abs; /* largest |error| of o; this and the next three leave out elements that are NaN or not finite in the exact answer */
    double rms_rel; /* rms(error) / rms(O) */
    double
        max_ulp; /* largest |error| in units in the last place of the output's type at the exact value */
    double bias;        /* mean(error) / rms(error): 0 for unbiased rounding */
    double lse_max_abs; /* 0 when no lse was judged */
    double lse_bound_ratio;
    int64_t worst[4]; /* (batch, seq, head, dim) of bound_ratio */
    int64_t elements; /* of o that were judged */
    int64_t
        differ; /* attune_judge_pair: elements of o and lse whose bits differ (any NaN equals any NaN); else 0 */
} attune_metrics;

/* Judges o (the problem's dtype and strides, host) and lse (packed fp32, NULL: not judged) against the exact answer. An output that may be left
 * unwritten is filled with NaN by the caller before the run. Where O is NaN, Ô must be NaN; where O is infinite, the same infinity or NaN
 * (0 · inf, where P underflows). An infinity in Ô counts as the least number that rounds to it: where O overflows the type, Ô must be the
 * infinity of its sign, except within the bound of the largest finite number. An lse of -inf must be -inf. */
ATTUNE_API attune_status attune_judge(const attune_reference *reference,
                                      const attune_arithmetic *arithmetic, const void *o,
                                      const float *lse, attune_metrics *metrics);

/* Judges two outputs against each other: error = a - b, bound = the sum of the bounds, relative figures against the exact answer. Where one
 * is NaN and the exact answer is not, they do not agree. lse is judged where both are given. */
ATTUNE_API attune_status attune_judge_pair(const attune_reference *reference,
                                           const attune_arithmetic *arithmetic_a, const void *o_a,
                                           const float *lse_a,
                                           const attune_arithmetic *arithmetic_b, const void *o_b,
                                           const float *lse_b, attune_metrics *metrics);

/* ---- fills ---- */

#define ATTUNE_FILLS(X)                                                                            \
    X(normal, "N(0,1): the everyday case")                                                         \
    X(outlier, "N(0,1) + N(0,100) with probability 0.001: what real activations do")               \
    X(ramp, "the row max rises in every key block: every rescale must happen")                     \
    X(needle, "each query picks one known key almost one-hot: index errors show at any length")    \
    X(peaked, "Q·8: scores beyond the comfortable range of exp")                                   \
    X(huge, "scores beyond the range of f16, and below -5e4 in every block: sentinels and f16 "    \
            "scores break")                                                                        \
    X(tied, "several keys tie at the row max: biased rounding of P")                               \
    X(offset, "V + 5: truncating accumulation shows as bias growing with length")                  \
    X(constant, "every key has the same V, which O must equal: a wrong denominator shows")         \
    X(lastdim, "signal only in the last head dimension: unused lanes show")                        \
    X(denormal, "denormal V and tiny P: flushing differs between vendors")                         \
    X(poison, "NaN in everything that a mask hides from every row or that padding holds")

/* What each fill does beyond its line, for every type and any scale that is not 0; N(0,1) is a sum of twelve uniform numbers, within ±6.
 *   outlier   the first element of every batch and head is an outlier too, so that small tensors have one
 *   ramp      scores rise by 1 (1.44 octaves) every 16 keys, plus a little noise; with head_dim 1 only as finely as the type counts
 *   needle    row i looks for the last key it sees (i mod 4 = 0), the first (2) or any (1, 3); with head_dim 1 for the largest
 *   huge      in rows 0, 2, … every score is in [-2.1e5, -7.2e4], in rows 1, 3, … in [7.2e4, 2.1e5]; the largest one stands apart
 *   tied      every fifth key and the last are equal, and above all others; V is N(2,1), so that a biased P is not averaged away
 *   constant  v_jd = d + 1
 *   denormal  V are subnormals of the problem's type, none 0; Q·8
 *   poison    as normal; and where the last key is seen by the last row alone, it is NaN too: that row is NaN and no other
 * Where the type cannot hold what a tiny scale asks for, scores are as large as it can. */
typedef enum attune_fill {
#define ATTUNE_FILL_MEMBER(name, exposes) ATTUNE_FILL_##name,
    ATTUNE_FILLS(ATTUNE_FILL_MEMBER)
#undef ATTUNE_FILL_MEMBER
        ATTUNE_FILL_COUNT
} attune_fill;

/* "normal" and so on; NULL for a value that is no fill. Static. */
ATTUNE_API const char *attune_fill_name(attune_fill fill);
/* The fill of that name, or -1. */
ATTUNE_API int attune_fill_find(const char *name);

/* Writes the inputs of a problem into host arrays of its dtype and strides, places between strided elements included when the fill is poison
 * (NaN there). q, k and v may be views of one buffer. The values are a pure function of (fill, seed, tensor, index), with the same bits on
 * every platform: no size of the problem matters but those that a fill names, and an index along a broadcast dimension counts as 0. */
ATTUNE_API attune_status attune_fill_inputs(const attune_problem *problem, attune_fill fill,
                                            uint64_t seed, void *q, void *k, void *v);

/* Elements that a tensor with the given sizes (batch, seq, head, dim) and strides spans: 1 + Σ (size - 1) · stride, 0 when a size is 0,
 * INT64_MAX where that overflows. */
ATTUNE_API int64_t attune_span(const int64_t sizes[ATTUNE_RANK],
                               const int64_t strides[ATTUNE_RANK]);

/* Conversions between fp32 and storage types, round to nearest even, exact for subnormals, NaN stays NaN. `count` elements. */
ATTUNE_API void attune_convert_from_f32(attune_dtype dtype, const float *from, void *to,
                                        size_t count);
ATTUNE_API void attune_convert_to_f32(attune_dtype dtype, const void *from, float *to,
                                      size_t count);

#ifdef __cplusplus
}
#endif
#endif
