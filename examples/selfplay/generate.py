#!/usr/bin/env python3
"""Writes the games of examples/selfplay next to this file. Same bytes every time.

train.jsonl: a heap, both roles played by the model. white.jsonl and black.jsonl: games in which the model has that seat and the
start version has the other. sft.jsonl: every legal move equally often. It teaches the form of a move, not which moves win.
"""
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "agents"))
import two_players as game  # noqa: E402

HEAPS = range(4, 10)  # at the start
GAMES = 40  # of a seat; the evaluation plays each five times


def conversation(heap, move):
    return {"messages": [{"role": "user", "content": game.question(heap)}, {"role": "assistant", "content": game.answer(heap, move)}]}


def moves(rng):
    rows = [conversation(heap, move) for heap in range(1, max(HEAPS) + 1) for move in game.legal(heap) for _ in range(12 // len(game.legal(heap)))]
    rng.shuffle(rows)
    return rows


def tasks_of(seat):
    heaps = list(HEAPS)
    return [{"task_id": f"{seat}-{i}", "heap": heaps[i % len(heaps)], "seat": seat, "opponent": "start", "domain": "versus"} for i in range(GAMES)]


def files():
    """The rows of each file, by name."""
    return {"train.jsonl": [{"task_id": f"heap-{heap}", "heap": heap} for heap in HEAPS], "sft.jsonl": moves(random.Random(1)),
            **{f"{seat}.jsonl": tasks_of(seat) for seat in game.ROLES}}


if __name__ == "__main__":
    for name, rows in files().items():
        (HERE / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
