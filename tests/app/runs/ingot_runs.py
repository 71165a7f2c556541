"""Runs of the ingot binary that scripts start, watch, disturb and check, and the main function of scripts of cases.

The laws of every finished run are in `check_run`. Settings for short runs are SHORT, launch_settings, ranks_settings, GROUPS and
write_asking_config.
"""
import argparse
import atexit
import contextlib
import http.client
import inspect
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

# A short run: a small model, little warm start, few and small steps, any reward.
SHORT = {
    "model.hidden_size": 64, "model.intermediate_size": 128, "model.heads": 2, "model.kv_heads": 1, "sft.max_steps": 30, "scheduler.total_steps": 8, "scheduler.groups_per_step": 2, "scheduler.group_size": 4,
    "scheduler.max_drops_per_batch": 2, "trainer.checkpoint_every": 2, "goal.first_steps": 0, "goal.last_steps": 0,
    "eval.tasks": "", "http.port": 0,
}
NOBODY = 65531  # a uid that has no files here

# A random byte-level model; its agent calls four names of models.
GROUPS = {
    "run": {"name": "groups", "seed": 1},
    "data": {"tasks": "examples/smoke/train.jsonl"},
    "model": {"hidden_size": 32, "intermediate_size": 64, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 16,
              "context_length": 512},
    "scheduler": {"total_steps": 8, "groups_per_step": 2, "group_size": 4, "max_drops_per_batch": 4,
                  "group_deadline_s": 120},
    "trainer": {"learning_rate": 3e-3, "checkpoint_every": 2, "keep_checkpoints": 100},
    "gateway": {"model_name": "policy", "max_new_tokens": 8},
    "http": {"port": 0},
    "agents": {"concurrency": 4, "recipes": [
        {"name": "groups", "command": ["/usr/bin/python3", "-I", "${cwd}/tests/app/runs/model_groups_agent.py"],
         "timeout_s": 60, "verifier": {"kind": "agent_posted"}}]},
}


def end(process):
    """What a failed case leaves behind would go on for hours."""
    if process.poll() is None:
        process.kill()
        process.wait(30)


