#!/usr/bin/env python3
"""Runs that end in their middle and go on from their files: resume_tests.py BINARY SOURCE_DIR CASE [--kills N] [--seed S].

Cases: kill (kill -9 at random moments), stop (Ctrl-C), same (what a resumed run samples, with and without a draft head), replace
(starts that fail), replace_jobs (submissions that fail), replace_node (a node's start that fails), damage (a flipped bit in the pool's
files, and files that are gone), postgres (the same over a pool in PostgreSQL, which crashes too).
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time

from ingot_runs import (SHORT, check, check_run, compare_steps, launch_settings, main, wait_for_rows, wait_until,
                        write_asking_config, write_secret, write_text_reward_config)
from postgres_server import PostgresServer


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def case_kill(ingot, kills=3, seed=1):
    """kill -9 at random moments, each followed by --resume; after so many `kills` the run must finish."""
    rng = random.Random(seed)
    steps = 40
    settings = dict(SHORT, **{"run.name": "kill", "scheduler.total_steps": steps})
    started = time.time()
    code, output = ingot.run("train", dict(settings, **{"run.name": "whole"}))
    check(code == 0, output)
    whole = time.time() - started
    check_run(ingot, "whole", steps)
    killed, extra, batches, trained, retaken = 0, (), {}, {}, 0
    while killed < kills:
        process = ingot.start("train", settings, extra)
        wait = (rng.uniform(0.08, 0.5) if extra else rng.uniform(0.3, 0.95)) * whole
        try:
            process.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            pass
        if process.poll() is not None and process.returncode == 0:
            # It finished before the kill: begin again; earlier checks stand.
            process.stdout.close()
            check_run(ingot, "kill", steps)
            shutil.rmtree(f"{ingot.folder}/kill")
            extra, batches, trained = (), {}, {}
            continue
        if process.poll() is not None:
            check(False, f"it ended by itself: {process.stdout.read()}")
        kill(process)
        killed += 1
        extra = ("--resume",)
        # Batches that were journalled before the kill do not change. A step that is taken again from a checkpoint has
        # the same result, to the bit: the checkpoint holds exactly the batches below it.
        if os.path.exists(f"{ingot.folder}/kill/pool") and os.path.exists(f"{ingot.folder}/kill/config.yaml"):
            now = {int(r["batch"].get("step", 0)): r["batch"]["groupIds"] for r in ingot.journal("kill") if "batch" in r}
            for step, groups in batches.items():
                check(now.get(step) == groups, f"batch {step} changed after a kill")
            batches = now
            retaken += compare_steps(trained, ingot.steps_trained("kill"))
        print(f"killed {killed} of {kills}, {wait:.1f} s after its start (a whole run: {whole:.1f} s); batches "
              f"journalled: {len(batches)}", flush=True)
    code, output = ingot.run("train", settings, extra)
    check(code == 0, output)
    check_run(ingot, "kill", steps)
    retaken += compare_steps(trained, ingot.steps_trained("kill"))
    print(f"{retaken} steps were taken again, with equal loss and gradient")
    code, output = ingot.run("train", dict(settings, **{"model.intermediate_size": 648}), ("--resume",))
    check(code != 0 and "different model" in output and "mlp" in output, f"another model's checkpoint: {code} {output}")


def case_stop(ingot):
    """Ctrl-C saves the trained weights, though no checkpoint was due, and the run continues from there unchanged. The
    record has every version's evaluation once, with both sets of held-out tasks, wherever the run was stopped or killed."""
    folder = write_asking_config(ingot)
    for name in ("one", "two"):
        (folder / f"{name}.jsonl").write_text("{\"task_id\": \"a\"}\n")
    held_out = f"{{one: {folder}/one.jsonl, two: {folder}/two.jsonl}}"
    settings = {"run.name": "s", "scheduler.total_steps": 12, "scheduler.drop_zero_variance": "false",
                "trainer.checkpoint_every": 0, "eval.tasks": held_out, "eval.every_versions": 2, "eval.keep_best": "true",
                "scheduler.max_active_evals": 20, "rollout.max_retained_versions": 20}

    def end_after(rows, end, extra=()):
        process = ingot.start("train", settings, extra)
        wait_for_rows(ingot, process, "s", rows)
        process.send_signal(end)
        return process.communicate(timeout=180)[0], process.returncode

    output, code = end_after(5, signal.SIGINT)
    check(code == 130 and "the run was stopped; saved step " in output, f"exit code {code}: {output}")
    again = output.split("; `")[-1].split("` continues")[0]
    check(again.startswith("ingot train ") and "--set run.name=s " in again and again.endswith(" --resume"), output)
    reported = ingot.ask("status", settings).stderr
    check(f"no process holds {ingot.folder}/s; `{again}` continues the run" in reported, reported)
    version = 1 + max(row["step"] for row in ingot.metrics("s") if "reward/mean" in row)
    latest = max(path.name for path in (folder / "s/checkpoints").iterdir())
    check(latest == f"step-{version:08d}", f"{latest} was saved of version {version}")
    kept = (folder / "s/config.yaml").read_text()
    code, output = ingot.run("train", {**settings, "scheduler.group_size": 2}, ["--resume"])
    check(code == 2 and "scheduler.group_size is 2" in output, f"another group size: {code} {output}")
    check((folder / "s/config.yaml").read_text() == kept, "a refused resume changed the run's configuration")
    output, code = end_after(len(ingot.metrics("s")) + 4, signal.SIGKILL, ["--resume"])
    check(code == -signal.SIGKILL, f"exit code {code}: {output}")
    code, output = ingot.run("train", {**settings, "trainer.learning_rate": 1e-3}, ["--resume"])
    check(code == 0 and f"resuming from {folder}/s/checkpoints/{latest}" in output, f"exit code {code}: {output}")
    check("changed since the run stopped: trainer.learning_rate (0.003 -> 0.001)" in output, output)
    rows = ingot.metrics("s")
    steps = [row["step"] for row in rows if "reward/mean" in row]
    check(steps == list(range(12)), f"steps in the record: {steps}")
    evaluated = sorted(row["eval/version"] for row in rows if "eval/version" in row)
    check(evaluated == [0, 2, 4, 6, 8, 10, 12], f"evaluations in the record: {evaluated}")
    # Each has the episode of either set once, and the mean of the sets is the whole's.
    for row in (row for row in rows if "eval/version" in row):
        check((row["eval/episodes@set:one"], row["eval/episodes@set:two"], row["eval/episodes"]) == (1, 1, 2), row)
        mean = (row["eval/reward_mean@set:one"] + row["eval/reward_mean@set:two"]) / 2
        check(abs(mean - row["eval/reward_mean"]) < 1e-9, row)
    check_best(ingot, folder / "s/checkpoints", max(row["eval/reward_mean"] for row in rows if "eval/version" in row))


