#!/usr/bin/env python3
"""Runs with and without branching rollouts: the same reward at fewer computed tokens?

    branching.py INGOT [--config examples/branching/run.yaml] [--widths 0 8] [--seeds 1 2 3] [--folder DIR] [--set key=value ...]

A width of 0 is the run without branches. In the others each trunk makes one call, and that many leaves continue from it
(agents.branching at 1). With --config configs/smoke.yaml the trunk asks the tool, and its leaves answer. A run that is
already in the folder is only counted, so that seeds can run one by one.

Every count is of the episodes of the run's batches, and is read from the pool and the record when the run has ended:

    computed  prompt tokens that the engine did not have in its cache, and sampled ones
    sampled   tokens that the engine sampled
    unique    tokens of the recorded trees of each batch, merged; they must equal those that the trainer merged

The first table has a line per run, the second one per width: the mean over the seeds and the deviation of a sample. `reached`
is the step by which the mean reward of the last four steps was at least --reward, and what had been computed by then.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/app/runs"))
from stored_trees import Tokens, stored_groups  # noqa: E402


def train(args, seed, width, folder, name):
    settings = [f"run.seed={seed}", f"run.name={name}", f"run.root={folder}", "http.port=0", *args.set,
                f"agents.branching.at={1 if width else 0}", f"agents.branching.width={width}"]
    command = [args.ingot, "train", args.config]
    for setting in settings:
        command += ["--set", setting]
    with open(f"{folder}/{name}.log", "w", encoding="utf-8") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    if code:
        sys.exit(f"{name} ended with exit code {code}: {folder}/{name}.log")


def inspect(args, folder, name, *options):
    return subprocess.run([args.ingot, "inspect", f"{folder}/{name}", *options], check=True, capture_output=True,
                          text=True).stdout.splitlines()


def count(args, folder, name):
    rows = [json.loads(line) for line in open(f"{folder}/{name}/metrics.jsonl", encoding="utf-8")]
    rows = {row["step"]: row for row in rows if "reward/mean" in row}
    groups = stored_groups(inspect(args, folder, name, "--json", "--limit", "0"))
    run = {"computed": 0, "sampled": 0, "unique": 0, "reached": None, "rewards": [],
           "trunks": sum(row["batch/trunks"] for row in rows.values()),
           "samples": sum(row["batch/episodes"] for row in rows.values())}
    for record in map(json.loads, inspect(args, folder, name, "--journal")):
        if "batch" not in record:
            continue
        step = int(record["batch"].get("step", 0))
        trees = [tree for group in record["batch"]["groupIds"] for tree in groups[int(group)].values()]
        tokens, trained = Tokens(trees), rows[step]["tree/merged_tokens"]
        if tokens.unique != trained:
            sys.exit(f"{name}, step {step}: {tokens.unique} unique tokens recorded, {trained:.0f} trained")
        run["unique"] += tokens.unique
        run["computed"] += tokens.computed
        run["sampled"] += sum(len(tree.ids(call.get("sampledKeys", []))) for tree in trees for call in tree.calls)
        run["rewards"].append(rows[step]["reward/mean"])
        if run["reached"] is None and len(run["rewards"]) >= 4 and statistics.mean(run["rewards"][-4:]) >= args.reward:
            run["reached"] = (step + 1, run["computed"])
    run["last"] = statistics.mean(run["rewards"][-8:])
    return run


def spread(values, form):
    text = format(statistics.mean(values), form)
    return text + (f" ± {format(statistics.stdev(values), form)}" if len(values) > 1 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--config", default="examples/branching/run.yaml")
    parser.add_argument("--widths", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--reward", type=float, default=0.9)
    parser.add_argument("--folder", default="")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="ingot-branching-")
    print(f"runs in {folder}")
    print("| width | seed | reward, last 8 steps | computed | sampled | unique, in rollout and training | trunks, samples | reached |")
    runs = {}
    for seed in args.seeds:
        for width in args.widths:
            name = f"width{width}-seed{seed}"
            if not pathlib.Path(folder, name).exists():
                train(args, seed, width, folder, name)
            run = count(args, folder, name)
            runs.setdefault(width, []).append(run)
            reached = f"step {run['reached'][0]}, {run['reached'][1]:,}" if run["reached"] else "no"
            print(f"| {width} | {seed} | {run['last']:.3f} | {run['computed']:,} | {run['sampled']:,} | {run['unique']:,} "
                  f"| {run['trunks']:.0f}, {run['samples']:.0f} | {reached} |", flush=True)
    print("| width | seeds | reward, last 8 steps | computed | sampled | unique | reached by all at | computed by then |")
    for width, ended in runs.items():
        reached = [run["reached"] for run in ended if run["reached"]]
        print(f"| {width} | {len(ended)} | {spread([run['last'] for run in ended], '.3f')} "
              + "".join(f"| {spread([run[name] for run in ended], ',.0f')} " for name in ("computed", "sampled", "unique"))
              + (f"| step {spread([step for step, _ in reached], '.0f')} | {spread([spent for _, spent in reached], ',.0f')} |"
                 if len(reached) == len(ended) else f"| {len(reached)} of {len(ended)} runs | |"))


if __name__ == "__main__":
    main()
