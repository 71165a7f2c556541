#!/usr/bin/env python3
"""Step times with and without compute.lend: runs of a configuration in turn, so that both meet the same machine.

    lent_threads.py INGOT CONFIG [--rounds 3] [--steps 12] [--folder DIR] [--set key=value ...]

    lent_threads.py build/release/ingot configs/smoke.yaml
    lent_threads.py build/release/ingot configs/smoke.yaml --set scheduler.max_staleness=0
    lent_threads.py build/release/ingot examples/smollm2/run.yaml --steps 4 --rounds 2

The table has one line per setting: the median and range over the runs of the whole run's wall time, and the medians over the
runs' steps, without the first two, of the step, its wait for a batch, its training, the idle shares, and the threads lent.
CPU seconds are those of the run and its agents. Not measured: other machines, and the CUDA device, which lends no threads.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

COLUMNS = ("perf/step_seconds", "perf/wait_seconds", "perf/train_seconds", "trainer/idle_ratio", "rollout/idle_ratio",
           "perf/threads_lent_to_trainer", "perf/threads_lent_to_rollout")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(args, lend, folder):
    settings = {"run.root": folder, "run.name": "lent", "run.if_exists": "replace", "http.port": 0, "eval.every_versions": 0,
                "eval.at_start": "false", "scheduler.total_steps": args.steps, "compute.lend": lend}
    command = [args.ingot, "train", args.config]
    for setting in [*(f"{key}={value}" for key, value in settings.items()), *args.set]:
        command += ["--set", setting]
    start, cpu = time.monotonic(), cpu_seconds()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, timeout=7200)
    if done.returncode > 1:  # 1 = the goal was not met, for which the run is too short
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    with open(f"{folder}/lent/metrics.jsonl", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if "perf/step_seconds" in row]
    wrong = [row["step"] for row in rows if row.get("mismatch/logprob_abs_diff_max", 0) > 1e-5]
    if wrong:
        sys.exit(f"mismatch at steps {wrong}")
    return {"wall": time.monotonic() - start, "cpu": cpu_seconds() - cpu, "rows": rows[2:]}


def line_of(name, runs):
    walls, cpus = [run["wall"] for run in runs], [run["cpu"] for run in runs]
    steps = [row for run in runs for row in run["rows"]]
    cells = [f"{statistics.median(row.get(column, 0) for row in steps):.3f}" for column in COLUMNS]
    return (f"| {name} | {statistics.median(walls):.1f} ({min(walls):.1f} to {max(walls):.1f}) | {statistics.median(cpus):.1f} | "
            + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("config")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        runs = {"false": [], "true": []}
        for turn in range(args.rounds):
            for lend in sorted(runs, reverse=turn % 2 == 1):
                runs[lend].append(train(args, lend, folder))
                print(f"round {turn + 1}, compute.lend {lend}: {runs[lend][-1]['wall']:.1f} s", file=sys.stderr, flush=True)
    print("| compute.lend | wall s | CPU s | " + " | ".join(COLUMNS) + " |")
    print("| --- | --- | --- |" + " --- |" * len(COLUMNS))
    for lend, done in runs.items():
        print(line_of(lend, done))


if __name__ == "__main__":
    main()