def case_same(ingot):
    """With S 0, a run that ended, or was killed amid its episodes, and went on has the checkpoints of one that did not end, also
    with a draft head."""
    folder = write_text_reward_config(ingot, agent_seconds=0.5)
    settings = {"scheduler.total_steps": 4, "scheduler.groups_per_step": 1, "scheduler.group_size": 8, "scheduler.max_staleness": 0,
                "scheduler.drop_zero_variance": "false", "trainer.checkpoint_every": 1, "trainer.keep_checkpoints": 100,
                "gateway.max_new_tokens": 40, "gateway.train_sampling.temperature": 0.3,
                # Otherwise, a step's learning rate depends on scheduler.total_steps.
                "trainer.decay": "constant", "trainer.warmup_steps": 0}
    off = {**settings, "rollout.speculation.drafters": "[]"}
    on = {**settings, "draft.enabled": "true", "draft.publish_every": 1, "draft.learning_rate": 1e-2, "draft.shadow": "true",
          "rollout.speculation.drafters": "[mtp]", "rollout.speculation.min_gain": -1}

    def run(name, with_settings, extra=()):
        code, output = ingot.run("train", {**with_settings, "run.name": name}, extra, timeout=240)
        check(code == 0, output)

    def checksums(name):
        states = sorted((folder / name / "checkpoints").glob("step-*/state.json"))
        return [json.loads(state.read_text(encoding="utf-8"))["weights_checksum"] for state in states]

    def sampled(name):
        """Seeds and ids of all attempts, by group, sample, and attempt."""
        found = {}
        for episode in ingot.inspect(name, "--limit", "0", "--json").splitlines():
            ref = json.loads(episode)["episode"].get("ref", {})
            place = [int(ref.get(key, 0)) for key in ("groupId", "sampleIndex", "attempt")]
            calls = json.loads(episode).get("calls", [])
            found[tuple(place)] = [(call["sampling"]["seed"], call.get("sampledKeys")) for call in calls]
        return found

    run("whole", off)
    whole = checksums("whole")
    check(len(whole) == 5 and len(set(whole)) > 2, f"steps changed nothing: {whole}")
    for name, own in (("off", off), ("on", on)):
        run(name, {**own, "scheduler.total_steps": 2})
        run(name, own, ["--resume"])
        check(checksums(name) == whole, f"{name}: {checksums(name)}, {whole}")
        check_killed(ingot, folder, {**own, "run.name": f"killed-{name}"}, whole, sampled, checksums)


