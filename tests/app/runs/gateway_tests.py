#!/usr/bin/env python3
"""Kills, pauses and stops the two gateways of a running launch: gateway_tests.py BINARY SOURCE_DIR CASE [--kills N] [--seed S].

Case kept: each agent notes every 200 that it gets, for calls, for rewards of calls and for its own reward. A gateway is killed,
ended by SIGTERM, or stopped for longer than its lease and then continued, and the whole run is ended and resumed. At the end the pool must
hold all that was acknowledged, and no agent may have been refused what was. Prints each disturbance, and a last line with the numbers.
"""
import json
import os
import pathlib
import random
import signal
import time

from ingot_runs import GROUPS, check, end, main, process_of, wait_for_rows, wait_until

GATEWAYS = ("gateway", "gateway-1")
LEASE_S = 2  # cluster.registry.ttl_s

# A request is sent again where its client library would: after no answer, a 429 or a 5xx. Any other refusal is noted, and fails the agent.
AGENT = """import http.client, json, os, random, time, urllib.parse
episode, key = os.environ["INGOT_EPISODE_ID"], os.environ["OPENAI_API_KEY"]
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
def note(**what):
    with open("NOTES/" + episode, "a") as file:
        file.write(json.dumps(what) + "\\n")
def post(path, body):
    until = time.monotonic() + 120
    while True:
        try:
            connection = http.client.HTTPConnection(url.netloc, timeout=60)
            connection.request("POST", path, json.dumps(body),
                               {"Authorization": "Bearer " + key, "Content-Type": "application/json"})
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            status, text = 0, repr(error)
        if status == 200:
            return json.loads(text)
        if not (status in (0, 429) or status >= 500) or time.monotonic() > until:
            note(refused=path, status=status, text=text)
            raise SystemExit(f"{path}: {status} {text}")
        time.sleep(0.2)
messages = [{"role": "user", "content": "which?"}]
for turn in range(2):
    reply = post(url.path + "/chat/completions", {"model": "policy", "max_tokens": 4, "messages": messages})
    note(call=reply["id"].removeprefix("chatcmpl-"))
    messages += [reply["choices"][0]["message"], {"role": "user", "content": "and now?"}]
    earned = random.random()
    post(f"/ingot/v1/episodes/{episode}/reward", {"turn": turn, "reward": earned})
    note(of_call=earned)
    time.sleep(random.uniform(0, 0.6))
earned = random.uniform(0.1, 1)
post(f"/ingot/v1/episodes/{episode}/reward", {"reward": earned})
note(reward=earned)
time.sleep(random.choice([0, 0, 0.3]))
"""


class Disturber:
    """Disturbs the gateways of a run, and now and then the whole run."""

    def __init__(self, ingot, own, seed):
        self.ingot, self.own, self.random = ingot, own, random.Random(seed)
        self.output = open(pathlib.Path(ingot.folder) / "launch.out", "a", encoding="utf-8")
        self.launch = ingot.start("launch", own, output=self.output)

    def send(self, role, number):
        """Signals a role, which may be starting again just now; returns its process, or None."""
        process = process_of(self.launch, role)
        try:
            if process is not None:
                os.kill(process, number)
        except ProcessLookupError:
            process = None
        return process

    def pause(self, role):
        process = self.send(role, signal.SIGSTOP)
        seconds = LEASE_S + self.random.uniform(0.5, 3)
        time.sleep(seconds)
        try:
            if process is not None:
                os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass
        return f"{role} paused for {seconds:.1f} s"

    def resume_run(self):
        self.launch.send_signal(signal.SIGTERM)
        self.launch.wait(timeout=120)
        self.launch = self.ingot.start("launch", self.own, ("--resume",), output=self.output)
        self.await_gateways()
        return "the run ended and resumed"

    def await_gateways(self):
        wait_until(lambda: all(process_of(self.launch, role) is not None for role in GATEWAYS), "both gateways", self.launch)

    def one(self, kind):
        role = self.random.choice(GATEWAYS)
        if kind == "pause":
            return self.pause(role)
        if kind == "run":
            return self.resume_run()
        self.send(role, signal.SIGKILL if kind == "kill" else signal.SIGTERM)
        return f"{role} {'killed' if kind == 'kill' else 'ended'}"


