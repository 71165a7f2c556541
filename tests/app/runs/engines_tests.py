#!/usr/bin/env python3
"""Runs that sample through a fake server (tests/engines/fake_server.py): engines_tests.py BINARY SOURCE_DIR CASE.

Its policy is random and its log-probs are made up, so these runs show that the roles work together, not that they learn.
"""
import base64
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

from ingot_runs import check, main, wait_for_rows, wait_until, write_asking_config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "engines"))
from fake_server import logprob_of  # noqa: E402

STEPS = 6


def fake_server(ingot):
    return ["python3", str(pathlib.Path(ingot.source).resolve() / "tests/engines/fake_server.py")]


def label_log(ingot):
    return pathlib.Path(ingot.folder, "labels.jsonl")


def settings(ingot, name, engine="vllm", more=()):
    words = ["FAKE=1", "/usr/bin/env", *fake_server(ingot), "--dialect", engine, "--port", "${port}", "--model", "${model}",
             "--vocab", "200", "--context", "${context}", "--log", str(label_log(ingot)), *more]
    return {"run.name": name, "rollout.engine": engine, "rollout.external.command": json.dumps(words),
            "rollout.external.exchange": f"{ingot.folder}/exchange", "rollout.external.idle_health_s": 0.1,
            "rollout.external.verify": "false", "rollout.external.max_mismatch": 0,
            "scheduler.total_steps": STEPS, "scheduler.drop_zero_variance": "false"}


def servers(ingot):
    """Process ids of the fake servers that this test's roles started."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if any(word.startswith(f"{ingot.folder}/exchange/") for word in words) and "python3" in words[0]:
                found.append(int(process.name))
    return found


def check_end(ingot, name):
    """Every step was made, and the made-up log-probs were noticed at each."""
    rows = [row for row in ingot.metrics(name) if "reward/mean" in row]
    check([row["step"] for row in rows] == list(range(STEPS)), f"steps in metrics.jsonl: {[row['step'] for row in rows]}")
    check(all(row["mismatch/logprob_abs_diff_mean"] > 0.1 for row in rows), "the log-probs of a fake pass for the policy's")
    wait_until(lambda: not servers(ingot), "end of the servers", seconds=30)
    left = [path for path in pathlib.Path(f"{ingot.folder}/exchange").iterdir() if path.is_dir()]
    check(not left, f"folders with weights are left: {left}")


def recorded_tokens(ingot, name):
    """The version, the log-prob, and the position of each recorded token, and its group's version."""
    least = {}
    for record in ingot.journal(name):
        if "admitted" in record:
            admitted = record["admitted"]
            least[admitted.get("groupId", "0")] = int(admitted.get("admittedVersion", 0))
    for line in ingot.inspect(name, "--json", "--limit", "0").splitlines():
        tree = json.loads(line)
        for call in tree.get("calls", ()):
            position = int(call["contextTokens"])
            for key in call.get("sampledKeys", ()):
                segment = tree["segments"][base64.b64decode(key).hex()]
                versions = [int(run.get("version", 0)) for run in segment["versions"] for _ in range(run["count"])]
                for version, logprob in zip(versions, segment["logprobs"], strict=True):
                    yield version, logprob, position, least[tree["episode"]["ref"].get("groupId", "0")]
                    position += 1


def check_tokens(ingot, name):
    """Each recorded token was drawn by the weights of the version that it names, which is no older than its group's."""
    seeds = collections.defaultdict(set)
    for line in label_log(ingot).read_text().splitlines():
        entry = json.loads(line)
        version, _, rest = entry["label"].partition("-")
        if version.isdigit() and rest:
            seeds[int(version)].add(entry["seed"])
    check(seeds and all(len(found) == 1 for found in seeds.values()), f"versions have several weights: {dict(seeds)}")
    tokens = 0
    for version, logprob, position, least in recorded_tokens(ingot, name):
        (seed,) = seeds[version]
        expected = logprob_of(seed, position)
        check(abs(logprob - expected) < 1e-5, f"a token of version {version} has {logprob} instead of {expected}")
        check(version >= least, f"version {version} drew a token of a later group")
        tokens += 1
    check(tokens > 50, f"{tokens} tokens were recorded")


def state_of(url):
    with urllib.request.urlopen(f"{url}/fake/state", timeout=10) as answer:
        return json.load(answer)