class Ingot:
    """The binary, the repository that it runs in, the folder of its runs, and the configuration of the commands that follow."""

    def __init__(self, binary, source, folder):
        self.binary, self.source, self.folder = binary, source, folder
        self.config = "configs/smoke.yaml"

    def configure(self, name, settings):
        """Writes a configuration into the folder, for the commands that follow."""
        path = pathlib.Path(self.folder) / f"{name}.yaml"
        path.write_text(json.dumps(settings))  # YAML is a superset
        self.config = str(path)

    def rows(self, name):
        """Number of rows that the run has recorded so far."""
        path = pathlib.Path(f"{self.folder}/{name}/metrics.jsonl")
        return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0

    def argv(self, command, settings, extra=()):
        """`command` is a word, or all those that stand before the configuration."""
        words = [command] if isinstance(command, str) else command
        argv = [self.binary, *map(str, words), self.config, *extra, "--set", f"run.root={self.folder}"]
        for key, value in settings.items():
            argv += ["--set", f"{key}={value}"]
        return argv

    def start(self, command, settings, extra=(), output=subprocess.PIPE, **more):
        process = subprocess.Popen(self.argv(command, settings, extra), cwd=self.source, stdout=output, stderr=subprocess.STDOUT,
                                   text=True, **more)
        atexit.register(end, process)
        return process

    def run(self, command, settings, extra=(), timeout=1500):
        """The exit code of a command with the configuration, and what it said."""
        done = subprocess.run(self.argv(command, settings, extra), cwd=self.source, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout)
        return done.returncode, done.stdout

    def ask(self, command, settings, timeout=60):
        """As `run`; gives the finished process, whose stdout and stderr are apart."""
        return subprocess.run(self.argv(command, settings), cwd=self.source, capture_output=True, text=True, timeout=timeout)

    def call(self, *words, timeout=60):
        """The finished process of `ingot WORDS`."""
        return subprocess.run([self.binary, *map(str, words)], cwd=self.source, capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL)

    def inspect(self, name, *extra):
        done = self.call("inspect", f"{self.folder}/{name}", *extra)
        check(done.returncode == 0, f"inspect failed: {done.stderr}")
        return done.stdout

    def metrics(self, name):
        with open(f"{self.folder}/{name}/metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def steps_trained(self, name):
        """(time, numbers) of each step recorded so far, by step; a kill may have cut off the last line."""
        path = pathlib.Path(f"{self.folder}/{name}/metrics.jsonl")
        steps = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if "actor/loss" in row:
                steps[row["step"]] = (row["time"], [row[name] for name in ("actor/loss", "actor/grad_norm", "reward/mean")])
        return steps

    def journal(self, name):
        return [json.loads(line) for line in self.inspect(name, "--journal").splitlines()]


def check(condition, message):
    if not condition:
        print(f"FAILED: {message}")
        sys.exit(1)


def skip(why):
    """Ends the script as skipped: this machine lacks what it needs."""
    print(f"SKIPPED: {why}")
    sys.exit(77)


def wait_until(condition, what, process=None, seconds=240):
    """Returns once `condition` holds. Fails after `seconds`, or when `process` ends before."""
    deadline = time.monotonic() + seconds
    while not condition():
        check(process is None or process.poll() is None, f"the process ended before {what}")
        check(time.monotonic() < deadline, f"no {what} within {seconds} s")
        time.sleep(0.05)  # a condition may read many files of /proc


def check_run(ingot, name, steps):
    """Checks the laws of a finished run, however often it was killed; returns its rows."""
    rows = [row for row in ingot.metrics(name) if "reward/mean" in row]
    check([row["step"] for row in rows] == list(range(steps)), f"steps in metrics.jsonl: {[r['step'] for r in rows]}")
    batches, closed, checkpoints = {}, set(), set()
    for record in ingot.journal(name):
        if "batch" in record:
            batch = record["batch"]
            step = int(batch.get("step", 0))
            check(step not in batches, f"batch {step} is journalled twice")
            batches[step] = batch["groupIds"]
        if "closed" in record:
            closed.add(record["closed"].get("groupId", "0"))
        if "checkpoint" in record:
            checkpoints.add(int(record["checkpoint"].get("step", 0)))
    groups = [group for batch in batches.values() for group in batch]
    check(sorted(batches) == list(range(steps)), f"batches in the journal: {sorted(batches)}")
    check(len(groups) == len(set(groups)), "a group is in two batches")
    check(not closed & set(groups), "a group was dropped or failed and trained")
    check(steps in checkpoints, f"checkpoints in the journal: {sorted(checkpoints)}")
    check(all(row["mismatch/probe_tokens"] >= 256 for row in rows), "a step's probe held fewer than 256 tokens")
    check(all(row["mismatch/logprob_abs_diff_max"] <= 1e-5 for row in rows), "rollout and trainer differ by over 1e-5")
    check(all(row["async/staleness_max"] <= 4 for row in rows), "tokens older than the window allows were trained")
    first = [row for row in rows if "perf/first_token_ms" in row]
    check(all(row["perf/first_token_version"] <= row["step"] + 1 for row in first), "a first token of a later version")
    versions = [row["perf/first_token_version"] for row in first]
    check(versions == sorted(set(versions)), f"versions with a first token: {versions}")
    check(all(row["perf/first_token_ms"] > row["perf/first_token_decode_ms"] > 0 for row in first), "a part is longer")
    return rows


def compare_steps(before, now):
    """Updates `before` with `now`; returns the number of steps that were taken again in between."""
    again = 0
    for step in before.keys() & now.keys():
        check(before[step][1] == now[step][1], f"step {step} gave {before[step]}, and after a kill {now[step]}")
        again += before[step][0] != now[step][0]
    before.update(now)
    return again


def launch_settings(name, **more):
    return {**SHORT, "run.name": name, **more}


def ranks_settings(name, **more):
    own = {
        "run.name": name, "sft.max_steps": 4, "scheduler.total_steps": 12, "scheduler.group_deadline_s": 600,
        "cluster.trainer_ranks": 2, "cluster.rank_deadline_s": 10}
    return {**SHORT, **own, **more}


def wait_for_rows(ingot, process, name, rows):
    """Returns once the run, driven by `process`, has recorded so many rows."""
    wait_until(lambda: ingot.rows(name) >= rows, f"row {rows} of {name}", process)


def wait_for_steps(ingot, launch, name, steps):
    """Waits until the run's record holds as many trained steps; returns them."""
    wait_until(lambda: len(ingot.steps_trained(name)) >= steps, f"step {steps} of {name}", launch)
    return ingot.steps_trained(name)


def process_of(launch, role):
    """The process id of a role of the launched run, such as rollout-1; None while it is being started again."""
    name, _, index = role.partition("-")
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) != launch.pid:
                continue
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, ValueError):
            continue
        if words[1:2] != [name]:
            continue
        number = next((words[i + 1] for i, word in enumerate(words) if word in ("--engine", "--gateway", "--datapool", "--rank")), "0")
        if number == (index or "0"):
            return int(entry.name)
    return None


def role_process(launch, role):
    """As process_of, of a role that is there or is being started again."""
    found = []

    def is_there():
        found.append(process_of(launch, role))
        return found[-1] is not None

    wait_until(is_there, f"process of {role}", launch, seconds=60)
    return found[-1]


def status(ingot, settings):
    """What `ingot status` says: its exit code, and its lines by role or node."""
    done = ingot.ask("status", settings)
    return done.returncode, {line.split()[0]: line for line in done.stdout.splitlines()}


def end(*processes):
    """Ends, one after the other, those processes that still run; None stands for one that never did."""
    for process in processes:
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(timeout=60)


