#!/usr/bin/env python3
"""What open tabs of a run's page cost its training: page_cost.py BINARY SOURCE_DIR [--tabs N] [--pairs N] [--seconds N].

One run, in windows without a tab and with N tabs that poll the page, in the order without, with, with, without. A tab asks as the browser does: the
run's state and its view every three seconds, the views in turn. Prints the seconds per step of each window, the difference of neighbours with its
interval of 95 %, and the CPU seconds of the page's thread, which a loaded machine does not change much. The rest needs a quiet machine.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/app/runs"))
import page_tests  # noqa: E402
import ingot_runs  # noqa: E402

POLL_S = 3
WARM_S = 30  # after the first step, with a cold cache
STUDENT_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 15: 2.13, 20: 2.09, 30: 2.04, 40: 2.02}


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


class Tabs:
    """Tabs of the browser, while they are open."""

    def __init__(self, link, count):
        self.stop, self.asked = threading.Event(), []
        views = ("curves", "window", "time", "episodes")
        self.threads = [threading.Thread(target=poll, args=(link, views[tab % len(views)], self.stop, self.asked)) for tab in range(count)]
        for thread in self.threads:
            thread.start()

    def close(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return len(self.asked)


def steps(ingot, name):
    """The rows of all steps so far; the last line may be half written."""
    path = pathlib.Path(ingot.folder, name, "metrics.jsonl")
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [row for row in map(json.loads, lines) if "perf/step_seconds" in row]


def seconds_per_step(rows, start, end):
    """Of the steps that lie in a window whole."""
    took = [row["perf/step_seconds"] for row in rows if row["time"] <= end and row["time"] - row["perf/step_seconds"] >= start]
    return statistics.mean(took), len(took)


def measure(ingot, settings, options):
    """((start, end, tabs) of every window, CPU seconds of the page's thread without tabs and with them, questions)"""
    process = ingot.start("train", settings)
    try:
        link = page_tests.line_with(process, r"^page (\S+)", [])
        threading.Thread(target=process.stdout.read, daemon=True).start()
        while not steps(ingot, settings["run.name"]):
            ingot_runs.check(process.poll() is None, "the run ended before its first step")
            time.sleep(1)
        time.sleep(WARM_S)
        windows, spent, asked = [], {0: 0.0, options.tabs: 0.0}, 0
        for pair in range(options.pairs):
            for tabs in (0, options.tabs) if pair % 2 == 0 else (options.tabs, 0):
                before, start = page_seconds(process.pid), time.time()
                opened = Tabs(link, tabs)
                time.sleep(options.seconds)
                windows.append((start, time.time(), tabs))
                asked += opened.close()
                ingot_runs.check(process.poll() is None, f"the run ended in pair {pair}")
                spent[tabs] += page_seconds(process.pid) - before
    finally:
        process.terminate()
        process.wait(timeout=120)
    return windows, spent, asked


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("source")
    parser.add_argument("--tabs", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--seconds", type=int, default=15)
    options = parser.parse_args()
    settings = {"run.name": "page-cost", "sft.max_steps": 240, "scheduler.total_steps": 1_000_000, "goal.first_steps": 0, "goal.last_steps": 0,
                "eval.tasks": "", "http.port": 0, "http.dashboard": "true"}
    differences = []
    with tempfile.TemporaryDirectory(prefix="ingot-page-cost-") as folder:
        key_file = pathlib.Path(folder) / "key"
        key_file.write_text(KEY + "\n")
        key_file.chmod(0o600)
        settings["gateway.admin_key_file"] = str(key_file)
        ingot = ingot_runs.Ingot(os.path.abspath(options.binary), os.path.abspath(options.source), folder)
        windows, spent, asked = measure(ingot, settings, options)
        rows = steps(ingot, settings["run.name"])
        for i in range(0, len(windows), 2):
            seconds = {tabs: seconds_per_step(rows, start, end) for start, end, tabs in windows[i:i + 2]}
            print(f"pair {i // 2}: " + ", ".join(f"{tabs} tabs {mean:.4f} s per step ({count} steps)" for tabs, (mean, count) in sorted(seconds.items())))
            differences.append(100 * (seconds[options.tabs][0] / seconds[0][0] - 1))
    wall = options.pairs * options.seconds
    print(f"the page's thread took {spent[0]:.2f} s of CPU in {wall} s without tabs, and {spent[options.tabs]:.2f} s in {wall} s with {options.tabs} tabs "
          f"and {asked} views, {100 * spent[options.tabs] / wall:.2f} % of a core")
    mean, margin = statistics.mean(differences), math.nan
    if len(differences) > 1:
        freedom = max(known for known in STUDENT_T if known < len(differences))
        margin = STUDENT_T[freedom] * statistics.stdev(differences) / math.sqrt(len(differences))
    print(f"{options.tabs} tabs make a step {mean:+.2f} % longer, 95 %: {mean - margin:+.2f} % to {mean + margin:+.2f} %; "
          f"the median of {len(differences)} pairs is {statistics.median(differences):+.2f} %")


KEY = "a-key-of-this-benchmark-0123456789abcdef"

if __name__ == "__main__":
    main()
