#!/usr/bin/env python3
"""Groups whose episodes fork: branching_tests.py BINARY SOURCE_DIR CASE.

Cases: branching (one process, across a kill), launch_branching (roles as processes, of which two are killed).
"""
import os
import signal

from ingot_runs import GROUPS, check, check_run, finish_launched, main, role_process, wait_for_steps
from stored_trees import Tokens, stored_groups

BRANCHING = {
    **GROUPS,
    "run": {"name": "branching", "seed": 1},
    "scheduler": {"total_steps": 4, "groups_per_step": 3, "group_size": 4, "max_drops_per_batch": 4, "group_deadline_s": 120},
    "trainer": {"learning_rate": 1e-3, "checkpoint_every": 1, "probe_tokens": 256},
    "agents": {"concurrency": 4, "branching": {"at": 2, "width": 2}, "recipes": [
        {"name": "branching", "command": ["/usr/bin/python3", "-I", "${cwd}/tests/app/runs/branching_agent.py"], "timeout_s": 60,
         "resumes": True, "verifier": {"kind": "exact", "expected": "1"}}]},
}


def case_branching(ingot):
    """Groups of two trunks with two leaves each, across a kill. Rollout and trainer count the same tokens, a trunk's once."""
    ingot.configure("branching", BRANCHING)
    process = ingot.start("train", {})
    wait_for_steps(ingot, process, "branching", 2)
    process.send_signal(signal.SIGKILL)
    output = process.communicate()[0]
    code, output = ingot.run("train", {}, ["--resume"])
    check(code == 0, output)
    rows = check_run(ingot, "branching", 4)
    check(all(row["batch/trunks"] > 0 for row in rows), f"trunks trained: {[row['batch/trunks'] for row in rows]}")
    check_branches(ingot, rows, 0)


def case_launch_branching(ingot):
    """The same over separate processes: gateway, then runner, which holds the snapshots, are killed and started again."""
    ingot.configure("branching", BRANCHING)
    settings = {"run.name": "branching", "scheduler.total_steps": 6}
    launch = ingot.start("launch", settings)
    for steps, role in ((1, "gateway"), (2, "agents")):
        wait_for_steps(ingot, launch, "branching", steps)
        os.kill(role_process(launch, role), signal.SIGKILL)
    output, rows = finish_launched(ingot, launch, "branching", 6)
    for role in ("gateway", "agents"):
        check(f"{role} " in output and "started again (1 of" in output, f"{role} was not started again: {output}")
    for step in (0, 5):
        check_branches(ingot, rows, step)


def check_branches(ingot, rows, step):
    """The forks of a batch, and its tokens: of the record's trees, the trainer's, and those that rollout computed."""
    batch = next(record["batch"] for record in ingot.journal("branching")
                 if "batch" in record and int(record["batch"].get("step", 0)) == step)
    groups, trees, forked = stored_groups(ingot.inspect("branching", "--json", "--limit", "0").splitlines()), [], 0
    for group in batch["groupIds"]:
        samples = groups[int(group)]
        trees += samples.values()
        ids = {tree.episode["episodeId"]: tree for tree in samples.values()}
        for sample, tree in samples.items():
            state, fork = tree.episode["state"], tree.episode.get("fork")
            check(sample >= 4 or state == "EPISODE_FINISHED", f"sample {sample} of group {group}: {state}")
            if fork:
                trunk = ids[fork["episodeId"]]
                last, first = trunk.calls[-1], tree.calls[0]
                check(trunk.episode["state"] == "EPISODE_FORKED" and len(trunk.calls) == 2, f"the trunk: {trunk.episode}")
                check(fork["callId"] == last["callId"] == first["parentCallId"], f"{fork} of {last['callId']}")
                path = trunk.path(last)
                check(tree.context(first)[:len(path)] == path, "a leaf does not continue its trunk's ids")
                check("continuedSegments" not in first and first["sequence"] == 2, f"a leaf's first call: {first}")
                check(len(tree.calls) == 2 and "forkCause" not in first, f"a leaf's calls: {tree.calls}")
                forked += 1
    check(forked > 0, "no leaf was forked")
    tokens, trained = Tokens(trees), rows[step]["tree/merged_tokens"]
    check(tokens.unique == trained, f"{tokens.unique} recorded, {trained} trained")
    # The engine's cache holds whole blocks, so a call computes at most a block of its prefix again. Another group may
    # have computed what all prompts begin with.
    block = 16
    check(tokens.unique - tokens.common <= tokens.computed <= tokens.unique + tokens.calls * block,
          f"{tokens.computed} tokens computed for {tokens.unique} in {tokens.calls} calls")
    print(f"{forked} leaves; {tokens.unique} tokens in the batch's tree, {tokens.computed} computed by rollout in {tokens.calls} calls")


if __name__ == "__main__":
    main(case_branching, case_launch_branching)
