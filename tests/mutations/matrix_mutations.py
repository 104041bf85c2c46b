"""The faults that mutate.py plants in engine matrix, each with the test that must catch it."""

from mutation import CAUSAL, MANY_ROWS, PLAIN, Check, Mutation

MATRIX, MATRIX_TILES, MATRIX_OPERANDS, MATRIX_ODD_VALUES = (
    "engine/matrix.j2",
    "engine/matrix_tiles.j2",
    "engine/matrix_operands.j2",
    "engine/matrix_odd_values.j2",
)

# Of engine matrix a mutant has these tiles alone.
MATRIX_AXES = {
    "block_q": [64],
    "block_k": [32, 64],
    "threads": [128],
    "buffers": [2],
    "hold": [0, 1],
}


def on_matrix(mode, problem=PLAIN, fill="normal", reproducible=0):
    """A check of engine matrix on the stand-in driver."""
    kernel = f"forward_*_d64_matrix_q64k32t128b2h0r{reproducible}u0"
    return Check("suite", problem, fill, "f16", kernel, "cuda", mode)


def between_tiles(problem, fill, dtype):
    """A comparison of bits between two tiles of the reproducible mode."""
    kernel = "forward_*_d64_matrix_q64k*t128b2h0r1u0"
    return Check("same_bits", problem, fill, dtype, kernel, "cuda", "plain")


def on_amd(kernel, device="emulated:amd", fill="needle"):
    """A check of engine matrix on an emulated GPU: by default with MFMA 32x32x8."""
    return Check("suite", PLAIN, fill, "f16", kernel, "emulated", device=device)


MFMA, WMMA = (
    "forward_f16_d64_matrix_q64k32t128b2h1r1u1",
    "forward_f16_d64_matrix_q64k32t128b2h0r1u3",
)


# There both sums are of one p; divided by its own rounded self it is 1.
ONE_KEY = Check(
    "identities",
    target="cuda",
    mode="plain",
    more=("--engine", "matrix", "--reproducible", "--test", "one_key"),
)

WITHOUT_WEIGHT = Check(
    "hygiene",
    target="cuda",
    mode="plain",
    more=("--engine", "matrix", "--test", "infinities_without_weight"),
)

MUTATIONS = [
    Mutation(
        "matrix: a tile is read before its copy has landed",
        MATRIX_TILES,
        "    COPY_WAIT(BUFFERS - 2);\n",
        "    COPY_WAIT(BUFFERS - 1);\n",
        on_matrix("race"),
    ),
    Mutation(
        "matrix: a place of the ring is filled before all have read it",
        MATRIX_TILES,
        "    BARRIER();\n    ring_fill(flight, args, t, at, step + BUFFERS - 1);\n",
        "    ring_fill(flight, args, t, at, step + BUFFERS - 1);\n",
        on_matrix("race"),
    ),
    Mutation(
        "matrix: output is read before all lanes have written it",
        MATRIX,
        "    UNIT_BARRIER();\n",
        "",
        on_matrix("race"),
    ),
    Mutation(
        "matrix: a lane swizzles as for the next row",
        MATRIX,
        "lane_swizzle(UNIT_KEYS_ROW, UNIT_KEYS_CHUNK)",
        "lane_swizzle(UNIT_KEYS_ROW + 1, UNIT_KEYS_CHUNK)",
        on_matrix("plain"),
    ),
    Mutation(
        "matrix: keys of neighbouring column tiles are exchanged",
        MATRIX,
        "unit_multiply(s->at[i][n + c], left[i], right + c * UNIT_COLUMN_WORDS);",
        "unit_multiply(s->at[i][n + c], left[i], right + (c ^ 1) * UNIT_COLUMN_WORDS);",
        on_matrix("plain", fill="needle"),
    ),
    Mutation(
        "matrix: words of probabilities are exchanged",
        MATRIX_OPERANDS,
        "step * STEP_SUMS + UNIT_P(i)",
        "step * STEP_SUMS + (UNIT_P(i) ^ 2)",
        on_matrix("plain", fill="needle"),
    ),
    Mutation(
        "matrix: output is not rescaled",
        MATRIX,
        "o->at[i][n][r] = o->at[i][n][r] * rescale;",
        ";",
        on_matrix("plain", fill="ramp"),
    ),
    Mutation(
        "matrix: hidden scores are not hidden",
        MATRIX,
        "(UNIT_COLUMN(r) - UNIT_COLUMN(0)) >= visible",
        "(UNIT_COLUMN(r) - UNIT_COLUMN(0)) > visible",
        on_matrix("plain", CAUSAL),
    ),
    Mutation(
        "matrix: an infinity without weight is added as itself",
        MATRIX_ODD_VALUES,
        "(is_zero ? v - v : v)",
        "v",
        WITHOUT_WEIGHT,
    ),
    Mutation(
        "reproducible: scores are not rounded to the grid",
        MATRIX,
        "grid[i][slot] = REPRODUCIBLE ? GRID : P_SCALE - m;\n"
        "            base[i][slot] = REPRODUCIBLE ? GRID + m - P_SCALE : 0.0f;",
        "grid[i][slot] = P_SCALE - m;\n            base[i][slot] = 0.0f;",
        between_tiles(MANY_ROWS, "normal,ramp", "bf16"),
    ),
    Mutation(
        "reproducible: output is divided by the sum of p before it is rounded",
        MATRIX,
        "const float l = o->l[i][r];",
        "const float l = rows->l[i][UNIT_SLOT(r)];",
        ONE_KEY,
    ),
    Mutation(
        "reproducible: the keys of a tile come in decreasing order",
        MATRIX,
        "UNROLL for (int k = 0; k < BLOCK_K; k += UNIT_DEPTH) {",
        "UNROLL for (int k = BLOCK_K - UNIT_DEPTH; k >= 0; k -= UNIT_DEPTH) {",
        between_tiles(PLAIN, "normal", "f16"),
    ),
    Mutation(
        "amd: a tile lands after all have been told that it is there",
        MATRIX_TILES,
        "    ring_land(flight, t, step); /* there are two places then */\n    BARRIER();\n",
        "    BARRIER();\n    ring_land(flight, t, step);\n",
        on_amd(MFMA, fill="normal"),
    ),
    Mutation(
        "amd: a lane's values are of other keys than its probabilities",
        "attention.toml",
        'key = "(x) / 4 * 8 + (x) % 4"',
        'key = "(x)"',
        on_amd(MFMA),
    ),
    Mutation(
        "amd: probabilities of another step",
        MATRIX_OPERANDS,
        "SUM(p, step * STEP_SUMS + UNIT_P(i)), SUM(p, step * STEP_SUMS + (UNIT_P(i) + 1)",
        "SUM(p, (step ^ 1) * STEP_SUMS + UNIT_P(i)), SUM(p, (step ^ 1) * STEP_SUMS + (UNIT_P(i) + 1)",
        on_amd(MFMA),
    ),
    Mutation(
        "amd: the halves of a wave do not exchange their probabilities",
        MATRIX_OPERANDS,
        "const unsigned other = f32_to_bits(lane_xor(bits_to_f32(own), UNIT_FIRST_MASK));",
        "const unsigned other = own;",
        on_amd(WMMA, "emulated:amd-rdna3"),
    ),
]
