#!/usr/bin/env python3
"""Runs the ingot binary as a user would: run_tests.py BINARY SOURCE_DIR CASE [--kills N] [--seed S].

Cases: bad_input, rewards, supervised, serve, model_groups, visitors, kill, launch, launch_stop, stop, evaluate, ranks,
ranks_lost, launch_kill, damage, postgres, bench, branching, launch_branching, smoke, seeds, unstarted, doubts, intruder.
Exits with 0 if every check of the case holds.
"""
import argparse
import base64
import fcntl
import glob
import http.client
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from stored_trees import StoredTree, Tokens, stored_groups

# A short run: little warm start, few and small steps, any reward.
SHORT = {
    "sft.max_steps": 30, "scheduler.total_steps": 8, "scheduler.groups_per_step": 2, "scheduler.group_size": 4,
    "scheduler.max_drops_per_batch": 2, "trainer.checkpoint_every": 2, "goal.first_steps": 0, "goal.last_steps": 0,
    "eval.tasks": "", "http.port": 0,
}


class Ingot:
    def __init__(self, binary, source, folder):
        self.binary, self.source, self.folder = binary, source, folder
        self.config = "configs/smoke.yaml"

    def rows(self, name):
        """Number of rows that the run has recorded so far."""
        path = pathlib.Path(f"{self.folder}/{name}/metrics.jsonl")
        return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0

    def argv(self, command, settings, extra=()):
        argv = [self.binary, command, self.config, *extra, "--set", f"run.root={self.folder}"]
        for key, value in settings.items():
            argv += ["--set", f"{key}={value}"]
        return argv

    def start(self, command, settings, extra=()):
        return subprocess.Popen(self.argv(command, settings, extra), cwd=self.source, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, command, settings, extra=(), timeout=500):
        done = subprocess.run(self.argv(command, settings, extra), cwd=self.source, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout)
        return done.returncode, done.stdout

    def inspect(self, name, *extra):
        done = subprocess.run([self.binary, "inspect", f"{self.folder}/{name}", *extra], cwd=self.source,
                              capture_output=True, text=True, timeout=60)
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


def wait_until(condition, what, process=None, seconds=240):
    """Returns once `condition` holds. Fails after `seconds`, or when `process` ends before."""
    deadline = time.monotonic() + seconds
    while not condition():
        check(process is None or process.poll() is None, f"the process ended before {what}")
        check(time.monotonic() < deadline, f"no {what} within {seconds} s")
        time.sleep(0.02)


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


def case_smoke(ingot, options):
    started = time.time()
    code, output = ingot.run("train", {"http.port": 0, "run.seed": options.seed})
    print(output)
    check(code == 0, f"exit code {code}")
    rows = check_run(ingot, "smoke", 48)
    check(rows[-1]["scheduler/finished_episodes"] >= 1000, "fewer than 1,000 episodes")
    check(all(row["perf/update_weights_wire_bytes"] == 0 for row in rows), "weights were encoded within one process")
    check(any("perf/first_token_ms" in row for row in rows), "no version has a first token")
    evals = [row for row in ingot.metrics("smoke") if "eval/reward_mean" in row]
    check(evals and evals[-1]["eval/reward_mean"] > 0.7, f"held-out reward: {evals}")
    print(f"wall time {time.time() - started:.0f} s")


BRANCHING = {
    "run": {"name": "branching", "seed": 1},
    "data": {"tasks": "examples/smoke/train.jsonl"},
    "model": {"hidden_size": 32, "intermediate_size": 64, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 16,
              "context_length": 512},
    "scheduler": {"total_steps": 4, "groups_per_step": 3, "group_size": 4, "max_drops_per_batch": 4, "group_deadline_s": 120},
    "trainer": {"learning_rate": 1e-3, "checkpoint_every": 1, "probe_tokens": 256},
    "gateway": {"model_name": "policy", "max_new_tokens": 8},
    "http": {"port": 0},
    "agents": {"concurrency": 4, "branching": {"at": 2, "width": 2}, "recipes": [
        {"name": "branching", "command": ["/usr/bin/python3", "-I", "${cwd}/tests/app/branching_agent.py"], "timeout_s": 60,
         "resumes": True, "verifier": {"kind": "exact", "expected": "1"}}]},
}


def case_branching(ingot, options):
    """Groups of two trunks with two leaves each, across a kill. Rollout and trainer count the same tokens, a trunk's once."""
    write_branching_config(ingot)
    process = ingot.start("train", {})
    wait_for_steps(ingot, process, "branching", 2)
    process.send_signal(signal.SIGKILL)
    output = process.communicate()[0]
    code, output = ingot.run("train", {}, ["--resume"])
    check(code == 0, output)
    rows = check_run(ingot, "branching", 4)
    check(all(row["batch/trunks"] > 0 for row in rows), f"trunks trained: {[row['batch/trunks'] for row in rows]}")
    check_branches(ingot, rows, 0)


def write_branching_config(ingot):
    config = pathlib.Path(ingot.folder) / "branching.yaml"
    config.write_text(json.dumps(BRANCHING))  # YAML is a superset
    ingot.config = str(config)


def case_launch_branching(ingot, options):
    """The same over separate processes: gateway, then runner, which holds the snapshots, are killed and started again."""
    write_branching_config(ingot)
    settings = {"run.name": "branching", "scheduler.total_steps": 6}
    launch = ingot.start("launch", settings)
    for steps, role in ((1, "gateway"), (2, "agents")):
        wait_for_steps(ingot, launch, "branching", steps)
        os.kill(role_process(launch, role), signal.SIGKILL)
    output, rows = finish_launched(ingot, launch, "branching", 6)
    for role in ("gateway", "agents"):
        check(f"{role} " in output and "started again (1 of" in output, f"{role} was not started again: {output}")
    for step in (0, 5):
        check_branches(ingot, rows, step)


def check_branches(ingot, rows, step):
    """The forks of a batch, and its tokens: of the record's trees, the trainer's, and those that rollout computed."""
    batch = next(record["batch"] for record in ingot.journal("branching")
                 if "batch" in record and int(record["batch"].get("step", 0)) == step)
    groups, trees, forked = stored_groups(ingot.inspect("branching", "--json", "--limit", "0").splitlines()), [], 0
    for group in batch["groupIds"]:
        samples = groups[int(group)]
        trees += samples.values()
        ids = {tree.episode["episodeId"]: tree for tree in samples.values()}
        for sample, tree in samples.items():
            state, fork = tree.episode["state"], tree.episode.get("fork")
            check(sample >= 4 or state == "EPISODE_FINISHED", f"sample {sample} of group {group}: {state}")
            if fork:
                trunk = ids[fork["episodeId"]]
                last, first = trunk.calls[-1], tree.calls[0]
                check(trunk.episode["state"] == "EPISODE_FORKED" and len(trunk.calls) == 2, f"the trunk: {trunk.episode}")
                check(fork["callId"] == last["callId"] == first["parentCallId"], f"{fork} of {last['callId']}")
                path = trunk.path(last)
                check(tree.context(first)[:len(path)] == path, "a leaf does not continue its trunk's ids")
                check("continuedSegments" not in first and first["sequence"] == 2, f"a leaf's first call: {first}")
                check(len(tree.calls) == 2 and "forkCause" not in first, f"a leaf's calls: {tree.calls}")
                forked += 1
    check(forked > 0, "no leaf was forked")
    tokens, trained = Tokens(trees), rows[step]["tree/merged_tokens"]
    check(tokens.unique == trained, f"{tokens.unique} recorded, {trained} trained")
    # The engine's cache holds whole blocks, so a call computes at most a block of its prefix again. Another group may
    # have computed what all prompts begin with.
    block = 16
    check(tokens.unique - tokens.common <= tokens.computed <= tokens.unique + tokens.calls * block,
          f"{tokens.computed} tokens computed for {tokens.unique} in {tokens.calls} calls")
    print(f"{forked} leaves; {tokens.unique} tokens in the batch's tree, {tokens.computed} computed by rollout in {tokens.calls} calls")


def case_seeds(ingot, options):
    for seed in range(1, 6):
        code, output = ingot.run("train", {"http.port": 0, "run.seed": seed})
        print(f"seed {seed}: exit {code}: {output.splitlines()[-1]}")
        check(code == 0, output)


def compare_steps(before, now):
    """Updates `before` with `now`; returns the number of steps that were taken again in between."""
    again = 0
    for step in before.keys() & now.keys():
        check(before[step][1] == now[step][1], f"step {step} gave {before[step]}, and after a kill {now[step]}")
        again += before[step][0] != now[step][0]
    before.update(now)
    return again


def case_kill(ingot, options):
    """kill -9 at random moments, each followed by --resume; after --kills of them the run must finish."""
    rng = random.Random(options.seed)
    steps = 40
    settings = dict(SHORT, **{"run.name": "kill", "scheduler.total_steps": steps})
    started = time.time()
    code, output = ingot.run("train", dict(settings, **{"run.name": "whole"}))
    check(code == 0, output)
    whole = time.time() - started
    check_run(ingot, "whole", steps)
    kills, extra, batches, trained, retaken = 0, (), {}, {}, 0
    while kills < options.kills:
        process = ingot.start("train", settings, extra)
        wait = (rng.uniform(0.08, 0.5) if extra else rng.uniform(0.3, 0.95)) * whole
        try:
            process.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            pass
        if process.poll() is not None and process.returncode == 0:
            # It finished before the kill: begin again; earlier checks stand.
            process.stdout.close()
            check_run(ingot, "kill", steps)
            shutil.rmtree(f"{ingot.folder}/kill")
            extra, batches, trained = (), {}, {}
            continue
        if process.poll() is not None:
            check(False, f"it ended by itself: {process.stdout.read()}")
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        kills += 1
        extra = ("--resume",)
        # Batches that were journalled before the kill do not change. A step that is taken again from a checkpoint has
        # the same result, to the bit: the checkpoint holds exactly the batches below it.
        if os.path.exists(f"{ingot.folder}/kill/pool") and os.path.exists(f"{ingot.folder}/kill/config.yaml"):
            now = {int(r["batch"].get("step", 0)): r["batch"]["groupIds"] for r in ingot.journal("kill") if "batch" in r}
            for step, groups in batches.items():
                check(now.get(step) == groups, f"batch {step} changed after a kill")
            batches = now
            retaken += compare_steps(trained, ingot.steps_trained("kill"))
        print(f"killed {kills} of {options.kills}, {wait:.1f} s after its start (a whole run: {whole:.1f} s); batches "
              f"journalled: {len(batches)}", flush=True)
    code, output = ingot.run("train", settings, extra)
    check(code == 0, output)
    check_run(ingot, "kill", steps)
    retaken += compare_steps(trained, ingot.steps_trained("kill"))
    print(f"{retaken} steps were taken again, with equal loss and gradient")
    code, output = ingot.run("train", dict(settings, **{"model.intermediate_size": 648}), ("--resume",))
    check(code != 0 and "another model" in output and "mlp" in output, f"another model's checkpoint: {code} {output}")


