#!/usr/bin/env python3
"""Runs with a real vLLM: vllm_runs.py BINARY SOURCE_DIR COMPARE VLLM [STEPS].

Compares its log-probs with those of Ingot's engine (tied weights, as in the smoke run), and then trains the smoke task for
STEPS steps (8) with `rollout.engine: vllm`. Prints each step's mismatch and reward. COMPARE is the program engines_compare, and
VLLM the command of an environment for CPUs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MOST_MISMATCH = 1e-4  # of the mean difference of log-probs, fp32


def environment(vllm):
    return os.environ | {
        "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "PATH": f"{pathlib.Path(vllm).parent}:{os.environ['PATH']}"}


def train(binary, source, folder, vllm, steps):
    words = ["VLLM_SERVER_DEV_MODE=1", vllm, "serve", "${model}", "--host", "127.0.0.1", "--port", "${port}",
             "--enable-scale-out", "--skip-tokenizer-init", "--max-model-len", "${context}", "--dtype", "${dtype}",
             "--max-num-seqs", "${max_running}", "--enforce-eager"]
    settings = {"run.root": folder, "run.name": "vllm", "rollout.engine": "vllm", "rollout.external.command": json.dumps(words),
                "scheduler.total_steps": steps, "http.port": 0, "eval.tasks": "", "goal.first_steps": 0, "goal.last_steps": 0}
    argv = [binary, "launch", "configs/smoke.yaml"]
    for key, value in settings.items():
        argv += ["--set", f"{key}={value}"]
    done = subprocess.run(argv, cwd=source, env=environment(vllm), timeout=3000)
    rows = [json.loads(line) for line in open(f"{folder}/vllm/metrics.jsonl", encoding="utf-8")]
    rows = [row for row in rows if "reward/mean" in row]
    for row in rows:
        mismatch = {name: value for name, value in row.items() if name.startswith("mismatch/logprob_abs_diff")}
        print(row["step"], f"reward {row['reward/mean']:.3f}", " ".join(f"{k} {v:.2e}" for k, v in sorted(mismatch.items())))
    worst = max(row.get("mismatch/logprob_abs_diff_mean", 1) for row in rows) if rows else 1
    good = done.returncode == 0 and len(rows) == steps and worst < MOST_MISMATCH
    print("ok" if good else "FAILED", f"{len(rows)} of {steps} steps, exit code {done.returncode}, worst mean mismatch {worst:.2e}")
    return good


def main():
    binary, source, compare, vllm = map(os.path.abspath, sys.argv[1:5])
    steps = int(sys.argv[5]) if len(sys.argv) > 5 else 8
    with tempfile.TemporaryDirectory() as folder:
        compared = subprocess.run([compare, vllm, folder, "tied"], cwd=source, env=environment(vllm), timeout=3000)
        good = compared.returncode == 0
        if not good:
            print(pathlib.Path(folder, "server.log").read_text(errors="replace")[-3000:])
        return 0 if train(binary, source, folder, vllm, steps) and good else 1


if __name__ == "__main__":
    sys.exit(main())