@contextlib.contextmanager
def serving(ingot, *words):
    """`ingot serve WORDS` while the block runs; gives the line that says where it listens."""
    server = subprocess.Popen([ingot.binary, "serve", *map(str, words), "--port", "0"], cwd=ingot.source,
                              stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        check("/v1" in line, f"serve said: {line}")
        yield line
    finally:
        server.terminate()
        check(server.wait(timeout=120) == 0, "serve did not end in order")


def finish_launched(ingot, launch, name, steps):
    """Waits for the end of a launched run, which must succeed; returns its output and its rows."""
    try:
        output, _ = launch.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        launch.terminate()
        check(False, f"{name} stood still: {launch.communicate()[0]}")
    if launch.returncode != 0:
        for log in pathlib.Path(f"{ingot.folder}/{name}/logs").glob("*.log"):
            print(f"--- {log.name}\n{log.read_text()[-2000:]}")
    check(launch.returncode == 0, f"{name}: exit code {launch.returncode}: {output}")
    check(re.search(rf"^  \S*ingot view {re.escape(ingot.folder)}/{name}$", output, re.M), f"{name} names no next commands: {output[-500:]}")
    return output, check_run(ingot, name, steps)


def scrape(folder, process):
    """The metrics of a process of the run in `folder`, from its socket file, which is its user's alone."""
    path = f"{folder}/sockets/metrics-{process}.sock"
    check(os.stat(path).st_mode & 0o777 == 0o600, f"the mode of {path}: {os.stat(path).st_mode:o}")
    connection = http.client.HTTPConnection("run", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(os.path.relpath(path))  # a long path does not fit into an address
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    check(answer.status == 200, f"{path}: {answer.status}")
    return answer.read().decode()


def write_secret(ingot, name):
    """A file that only its user reads, with a text as long as tokens and keys must be."""
    path = pathlib.Path(ingot.folder) / name
    path.write_text(f"the-{name}-of-this-test-0123456789\n")
    path.chmod(0o600)
    return path


def errors(output):
    """The lines of a start that failed, without those that tell for whom it waited."""
    return [line for line in output.strip().splitlines() if not re.search(r"\] (the launcher )?waits for ", line)]


def write_asking_config(ingot, cleanup=(), agent_seconds=0.3, sampling='"max_tokens": 4'):
    """A configuration whose agents make one call with `sampling`, wait `agent_seconds`, and answer 0 or 1 by chance. Each
    adds a line to FOLDER/begun."""
    folder = pathlib.Path(ingot.folder)
    agent = folder / "agent.py"
    agent.write_text(f"""import http.client, json, os, time, urllib.parse
with open("{folder}/begun", "a") as file:
    file.write("begun\\n")
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(url.netloc, timeout=60)
connection.request("POST", url.path + "/chat/completions", json.dumps({{
    "model": "policy", {sampling}, "messages": [{{"role": "user", "content": "which?"}}]}}), {{
    "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}})
answer = connection.getresponse().read()
time.sleep({agent_seconds})
print(len(answer) % 2)
""")
    # Stronger isolation levels hide FOLDER.
    settings = {**GROUPS, "sandbox": {"isolation": "process"}, "agents": {"concurrency": 4, "recipes": [
        {"name": "asking", "command": ["/usr/bin/python3", "-I", str(agent)], "timeout_s": 60, "cleanup": list(cleanup),
         "verifier": {"kind": "numeric", "expected": "1"}}]}}
    ingot.configure("asking", settings)
    return folder


def write_text_reward_config(ingot, agent_seconds=0):
    """As `write_asking_config`, but the reward, 0 or 1, depends on the sampled text alone."""
    folder = write_asking_config(ingot, agent_seconds=agent_seconds, sampling='"max_tokens": 40')
    agent = folder / "agent.py"
    text = agent.read_text(encoding="utf-8")
    own = text.replace("len(answer)", 'sum(json.loads(answer)["choices"][0]["message"]["content"].encode())')
    check(own != text, text)
    agent.write_text(own, encoding="utf-8")
    return folder


def run_as_nobody(argv, **more):
    """The finished process of `argv` under another uid than root; None = the uid reaches no binary here."""
    if subprocess.run([argv[0], "--version"], user=NOBODY, capture_output=True).returncode != 0:
        print(f"uid {NOBODY} cannot run {argv[0]}: not checked")
        return None
    return subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=60,
                          **more)


def main(*cases):
    """Runs the case that the command line names: SCRIPT BINARY SOURCE_DIR CASE [--OPTION VALUE ...].

    A function case_NAME is the case NAME. It gets the Ingot of a new folder; its further parameters are options, such as
    kills=3 for --kills."""
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("source")
    names = parser.add_subparsers(dest="case", metavar="CASE", required=True)
    for case in cases:
        one = names.add_parser(case.__name__.removeprefix("case_"), help=case.__doc__)
        one.set_defaults(run=case)
        for option in list(inspect.signature(case).parameters.values())[1:]:
            one.add_argument(f"--{option.name}", type=type(option.default), default=option.default)
    options = vars(parser.parse_args())
    binary, source, name, run = (options.pop(key) for key in ("binary", "source", "case", "run"))
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        run(Ingot(binary, source, folder), **options)
    print(f"{name}: passed")
