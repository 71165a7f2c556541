#!/usr/bin/env python3
"""Runs with a real vLLM: vllm_runs.py BINARY SOURCE_DIR COMPARE VLLM [STEPS [KILLS [KEY=VALUE ...]]].

Compares its log-probs with those of Ingot's engine (tied weights, as in the smoke run, and adapters), and then trains the smoke
task for STEPS steps (8) with `rollout.engine: vllm`, once with all weights and once with adapters and evaluations of earlier
versions. Meanwhile, kills the server KILLS times (1), spread over the steps. Prints each step's mismatch and reward. KEY=VALUE changes the run's configuration. COMPARE is the program engines_compare, or - to train alone, and VLLM the command of an environment
for CPUs.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

MOST_MISMATCH = 1e-4  # of the mean difference of log-probs, fp32
MOST_SECONDS = 10000
ADAPTERS = ["trainer.lora.rank=8", "trainer.learning_rate=1e-3", "eval.tasks=examples/smoke/eval.jsonl", "eval.at_start=true",
            "eval.every_versions=2"]
SHOWN = ("mismatch/logprob_abs_diff", "offpolicy/logprob_abs_diff", "engine/verify_diff_mean", "engine/refused", "engine/restarts")


def environment(vllm):
    return os.environ | {
        "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "PATH": f"{pathlib.Path(vllm).parent}:{os.environ['PATH']}"}


def rows_of(folder, key):
    try:
        rows = [json.loads(line) for line in open(f"{folder}/vllm/metrics.jsonl", encoding="utf-8")]
    except (FileNotFoundError, json.JSONDecodeError):  # not there yet, or a line is being written
        return []
    return [row for row in rows if key in row]


def steps_of(folder):
    return rows_of(folder, "reward/mean")


def server_of(folder):
    """The process id of the run's server, or None."""
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if "serve" in words and any(word.startswith(f"{folder}/exchange/") for word in words):
                return int(process.name)
    return None


def train(binary, source, folder, vllm, steps, kills, more):
    words = ["VLLM_SERVER_DEV_MODE=1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1", vllm, "serve", "${model}", "--host", "127.0.0.1", "--port", "${port}",
             "--enable-scale-out", "${tokenizer}", "--max-model-len", "${context}", "--dtype", "${dtype}",
             "--max-num-seqs", "${max_running}", "--enforce-eager", "${adapters}"]
    settings = {"run.root": folder, "run.name": "vllm", "rollout.engine": "vllm", "rollout.external.exchange": f"{folder}/exchange",
                "rollout.external.command": json.dumps(words),
                "scheduler.total_steps": steps, "http.port": 0, "eval.tasks": "", "goal.first_steps": 0, "goal.last_steps": 0}
    argv = [binary, "launch", "configs/smoke.yaml"]
    for key, value in settings.items():
        argv += ["--set", f"{key}={value}"]
    for setting in more:
        argv += ["--set", setting]
    run = subprocess.Popen(argv, cwd=source, env=environment(vllm))
    killed, end = 0, time.time() + MOST_SECONDS
    while run.poll() is None and time.time() < end:
        time.sleep(2)
        due = (killed + 1) * steps // (kills + 1)
        server = server_of(folder) if killed < kills and len(steps_of(folder)) >= due else None
        if server is not None:
            print(f"kills the server, process {server}, after {len(steps_of(folder))} steps", flush=True)
            os.kill(server, signal.SIGKILL)
            killed += 1
    if run.poll() is None:
        run.terminate()
    code = run.wait()
    rows = steps_of(folder)
    for row in rows_of(folder, "eval/version"):
        print("evaluation of version", row["eval/version"], f"reward {row['eval/reward_mean']:.3f}")
    for row in rows:
        mismatch = {name: value for name, value in row.items() if name.startswith(SHOWN)}
        print(row["step"], f"reward {row['reward/mean']:.3f}", " ".join(f"{k} {v:.2e}" for k, v in sorted(mismatch.items())))
    measured = [row["mismatch/logprob_abs_diff_mean"] for row in rows if "mismatch/logprob_abs_diff_mean" in row]
    worst = max(measured, default=1)
    good = code == 0 and len(rows) == steps and killed == kills and worst < MOST_MISMATCH
    print("ok" if good else "FAILED", f"{len(rows)} of {steps} steps, {killed} of {kills} kills, exit code {code}, "
          f"worst mean mismatch {worst:.2e} of {len(measured)} measured steps")
    return good


def main():
    binary, source, compare, vllm = map(os.path.abspath, sys.argv[1:5])
    steps = int(sys.argv[5]) if len(sys.argv) > 5 else 8
    kills = int(sys.argv[6]) if len(sys.argv) > 6 else 1
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        if sys.argv[3] == "-":
            return 0 if train(binary, source, folder, vllm, steps, kills, sys.argv[7:]) else 1
        good = True
        for mode in ("tied", "adapters"):
            compared = subprocess.run([compare, vllm, folder, mode], cwd=source, env=environment(vllm), timeout=3000)
            if compared.returncode != 0:
                print(pathlib.Path(folder, "server.log").read_text(errors="replace")[-3000:])
                good = False
        for more in ([], ADAPTERS):
            good = train(binary, source, folder, vllm, steps, kills, sys.argv[7:] + more) and good
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
