#!/usr/bin/env python3
"""Memory of many idle episodes: idle_tests.py BINARY SOURCE_DIR [--episodes N] [--bound-mib M] [--isolation LEVEL].

Collects on N tasks at once, each with an agent that has called the model once and then sleeps, in sandboxes of the strongest isolation level.
When all of them sleep, prints the proportional memory (PSS) of the run's own processes and of the agents, the memory that
the machine has less (other work on it shows there too), and the bound. Fails if the PSS is above the bound.
"""
import argparse
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

from ingot_runs import check

MIB = 1 << 20
AGENT = ('curl -sSf --max-time 300 -o answer.json "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" '
         '-H "Content-Type: application/json" -d @request.json; : > done; exec sleep 100000')


def available():
    return int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) * 1024


def processes():
    """Parents by process."""
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                pass
    return parents


def below(root):
    parents, family = processes(), {root}
    grown = True
    while grown:
        grown = False
        for pid, parent in parents.items():
            if parent in family and pid not in family:
                family.add(pid)
                grown = True
    return family


def pss(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1)) * 1024, pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, AttributeError):
        return 0, ""


def value(metrics, name):
    """A figure of /metrics; 0 while it does not exist."""
    try:
        connection = http.client.HTTPConnection("ingot", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(metrics))
        connection.request("GET", "/metrics")
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", connection.getresponse().read().decode(), re.M)
        connection.close()
        return float(found.group(1)) if found else 0
    except OSError:
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("source")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--bound-mib", type=float, help="default: 400 + N / 2")
    parser.add_argument("--isolation", default="auto")
    options = parser.parse_args()
    bound = options.bound_mib or 400 + options.episodes / 2
    with tempfile.TemporaryDirectory(prefix="ingot-idle-") as name:
        folder = pathlib.Path(name)
        (folder / "tasks.jsonl").write_text("".join(json.dumps({"task_id": str(i)}) + "\n" for i in range(options.episodes)))
        recipe = {"name": "idle", "command": ["/bin/sh", "-c", AGENT], "timeout_s": 100000,
                  "files": {"request.json": '{"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}'},
                  "verifier": {"kind": "regex", "pattern": ".*"}}
        settings = {"run.root": folder, "run.name": "idle", "data.tasks": folder / "tasks.jsonl", "eval.tasks": "",
                    "sft.max_steps": 0, "data.sft": "", "goal.first_steps": 0, "goal.last_steps": 0, "http.port": 0,
                    "agents.concurrency": options.episodes, "agents.recipes": json.dumps([recipe]),
                    "agents.work_root": folder / "work", "sandbox.isolation": options.isolation, "gateway.max_open_episodes": 2 * options.episodes,
                    "scheduler.group_deadline_s": 100000, "gateway.episode_idle_s": 100000}
        argv = [options.binary, "collect", "configs/smoke.yaml", "--samples", "1"]
        for key, setting in settings.items():
            argv += ["--set", f"{key}={setting}"]
        before, began = available(), time.monotonic()
        with open(folder / "log", "w", encoding="utf-8") as log:
            run = subprocess.Popen(argv, cwd=options.source, stdout=log, stderr=log)
        try:
            while True:
                check(run.poll() is None, (folder / "log").read_text()[-3000:])
                check(time.monotonic() - began < 1500, f"not all sleep after {time.monotonic() - began:.0f} s: "
                      + (folder / "log").read_text()[-2000:])
                sleeping = sum(pss(pid)[1] == "sleep" for pid in below(run.pid))
                if sleeping >= options.episodes:
                    break
                time.sleep(2)
            opened = time.monotonic() - began
            running = value(folder / "idle/sockets/metrics-ingot.sock", "agents_running")
            time.sleep(3)
            own = agents = 0
            for pid in below(run.pid):
                size, command = pss(pid)
                if command.startswith("ingot") or pid == run.pid:
                    own += size
                else:
                    agents += size
            less = before - available()
        finally:
            run.send_signal(signal.SIGTERM)
            try:
                run.wait(timeout=180)
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
        text = (folder / "log").read_text()
        isolation = re.search(r"agents: isolation level (\w+)", text)
        print(json.dumps({"episodes": options.episodes, "running": running, "isolation": isolation.group(1) if isolation else "",
                          "opened_in_s": round(opened, 1), "own_mib": round(own / MIB, 1), "agents_mib": round(agents / MIB, 1),
                          "machine_mib_less": round(less / MIB, 1), "bound_mib": bound}))
        check(running == options.episodes, f"{running} episodes run")
        check(own + agents <= bound * MIB, "above the bound")


if __name__ == "__main__":
    main()
