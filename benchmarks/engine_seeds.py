#!/usr/bin/env python3
"""Adapters trained through vLLM and through Ingot's own engine: the reward curves of several seeds.

    examples/smollm2/prepare.sh
    engine_seeds.py INGOT --vllm build/peers-vllm/bin/vllm [--seeds 3] [--first 1] [--steps 20] [--folder DIR]
                    [--config FILE] [--url URL] [--targets NAME ...] [--set key=value ...]

Both engines train examples/smollm2/run-lora.yaml, or FILE, on the same tasks in the same order, with smaller steps, under
`numerics: fast`. Prints each run's mean reward per step, and then, per step, the range of each engine's seeds and whether the
two ranges overlap. The last line has the means of the last third of the steps. Exit 1 if a run fails, or if these means differ
by more than the larger of twice their standard error and 0.05. Runs that are finished in DIR are not repeated, so a comparison
can be made in parts (--first 2 --seeds 1) and printed as a whole at the end. Not measured: speed, a GPU.

Each run with vLLM starts a server. With --url, all of them use one that has the base model and takes adapters
(docs/guide/engines.md). A CPU without bf16 instructions needs minutes per step of SmolLM2 in bf16. vLLM 0.32.0 for CPUs copies an
adapter's factors for every token, so only --targets get adapters, and small KV blocks let its prefix cache keep the examples in
the prompts.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tests/engines"))
from vllm_runs import environment  # noqa: E402

ENGINES = ("ingot", "vllm")
SMALLEST = 0.05  # a difference of means that three seeds cannot show


def command(vllm, targets):
    return ["VLLM_SERVER_DEV_MODE=1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1", vllm, "serve", "${model}", "--host", "127.0.0.1",
            "--port", "${port}", "--enable-scale-out", "${tokenizer}", "--max-model-len", "${context}", "--dtype", "${dtype}",
            "--max-num-seqs", "${max_running}", "--enforce-eager", "--block-size", "32", "${adapters}",
            *(["--lora-target-modules", *targets] if targets else [])]


def train(args, engine, seed, folder):
    name = f"{engine}-{seed}"
    metrics = pathlib.Path(folder, name, "metrics.jsonl")
    settings = {"run.root": folder, "run.name": name, "run.seed": seed, "numerics": "fast", "device": "cpu", "rollout.engine": engine,
                "scheduler.total_steps": args.steps, "scheduler.groups_per_step": 4, "scheduler.group_size": 8,
                "scheduler.max_drops_per_batch": 4, "trainer.warmup_steps": 2, "trainer.checkpoint_every": 0,
                "trainer.probe_tokens": 0, "rollout.max_running": 32, "rollout.context_length": 512,
                "rollout.kv_cache_tokens": 32768, "agents.concurrency": 32, "eval.tasks": "", "eval.at_start": "false",
                "http.port": 0}
    if args.targets:
        settings["trainer.lora.targets"] = f"[{', '.join(args.targets)}]"
    if engine == "vllm":
        settings["rollout.external.exchange"] = f"{folder}/exchange"
        if args.url:
            settings["rollout.external.url"] = args.url
        else:
            settings["rollout.external.command"] = json.dumps(command(os.path.abspath(args.vllm), args.targets))
    words = [args.ingot, "launch", args.config]
    for setting in [f"{key}={value}" for key, value in settings.items()] + args.set:
        words += ["--set", setting]
    done = pathlib.Path(folder, f"{name}.done")  # has the command and its seconds
    known = json.loads(done.read_text(encoding="utf-8")) if done.exists() else None
    if known and known["words"] == words:
        code, seconds = 0, known["seconds"]
    else:
        start = time.monotonic()
        with open(f"{folder}/{name}.log", "w", encoding="utf-8") as log:
            code = subprocess.run(words, cwd=SOURCE, stdout=log, stderr=subprocess.STDOUT, check=False, env=environment(args.vllm),
                                  timeout=args.timeout).returncode
        seconds = time.monotonic() - start
        if code == 0:
            done.write_text(json.dumps({"words": words, "seconds": seconds}), encoding="utf-8")
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    rows = [row for row in map(json.loads, lines) if "reward/mean" in row]
    mismatch = [row["mismatch/logprob_abs_diff_mean"] for row in rows if "mismatch/logprob_abs_diff_mean" in row]
    rewards = [row["reward/mean"] for row in rows]
    print(f"{engine:6} seed {seed}  {seconds:5.0f} s  mismatch {statistics.mean(mismatch or [0]):.2e}  rewards",
          " ".join(f"{reward:.2f}" for reward in rewards), "" if code == 0 else f"  exit code {code}: {folder}/{name}.log", flush=True)
    return rewards if code == 0 and len(rewards) == args.steps else None


def compare(curves, steps):
    """Prints the ranges of both engines at each step. Returns how many steps overlap."""
    overlapping = 0
    print(f"\n{'step':>4}  {'ingot':^20}  {'vllm':^20}")
    for step in range(steps):
        ranges = {engine: sorted(curve[step] for curve in curves[engine]) for engine in ENGINES}
        (a, b), (c, d) = ((values[0], values[-1]) for values in ranges.values())
        overlap = max(a, c) <= min(b, d)
        overlapping += overlap
        print(f"{step:4}  {statistics.mean(ranges['ingot']):.3f} [{a:.3f}, {b:.3f}]  "
              f"{statistics.mean(ranges['vllm']):.3f} [{c:.3f}, {d:.3f}]  {'overlap' if overlap else 'apart'}")
    return overlapping


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--vllm", default="build/peers-vllm/bin/vllm")
    parser.add_argument("--config", default="examples/smollm2/run-lora.yaml")
    parser.add_argument("--url", default="", help="a server that already runs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--targets", nargs="*", default=["q_proj", "v_proj"], help="none: those of the configuration")
    parser.add_argument("--folder", default="")
    parser.add_argument("--timeout", type=int, default=7200, help="seconds per run")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    args.ingot = os.path.abspath(args.ingot)
    folder = os.path.abspath(args.folder or tempfile.mkdtemp(prefix="engine-seeds-"))
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    curves = {engine: [] for engine in ENGINES}
    for seed in range(args.first, args.first + args.seeds):
        for engine in ENGINES:
            curves[engine].append(train(args, engine, seed, folder))
    if any(curve is None for engine in ENGINES for curve in curves[engine]):
        print(f"FAILED: a run did not make {args.steps} steps; {folder}")
        return 1
    overlapping = compare(curves, args.steps)
    last = -(-args.steps // 3)
    ends = {engine: [statistics.mean(curve[-last:]) for curve in curves[engine]] for engine in ENGINES}
    means = [statistics.mean(values) for values in ends.values()]
    error = sum(statistics.stdev(values) ** 2 / len(values) if len(values) > 1 else 0 for values in ends.values()) ** 0.5
    good = abs(means[0] - means[1]) <= max(2 * error, SMALLEST)
    print(f"{'ok' if good else 'FAILED'}: {overlapping} of {args.steps} steps overlap; the last {last} steps: ingot {means[0]:.3f}, "
          f"vllm {means[1]:.3f}, standard error of the difference {error:.3f}; {folder}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
