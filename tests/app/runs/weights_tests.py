#!/usr/bin/env python3
"""Runs whose weights go through stores: weights_tests.py BINARY SOURCE_DIR CASE.

Cases: stores (two engines, one fetches its weights from a directory and one from S3, or both from a directory where moto is
not installed; an engine dies and joins again), broadcast (of two engines one dies), bad_stores (stores that cannot be used,
each told before the start), rank_shards (each rank of the trainer stores what it owns, one dies, and the parameters of all of them
reach the engine), credentials (a server of S3 that checks who signed, SeaweedFS, refuses a launch and serves another).
"""
import json
import os
import pathlib
import signal
import sys
import tempfile

from ingot_runs import (Ingot, check, errors, finish_launched, launch_settings, ranks_settings, role_process, skip,
                        wait_for_rows, wait_until)
from s3_servers import SECRET, Moto, SeaweedFs, write_credentials


def launch_and_kill(ingot, settings, role, rows):
    """Kills a role of a launched run behind so many rows; returns the rows of the whole run."""
    launch, name = ingot.start("launch", settings), settings["run.name"]
    wait_for_rows(ingot, launch, name, rows)
    os.kill(role_process(launch, role), signal.SIGKILL)
    return finish_launched(ingot, launch, name, settings["scheduler.total_steps"])[1]


def case_stores(ingot, moto):
    steps = 14  # a restarted engine is back long before the last one
    settings = launch_settings("ways", **{
        "sft.max_steps": 10, "scheduler.total_steps": steps, "cluster.rollout_engines": 2, "weights.transport": "directory",
        "weights.anchor_every": 2, "weights.shards": 3, "weights.silence_s": 2, "weights.poll_ms": 20})
    if moto.url:
        settings |= {"weights.engines": "{rollout-1: s3}", **moto.settings()}
    launch_and_kill(ingot, settings, "rollout-1", 2)
    store = pathlib.Path(ingot.folder) / "ways/weights/ways"
    live = json.loads((store / "live").read_text())
    newest = live["newest"]["steps"][-1]["name"]
    check(int(newest["version"]) == steps, f"the newest stored version: {live}")
    for engine in (0, 1):
        stored_in_s3 = bool(moto.url) and engine == 1
        key = f"ways/acks/rollout-{engine}"
        ack = moto.get(key) if stored_in_s3 else json.loads((store.parent / key).read_text())
        check(ack["live"] == newest and "error_code" not in ack, f"rollout-{engine} acknowledged {ack}, live is {newest}")
    names = {f"{int(step['name']['version']):010d}" for step in live["newest"]["steps"]}
    check({folder.name[:10] for folder in (store / "versions").iterdir()} >= names, f"{live} and {list(store.iterdir())}")
    for path in pathlib.Path(ingot.folder).rglob("*"):
        if path.is_file():
            check(SECRET.encode() not in path.read_bytes(), f"{path} shows the credentials")


def case_broadcast(ingot, moto):
    settings = launch_settings("sent", **{"sft.max_steps": 10, "scheduler.total_steps": 12, "cluster.rollout_engines": 2,
                                          "weights.transport": "broadcast"})
    launch = ingot.start("launch", settings)
    log = pathlib.Path(ingot.folder) / "sent/logs/trainer.log"
    grouped = "broadcast to 2 engines"
    wait_until(lambda: log.exists() and grouped in log.read_text(), "a group of two engines", launch)
    wait_for_rows(ingot, launch, "sent", 2)
    os.kill(role_process(launch, "rollout-1"), signal.SIGKILL)
    finish_launched(ingot, launch, "sent", 12)
    said = log.read_text()
    check("to each engine directly until a new broadcast group forms" in said, f"the loss of an engine: {said}")


