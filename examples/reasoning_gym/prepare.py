#!/usr/bin/env python3
"""Writes tasks of reasoning-gym for `ingot eval` and `ingot train`: prepare.py OUT [--datasets a,b] [--size N] [--train N].

    OUT/DATASET.jsonl    held-out tasks of one dataset, seed 2
    OUT/train.jsonl      tasks of all datasets, seed 1

A task names its dataset, seed, size, and index, so that score.py makes the same entry again. Runs under a Python that has the
package: pip install reasoning-gym==0.1.25. Same arguments, same tasks.
"""
import argparse
import json
import pathlib

import reasoning_gym
from reasoning_gym.utils import SYSTEM_PROMPTS

DATASETS = "chain_sum,gcd,letter_counting,spell_backward"


def tasks(name, seed, size):
    dataset = reasoning_gym.create_dataset(name, seed=seed, size=size)
    for index in range(size):
        yield {"task_id": f"{name}/{seed}/{index}", "domain": name, "prompt": dataset[index]["question"],
               "system": SYSTEM_PROMPTS["default"], "dataset": name, "seed": seed, "size": size, "index": index}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--datasets", default=DATASETS, help="names of reasoning-gym's datasets")
    parser.add_argument("--size", type=int, default=50, help="held-out tasks per dataset")
    parser.add_argument("--train", type=int, default=200, help="training tasks per dataset")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.datasets.split(",")

    def write(name, rows):
        (options.out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    for name in names:
        write(name, tasks(name, 2, options.size))
    write("train", [task for name in names for task in tasks(name, 1, options.train)])


if __name__ == "__main__":
    main()
