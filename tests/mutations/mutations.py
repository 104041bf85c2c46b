"""The faults that mutate.py plants in engines without matrix units, each with the test that must catch it."""

from mutation import ALIGNED, CAUSAL, PLAIN, Check, Mutation

VECTOR, SIMT = "engine/vector.j2", "engine/simt.j2"
SIMT_CHECK = {"kernel": "forward_*_d64_simt_q16k16t64", "target": "opencl"}


def on_cuda(mode, problem=PLAIN, fill="normal", dtype="f32"):
    """A check on the stand-in driver, with several warps and tiles."""
    return Check("suite", problem, fill, dtype, "forward_*_d64_simt_q32k32t128", "cuda", mode)


MUTATIONS = [
    Mutation(
        "output is not rescaled",
        VECTOR,
        "vec_mul(vec_load(o->at[r] + d), rescale)",
        "vec_load(o->at[r] + d)",
        Check("suite", PLAIN, "ramp"),
    ),
    Mutation(
        "sum is not rescaled",
        VECTOR,
        "l[c] = vec_mul(rows->l[r][c], rescale);",
        "l[c] = rows->l[r][c];",
        Check("suite", PLAIN, "ramp"),
    ),
    Mutation(
        "last key of a tile is dropped",
        VECTOR,
        "panel_multiply(sum, s->at[top], BLOCK_K, panel, common);",
        "panel_multiply(sum, s->at[top], BLOCK_K, panel, common - 1);",
        Check("suite", PLAIN, "needle"),
    ),
    Mutation(
        "two rows of V are swapped",
        VECTOR,
        "t->v + row_address(args->v, batch, key + j, head_kv)",
        "t->v + row_address(args->v, batch, key + (j < 2 && keys > 1 ? 1 - j : j), head_kv)",
        Check("suite", PLAIN, "needle"),
    ),
    Mutation(
        "scale is wrong by 1 %",
        VECTOR,
        "vec_set(args->scale_log2)",
        "vec_set(args->scale_log2 * 1.01f)",
        Check("suite", PLAIN, "normal"),
    ),
    Mutation(
        "output accumulates in f16",
        VECTOR,
        "vec_store(o->at[top + r] + first + c * LANES, sum[r][c]);\n",
        "{ vec_store(o->at[top + r] + first + c * LANES, sum[r][c]);"
        " for (int i = 0; i < LANES; i++) o->at[r][first + c * LANES + i] ="
        " widen_f16(narrow_f16(o->at[r][first + c * LANES + i])); }\n",
        Check("suite", PLAIN, "normal"),
    ),
    Mutation(
        "tail is not masked",
        VECTOR,
        "j < s->width; j++) s->at[r][j] = -F32_INFINITY;",
        "j < 0; j++) s->at[r][j] = -F32_INFINITY;",
        Check("suite", PLAIN, "constant"),
    ),
    Mutation(
        "causal sees one key more",
        "block.j2",
        "(int64)row + 1 + args->diagonal",
        "(int64)row + 2 + args->diagonal",
        Check("suite", CAUSAL, "normal"),
    ),
    Mutation(
        "causal sees one key less",
        "block.j2",
        "(int64)row + 1 + args->diagonal",
        "(int64)row + args->diagonal",
        Check("suite", CAUSAL, "normal"),
    ),
    Mutation(
        "max starts at a finite number",
        VECTOR,
        "rows->m[r] = -F32_INFINITY;",
        "rows->m[r] = -1e4f;",
        Check("suite", PLAIN, "huge"),
    ),
    Mutation(
        "hidden scores are a finite number",
        VECTOR,
        "s->at[r][j] = -F32_INFINITY;",
        "s->at[r][j] = -1e4f;",
        Check("suite", PLAIN, "huge"),
    ),
    Mutation(
        "hidden values are multiplied by 0",
        VECTOR,
        "j < keys_visible(args, at, r, key); j++)\n                    for (int d",
        "j < s->width && key + j < args->seqlen_k; j++)\n                    for (int d",
        Check("suite", CAUSAL, "poison"),
    ),
    Mutation(
        "query heads read the wrong key head",
        "block.j2",
        "at.head_kv = at.head / (args->heads_q / args->heads_kv);",
        "at.head_kv = at.head % args->heads_kv;",
        Check("suite", "op=forward,b=1,hq=4,hkv=2,sq=9,sk=33,d=64,dtype=f32,lse=1"),
    ),
    Mutation(
        "LSE lacks the max",
        VECTOR,
        "log_scaled(l, rows->m[r])",
        "log_scaled(l, 0.0f)",
        Check("suite", PLAIN, "peaked"),
    ),
    Mutation(
        "LSE is in log2 units",
        VECTOR,
        "log_scaled(l, rows->m[r])",
        "(log_scaled(l, rows->m[r]) * 1.4426950f)",
        Check("suite", PLAIN),
    ),
    Mutation(
        "exponential is of degree 4",
        "arithmetic.j2",
        "FMA(SET(.000154614449f), x, SET(.0013400428f))",
        "SET(0.0f)",
        Check("suite", "op=forward,b=1,hq=1,hkv=1,sq=64,sk=9,d=40,dtype=f32,lse=1"),
    ),
    Mutation(
        "max is not an integer",
        VECTOR,
        "ceil_f32(vec_max_lanes(top))",
        "vec_max_lanes(top)",
        Check("same_bits", PLAIN, "ramp"),
    ),
    Mutation(
        "exponential is taken of the score minus the max",
        VECTOR,
        "n = vec_rint(score), x = vec_sub(score, n);",
        "n = vec_add(vec_rint(vec_sub(score, m)), m), x = vec_sub(vec_sub(score, m), vec_sub(n, m));",
        Check("same_bits", PLAIN, "normal"),
    ),
    Mutation(
        "sum is folded in the order of the lanes",
        "arithmetic.j2",
        "return (y[0] + y[2]) + (y[1] + y[3]);",
        "return THIS_KERNEL_FOLDS_OTHERWISE ? (y[0] + y[1]) + (y[2] + y[3])"
        " : (y[0] + y[2]) + (y[1] + y[3]);",
        Check("same_bits", PLAIN, "normal"),
    ),
    Mutation(
        "bf16 is truncated",
        "arithmetic.j2",
        "const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;",
        "const unsigned rounded = bits >> 16;",
        Check("suite", PLAIN, "normal", "bf16"),
    ),
    Mutation(
        "f16 subnormals are flushed",
        "arithmetic.j2",
        "(float)(int)magnitude * 0x1p-24f",
        "0.0f",
        Check("suite", PLAIN, "denormal", "f16"),
    ),
    Mutation(
        "last row is not written",
        VECTOR,
        "for (int r = 0; r < at->rows; r++) {\n        GLOBAL storage *to",
        "for (int r = 0; r < at->rows - 1; r++) {\n        GLOBAL storage *to",
        Check("suite", PLAIN),
    ),
    Mutation(
        "NaN does not reach LSE",
        "arithmetic.j2",
        "return x == x ? y : x;",
        "return y;",
        Check("hygiene"),
    ),
    Mutation(
        "infinite values become NaN",
        "arithmetic.j2",
        "return q == F32_INFINITY || q == -F32_INFINITY ? q : corrected;",
        "return corrected;",
        Check("hygiene"),
    ),
    Mutation(
        "simt: output is not rescaled",
        SIMT,
        "o->at[r][d] * rows->rescale[r]",
        "o->at[r][d]",
        Check("suite", PLAIN, "ramp", **SIMT_CHECK),
    ),
    Mutation(
        "simt: hidden scores are not hidden",
        SIMT,
        "if (c * 16 + LANE >= visible)",
        "if (c * 16 + LANE > visible)",
        Check("suite", CAUSAL, "normal", **SIMT_CHECK),
    ),
    Mutation(
        "simt: hidden values are multiplied by 0",
        SIMT,
        "if (j < keys_visible(args, at, FIRST_ROW + ROW(r), key))",
        "if (j < seen)",
        Check("suite", CAUSAL, "poison", **SIMT_CHECK),
    ),
    Mutation(
        "simt: rows read each other's keys",
        SIMT,
        "LOCAL const float *keys = fast_keys(t) + LANE * TILE_WIDTH;",
        "LOCAL const float *keys = fast_keys(t) + (LANE ^ 1) * TILE_WIDTH;",
        Check("suite", PLAIN, "needle", **SIMT_CHECK),
    ),
    Mutation(
        "simt: keys are staged before the last values have been read",
        SIMT,
        "BARRIER(); /* the previous tile's values and probabilities have been read */",
        "",
        on_cuda("race"),
    ),
    Mutation(
        "simt: scores do not wait for the keys",
        SIMT,
        "args->seqlen_k - key,\n              args->head_dim);\n    BARRIER();",
        "args->seqlen_k - key,\n              args->head_dim);",
        on_cuda("race"),
    ),
    Mutation(
        "simt: values are staged before the keys have been read",
        SIMT,
        "BARRIER(); /* the keys have been read */",
        "",
        on_cuda("race"),
    ),
    Mutation(
        "simt: output does not wait for the values",
        SIMT,
        "args->seqlen_k - key,\n              args->head_dim_v);\n    BARRIER();",
        "args->seqlen_k - key,\n              args->head_dim_v);",
        on_cuda("seed-1"),
    ),
    Mutation(
        "simt: output is stored before all of it is there",
        SIMT,
        "    BARRIER();\n    tile_store(",
        "    tile_store(",
        on_cuda("race"),
    ),
    Mutation(
        "simt: chunks of two rows are swapped in a tile of 16-bit types",
        SIMT,
        "quad_store(tile + r * TILE_WIDTH + d + c, x + c);",
        "quad_store(tile + (CHUNK == 8 ? r ^ 1 : r) * TILE_WIDTH + d + c, x + c);",
        on_cuda("plain", ALIGNED, "needle", "f16"),
    ),
    Mutation(
        "simt: a side stores its rows where the other's belong",
        SIMT,
        "dims_store(out + ROW(r) * TILE_WIDTH, x);",
        "dims_store(out + (ROW(r) ^ 1) * TILE_WIDTH, x);",
        on_cuda("plain", fill="needle"),
    ),
    Mutation(
        "cuda: the max leaves out half of the lanes",
        "dialect/shuffles.j2",
        "for (int mask = 16; mask > 1; mask /= 2)",
        "for (int mask = 8; mask > 1; mask /= 2)",
        on_cuda("plain"),
    ),
    Mutation(
        "cuda: groups of later launches start from 0 again",
        "dialect/cuda.j2",
        "args.first_group + (int64)blockIdx.x",
        "(int64)(blockIdx.x / 2)",
        on_cuda("plain"),
    ),
]
# A fold that only some kernels do otherwise: those with tiles of 64 keys.
FOLD = (
    "#define UP_TO_MULTIPLE(x, n)",
    "#define THIS_KERNEL_FOLDS_OTHERWISE (BLOCK_K == 64)\n#define UP_TO_MULTIPLE(x, n)",
)
