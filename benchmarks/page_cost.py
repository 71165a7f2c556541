#!/usr/bin/env python3
"""What open tabs of a run's page cost its training: page_cost.py BINARY SOURCE_DIR [--tabs N] [--pairs N] [--steps N].

Pairs of the same run, without its page and with N tabs that poll it, in turns. A tab asks as the browser does: the run's state and its view every
three seconds, the views in turn. Prints the seconds per step of both, the difference with its interval of 95 %, and the CPU seconds of the page's
thread, which a loaded machine does not change much. The rest wants a quiet machine.
"""
import argparse
import math
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "app"))
import page_tests  # noqa: E402
import run_tests  # noqa: E402

POLL_S = 3
SKIPPED = 5  # steps at the start, with a cold cache
STUDENT_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def poll(link, view, stop, asked):
    """A tab on one view, until `stop`."""
    page = page_tests.Page(link)
    page.headers = {"Authorization": "Bearer " + KEY}
    while not stop.is_set():
        try:
            names = page.json("/api/run")["names"]
            page.json(f"/api/{view}" if view != "curves" else f"/api/curves?names={','.join(names[:60])}&points=400")
            asked.append(view)
        except (OSError, SystemExit, ValueError):
            return  # the run has ended
        stop.wait(POLL_S)


def page_seconds(pid):
    """CPU seconds of the thread that answers the page's questions."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == "page":
                fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return 0


def train(ingot, name, settings, tabs):
    """(seconds per step, CPU seconds of the page's thread, wall seconds, questions)"""
    process = ingot.start("train", {**settings, "run.name": name, "http.dashboard": "true" if tabs else "false"})
    lines, asked, stop, spent = [], [], threading.Event(), 0.0
    if tabs:
        link = page_tests.line_with(process, r"^page (\S+)", lines)
    threading.Thread(target=process.stdout.read, daemon=True).start()
    started = time.monotonic()
    views = ("curves", "window", "time", "episodes")
    for tab in range(tabs):
        threading.Thread(target=poll, args=(link, views[tab % len(views)], stop, asked), daemon=True).start()
    while process.poll() is None:
        spent = max(spent, page_seconds(process.pid))
        time.sleep(0.5)
    stop.set()
    run_tests.check(process.returncode == 0, f"{name} ended with {process.returncode}")
    times = [row["time"] for row in ingot.metrics(name) if "perf/step_seconds" in row]
    return (times[-1] - times[SKIPPED]) / (len(times) - 1 - SKIPPED), spent, time.monotonic() - started, len(asked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("source")
    parser.add_argument("--tabs", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    settings = {"sft.max_steps": 240, "scheduler.total_steps": options.steps, "goal.first_steps": 0, "goal.last_steps": 0, "eval.tasks": "",
                "http.port": 0, "gateway.admin_key_file": ""}
    differences = []
    with tempfile.TemporaryDirectory(prefix="ingot-page-cost-") as folder:
        key_file = pathlib.Path(folder) / "key"
        key_file.write_text(KEY + "\n")
        key_file.chmod(0o600)
        settings["gateway.admin_key_file"] = str(key_file)
        ingot = run_tests.Ingot(os.path.abspath(options.binary), os.path.abspath(options.source), folder)
        for pair in range(options.pairs):
            seconds = {}
            for tabs in (0, options.tabs) if pair % 2 == 0 else (options.tabs, 0):
                seconds[tabs], spent, wall, asked = train(ingot, f"{pair}-{tabs}", settings, tabs)
                print(f"pair {pair}, {tabs} tabs: {seconds[tabs]:.4f} s per step" +
                      (f"; the page's thread took {spent:.2f} s of CPU in {wall:.0f} s for {asked} views, {100 * spent / wall:.2f} % of a core"
                       if tabs else ""), flush=True)
            differences.append(100 * (seconds[options.tabs] / seconds[0] - 1))
    mean = statistics.mean(differences)
    margin = STUDENT_T.get(len(differences) - 1, 2) * statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    print(f"{options.tabs} tabs make a step {mean:+.2f} % longer, 95 %: {mean - margin:+.2f} % to {mean + margin:+.2f} %")


KEY = "a-key-of-this-benchmark-0123456789abcdef"

if __name__ == "__main__":
    main()