def check_killed(ingot, folder, settings, whole, sampled, checksums):
    name, asked = settings["run.name"], folder / "begun"
    asked.unlink()
    process = ingot.start("train", settings)
    wait_for_rows(ingot, process, name, 2)
    wait_until(lambda: asked.read_text().count("begun") > 2 * 8, "an agent of the third step", process)
    kill(process)
    code, output = ingot.run("train", settings, ["--resume"], timeout=240)
    check(code == 0, output)
    check(checksums(name) == whole, f"{name}: {checksums(name)}, {whole}")
    before, after = sampled("whole"), sampled(name)
    again = {place[:2] for place in after if place[2] > 0}
    check(again and all(group == 2 for group, _ in again), f"sampled anew: {again}")
    for place, calls in before.items():
        place = (*place[:2], 1) if place[:2] in again else place
        check(after[place] == calls, f"{place}: {after[place]} is not {calls}")


def check_best(ingot, checkpoints, reward):
    """The kept model has at least this reward, is a whole model without an optimizer, and nothing else is left of others."""
    best = json.loads((checkpoints / "best/best.json").read_text())
    check(best["version"] in range(0, 13, 2) and best["reward_mean"] >= reward and best["episodes"] == 2, best)
    files = {path.name for path in (checkpoints / "best").iterdir()}
    check({"config.json", "model.safetensors", "tokenizer.json"} <= files and "optimizer.safetensors" not in files, files)
    others = {path.name for path in checkpoints.iterdir() if not path.name.startswith("step-")}
    check(others == {"best"}, others)
    done = ingot.call("model", "info", "--model", checkpoints / "best")
    check(done.returncode == 0, done)
    check_damaged_model(ingot, checkpoints / "best", "checksums.json")
    check_damaged_model(ingot, max(checkpoints.glob("step-*")), "state.json")


def check_damaged_model(ingot, folder, record):
    """Every command that loads the folder refuses one flipped bit of its weights, and says what to do."""
    weights = folder / "model.safetensors"
    size, out = weights.stat().st_size, f"{ingot.folder}/out"
    asking = ingot.argv(["eval", folder], {"run.name": "damaged", "eval.tasks": f"{ingot.folder}/one.jsonl"})[1:]
    training = ingot.argv("train", {**SHORT, "run.name": "damaged", "model.path": folder})[1:]
    flip_bit(weights, size - 3)
    for words in (["serve", folder, "--port", "0"], asking, training, ["model", "export", "--model", folder, out],
                  ["model", "merge", "--model", folder, "--with", folder, out]):
        done = ingot.call(*words)
        said = f"{weights} is damaged: its checksum (XXH3) is "
        check(done.returncode == 1 and said in done.stderr and f"remove {record}" in done.stderr, f"{words}: {done}")
    flip_bit(weights, size - 3)
    done = ingot.call("model", "export", "--model", folder, out)
    check(done.returncode == 0, done)
    shutil.rmtree(out)