def case_rank_shards(ingot, moto):
    steps = 9
    settings = ranks_settings("shards", **{
        "scheduler.total_steps": steps, "trainer.sharding": "layers", "trainer.dtype": "bf16", "trainer.checkpoint_every": 2,
        "trainer.learning_rate": 1e-3, "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0, "trainer.warmup_steps": 0,
        "trainer.weight_decay": 1,  # changes words where all samples get the same reward too
        "weights.transport": "directory", "weights.anchor_every": 3, "weights.poll_ms": 20})
    if moto.url:
        settings |= {"weights.transport": "s3", **moto.settings()}
    rows = launch_and_kill(ingot, settings, "trainer-1", 3)
    print([(row["trainer/skipped"], row["perf/update_weights_density"], row["perf/update_weights_wire_bytes"]) for row in rows])
    store = pathlib.Path(ingot.folder) / "shards/weights/shards"
    live = moto.get("shards/live") if moto.url else json.loads((store / "live").read_text())
    step = live["newest"]["steps"][-1]
    check(int(step["name"]["version"]) == steps, f"the newest stored version: {live}")
    kind = "anchor" if step.get("anchor") and len(live["newest"]["steps"]) == 1 else "delta"
    folder = f"shards/versions/{steps:010d}-{int(step['name']['checksum']):016x}/{kind}"
    for name in ("shard-0", "shard-1", "manifest"):
        size = moto.size(f"{folder}/{name}") if moto.url else (store.parent / folder / name).stat().st_size
        check(size > 0, f"{folder}/{name} is empty")


def case_bad_stores(ingot, moto):
    folder = pathlib.Path(ingot.folder)
    (folder / "file").write_text("x")
    other = folder / "shared/bad"
    other.mkdir(parents=True)
    (other / "live").write_text(json.dumps({"run": "bad", "history": "another", "sequence": "3"}))
    directory = {"weights.transport": "directory"}
    s3 = {"weights.transport": "s3", "weights.s3.endpoint": "http://127.0.0.1:1", "weights.s3.bucket": "weights"}
    cases = [
        ({**directory, "weights.directory.path": folder / "file/below"}, "file/below"),
        ({**directory, "weights.directory.path": folder / "shared", "run.if_exists": "fail"}, "another run 'bad'"),
        ({"weights.engines": "{rollout-7: s3}"}, "rollout-7"),
        ({"weights.engines": "{rollout-0: smoke-signals}"}, "smoke-signals"),
        ({**s3, "weights.s3.endpoint": "ftp://x"}, "weights.s3: endpoint"),
        ({**s3, "weights.s3.endpoint": "http://10.1.2.3"}, "not TLS"),
        (s3, "AWS_ACCESS_KEY_ID"),
    ]
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.pop(variable, None)
    known = {**s3, "weights.s3.credentials_file": write_credentials(folder / "credentials", Moto.KEY_ID, SECRET)}
    cases.append((known, "127.0.0.1:1"))
    if moto.url:
        cases.append(({**known, "weights.s3.endpoint": moto.url, "weights.s3.bucket": "none"}, "no bucket 'none'"))
    expect_rejections(ingot, cases)


def expect_rejections(ingot, cases):
    """One line for each of (settings, word), with the word and without the secret; no run is made."""
    for settings, word in cases:
        code, output = ingot.run("launch", launch_settings("bad", **settings), timeout=60)
        check(code in (1, 2) and len(errors(output)) == 1, f"{settings}: {code}, {output}")
        check(word in output and SECRET not in output, f"'{word}' is missing in: {output}")
        check(not (pathlib.Path(ingot.folder) / "bad").exists(), f"{settings} made a run: {output}")


def case_credentials(ingot, server):
    def settings(name, key_id, secret):
        path = write_credentials(pathlib.Path(ingot.folder) / name, key_id, secret)
        return {"weights.transport": "s3", "weights.s3.endpoint": server.url, "weights.s3.bucket": "weights",
                "weights.s3.credentials_file": path}

    expect_rejections(ingot, [
        (settings("wrong-id", "an-unknown-id", SECRET), "rejected the credentials"),
        (settings("wrong-secret", SeaweedFs.KEY_ID, SECRET + "-not"), "rejected the credentials"),
    ])
    code, output = ingot.run("launch", launch_settings("known", **settings("right", SeaweedFs.KEY_ID, SECRET)), timeout=240)
    check(code == 0, f"a run through SeaweedFS: {code}, {output}")


def main():
    binary, source, case = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        server = (SeaweedFs if case == "credentials" else Moto)(source, folder)
        if case == "credentials" and not server.url:
            skip("SeaweedFS is not installed: scripts/setup.sh services")
        try:
            globals()[f"case_{case}"](Ingot(binary, source, folder), server)
        finally:
            server.stop()
    print(f"{case}: passed{'' if server.url else ', without S3: its server is not installed (scripts/setup.sh services)'}")


if __name__ == "__main__":
    main()
