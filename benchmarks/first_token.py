#!/usr/bin/env python3
"""From the optimizer's update to the first token on the new weights, by the way of the weights.

  benchmarks/first_token.py [--binary INGOT] [--steps 24] [--ways grpc,broadcast,directory,s3]

For each way one launch of configs/smoke.yaml with bf16 weights: trainer, one engine and the other roles are separate
processes. Prints medians over the versions with a first token, in ms; `all` is the median of the sums, not the sum of medians. S3 is
moto (`scripts/setup.sh services`); a way without its server is left out by name. One run a way, one after the other.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/app/runs"))
from ingot_runs import Ingot, SHORT, check  # noqa: E402
from s3_servers import Moto  # noqa: E402

PARTS = ["snapshot", "save", "encode", "send", "fetch", "apply", "wait", "pause"]


def settings_of(way, moto):
    if way != "s3":
        return {}
    return {**moto.settings(), "weights.s3.region": "us-east-1"}


def measure(ingot, way, moto, steps):
    name = f"first-{way}"
    code, output = ingot.run("launch", {
        **SHORT, "run.name": name, "trainer.dtype": "bf16", "weights.transport": way, "sft.max_steps": 100,
        "scheduler.total_steps": steps, "scheduler.groups_per_step": 8, "scheduler.group_size": 8, **settings_of(way, moto)},
        timeout=600)
    check(code == 0, output)
    rows = [row for row in ingot.metrics(name) if "perf/first_token_ms" in row]
    check(rows, f"{way}: no version had a first token")

    def median(key):
        values = [row[key] for row in rows if key in row]
        return f"{statistics.median(values):.2f}" if values else "-"

    within = sum(row["perf/first_token_ms"] <= 2 * row["perf/first_token_step_ms"] for row in rows)
    parts = [median(f"perf/update_weights_{part}_ms") for part in PARTS]
    print(" | ".join([f"| {way}", *parts, median("perf/first_token_decode_ms"), median("perf/first_token_ms"),
                      f"{min(row['perf/first_token_ms'] for row in rows):.2f}", median("perf/first_token_step_ms"),
                      f"{within} of {len(rows)} |"]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=str(ROOT / "build/release/ingot"))
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--ways", default="grpc,broadcast,directory,s3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingot-first-") as folder:
        ingot, moto = Ingot(options.binary, str(ROOT), folder), Moto(str(ROOT), folder)
        try:
            print(" | ".join(["| way", *PARTS, "first token", "all", "best", "a decode step", "within two steps |"]))
            print("| --- " * (len(PARTS) + 6) + "|")
            for way in options.ways.split(","):
                if way == "s3" and not moto.url:
                    print("s3 is left out: moto is not installed")
                    continue
                measure(ingot, way, moto, options.steps)
        finally:
            moto.stop()


if __name__ == "__main__":
    main()