class PostgresServer:
    """A server with its files in a folder of its own, on a socket there."""

    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ingot-pg-")
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": ()} if os.getuid() == 0 else {}
        if self.account:
            shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run([f"{self.programs}/initdb", "-D", f"{self.folder}/data", "-U", "ingot", "--auth=trust", "--no-sync",
                        "--encoding=UTF8", "--locale=C"], check=True, capture_output=True, **self.account)
        self.start()

    def start(self):
        command = [f"{self.programs}/pg_ctl", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-w",
                   "-o", f"-k {self.folder} -c listen_addresses=", "start"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self.account)

    def crash(self):
        subprocess.run([f"{self.programs}/pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop"], check=False,
                       stdout=subprocess.DEVNULL, **self.account)

    def close(self):
        self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)


def case_postgres(ingot, options):
    """A run whose pool is in PostgreSQL: wrong settings end it before it begins, the server crashes and comes again, the
    run is inspected, killed and resumed."""
    if PostgresServer.programs is None:
        print("SKIPPED postgres: PostgreSQL is not installed: scripts/setup.sh services")
        return
    server = PostgresServer()
    try:
        url = f"host={server.folder} user=ingot dbname=postgres"
        settings = dict(SHORT, **{
            "run.name": "pg", "scheduler.total_steps": 30, "datapool.backend": "postgres", "datapool.postgres.url": url})
        for wrong, said in (({}, "allow_single"),
                            ({"datapool.postgres.url": ""}, "url is empty"),
                            ({"datapool.postgres.url": "hots=here"}, 'invalid connection option "hots"'),
                            ({"datapool.postgres.url": f"host={server.folder}/none user=ingot"}, "No such file"),
                            ({"datapool.postgres.url": "host=127.0.0.1 port=1"}, "Connection refused"),
                            ({"datapool.postgres.url": f"{url} dbname=none"}, 'database "none" does not exist'),
                            ({"datapool.postgres.url": f"{url} user=none"}, 'role "none" does not exist'),
                            ({"datapool.backend": "mysql"}, "datapool.backend")):
            for command in ("train", "launch"):
                code, output = ingot.run(command, {**launch_settings("pg"), **settings, **wrong}, timeout=60)
                check(code in (1, 2) and said in output, f"{command} {wrong}: {code} {output}")
                check(not os.path.exists(f"{ingot.folder}/pg"), f"{command} {wrong} made a run folder: {output}")
        settings["datapool.postgres.allow_single"] = "true"
        process = ingot.start("train", settings)
        wait_until(lambda: len(ingot.steps_trained("pg")) >= 3, "three steps", process)
        check(" train " in ingot.inspect("pg", "--limit", "0"), "inspect beside the run")
        server.crash()
        server.start()
        steps = len(ingot.steps_trained("pg"))
        wait_until(lambda: len(ingot.steps_trained("pg")) >= steps + 3, "steps after the server's crash", process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        before = ingot.journal("pg")
        code, output = ingot.run("train", settings, ("--resume",))
        check(code == 0, output)
        check_run(ingot, "pg", 30)
        check(ingot.journal("pg")[:len(before)] == before, "the journal changed after a kill")
        check(not list(pathlib.Path(f"{ingot.folder}/pg/pool").glob("shard-*")), "the pool wrote files of its own")
        other = dict(settings, **{"run.if_exists": "fail", "run.root": f"{ingot.folder}/other"})
        code, output = ingot.run("train", other)
        check(code == 1 and "another run's" in output, f"another run's pool: {code} {output}")
        check(not os.path.exists(f"{ingot.folder}/other"), "another run's pool: a run folder was made")
        # A server of several roles, and the pool lost: another name, and the run goes on from its last checkpoint.
        launched = {**launch_settings("pg", **{"scheduler.total_steps": 34}),
                    **{key: value for key, value in settings.items() if key.startswith("datapool.")},
                    "datapool.postgres.name": "second"}
        code, output = ingot.run("launch", launched, ("--resume",))
        check(code == 0 and "with an empty journal" in pathlib.Path(f"{ingot.folder}/pg/logs/scheduler.log").read_text(),
              output)
    finally:
        server.close()


def launch_settings(name, **more):
    return {**SHORT, "run.name": name, **more}


def wait_for_rows(ingot, process, name, rows):
    """Returns once the run, driven by `process`, has recorded so many rows."""
    wait_until(lambda: ingot.rows(name) >= rows, f"row {rows} of {name}", process)


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
    """The process id of a role of the launched run."""
    children = subprocess.run(["pgrep", "-P", str(launch.pid), "-f", f"ingot {role} "], capture_output=True,
                              text=True).stdout.split()
    check(len(children) == 1, f"processes of {role}: {children}")
    return int(children[0])


def finish_launched(ingot, launch, name, steps):
    """Waits for the end of a launched run, which must succeed; returns its output and its rows."""
    try:
        output, _ = launch.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        launch.terminate()
        check(False, f"{name} stood still: {launch.communicate()[0]}")
    if launch.returncode != 0:
        for log in pathlib.Path(f"{ingot.folder}/{name}/logs").glob("*.log"):
            print(f"--- {log.name}\n{log.read_text()[-2000:]}")
    check(launch.returncode == 0, f"{name}: exit code {launch.returncode}: {output}")
    return output, check_run(ingot, name, steps)


def check_simulate(ingot, name, groups_per_step, group_size, max_staleness):
    """`ingot simulate` on a recorded run takes its durations and its scheduler's keys; given options go before those."""
    folder = f"{ingot.folder}/{name}"

    def simulate(*argv):
        done = subprocess.run([ingot.binary, "simulate", *argv], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    code, output, _ = simulate("--from", folder, "--workers", "3", "--steps", "40")
    head, _, *lines = output.splitlines()
    check(code == 0 and head == f"40 steps of {groups_per_step} groups of {group_size}, 3 workers, S {max_staleness}, seed 0"
          and [line.split()[0] for line in lines] == ["strict", "windowed", "greedy"], f"simulate: {code}: {output}")
    code, output, _ = simulate("--from", folder, "--max-staleness", "5", "--group-size", "3", "--order", "greedy")
    check(code == 0 and f" of {groups_per_step} groups of 3, " in output and ", S 5, " in output and "greedy" in output
          and "strict" not in output, f"given options: {code}: {output}")
    asked = ("--from", folder, "--json", "--workers", "1", "--steps", "100", "--step-s", "0.001", "--publish-s", "0")
    code, output, _ = simulate(*asked)
    rows = [json.loads(line) for line in output.splitlines()]
    check(code == 0 and [row["order"] for row in rows] == ["strict", "windowed", "greedy"], f"--json: {code}: {output}")
    check(simulate(*asked)[1] == output, "equal options gave other figures")
    check(simulate(*asked, "--seed", "2")[1] != output, "another seed gave equal figures")
    episodes = [json.loads(line)["episode"] for line in ingot.inspect(name, "--json", "--limit", "0").splitlines()]
    times = [(int(one["endedUnixNs"]) - int(one["openedUnixNs"])) * 1e-9 for one in episodes
             if one["state"] == "EPISODE_FINISHED" and "purpose" not in one]
    for row in rows:  # one worker without a pause
        check(sum(row["ages"]) == row["groups"] == 100 * groups_per_step, f"the groups: {row}")
        check(min(times) < 3600 / row["episodes_per_hour"] < max(times), f"seconds {min(times)} to {max(times)}: {row}")
    for argv, word in ((("--from", f"{folder}/logs"), "is not a run folder"),
                       (("--from", folder, "--durations", "constant:1"), "--durations")):
        code, output, fault = simulate(*argv)
        check(code == 2 and output == "" and word in fault and fault.count("\n") == 1, f"{argv}: {code}: {output}{fault}")


def case_launch(ingot, options):
    """A restarted role uses the run's own configuration, even if the file that it came from has changed. A role that
    got SIGTERM from outside, while the run goes on, is restarted too. The reward stage is a role of its own, behind the
    run's token as all are."""
    config = pathlib.Path(ingot.folder) / "launched.yaml"
    config.write_text((pathlib.Path(ingot.source) / ingot.config).read_text())
    ingot.config = str(config)
    settings = launch_settings("launched", **{"scheduler.group_deadline_s": 600, "cluster.rewards_role": "true",
                                              "rewards.terms": "[{kind: outcome}, {kind: length, weight: 0.2}]"})
    launch = ingot.start("launch", settings)
    wait_for_rows(ingot, launch, "launched", 2)
    port = int((pathlib.Path(ingot.folder) / "launched/gateway_port").read_text())
    agents = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    agents.request("POST", "/ingot/v1/episodes", json.dumps({"scaffold": "an agent's own"}))
    answer = agents.getresponse()
    check(answer.status == 401, f"an agent opened an episode of its own: {answer.status} {answer.read()}")
    answer.read()
    agents.request("GET", "/metrics")
    check(agents.getresponse().status == 404, "agents see metrics")
    for process, metric in (("gateway", "ingot_gateway_calls_total"), ("trainer", "ingot_reward_mean"),
                            ("agents", "agents_opened"), ("scheduler", "scheduler_"), ("rollout-0", ""), ("datapool", ""),
                            ("rewards", "")):
        check(metric in scrape(f"{ingot.folder}/launched", process), f"{process} does not show {metric}")
    gateway = pathlib.Path(f"/proc/{role_process(launch, 'gateway')}")
    check(os.readlink(gateway / "fd/0") == "/dev/null", f"the token's descriptor is {os.readlink(gateway / 'fd/0')}")
    check(os.getuid() == 0 or (gateway / "environ").stat().st_uid == 0, "the gateway's memory is open to its user")
    answer = subprocess.run(ingot.argv("status", settings), cwd=ingot.source, capture_output=True, text=True, timeout=60)
    check(answer.returncode == 0, f"ingot status: {answer}")
    # Behind them may stand roles that only wait: on a busy machine the trainer, for its batch.
    check([line.split()[0] for line in answer.stdout.splitlines()][:5] ==
          ["datapool", "rewards", "scheduler", "rollout-0", "gateway"], f"ingot status: {answer.stdout}")
    check(re.search(r"^rewards .* [1-9]\d* groups judged", answer.stdout, re.M), f"ingot status: {answer.stdout}")
    alone = subprocess.run(ingot.argv("datapool", {"run.name": "launched"}), cwd=ingot.source, capture_output=True,
                           text=True, timeout=60)
    check(alone.returncode == 2 and "cluster.token_file" in alone.stderr, f"a role without a token: {alone}")
    stranger = pathlib.Path(ingot.folder) / "token"
    stranger.write_text("a-token-of-another-run-0123456789\n")
    stranger.chmod(0o600)
    refused = subprocess.run(ingot.argv("status", {**settings, "cluster.token_file": stranger}), cwd=ingot.source,
                             capture_output=True, text=True, timeout=60)
    check(refused.returncode == 1 and refused.stdout.count("refuses this process") == 5, f"another token: {refused}")
    config.write_text("run: {name: the next experiment}\n")
    for role in ("scheduler", "rewards"):
        os.kill(role_process(launch, role), signal.SIGKILL)
    wait_for_rows(ingot, launch, "launched", 4)
    for role in ("gateway", "trainer"):
        os.kill(role_process(launch, role), signal.SIGTERM)
    output, rows = finish_launched(ingot, launch, "launched", SHORT["scheduler.total_steps"])
    print(output)
    check(all("reward/term/length" in row for row in rows), "a group was not judged by the stage")
    rewarded = [record["rewarded"].get("groupId", "0") for record in ingot.journal("launched") if "rewarded" in record]
    check(len(rewarded) == len(set(rewarded)), f"groups rewarded twice: {rewarded}")
    for role in ("scheduler", "rewards", "gateway", "trainer"):
        check(f"{role} started again (1 of" in output, f"{role} was not started again: {output}")
    check_simulate(ingot, "launched", groups_per_step=2, group_size=4, max_staleness=1)


def write_asking_config(ingot, cleanup=(), agent_seconds=0.3):
    """A configuration whose agents make one call, wait `agent_seconds`, and answer 0 or 1 by chance. Each adds a line
    to FOLDER/begun."""
    folder = pathlib.Path(ingot.folder)
    agent = folder / "agent.py"
    agent.write_text(f"""import http.client, json, os, time, urllib.parse
with open("{folder}/begun", "a") as file:
    file.write("begun\\n")
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(url.netloc, timeout=60)
connection.request("POST", url.path + "/chat/completions", json.dumps({{
    "model": "policy", "max_tokens": 4, "messages": [{{"role": "user", "content": "which?"}}]}}), {{
    "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}})
answer = connection.getresponse().read()
time.sleep({agent_seconds})
print(len(answer) % 2)
""")
    # Stronger rungs hide FOLDER.
    settings = {**GROUPS, "sandbox": {"rung": "process"}, "agents": {"concurrency": 4, "recipes": [
        {"name": "asking", "command": ["/usr/bin/python3", "-I", str(agent)], "timeout_s": 60, "cleanup": list(cleanup),
         "verifier": {"kind": "numeric", "expected": "1"}}]}}
    ingot.config = str(folder / "asking.yaml")
    pathlib.Path(ingot.config).write_text(json.dumps(settings))
    return folder


def case_unstarted(ingot, options):
    """A run whose agents never get to a call ends soon, with the cause; a sound recipe is not taken for one."""
    text = pathlib.Path(f"{ingot.source}/configs/smoke.yaml").read_text(encoding="utf-8")
    failing = text.replace("      timeout_s: 30\n",
                           "      timeout_s: 30\n      setup: [{command: [sh, -c, 'echo no disk >&2; exit 7']}]\n")
    check(failing != text, "the smoke recipe has changed")
    ingot.config = f"{ingot.folder}/failing.yaml"
    pathlib.Path(ingot.config).write_text(failing, encoding="utf-8")
    cold = {"data.sft": "", "http.port": 0}
    for command, settings in (("train", {"run.name": "failing"}), ("launch", launch_settings("failing-launch"))):
        started = time.monotonic()
        code, output = ingot.run(command, {**settings, **cold}, timeout=120)
        check(code == 1, f"exit code {code}: {output}")
        ended = output.strip().splitlines()[-1]
        for words in ("the run is given up", "setup[0] (sh) exited with 7; stderr ends: no disk"):
            check(words in ended, f"'{words}' is missing in: {ended}")
        check(time.monotonic() - started < 60, f"{command} took {time.monotonic() - started:.0f} s")

    # However fast agents crash, and however late a verifier breaks, few episodes are spent.
    for name, recipe in (("crashing", {"command": ["/bin/false"], "verifier": {"kind": "numeric", "expected": "1"}}),
                         ("unverified", {"verifier": {"kind": "command", "command": ["sh", "-c", "exit 9"]}})):
        folder = write_asking_config(ingot, agent_seconds=0)
        settings = json.loads(pathlib.Path(ingot.config).read_text())
        settings["agents"]["recipes"][0].update(recipe)
        pathlib.Path(ingot.config).write_text(json.dumps(settings))
        started = time.monotonic()
        code, output = ingot.run("train", {"run.name": name}, timeout=120)
        ended = output.strip().splitlines()[-1]
        check(code == 1 and "16 episodes in a row have failed of their set-up" in ended, f"exit code {code}: {output}")
        check({"crashing": "crash: ", "unverified": "verifier: "}[name] in ended, ended)
        spent = ingot.inspect(name, "--limit", "10000").count(" failed ")
        check(16 <= spent <= 40, f"{name}: {spent} episodes were spent in {time.monotonic() - started:.0f} s")

    # The agent dies of a clear refusal, which stands beside its crash.
    ingot.config = "configs/smoke.yaml"
    code, output = ingot.run("train", {**cold, "run.name": "short", "model.context_length": 40}, timeout=120)
    check(code == 1 and "the run is given up" in output, f"exit code {code}: {output}")
    check("the gateway's last refusal: 400 context_length_exceeded: " in output.strip().splitlines()[-1], output)
    listed = [line.split()[0] for line in ingot.inspect("short").splitlines() if " failed " in line]
    shown = ingot.inspect("short", listed[0])
    check("the gateway's last refusal: 400 context_length_exceeded" in shown, shown)


def case_doubts(ingot, options):
    """Settings and results that are rarely meant are named on the terminal, at the start where they are known then."""
    folder = write_asking_config(ingot, agent_seconds=0.5)  # so that most tokens are stale
    agent = folder / "agent.py"
    # Of neighbours, an even share answers 1, so that chance does not hide the fall.
    falling = agent.read_text().replace("url = ", f"""begun = open("{folder}/begun").read().count("begun")
url = """).replace("print(len(answer) % 2)", "print(int(begun * 0.618034 % 1 < 0.95 - begun / 120))")
    check(falling != agent.read_text(), "the asking agent has changed")
    agent.write_text(falling)
    with open(f"{ingot.source}/examples/smoke/train.jsonl", encoding="utf-8") as tasks:
        (folder / "eval.jsonl").write_text(tasks.readline() + tasks.readline())
    code, output = ingot.run("train", {
        "run.name": "doubtful", "eval.tasks": folder / "eval.jsonl", "eval.every_versions": 100,
        "trainer.learning_rate": 0.1, "trainer.eps_clip_low": 1e-4, "trainer.eps_clip_high": 1e-4,
        "agents.concurrency": 24, "scheduler.total_steps": 14, "scheduler.max_staleness": 3, "scheduler.drop_zero_variance": "false"})
    check(code == 0, output)
    start, end = output.split("step", 1)[0], output.split("wall time")[-1]
    for text, words in ((start, "doubt: trainer.learning_rate is 0.1, and 1e-08 to 0.005 is usual"),
                        (start, "doubt: 2 of 2 tasks of eval.tasks are training tasks too"),
                        (end, "doubt: the reward fell from "),
                        (end, "of the trained tokens had a clipped ratio (actor/clipfrac_low, actor/clipfrac_high)")):
        check(words in text, f"'{words}' is missing in: {output}")
    ingot.config = "configs/smoke.yaml"
    code, output = ingot.run("train", {**SHORT, "run.name": "cut", "scheduler.total_steps": 2, "gateway.max_new_tokens": 6})
    check("of the calls hold a tool call that its output format cannot read (agent/malformed_ratio)" in output, output)


# Tries to get at the processes named as arguments, which have this uid, and prints each way that was open.
INTRUDER = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(16)
here = Range(ctypes.cast(buffer, ctypes.c_void_p), 16)
def refused(result):
    if result < 0 and ctypes.get_errno() != errno.EFAULT:  # EFAULT: the right is there, the address is not
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
ways = {
    "mem": lambda pid: open(f"/proc/{pid}/mem", "rb"),
    "environ": lambda pid: open(f"/proc/{pid}/environ", "rb").read(),
    "maps": lambda pid: open(f"/proc/{pid}/maps", "rb").read(),
    "fd": lambda pid: os.listdir(f"/proc/{pid}/fd"),
    "cwd": lambda pid: os.readlink(f"/proc/{pid}/cwd"),
    "ptrace": lambda pid: refused(libc.ptrace(0x4206, pid, 0, 0)),
    "process_vm_readv": lambda pid: refused(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(here), 1, 0)),
    "pidfd_getfd": lambda pid: refused(libc.syscall(438, os.pidfd_open(pid), 0, 0)),
}
for pid in map(int, sys.argv[1:]):
    for name, way in ways.items():
        try:
            way(pid)
            print(f"open: {name} of", open(f"/proc/{pid}/comm").read().strip())
        except OSError:
            pass
print("tried", len(sys.argv) - 1)
"""


def case_intruder(ingot, options):
    """What shares the user of a run, as its agents may, reads neither memory nor descriptors of its processes."""
    user = os.geteuid() or NOBODY
    folder = write_asking_config(ingot)
    if os.geteuid() == 0:
        for path in [folder, *folder.iterdir()]:
            os.chown(path, user, user)
        if run_as_nobody([ingot.binary, "--version"]) is None:
            return
    switch = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    own = {key: value for key, value in launch_settings("walled").items() if key.startswith(("run.", "cluster."))}
    argv = ingot.argv("launch", {**own, "scheduler.total_steps": 1000, "scheduler.drop_zero_variance": "false",
                                 "agents.work_root": folder / "work"})
    launch = subprocess.Popen(argv, cwd=ingot.source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **switch)
    try:
        wait_for_rows(ingot, launch, "walled", 1)
        processes = {}
        for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                pid, parent = int(comm.parent.name), int((comm.parent / "stat").read_text().rsplit(")", 1)[1].split()[1])
                name = comm.read_text().strip()
            except OSError:
                continue
            if pid == launch.pid or (parent == launch.pid and name == "ingot") or name == "ingot-launcher":
                processes[pid] = (parent, name)
        ours = [pid for pid, (parent, name) in processes.items() if pid == launch.pid or parent in processes]
        check(len(ours) == 8, f"launch, six roles and a launcher: {processes}")
        victim = subprocess.Popen(["sleep", "100"], **switch)
        tried = subprocess.run(["/usr/bin/python3", "-I", "-c", INTRUDER, *map(str, ours)], capture_output=True, text=True,
                               timeout=60, cwd="/", **switch)
        sample = subprocess.run(["/usr/bin/python3", "-I", "-c", INTRUDER, str(victim.pid)], capture_output=True, text=True,
                                timeout=60, cwd="/", **switch)
        victim.kill()
        victim.wait()
        check("open: environ of sleep" in sample.stdout, f"the intruder is not able to anything: {sample}")
        check(tried.stdout.strip() == "tried 8", f"{tried}")
    finally:
        launch.terminate()
        launch.communicate(timeout=60)


def case_rewards(ingot, options):
    """Composed rewards: each group is judged once, by all terms, before any batch takes it, through a kill -9."""
    # Few tasks, so that most groups are of a task whose budget another group fixed.
    tasks = pathlib.Path(ingot.folder) / "few.jsonl"
    lines = pathlib.Path(f"{ingot.source}/examples/smoke/train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    tasks.write_text("".join(lines[:3]), encoding="utf-8")
    toggle = "{kind: toggle, weight: 0.5, toggle: {rho: 1, lambda: 0.01}}"
    terms = f"[{{kind: outcome}}, {{kind: length, weight: 0.2, schedule: {{from: 0.25}}}}, {toggle}]"
    # Right is an answer of an even length, so that an untrained model is right in half of the cases.
    recipe = {"name": "any", "command": ["/usr/bin/python3", "-I", "-S", "${cwd}/examples/agents/tool_agent.py", "task.json"],
              "files": {"task.json": '{"prompt": ${json:task.prompt}}'}, "timeout_s": 60,
              "verifier": {"kind": "command", "command": ["sh", "-c", "test $(($(wc -c) % 2)) = 0"]}}
    settings = {**SHORT, "run.name": "composed", "rewards.terms": terms, "data.tasks": tasks, "agents.recipes": json.dumps([recipe])}
    process = ingot.start("train", settings)
    wait_until(lambda: ingot.rows("composed") >= 3, "third row", process)
    process.kill()
    process.wait()
    code, output = ingot.run("train", settings, ("--resume",))
    check(code == 0, output)
    rows = check_run(ingot, "composed", 8)
    check(all("reward/term/outcome" in row for row in rows), "a step lacks the term `outcome`")
    check("reward/term/length" not in rows[0], "the term `length` counts before its schedule begins")
    check("reward/term/length" in rows[-1], f"the last step lacks the term `length`: {sorted(rows[-1])}")

    rewarded, returns = set(), {}
    for record in ingot.journal("composed"):
        if "rewarded" in record:
            group = record["rewarded"].get("groupId", "0")
            check(group not in rewarded, f"group {group} is rewarded twice")
            rewarded.add(group)
            returns[group] = record["rewarded"]["returns"]
        for group in record.get("batch", {}).get("groupIds", ()):
            check(group in rewarded, f"group {group} is in a batch before its reward is in the journal")
    group = max(returns, key=int)  # admitted late: both terms count
    for sample, value in enumerate(returns[group]):
        episode = json.loads(ingot.inspect("composed", f"{group}/{sample}", "--json"))["episode"]
        parts = {term["term"]: term.get("weight", 0) * term.get("value", 0) for term in episode["grade"]["terms"]}
        check(set(parts) == {"outcome", "length", "toggle"}, parts)
        check(abs(sum(parts.values()) - value) < 1e-9, f"group {group}: {parts} and {value}")
        check(parts["outcome"] == episode.get("reward", 0), "the outcome was not kept beside the grade")
    check("term length = " in ingot.inspect("composed", f"{group}/0"), "inspect does not show the terms")

    def regrade(*overrides):
        argv = [ingot.binary, "regrade", f"{ingot.folder}/composed", "--json"]
        for override in overrides:
            argv += ["--set", override]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, f"regrade failed: {done.stderr}")
        return json.loads(done.stdout)

    same = regrade()
    check(same["groups"] >= 16 and same["groups_that_change_sign"] == 0 and same["changed_groups"] == [], same)
    check(abs(same["reward"] - same["regraded"]) < 1e-9, f"the same terms give other rewards: {same}")
    check(same["terms"]["toggle"] < 0, f"no answer was beyond its budget: {same}")
    outcome = regrade("rewards.terms=[{kind: outcome}]")
    changed = outcome["changed_groups"]
    check(len(changed) == outcome["groups_that_change_sign"] and changed == sorted(set(changed)), outcome)
    check(sorted(sum((row["changed_groups"] for row in outcome["steps"]), [])) == changed, outcome)
    posted = [json.loads(ingot.inspect("composed", f"{group}/{sample}", "--json"))["episode"].get("reward", 0)
              for sample in range(len(returns[group]))]
    signs = [[(value > mean + 1e-9) - (value < mean - 1e-9) for value in values]
             for values in (returns[group], posted) for mean in [sum(values) / len(values)]]
    check((int(group) in changed) == (signs[0] != signs[1]), f"group {group}: {returns[group]}, {posted}, {changed}")
    check(outcome["terms"] == {"outcome": outcome["regraded"]}, outcome)
    for step, row in enumerate(outcome["steps"]):
        check(abs(row["reward"] - rows[step]["reward/mean"]) < 1e-6, f"step {step}: {row} and {rows[step]['reward/mean']}")

    # The run's own correct answers train the next one, as the ids that were sampled.
    for kind, key in (("sft", "data.sft"), ("dpo", "data.dpo")):
        rows = f"{ingot.folder}/{kind}.jsonl"
        done = subprocess.run([ingot.binary, "export", f"{ingot.folder}/composed", rows, "--as", kind, "--above", "-1"],
                              capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, f"export failed: {done.stdout}{done.stderr}")
        code, output = ingot.run("train", {**SHORT, "run.name": f"from-{kind}", "data.tasks": "", key: rows, "goal.first_steps": 0,
                                           **({"data.sft": ""} if kind == "dpo" else {})}, timeout=120)
        check(code == 0, f"{kind}: {output}")

    wrong = {**settings, "run.name": "wrong"}
    for bad, words in (("[{kind: lenght}]", "outcome | length"), ("[{kind: length, weight: 0}]", "nothing is rewarded"),
                       ("[{kind: outcome, schedule: {from: 2}}]", "from is 2")):
        code, output = ingot.run("train", {**wrong, "rewards.terms": bad}, timeout=30)
        check(code == 2 and words in output, f"{bad}: exit code {code}: {output}")


def case_evaluate(ingot, options):
    """A checkpoint's evaluation has a folder of its own, with its result, and replaces nothing else."""
    folder = write_asking_config(ingot, agent_seconds=0)
    (folder / "eval.jsonl").write_text("{\"task_id\": \"a\"}\n{\"task_id\": \"b\"}\n")
    train = {"run.name": "t", "scheduler.total_steps": 2, "scheduler.drop_zero_variance": "false"}
    code, output = ingot.run("train", {**train, "trainer.checkpoint_every": 1, "trainer.keep_checkpoints": 5})
    check(code == 0, output)

    def evaluate(step, **more):
        argv = ingot.argv("eval", {"run.name": "t", "eval.tasks": folder / "eval.jsonl", "eval.avg_n": 3, **more})
        argv.insert(2, f"{folder}/t/checkpoints/step-{step:08d}/")
        done = subprocess.run(argv, cwd=ingot.source, capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout + done.stderr

    for step in (1, 2, 1):
        code, output = evaluate(step, **{"trainer.memory_limit_mb": 1})  # an evaluation needs no memory for training
        check(code == 0 and "avg@3, 6 episodes" in output, f"{code}: {output}")
    for step in (1, 2):
        result = json.loads((folder / f"t-eval/step-{step:08d}/evaluation.json").read_text())
        check(result["eval/episodes"] == 6 and result["checkpoint"].endswith(f"t/checkpoints/step-{step:08d}"), result)
        listed = ingot.inspect(f"t-eval/step-{step:08d}")
        check(listed.count(" eval ") == 6 and listed.count(" finished ") == 6, listed)
    code, output = ingot.run("train", {**train, "run.name": "u-eval", "scheduler.total_steps": 1})
    check(code == 0, output)
    code, output = evaluate(1, **{"run.name": "u"})
    check(code == 2 and "u-eval' holds a run" in output, f"{code}: {output}")
    check((folder / "u-eval/checkpoints/step-00000001/model.safetensors").exists(), "a run was removed")
    shutil.copytree(folder / "t/checkpoints/step-00000001", folder / "elsewhere/step-00000001")
    argv = ingot.argv("eval", {"run.name": "t", "eval.tasks": folder / "eval.jsonl"})
    argv.insert(2, f"{folder}/elsewhere/step-00000001")
    done = subprocess.run(argv, cwd=ingot.source, capture_output=True, text=True, timeout=100)
    check(done.returncode == 2 and "the evaluation of another checkpoint" in done.stderr, done)


def case_stop(ingot, options):
    """Ctrl-C saves the trained weights, though no checkpoint was due, and the run continues from there unchanged. The
    record has every version's evaluation once, wherever the run was stopped or killed."""
    folder = write_asking_config(ingot)
    (folder / "eval.jsonl").write_text("{\"task_id\": \"a\"}\n{\"task_id\": \"b\"}\n")
    settings = {"run.name": "s", "scheduler.total_steps": 12, "scheduler.drop_zero_variance": "false",
                "trainer.checkpoint_every": 0, "eval.tasks": folder / "eval.jsonl", "eval.every_versions": 2,
                "scheduler.max_active_evals": 20, "rollout.max_retained_versions": 20}

    def end_after(rows, end, extra=()):
        process = ingot.start("train", settings, extra)
        wait_for_rows(ingot, process, "s", rows)
        process.send_signal(end)
        return process.communicate(timeout=60)[0], process.returncode

    output, code = end_after(5, signal.SIGINT)
    check(code == 130 and "the run was stopped" in output, f"exit code {code}: {output}")
    version = 1 + max(row["step"] for row in ingot.metrics("s") if "reward/mean" in row)
    latest = max(path.name for path in (folder / "s/checkpoints").iterdir())
    check(latest == f"step-{version:08d}", f"{latest} was saved of version {version}")
    kept = (folder / "s/config.yaml").read_text()
    code, output = ingot.run("train", {**settings, "scheduler.group_size": 2}, ["--resume"])
    check(code == 2 and "scheduler.group_size is 2" in output, f"another group size: {code} {output}")
    check((folder / "s/config.yaml").read_text() == kept, "a refused resume changed the run's configuration")
    output, code = end_after(len(ingot.metrics("s")) + 4, signal.SIGKILL, ["--resume"])
    check(code == -signal.SIGKILL, f"exit code {code}: {output}")
    code, output = ingot.run("train", {**settings, "trainer.learning_rate": 1e-3}, ["--resume"])
    check(code == 0 and f"resuming from {folder}/s/checkpoints/{latest}" in output, f"exit code {code}: {output}")
    check("changed since the run was left: trainer.learning_rate (0.003 -> 0.001)" in output, output)
    rows = ingot.metrics("s")
    steps = [row["step"] for row in rows if "reward/mean" in row]
    check(steps == list(range(12)), f"steps in the record: {steps}")
    evaluated = sorted(row["eval/version"] for row in rows if "eval/version" in row)
    check(evaluated == [0, 2, 4, 6, 8, 10, 12], f"evaluations in the record: {evaluated}")


def case_launch_stop(ingot, options):
    """Ctrl-C stops the roles of a launched run in order: agents run their clean-up, and the trained weights are saved
    though no checkpoint was due."""
    clean = pathlib.Path(ingot.folder) / "clean"
    folder = write_asking_config(ingot, [{"command": ["/bin/sh", "-c", f"echo clean >> {clean}"]}])
    own = {key: value for key, value in launch_settings("stopped").items() if key.startswith(("run.", "cluster."))}
    argv = ingot.argv("launch", {**own, "scheduler.total_steps": 1000, "scheduler.drop_zero_variance": "false",
                                 "trainer.checkpoint_every": 0})
    launch = subprocess.Popen(argv, cwd=ingot.source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True)
    wait_for_rows(ingot, launch, "stopped", 2)
    os.killpg(launch.pid, signal.SIGINT)  # to every process of the command, as a terminal does
    output, _ = launch.communicate(timeout=60)
    check(launch.returncode == 130 and "stopping all roles" in output, f"exit code {launch.returncode}: {output}")
    begun, clean = ((folder / name).read_text().count("\n") for name in ("begun", "clean"))
    check(begun <= clean, f"{begun} agents began, and {clean} were cleaned up after")
    last = max(row["version"] for row in ingot.metrics("stopped"))
    kept = [path.name for path in (folder / "stopped" / "checkpoints").iterdir()]
    check(f"step-{last:08d}" in kept, f"trained to version {last}, and kept {kept}")
    journalled = [int(record["checkpoint"].get("step", 0)) for record in ingot.journal("stopped")
                  if "checkpoint" in record]
    check(journalled[-1] == last, f"checkpoints in the journal: {journalled}")


def ranks_settings(name, **more):
    own = {
        "run.name": name, "sft.max_steps": 4, "scheduler.total_steps": 12, "scheduler.group_deadline_s": 600,
        "cluster.trainer_ranks": 2, "cluster.rank_deadline_s": 10}
    return {**SHORT, **own, **more}


def rank_process(launch, rank):
    """The process id of a rank of the launched run's trainer."""
    found = subprocess.run(["pgrep", "-P", str(launch.pid), "-f", f"ingot trainer .* --rank {rank}( |$)"],
                           capture_output=True, text=True).stdout.split()
    check(len(found) == 1, f"processes of rank {rank}: {found}")
    return int(found[0])


def case_ranks(ingot, options):
    """Two ranks train a launched run. If either is killed or stopped, both continue from the last checkpoint."""
    for rank, sent in ((None, None), (1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGSTOP)):
        name = "ranks" if sent is None else f"rank-{rank}-{sent.name}"
        settings = ranks_settings(name, **({"scheduler.total_steps": 8} if sent is None else {}))
        steps = settings["scheduler.total_steps"]
        launch = ingot.start("launch", settings)
        if sent is not None:
            trained = wait_for_steps(ingot, launch, name, 4)
            os.kill(rank_process(launch, rank), sent)
        output, rows = finish_launched(ingot, launch, name, steps)
        check(all(row["trainer/ranks"] == 2 for row in rows if not row["trainer/skipped"]), "a step was one rank's")
        warm = ingot.metrics(f"{name}/warm_start")
        check(len(warm) == 4 and all(row["trainer/ranks"] == 2 for row in warm), f"the warm start's steps: {warm}")
        last = pathlib.Path(f"{ingot.folder}/{name}/checkpoints/step-{steps:08d}")
        check((last / "optimizer-00002-of-00002.safetensors").exists(), f"{sorted(last.iterdir())}")
        if sent is not None:
            check("all of trainer ended; they are started again together" in output, output)
            again = compare_steps(trained, ingot.steps_trained(name))
            print(f"rank {rank}: {sent.name}, started again, finished; {again} steps taken again are equal", flush=True)
    settings = dict(SHORT, **{"run.name": "one", "cluster.trainer_ranks": 2})
    code, output = ingot.run("train", settings, timeout=60)
    check(code == 2 and "cluster.trainer_ranks" in output and "ingot launch" in output, output)
    # An error of a rank's own ends the run, without a restart.
    code, output = ingot.run("launch", ranks_settings("wrong", **{"trainer.memory_limit_mb": 1}), timeout=120)
    check(code in (1, 2) and "started again" not in output, output)


def wait_for_steps(ingot, launch, name, steps):
    """Waits until the run's record holds as many trained steps; returns them."""
    wait_until(lambda: len(ingot.steps_trained(name)) >= steps, f"step {steps} of {name}", launch)
    return ingot.steps_trained(name)


def case_ranks_lost(ingot, options):
    """Of three ranks that divide the parameters by layer, two die for good, the leader among them. The run goes on
    with two ranks, then with one, and finishes."""
    steps = 16
    settings = ranks_settings("lost", **{
        "cluster.trainer_ranks": 3, "cluster.max_restarts": 0, "scheduler.total_steps": steps,
        "trainer.sharding": "layers",
        # Each rank measures a step at positions of its own, so that fewer ranks may decide otherwise.
        "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0})
    launch = ingot.start("launch", settings)
    before = []
    try:
        for done, rank in ((4, 1), (9, 0)):
            before.append(wait_for_steps(ingot, launch, "lost", done))
            os.kill(rank_process(launch, rank), signal.SIGKILL)
        output, _ = launch.communicate(timeout=300)
    finally:
        if launch.poll() is None:
            launch.terminate()
            print(launch.communicate()[0])
    check(launch.returncode == 0, output)
    check("gave up trainer-1 after 0 restarts; trainer goes on without, on 2" in output, output)
    check("gave up trainer after 0 restarts; trainer goes on without, on 1" in output, output)
    rows = [row for row in check_run(ingot, "lost", steps) if not row["trainer/skipped"]]
    ranks = [row.get("trainer/ranks", 1) for row in rows]  # one rank alone reports no number
    check(ranks == sorted(ranks, reverse=True) and set(ranks) == {3, 2, 1}, f"ranks of the steps: {ranks}")
    # A step taken again is equal up to rounding: the same terms are added up in another order.
    after, again = ingot.steps_trained("lost"), 0
    for trained in before:
        for step in trained.keys() & after.keys():
            again += trained[step][0] != after[step][0]
            for was, now in zip(trained[step][1], after[step][1]):
                check(abs(was - now) <= 1e-3 * max(1, abs(was)), f"step {step} gave {trained[step]}, then {after[step]}")
    last = pathlib.Path(f"{ingot.folder}/lost/checkpoints/step-{steps:08d}")
    print(f"ranks of the steps: {ranks}; {again} steps taken again; the last checkpoint: "
          f"{sorted(file.name for file in last.iterdir())}")


def check_no_rerun(ingot, name):
    """No sample has an attempt behind a finished one, and the gateway gave up nothing that it tried again and again."""
    done = set()
    for line in ingot.inspect(name, "--limit", "0").splitlines()[1:]:
        words = line.split()
        if len(words) < 6 or words[1] != "train":
            continue
        sample = (words[2], words[3])
        check(sample not in done, f"a finished episode was run again: {line}")
        if words[5].lower().endswith("finished"):
            done.add(sample)
    check(done, "no finished episode is listed")
    log = pathlib.Path(f"{ingot.folder}/{name}/logs/gateway.log").read_text()
    check(log.count("could not be ended") <= 3, f"the gateway tries in vain: {log[-2000:]}")


def case_launch_kill(ingot, options):
    """kill -9 of each role of a launched run in turn, and of two at once: they are restarted, and the run finishes."""
    for roles in options.roles.split(","):
        name = roles.replace("+", "_")
        settings = launch_settings(name, **{"scheduler.total_steps": 24, "scheduler.group_deadline_s": 600})
        launch = ingot.start("launch", settings)
        wait_for_rows(ingot, launch, name, 4)
        for process in [role_process(launch, role) for role in roles.split("+")]:
            os.kill(process, signal.SIGKILL)
        output, _ = finish_launched(ingot, launch, name, 24)
        for role in roles.split("+"):
            check(f"{role}" in output and "started again (1 of" in output, f"{role} was not started again: {output}")
        check_no_rerun(ingot, name)
        print(f"{roles}: killed, started again, finished", flush=True)


def flip_bit(path, byte):
    data = bytearray(path.read_bytes())
    data[byte % len(data)] ^= 4
    path.write_bytes(data)


def copy_run(ingot, name, copy):
    shutil.copytree(f"{ingot.folder}/{name}", f"{ingot.folder}/{copy}", ignore=shutil.ignore_patterns("sockets"))


def case_damage(ingot, options):
    """One flipped bit in each kind of the pool's files. The error says how the run goes on; who follows it word for word
    gets the whole run."""
    write_asking_config(ingot, agent_seconds=0)
    steps = 24  # more than a run makes while it is looked at
    settings = {"run.name": "killed", "scheduler.total_steps": steps, "trainer.checkpoint_every": 2}
    for extra in ((), ("--resume",)):  # twice, so that records are in tables and in the log
        rows = ingot.rows("killed") + 3
        process = ingot.start("train", settings, extra)
        wait_for_rows(ingot, process, "killed", rows)
        seen = ingot.inspect("killed", "--limit", "0")  # beside the run, which holds the pool
        check(" train " in seen, f"inspect beside the run: {seen}")
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    for kind, byte in (("CURRENT", 3), ("MANIFEST-*", 20), ("*.log", -1), ("*.sst", 10)):
        name = "damaged-" + kind.strip("-*.").lower()
        copy_run(ingot, "killed", name)
        files = list(pathlib.Path(f"{ingot.folder}/{name}/pool/shard-0").glob(kind))
        check(files, f"there is no {kind}")
        for path in files:
            if path.stat().st_size > 0:
                flip_bit(path, byte if byte >= 0 else path.stat().st_size // 3)
        now = dict(settings, **{"run.name": name})
        code, output = ingot.run("train", now, ("--resume",))
        check(code != 0 and "is damaged" in output, f"{kind}: {code} {output}")
        said = re.search(r"with an empty pool: (mv \S+ \S+), then start the run again with --resume", output)
        check(said is not None, f"{kind}: it does not say how to go on: {output}")
        subprocess.run(said.group(1), shell=True, check=True, cwd=ingot.source)
        code, output = ingot.run("train", now, ("--resume",))
        check(code == 0, f"{kind}: {said.group(1)}, --resume: {output}")
        rows = [row for row in ingot.metrics(name) if "reward/mean" in row]
        check([row["step"] for row in rows] == list(range(steps)), f"{kind}: steps {[row['step'] for row in rows]}")
        journal = ingot.journal(name)
        begun = journal[0]["begun"]
        check(f"goes on from checkpoint {begun['step']} with an empty journal" in output, f"{kind}: {output}")
        batches = [record["batch"] for record in journal if "batch" in record]
        check([int(b["step"]) for b in batches] == list(range(int(begun["step"]), steps)), f"{kind}: {batches}")
        groups = [int(group) for batch in batches for group in batch["groupIds"]]
        check(min(groups) >= int(begun["group"]) >= 2 * int(begun["step"]), f"{kind}: groups {groups}, {begun}")
        check([row["version"] for row in rows] == list(range(1, steps + 1)), f"{kind}: {[r['version'] for r in rows]}")
        print(f"{kind}: damaged, went on from checkpoint {begun['step']} at group {begun['group']}", flush=True)
    # Files of the run's folder that are gone are named, and the run goes on.
    copy_run(ingot, "killed", "gone")
    for name in ("metrics.jsonl", "config.yaml"):
        os.remove(f"{ingot.folder}/gone/{name}")
    now = dict(settings, **{"run.name": "gone"})
    code, output = ingot.run("train", now)
    check(code == 2 and "exists; continue it with --resume" in output, f"{code} {output}")
    code, output = ingot.run("train", now, ("--resume",))
    check(code == 0, output)
    for said in ("gone/config.yaml is gone", "gone/metrics.jsonl is gone: the record begins anew at step"):
        check(said in output, f"'{said}' is not in: {output}")


def case_serve(ingot, options):
    settings = dict(SHORT, **{"run.name": "tiny", "scheduler.total_steps": 1})
    code, output = ingot.run("train", settings)
    check(code == 0, output)
    checkpoint = sorted(pathlib.Path(f"{ingot.folder}/tiny/checkpoints").iterdir())[-1]
    server = subprocess.Popen([ingot.binary, "serve", str(checkpoint), "--port", "0", "--also",
                               f"second={checkpoint}", "--record", f"{ingot.folder}/served"], cwd=ingot.source, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        check("/v1" in line, f"serve said: {line}")
        address = line.split("http://")[1].split("/")[0]
        connection = http.client.HTTPConnection(address, timeout=60)

        def ask(method, path, body=None):
            connection.request(method, path, body, {"Authorization": "Bearer any", "Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()

        check(ask("GET", "/healthz")[0] == 200, "healthz")
        status, text = ask("GET", "/v1/models")
        check(status == 200 and [model["id"] for model in json.loads(text)["data"]] == [checkpoint.name, "second"], text)
        body = {"messages": [{"role": "user", "content": "item kt"}], "max_tokens": 8, "logprobs": True}
        status, text = ask("POST", "/v1/chat/completions", json.dumps(body))
        check(status == 200, text)
        answer = json.loads(text)
        check(answer["usage"]["completion_tokens"] >= 1, text)
        only_ended = answer["usage"]["completion_tokens"] == 1 and answer["choices"][0]["finish_reason"] == "stop"
        check(answer["choices"][0]["logprobs"]["content"] or only_ended, text)  # an end-of-turn token is no content
        status, text = ask("POST", "/v1/chat/completions", json.dumps(dict(body, model="second")))
        check(status == 200 and json.loads(text)["model"] == "second", text)
        status, text = ask("POST", "/v1/chat/completions", json.dumps(dict(body, stream=True)))
        check(status == 200 and text.rstrip().endswith("data: [DONE]"), text)
        status, text = ask("POST", "/v1/chat/completions", "{\"messages\": ")
        check(status == 400 and "error" in json.loads(text), text)
    finally:
        server.terminate()
        check(server.wait(timeout=30) == 0, "serve did not end in order")
    with open(f"{ingot.folder}/served/engine.jsonl") as asked, open(f"{ingot.folder}/served/calls.jsonl") as recorded:
        asked = {call["call_id"]: call["prompt_ids"] for call in map(json.loads, asked)}
        recorded = {call["call_id"]: call["prompt_ids"] for call in map(json.loads, recorded)}
    check(len(asked) == 3 and asked == recorded, f"the engine was asked {asked}, but recorded is {recorded}")


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
        {"name": "groups", "command": ["/usr/bin/python3", "-I", "${cwd}/tests/app/model_groups_agent.py"],
         "timeout_s": 60, "verifier": {"kind": "agent_posted"}}]},
}


def visit(url):
    """An agent from elsewhere: runs one episode after the other, with one call each and a reward for every second one,
    until the gateway is gone. Returns the number of episodes."""
    address = url.split("//")[1]

    def post(path, body, key=""):
        connection = http.client.HTTPConnection(address, timeout=60)
        headers = {"Authorization": "Bearer " + key} if key else {}
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    finished = 0
    try:
        while True:
            status, episode = post("/ingot/v1/episodes", {"scaffold": "visitor"})
            if status not in (200, 201):
                time.sleep(0.05)  # no room, no weights yet, or no more work
                continue
            name, key = episode["episode_id"], episode["api_key"]
            ask = {"model": "policy", "messages": [{"role": "user", "content": "which?"}], "max_tokens": 4}
            told = [post(f"/s/{name}/v1/chat/completions", ask, key)]
            for path, body in (("reward", {"reward": finished % 2}), ("end", {"status": "finished"})):
                told.append(post(f"/ingot/v1/episodes/{name}/{path}", body, key))
            if any(status != 200 for status, _ in told):
                print(f"{name}: {told}")  # the run may be about to end
            finished += 1
    except (OSError, http.client.HTTPException):
        return finished


def run_visited(ingot, command, settings, extra=()):
    """Runs a run without recipes, with an agent from elsewhere, which starts once the run has printed its address (into
    a pipe). Returns the run's output."""
    run = ingot.start(command, settings, extra)
    said = []
    while not said or "agents.recipes is empty" not in said[-1]:
        said.append(run.stdout.readline())
        check(said[-1], f"{command} ended without saying where agents reach it: {said}")
    visits = visit(said[-1].split(" at ")[1].split("/ingot/")[0])
    said += run.communicate(timeout=120)[0].splitlines()
    check(run.returncode == 0, f"{command}: exit code {run.returncode} after {visits} visits: {said}")
    return said


def case_visitors(ingot, options):
    """A run without recipes trains on agents that come from elsewhere; its output and its record, also when resumed."""
    folder = pathlib.Path(ingot.folder)
    talk = [{"role": "user", "content": "which?"}, {"role": "assistant", "content": "this"}]
    (folder / "sft.jsonl").write_text(json.dumps({"messages": talk}) + "\n")
    (folder / "eval.jsonl").write_text("{\"task_id\": \"held out\"}\n")
    settings = {key: value for key, value in GROUPS.items() if key != "agents"}
    settings["data"] = {**GROUPS["data"], "sft": str(folder / "sft.jsonl")}
    settings["sft"] = {"epochs": 0, "max_steps": 3}
    config = folder / "visitors.yaml"
    config.write_text(json.dumps(settings))
    ingot.config = str(config)

    def rows(name, metric):
        return [row["step"] for row in ingot.metrics(name) if metric in row]

    said = run_visited(ingot, "launch", {"run.name": "launched", "scheduler.total_steps": 1})
    check(said[-1].startswith("[launched] the run ended: trainer exited with 0; see "), said)
    check(rows("launched", "reward/mean") == [0], "one step")

    train = {"run.name": "trained", "scheduler.total_steps": 2, "eval.tasks": folder / "eval.jsonl"}
    run_visited(ingot, "train", train)
    check(rows("trained", "reward/mean") == [0, 1] and rows("trained", "eval/reward_mean") == [2], "two steps")
    check(rows("trained/warm_start", "sft/nll") == [0, 1, 2] and not rows("trained", "sft/nll"), "the warm start's rows")
    check(any((folder / "trained" / "warm_start" / "tensorboard").iterdir()), "the warm start's event file")
    run_visited(ingot, "train", {**train, "scheduler.total_steps": 3}, ["--resume"])
    check(rows("trained", "reward/mean") == [0, 1, 2], "three steps")
    evaluated = [row["eval/version"] for row in ingot.metrics("trained") if "eval/version" in row]
    check(evaluated == [2, 3], f"evaluations in the record: {evaluated}")


def check_groups(ingot, name, steps):
    """Compares with the pool: only calls that follow training were trained, and each model sampled on its weights."""
    batches = {int(record["batch"].get("step", 0)): record["batch"]["groupIds"]
               for record in ingot.journal(name) if "batch" in record}
    rows = {row["step"]: row for row in ingot.metrics(name) if "batch/loss_tokens" in row}
    logprobs, calls_of = {}, {}  # log-probs of the first token, by model, context and token; steps by model
    cut = []  # episodes that the kill ended between two of their agent's posts
    for step in range(steps):
        trained = {"batch/calls": 0, "batch/loss_tokens": 0, "batch/calls_left_out_weights": 0}
        for episode in (f"{group}/{sample}" for group in batches[step] for sample in range(4)):
            tree = json.loads(ingot.inspect(name, episode, "--json"))
            calls = {call["callId"]: call for call in tree["calls"]}
            rewarded = tree["episode"].get("callRewards", {})
            first = min(calls.values(), key=lambda call: call.get("sequence", 0))
            check(set(rewarded) <= set(calls) and len(rewarded) <= 2, f"{episode}: rewards {rewarded}")
            if len(rewarded) < 2:
                cut.append(episode)
            check(not rewarded or first["callId"] in rewarded, f"{episode}: its first call has no reward: {rewarded}")
            for call in calls.values():
                sampled = [tree["segments"][base64.b64decode(key).hex()] for key in call.get("sampledKeys", [])]
                tokens = sum(len(segment["tokenIds"]) for segment in sampled)
                versions = {int(run.get("version", 0)) for segment in sampled for run in segment["versions"]}
                model, weights = call["model"], call.get("weights", "WEIGHTS_FOLLOW")
                expected = {"judge": "EXTERNAL", "start": "PINNED", "later": "PINNED"}.get(model, "FOLLOW")
                check(weights == "WEIGHTS_" + expected, f"{model} sampled with {weights}")
                if weights == "WEIGHTS_FOLLOW":
                    trained["batch/calls"] += 1
                    trained["batch/loss_tokens"] += tokens
                else:
                    trained["batch/calls_left_out_weights"] += 1
                    check(versions == {{"judge": 0, "start": 0, "later": 3}[model]}, f"{model}: versions {versions}")
                calls_of.setdefault(model, []).append(step)
                key = (model, *call["contextKeys"], sampled[0]["tokenIds"][0])
                logprobs.setdefault(key, set()).add(sampled[0]["logprobs"][0])
        for metric, count in trained.items():
            check(rows[step][metric] == count, f"step {step}: {metric} is {rows[step][metric]}, the pool says {count}")
    check(len(cut) <= GROUPS["agents"]["concurrency"], f"episodes without all of their rewards: {cut}")
    return logprobs, calls_of


def case_model_groups(ingot, options):
    """Calls on followed, pinned and external weights over real engines, and the training on them, across a kill."""
    config = pathlib.Path(ingot.folder) / "groups.yaml"
    config.write_text(json.dumps(GROUPS))  # YAML is a superset
    ingot.config = str(config)
    code, output = ingot.run("train", {"run.name": "elsewhere", "run.seed": 7, "scheduler.total_steps": 1})
    check(code == 0, output)
    checkpoint = f"{ingot.folder}/elsewhere/checkpoints/step-00000001"
    token = pathlib.Path(ingot.folder) / "judge.token"
    token.write_text("the-token-of-the-judge-0123456789\n")
    token.chmod(0o600)
    serve = [ingot.binary, "serve", checkpoint, "--port", "0", "--rollout-port", "0", "--threads", "1"]
    refused = subprocess.run(serve, cwd=ingot.source, capture_output=True, text=True, timeout=60)
    check(refused.returncode == 2 and "--token-file" in refused.stderr, f"token ids without a token: {refused}")
    judge = subprocess.Popen([*serve, "--token-file", str(token)], cwd=ingot.source, stdout=subprocess.PIPE, text=True)
    try:
        line = judge.stdout.readline()
        check("token ids at" in line, f"serve said: {line}")
        address = line.split("token ids at ")[1].strip()
        GROUPS["gateway"]["models"] = [{"name": "judge", "weights": "external", "address": address,
                                        "token_file": str(token)},
                                       {"name": "start", "weights": "pinned", "version": 0},
                                       {"name": "later", "weights": "pinned", "version": 3}]
        config.write_text(json.dumps(GROUPS))
        first = ingot.start("train", {})
        wait_for_steps(ingot, first, "groups", 5)
        first.send_signal(signal.SIGKILL)
        output = first.communicate()[0]
        check(4 < len(ingot.steps_trained("groups")) < 8, f"the kill missed the middle of the run: {output}")
        code, output = ingot.run("train", {}, ["--resume"])
        check(code == 0, output)
        check_run(ingot, "groups", 8)
        logprobs, calls_of = check_groups(ingot, "groups", 8)
        for model, earliest in (("start", 0), ("judge", 0), ("later", 4), ("policy", 0)):
            check(min(calls_of[model]) <= earliest and max(calls_of[model]) == 7, f"{model}: steps {calls_of[model]}")
        # The same context and token have one log-prob on weights that stay, and many on weights that move.
        kinds = {model: max((len(seen) for key, seen in logprobs.items() if key[0] == model), default=0)
                 for model in ("judge", "start", "later", "policy")}
        check(kinds["judge"] == kinds["start"] == kinds["later"] == 1 and kinds["policy"] > 1, f"log-probs: {kinds}")
        # A version that the run has passed and did not save.
        GROUPS["gateway"]["models"][2]["version"] = 5
        config.write_text(json.dumps(GROUPS))
        code, output = ingot.run("train", {"scheduler.total_steps": 9}, ["--resume"])
        check(code != 0 and "version 5" in output and "'later'" in output, f"exit code {code}: {output}")
    finally:
        judge.terminate()
        check(judge.wait(timeout=30) == 0, "the other server did not end in order")


def case_supervised(ingot, options):
    """SFT, then DPO, from files alone, without a gateway; the result is a model folder to train on and to serve."""
    folder = pathlib.Path(ingot.folder)
    pairs = folder / "pairs.jsonl"
    with pairs.open("w") as file:
        for i in range(40):
            prompt = [{"role": "user", "content": f"item {i}"}]
            answers = [{"role": "assistant", "content": word} for word in ("yes", "no")]
            file.write(json.dumps({"prompt": prompt, "chosen": answers[0], "rejected": answers[1]}) + "\n")
    settings = {"run.name": "files", "data.tasks": "", "data.dpo": pairs, "sft.max_steps": 10, "dpo.epochs": 4,
                "dpo.learning_rate": 1e-3, "eval.tasks": "", "goal.first_steps": 0, "goal.last_steps": 0}
    code, output = ingot.run("train", settings)
    check(code == 0 and "gateway" not in output, output)
    rows = ingot.metrics("files")
    check([row["step"] for row in rows] == list(range(30)), f"{len(rows)} rows")
    check(rows[9]["sft/nll"] < rows[0]["sft/nll"], "the supervised stage did not learn")
    check(all(row["perf/of_bound"] > 0 and row["tree/speedup_bound"] > 1 for row in rows), "a step without its bound")
    check("  tree " in output and "x of " in output, output)
    check(rows[10]["dpo/accuracy"] == 0.5 and rows[-1]["dpo/accuracy"] == 1, f"{rows[10]} {rows[-1]}")
    checkpoint = folder / "files" / "checkpoints" / "step-00000000"
    check((checkpoint / "model.safetensors").exists() and (checkpoint / "config.json").exists(), "no model folder")
    code, output = ingot.run("train", settings, ["--resume"])
    check(code == 0 and "nothing left to do" in output, output)
    stopped = dict(settings, **{"run.name": "stopped", "sft.checkpoint_every": 4, "dpo.checkpoint_every": 4})
    for rows, end, extra in ((6, signal.SIGINT, ()), (17, signal.SIGKILL, ("--resume",))):
        process = ingot.start("train", stopped, extra)
        wait_for_rows(ingot, process, "stopped", rows)
        process.send_signal(end)
        process.communicate()
    code, output = ingot.run("train", stopped, ["--resume"])
    check(code == 0 and "going on after" in output, output)
    check([row["step"] for row in ingot.metrics("stopped")] == list(range(30)), "the steps of the resumed stages")
    weights = [folder / name / "checkpoints/step-00000000/model.safetensors" for name in ("files", "stopped")]
    check(weights[0].read_bytes() == weights[1].read_bytes(), "a killed and resumed stage came to other weights")
    check(not (folder / "stopped/stages").exists(), "the stages' checkpoints are still there")
    good_pairs = folder / "good_pairs.jsonl"
    good_pairs.write_text(pairs.read_text())
    pairs.write_text("{\"prompt\": 3}\n")
    code, output = ingot.run("train", dict(settings, **{"run.name": "bad", "sft.max_steps": 0, "sft.epochs": 0}))
    check(code in (1, 2) and "pairs.jsonl:1" in output, output)
    # A fault of the second file is found before the first stage begins, even if only the model's context shows it.
    long_answer = {"role": "assistant", "content": "word " * 4000}
    pairs.write_text(good_pairs.read_text() + json.dumps({"prompt": [{"role": "user", "content": "q"}],
                                                          "chosen": long_answer, "rejected": long_answer}) + "\n")
    code, output = ingot.run("train", dict(settings, **{"run.name": "long"}))
    check(code != 0 and "pairs.jsonl" in output and "context length" in output, output)
    check(not ingot.steps_trained("long"), "a run with a bad second file made steps")
    check_supervised_ranks(ingot, dict(settings, **{"data.dpo": good_pairs, "sft.checkpoint_every": 4,
                                                    "dpo.checkpoint_every": 4}))
    code, output = ingot.run("gateway", settings, timeout=60)
    check(code == 2 and "data.tasks" in output, output)


def check_supervised_ranks(ingot, settings):
    """The run `files` on two ranks: `ingot launch` starts the trainer's processes and no others. Ranks that are killed,
    stopped and resumed end with the same bits as undisturbed ones."""
    folder = pathlib.Path(ingot.folder)

    def of(name):
        return dict(settings, **{"run.name": name, "cluster.trainer_ranks": 2})

    code, output = ingot.run("launch", of("file-ranks"))
    check(code == 0 and ": 2 processes;" in output and "ingot status" not in output, output)
    rows = ingot.metrics("file-ranks")
    check([row["step"] for row in rows] == list(range(30)), f"{len(rows)} rows")
    check(all(row["trainer/ranks"] == 2 for row in rows), "a supervised step was one rank's")
    for row, alone in zip(rows, ingot.metrics("files")):
        for name in alone.keys() & {"sft/loss", "dpo/loss"}:  # bound of fp32 rounding over thirty steps
            check(abs(row[name] - alone[name]) <= 1e-3 * max(1, abs(alone[name])), f"{row} on ranks, {alone} alone")
    code, output = ingot.run("launch", of("file-ranks"), ["--resume"])
    check(code == 0 and "nothing left to do" in output, output)
    launch = ingot.start("launch", of("rank-files"))
    for rows, end in ((6, lambda: os.kill(rank_process(launch, 1), signal.SIGKILL)),
                      (17, lambda: launch.send_signal(signal.SIGINT))):
        wait_for_rows(ingot, launch, "rank-files", rows)
        end()
    output = launch.communicate(timeout=120)[0]
    check("they are started again together" in output and "going on after" in output, output)
    check(launch.returncode != 0 and not any((folder / "rank-files/checkpoints").iterdir()), output)
    code, output = ingot.run("launch", of("rank-files"), ["--resume"])
    check(code == 0 and "going on after" in output, output)
    check([row["step"] for row in ingot.metrics("rank-files")] == list(range(30)), "the steps of the resumed ranks")
    for shard in ("00001-of-00002", "00002-of-00002"):
        weights = [folder / name / f"checkpoints/step-00000000/model-{shard}.safetensors"
                   for name in ("file-ranks", "rank-files")]
        check(weights[0].read_bytes() == weights[1].read_bytes(), "killed and resumed ranks came to other weights")
    check(not (folder / "rank-files/stages").exists(), "the ranks' checkpoints of the stages are still there")


def case_bench(ingot, options):
    """Figures of named shapes, one JSON object each, that agree with one another."""
    small = ["--repeat", "1", "--hidden", "32", "--intermediate", "64", "--heads", "2", "--kv-heads", "1",
             "--head-dim", "16", "--vocab", "64"]

    def bench(*words):
        done = subprocess.run([ingot.binary, "bench", *words], capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, f"bench {words}: exit {done.returncode}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    # A prompt of 80 tokens and 8 answers of 10 merge into 160; one sample per request is 8 times 90.
    for dtype, rounding in (("fp32", 1e-5), ("bf16", 3e-2)):
        figures = bench("tree", "--shape", "group-8-8k", "--scale", "0.01", "--dtype", dtype, *small)
        steps = {figure["variant"]: figure for figure in figures if figure["figure"] == "step"}
        speedups = {figure["against"]: figure for figure in figures if figure["figure"] == "speedup"}
        check(steps.keys() == {"tree", "chained", "separate"}, f"{figures}")
        check(speedups.keys() == {"chained", "separate"}, f"{figures}")
        tokens = {name: step["tokens"] for name, step in steps.items()}
        check(tokens["tree"] < tokens["separate"] and tokens["separate"] == tokens["chained"], f"{tokens}")
        depth, calls = figures[0]["depth"], figures[0]["calls"]
        check(tokens["separate"] == depth * calls and tokens["tree"] > depth, f"{tokens}")
        for name, step in steps.items():
            share = step["bound_seconds"] / step["seconds"]
            check(abs(step["of_bound"] - share) < 0.1 * share, f"{step}")
            check(step["peak_bytes"] > 0 and step["predicted_bytes"] > 0, f"{step}")
        for against, speedup in speedups.items():
            ratio = steps[against]["seconds"] / steps["tree"]["seconds"]
            check(abs(speedup["speedup"] - ratio) < 0.1 * ratio, f"{speedup} {steps}")
            check(abs(speedup["token_ratio"] - tokens[against] / tokens["tree"]) < 0.01, f"{speedup}")
            check(speedup["loss_difference"] < rounding, f"the loss depends on merging: {speedup}")
    figures = bench("tree", "--shape", "dialogue-5", "--scale", "0.01", "--no-baselines", *small)
    check([figure["figure"] for figure in figures] == ["rates", "step", "least_speedup"], f"{figures}")
    figures = bench("attention", "--shape", "decode-16x2k", "--dtype", "fp32", "--repeat", "1")
    check([figure["pass"] for figure in figures] == ["gemm"] * 3 + ["decode"], f"{figures}")
    for command in ("tree", "attention"):
        done = subprocess.run([ingot.binary, "bench", command, "--shape", "nope"], capture_output=True, text=True,
                              timeout=60)
        check(done.returncode == 2 and "'nope'" in done.stderr and "dialogue-20" in done.stderr, f"{command}: {done}")
    done = subprocess.run([ingot.binary, "bench", "tree", "--shape", "dialogue-5", "--vocab", "16000000", "--hidden",
                           "4096"], capture_output=True, text=True, timeout=60)
    check(done.returncode == 1 and "can be had" in done.stderr and done.stderr.count("\n") == 1, f"{done}")


NOBODY = 65531


def run_as_nobody(argv, **more):
    """The finished process of `argv` under another uid than root; None = the uid reaches no binary here."""
    if subprocess.run([argv[0], "--version"], user=NOBODY, capture_output=True).returncode != 0:
        print(f"uid {NOBODY} cannot run {argv[0]}: not checked")
        return None
    return subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=60,
                          **more)


def check_thread_limits(ingot):
    """Every command that starts many threads says at once that the system gives too few. Root has no such limit."""
    if os.geteuid() != 0:
        return
    ingot.config = "configs/smoke.yaml"
    commands = [ingot.argv(command, {}) for command in
                ("train", "launch", "datapool", "scheduler", "rollout", "gateway", "trainer", "agents")]
    for argv in commands + [[ingot.binary, "serve", "nowhere"]]:
        done = run_as_nobody(argv, cwd=ingot.source,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (20, 20)))
        if done is None:
            return
        check(done.returncode == 1 and "ulimit -u is 20): raise the limit" in done.stderr, f"{argv[1]}: {done}")
        check(len(done.stderr.strip().splitlines()) == 1, f"{argv[1]}: not one line: {done.stderr}")


def errors(output):
    """The lines of a start that failed, without those that tell for whom it waited."""
    return [line for line in output.strip().splitlines() if not re.search(r"\] (the launcher )?waits for ", line)]


def case_bad_input(ingot, options):
    """Bad input gives one clear error that names the cause, exit code 2, and no run."""
    folder = pathlib.Path(ingot.folder)

    def expect(settings, *words, command="train", config="configs/smoke.yaml", codes=(2,)):
        ingot.config = config
        code, output = ingot.run(command, settings, timeout=60)
        check(code in codes, f"exit code {code} for {settings} {config}: {output}")
        check(len(errors(output)) == 1, f"not one line: {output}")
        for word in words:
            check(word in output, f"'{word}' is missing in: {output}")

    for words, named in ((["tain", "run.yaml"], ("'tain'", "'train'")), (["config", "chek"], ("'chek'", "'check'")),
                         (["tain", "--help"], ("'tain'", "'train'")), (["config", "chek", "--help"], ("'chek'", "'check'")),
                         (["train", "--resum", "run.yaml"], ("'--resum'", "'--resume'")),
                         (["serve", "folder", "--prot=1"], ("'--prot'", "'--port'")),
                         (["train", "run.yaml", "-r"], ("'-r'", "'--resume'")),
                         (["launch", "run.yaml", "--ste=a=b"], ("'--ste'", "'--set'")),
                         (["train", "run.yaml", "more"], ("'more' is one argument too many", "`ingot train --help`")),
                         (["config"], ("ingot config: ", "subcommand")), (["inspect"], ("ingot inspect: run_dir",)),
                         (["serve", "folder", "--device", "gpu"], ("ingot serve: ", "auto", "cuda")),
                         (["config", "explain", "trainer.lerning_rate"], ("'trainer.learning_rate'",))):
        done = subprocess.run([ingot.binary, *words], capture_output=True, text=True, timeout=60)
        check(done.returncode == 2 and all(name in done.stderr for name in named), f"{words}: {done}")
        check(len(done.stderr.strip().splitlines()) == 1, f"not one line: {done.stderr}")
    done = subprocess.run([ingot.binary, "--version"], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and done.stdout.startswith("ingot "), f"--version: {done}")
    words = ["config", "check", "configs/smoke.yaml", "run.seed=77", "--set", "run.name=bare", "http.port=1234"]
    done = subprocess.run([ingot.binary, *words], cwd=ingot.source, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and all(key in done.stdout for key in ("seed: 77", "name: bare", "port: 1234")),
          f"overrides with --set and without: {done}")

    def expect_name_free(settings, *words):
        """A run that cannot start leaves its name free, with either command."""
        for command in ("train", "launch"):
            expect({"run.name": "unborn", "run.if_exists": "fail", **settings}, *words, command=command)
        check(not (folder / "unborn").exists(), "a run that could not start has left a folder")
        argv = ingot.argv("config", settings)
        argv.insert(2, "check")
        done = subprocess.run(argv, cwd=ingot.source, capture_output=True, text=True, timeout=60)
        check(done.returncode == 2 and words[0] in done.stderr, f"config check: {done}")

    expect({"trainer.learning_rat": 1}, "trainer.learning_rat", "nearest", "trainer.learning_rate")
    expect({"trainer.learning_rate": "fast"}, "trainer.learning_rate", "number")
    expect({"trainer.objective": "grpo"}, "trainer.objective", "cispo", "ppo_clip", "gspo", "opmd", "dpo")
    expect({"trainer.objective": "gspo"}, "gspo", "loss_aggregation sequence")
    expect({"device": "cuda"}, "device: cuda was asked for", codes=(1, 2))
    expect({}, "nowhere.yaml", config="nowhere.yaml")
    expect({}, "it is a folder", config="configs")
    broken = folder / "broken.yaml"
    broken.write_text("run:\n  name: [a\n")
    expect({}, "broken.yaml", "malformed YAML", config=str(broken))
    broken.write_text("run:\n  name: a\n  nmae: b\n")
    expect({}, "broken.yaml:3", "run.nmae", "run.name", config=str(broken))
    tasks = folder / "tasks.jsonl"
    tasks.write_text("{\"task_id\": \"a\"}\n{\"task_id\": \n")
    expect({"data.tasks": tasks, "run.name": "bad", "http.port": 0}, "tasks.jsonl", "2", codes=(1, 2))
    expect({"data.tasks": "nothing.jsonl", "run.name": "bad", "http.port": 0}, "nothing.jsonl", codes=(1, 2))
    expect_name_free({"data.tasks": "nothing.jsonl"}, "data.tasks: nothing.jsonl", os.path.realpath(ingot.source))
    expect_name_free({"eval.tasks": tasks}, "eval.tasks", "tasks.jsonl:2")
    expect_name_free({"data.sft": tasks}, "data.sft", "tasks.jsonl:1")
    expect_name_free({"data.dpo": folder / "none.jsonl"}, "data.dpo", str(folder / "none.jsonl"))
    expect_name_free({"agents.work_root": f"{tasks}/work"}, f"agents.work_root is {tasks}/work")
    expect_name_free({"model.context_length": 8}, "the context has 8 tokens (model.context_length)", "raise it")
    recipe = {"name": "a", "command": ["/usr/bin/true"], "verifier": {"kind": "exact", "expected": "${task.answer}"}}
    for change, words in (({"command": ["no-such-agent"]}, ("recipe 'a': command: ", "no-such-agent")),
                          ({"files": {"q.json": "${task.question}"}}, ("recipe 'a': data.tasks", "files.q.json: ")),
                          ({"verifier": {"expected": "${task.solution}"}}, ("verifier.expected: ", "of 120 tasks)"))):
        expect_name_free({"agents.recipes": json.dumps([{**recipe, **change}])}, *words)
    done = subprocess.run([ingot.binary, "config", "check", "configs/smoke.yaml"], cwd=ingot.source, capture_output=True,
                          text=True, timeout=60)
    check(done.returncode == 0 and done.stdout.startswith("run:"), f"config check: {done}")
    check(done.stderr == "ok: 120 tasks, 40 held-out tasks, 1920 conversations, 1 recipe rehearsed, context of 512 "
                         "tokens\n", f"config check: {done.stderr}")
    expect(launch_settings("never"), "none of the roles of run 'never' answers", "there is no run folder",
           command="status", codes=(1,))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for _ in range(2):  # a failed start leaves the name free
            expect({"http.port": port, "run.name": "bad", "run.if_exists": "fail"}, str(port), codes=(1,))
        for key in ("cluster.datapool_port", "cluster.rollout_port", "http.port"):
            expect({**launch_settings("unborn"), key: port}, key, str(port), command="launch", codes=(1,))
        check(not (folder / "unborn").exists(), "a run that could not start has left a folder")
        refused = {"cluster.registry.kind": "etcd", "cluster.registry.endpoints": f"['127.0.0.1:{port}']"}
        expect({**launch_settings("unborn"), **refused}, "cluster.registry", f"127.0.0.1:{port}", "nobody answered",
               command="launch", codes=(1,))
    # A launched run holds its folder's lock, as this process does. A second start would replace the run.
    held = folder / "held"
    held.mkdir()
    (held / "config.yaml").write_text("run: {name: held}\n")
    with open(held / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in ("launch", "train"):
            expect({**launch_settings("held"), "run.if_exists": "replace"}, f"the run '{held}' is in use by another process",
                   "choose another run.name", command=command, codes=(1,))
    check(sorted(path.name for path in held.iterdir()) == ["config.yaml", "lock"]
          and (held / "config.yaml").read_text() == "run: {name: held}\n", f"a second start changed {sorted(held.iterdir())}")
    plan = ingot.run("launch", launch_settings("planned"), ("--dry-run",), timeout=60)
    check(plan[0] == 0 and [line.split()[0] for line in plan[1].splitlines()[1:]] ==
          ["datapool", "scheduler", "rollout-0", "gateway", "trainer", "agents"], f"the plan: {plan}")
    check(not (folder / "planned").exists(), "a plan has left a folder")
    groups = [{"name": "all", "roles": ["datapool", "scheduler", "gateway", "trainer", "agents"]}]
    expect({**launch_settings("unborn"), "cluster.groups": json.dumps(groups)}, "cluster.groups", "role rollout",
           command="launch")
    expect({**launch_settings("unborn"), "cluster.launcher": "slurm"}, "cluster.groups", command="launch")
    expect({**launch_settings("unborn"), "cluster.registry.ttl_s": 1}, "cluster.registry.ttl_s", command="launch")
    expect({**launch_settings("crowded"), "rollout.kv_cache_tokens": 1 << 30}, "this machine cannot hold", "would fit",
           command="launch", codes=(1,))
    check_thread_limits(ingot)
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{\"model_type\": \"qwen3\"}")
    expect({"model.path": model, "run.name": "bad", "http.port": 0}, "model", codes=(1, 2))

    # A model that no machine can hold is refused, with the numbers, before it or the engine's cache is allocated. The
    # limit would end a process that allocated it.
    ingot.config = "configs/smoke.yaml"
    argv = ingot.argv("train", {"run.name": "large", "http.port": 0, "model.hidden_size": 8192, "model.layers": 800,
                                "model.intermediate_size": 28672, "rollout.kv_cache_tokens": 1 << 30})
    limit = 64 << 30
    done = subprocess.run(argv, cwd=ingot.source, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    check(done.returncode == 1, f"exit code {done.returncode}: {done.stdout} {done.stderr}")
    check("the run needs" in done.stderr and "lower trainer.micro_batch_tokens" in done.stderr, f"{done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("source")
    parser.add_argument("case")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--roles", default="datapool,scheduler,rollout,gateway,agents,trainer,gateway+scheduler")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        globals()[f"case_{options.case}"](Ingot(options.binary, options.source, folder), options)
    print(f"{options.case}: passed")


if __name__ == "__main__":
    main()
