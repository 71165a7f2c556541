#!/usr/bin/env python3
"""The page of real runs in a headless Chromium: run.py BINARY SOURCE_DIR [FOLDER_FOR_SCREENSHOTS].

Needs Node.js, Debian's chromium (`scripts/setup.sh page`) and playwright-core from npm (package-lock.json beside this file).
"""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "app"))
import page_tests  # noqa: E402
import run_tests  # noqa: E402
from run_tests import check, wait_until  # noqa: E402

HOSTILE = ("<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> \x1b[31mred\x1b]0;title\x07 "
           "\u202eevil\u2066 a\u200bb </pre></div><a href='javascript:window.hacked=1'>link</a>")


def post(url, path, body, key=None):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"{}")


def hostile_episode(gateway):
    """Opens an episode from outside, lets it say what must never be interpreted, and ends it; returns its id."""
    url = page_tests.Page(gateway).url
    for _ in range(600):
        status, opened = post(url, "/ingot/v1/episodes", {"metadata": {"note": HOSTILE}})
        if status in (200, 201):
            break
        time.sleep(0.2)
    check(status in (200, 201), f"no episode was opened: {opened}")
    key, episode = opened["api_key"], opened["episode_id"]
    status, said = post(url, "/v1/chat/completions", {"model": "policy", "max_tokens": 8, "messages": [
        {"role": "system", "content": HOSTILE}, {"role": "user", "content": HOSTILE}]}, key)
    check(status == 200, f"a call failed: {said}")
    status, ended = post(url, f"/ingot/v1/episodes/{episode}/end", {"reward": 0.5, "detail": HOSTILE}, key)
    check(status == 200, f"the episode did not end: {ended}")
    return episode


def drive(link, kind, folder, hostile=""):
    argv = ["node", str(HERE / "browser.mjs"), link, kind, folder] + ([hostile] if hostile else [])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, cwd=HERE)
    print(done.stdout + done.stderr, flush=True)
    check(done.returncode == 0, f"the browser found a fault; screenshots: {folder}")


def main():
    binary, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if not (HERE / "node_modules" / "playwright-core").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=HERE, check=True)
    with tempfile.TemporaryDirectory(prefix="ingot-browser-") as folder:
        shots = sys.argv[3] if len(sys.argv) > 3 else folder
        os.makedirs(shots, exist_ok=True)
        ingot = run_tests.Ingot(binary, source, folder)
        process, _, link = page_tests.start(ingot, "live", {"scheduler.total_steps": 4000, "eval.tasks": "examples/smoke/eval.jsonl",
                                                            "eval.every_versions": 10})
        try:
            wait_until(lambda: ingot.rows("live") >= 5, "five steps", process)
            drive(link, "live", shots)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        served = subprocess.Popen([binary, "view", f"{folder}/live", "--files"], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        try:
            drive(page_tests.line_with(served, r"^(http\S+)", []), "files", shots)
        finally:
            served.send_signal(signal.SIGINT)
            served.wait(30)
        process, gateway, link = page_tests.start(ingot, "hostile", {"agents.recipes": "[]", "model.context_length": 2048, "scheduler.group_size": 1})
        try:
            episode = hostile_episode(gateway)
            drive(link, "hostile", shots, episode)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
    print("passed")


if __name__ == "__main__":
    main()