def case_replace(ingot):
    """With run.if_exists: replace a start that fails leaves the run as it was, and one that succeeds replaces it."""
    folder = pathlib.Path(f"{ingot.folder}/r")
    settings = {**SHORT, "run.name": "r", "sft.max_steps": 4, "scheduler.total_steps": 2, "trainer.checkpoint_every": 1,
                "run.if_exists": "replace"}

    def files():
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    code, output = ingot.run("train", settings)
    check(code == 0 and "replacing" not in output, f"exit code {code}: {output}")
    before = files()
    check(any(name.startswith("checkpoints/step-00000002/") for name in before) and any(name.startswith("pool/") for name in before),
          f"the run has {sorted(before)}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        etcd = {"cluster.registry.kind": "etcd", "cluster.registry.endpoints": f"['127.0.0.1:{port}']"}
        kept = f"{folder} is as it was"
        for command, faults, words in (("train", {"http.port": port}, [str(port), kept]),
                                       ("train", {"http.dashboard_port": port}, [str(port), kept]),
                                       ("launch", etcd, ["no member answered", kept]),
                                       ("launch", {"rollout.kv_cache_tokens": 1 << 30}, ["does not have enough memory", kept])):
            code, output = ingot.run(command, {**settings, **faults})
            check(code != 0 and all(word in output for word in words), f"exit code {code}: {output}")
            now = files()
            check(any(name.startswith("logs/failed-start/") for name in now), f"no logs of {command} with {faults}")
            changed = sorted(name for name in before.keys() | now.keys()
                             if before.get(name) != now.get(name) and not name.startswith("logs/failed-start/"))
            check(not changed, f"{command} with {faults} failed, and changed {changed}")
    for command, steps in (("train", 1), ("launch", 3)):
        code, output = ingot.run(command, {**settings, "scheduler.total_steps": steps})
        check(code == 0 and re.search(rf"replacing {folder} \(\d steps?, of \d{{4}}-", output), f"exit code {code}: {output}")
        check_run(ingot, "r", steps)
        left = [path.name for path in folder.iterdir() if path.name.startswith(".ingot-")]
        check(not left, f"{command} has left {left}")
        reported = ingot.ask("status", settings).stderr
        check(f"the run 'r' ended at step {steps} of {steps}" in reported, reported)


# Posed programs of Slurm and Kubernetes, in a folder with a file `mode`: refuse; lose (the job is taken, and the answer lost);
# accept (and the job is over at once). While `taken` is there, so is a job.
SUBMIT = """ls -A {run} > {bin}/seen
case $(cat {bin}/mode) in
refuse) echo "no such partition" >&2; exit 1 ;;
lose) touch {bin}/taken; echo "timed out" >&2; exit 1 ;;
esac
"""
SBATCH = "#!/bin/sh\n" + SUBMIT + """echo 0 > {run}/launch.exit
echo 7
"""
SQUEUE = """#!/bin/sh
[ ! -e {bin}/taken ] || echo "7|PENDING|Resources|{run}/launch.sbatch"
"""
KUBECTL = """#!/bin/sh
case "$*" in
*" apply "*) """ + SUBMIT + """;;
*" get job "*) echo "Complete=True" ;;
*" get configmaps,jobs,pods "*) [ ! -e {bin}/taken ] || echo "pod/ingot-j-control-0" ;;
esac
"""


def pose_schedulers(ingot, run):
    """Programs on the path that answer for Slurm and Kubernetes; returns their folder."""
    folder = pathlib.Path(ingot.folder) / "bin"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("kubectl", KUBECTL)):
        (folder / name).write_text(text.replace("{bin}", str(folder)).replace("{run}", str(run)))
        (folder / name).chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_old_run(folder):
    """Files that count as a run; returns their contents."""
    for name in ("config.yaml", "metrics.jsonl", "checkpoints/step-00000002/weights", "pool/table", "logs/trainer.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} of the old run")
    for name in ("lock", "launch.lock"):
        (folder / name).touch()
    return contents(folder)


