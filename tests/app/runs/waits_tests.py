#!/usr/bin/env python3
"""Stops roles of a launched run in turn: waits_tests.py BINARY SOURCE_DIR [ROLE ...], by default each. The terminal, a log and
`ingot status` then name the stopped role and the cause, and the run continues once the role does. Prints after how many seconds each of them did."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from ingot_runs import GROUPS, Ingot, check, role_process, status, wait_until

ROLES = ["datapool", "scheduler", "gateway", "rollout-0", "agents", "trainer", "trainer-1"]


def stop_and_look(ingot, launch, role, terminal, logs):
    """Stops a role until it is named everywhere; returns the seconds that this took, by place. The run goes on afterwards."""
    begun = {path: path.stat().st_size for path in (terminal, logs / "launch.log")}

    def said(path):
        with open(path, encoding="utf-8") as file:
            file.seek(begun[path])
            return file.read()

    def in_status():
        code, lines = status(ingot, {"run.name": "waits"})
        line = lines.get(role, "")
        return code == 1 and "NOT REACHED: no answer for" in line and "stopped by a signal" in line

    silent, took = f"{role} has not responded for ", {}
    process = role_process(launch, role)
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    looks = {"terminal": lambda: silent in said(terminal), "log": lambda: silent in said(logs / "launch.log"),
             "status": in_status}
    while len(took) < len(looks):
        check(time.monotonic() - began < 300, f"{role} is stopped, and is not named by {sorted(looks.keys() - took.keys())}")
        for place in looks.keys() - took.keys():
            if looks[place]():
                took[place] = time.monotonic() - began
        time.sleep(0.2)
    check(f"process {process} was stopped by a signal" in said(terminal), f"no cause for {role}: {said(terminal)}")
    rows = ingot.rows("waits")
    os.kill(process, signal.SIGCONT)
    wait_until(lambda: f"{role} responds again" in said(terminal), f"word that {role} responds again", launch)
    wait_until(lambda: ingot.rows("waits") >= rows + 3, f"steps after {role} went on", launch)
    return took


def main():
    with tempfile.TemporaryDirectory(prefix="ingot-waits-") as folder:
        ingot = Ingot(sys.argv[1], sys.argv[2], folder)
        ingot.configure("waits", GROUPS)
        own = {"run.name": "waits", "scheduler.total_steps": 100000, "scheduler.group_deadline_s": 3600,
               "cluster.trainer_ranks": 2, "cluster.rank_deadline_s": 3600, "cluster.registry.ttl_s": 3600}
        out_path, logs = pathlib.Path(folder) / "out", pathlib.Path(folder) / "waits/logs"
        with open(out_path, "w", encoding="utf-8") as out:
            launch = ingot.start("launch", own, output=out)
        try:
            wait_until(lambda: ingot.rows("waits") >= 3, "the first steps", launch)
            for role in sys.argv[3:] or ROLES:
                took = stop_and_look(ingot, launch, role, out_path, logs)
                print(f"{role}: named after {took['terminal']:.1f} s on the terminal, {took['log']:.1f} s in a log, "
                      f"{took['status']:.1f} s by ingot status", flush=True)
        finally:
            launch.terminate()
            try:
                launch.wait(timeout=60)
            except subprocess.TimeoutExpired:
                launch.kill()


if __name__ == "__main__":
    main()
