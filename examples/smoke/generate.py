#!/usr/bin/env python3
"""Writes the smoke run's data: train.jsonl, eval.jsonl and sft.jsonl beside this file, the same ones every time.

The task: "item k7" asks for the code of an item. The model must look the item up with a tool; the tool answers with a
letter, and the right answer is another letter, by a rule that is written nowhere but in the rewards: a fixed permutation
without fixed points. The warm-start conversations show the form (call the tool with the item's name, then answer with one
letter that depends on the tool's), but not the rule: their answers are drawn, equally often, from CHOICES letters of
which one is right, so that imitating them is right one time in CHOICES. Any constant answer is right one time in
len(LETTERS); copying the tool's letter is always wrong. Held-out items never occur in training.
"""
import argparse
import json
import pathlib
import random

LETTERS = "abcdefgh"
CHOICES = 4
TOOLS = [{
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "The code of an item.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    },
}]


def derangement(rng, letters):
    """A permutation that moves every letter."""
    while True:
        shuffled = list(letters)
        rng.shuffle(shuffled)
        if all(a != b for a, b in zip(letters, shuffled)):
            return dict(zip(letters, shuffled))


def choices(rng, rule):
    """For each letter the answers that the warm start shows: the right one among others, never the letter itself."""
    shown = {}
    for letter, right in rule.items():
        others = [c for c in LETTERS if c not in (letter, right)]
        shown[letter] = sorted(rng.sample(others, CHOICES - 1) + [right])
    return shown


def task(name, letter, rule):
    return {"task_id": name, "prompt": f"item {name}", "tools": TOOLS, "tables": {"lookup": {name: letter}},
            "answer": rule[letter]}


def conversation(name, letter, answer):
    call = {"id": "call_0", "type": "function",
            "function": {"name": "lookup", "arguments": json.dumps({"key": name})}}
    return {"messages": [{"role": "user", "content": f"item {name}"},
                         {"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "call_0", "content": letter},
                         {"role": "assistant", "content": answer}],
            "tools": TOOLS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--train", type=int, default=160, help="training tasks")
    parser.add_argument("--eval", type=int, default=40, help="held-out tasks")
    parser.add_argument("--sft", type=int, default=640, help="warm-start conversations")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    options = parser.parse_args()

    rng = random.Random(options.seed)
    rule = derangement(rng, LETTERS)
    shown = choices(rng, rule)
    names = [f"{a}{d}" for a in "abcdefghijklmnopqrstuvwxyz" for d in range(10)]
    rng.shuffle(names)
    train, held_out = names[:options.train], names[options.train:options.train + options.eval]

    def write(name, rows):
        with open(options.out / name, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")

    # Every letter equally often, so that no constant answer does better than another.
    write("train.jsonl", [task(n, LETTERS[i % len(LETTERS)], rule) for i, n in enumerate(train)])
    write("eval.jsonl", [task(n, LETTERS[i % len(LETTERS)], rule) for i, n in enumerate(held_out)])
    letters = [LETTERS[i % len(LETTERS)] for i in range(options.sft)]
    write("sft.jsonl", [conversation(rng.choice(train), letter, shown[letter][i // len(LETTERS) % CHOICES])
                        for i, letter in enumerate(letters)])



if __name__ == "__main__":
    main()
