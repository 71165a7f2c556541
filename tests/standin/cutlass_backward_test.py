#!/usr/bin/env python3
"""Runs the backward pass of CUTLASS's fused attention, unchanged, on the stand-in, and compares its gradients with fp64:
cutlass_backward_test.py LIBRARIES.

The example reads its inputs from stdin and writes gradients to files; the package has no check of its own for it. Exit code 77: the
compiler or the package is missing.
"""
import array
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import cutlass
import standin

SOURCE = "41_fused_multi_head_attention/fused_multi_head_attention_backward.cu"
QUERIES, KEYS, HEADS, WIDTH = 37, 45, 2, 24
TOLERANCE = 4e-3  # of the largest gradient: probabilities and gradients are rounded to fp16


def halves(count, rng):
    """Returns numbers that fp16 represents."""
    return [struct.unpack("e", struct.pack("e", rng.gauss(0, 1)))[0] for _ in range(count)]


def row(tensor, position, head):
    """Returns a head's row of a tensor [positions, HEADS, WIDTH]."""
    at = (position * HEADS + head) * WIDTH
    return tensor[at:at + WIDTH]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Attention:
    """Attention of one sequence in fp64: outputs, log-sum-exps, and gradients."""

    def __init__(self, causal, rng):
        self.causal, self.scale = causal, WIDTH ** -0.5
        self.q, self.grad = halves(QUERIES * HEADS * WIDTH, rng), halves(QUERIES * HEADS * WIDTH, rng)
        self.k, self.v = halves(KEYS * HEADS * WIDTH, rng), halves(KEYS * HEADS * WIDTH, rng)
        self.out, self.lse, self.delta = [0.0] * len(self.q), [[] for _ in range(HEADS)], [[] for _ in range(HEADS)]
        self.grad_q, self.grad_k, self.grad_v = ([0.0] * len(t) for t in (self.q, self.k, self.v))
        for head in range(HEADS):
            for query in range(QUERIES):
                self.add_row(query, head)

    def add_row(self, query, head):
        q, grad, keys = row(self.q, query, head), row(self.grad, query, head), range(query + 1 if self.causal else KEYS)
        scores = [self.scale * dot(q, row(self.k, key, head)) for key in keys]
        lse = math.log(sum(map(math.exp, scores)))
        p = [math.exp(score - lse) for score in scores]
        out = [sum(p[key] * row(self.v, key, head)[d] for key in keys) for d in range(WIDTH)]
        delta, at = dot(out, grad), (query * HEADS + head) * WIDTH
        self.out[at:at + WIDTH] = out
        self.lse[head].append(lse)
        self.delta[head].append(delta)
        for key in keys:
            ds = self.scale * p[key] * (dot(grad, row(self.v, key, head)) - delta)
            to = (key * HEADS + head) * WIDTH
            for d in range(WIDTH):
                self.grad_q[at + d] += ds * self.k[to + d]
                self.grad_k[to + d] += ds * q[d]
                self.grad_v[to + d] += p[key] * grad[d]


def padded(rows):
    """Returns rows of fp32, each with a multiple of 32 numbers, and that number."""
    stride = (QUERIES + 31) // 32 * 32
    return [x for one in rows for x in one + [0.0] * (stride - len(one))], stride


def write(folder, name, numbers, half):
    path = pathlib.Path(folder) / name
    data = struct.pack(f"{len(numbers)}e", *numbers) if half else array.array("f", numbers).tobytes()
    path.write_bytes(data)
    return f"tensor_begin {'f16' if half else 'f32'}:{name} {len(data)} file {path} tensor_end "


def request(a, folder):
    """Returns what the program reads from stdin."""
    lse, stride = padded(a.lse)
    delta, _ = padded(a.delta)

    def strides(name, rows):
        return f"{name}_strideB {rows * HEADS * WIDTH} {name}_strideM {HEADS * WIDTH} {name}_strideH {WIDTH} "

    text = f"f16 scale {a.scale!r} head_dim {WIDTH} head_dim_value {WIDTH} num_queries {QUERIES} num_keys {KEYS} num_heads {HEADS} "
    text += f"custom_mask_type {int(a.causal)} num_batches 1 repeat_count 1 num_splits_key 1 "
    text += write(folder, "query", a.q, True) + strides("q", QUERIES) + write(folder, "key", a.k, True) + strides("k", KEYS)
    text += write(folder, "value", a.v, True) + strides("v", KEYS) + write(folder, "logsumexp", lse, False)
    text += f"lse_strideB {HEADS * stride} lse_strideH {stride} " + write(folder, "output", a.out, True) + strides("o", QUERIES)
    text += write(folder, "grad_output", a.grad, True) + strides("gO", QUERIES) + write(folder, "delta", delta, False)
    text += f"delta_strideB {HEADS * stride} delta_strideH {stride} "
    return text + "".join(f"tmpfile {folder}/{name} " for name in ("gq", "gk", "gv"))


def error(path, want):
    data = pathlib.Path(path).read_bytes()
    got = struct.unpack(f"{len(data) // 2}e", data)
    assert len(got) == len(want), (len(got), len(want))
    largest = max(abs(x - y) for x, y in zip(got, want)) if all(x == x for x in got) else math.inf
    return largest / max(map(abs, want))


def run(libraries, program, causal, arrival):
    a = Attention(causal, random.Random(7 + causal))
    environment = {**os.environ, **standin.environment(libraries), "INGOT_STANDIN_ARRIVAL": arrival,
                   "INGOT_STANDIN_EMPTY_COPIES": "land"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program], input=request(a, folder), env=environment, capture_output=True, text=True)
        print(f"causal {causal}, copies {arrival}: exit code {done.returncode}\n{done.stderr}", flush=True)
        if done.returncode != 0:
            return False
        errors = [error(f"{folder}/{name}", want) for name, want in (("gq", a.grad_q), ("gk", a.grad_k), ("gv", a.grad_v))]
    print("errors of the gradients of q, k, v:", " ".join(f"{e:.1e}" for e in errors), flush=True)
    return "stand-in:" not in done.stderr and all(e < TOLERANCE for e in errors)


def main():
    if missing := cutlass.missing():
        print(f"SKIPPED cutlass_backward_test: no {missing}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "example"
        cutlass.compile_example(SOURCE, program)
        results = [run(sys.argv[1], program, causal, arrival) for causal in (False, True) for arrival in ("late", "early")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
