#!/usr/bin/env python3
"""Runs that sample through a fake server (tests/engines/fake_server.py): engines_tests.py BINARY SOURCE_DIR CASE.

Its policy is random and its log-probs are made up, so these runs show that the roles work together, not that they learn.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import time

from ingot_runs import check, main, wait_for_rows, wait_until, write_asking_config

STEPS = 6


def settings(ingot, name, engine="vllm"):
    program = pathlib.Path(ingot.source).resolve() / "tests/engines/fake_server.py"
    words = ["FAKE=1", "/usr/bin/env", "python3", str(program), "--dialect", engine, "--port", "${port}", "--model", "${model}",
             "--vocab", "200", "--context", "${context}"]
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


def case_train(ingot):
    """All roles in one process, with SGLang."""
    write_asking_config(ingot)
    code, output = ingot.run("train", settings(ingot, "trained", "sglang"))
    check(code == 0, f"exit code {code}: {output}")
    check("whose control routes run any method" in output, f"agents can reach the server, and nobody says so: {output}")
    check_end(ingot, "trained")


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
    main(case_launch, case_train, case_no_server, case_refused, case_mismatch, case_adapters, case_full, case_check)
