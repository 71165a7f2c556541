#!/usr/bin/env python3
"""Figures of `ingot bench`: bench_tests.py BINARY SOURCE_DIR bench."""
import json

from ingot_runs import check, main


def case_bench(ingot):
    """Figures of named shapes, one JSON object each, that agree with one another."""
    small = ["--repeat", "1", "--hidden", "32", "--intermediate", "64", "--heads", "2", "--kv-heads", "1",
             "--head-dim", "16", "--vocab", "64"]

    def bench(*words):
        done = ingot.call("bench", *words)
        check(done.returncode == 0, f"bench {words}: exit {done.returncode}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    # A prompt of 80 tokens and 8 answers of 10 merge into 160; one sample per request is 8 times 90.
    for dtype, rounding in (("fp32", 1e-5), ("bf16", 3e-2)):
        figures = bench("tree", "--shape", "group-8-8k", "--scale", "0.01", "--dtype", dtype, *small)
        steps = {figure["variant"]: figure for figure in figures if figure["figure"] == "step"}
        speedups = {figure["against"]: figure for figure in figures if figure["figure"] == "speedup"}
        check(steps.keys() == {"tree", "chained", "separate"}, f"{figures}")
        check(speedups.keys() == {"chained", "separate"}, f"{figures}")
        tokens = {name: step["tokens"] for name, step in steps.items()}
        check(tokens["tree"] < tokens["separate"] and tokens["separate"] == tokens["chained"], f"{tokens}")
        depth, calls = figures[0]["depth"], figures[0]["calls"]
        check(tokens["separate"] == depth * calls and tokens["tree"] > depth, f"{tokens}")
        for name, step in steps.items():
            share = step["bound_seconds"] / step["seconds"]
            check(abs(step["of_bound"] - share) < 0.1 * share, f"{step}")
            check(step["peak_bytes"] > 0 and step["predicted_bytes"] > 0, f"{step}")
        for against, speedup in speedups.items():
            ratio = steps[against]["seconds"] / steps["tree"]["seconds"]
            check(abs(speedup["speedup"] - ratio) < 0.1 * ratio, f"{speedup} {steps}")
            check(abs(speedup["token_ratio"] - tokens[against] / tokens["tree"]) < 0.01, f"{speedup}")
            check(speedup["loss_difference"] < rounding, f"the loss depends on merging: {speedup}")
    figures = bench("tree", "--shape", "dialogue-5", "--scale", "0.01", "--no-baselines", *small)
    check([figure["figure"] for figure in figures] == ["rates", "step", "least_speedup"], f"{figures}")
    figures = bench("attention", "--shape", "decode-16x2k", "--dtype", "fp32", "--repeat", "1")
    check([figure["pass"] for figure in figures] == ["gemm"] * 3 + ["decode"], f"{figures}")
    for command in ("tree", "attention"):
        done = ingot.call("bench", command, "--shape", "nope")
        check(done.returncode == 2 and "'nope'" in done.stderr and "dialogue-20" in done.stderr, f"{command}: {done}")
    done = ingot.call("bench", "tree", "--shape", "dialogue-5", "--vocab", "16000000", "--hidden", "4096")
    check(done.returncode == 1 and "are available" in done.stderr and done.stderr.count("\n") == 1, f"{done}")


if __name__ == "__main__":
    main(case_bench)
