#!/usr/bin/env python3
"""Writes the games of examples/selfplay: train.jsonl, eval.jsonl, and sft.jsonl. The same arguments give the same bytes.

    generate.py --out DIR

With best play, the first player wins unless the heap is a multiple of 4. Half of the games have such a heap, so neither seat has
an advantage. In eval.jsonl, the trained model plays each seat in half of the games.

sft.jsonl has each heap equally often, with all its legal moves equally often. A model that imitates it plays any legal move: it
learns the form of a move, but not which moves win.
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import agent  # noqa: E402

SECOND_WINS = [8, 12]
FIRST_WINS = [5, 6, 7, 9, 10, 11]
SHOWN = 6  # conversations for each heap: a multiple of 1, 2, and 3 moves


def heaps(count):
    """As many heaps that the first player wins as heaps that the second player wins."""
    return [wins[i // 2 % len(wins)] for i in range(count) for wins in [(FIRST_WINS, SECOND_WINS)[i % 2]]]


def task(name, heap, seat):
    return {"task_id": f"{name}-{heap}-{seat}", "domain": seat, "heap": heap, "seat": seat}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=40, help="training tasks")
    parser.add_argument("--eval", type=int, default=400, help="evaluation games, half of them for each seat")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def write(name, rows):
        (options.out / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    write("train.jsonl", [task(f"train-{i}", heap, "both") for i, heap in enumerate(heaps(options.train))])
    write("eval.jsonl", [task(f"eval-{i}", heap, seat) for i, heap in enumerate(heaps(options.eval // 2))
                         for seat in agent.PLAYERS])
    write("sft.jsonl", [{"messages": [agent.prompt(heap), {"role": "assistant", "content": str(i % len(agent.legal(heap)) + 1)}]}
                        for heap in range(1, max(FIRST_WINS + SECOND_WINS) + 1) for i in range(SHOWN)])


if __name__ == "__main__":
    main()