def case_replace_jobs(ingot):
    """A job of Slurm or Kubernetes replaces a run once it was accepted. A refused one leaves the run as it was, byte for byte."""
    run = pathlib.Path(ingot.folder) / "j"
    programs = pose_schedulers(ingot, run)
    groups = [{"name": "control", "roles": ["datapool", "scheduler", "rollout", "gateway", "trainer", "agents"],
               "resources": {"cpu": "4", "memory": "16Gi"}}]
    common = {**SHORT, "run.name": "j", "run.if_exists": "replace", "cluster.groups": json.dumps(groups),
              "cluster.token_file": write_secret(ingot, "token")}
    slurm = {**common, "cluster.launcher": "slurm"}
    kubernetes = {**common, "cluster.launcher": "kubernetes", "cluster.tls.allow_plaintext": "true",
                  "cluster.registry.kind": "etcd", "cluster.registry.endpoints": "['127.0.0.1:1']",
                  "cluster.kubernetes.image": "ingot:1", "cluster.kubernetes.volume_claim": "runs",
                  "cluster.kubernetes.token_secret": "token"}

    def launch(settings, mode):
        (programs / "mode").write_text(mode)
        code, output = ingot.run("launch", settings, timeout=120)
        seen = (programs / "seen").read_text().split()
        check(".ingot-submitted" in seen and "config.yaml" in seen and "metrics.jsonl" not in seen, f"{mode}: {seen}: {output}")
        return code, output

    for settings in (slurm, kubernetes):
        before = write_old_run(run)
        code, output = launch(settings, "refuse")
        check(code == 1 and "no such partition" in output and f"{run} is as it was" in output, f"{code}: {output}")
        check(contents(run) == before, f"a refused job changed the run: {sorted(contents(run))}")
        code, output = launch(settings, "lose")
        check(code == 1 and f"kept in {run}/.ingot-submitted" in output, f"{code}: {output}")
        check((run / ".ingot-submitted/metrics.jsonl").is_file() and (run / "config.yaml").is_file(), str(sorted(contents(run))))
        code, output = ingot.run("launch", settings, timeout=120)
        check(code == 1 and "is already launched" in output, f"{code}: {output}")
        code, output = ingot.run("train", {**SHORT, "run.name": "j"}, ("--resume",), timeout=120)
        check(code == 1 and f"kept in {run}/.ingot-submitted" in output, f"a job's run was taken: {code}: {output}")
        (programs / "taken").unlink()
        code, output = launch(settings, "refuse")
        check(code == 1 and "the old run is back in place" in output, f"{code}: {output}")
        check(contents(run) == before, f"a job that never began changed the run: {sorted(contents(run))}")
        code, output = launch(settings, "accept")
        check(code == 0 and "submitted" in output, f"{code}: {output}")
        now = contents(run)
        check(not any(name.startswith((".ingot-", "checkpoints/", "pool/", "metrics.jsonl")) for name in now), f"left: {sorted(now)}")
        check(b"of the old run" not in now["config.yaml"], "the new run has no configuration of its own")
        shutil.rmtree(run)


