#!/usr/bin/env python3
"""A stand-in for K2.5's orchestrator: plans with the policy, sends sub-agents of the pinned model, and answers.

TASK.json: {"errands": ["..."], "answer": "..."}. The plan's length decides how many sub-agents work side by side. It posts the
reward and all that the PARL terms read: `stages`, `subagents/assigned` and `subagents/finished` (docs/guide/rewards.md).
"""
import json
import os
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import ask, report  # noqa: E402

with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
history = [{"role": "user", "content": "Plan: " + "; ".join(task["errands"])}]
plan = ask(history)
history.append({"role": "assistant", "content": plan})
wanted = zlib.crc32(plan.encode()) % (len(task["errands"]) + 1)
stages = [{"main": 1}]


def work(errand):
    """One sub-agent: its calls, and whether it finished."""
    answer = ask([{"role": "user", "content": errand}], model="sub-agent", max_tokens=16)
    return 1, bool(answer)


results = []
if wanted:
    with ThreadPoolExecutor(wanted) as pool:
        results = list(pool.map(work, task["errands"][:wanted]))
found = "; ".join(f"{errand}: {'done' if ok else 'nothing'}" for errand, (_, ok) in zip(task["errands"], results))
history.append({"role": "user", "content": "Results: " + (found or "none") + ". Answer:"})
answer = ask(history)
stages[0]["sub"] = [calls for calls, _ in results]
stages.append({"main": 1})
report(reward=1.0 if task["answer"] in answer else 0.0,
       signals={"subagents/assigned": len(results), "subagents/finished": sum(ok for _, ok in results)},
       facts={"stages": stages})
print(answer)
