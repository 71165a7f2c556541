#!/usr/bin/env python3
"""Runs whose roles are processes of their own: launch_tests.py BINARY SOURCE_DIR CASE [--roles ROLES].

Cases: launch (roles are restarted, and refuse strangers), launch_stop (Ctrl-C), launch_kill (each role of ROLES is killed,
and those joined by + at once), launch_shared (trainer and engine take turns, and each is killed), launch_dies (the launcher is
killed at random moments, and all its processes end with it).
"""
import ctypes
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

from ingot_runs import (check, finish_launched, launch_settings, main, role_process, scrape, wait_for_rows,
                        write_asking_config, write_secret)


def check_simulate(ingot, name, groups_per_step, group_size, max_staleness):
    """`ingot simulate` on a recorded run takes its durations and its scheduler's keys; given options go before those."""
    folder = f"{ingot.folder}/{name}"

    def simulate(*argv):
        done = ingot.call("simulate", *argv, timeout=120)
        return done.returncode, done.stdout, done.stderr

    code, output, _ = simulate("--from", folder, "--workers", "3", "--steps", "40")
    head, _, *lines = output.splitlines()
    check(code == 0 and head == f"40 steps of {groups_per_step} groups of {group_size}, 3 workers, S {max_staleness}, seed 0"
          and [line.split()[0] for line in lines] == ["strict", "windowed", "greedy"], f"simulate: {code}: {output}")
    code, output, _ = simulate("--from", folder, "--max-staleness", "5", "--group-size", "3", "--order", "greedy")
    check(code == 0 and f" of {groups_per_step} groups of 3, " in output and ", S 5, " in output and "greedy" in output
          and "strict" not in output, f"given options: {code}: {output}")
    asked = ("--from", folder, "--json", "--workers", "1", "--steps", "100", "--step-s", "0.001", "--publish-s", "0")
    code, output, _ = simulate(*asked)
    rows = [json.loads(line) for line in output.splitlines()]
    check(code == 0 and [row["order"] for row in rows] == ["strict", "windowed", "greedy"], f"--json: {code}: {output}")
    check(simulate(*asked)[1] == output, "equal options gave other figures")
    check(simulate(*asked, "--seed", "2")[1] != output, "another seed gave equal figures")
    episodes = [json.loads(line)["episode"] for line in ingot.inspect(name, "--json", "--limit", "0").splitlines()]
    times = [(int(one["endedUnixNs"]) - int(one["openedUnixNs"])) * 1e-9 for one in episodes
             if one["state"] == "EPISODE_FINISHED" and "purpose" not in one]
    for row in rows:  # one worker without a pause
        check(sum(row["ages"]) == row["groups"] == 100 * groups_per_step, f"the groups: {row}")
        check(min(times) < 3600 / row["episodes_per_hour"] < max(times), f"seconds {min(times)} to {max(times)}: {row}")
    for argv, word in ((("--from", f"{folder}/logs"), "is not a run folder"),
                       (("--from", folder, "--durations", "constant:1"), "--durations")):
        code, output, fault = simulate(*argv)
        check(code == 2 and output == "" and word in fault and fault.count("\n") == 1, f"{argv}: {code}: {output}{fault}")


