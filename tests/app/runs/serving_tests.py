#!/usr/bin/env python3
"""Models that answer calls, and agents from elsewhere: serving_tests.py BINARY SOURCE_DIR CASE.

Cases: serve (`ingot serve` answers, and records what it was asked), model_groups (calls on followed, pinned and external
weights), visitors (a run trains on agents that it did not start), abandoned (clients open episodes and die).
"""
import base64
import http.client
import json
import pathlib
import re
import signal
import time

from ingot_runs import GROUPS, SHORT, check, check_run, end, main, serving, wait_for_steps, write_secret
from page_tests import Page, line_with


def case_serve(ingot):
    """A served checkpoint answers under two names, and the record of the engine is that of the calls."""
    settings = dict(SHORT, **{"run.name": "tiny", "scheduler.total_steps": 1})
    code, output = ingot.run("train", settings)
    check(code == 0, output)
    checkpoint = sorted(pathlib.Path(f"{ingot.folder}/tiny/checkpoints").iterdir())[-1]
    with serving(ingot, checkpoint, "--also", f"second={checkpoint}", "--record", f"{ingot.folder}/served") as line:
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
        status, text = ask("POST", "/v1/chat/completions", json.dumps(dict(body, model="Second")))
        check(status == 404 and json.loads(text)["error"]["code"] == "model_not_found" and f"{checkpoint.name}, second" in text, text)
        status, text = ask("POST", "/v1/messages", json.dumps({**body, "model": "Second", "logprobs": False}))
        check(status == 404 and json.loads(text)["error"]["type"] == "not_found_error", text)
        status, text = ask("POST", "/v1beta/models/Second:generateContent", '{"contents": [{"parts": [{"text": "item kt"}]}]}')
        check(status == 404 and json.loads(text)["error"]["status"] == "NOT_FOUND", text)
        other = dict(body, messages=[{"role": "user", "content": "another conversation, under the same key"}])
        check(ask("POST", "/v1/chat/completions", json.dumps(other))[0] == 200, "another conversation")
    with open(f"{ingot.folder}/served/engine.jsonl") as asked, open(f"{ingot.folder}/served/calls.jsonl") as recorded:
        asked = {call["call_id"]: call["prompt_ids"] for call in map(json.loads, asked)}
        recorded = {call["call_id"]: call["prompt_ids"] for call in map(json.loads, recorded)}
    check(len(asked) == 4 and asked == recorded, f"the engine was asked {asked}, but recorded is {recorded}")
    listed = ingot.call("inspect", f"{ingot.folder}/served")
    # Each session has its state, calls, and seconds. The newest comes first.
    sessions = [line.split() for line in listed.stdout.splitlines() if " serve " in line]
    check(listed.returncode == 0 and [(words[5], words[6]) for words in sessions] == [("finished", "1"), ("finished", "3")],
          f"the record's list: {listed}")
    check(float(sessions[1][7]) > 0, f"the seconds of sessions: {listed}")
    shown = ingot.call("inspect", f"{ingot.folder}/served", sessions[1][0])
    check(shown.returncode == 0 and "item kt" in shown.stdout, f"a recorded session: {shown}")
    with serving(ingot, checkpoint, "--any-model-name") as line:
        connection = http.client.HTTPConnection(line.split("http://")[1].split("/")[0], timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps(dict(body, model="gpt-5")))
        response = connection.getresponse()
        check(response.status == 200 and json.loads(response.read())["model"] == "gpt-5", "--any-model-name")


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
            reported = [post(f"/s/{name}/v1/chat/completions", ask, key)]
            for path, body in (("reward", {"reward": finished % 2}), ("end", {"status": "finished"})):
                reported.append(post(f"/ingot/v1/episodes/{name}/{path}", body, key))
            if any(status != 200 for status, _ in reported):
                print(f"{name}: {reported}")  # the run may be about to end
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
    said += run.communicate(timeout=300)[0].splitlines()
    check(run.returncode == 0, f"{command}: exit code {run.returncode} after {visits} visits: {said}")
    return said


