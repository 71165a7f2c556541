#!/usr/bin/env python3
"""Calls ingot::tree_attention from Python and compares it with FlexAttention and a dense mask.

    ninja -C build/release ingot_ops
    python examples/python/tree_attention.py build/release/src/kernels/libingot_ops.so [--compile]

Needs a complete torch installation of the version that Ingot was built with. Packs one prompt and several answers below
it into one stream, checks the operator's output and gradients against both, runs torch.library.opcheck, and prints
times. --compile also compiles FlexAttention (needs a C++ compiler; otherwise it runs eagerly, which builds the whole
score matrix). Exit status 1 if anything differs.
"""
import argparse
import math
import sys
import time

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def group_tree(prompt, answer, group):
    """visible_end and depth of `group` answers below one prompt, in depth-first order."""
    rows = prompt + group * answer
    end = torch.full((rows,), rows, dtype=torch.int32)
    depth = torch.arange(rows, dtype=torch.int32)
    for g in range(group):
        first, last = prompt + g * answer, prompt + (g + 1) * answer
        end[first:last] = last
        depth[first:last] = torch.arange(prompt, prompt + answer, dtype=torch.int32)
    return end, depth


def dense_mask(end, depth, window):
    i = torch.arange(end.numel())
    seen = (i[None, :] <= i[:, None]) & (end[None, :] > i[:, None])
    return seen & (depth[:, None] - depth[None, :] < window) if window else seen


def dense(q, k, v, scale, mask, sinks):
    """Softmax attention by its definition, in float64."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.double().repeat_interleave(group, 1) for t in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q.double(), k) * scale
    scores = scores.masked_fill(~mask, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, q.shape[0], 1)], -1)
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1)[..., : q.shape[0]], v)


def flex(q, k, v, scale, end, depth, window, run):
    def visible(b, h, i, j):
        seen = (j <= i) & (end[j] > i)
        return seen & (depth[i] - depth[j] < window) if window else seen

    rows = q.shape[0]
    block_mask = create_block_mask(visible, None, None, rows, rows, device="cpu")
    heads_first = [t.transpose(0, 1).unsqueeze(0).contiguous() for t in (q, k, v)]

    def call():
        return run(*heads_first, block_mask=block_mask, scale=scale, enable_gqa=True)

    return call, lambda out: out.squeeze(0).transpose(0, 1)


def seconds(f, repeat=5):
    f()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeat // 2]


def difference(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=128)
    parser.add_argument("--group", type=int, default=4)
    args = parser.parse_args()
    torch.ops.load_library(args.library)
    op = torch.ops.ingot.tree_attention
    torch.manual_seed(0)
    end, depth = group_tree(args.prompt, args.answer, args.group)
    rows, heads, kv_heads, head_dim = end.numel(), 8, 2, 64
    scale = head_dim**-0.5
    compiled = torch.compile(flex_attention) if args.compile else flex_attention
    good = True

    def check(what, value, limit):
        nonlocal good
        good &= value < limit
        print(f"  {what:<44} {value:.1e} {'' if value < limit else f'ABOVE {limit:.0e}'}")

    for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        for window in (0, 100):
            print(f"{rows} tokens, {heads} heads over {kv_heads}, {head_dim} wide, {dtype}, window {window or 'none'}")
            leaf = lambda *shape: torch.randn(*shape).to(dtype).requires_grad_(True)
            q, k, v = leaf(rows, heads, head_dim), leaf(rows, kv_heads, head_dim), leaf(rows, kv_heads, head_dim)
            sinks = torch.randn(heads).requires_grad_(True)
            extra = dict(visible_end=end, positions=depth, window=window)
            mask = dense_mask(end, depth, window)

            out = op(q, k, v, scale, sinks=sinks, **extra)
            want = dense(q, k, v, scale, mask, sinks)
            check("output against the dense mask, with sinks", difference(out, want), limit)
            mix = torch.randn_like(want)
            got = torch.autograd.grad((out.double() * mix).sum(), (q, k, v, sinks))
            expected = torch.autograd.grad((want * mix).sum(), (q, k, v, sinks))
            for name, a, b in zip(("q", "k", "v", "sinks"), got, expected):
                check(f"gradient of {name}", difference(a, b), 2 * limit)

            with torch.no_grad():
                call, rows_first = flex(q, k, v, scale, end, depth, window, compiled)
                ours = lambda: op(q, k, v, scale, **extra)
                check("output against FlexAttention", difference(ours(), rows_first(call())), limit)
                print(f"  times: tree_attention {seconds(ours) * 1e3:.2f} ms, FlexAttention"
                      f" ({'compiled' if args.compile else 'eager'}) {seconds(call) * 1e3:.2f} ms")

    small = [torch.randn(20, h, 8, requires_grad=True) for h in (4, 2, 2)]
    report = torch.library.opcheck(
        op, (*small, 0.3), dict(visible_end=group_tree(8, 6, 2)[0], sinks=torch.zeros(4, requires_grad=True), window=9))
    print("opcheck:", report)
    good &= all(v == "SUCCESS" for v in report.values())

    # The same keys and values in pages, as a rollout engine holds them: 24 keys on pages 2, 0 and 3 of 4.
    q, k, v = (torch.randn(24, h, 8) for h in (4, 2, 2))
    table = torch.tensor([[2, 0, 3]], dtype=torch.int32)
    paged = [torch.zeros(4, 8, 2, 8) for _ in range(2)]
    for pages, rows in zip(paged, (k, v)):
        pages[table[0].long()] = rows.view(3, 8, 2, 8)
    report = torch.library.opcheck(op, (q.requires_grad_(True), *(p.requires_grad_(True) for p in paged), 0.3),
                                   dict(block_table=table, q_offset=0))
    print("opcheck over pages:", report)
    good &= all(v == "SUCCESS" for v in report.values())
    through_pages = op(q, *paged, 0.3, block_table=table, q_offset=0)
    check("output through pages", difference(through_pages, op(q, k, v, 0.3)), 1e-12)
    got = torch.autograd.grad(through_pages.square().sum(), (q, paged[0]))
    k.requires_grad_(True)
    expected = torch.autograd.grad(op(q, k, v, 0.3).square().sum(), (q, k))
    check("gradient of q through pages", difference(got[0], expected[0]), 1e-12)
    check("gradient of k through pages", difference(got[1][table[0].long()].flatten(0, 1), expected[1]), 1e-6)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
