#!/usr/bin/env python3
"""Writes blocks.json: random blocks of every number format, with the values that the `gguf` package decodes from them.

    pip install gguf numpy
    python tests/gguf/make_goldens.py tests/gguf/testdata/blocks.json

The bytes are random throughout, so that every bit of a block is tried; scales are half-precision numbers of every size,
sub-normal ones included, and finite. Written with gguf 0.19.0. Bytes and the values' 32 bits are hexadecimal.
"""
import json
import sys

import gguf
import numpy as np

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}  # where a block has its half-precision numbers


def random_blocks(rng, name):
    kind = gguf.GGMLQuantizationType[name]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (64 if values == 1 else 4 if values == 32 else 2, size), dtype=np.uint8)
    for block in blocks:
        for place in SCALES.get(name, []):
            while not np.isfinite(block[place:place + 2].view(np.float16)[0]):
                block[place:place + 2] = rng.integers(0, 256, 2, dtype=np.uint8)
    if name == "F16":
        blocks.view(np.uint16)[:6, 0] = [0x0000, 0x8000, 0x0001, 0x83ff, 0x7c00, 0xfc00]
    return kind, blocks


def main(path):
    rng = np.random.default_rng(1)
    golden = {}
    for name in TYPES:
        kind, blocks = random_blocks(rng, name)
        # bf16 values are decoded by rows of the package's own kind; one row holds all blocks
        decoded = gguf.dequantize(blocks.reshape(1, -1), kind).astype(np.float32).reshape(-1)
        golden[name] = {"bytes": blocks.tobytes().hex(), "values": decoded.view(np.uint32).astype(">u4").tobytes().hex()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


main(sys.argv[1])
