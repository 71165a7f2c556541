#!/usr/bin/env python3
"""Converts a run's record to an offline Weights & Biases run: to_wandb.py RUN [--project NAME].

Reads RUN/metrics.jsonl and writes a folder below RUN/wandb. `wandb sync` sends that folder, from any machine; wandb prints the command at the end.
Each call creates a new W&B run with all steps so far. Needs `pip install wandb`.
"""
import argparse
import json
import pathlib

import wandb


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--project", default="ingot")
    options = parser.parse_args()
    folder = options.run.resolve()
    config = folder / "config.yaml"
    run = wandb.init(project=options.project, name=folder.name, mode="offline", dir=folder,
                     config={"config.yaml": config.read_text()} if config.exists() else None, settings=wandb.Settings(console="off"))
    run.define_metric("*", step_metric="step")
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # half a row, of an active run
        run.log({key: value for key, value in row.items() if isinstance(value, (int, float))})
    run.finish()


if __name__ == "__main__":
    main()
