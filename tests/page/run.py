#!/usr/bin/env python3
"""The page of real runs in a headless Chromium: run.py BINARY SOURCE_DIR [FOLDER_FOR_SCREENSHOTS].

Needs Node.js, Debian's chromium (`scripts/setup.sh page`), and playwright-core and axe-core from npm (package-lock.json beside this file).
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "app" / "runs"))
sys.path.insert(0, str(HERE))
import agent  # noqa: E402
import page_tests  # noqa: E402
import ingot_runs  # noqa: E402
from outside_episodes import OUTSIDE, Episode, long_episode  # noqa: E402
from ingot_runs import check, wait_until  # noqa: E402

HOSTILE = ("<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> \x1b[31mred\x1b]0;title\x07 "
           "\u202eevil\u2066 a\u200bb </pre></div><a href='javascript:window.hacked=1'>link</a>")
HOSTILE_NAME = "<img src=x onerror=window.hacked=1> 50% a?b#c&d"


def hostile_episode(gateway):
    """An episode with texts that must never be interpreted."""
    episode = Episode(gateway, HOSTILE)
    episode.call([{"role": "system", "content": HOSTILE}, {"role": "user", "content": HOSTILE}], 8)
    episode.end(HOSTILE)
    return {"id": episode.id, "group": episode.group}


def drive(kind, link, shots, episodes=None, hold=""):
    argv = ["node", str(HERE / "browser.mjs"), kind, link, shots] + ([json.dumps(episodes)] if episodes else [])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, cwd=HERE, env={**os.environ, "INGOT_HOLD": hold})
    print(done.stdout + "".join(line for line in done.stderr.splitlines(True) if "/usr/bin/chromium:" not in line), flush=True)
    check(done.returncode == 0, f"the browser found a fault; screenshots: {shots}")


def new_link(ingot, name):
    """What `ingot view` prints beside a run that goes on."""
    done = ingot.call("view", f"{ingot.folder}/{name}", timeout=30)
    check(done.returncode == 0, done.stderr)
    return done.stdout.split()[0]


class Running:
    """A run that is killed at the end of the block."""

    def __init__(self, ingot, name, settings, command="train"):
        self.process, self.gateway, self.link = page_tests.start(ingot, name, settings, command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


class Served:
    """`ingot view --files` on a folder."""

    def __init__(self, ingot, name):
        self.process = subprocess.Popen([ingot.binary, "view", f"{ingot.folder}/{name}", "--files"], stdout=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL)

    def __enter__(self):
        return page_tests.line_with(self.process, r"^(http\S+)", [])

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


TERMS = [{"kind": "outcome"}, {"kind": "length", "weight": 0.1}, {"kind": "effort", "weight": 0.01}, {"kind": "completion_time", "weight": 0.1},
         {"kind": "overlong", "weight": 0.1}, {"kind": "repetition", "weight": 0.1, "repetition": {"ngram": 32}}, {"kind": "malformed_call", "weight": 0.1},
         {"kind": "failed_call", "weight": 0.1}, {"kind": "parl_parallel", "weight": 0.1}, {"kind": "parl_finish", "weight": 0.1}]


def rich_run(folder):
    """Settings of a run that has everything that the page shows: more terms than one chart holds, branches, trunks and a straggler. The policy stays as
    the warm start made it, since its rewards are chance. The agents see the file that makes one of them wait."""
    names = [f"{first}{second}" for first in "abcd" for second in "xy"]
    files = {"tasks": [{"task_id": name, "name": name} for name in names], "eval": [{"task_id": f"held-out {name}", "name": name} for name in names[:2]],
             "sft": list(agent.examples(names))}
    for file, rows in files.items():
        pathlib.Path(folder, f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = {"name": "rich", "command": ["/usr/bin/python3", "-I", str(HERE / "agent.py"), "${task.name}", f"{folder}/hold"], "resumes": True, "timeout_s": 120,
              "verifier": {"kind": "exact", "expected": "1"}}
    return {"data.tasks": f"{folder}/tasks.jsonl", "data.sft": f"{folder}/sft.jsonl", "sft.max_steps": 100, "sft.batch_size": 8, "sft.learning_rate": 3e-3, "model.hidden_size": 96, "model.intermediate_size": 256, "model.heads": 3, "model.kv_heads": 1, "trainer.learning_rate": 1e-6, "sandbox.isolation": "process", "sandbox.agent_uid": "shared", "eval.tasks": f"{folder}/eval.jsonl",
            "eval.every_versions": 10, "rollout.record_alternatives": 3, "scheduler.total_steps": 4000, "agents.recipes": json.dumps([recipe]), "agents.branching.at": 1, "agents.branching.width": 2,
            "rewards.terms": json.dumps(TERMS)}


def case_live(ingot, shots):
    settings = rich_run(ingot.folder)
    with Running(ingot, "live", settings) as run:
        wait_until(lambda: ingot.rows("live") >= 12, "twelve steps", run.process, seconds=900)
        drive("live", run.link, shots, hold=f"{ingot.folder}/hold")
        drive("plain", new_link(ingot, "live"), shots)
    with Served(ingot, "live") as link:
        drive("files", link, shots)


def copy_of_run(run, name, learning_rate):
    """Creates a second run for the index: the first steps of `run`'s record with a different learning rate."""
    copy = run.with_name(name)
    copy.mkdir()
    for file in run.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    record = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines(True)
    (copy / "metrics.jsonl").write_text("".join(record[:len(record) // 2]), encoding="utf-8")
    config = (run / "config.yaml").read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^trainer:\n(?:  .*\n)*?  learning_rate: \S+", lambda found: re.sub(r"\S+$", learning_rate, found[0]), config)
    check(changed != config, "the configuration of the run names no trainer.learning_rate")
    (copy / "config.yaml").write_text(changed, encoding="utf-8")


def many_runs(first, folder):
    """A folder with 200 copies of `first` and with runs that cannot be shown whole, one of which the browser removes."""
    for i in range(200):
        copy_record(first, folder / f"copy-{i:03}")
    copy_record(first, folder / HOSTILE_NAME)
    copy_record(first, folder / "newer")
    (folder / "newer" / "format").write_text("99\n", encoding="utf-8")
    copy_record(first, folder / "incomplete")
    (folder / "incomplete" / "metrics.jsonl").unlink()
    copy_record(first, folder / "broken")
    (folder / "broken" / "config.yaml").write_text("trainer: [", encoding="utf-8")
    shutil.copytree(first, folder / "gone")


def copy_record(run, copy):
    copy.mkdir(parents=True)
    for file in ("config.yaml", "format", "metrics.jsonl"):
        shutil.copy(run / file, copy)
    if (run / "tokenizer").is_dir():
        shutil.copytree(run / "tokenizer", copy / "tokenizer")


def case_index(ingot, shots):
    """Tests the index of the runs in a folder, and of a folder with many runs."""
    code, said = ingot.run("train", {**ingot_runs.SHORT, "run.root": f"{ingot.folder}/runs", "run.name": "first", "eval.tasks": "examples/smoke/eval.jsonl", "eval.every_versions": 2})
    check(code == 0, said)
    copy_of_run(pathlib.Path(ingot.folder, "runs", "first"), "second", "0.25")
    with Served(ingot, "runs") as link:
        drive("index", link, shots)
    many_runs(pathlib.Path(ingot.folder, "runs", "first"), pathlib.Path(ingot.folder, "many"))
    with Served(ingot, "many") as link:
        drive("many", link, shots, hold=f"{ingot.folder}/many/gone")


def case_launched(ingot, shots):
    """The roles as processes of their own: the launcher serves the page, and shows a role that died and came back."""
    settings = {**ingot_runs.launch_settings("launched"), "scheduler.total_steps": 400}
    with Running(ingot, "launched", settings, "launch") as run:
        wait_until(lambda: ingot.rows("launched") >= 4, "four steps", run.process)
        drive("launched", run.link, shots)
        page = page_tests.Page(new_link(ingot, "launched")).open()
        os.kill(ingot_runs.role_process(run.process, "rollout"), signal.SIGKILL)
        wait_until(lambda: "error" in page.json("/api/run")["engines"][0], "a page without its engine", run.process, seconds=60)
        wait_until(lambda: "error" not in page.json("/api/run")["engines"][0], "a page with the engine", run.process, seconds=120)
        run.process.send_signal(signal.SIGTERM)
        check(run.process.wait(120) is not None, "the launcher did not end")


def case_empty(ingot, shots):
    with Running(ingot, "empty", OUTSIDE) as run:
        drive("empty", run.link, shots)


def case_texts(ingot, shots):
    with Running(ingot, "texts", OUTSIDE) as run:
        episodes = {"hostile": hostile_episode(run.gateway), "long": long_episode(run.gateway)}
        drive("texts", run.link, shots, episodes)


CASES = {"index": case_index, "empty": case_empty, "texts": case_texts, "launched": case_launched, "live": case_live}


def install_packages():
    if not all((HERE / "node_modules" / name).exists() for name in ("playwright-core", "axe-core")):
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=HERE, check=True)


def main():
    binary, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    install_packages()
    with tempfile.TemporaryDirectory(prefix="ingot-browser-") as folder:
        shots = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else folder
        os.makedirs(shots, exist_ok=True)
        ingot = ingot_runs.Ingot(binary, source, folder)
        for name in sys.argv[4:] or CASES:
            started = time.monotonic()
            CASES[name](ingot, shots)
            print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    print("passed")


if __name__ == "__main__":
    main()