def case_replace_node(ingot):
    """The node that drives a run puts the replaced run back after a start that failed, but not beside other nodes."""
    run = pathlib.Path(ingot.folder) / "n"
    before = write_old_run(run)
    alone = [{"name": "control", "roles": ["datapool", "scheduler", "rollout", "gateway", "trainer", "agents"]}]
    beside = [*alone, {"name": "engines", "roles": ["rollout"]}]

    def start(groups):
        code, output = ingot.run("node", {
            **SHORT, "run.name": "n", "run.if_exists": "replace", "cluster.groups": json.dumps(groups), "rollout.kv_cache_tokens": 1 << 30,
            "cluster.rollout_engines": len(groups), "cluster.token_file": write_secret(ingot, "token")}, ("--group", "control"), timeout=120)
        check(code == 1 and "does not have enough memory" in output, f"{code}: {output}")
        return output

    output = start(beside)
    check(f"kept in {run}/.ingot-replaced" in output, output)
    aside = contents(run / ".ingot-replaced")
    check(aside == {name: data for name, data in before.items() if not name.endswith("lock")}, f"set aside: {sorted(aside)}")
    output = start(alone)
    check("the old run is back in place" in output and f"{run} is as it was" in output, output)
    now = {name: data for name, data in contents(run).items() if not name.startswith("logs/failed-start/")}
    check(now == before, f"a start that failed changed the run: {sorted(now)}")


def flip_bit(path, byte):
    data = bytearray(path.read_bytes())
    data[byte % len(data)] ^= 4
    path.write_bytes(data)


def copy_run(ingot, name, copy):
    shutil.copytree(f"{ingot.folder}/{name}", f"{ingot.folder}/{copy}", ignore=shutil.ignore_patterns("sockets"))


