"""Passes a run's record on to wandb. Answers each line on the socket that is its stdin: {"n": N, ..} -> {"n": N}, with
"error" if it cannot.

  open         opens the run of W&B                row        metrics of a step, {"step": .., NAME: ..}
  samples      episodes of an evaluated task       evaluated  makes them a table
  end          finishes the run with an exit code
"""
import json
import os
import re
import socket
import sys


class Fault(Exception):
    pass


def import_wandb():
    try:
        import wandb
    except ImportError as error:
        raise Fault(f"{sys.executable} cannot import wandb ({error}): install it with {sys.executable} -m pip install wandb, or set "
                    "another Python with the key python") from None
    return wandb


def settings_of(text):
    """A configuration in YAML 1.2 as a dictionary. PyYAML reads 1e-3 as a word."""
    import yaml
    loader = type("Yaml12", (yaml.SafeLoader,), {})
    number = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
    loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    return yaml.load(text, loader)


class Run:
    def __init__(self):
        self.run, self.last_time, self.samples = None, 0, {}
        self.next, self.kept = 0, None  # W&B's own step, and the file that keeps it for the next start

    def open(self, asked):
        if self.run is not None:
            return
        self.wandb = import_wandb()
        mode = None if asked["mode"] == "auto" else asked["mode"]
        if mode is None and os.environ.get("WANDB_MODE") in (None, "", "online", "shared", "run"):
            mode = "online"  # without a terminal, wandb must not ask for a login
        self.run = self.wandb.init(
            id=asked["id"], resume="allow", project=asked["project"], entity=asked["entity"] or None, name=asked["name"],
            mode=mode, dir=asked["folder"], config=settings_of(asked["config"]),
            settings=self.wandb.Settings(console="off", x_disable_stats=True, silent=True))
        self.run.define_metric("*", step_metric="step")
        self.kept = os.path.join(asked["folder"], "wandb", "ingot-step")
        if os.path.exists(self.kept):  # offline, wandb does not know the steps of earlier starts
            with open(self.kept, encoding="utf-8") as file:
                self.next = int(file.read() or 0)
        self.next = max(self.next, self.run.step)

    def log(self, values):
        self.run.log(values, step=self.next)
        self.next += 1
        with open(self.kept, "w", encoding="utf-8") as file:
            file.write(str(self.next))

    def row(self, values, time):
        if time <= self.last_time:
            return  # sent again because its confirmation was late
        self.log(values)
        self.last_time = time

    def add(self, samples, group):
        self.samples[group] = samples

    def evaluated(self, version, step):
        rows = [[version, *sample] for _, samples in sorted(self.samples.items()) for sample in samples]
        self.samples = {}
        if rows:
            table = self.wandb.Table(["version", "set", "task", "sample", "reward", "state", "detail"], rows)
            self.log({"eval/samples": table, "step": step})

    def end(self, code):
        if self.run is not None:
            self.run.finish(exit_code=code)
        self.run = None

    def answer(self, asked):
        if "open" in asked:
            self.open(asked["open"])
        elif "row" in asked:
            self.row(asked["row"], asked["time"])
        elif "samples" in asked:
            self.add(asked["samples"], asked["group"])
        elif "evaluated" in asked:
            self.evaluated(asked["evaluated"], asked["step"])
        elif "end" in asked:
            self.end(asked["end"])


def main():
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # wandb's own processes must not hold the socket
    run = Run()
    for line in channel.makefile("rb"):
        asked, reply = json.loads(line), {}
        try:
            run.answer(asked)
        except Fault as fault:
            reply = {"error": str(fault)}
        except Exception as error:
            reply = {"error": f"wandb: {type(error).__name__}: {error}"[:1000]}
        channel.sendall(json.dumps({"n": asked["n"], **reply}).encode() + b"\n")
    run.end(1)  # Ingot has ended without a word


main()