def case_launch(ingot):
    """A restarted role uses the run's own configuration, even if the file that it came from has changed. A role that
    got SIGTERM from outside, while the run goes on, is restarted too. The reward stage is a role of its own, behind the
    run's token as all are."""
    config = pathlib.Path(ingot.folder) / "launched.yaml"
    config.write_text((pathlib.Path(ingot.source) / ingot.config).read_text())
    ingot.config = str(config)
    steps = 24  # more than the 4 behind which roles end
    settings = launch_settings("launched", **{"scheduler.total_steps": steps, "scheduler.group_deadline_s": 600,
                                              "cluster.rewards_role": "true",
                                              "rewards.terms": "[{kind: outcome}, {kind: length, weight: 0.2}]"})
    launch = ingot.start("launch", settings)
    wait_for_rows(ingot, launch, "launched", 2)
    port = int((pathlib.Path(ingot.folder) / "launched/gateway_port").read_text())
    agents = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    agents.request("POST", "/ingot/v1/episodes", json.dumps({"scaffold": "an agent's own"}))
    answer = agents.getresponse()
    check(answer.status == 401, f"an agent opened an episode of its own: {answer.status} {answer.read()}")
    answer.read()
    agents.request("GET", "/metrics")
    check(agents.getresponse().status == 404, "agents see metrics")
    for process, metric in (("gateway", "ingot_gateway_calls_total"), ("trainer", "ingot_reward_mean"),
                            ("agents", "agents_opened"), ("scheduler", "scheduler_"), ("rollout-0", ""), ("datapool", ""),
                            ("rewards", "")):
        check(metric in scrape(f"{ingot.folder}/launched", process), f"{process} does not show {metric}")
    gateway = pathlib.Path(f"/proc/{role_process(launch, 'gateway')}")
    check(os.readlink(gateway / "fd/0") == "/dev/null", f"the token's descriptor is {os.readlink(gateway / 'fd/0')}")
    check(os.getuid() == 0 or (gateway / "environ").stat().st_uid == 0, "the gateway's memory is open to its user")
    answer = ingot.ask("status", settings)
    check(answer.returncode == 0, f"ingot status: {answer}")
    # Behind them may stand roles that only wait: on a busy machine the trainer, for its batch.
    check([line.split()[0] for line in answer.stdout.splitlines()][:5] ==
          ["datapool", "rewards", "scheduler", "rollout-0", "gateway"], f"ingot status: {answer.stdout}")
    check(re.search(r"^rewards .* [1-9]\d* groups scored", answer.stdout, re.M), f"ingot status: {answer.stdout}")
    for role in ("trainer", "agents"):
        check(re.search(rf"^{role} +- +runs", answer.stdout, re.M), f"ingot status: {answer.stdout}")
    states = {one["name"]: one for one in json.loads(ingot.call(*ingot.argv("status", settings)[1:], "--json").stdout)}
    for role in ("trainer", "agents", "gateway"):
        process = role_process(launch, role)
        check(states[role].get("pid") == process, f"ingot status --json: process {process}: {states}")
        check(str(process) not in answer.stdout, f"process {process} in ingot status: {answer.stdout}")
    alone = ingot.ask("datapool", {"run.name": "launched"})
    check(alone.returncode == 2 and "cluster.token_file" in alone.stderr, f"a role without a token: {alone}")
    rejected = ingot.ask("status", {**settings, "cluster.token_file": write_secret(ingot, "stranger")})
    check(rejected.returncode == 1 and rejected.stdout.count("rejects this process") == 5, f"another token: {rejected}")
    config.write_text("run: {name: the next experiment}\n")
    for role in ("scheduler", "rewards"):
        os.kill(role_process(launch, role), signal.SIGKILL)
    wait_for_rows(ingot, launch, "launched", 4)
    for role in ("gateway", "trainer"):
        os.kill(role_process(launch, role), signal.SIGTERM)
    output, rows = finish_launched(ingot, launch, "launched", steps)
    print(output)
    check(re.search(r"`ingot status \S+ .*--set run.name=launched\b.*` prints their state", output), f"no command: {output}")
    check(all("reward/term/length" in row for row in rows), "a group was not judged by the stage")
    rewarded = [record["rewarded"].get("groupId", "0") for record in ingot.journal("launched") if "rewarded" in record]
    check(len(rewarded) == len(set(rewarded)), f"groups rewarded twice: {rewarded}")
    for role in ("scheduler", "rewards", "gateway", "trainer"):
        check(f"{role} started again (1 of" in output, f"{role} was not started again: {output}")
    check_simulate(ingot, "launched", groups_per_step=2, group_size=4, max_staleness=1)


def case_launch_stop(ingot):
    """Ctrl-C stops the roles of a launched run in order: agents run their clean-up, and the trained weights are saved
    though no checkpoint was due."""
    clean = pathlib.Path(ingot.folder) / "clean"
    folder = write_asking_config(ingot, [{"command": ["/bin/sh", "-c", f"echo clean >> {clean}"]}])
    settings = {"run.name": "stopped", "scheduler.total_steps": 1000, "scheduler.drop_zero_variance": "false",
                "trainer.checkpoint_every": 0}
    launch = ingot.start("launch", settings, start_new_session=True)
    wait_for_rows(ingot, launch, "stopped", 2)
    os.killpg(launch.pid, signal.SIGINT)  # to every process of the command, as a terminal does
    output, _ = launch.communicate(timeout=180)
    check(launch.returncode == 130 and "stopping all roles" in output, f"exit code {launch.returncode}: {output}")
    begun, clean = ((folder / name).read_text().count("\n") for name in ("begun", "clean"))
    check(begun <= clean, f"{begun} agents began, and {clean} were cleaned up after")
    last = max(row["version"] for row in ingot.metrics("stopped"))
    kept = [path.name for path in (folder / "stopped" / "checkpoints").iterdir()]
    check(f"step-{last:08d}" in kept, f"trained to version {last}, and kept {kept}")
    journalled = [int(record["checkpoint"].get("step", 0)) for record in ingot.journal("stopped")
                  if "checkpoint" in record]
    check(journalled[-1] == last, f"checkpoints in the journal: {journalled}")


