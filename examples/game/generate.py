#!/usr/bin/env python3
"""Writes the games of examples/game next to this file: train.jsonl, eval.jsonl, and sft.jsonl. Same bytes every time.

A task consists of a heap that the first player can win and the opponent's seed. The two task files share no seeds.
sft.jsonl has games in which both players make any legal move: it teaches the form of a move, not which moves win.
"""
import json
import pathlib
import random

import agent

HERE = pathlib.Path(__file__).resolve().parent
HEAPS = [heap for heap in range(5, 12) if heap % 4 != 0]
SKILL = 0.3


def task(heap, seed):
    return {"task_id": f"nim-{heap}-{seed}", "heap": heap, "skill": SKILL, "seed": seed, "answer": "won"}


def conversation(heap, seed):
    rng, game = random.Random(seed + 1_000_000), []

    def any_move(messages):
        left = int(messages[-1]["content"].rsplit(" ", 1)[1])
        move = str(rng.choice(list(agent.legal(left))))
        game[:] = [*messages, {"role": "assistant", "content": move}]
        return move

    agent.play({"heap": heap, "skill": 0, "seed": seed}, any_move)
    return {"messages": game}


def write(name, rows):
    (HERE / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main():
    write("train.jsonl", [task(heap, seed) for seed in range(8) for heap in HEAPS])
    write("eval.jsonl", [task(heap, seed) for seed in range(100, 106) for heap in HEAPS])
    write("sft.jsonl", [conversation(heap, seed) for seed in range(1000, 1020) for heap in range(4, 12)])


if __name__ == "__main__":
    main()