def set_faults(url, **faults):
    urllib.request.urlopen(urllib.request.Request(f"{url}/fake/faults", json.dumps(faults).encode()), timeout=10).close()


def case_launch(ingot):
    """A launched run whose server is killed."""
    write_asking_config(ingot)
    launch = ingot.start("launch", settings(ingot, "launched"))
    wait_for_rows(ingot, launch, "launched", 2)
    wait_until(lambda: servers(ingot), "a server", launch)
    os.kill(servers(ingot)[0], signal.SIGKILL)
    output, _ = launch.communicate(timeout=600)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    log = pathlib.Path(ingot.folder, "launched/logs/rollout-0.log").read_text()
    check("lost" in log or "cannot be used" in log, f"the role did not notice: {log[-2000:]}")
    check_end(ingot, "launched")
    check_tokens(ingot, "launched")


def case_train(ingot):
    """All roles in one process, with SGLang."""
    write_asking_config(ingot)
    code, output = ingot.run("train", settings(ingot, "trained", "sglang"))
    check(code == 0, f"exit code {code}: {output}")
    check("whose control routes run any method" in output, f"agents can reach the server, and nobody says so: {output}")
    check_end(ingot, "trained")
    check_tokens(ingot, "trained")


def case_no_server(ingot):
    """A server that ends at once ends the run with its reason."""
    write_asking_config(ingot)
    code, output = ingot.run("launch", {**settings(ingot, "none"), "rollout.external.command": "['false']"}, timeout=120)
    check(code != 0 and "rollout.external.command" in output, f"exit code {code}: {output}")


def case_refused(ingot):
    """A server with other log-probs than Ingot's model never samples for the run."""
    write_asking_config(ingot)
    code, output = ingot.run("train", {**settings(ingot, "refused"), "rollout.external.verify": "true"}, timeout=120)
    check(code != 0 and "trial load" in output, f"exit code {code}: {output}")
    check(not pathlib.Path(ingot.folder, "refused/metrics.jsonl").exists() or
          not [row for row in ingot.metrics("refused") if "reward/mean" in row], "a step was trained")


def case_vocabulary(ingot):
    """A server with another model's vocabulary ends the run before a token is trained."""
    write_asking_config(ingot)
    code, output = ingot.run("train", settings(ingot, "other", more=["--known", "100"]), timeout=120)
    check(code != 0 and "a vocabulary of" in output and "start it with the run's model" in output, f"exit code {code}: {output}")
    check(not label_log(ingot).exists(), "weights were loaded")
    rows = ingot.metrics("other") if pathlib.Path(ingot.folder, "other/metrics.jsonl").exists() else []
    check(not [row for row in rows if "reward/mean" in row], "a step was trained")


def case_rejected(ingot):
    """A call that the server rejects gets a 400 with the server's reason, and the run goes on."""
    folder = write_asking_config(ingot)
    agent, answers = folder / "agent.py", folder / "answers"
    text = agent.read_text(encoding="utf-8")
    own = text.replace("answer = connection.getresponse().read()", f"""response = connection.getresponse()
answer = response.read()
with open({str(answers)!r}, "a") as file:
    file.write(str(response.status) + " " + answer.decode().replace(chr(10), " ") + chr(10))""")
    check(own != text, text)
    agent.write_text(own, encoding="utf-8")
    launch = ingot.start("launch", settings(ingot, "rejected"))
    wait_for_rows(ingot, launch, "rejected", 2)

    def rejected():
        return [line for line in answers.read_text(encoding="utf-8").splitlines() if line.startswith("400")]

    set_faults(url_of(servers(ingot)[0]), refuse=True)
    wait_until(rejected, "a 400", launch)
    set_faults(url_of(servers(ingot)[0]), refuse=False)
    check("vllm answered 400" in rejected()[0] and "refused" in rejected()[0], rejected()[0])
    output, _ = launch.communicate(timeout=250)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    check_end(ingot, "rejected")
    check_tokens(ingot, "rejected")


def url_of(process_id):
    words = pathlib.Path(f"/proc/{process_id}/cmdline").read_bytes().decode().split("\0")
    return f"http://127.0.0.1:{words[words.index('--port') + 1]}"


