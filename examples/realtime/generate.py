#!/usr/bin/env python3
"""Creates the real-time example's data in a folder: generate.py [--out FOLDER] [--users N]. The same arguments give the
same tasks.

    user       code c
    assistant  h            brief
    assistant  it is h      polite      right if h = rule(c), in either style

sft.jsonl shows both styles equally often, always with the right letter. eval.jsonl asks for every letter once. `users`
has a new key for each user who opts in.
"""
import argparse
import json
import os
import pathlib
import random
import secrets

LETTERS = "abcdefgh"
RULE = dict(zip(LETTERS, "dhcagebf"))
STYLES = {"brief": "{}", "polite": "it is {}"}


def question(code):
    return f"code {code}"


def conversation(code, style):
    return {"messages": [{"role": "user", "content": question(code)},
                         {"role": "assistant", "content": STYLES[style].format(RULE[code])}]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/realtime"))
    parser.add_argument("--users", type=int, default=8, help="users who opt in")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def write(name, rows):
        (options.out / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    rows = [conversation(code, style) for code in LETTERS for style in STYLES] * 16
    random.Random(7).shuffle(rows)
    write("sft.jsonl", rows)
    write("eval.jsonl", [{"task_id": code, "prompt": question(code), "answer": RULE[code]} for code in LETTERS])
    keys = options.out / "users"
    keys.unlink(missing_ok=True)
    with open(os.open(keys, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        for i in range(options.users):
            file.write(f"user-{i} {secrets.token_hex(32)}\n")


if __name__ == "__main__":
    main()