def check_no_rerun(ingot, name):
    """No sample has an attempt behind a finished one, and the gateway gave up nothing that it tried again and again."""
    done = set()
    for line in ingot.inspect(name, "--limit", "0").splitlines()[1:]:
        words = line.split()
        if len(words) < 6 or words[1] != "train":
            continue
        sample = (words[2], words[3])
        check(sample not in done, f"a finished episode was run again: {line}")
        if words[5].lower().endswith("finished"):
            done.add(sample)
    check(done, "no finished episode is listed")
    log = pathlib.Path(f"{ingot.folder}/{name}/logs/gateway.log").read_text()
    check(log.count("could not be ended") <= 3, f"the gateway tries in vain: {log[-2000:]}")


def case_launch_kill(ingot, roles="datapool,scheduler,rollout,gateway,agents,trainer,gateway+scheduler"):
    """kill -9 of each role of a launched run in turn, and of two at once: they are restarted, and the run finishes."""
    for together in roles.split(","):
        name = together.replace("+", "_")
        settings = launch_settings(name, **{"scheduler.total_steps": 24, "scheduler.group_deadline_s": 600})
        launch = ingot.start("launch", settings)
        wait_for_rows(ingot, launch, name, 4)
        for process in [role_process(launch, role) for role in together.split("+")]:
            os.kill(process, signal.SIGKILL)
        output, _ = finish_launched(ingot, launch, name, 24)
        for role in together.split("+"):
            check(f"{role}" in output and "started again (1 of" in output, f"{role} was not started again: {output}")
        check_no_rerun(ingot, name)
        print(f"{together}: killed, started again, finished", flush=True)


def case_launch_shared(ingot):
    """Trainer and engine take turns (cluster.placement: shared), and each is killed with -9 several times, during a step or
    not: the run finishes, no step's probe differs, and an engine that a killed trainer left parked goes on."""
    settings = launch_settings("shared", **{"scheduler.total_steps": 24, "scheduler.group_deadline_s": 600,
                                            "scheduler.max_staleness": 0, "cluster.placement": "shared",
                                            "cluster.max_restarts": 9})
    launch = ingot.start("launch", settings)
    rng = random.Random(3)
    for row, role in enumerate(("rollout", "trainer", "rollout", "trainer"), start=1):
        wait_for_rows(ingot, launch, "shared", 3 * row)
        time.sleep(rng.uniform(0, 0.3))
        os.kill(role_process(launch, role), signal.SIGKILL)
    output, rows = finish_launched(ingot, launch, "shared", 24)
    steps = [row for row in rows if "perf/switch_to_train_ms" in row]
    check(len(steps) >= 20, f"the device was not taken: {rows[-1]}")
    check(max(row["perf/switch_to_train_ms"] for row in steps[-5:]) < 10_000, f"slow switches: {steps[-5:]}")
    check(all(row.get("mismatch/logprob_abs_diff_max", 0) < 1e-3 for row in rows), "a probe differs")
    print(f"killed twice each; switches {[round(row['perf/switch_to_train_ms']) for row in steps]} ms")


def seconds_until_all_ended():
    """Reaps the descendants that were left to this process. Fails if one of them still lives after 20 s."""
    start = time.monotonic()
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return time.monotonic() - start
        if pid == 0:
            left = [pathlib.Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                    for task in pathlib.Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()]
            check(time.monotonic() - start < 20, f"still there 20 s after their launcher's death: {left}")
            time.sleep(0.005)


def case_launch_dies(ingot, kills=24, seed=1):
    """kill -9 of the launcher while its roles are loaded, start, train, are started again, or are stopped."""
    PR_SET_CHILD_SUBREAPER = 36
    check(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "orphans do not come to this process")
    write_asking_config(ingot)
    rng = random.Random(seed)
    settings = {"run.name": "dies", "scheduler.total_steps": 1000}
    slowest, start = 0, None
    for kill in range(kills):
        shutil.rmtree(f"{ingot.folder}/dies", ignore_errors=True)
        began = time.monotonic()
        launch = ingot.start("launch", settings, output=subprocess.DEVNULL)
        kind = ("starts", "trains", "restarts", "stops")[kill % 4] if start else "trains"
        if kind == "starts":
            time.sleep(rng.uniform(0, start))
        else:
            wait_for_rows(ingot, launch, "dies", 1)
            start = start or time.monotonic() - began
        if kind == "restarts":
            os.kill(role_process(launch, rng.choice(("trainer", "gateway", "rollout-0"))), signal.SIGKILL)
        if kind == "stops":
            launch.send_signal(signal.SIGINT)
        if kind in ("restarts", "stops"):
            time.sleep(rng.uniform(0, 2))
        launch.kill()
        launch.wait()
        took = seconds_until_all_ended()
        slowest = max(slowest, took)
        print(f"{kill}: killed while it {kind}; the last process ended {took:.2f} s later", flush=True)
    print(f"the slowest of {kills}: {slowest:.2f} s")
    check(slowest < 5, f"a process lived on for {slowest:.1f} s")


if __name__ == "__main__":
    main(case_launch, case_launch_stop, case_launch_kill, case_launch_shared, case_launch_dies)
