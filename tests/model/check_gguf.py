#!/usr/bin/env python3
"""Compares `ingot model convert` with `transformers` on GGUF files: every tensor and the ids of many texts must be equal.

    pip install torch transformers gguf accelerate
    python tests/model/check_gguf.py build/release/ingot WORK_FOLDER [MODEL.gguf ...]

It makes files of every number format itself (llama, qwen2 and qwen3, tied and not), and compares each MODEL too. `make
test-torch` gives it SmolLM2-135M-Instruct in Q4_1.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
HIDDEN, HEADS, KV_HEADS, HEAD, INNER, LAYERS = 256, 4, 2, 64, 512, 2


def random_tensor(rng, name, rows, columns):
    """Bytes of a random tensor of the type, with scales of an ordinary size."""
    kind = gguf.GGMLQuantizationType[name]
    if name == "F32":
        return rng.standard_normal((rows, columns)).astype(np.float32), None
    if name == "F16":
        return rng.standard_normal((rows, columns)).astype(np.float16), None
    values, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows, columns // values, size), dtype=np.uint8)
    if name == "BF16":
        raw = (rng.standard_normal((rows, columns)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    for place in {"BF16": [], "Q6_K": [208], "Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2]}.get(name, [0]):
        scales = rng.uniform(-0.01, 0.01, raw.shape[:-1]).astype(np.float16)
        raw[..., place:place + 2] = scales[..., None].view(np.uint8)
    return raw.reshape(rows, -1), kind


def make(path, architecture, name, tied, vocabulary):
    rng = np.random.default_rng(len(name))
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128), writer.add_block_count(LAYERS), writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER), writer.add_head_count(HEADS), writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5), writer.add_rope_freq_base(1e5)
    if architecture == "llama":
        writer.add_rope_dimension_count(HEAD)
    else:
        writer.add_key_length(HEAD if architecture == "qwen2" else 128)
    for key, value in vocabulary.items():
        add = writer.add_array if isinstance(value, list) else writer.add_uint32 if isinstance(value, int) else writer.add_string
        add("tokenizer.ggml." + key, value)
    head = 128 if architecture == "qwen3" else HEAD

    def matrix(tensor, rows, columns):
        data, kind = random_tensor(rng, name, rows, columns)
        writer.add_tensor(tensor, data, raw_dtype=kind)

    def vector(tensor, size):
        writer.add_tensor(tensor, rng.standard_normal(size).astype(np.float32))

    words = len(vocabulary["tokens"])
    matrix("token_embd.weight", words, HIDDEN)
    vector("output_norm.weight", HIDDEN)
    if not tied:
        matrix("output.weight", words, HIDDEN)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        vector(at + "attn_norm.weight", HIDDEN), vector(at + "ffn_norm.weight", HIDDEN)
        matrix(at + "attn_q.weight", HEADS * head, HIDDEN), matrix(at + "attn_k.weight", KV_HEADS * head, HIDDEN)
        matrix(at + "attn_v.weight", KV_HEADS * head, HIDDEN), matrix(at + "attn_output.weight", HIDDEN, HEADS * head)
        matrix(at + "ffn_gate.weight", INNER, HIDDEN), matrix(at + "ffn_up.weight", INNER, HIDDEN)
        matrix(at + "ffn_down.weight", HIDDEN, INNER)
        if architecture == "qwen2":
            vector(at + "attn_q.bias", HEADS * head), vector(at + "attn_k.bias", KV_HEADS * head)
            vector(at + "attn_v.bias", KV_HEADS * head)
        if architecture == "qwen3":
            vector(at + "attn_q_norm.weight", head), vector(at + "attn_k_norm.weight", head)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()


def made_files(folder):
    golden = json.loads((pathlib.Path(__file__).parent.parent / "text/testdata/gguf_tokenizers.json").read_text())
    lists = {key[5:]: value for key, value in golden["lists"].items() if key.startswith("gpt2.")}
    vocabulary = dict(model="gpt2", pre="qwen2", bos_token_id=1, eos_token_id=2, **lists)
    for index, name in enumerate(TYPES):
        architecture = ["llama", "qwen2", "qwen3"][index % 3]
        path = folder / f"{architecture}-{name}.gguf"
        make(path, architecture, name, index % 2 == 0, vocabulary)
        yield path


def texts():
    """Texts without several spaces before a digit, on which `transformers` and SmolLM2's own tokenizer agree too."""
    rng = random.Random(1)
    pieces = ["the", " Hello", "'s", "12", " 345", "\n", "  x", "\t", "caf\u00e9", "\u4e16\u754c", "\U0001f600", "<|im_start|>", "_", "==", " a1b2", "I'M"]
    return ["".join(rng.choices(pieces, k=rng.randrange(12))) for _ in range(2000)]


def check(binary, path, out):
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run([binary, "model", "convert", path, out, "--dtype", "fp32"], check=True, stdout=subprocess.DEVNULL)
    ours = load_file(out / "model.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    theirs = model.state_dict()
    if "lm_head.weight" not in ours:
        assert torch.equal(theirs.pop("lm_head.weight"), theirs["model.embed_tokens.weight"]), "the head is not tied"
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for name, tensor in ours.items():
        assert tensor.shape == theirs[name].shape and torch.equal(tensor, theirs[name]), name
    expected = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    found = transformers.PreTrainedTokenizerFast.from_pretrained(out)
    for text in texts():
        assert expected.encode(text) == found.encode(text), repr(text)
    # The folder loads in `transformers` by itself, and computes the same.
    again = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        assert torch.equal(again(ids).logits, model(ids).logits), "logits"
    print(f"{path.name}: {len(ours)} tensors, {len(texts())} texts and the logits are equal", flush=True)


def main(binary, work, *models):
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)
    for path in [*made_files(work), *map(pathlib.Path, models)]:
        check(binary, path, work / (path.stem + "-folder"))


main(*sys.argv[1:])
