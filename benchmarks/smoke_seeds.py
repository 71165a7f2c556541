#!/usr/bin/env python3
"""Runs the smoke run with several seeds and says whether any of them dips.

    smoke_seeds.py INGOT [--seeds 10] [--first 1] [--folder DIR] [--set key=value ...]

Every other run has both cores kept busy by two more processes. A run passes if no step's reward/mean is more than
0.15 below the mean of the four steps before it, its last five steps have a mean above 0.90, and the trust region takes at
most a tenth of perf/step_seconds. Per run the table gives the largest dip, the last five steps, steps halved and taken
back, the largest mean KL that a step proposed and that a step kept, and the cost: the share of perf/step_seconds that
perf/step_kl_seconds takes. Exit 1 if a run fails. Not measured: other machines, other tasks.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

DIP, LAST, ABOVE, COST = 0.15, 5, 0.90, 0.10


def train(args, seed, busy, folder):
    settings = [f"run.seed={seed}", f"run.name=seed{seed}", f"run.root={folder}", "http.port=0", "scheduler.total_steps=48", *args.set]
    command = [args.ingot, "train", "configs/smoke.yaml"]
    for setting in settings:
        command += ["--set", setting]
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 if busy else 0)]
    start = time.monotonic()
    try:
        with open(f"{folder}/seed{seed}.log", "w", encoding="utf-8") as log:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=3600).returncode
    finally:
        for load in loads:
            load.kill()
            load.wait()
    rows = [json.loads(line) for line in open(f"{folder}/seed{seed}/metrics.jsonl", encoding="utf-8")]
    return code, time.monotonic() - start, [row for row in rows if "reward/mean" in row]


def judge(rows):
    rewards = [row["reward/mean"] for row in rows]
    dips = [statistics.mean(rewards[i - 4:i]) - rewards[i] for i in range(4, len(rewards))]
    cost = sum(row.get("perf/step_kl_seconds", 0) for row in rows) / sum(row["perf/step_seconds"] for row in rows)
    return {
        "dip": max(dips), "at": dips.index(max(dips)) + 5, "last": statistics.mean(rewards[-LAST:]),
        "halved": sum(0 < row.get("trainer/step_scale", 1) < 1 for row in rows),
        "back": sum(row.get("trainer/step_scale", 1) == 0 for row in rows),
        "proposed": max(row.get("trainer/step_kl_proposed_mean", 0) for row in rows),
        "kept": max(row.get("trainer/step_kl_mean", 0) for row in rows), "cost": cost,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--folder", default="")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="smoke-seeds-")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    print(f"{'seed':>4} {'cores':6} {'seconds':>7} {'largest dip':>11} {'at step':>7} {'last 5':>6} {'halved':>6} "
          f"{'back':>4} {'proposed':>8} {'kept':>8} {'cost':>6}", flush=True)
    failed = 0
    for seed in range(args.first, args.first + args.seeds):
        busy = seed % 2 == 0
        code, seconds, rows = train(args, seed, busy, folder)
        r = judge(rows)
        bad = code != 0 or r["dip"] > DIP or r["last"] <= ABOVE or r["cost"] > COST
        failed += bad
        print(f"{seed:4} {'busy' if busy else 'free':6} {seconds:7.0f} {r['dip']:11.3f} {r['at']:7} {r['last']:6.3f} "
              f"{r['halved']:6} {r['back']:4} {r['proposed']:8.2g} {r['kept']:8.2g} {100 * r['cost']:5.1f}%{'  FAILED' if bad else ''}", flush=True)
    print(f"{args.seeds - failed} of {args.seeds} runs without a dip of more than {DIP} and above {ABOVE} at the end; {folder}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
