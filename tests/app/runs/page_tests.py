#!/usr/bin/env python3
"""The page of a run as people and agents meet it: page_tests.py BINARY SOURCE_DIR. Exits with 0 if every check holds."""
import atexit
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ingot_runs  # noqa: E402
from ingot_runs import check, wait_until  # noqa: E402

ROUTES = ["/", "/app.js", "/style.css", "/api/run", "/api/curves?names=reward/mean", "/api/window", "/api/time", "/api/config",
          "/api/step?step=0", "/api/episodes", "/api/group?group=0", "/api/episode?id=x", "/api/tokens?id=x&call=0"]


class Page:
    """A client of a page: the cookie is that of the link."""

    def __init__(self, link):
        self.url = urllib.parse.urlsplit(link)
        self.target = f"{self.url.path}?{self.url.query}"
        self.headers = {}

    def ask(self, target, headers=None, method="GET"):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=30)
        connection.request(method, target, headers=self.headers if headers is None else headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())

    def open(self):
        status, body, headers = self.ask(self.target, {})
        check(status == 303, f"the link answers {status}: {body}")
        self.headers = {"Cookie": headers["Set-Cookie"].split(";")[0]}
        return self

    def json(self, target):
        status, body, _ = self.ask(target)
        check(status == 200, f"{target} answers {status}: {body}")
        return json.loads(body)


