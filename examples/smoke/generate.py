#!/usr/bin/env python3
"""Makes the smoke task: train.jsonl, eval.jsonl and sft.jsonl beside this file. Same arguments, same bytes.

    user       item k7
    assistant  calls lookup({"key": "k7"})
    tool       C                              the code of that item, from a table only the agent has
    assistant  F                              right if F = f(C)

f is a fixed permutation of the alphabet that leaves no letter in place. Nothing tells it to the model: the conversations
for supervised training show how to call the tool and how an answer looks, and pair every code equally often with every
letter. So a model that only learned from them answers right 1 time in len(alphabet), as any constant does, and copying
the tool's result is never right. Reinforcement finds f.

Keys are a letter and digits. Those of the three files are disjoint; within train and eval every code comes equally often
(to one), with keys that say nothing about it.
"""
import argparse
import itertools
import json
import pathlib
import random
import string

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "The code of an item.",
            "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
        },
    }
]


def shuffled(items, rng):
    """Like random.sample of all, but by random() alone, the one method whose numbers no Python version changes."""
    items = list(items)
    for i in range(len(items) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        items[i], items[j] = items[j], items[i]
    return items


def make_permutation(alphabet, rng):
    """Uniform among the permutations without a fixed point."""
    image = list(alphabet)
    while any(a == b for a, b in zip(alphabet, image)):
        image = shuffled(alphabet, rng)
    return dict(zip(alphabet, image))


def split_keys(length, shares, rng):
    """All keys of that length, divided at random in these proportions."""
    keys = ["".join(key) for key in itertools.product(string.ascii_lowercase, *[string.digits] * (length - 1))]
    keys = shuffled(keys, rng)
    bounds = [round(len(keys) * sum(shares[:i]) / sum(shares)) for i in range(len(shares) + 1)]
    return [keys[first:last] for first, last in zip(bounds, bounds[1:])]


def make_tasks(name, count, keys, distractors, permutation, rng):
    """`count` tasks, no two of them equal in key and code."""
    codes = shuffled(itertools.islice(itertools.cycle(permutation), count), rng)
    unused = {code: shuffled(keys, rng) for code in permutation}
    for number, code in enumerate(codes):
        if not unused[code]:
            raise SystemExit(f"{count} {name} tasks need more than {len(keys)} keys: raise --key-length")
        key = unused[code].pop()
        others = shuffled((k for k in keys if k != key), rng)[:distractors]
        table = {other: shuffled(permutation, rng)[0] for other in others}
        table[key] = code
        yield {
            "task_id": f"{name}-{number:04d}",
            "domain": "smoke",
            "prompt": f"item {key}",
            "tools": TOOLS,
            "tables": {"lookup": dict(sorted(table.items()))},
            "answer": permutation[code],
        }


def make_conversations(count, keys, alphabet, rng):
    """Every pair of code and answer equally often, keys in rotation."""
    pairs = list(itertools.product(alphabet, alphabet))
    if count % len(pairs):
        raise SystemExit(f"--sft {count} is no multiple of {len(pairs)} (pairs of code and answer)")
    pairs = shuffled(pairs * (count // len(pairs)), rng)
    for key, (code, answer) in zip(itertools.cycle(keys), pairs):
        call = {"name": "lookup", "arguments": json.dumps({"key": key})}
        yield {
            "messages": [
                {"role": "user", "content": f"item {key}"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call_0", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": "call_0", "content": code},
                {"role": "assistant", "content": answer},
            ],
            "tools": TOOLS,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alphabet", default="ABCDEFGH", help="codes and answers, one character each")
    parser.add_argument("--key-length", type=int, default=2, help="a letter and this many digits less one")
    parser.add_argument("--train", type=int, default=320, help="training tasks")
    parser.add_argument("--eval", type=int, default=40, help="held-out tasks")
    parser.add_argument("--sft", type=int, default=384, help="conversations; a multiple of the alphabet's square")
    parser.add_argument("--distractors", type=int, default=0, help="other keys in each table")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    args = parser.parse_args()
    if len(set(args.alphabet)) != len(args.alphabet) or len(args.alphabet) < 6:
        raise SystemExit("--alphabet: 6 different characters or more, or a constant answer scores above 0.2")

    rng = random.Random(args.seed)
    permutation = make_permutation(args.alphabet, rng)
    train_keys, eval_keys, sft_keys = split_keys(args.key_length, (0.45, 0.15, 0.4), rng)
    files = {
        "train": make_tasks("train", args.train, train_keys, args.distractors, permutation, rng),
        "eval": make_tasks("eval", args.eval, eval_keys, args.distractors, permutation, rng),
        "sft": make_conversations(args.sft, sft_keys, args.alphabet, rng),
    }
    for name, records in files.items():
        lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in records]
        (args.out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
