#!/usr/bin/env python3
"""Trains both judges of docs/results/judge.md and prints their accuracy on the held-out labels:
compare.py INGOT [FOLDER] [--labels N HELD_OUT] [--set KEY=VALUE ...]. It ends with 1 if the judge that reasons does not beat both."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def accuracies(ingot, folder, name, settings):
    """Of the supervised judge, and of the same after its steps of RL."""
    argv = [ingot, "train", "run.yaml"]
    for one in (f"run.name={name}", f"run.root={folder}/runs", f"data.sft={name}.jsonl", "http.port=0", *settings):
        argv += ["--set", one]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    rows = [json.loads(line) for line in (folder / f"runs/{name}/metrics.jsonl").read_text().splitlines()]
    measured = [row["eval/reward_mean"] for row in rows if "eval/reward_mean" in row]
    return measured[0], measured[-1]


def compare(ingot, root, labels, settings):
    source = pathlib.Path(__file__).resolve().parent
    folder = root / "judge"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "run.yaml", folder)
    shutil.copytree(source.parent / "agents", root / "agents", dirs_exist_ok=True)
    subprocess.run([sys.executable, str(source / "generate.py"), str(folder), *labels], check=True)
    verdicts = [json.loads(line)["verdict"] for line in (folder / "held_out.jsonl").read_text().splitlines()]
    majority = max(verdicts.count("yes"), verdicts.count("no")) / len(verdicts)
    print(f"{'majority':26s} {majority:.3f}  of {len(verdicts)} held-out labels", flush=True)
    trained = {}
    for name, words in (("classic", "one verdict"), ("cot", "reasons first")):
        began = time.monotonic()
        supervised, trained[name] = accuracies(ingot, folder, name, settings)
        print(f"{f'{name} ({words})':26s} {supervised:.3f} supervised, {trained[name]:.3f} after RL; "
              f"{time.monotonic() - began:.0f} s", flush=True)
    return trained["cot"] > max(majority, trained["classic"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ingot", type=pathlib.Path)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="where the runs stay; none: they are removed")
    parser.add_argument("--labels", nargs=2, default=[], metavar=("N", "HELD_OUT"), help="fewer than generate.py's own")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="over run.yaml, of both judges")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingot-judge-") as temporary:
        better = compare(str(args.ingot.resolve()), (args.folder or pathlib.Path(temporary)).resolve(), args.labels, args.set)
    print(f"the judge that reasons {'beats' if better else 'does not beat'} both others")
    sys.exit(0 if better else 1)


if __name__ == "__main__":
    main()