def settings(ingot, notes):
    folder = pathlib.Path(ingot.folder)
    folder.chmod(0o700)  # then agents have no users of their own, and write their notes themselves
    notes.mkdir()
    agent = folder / "agent.py"
    agent.write_text(AGENT.replace("NOTES", str(notes)))
    config = json.loads(json.dumps(GROUPS))
    config["sandbox"] = {"isolation": "process"}  # stronger isolation levels hide the folder
    config["agents"] = {"concurrency": 12, "recipes": [
        {"name": "noting", "command": ["/usr/bin/python3", "-I", str(agent)], "timeout_s": 300, "verifier": {"kind": "agent_posted"}}]}
    ingot.configure("kept", config)
    return {"run.name": "kept", "scheduler.total_steps": 100000, "scheduler.group_deadline_s": 900, "scheduler.drop_zero_variance": "false",
            "scheduler.max_attempts": 50, "scheduler.max_infrastructure_failures": 100000, "trainer.checkpoint_every": 50,
            "trainer.keep_checkpoints": 1, "datapool.keep_steps": 0, "cluster.gateways": 2, "cluster.max_restarts": 100000,
            "cluster.registry.ttl_s": LEASE_S}


def check_kept(trees, notes):
    """Compares what the agents noted with the pool; returns the numbers of agents, calls and rewards."""
    stored = {tree["episode"]["episodeId"]: tree for tree in trees}
    lost, rejected, counts = [], [], {"call": 0, "of_call": 0, "reward": 0}
    for file in notes.iterdir():
        tree = stored.get(file.name)
        check(tree is not None, f"episode {file.name} is not in the pool")
        episode = tree["episode"]
        calls = {call["callId"] for call in tree.get("calls", [])}
        for line in file.read_text().splitlines():
            noted = json.loads(line)
            for kind in counts.keys() & noted.keys():
                counts[kind] += 1
            kept = (noted.get("call") in calls if "call" in noted else
                    noted["of_call"] in episode.get("callRewards", {}).values() if "of_call" in noted else
                    noted["reward"] == episode.get("reward") if "reward" in noted else True)
            if not kept:
                lost.append((file.name, noted, episode["state"], episode.get("reward"), episode.get("detail")))
            if "refused" in noted:
                rejected.append((file.name, noted, episode["state"], episode.get("detail")))
    for one in lost + rejected:
        print("LOST" if one in lost else "REFUSED", one, flush=True)
    check(not lost and not rejected, f"{len(lost)} acknowledged things are lost, and {len(rejected)} requests were refused")
    return f"{len(list(notes.iterdir()))} agents, {counts['call']} calls, {counts['of_call']} rewards of calls, {counts['reward']} rewards"


def case_kept(ingot, kills=6, seed=1):
    notes = pathlib.Path(ingot.folder) / "notes"
    own = settings(ingot, notes)
    began, disturber = time.monotonic(), Disturber(ingot, own, seed)
    try:
        wait_for_rows(ingot, disturber.launch, "kept", 1)
        ready = time.monotonic()
        kinds = ["kill", "pause", "term", "kill", "pause", "run"]  # the first six, and their shares of all
        for number in range(kills):
            kind = kinds[number] if number < len(kinds) else disturber.random.choices(
                ["kill", "pause", "term", "run"], [10, 10, 4, 1])[0]
            print(f"{number + 1}/{kills}: {disturber.one(kind)}", flush=True)
            check(disturber.launch.poll() is None, "the run ended")
            time.sleep(disturber.random.uniform(0.3, 1.5))
        disturber.await_gateways()
        agents = len(list(notes.iterdir()))
        wait_until(lambda: len(list(notes.iterdir())) > agents + 6, "agents after the last disturbance", disturber.launch)
        disturbed = time.monotonic()
        disturber.launch.send_signal(signal.SIGTERM)
        disturber.launch.wait(timeout=120)
        trees = [json.loads(line) for line in ingot.inspect("kept", "--json", "--limit", "0").splitlines()]
        print(f"{check_kept(trees, notes)}; {kills} disturbances; {ready - began:.0f} s to the first step, "
              f"{disturbed - ready:.0f} s of disturbances, {time.monotonic() - disturbed:.0f} s to the end")
    finally:
        end(disturber.launch)


if __name__ == "__main__":
    main(case_kept)