def case_kills(ingot, kills=20):
    """A launched run whose server is killed while it loads weights, again and again."""
    write_asking_config(ingot)
    steps = kills + 3
    launch = ingot.start("launch", {**settings(ingot, "killed"), "scheduler.total_steps": steps})
    last, killed_at = None, -1

    def next_server():
        found = [process for process in servers(ingot) if process != last]
        return found[0] if found else None

    def newest(url):
        """The version that the server runs, -1 if it has none or is not there."""
        with contextlib.suppress(OSError, ValueError):
            state = state_of(url)
            return int(state["label"].split("-")[0]) if not state["paused"] and state["label"][0].isdigit() else -1
        return -1

    def loads(url):
        with contextlib.suppress(OSError, ValueError):
            state = state_of(url)
            return state["paused"] and state["torn"]
        return False

    for _ in range(kills):
        wait_until(next_server, "a server", launch)
        server = next_server()
        url = url_of(server)

        wait_until(lambda: newest(url) > killed_at, "a later version", launch)
        killed_at = newest(url)
        set_faults(url, load_ms=1000)
        wait_until(lambda: loads(url), "a load", launch)
        os.kill(server, signal.SIGKILL)
        last = server
    output, _ = launch.communicate(timeout=1500)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    rows = [row for row in ingot.metrics("killed") if "reward/mean" in row]
    check([row["step"] for row in rows] == list(range(steps)), f"steps in metrics.jsonl: {[row['step'] for row in rows]}")
    check_tokens(ingot, "killed")


