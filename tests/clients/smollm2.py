#!/usr/bin/env python3
"""Trains SmolLM2-135M-Instruct for three steps as examples/smollm2 does, with all weights and with adapters.

    smollm2.py BINARY [--cache DIR] [--require]        `make test-agents`; two to five minutes

Each step must train every group, and rollout and trainer must agree to the bit; the weights before the first step and the last
ones must both be evaluated. Without the packages of PyPI the test is skipped, with --require it fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS, GROUPS, SAMPLES = 3, 4, 4


def sh(argv, timeout):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout, cwd=SOURCE)
    return done.returncode, done.stdout


def faults(rows):
    """What is wrong with the run's rows of metrics."""
    steps = [row for row in rows if "batch/episodes" in row]
    evaluated = {row["eval/version"]: row for row in rows if "eval/version" in row}
    wrong = []
    if len(steps) != STEPS:
        wrong.append(f"{len(steps)} steps, expected {STEPS}")
    for row in steps:
        if row["batch/episodes"] != GROUPS * SAMPLES:
            wrong.append(f"step {row['step']} trained {row['batch/episodes']:.0f} episodes")
        if row.get("mismatch/logprob_abs_diff_max") != 0:
            wrong.append(f"step {row['step']}: mismatch {row.get('mismatch/logprob_abs_diff_max')}")
    if sorted(evaluated) != [0, STEPS]:
        wrong.append(f"versions {sorted(evaluated)} were evaluated, expected 0 and {STEPS}")
    for version, row in evaluated.items():
        if row["eval/failed"] or not 0.02 < row["eval/reward_mean"] < 0.9:
            wrong.append(f"version {version}: reward {row['eval/reward_mean']}, {row['eval/failed']} episodes failed")
    return wrong


def train(binary, config, data, folder):
    head = folder / "held_out.jsonl"
    with open(data / "eval.jsonl", encoding="utf-8") as file:
        head.write_text("".join(file.readlines()[:32]), encoding="utf-8")
    settings = {"run.root": folder, "run.name": config.stem, "scheduler.total_steps": STEPS, "http.port": 0,
                "scheduler.groups_per_step": GROUPS, "scheduler.group_size": SAMPLES, "trainer.warmup_steps": 0,
                "data.tasks": data / "train.jsonl", "eval.tasks": head, "model.path": data / "model", "eval.avg_n": 1,
                "eval.every_versions": 0}
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    code, output = sh([binary, "train", str(config), *options], 1200)
    if code != 0:
        return [f"ingot train ended with {code}"], output
    with open(folder / config.stem / "metrics.jsonl", encoding="utf-8") as file:
        return faults([json.loads(line) for line in file]), output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "ingot-clients" / "smollm2")
    parser.add_argument("--require", action="store_true", help="packages that are not there are a failure")
    options = parser.parse_args()
    binary = str(pathlib.Path(options.binary).resolve())
    code, output = sh([str(SOURCE / "examples/smollm2/prepare.sh"), binary, str(options.cache)], 1200)
    if code != 0:
        print("\n".join("  | " + line for line in output.splitlines()[-10:]))
        print(f"smollm2: {'FAILED' if options.require else 'skipped'}: the model or its tasks could not be made")
        sys.exit(1 if options.require else 0)
    failed = False
    for config in sorted((SOURCE / "examples/smollm2").glob("run*.yaml")):
        with tempfile.TemporaryDirectory(prefix="ingot-smollm2-") as folder:
            wrong, output = train(binary, config, options.cache, pathlib.Path(folder))
        print(f"smollm2 {config.name:20} {'ok' if not wrong else 'FAILED: ' + '; '.join(wrong)}", flush=True)
        if wrong:
            failed = True
            print("\n".join("  | " + line for line in output.splitlines()[-25:]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
