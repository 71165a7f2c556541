#!/usr/bin/env python3
"""A stand-in for Context-1's harness: searches a small corpus by words, prunes, and returns chunk ids.

TASK.json: {"question": "...", "chunks": {"ID": "TEXT"}}. The words of the policy's turn are the query. A view holds four chunks;
a fifth prunes the oldest. It posts the facts of the term `retrieval`: `seen`, `returned` and `pruned` (docs/guide/rewards.md).
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import ask, report  # noqa: E402

VIEW, TURNS, PAGE = 4, 3, 2

with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
seen, view, pruned = [], [], []
history = [{"role": "user", "content": task["question"]}]
for turn in range(TURNS):
    query = ask(history, max_tokens=64)
    history.append({"role": "assistant", "content": query})
    words = set((task["question"] + " " + query).lower().split())
    fresh = [chunk for chunk in task["chunks"] if chunk not in seen]
    fresh.sort(key=lambda chunk: -len(words & set(task["chunks"][chunk].lower().split())))
    page = fresh[:PAGE]
    seen += page
    view += page
    if len(view) > VIEW:
        pruned.append({"turn": turn, "ids": view[:len(view) - VIEW]})
        view = view[-VIEW:]
    shown = "\n".join(f"[{chunk}] {task['chunks'][chunk]}" for chunk in page)
    history.append({"role": "user", "content": shown or "nothing more"})
answer = ask(history, max_tokens=64)
named = [chunk for chunk in view if chunk in answer] or view
report(reward=0.0, facts={"seen": seen, "returned": named, "pruned": pruned})
print(json.dumps(named))
