#!/usr/bin/env python3
"""Trains both judges of docs/judge.md and prints their accuracy on the held-out labels: compare.py INGOT [FOLDER]."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile


def accuracies(ingot, folder, name):
    """Of the supervised judge, and of the same after its steps of RL."""
    argv = [ingot, "train", "run.yaml"]
    for one in (f"run.name={name}", f"run.root={folder}/runs", f"data.sft={name}.jsonl", "http.port=0"):
        argv += ["--set", one]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    rows = [json.loads(line) for line in (folder / f"runs/{name}/metrics.jsonl").read_text().splitlines()]
    measured = [row["eval/reward_mean"] for row in rows if "eval/reward_mean" in row]
    return measured[0], measured[-1]


def main():
    ingot = str(pathlib.Path(sys.argv[1]).resolve())
    source = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory(prefix="ingot-judge-") as temporary:
        root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else temporary)
        folder = root / "judge"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / "run.yaml", folder)
        shutil.copytree(source.parent / "agents", root / "agents", dirs_exist_ok=True)
        subprocess.run([sys.executable, str(source / "generate.py"), str(folder)], check=True)
        labels = [json.loads(line)["verdict"] for line in (folder / "held_out.jsonl").read_text().splitlines()]
        majority = max(labels.count("yes"), labels.count("no")) / len(labels)
        print(f"majority                    {majority:.3f}")
        for name, words in (("classic", "one verdict"), ("cot", "reasons first")):
            supervised, trained = accuracies(ingot, folder, name)
            print(f"{name:8s} ({words:13s})    {supervised:.3f} supervised, {trained:.3f} after RL", flush=True)


if __name__ == "__main__":
    main()