def case_visitors(ingot):
    """A run without recipes trains on agents that come from elsewhere; its output and its record, also when resumed."""
    folder = pathlib.Path(ingot.folder)
    talk = [{"role": "user", "content": "which?"}, {"role": "assistant", "content": "this"}]
    (folder / "sft.jsonl").write_text(json.dumps({"messages": talk}) + "\n")
    (folder / "eval.jsonl").write_text("{\"task_id\": \"held out\"}\n")
    settings = {key: value for key, value in GROUPS.items() if key != "agents"}
    settings["data"] = {**GROUPS["data"], "sft": str(folder / "sft.jsonl")}
    settings["sft"] = {"epochs": 0, "max_steps": 3}
    ingot.configure("visitors", settings)

    def rows(name, metric):
        return [row["step"] for row in ingot.metrics(name) if metric in row]

    said = run_visited(ingot, "launch", {"run.name": "launched", "scheduler.total_steps": 1})
    check(any(line.startswith("[launched] the run ended: trainer exited with 0; see ") for line in said), said)
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


class Owner:
    """Acts as the owner of a run without recipes, and as a client of that run."""

    def __init__(self, ingot, folder, address, key):
        self.ingot, self.folder, self.address, self.key = ingot, folder, address, key

    def post(self, path, body, key=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json",
                                                            "Authorization": f"Bearer {key or self.key}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def open(self):
        for _ in range(600):
            status, opened = self.post("/ingot/v1/episodes", {"scaffold": "visitor"})
            if status == 201:
                return opened
            time.sleep(0.1)  # until the first version is live
        check(False, f"no episode was opened: {status} {opened}")

    def listed(self):
        done = self.ingot.call("episodes", "list", self.folder, "--json")
        check(done.returncode == 0, done.stderr)
        return json.loads(done.stdout)

    def end(self, *words, code=0, says=""):
        done = self.ingot.call("episodes", "end", self.folder, *words)
        text = done.stdout + done.stderr
        check(done.returncode == code and says in text and text.count("\n") <= 2, f"end {words}: {done}")
        check(self.key not in text, "the key is printed")


def check_abandoned(ingot, command, settings, key_file):
    """Four clients die after opening episodes. The run reports it, and its owner ends one episode, then all."""
    folder = pathlib.Path(ingot.folder) / settings["run.name"]
    lines = []
    process = ingot.start(command, settings)

    def said(pattern):  # the output of launcher and gateway may be in any order
        found = [match.group(1) for match in (re.search(pattern, line) for line in lines) if match]
        return found[0] if found else line_with(process, pattern, lines)

    address, link = said(r" at http://(\S+?)/ingot/"), said(r"^page (\S+)")
    owner = Owner(ingot, folder, address, key_file.read_text().strip())
    dead = [owner.open() for _ in range(4)]
    check(owner.post("/ingot/v1/episodes", {"scaffold": "visitor"})[0] == 429, "four episodes are the most")
    line_with(process, r"(4 episodes have made no call yet \(oldest \d+ s\))", lines)
    if command == "launch":
        status = ingot.ask("status", settings)
        check("4 episodes have made no call yet (oldest " in status.stdout, f"ingot status: {status}")
    listed = owner.listed()
    ids = [one["episode"] for one in listed["episodes"]]
    check(listed["count"] == 4 and ids == [one["episode_id"] for one in dead], f"listed are {listed}")
    text = ingot.call("episodes", "list", folder).stdout
    check(text.count("\n") == 5 and all(one in text for one in ids), text)

    owner.end(ids[0], "--key-file", write_secret(ingot, "other.key"), code=1, says="wrong key: ending an episode")
    owner.end(ids[0], "--key-file", folder / "none.key", code=2, says="--key-file")
    owner.end("unknown", code=2, says="there is no open episode 'unknown'")
    owner.end("\x1b[1m\u202e", code=2, says="is not the id of an episode")
    owner.end(code=2, says="name episodes, or use --all")
    owner.end(ids[0], says=f"ended {ids[0]}")
    owner.end(ids[0], code=1, says="has already ended")
    status, said = owner.post(f"/s/{ids[0]}/v1/chat/completions", {"model": "policy", "messages": []}, dead[0]["api_key"])
    check(status == 410 and "before its first call; open a new one" in said["error"]["message"], f"a late call: {said}")

    page = Page(link).open()
    run = page.json("/api/run")
    check(run["uncalled"]["count"] == 3 and run["can_end"], f"the page has {run.get('uncalled')}")
    target = f"/api/end_uncalled?id={ids[1]}"
    check(page.ask(target, method="POST")[0] == 403, "the page ends an episode without the key")
    status, said, _ = page.ask(target, {**page.headers, "Authorization": "Bearer " + owner.key}, "POST")
    check((status, said) == (200, '{"ended":1}'), f"the page's end: {status} {said}")

    alive = owner.open()  # its slot is free again
    ask = {"model": "policy", "messages": [{"role": "user", "content": "which?"}], "max_tokens": 4}
    status, said = owner.post(f"/s/{alive['episode_id']}/v1/chat/completions", ask, alive["api_key"])
    check(status == 200, f"a call: {said}")
    owner.end(alive["episode_id"], code=1, says="has made a call")
    owner.end("--all", says="ended 2 episodes")
    check(owner.listed()["count"] == 0, "all are ended")
    check(ingot.call("episodes", "list", folder).stdout == "no open episode waits for its first call\n", "the empty list")
    end(process)
    owner.end("--all", code=1, says="is not running")


def case_abandoned(ingot):
    """Episodes whose clients died before the first call are shown and can be ended, in one process and in several."""
    config = {key: value for key, value in GROUPS.items() if key != "agents"}
    ingot.configure("abandoned", config)
    key_file = write_secret(ingot, "admin.key")
    for command in ("train", "launch"):
        check_abandoned(ingot, command, {"run.name": command, "scheduler.max_concurrent_episodes": 4,
                                         "gateway.admin_key_file": key_file}, key_file)
    missing = ingot.call("episodes", "list", f"{ingot.folder}/nothing")
    check(missing.returncode == 2 and "is not a run folder" in missing.stderr, f"no such run: {missing}")


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


def case_model_groups(ingot):
    """Calls on followed, pinned and external weights over real engines, and the training on them, across a kill."""
    ingot.configure("groups", GROUPS)
    code, output = ingot.run("train", {"run.name": "elsewhere", "run.seed": 7, "scheduler.total_steps": 1})
    check(code == 0, output)
    checkpoint = f"{ingot.folder}/elsewhere/checkpoints/step-00000001"
    token = write_secret(ingot, "judge.token")
    serve = [checkpoint, "--rollout-port", "0", "--threads", "1"]
    rejected = ingot.call("serve", *serve, "--port", "0")
    check(rejected.returncode == 2 and "--token-file" in rejected.stderr, f"token ids without a token: {rejected}")
    with serving(ingot, *serve, "--token-file", token) as line:
        check("token ids at" in line, f"serve said: {line}")
        address = line.split("token ids at ")[1].strip()
        GROUPS["gateway"]["models"] = [{"name": "judge", "weights": "external", "address": address,
                                        "token_file": str(token)},
                                       {"name": "start", "weights": "pinned", "version": 0},
                                       {"name": "later", "weights": "pinned", "version": 3}]
        ingot.configure("groups", GROUPS)
        first = ingot.start("train", {"scheduler.total_steps": 200})  # the kill is in its middle, however quick it is
        wait_for_steps(ingot, first, "groups", 5)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        steps = max(8, len(ingot.steps_trained("groups")) + 3)
        code, output = ingot.run("train", {"scheduler.total_steps": steps}, ["--resume"])
        check(code == 0, output)
        check_run(ingot, "groups", steps)
        logprobs, calls_of = check_groups(ingot, "groups", steps)
        for model, earliest in (("start", 0), ("judge", 0), ("later", 4), ("policy", 0)):
            check(min(calls_of[model]) <= earliest and max(calls_of[model]) == steps - 1, f"{model}: steps {calls_of[model]}")
        # The same context and token have one log-prob on weights that stay, and many on weights that move.
        kinds = {model: max((len(seen) for key, seen in logprobs.items() if key[0] == model), default=0)
                 for model in ("judge", "start", "later", "policy")}
        check(kinds["judge"] == kinds["start"] == kinds["later"] == 1 and kinds["policy"] > 1, f"log-probs: {kinds}")
        # A version that the run has passed and did not save.
        GROUPS["gateway"]["models"][2]["version"] = 5
        ingot.configure("groups", GROUPS)
        code, output = ingot.run("train", {"scheduler.total_steps": steps + 1}, ["--resume"])
        check(code != 0 and "version 5" in output and "'later'" in output, f"exit code {code}: {output}")


if __name__ == "__main__":
    main(case_serve, case_model_groups, case_visitors, case_abandoned)
