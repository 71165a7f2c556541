#!/usr/bin/env python3
"""A run with and without branching rollouts: the same reward at fewer computed tokens.

    branching.py INGOT [--config examples/branching/run.yaml] [--widths 0 8] [--seeds 1 2] [--folder DIR] [--set key=value ...]

A width of 0 is the run without branches. In the others each trunk makes one call, and so many leaves go on from it
(agents.branching at 1). With --config configs/smoke.yaml the trunk asks the tool, and its leaves answer.

Per run the table gives the mean reward of the first and the last eight steps, and tokens: computed = prompt tokens that the
engine did not have in its cache, and sampled ones, as the gateway counts them; sampled; trained = merged tokens of all
batches; CPU seconds of the run and its agents. The counters are read from the run's metrics socket while it lasts, so those
of its last half second may be missing.
"""
import argparse
import http.client
import json
import re
import resource
import socket
import statistics
import subprocess
import tempfile
import time

COUNTERS = ("prompt", "cached_prompt", "sampled")


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("run", timeout=5)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


def counters(path):
    """The gateway's counts of tokens; None while the run does not answer."""
    try:
        connection = SocketConnection(path)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return None
    found = {name: re.search(rf"^ingot_gateway_{name}_tokens_total (\S+)", text, re.M) for name in COUNTERS}
    return {name: float(value[1]) for name, value in found.items()} if all(found.values()) else None


def train(args, seed, width, folder):
    name = f"width{width}-seed{seed}"
    settings = [f"run.seed={seed}", f"run.name={name}", f"run.root={folder}", "http.port=0", *args.set,
                f"agents.branching.at={1 if width else 0}", f"agents.branching.width={width}"]
    command = [args.ingot, "train", args.config]
    for setting in settings:
        command += ["--set", setting]
    tokens = None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(f"{folder}/{name}.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            tokens = counters(f"{folder}/{name}/sockets/metrics-ingot.sock") or tokens
            time.sleep(0.3)
    rows = [json.loads(line) for line in open(f"{folder}/{name}/metrics.jsonl", encoding="utf-8")]
    steps = [row for row in rows if "reward/mean" in row]
    rewards = [row["reward/mean"] for row in steps]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "code": process.returncode, "first": statistics.mean(rewards[:8]), "last": statistics.mean(rewards[-8:]),
        "computed": tokens["prompt"] - tokens["cached_prompt"] + tokens["sampled"], "sampled": tokens["sampled"],
        "trained": sum(row["tree/merged_tokens"] for row in steps), "trunks": sum(row["batch/trunks"] for row in steps),
        "episodes": sum(row["batch/episodes"] for row in steps),
        "cpu": spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--config", default="examples/branching/run.yaml")
    parser.add_argument("--widths", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--folder", default="")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="ingot-branching-")
    print(f"runs in {folder}")
    print("| width | seed | reward, first 8 steps | last 8 | computed | sampled | trained | trunks, episodes | CPU s |")
    for seed in args.seeds:
        for width in args.widths:
            run = train(args, seed, width, folder)
            print(f"| {width} | {seed} | {run['first']:.2f} | {run['last']:.2f} | {run['computed']:,.0f} | {run['sampled']:,.0f} "
                  f"| {run['trained']:,.0f} | {run['trunks']:.0f}, {run['episodes']:.0f} | {run['cpu']:.0f} |"
                  + (f" exit {run['code']}" if run["code"] else ""), flush=True)


if __name__ == "__main__":
    main()