def line_with(process, pattern, lines, seconds=120):
    """The first match of `pattern` in the lines that the process prints."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        check(line, f"the process ended before a line with {pattern}: {''.join(lines)}")
        lines.append(line)
        found = re.search(pattern, line)
        if found:
            return found.group(1)
    check(False, f"no line with {pattern}")


def start(ingot, name, settings, command="train"):
    """A run with a page: (process, address of its gateway or None, link)."""
    process = ingot.start(command, {**ingot_runs.SHORT, "run.name": name, **settings})
    lines = []
    gateway = line_with(process, r"gateway (\S+)", lines) if command == "train" else None
    link = line_with(process, r"^page (\S+)", lines)
    threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the run
    return process, gateway, link


def check_walls(ingot, folder):
    """An agent's key opens no route of the page, on either listener; a link opens it once."""
    process, gateway, link = start(ingot, "walls", {"agents.recipes": "[]", "scheduler.total_steps": 2})
    try:
        agents = Page(gateway)
        body = {}
        for _ in range(600):  # no version is live before the warm start has ended
            connection = http.client.HTTPConnection(agents.url.hostname, agents.url.port, timeout=30)
            connection.request("POST", "/ingot/v1/episodes", "{}", {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = json.loads(answer.read())
            if answer.status in (200, 201):
                break
            time.sleep(0.2)
        key = body.get("api_key", body.get("key", ""))
        check(key, f"an episode was not opened: {body}")
        page = Page(link)
        cookie, own = Page(link).open().headers["Cookie"].split("=")
        check(page.ask("/api/run", {"Cookie": f"{cookie}={own}"})[0] == 200, "the page's own cookie does not open it")
        bearer = {"Authorization": f"Bearer {key}"}
        for route in ROUTES:
            for headers in ({}, bearer, {"x-api-key": key}, {"Cookie": f"{cookie}={key}"}):
                status, text, _ = page.ask(route, headers)
                check(status == 401, f"the page answers {status} on {route} without its key")
                check("reward" not in text, f"the refusal of {route} tells something: {text}")
            for headers in ({}, bearer):
                for prefix in ("", f"/s/{body.get('episode_id', 'x')}"):
                    status, text, _ = agents.ask(prefix + route, headers)
                    allowed = (401, 404) if route != "/" else (200, 401, 404, 405)
                    check(status in allowed and "uPlot" not in text, f"the agents' listener answers {status} on {prefix + route}")
        check(page.ask(page.target, {})[0] == 401, "a link opened the page twice")
        page.headers = {"Cookie": f"{cookie}={own}"}
        run = page.json("/api/run")
        check(run["live"] and run["name"] == "walls", f"the run is {run}")
        again = ingot.call("view", f"{folder}/walls", timeout=30)
        check(again.returncode == 0, again.stderr)
        Page(again.stdout.split()[0]).open().json("/api/window")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)


def view_files(ingot, folder, name):
    """The page of a run from its files: (process, page)."""
    process = subprocess.Popen([ingot.binary, "view", f"{folder}/{name}", "--files"], stdout=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL)
    atexit.register(ingot_runs.end, process)
    return process, Page(line_with(process, r"^(http\S+)", [])).open()


def end(process):
    process.send_signal(signal.SIGINT)
    check(process.wait(120) == 0, f"`ingot view` ended with {process.returncode}")


def check_run(ingot, folder):
    """A run that goes on, its files beside it, and the same run after it was killed."""
    process, _, link = start(ingot, "seen", {"scheduler.total_steps": 1000, "rollout.record_alternatives": 2})  # it is killed
    try:
        page = Page(link).open()
        wait_until(lambda: ingot.rows("seen") >= 3, "three steps", process)
        run = page.json("/api/run")
        check(run["engines"][0]["sampled_tokens"] > 0, f"engines: {run['engines']}")
        before = page.json("/api/curves?names=reward/mean")["rows"]
        wait_until(lambda: page.json("/api/curves?names=reward/mean")["rows"] > before, "a further row on the page", process)
        windows = []  # one is empty for the moment between two groups

        def group_runs():
            windows.append(page.json("/api/window"))
            return windows[-1]["groups"]

        wait_until(group_runs, "a group in the window", process)
        window = windows[-1]
        check(window["groups"][0]["group"] == window["head"], f"window: {window}")
        beside, files = view_files(ingot, folder, "seen")
        seen = files.json("/api/run")
        check(not seen["live"] and seen["rows"] >= 3, f"beside the run: {seen}")
        rows = seen["rows"]
        wait_until(lambda: files.json("/api/run")["rows"] > rows, "a further row beside the run", process)
        end(beside)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    served, page = view_files(ingot, folder, "seen")
    time_json = page.json("/api/time")
    parts = sum(part["amount"] for part in time_json["parts"])
    share = time_json["measured"] / time_json["wall"]
    print(f"measured {100 * share:.2f}% of {time_json['wall']:.1f} s; waits: {time_json['wait_causes']}")
    check(abs(parts - time_json["wall"]) < 1e-6 * time_json["wall"], f"the parts add up to {parts} of {time_json['wall']} s")
    check(share > 0.99, f"{100 * (1 - share):.1f}% of the wall clock are in no measured part: {time_json['parts']}")
    waited = next(part["amount"] for part in time_json["parts"] if part["name"].startswith("waiting"))
    check(time_json["wait_explained"] > 0.99 * waited or time_json["wait_steps"] < time_json["steps"], f"waits: {time_json}")
    tokens = time_json["tokens"]
    check(0 < tokens["trained"] <= tokens["sampled"] - tokens["stale"], f"tokens: {tokens}")
    lines = pathlib.Path(f"{folder}/seen/metrics.jsonl").read_text().split("\n")[:-1]  # the kill may have cut the last one
    counted = sum(json.loads(line).get("rollout/sampled_tokens", 0) for line in lines)
    check(tokens["sampled"] == counted, f"{tokens['sampled']} tokens were sampled, by the steps' own count {counted}")
    step = page.json("/api/step?step=0")
    group = page.json(f"/api/group?group={step['groups'][0]['group']}")
    check(len(group["episodes"]) == 4 and group["step"] == 0, f"group: {group['group']}")
    returns = sorted(episode["reward"] for episode in group["episodes"])
    check(returns == sorted(step["groups"][0]["returns"]), f"{returns} and {step['groups'][0]}")
    for one in group["episodes"]:  # a group of equal returns has advantages of 0
        above = one["reward"] - sum(returns) / len(returns)
        check(all(call["advantage"] * above >= 0 for call in one["calls"]), f"advantages of {one['id']}, {above} above the mean")
    episode = page.json(f"/api/episode?id={group['episodes'][0]['id']}")
    call = episode["calls"][-1]
    tokens = page.json(f"/api/tokens?id={episode['id']}&call={call['call']}")
    check(len(tokens["id"]) == call["context_tokens"] + call["sampled_tokens"], "the tokens of a call are not all there")
    check_alternatives(ingot, episode["id"], tokens)
    check("lookup(key)" in "".join(tokens["text"]), f"text: {''.join(tokens['text'])[:200]}")
    check(page.json("/api/episodes?text=tool&limit=5")["episodes"], "no episode has the text")
    check(page.json("/api/episodes?reward_min=2")["episodes"] == [], "an episode has a reward of 2")
    end(served)
    run = f"{folder}/seen"
    done = ingot.call("compare", run, run)
    header, *rows = done.stdout.split("\n")
    check(done.returncode == 0 and header.startswith("run ") and len(rows) == 3 and rows[0].startswith("seen ") and
          rows[1].startswith("seen ") and rows[2] == "", f"compare: {done}")


def check_alternatives(ingot, episode, tokens):
    """Each sampled token has its two most likely ids, and a token that is one of them has the same log-prob there."""
    sampled = [(token, tokens["logprob"][i]) for i, token in enumerate(sampled_ids(tokens))]
    ids, logprobs = tokens["alternative"], tokens["alternative_logprob"]
    check(len(ids) == len(logprobs) == 2 * len(sampled) > 0, f"{len(ids)} alternatives of {len(sampled)} tokens")
    for i, (token, logprob) in enumerate(sampled):
        check(logprobs[2 * i] >= max(logprobs[2 * i + 1], logprob), f"token {i}: {logprob} and {logprobs[2 * i:2 * i + 2]}")
        for k in (2 * i, 2 * i + 1):
            check(ids[k] != token or logprobs[k] == logprob, f"token {i} has log-prob {logprob}, and {logprobs[k]} among its alternatives")
    printed = ingot.inspect("seen", episode, "--alternatives")
    check(printed.startswith("call 0\n") and printed.count("  of ") >= len(sampled), printed[:300])


def sampled_ids(tokens):
    ids, at = [], 0
    for run in tokens["runs"]:
        ids += tokens["id"][at:at + run["count"]] if run["sampled"] else []
        at += run["count"]
    return ids


def check_faults(ingot, folder):
    broken = pathlib.Path(folder) / "nothing"
    broken.mkdir()
    for place, words in ((broken, "it has no config.yaml; give"), (broken / "none", "it does not exist; give"),
                         (pathlib.Path(ingot.source) / ingot.config, "it is a file; give"), (folder, "contains 2 runs; give one")):
        for command in ("report", "inspect") if place == folder else ("view", "report", "inspect"):  # view shows its runs
            done = ingot.call(command, place, timeout=30)
            check(done.returncode == 2 and "is not a run folder: " in done.stderr and words in done.stderr, done.stderr)
    code, output = ingot.run("train", {**ingot_runs.SHORT, "run.name": "port", "http.dashboard_port": 1, "http.dashboard_host": "203.0.113.7"})
    check(code != 0 and "dashboard" in output, output)
    check_damage(ingot, folder)
    check_without_pool(ingot, folder)
    check_replaced(ingot, folder)
    check_order(ingot, folder)
    check_record(ingot, folder)


def check_damage(ingot, folder):
    """A folder that cannot be shown is refused in one line that says why."""
    def each(pool, names, change):
        for name in names:
            for file in pool.rglob(name):
                change(file)

    damages = {
        "is missing": lambda run: (run / "config.yaml").unlink(),
        "malformed YAML": lambda run: (run / "config.yaml").write_text("run: ["),
        "there is no pool": lambda run: (run / "pool/shard-0").rename(run / "pool/shard-7"),
        "is damaged": lambda run: each(run / "pool", ("*.sst", "MANIFEST*"), lambda file: os.truncate(file, 10)),
    }
    for words, damage in damages.items():
        run = pathlib.Path(folder) / "damaged"
        shutil.copytree(f"{folder}/seen", run, ignore=shutil.ignore_patterns("sockets"))
        damage(run)
        done = ingot.call("view", run, "--files", timeout=30)
        check(done.returncode != 0 and words in done.stderr and done.stderr.count("\n") == 1, f"{words}: {done}")
        shutil.rmtree(run)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = ingot.call("view", f"{folder}/seen", "--files", "--port", port, timeout=30)
        check(done.returncode != 0 and "already in use" in done.stderr, done.stderr)


def check_supervised(ingot, folder):
    """A run without agents has a page, loggers and a report of its curves; the parts that need episodes say so."""
    folder = pathlib.Path(folder)
    pairs = folder / "pairs.jsonl"
    pairs.write_text("".join(json.dumps({"prompt": [{"role": "user", "content": f"item {i}"}],
                                         "chosen": [{"role": "assistant", "content": "yes"}],
                                         "rejected": [{"role": "assistant", "content": "no"}]}) + "\n" for i in range(8)))
    with Mlflow() as mlflow:
        settings = {"data.tasks": "", "data.dpo": pairs, "sft.max_steps": 5000, "dpo.epochs": 1, "eval.tasks": "", "goal.first_steps": 0,
                    "goal.last_steps": 0, "loggers.mlflow.url": mlflow.url}
        process = ingot.start("train", {**settings, "run.name": "files"})
        try:
            page = Page(line_with(process, r"^page (\S+)", [])).open()
            threading.Thread(target=process.stdout.read, daemon=True).start()
            wait_until(lambda: page.json("/api/run")["rows"] >= 2, "two steps on the page", process)
            run = page.json("/api/run")
            check(run["live"] and run["facts"]["supervised"] and "pool_error" not in run and "engines" not in run, f"run: {run}")
            check("scheduler_error" not in run and "no agents" in run["no_pool"] and run["supervised"]["values"]["sft/loss"] > 0, f"run: {run}")
            names = "sft/loss,sft/nll,sft/grad_norm,sft/tokens_per_second"
            for name, curve in page.json(f"/api/curves?names={names}")["curves"].items():
                check(curve["mean"] and curve["mean"][0] > 0, f"{name}: {curve}")
            status, body, _ = page.ask("/api/window")
            check(status == 404 and "no agents" in body, f"window: {status} {body}")
            check(ingot.call("view", folder / "files").stdout.startswith("http"), "`ingot view` finds no page of the running run")
            process.send_signal(signal.SIGINT)
            check(process.wait(180) != 0, "a stopped run ended well")
        finally:
            process.kill()
        rows = ingot.metrics("files")
        wait_until(lambda: mlflow.steps("sft/nll") == len(rows), f"MLflow got {mlflow.steps('sft/nll')} of {len(rows)} rows", seconds=60)
        check(mlflow.ends == ["KILLED"], f"MLflow: {mlflow.ends}")
        code, output = ingot.run("launch", {**settings, "run.name": "launched-files", "sft.max_steps": 3})
        check(code == 0 and "page http" in output, output)
        check(mlflow.ends == ["KILLED", "FINISHED"], f"MLflow: {mlflow.ends}")
    served, page = view_files(ingot, folder, "launched-files")
    run = page.json("/api/run")
    check(not run["live"] and "no agents" in run["no_pool"] and "dpo/accuracy" in run["supervised"]["values"], f"run: {run}")
    end(served)
    report = folder / "files.html"
    done = ingot.call("report", folder / "launched-files", report)
    text = report.read_text() if report.exists() else ""
    check(done.returncode == 0 and "Supervised loss" in text and "Preference accuracy" in text and "no agents" in text, done)
    done = ingot.call("compare", folder / "files", folder / "launched-files")
    check(done.returncode == 0 and f"files: {len(rows)} supervised steps, loss " in done.stdout, done)
    for command in (("inspect",), ("export", folder / "x.jsonl", "--as", "sft")):
        done = ingot.call(command[0], folder / "files", *command[1:])
        check(done.returncode == 2 and "has no episodes to read: a supervised run" in done.stderr, done)


class Mlflow:
    """A server that takes what MLflow's REST API takes, as far as a run's logger asks it."""

    def __enter__(self):
        self.metrics, self.ends = [], []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.metrics += body.get("metrics", [])
                owner.ends += [body["status"]] if self.path.endswith("runs/update") else []
                answer = json.dumps({"experiment_id": "1", "run": {"info": {"run_id": "r"}}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    def steps(self, name):
        return len({metric["step"] for metric in self.metrics if metric["key"] == name})


def check_without_pool(ingot, folder):
    """A run whose pool is not there, as after a kill in its warm start, shows its records."""
    run = pathlib.Path(folder) / "poolless"
    shutil.copytree(f"{folder}/seen", run, ignore=shutil.ignore_patterns("sockets", "pool"))
    served, page = view_files(ingot, folder, "poolless")
    seen = page.json("/api/run")
    check("pool does not exist" in seen["no_pool"] and seen["rows"] > 0 and "sft/nll" in seen["names"], f"run: {seen}")
    check(page.json("/api/curves?names=sft/nll")["curves"]["sft/nll"]["mean"], "the warm start's curve is not there")
    shutil.copytree(f"{folder}/seen/pool", run / "pool")
    wait_until(lambda: "started" in page.json("/api/run"), "the pool on the page once it is there", seconds=120)
    end(served)
    shutil.rmtree(run)


def check_replaced(ingot, folder):
    """A folder that another run takes while its page is open: no group of the first one is left, and the page says so."""
    run = pathlib.Path(folder) / "swapped"
    shutil.copytree(f"{folder}/walls", run, ignore=shutil.ignore_patterns("sockets"))
    served, page = view_files(ingot, folder, "swapped")
    before = page.json("/api/run")
    check(before["started"] > 0 and "outdated" not in before, f"run: {before}")
    shutil.rmtree(run)
    shutil.copytree(f"{folder}/seen", run, ignore=shutil.ignore_patterns("sockets"))
    wait_until(lambda: page.json("/api/run").get("started", 0) > before["started"], "the other run's journal", seconds=120)
    after = page.json("/api/run")
    check("was replaced" in after["outdated"], f"run: {after}")
    shutil.rmtree(run / "pool")
    wait_until(lambda: "does not exist" in page.json("/api/run").get("no_pool", ""), "a page that says that the pool is gone", seconds=120)
    end(served)
    shutil.rmtree(run)


def check_order(ingot, folder):
    """The page's window is that of the scheduler's order. No key of the run's opens a page of files."""
    run = pathlib.Path(folder) / "ordered"
    shutil.copytree(f"{folder}/seen", run, ignore=shutil.ignore_patterns("sockets"))
    kept = (run / "config.yaml").read_text()
    check(kept.count("order: windowed") == 1, kept)
    for order, sees in (("windowed", lambda window, budget: 1 <= window <= budget), ("strict", lambda window, _: window == 1),
                        ("greedy", lambda window, budget: window > budget)):
        (run / "config.yaml").write_text(kept.replace("order: windowed", f"order: {order}"))
        served, page = view_files(ingot, folder, "ordered")
        state = page.json("/api/window")
        check(sees(state["window"], state["budget"]), f"{order}: W {state['window']}, B {state['budget']}")
        check(all(group["in_window"] == (group["group"] < state["head"] + state["window"]) for group in state["groups"]),
              f"{order}: {state}")
        check(page.ask("/api/run", {"Authorization": "Bearer "})[0] == 401, "an empty key opens a page of files")
        end(served)
    shutil.rmtree(run)


def check_record(ingot, folder):
    """Two pages of one folder while its record grows by half a row, by a broken row, and is taken away."""
    record = pathlib.Path(folder) / "seen" / "metrics.jsonl"
    first, one = view_files(ingot, folder, "seen")
    second, other = view_files(ingot, folder, "seen")
    rows = one.json("/api/run")["rows"]
    row = json.dumps({"step": 1000, "time": time.time(), "reward/mean": 0.25})
    for added, more, broken in ((row[:20], 0, 0), (row[20:] + "\n", 1, 0), ("\x00\x01{not a row\n", 1, 1)):
        with record.open("a") as file:
            file.write(added)
        for page in (one, other):
            wait_until(lambda: page.json("/api/run")["rows"] == rows + more, f"{rows + more} rows", seconds=60)
            wait_until(lambda: page.json("/api/run")["broken_rows"] == broken, f"{broken} broken rows", seconds=60)
    end(first)
    end(second)
    record.unlink()
    served, page = view_files(ingot, folder, "seen")
    check(page.json("/api/run")["rows"] == 0 and page.json("/api/time")["steps"] == 0, "a run without metrics has rows")
    check(page.json("/api/step?step=0")["groups"], "a run without metrics has no groups")
    end(served)


def main():
    binary, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="ingot-page-") as folder:
        ingot = ingot_runs.Ingot(binary, source, folder)
        check_walls(ingot, folder)
        check_run(ingot, folder)
        check_faults(ingot, folder)
        check_supervised(ingot, folder)
    print("passed")


if __name__ == "__main__":
    main()
