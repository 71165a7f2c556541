#!/usr/bin/env python3
"""Trains both judges of docs/judge.md and prints their accuracy on the held-out labels: compare.py INGOT [FOLDER]."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile


def accuracy(ingot, source, folder, name, steps):
    sets = [f"run.name={name}-{steps}", f"run.root={folder}/runs", f"data.sft={name}.jsonl", f"scheduler.total_steps={steps}", "http.port=0"]
    argv = [ingot, "train", "run.yaml"]
    for one in sets:
        argv += ["--set", one]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    rows = [json.loads(line) for line in (folder / f"runs/{name}-{steps}/metrics.jsonl").read_text().splitlines()]
    return [row["eval/reward_mean"] for row in rows if "eval/reward_mean" in row][-1]


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
        print(f"majority                    {majority:.2f}")
        for name, words in (("classic", "one verdict"), ("cot", "reasons first")):
            for steps in (1, 20):
                print(f"{name:8s} ({words:13s}) {accuracy(ingot, source, folder, name, steps):.2f}  after {steps} RL steps", flush=True)


if __name__ == "__main__":
    main()
