#!/usr/bin/env python3
"""Two real vLLM behind a round-robin load balancer: vllm_fleet.py BINARY SOURCE_DIR VLLM [STEPS].

Launches a run with the tiny random model of vllm_grammars.py. Its requests go to the load balancer, and its weights to both
servers. After STEPS steps (3), one server is killed under requests. Once the run has gone on without it for two versions, the
server is started again at its address under requests, and must take part in STEPS versions. Then the run is stopped. Every
token's version must be its group's or a later one, and each step's mean mismatch below that of vllm_runs.py. Prints each step's
mismatch.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from vllm_adapters import free_port, healthy, kill_group
from vllm_grammars import MAKE_MODEL
from vllm_runs import MOST_MISMATCH, environment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "app/runs"))
from engines_tests import recorded_tokens  # noqa: E402
from ingot_runs import Ingot, check, end  # noqa: E402

NAME = "fleet"
START_S = 900
STOPPED = (0, 1, 130)  # exit codes of a launched run that was told to stop
SERVER = {"VLLM_SERVER_DEV_MODE": "1"}

AGENT = """
import json, os, urllib.request
body = {"model": "policy", "max_tokens": 40, "temperature": 1, "messages": [{"role": "user", "content": "go"}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), {
    "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
urllib.request.urlopen(request, timeout=300).read()
print(os.urandom(1)[0] % 2)
"""


class Worker:
    """A vLLM that is killed and started again at its address."""

    def __init__(self, vllm, folder, number):
        self.port, self.log, self.process = free_port(), folder / f"server-{number}.log", None
        self.words = [vllm, "serve", folder / "model", "--host", "127.0.0.1", "--port", str(self.port), "--enable-scale-out",
                      "--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "17", "--enforce-eager"]
        self.environment = environment(vllm) | SERVER

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        with open(self.log, "a", encoding="utf-8") as output:
            self.process = subprocess.Popen(self.words, stdout=output, stderr=subprocess.STDOUT, env=self.environment,
                                            start_new_session=True)

    def await_health(self):
        latest = time.time() + START_S
        while not healthy(f"127.0.0.1:{self.port}"):
            check(self.process.poll() is None and time.time() < latest, f"vLLM does not start: {self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(1)

    def kill(self):
        if self.process is not None:
            kill_group(self.process)

    def version(self):
        """That of its label, or -1."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            with urllib.request.urlopen(f"{self.url}/weight_info", timeout=10) as answer:
                return int(json.load(answer)["weight_version"].split("-")[0])
        return -1


def await_version(worker, least, launch):
    latest = time.time() + START_S
    while worker.version() < least:
        check(launch.poll() is None and time.time() < latest, f"{worker.url} did not get version {least}, but {worker.version()}")
        time.sleep(1)
    return worker.version()


def write_run(folder, front, workers):
    (folder / "tasks.jsonl").write_text("".join(json.dumps({"task_id": str(i), "prompt": "go"}) + "\n" for i in range(8)))
    (folder / "agent.py").write_text(AGENT)
    return {
        "run": {"name": NAME}, "data": {"tasks": str(folder / "tasks.jsonl")},
        "model": {"path": str(folder / "model"), "chat_format": "hermes"}, "device": "cpu",
        "scheduler": {"total_steps": 10000, "groups_per_step": 2, "group_size": 4, "drop_zero_variance": False},
        "trainer": {"learning_rate": 1e-3, "warmup_steps": 0}, "http": {"port": 0}, "sandbox": {"isolation": "process"},
        "rollout": {"engine": "vllm", "context_length": 512, "kv_cache_tokens": 8192, "max_running": 16,
                    "external": {"url": front, "workers": [worker.url for worker in workers], "exchange": str(folder / "exchange"),
                                 "start_s": START_S}},
        "agents": {"concurrency": 8, "recipes": [{
            "name": "asks", "command": ["/usr/bin/python3", "-I", str(folder / "agent.py")], "timeout_s": 600,
            "verifier": {"kind": "numeric", "expected": "1"}}]}}


def report(ingot, joined):
    """Prints a line per step, and returns whether all is right."""
    rows = [row for row in ingot.metrics(NAME) if "reward/mean" in row]
    for row in rows:
        print(row["step"], " ".join(f"{key} {row[key]:.2e}" for key in sorted(row) if key.startswith("mismatch/logprob_abs_diff")))
    measured = [row["mismatch/logprob_abs_diff_mean"] for row in rows if "mismatch/logprob_abs_diff_mean" in row]
    worst = max(measured, default=1)
    tokens = list(recorded_tokens(ingot, NAME))
    old = sum(version < least for version, _, _, least in tokens)
    good = [row["step"] for row in rows] == list(range(len(rows))) and worst < MOST_MISMATCH and tokens and not old
    print("ok" if good else "FAILED", f"{len(rows)} steps, worst mean mismatch {worst:.2e} of {len(measured)} measured steps; "
          f"{len(tokens)} recorded tokens, {old} of them older than their group's version; the killed server joined with version "
          f"{joined}")
    return good


def main():
    binary, source, vllm = map(os.path.abspath, sys.argv[1:4])
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as name, contextlib.ExitStack() as ended:
        folder = pathlib.Path(name)
        (folder / "model").mkdir()
        subprocess.run([pathlib.Path(vllm).parent / "python", "-c", MAKE_MODEL, folder / "model"], check=True, timeout=600)
        workers = [Worker(vllm, folder, number) for number in range(2)]
        for worker in workers:
            ended.callback(worker.kill)
            worker.start()
        for worker in workers:
            worker.await_health()
        balancer = subprocess.Popen([sys.executable, pathlib.Path(source) / "tests/engines/fake_server.py", "--front",
                                     *[worker.url for worker in workers]], stdout=subprocess.PIPE, text=True)
        ended.callback(balancer.kill)
        ingot = Ingot(binary, source, folder)
        ingot.configure("run", write_run(folder, balancer.stdout.readline().split()[-1], workers))
        with open(folder / "launch.log", "w", encoding="utf-8") as output:
            launch = ingot.start("launch", {}, output=output)
        ended.callback(end, launch)
        try:
            dead, other = workers
            for worker in workers:
                await_version(worker, steps, launch)
            dead.kill()
            await_version(other, other.version() + 2, launch)
            dead.start()
            dead.await_health()
            joined = await_version(dead, steps + 1, launch)
            await_version(dead, joined + steps, launch)
            launch.terminate()
            code = launch.wait(600)
        finally:
            if launch.poll() not in STOPPED:
                print((folder / "launch.log").read_text(errors="replace")[-3000:])
        return 0 if report(ingot, joined) and code in STOPPED else 1


if __name__ == "__main__":
    sys.exit(main())