def case_damage(ingot):
    """One flipped bit in each kind of the pool's files. The error says how the run goes on; who follows it word for word
    gets the whole run."""
    steps = 14
    write_asking_config(ingot, agent_seconds=0.2)  # so that the run goes on while it is looked at, however quick the machine
    settings = {"run.name": "killed", "scheduler.total_steps": steps, "trainer.checkpoint_every": 2}
    for extra in ((), ("--resume",)):  # twice, so that records are in tables and in the log
        rows = ingot.rows("killed") + 3
        process = ingot.start("train", settings, extra)
        wait_for_rows(ingot, process, "killed", rows)
        seen = ingot.inspect("killed", "--limit", "0")  # beside the run, which holds the pool
        check(" train " in seen, f"inspect beside the run: {seen}")
        kill(process)
    write_asking_config(ingot, agent_seconds=0)
    for kind, byte in (("CURRENT", 3), ("MANIFEST-*", 20), ("*.log", -1), ("*.sst", 10)):
        name = "damaged-" + kind.strip("-*.").lower()
        copy_run(ingot, "killed", name)
        files = list(pathlib.Path(f"{ingot.folder}/{name}/pool/shard-0").glob(kind))
        check(files, f"there is no {kind}")
        for path in files:
            if path.stat().st_size > 0:
                flip_bit(path, byte if byte >= 0 else path.stat().st_size // 3)
        now = dict(settings, **{"run.name": name})
        code, output = ingot.run("train", now, ("--resume",))
        check(code != 0 and "is damaged" in output, f"{kind}: {code} {output}")
        said = re.search(r"with an empty pool: (mv \S+ \S+), then start the run again with --resume", output)
        check(said is not None, f"{kind}: it does not say how to go on: {output}")
        subprocess.run(said.group(1), shell=True, check=True, cwd=ingot.source)
        code, output = ingot.run("train", now, ("--resume",))
        check(code == 0, f"{kind}: {said.group(1)}, --resume: {output}")
        rows = [row for row in ingot.metrics(name) if "reward/mean" in row]
        check([row["step"] for row in rows] == list(range(steps)), f"{kind}: steps {[row['step'] for row in rows]}")
        journal = ingot.journal(name)
        begun = journal[0]["begun"]
        check(f"continues from checkpoint {begun['step']} with an empty journal" in output, f"{kind}: {output}")
        batches = [record["batch"] for record in journal if "batch" in record]
        check([int(b["step"]) for b in batches] == list(range(int(begun["step"]), steps)), f"{kind}: {batches}")
        groups = [int(group) for batch in batches for group in batch["groupIds"]]
        check(min(groups) >= int(begun["group"]) >= 2 * int(begun["step"]), f"{kind}: groups {groups}, {begun}")
        check([row["version"] for row in rows] == list(range(1, steps + 1)), f"{kind}: {[r['version'] for r in rows]}")
        print(f"{kind}: damaged, went on from checkpoint {begun['step']} at group {begun['group']}", flush=True)
    # Files of the run's folder that are gone are named, and the run goes on.
    copy_run(ingot, "killed", "gone")
    for name in ("metrics.jsonl", "config.yaml"):
        os.remove(f"{ingot.folder}/gone/{name}")
    now = dict(settings, **{"run.name": "gone"})
    code, output = ingot.run("train", now)
    check(code == 2 and "exists; continue it with --resume" in output, f"{code} {output}")
    code, output = ingot.run("train", now, ("--resume",))
    check(code == 0, output)
    for said in ("gone/config.yaml is gone", "gone/metrics.jsonl is gone: the record restarts at step"):
        check(said in output, f"'{said}' is not in: {output}")


def case_postgres(ingot):
    """A run whose pool is in PostgreSQL: wrong settings end it before it begins, the server crashes and comes again, the
    run is inspected, killed and resumed."""
    server = PostgresServer()
    try:
        settings, url = {**SHORT, "run.name": "pg", "scheduler.total_steps": 30, **server.settings()}, server.url
        del settings["datapool.postgres.allow_single"]
        for wrong, said in (({}, "allow_single"),
                            ({"datapool.postgres.url": ""}, "url is empty"),
                            ({"datapool.postgres.url": "hots=here"}, 'invalid connection option "hots"'),
                            ({"datapool.postgres.url": f"host={server.folder}/none user=ingot"}, "No such file"),
                            ({"datapool.postgres.url": "host=127.0.0.1 port=1"}, "Connection refused"),
                            ({"datapool.postgres.url": f"{url} dbname=none"}, 'database "none" does not exist'),
                            ({"datapool.postgres.url": f"{url} user=none"}, 'role "none" does not exist'),
                            ({"datapool.backend": "mysql"}, "datapool.backend")):
            for command in ("train", "launch"):
                code, output = ingot.run(command, {**launch_settings("pg"), **settings, **wrong}, timeout=60)
                check(code in (1, 2) and said in output, f"{command} {wrong}: {code} {output}")
                check(not os.path.exists(f"{ingot.folder}/pg"), f"{command} {wrong} made a run folder: {output}")
        settings |= server.settings()
        process = ingot.start("train", settings)
        wait_until(lambda: len(ingot.steps_trained("pg")) >= 3, "three steps", process)
        check(" train " in ingot.inspect("pg", "--limit", "0"), "inspect beside the run")
        server.crash()
        server.start()
        steps = len(ingot.steps_trained("pg"))
        wait_until(lambda: len(ingot.steps_trained("pg")) >= steps + 3, "steps after the server's crash", process)
        kill(process)
        before = ingot.journal("pg")
        code, output = ingot.run("train", settings, ("--resume",))
        check(code == 0, output)
        check_run(ingot, "pg", 30)
        check(ingot.journal("pg")[:len(before)] == before, "the journal changed after a kill")
        check(not list(pathlib.Path(f"{ingot.folder}/pg/pool").glob("shard-*")), "the pool wrote files of its own")
        other = dict(settings, **{"run.if_exists": "fail", "run.root": f"{ingot.folder}/other"})
        code, output = ingot.run("train", other)
        check(code == 1 and "belongs to another run" in output, f"another run's pool: {code} {output}")
        check(not os.path.exists(f"{ingot.folder}/other"), "another run's pool: a run folder was made")
        # A server of several roles, and the pool lost: another name, and the run goes on from its last checkpoint.
        launched = {**launch_settings("pg", **{"scheduler.total_steps": 34}),
                    **{key: value for key, value in settings.items() if key.startswith("datapool.")},
                    "datapool.postgres.name": "second"}
        code, output = ingot.run("launch", launched, ("--resume",))
        check(code == 0 and "with an empty journal" in pathlib.Path(f"{ingot.folder}/pg/logs/scheduler.log").read_text(),
              output)
    finally:
        server.close()


if __name__ == "__main__":
    main(case_kill, case_stop, case_same, case_replace, case_replace_jobs, case_replace_node, case_damage, case_postgres)
