#!/usr/bin/env python3
"""Several ranks train a launched run: ranks_tests.py BINARY SOURCE_DIR CASE.

Cases: ranks (the leader is killed, and all continue together), ranks_deaths (no death; another rank is killed, or stopped), ranks_lost (two of
three are lost for good).
"""
import os
import pathlib
import signal

from ingot_runs import (SHORT, check, check_run, compare_steps, finish_launched, main, ranks_settings, role_process,
                        wait_for_steps)


def train_through(ingot, deaths):
    """Two ranks train a launched run for each death. All continue from the last checkpoint."""
    for rank, sent in deaths:
        name = "ranks" if sent is None else f"rank-{rank}-{sent.name}"
        settings = ranks_settings(name, **({"scheduler.total_steps": 8} if sent is None else {}))
        steps = settings["scheduler.total_steps"]
        launch = ingot.start("launch", settings)
        if sent is not None:
            trained = wait_for_steps(ingot, launch, name, 4)
            os.kill(role_process(launch, f"trainer-{rank}"), sent)
        output, rows = finish_launched(ingot, launch, name, steps)
        check(all(row["trainer/ranks"] == 2 for row in rows if not row["trainer/skipped"]), "a step was one rank's")
        warm = ingot.metrics(f"{name}/warm_start")
        check(len(warm) == 4 and all(row["trainer/ranks"] == 2 for row in warm), f"the warm start's steps: {warm}")
        last = pathlib.Path(f"{ingot.folder}/{name}/checkpoints/step-{steps:08d}")
        check((last / "optimizer-00002-of-00002.safetensors").exists(), f"{sorted(last.iterdir())}")
        if sent is not None:
            check("all of trainer ended; they are started again together" in output, output)
            again = compare_steps(trained, ingot.steps_trained(name))
            print(f"rank {rank}: {sent.name}, started again, finished; {again} steps taken again are equal", flush=True)


def case_ranks(ingot):
    train_through(ingot, ((0, signal.SIGKILL),))
    settings = dict(SHORT, **{"run.name": "one", "cluster.trainer_ranks": 2})
    code, output = ingot.run("train", settings, timeout=60)
    check(code == 2 and "cluster.trainer_ranks" in output and "ingot launch" in output, output)
    # An error of a rank's own ends the run, without a restart.
    code, output = ingot.run("launch", ranks_settings("wrong", **{"trainer.memory_limit_mb": 1}), timeout=120)
    check(code in (1, 2) and "started again" not in output, output)


def case_ranks_deaths(ingot):
    train_through(ingot, ((None, None), (1, signal.SIGKILL), (1, signal.SIGSTOP)))


def case_ranks_lost(ingot):
    """Of three ranks that divide the parameters by layer, two die for good, the leader among them. The run goes on
    with two ranks, then with one, and finishes."""
    steps = 16
    settings = ranks_settings("lost", **{
        "cluster.trainer_ranks": 3, "cluster.max_restarts": 0, "scheduler.total_steps": steps,
        "trainer.sharding": "layers",
        # Each rank measures a step at positions of its own, so that fewer ranks may decide otherwise.
        "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0})
    launch = ingot.start("launch", settings)
    before = []
    try:
        for done, rank in ((4, 1), (9, 0)):
            before.append(wait_for_steps(ingot, launch, "lost", done))
            os.kill(role_process(launch, f"trainer-{rank}"), signal.SIGKILL)
        output, _ = launch.communicate(timeout=300)
    finally:
        if launch.poll() is None:
            launch.terminate()
            print(launch.communicate()[0])
    check(launch.returncode == 0, output)
    check("gave up trainer-1 after 0 restarts; trainer continues with 2" in output, output)
    check("gave up trainer after 0 restarts; trainer continues with 1" in output, output)
    rows = [row for row in check_run(ingot, "lost", steps) if not row["trainer/skipped"]]
    ranks = [row.get("trainer/ranks", 1) for row in rows]  # one rank alone reports no number
    check(ranks == sorted(ranks, reverse=True) and set(ranks) == {3, 2, 1}, f"ranks of the steps: {ranks}")
    # A step taken again is equal up to rounding: the same terms are added up in another order.
    after, again = ingot.steps_trained("lost"), 0
    for trained in before:
        for step in trained.keys() & after.keys():
            again += trained[step][0] != after[step][0]
            for was, now in zip(trained[step][1], after[step][1]):
                check(abs(was - now) <= 1e-3 * max(1, abs(was)), f"step {step} gave {trained[step]}, then {after[step]}")
    last = pathlib.Path(f"{ingot.folder}/lost/checkpoints/step-{steps:08d}")
    print(f"ranks of the steps: {ranks}; {again} steps taken again; the last checkpoint: "
          f"{sorted(file.name for file in last.iterdir())}")


if __name__ == "__main__":
    main(case_ranks, case_ranks_deaths, case_ranks_lost)