class Worker:
    """A server of a fleet, which is restarted at its address."""

    def __init__(self, ingot):
        # It has no model at first, so nobody can ask it for a vocabulary.
        self.words = [*fake_server(ingot), "--vocab", "200", "--faults", '{"no_bias": "ignored"}', "--log", str(label_log(ingot))]
        self.port, self.process = 0, None

    def start(self):
        self.process = subprocess.Popen([*self.words, "--port", str(self.port)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        return self

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def kill(self):
        self.process.kill()
        self.process.wait()


def case_fleet(ingot, rounds=4):
    """A launched run on two servers behind a round-robin load balancer: in turn, one dies at an update and joins again."""
    write_asking_config(ingot)
    steps = 2 * rounds + 2
    workers = [Worker(ingot).start() for _ in range(2)]
    front = subprocess.Popen([*fake_server(ingot), "--front", *[worker.url for worker in workers]], stdout=subprocess.PIPE, text=True)
    try:
        url = front.stdout.readline().split()[-1]
        launch = ingot.start("launch", {
            **settings(ingot, "fleet"), "rollout.external.command": "[]", "rollout.external.url": url,
            "rollout.external.workers": json.dumps([worker.url for worker in workers]), "scheduler.total_steps": steps})

        def newest(worker):
            label = state_of(worker.url)["label"]
            return int(label.split("-")[0]) if label[0].isdigit() else -1

        for turn in range(rounds):
            worker, other = workers[turn % 2], workers[1 - turn % 2]
            wait_until(lambda: newest(worker) >= 0 and newest(other) >= 0, "both workers with weights", launch)
            before = newest(other)
            set_faults(worker.url, load_ms=1000)
            wait_until(lambda: state_of(worker.url)["torn"], "a load", launch)
            worker.kill()
            wait_until(lambda: newest(other) > before + 1, "steps on the other worker", launch)
            worker.start()
        output, _ = launch.communicate(timeout=900)
    finally:
        for process in (front, *[worker.process for worker in workers]):
            process.kill()
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    rows = [row for row in ingot.metrics("fleet") if "reward/mean" in row]
    check([row["step"] for row in rows] == list(range(steps)), f"steps in metrics.jsonl: {[row['step'] for row in rows]}")
    check_tokens(ingot, "fleet")


def case_mismatch(ingot):
    """A server that drifts from the policy is set aside, and the run waits until somebody restarts it."""
    write_asking_config(ingot)
    launch = ingot.start("launch", {**settings(ingot, "drifting"), "rollout.external.max_mismatch": 0.1})
    log = pathlib.Path(ingot.folder, "drifting/logs/rollout-0.log")
    wait_until(lambda: log.exists() and "is set aside until it is restarted" in log.read_text(), "the engine set aside", launch,
               seconds=200)
    def steps():
        return [row for row in ingot.metrics("drifting") if "reward/mean" in row]

    wait_until(lambda: len(steps()) >= 3, "the row of the step after which the engine was set aside", launch, seconds=30)
    rows = steps()
    check(len(rows) < STEPS, f"{len(rows)} steps were made")
    check(all("engine/load_ms" in row for row in rows), f"metrics of the server are missing: {sorted(rows[0])}")
    time.sleep(3)
    check(launch.poll() is None, "the run did not wait")
    check(len(steps()) <= len(rows) + 1, "the run went on")
    os.kill(servers(ingot)[0], signal.SIGKILL)
    output, _ = launch.communicate(timeout=250)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    check("rollout-0 does not sample from the trained policy" in output, f"no warning: {output}")
    check_end(ingot, "drifting")


def case_adapters(ingot):
    """Adapters as versions: a launched run with evaluations of earlier versions."""
    write_asking_config(ingot)
    held_out = pathlib.Path(ingot.folder, "held_out.jsonl")
    held_out.write_text('{"task_id": "held-out", "prompt": "which?"}\n')
    launch = ingot.start("launch", {**settings(ingot, "adapters"), "trainer.lora.rank": 4, "eval.tasks": held_out,
                                    "eval.every_versions": 2, "eval.at_start": "true"})
    output, _ = launch.communicate(timeout=280)
    check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
    evaluated = sorted(row["eval/version"] for row in ingot.metrics("adapters") if "eval/version" in row)
    check(evaluated == [0, 2, 4, 6], f"versions {evaluated} were evaluated: {output}")
    log = pathlib.Path(ingot.folder, "adapters/logs/rollout-0-server.log")
    check(log.exists(), "the server has no log")
    check_end(ingot, "adapters")


def case_full(ingot):
    """A folder for weights that is full: a run does not start, and one that has started waits until there is room."""
    write_asking_config(ingot, agent_seconds=1)  # the folder is filled before the last step
    exchange = pathlib.Path(ingot.folder, "exchange")
    exchange.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", exchange], capture_output=True, text=True)
    if mounted.returncode != 0:
        print(f"nothing can be mounted here, so this is not checked: {mounted.stderr}")
        return
    try:
        code, output = ingot.run("launch", {**settings(ingot, "none"), "cluster.max_restarts": 0}, timeout=250)
        check(code != 0 and f"cannot write {exchange}" in output and "No space left on device" in output, f"exit code {code}: {output}")
        subprocess.run(["mount", "-o", "remount,size=16m", exchange], check=True)
        launch = ingot.start("launch", settings(ingot, "full"))
        wait_for_rows(ingot, launch, "full", 2)
        filler = exchange / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        log = pathlib.Path(ingot.folder, "full/logs/trainer.log")
        wait_until(lambda: "No space left on device" in log.read_text(), "word of the full folder", launch)
        check(f"cannot write {exchange}" in log.read_text(), f"the folder is not named: {log.read_text()[-2000:]}")
        filler.unlink()
        output, _ = launch.communicate(timeout=250)
        check(launch.returncode == 0, f"exit code {launch.returncode}: {output}")
        check_end(ingot, "full")
    finally:
        subprocess.run(["umount", "--lazy", exchange], check=True)


def case_check(ingot):
    """`ingot engine check` names bad input, and leaves a run's server alone."""
    exchange = pathlib.Path(ingot.folder, "exchange")
    exchange.mkdir(exist_ok=True)
    claim = open(exchange / "http___127.0.0.1_2.lock", "w")
    fcntl.flock(claim, fcntl.LOCK_EX)
    for words, reason in ((["nowhere", "--model", ingot.folder], "is not a server URL"),
                          (["http://127.0.0.1:1", "--model", ingot.folder], "vllm at http://127.0.0.1:1"),
                          (["http://127.0.0.1:2/", "--model", ingot.folder], "another engine on this machine"),
                          (["http://127.0.0.1:1", "--model", ingot.folder, "--write", "here"], "an absolute path")):
        done = subprocess.run([ingot.binary, "engine", "check", "--exchange", str(exchange), *words], capture_output=True, text=True, timeout=60)
        check(done.returncode != 0 and reason in done.stderr, f"{words}: exit code {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    main(case_launch, case_train, case_no_server, case_refused, case_vocabulary, case_rejected, case_kills, case_fleet, case_mismatch, case_adapters, case_full, case_check)
