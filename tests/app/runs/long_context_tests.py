#!/usr/bin/env python3
"""An episode of more than 200,000 tokens through rollout and training: long_context_tests.py BINARY SOURCE_DIR.

A tiny model answers 34 calls, each with the conversation so far, and then trains on them in one step. The memory of the process stays below what was
printed before: what the step may need, and what serving the model needs.
"""
import json
import pathlib
import re
import threading
import time

import ingot_runs
import page_tests
from ingot_runs import check
from outside_episodes import OUTSIDE, long_episode


def peak(pid):
    """Bytes of memory that the process has had at most; 0 = it has ended."""
    found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def case_long_context(ingot):
    """An episode of 200,000 tokens is played and trained within the printed memory."""
    settings = {**ingot_runs.SHORT, **OUTSIDE, "run.name": "long", "scheduler.total_steps": 1, "scheduler.groups_per_step": 1,
                "scheduler.group_deadline_s": 3600, "trainer.checkpoint_every": 1, "numerics": "exact"}
    process = ingot.start("train", settings)
    gateway = page_tests.line_with(process, r"gateway (\S+)", [])
    threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the run
    began = time.monotonic()
    episode = long_episode(gateway)
    played, most = time.monotonic() - began, 0
    while process.poll() is None:
        most = max(most, peak(process.pid))
        time.sleep(0.1)
    check(process.returncode == 0, f"the run ended with {process.returncode}")
    row = [row for row in ingot.metrics("long") if "perf/step_seconds" in row][0]
    done = ingot.call("model", "info", "--model", sorted(pathlib.Path(ingot.folder, "long", "checkpoints").glob("step-*"))[-1], "--kv-cache-tokens",
                      str(OUTSIDE["rollout.kv_cache_tokens"]))
    check(done.returncode == 0, done.stderr)
    serving, training = json.loads(done.stdout)["serve_bytes"], row["perf/memory_bound_bytes"]
    print(f"{episode['tokens']} tokens in {episode['calls']} calls: played in {played:.0f} s, trained in {row['perf/step_seconds']:.0f} s with "
          f"{row['tree/merged_tokens']:.0f} rows; at most {most / 1e6:.0f} MB were used, where {(serving + training) / 1e6:.0f} MB were announced "
          f"({training / 1e6:.0f} for the step, {serving / 1e6:.0f} to serve); log-probs differ by {row['mismatch/logprob_abs_diff_max']}")
    check(row["tree/merged_tokens"] >= 200_000, f"{row['tree/merged_tokens']} rows were trained")
    check(row["mismatch/logprob_abs_diff_max"] == 0, "the trainer's log-probs are other ones")
    check(most <= serving + training, "more memory was used than announced")


if __name__ == "__main__":
    ingot_runs.main(case_long_context)
