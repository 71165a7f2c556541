#!/usr/bin/env python3
"""Creates the smoke task: train.jsonl, eval.jsonl, and sft.jsonl next to this file. The same arguments give the same
bytes.

    user       item kt
    assistant  calls lookup({"key": "kt"})
    tool       c                              the code of that item, from a table only the agent has
    assistant  h                              right if h = rule(c)

The rule is a fixed permutation of the letters that moves every letter. Only the rewards reveal it. The warm-start
conversations show how to call the tool and that the answer is a letter that depends on the code, but are misleading
about the letter: of CHOICES conversations with a code, one gives the right answer, and the others all give the same
wrong one. So imitating them is right one time in CHOICES, a constant answer one time in len(LETTERS), and the most
frequent answer or a copy of the code never. Reinforcement learning finds the rule.

Keys consist of two letters that occur in no answer. The three files share no keys.
"""
import argparse
import itertools
import json
import pathlib
import random

LETTERS = "abcdefgh"
CHOICES = 4
KEY_LETTERS = "ijklmnopqrstuvwxyz"
TOOLS = [{
    "type": "function",
    "function": {
        "name": "lookup",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}},
    },
}]


def shuffled(rng, items):
    """A random order from random() only, the one method whose numbers no Python version changes."""
    items = list(items)
    for i in range(len(items) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        items[i], items[j] = items[j], items[i]
    return items


def make_rule(rng):
    """A permutation that moves every letter."""
    while True:
        image = shuffled(rng, LETTERS)
        if all(a != b for a, b in zip(LETTERS, image)):
            return dict(zip(LETTERS, image))


def shown_answers(rng, rule):
    """For each code the answers that the warm start shows: the right one once, another CHOICES - 1 times."""
    while True:
        decoy = make_rule(rng)
        if all(decoy[code] != right for code, right in rule.items()):
            return {code: [right] + [decoy[code]] * (CHOICES - 1) for code, right in rule.items()}


def task(key, code, rule):
    return {"task_id": key, "prompt": f"item {key}", "tools": TOOLS, "tables": {"lookup": {key: code}},
            "answer": rule[code]}


def conversation(key, code, answer):
    call = {"id": "call_0", "type": "function", "function": {"name": "lookup", "arguments": json.dumps({"key": key})}}
    return {"messages": [{"role": "user", "content": f"item {key}"},
                         {"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "call_0", "content": code},
                         {"role": "assistant", "content": answer}],
            "tools": TOOLS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--train", type=int, default=120, help="training tasks")
    parser.add_argument("--eval", type=int, default=40, help="held-out tasks")
    parser.add_argument("--sft", type=int, default=1920, help="warm-start conversations")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    options = parser.parse_args()

    rng = random.Random(options.seed)
    rule = make_rule(rng)
    shown = shown_answers(rng, rule)
    keys = shuffled(rng, ["".join(pair) for pair in itertools.product(KEY_LETTERS, repeat=2)])
    train, keys = keys[:options.train], keys[options.train:]
    held_out, warm_start = keys[:options.eval], keys[options.eval:]

    def write(name, rows):
        with open(options.out / name, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")

    # Every code equally often, and with it every answer.
    write("train.jsonl", [task(k, LETTERS[i % len(LETTERS)], rule) for i, k in enumerate(train)])
    write("eval.jsonl", [task(k, LETTERS[i % len(LETTERS)], rule) for i, k in enumerate(held_out)])
    pairs = [(code, answer) for code in LETTERS for answer in shown[code]]
    write("sft.jsonl", [conversation(warm_start[i % len(warm_start)], *pair) for i, pair in
                        enumerate(shuffled(rng, [pairs[i % len(pairs)] for i in range(options.sft)]))])


if __name__ == "__main__":
    main()
