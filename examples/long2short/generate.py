#!/usr/bin/env python3
"""Creates the data for the long2short recipe in docs/guide/data.md: generate.py [FOLDER].

The answer to "17: K" is "k". A model may explain it first, "K is k so k", and may add unnecessary words, "well well k".
The warm start shows answers of every length, so that a reward for short answers has an effect.
"""
import json
import pathlib
import random
import sys

LETTERS, TRAIN, SFT, HELD_OUT = "KMXQVZPW", 160, 3000, 80


def question(draw):
    letter = draw.choice(LETTERS)
    return f"{draw.randrange(1000)}: {letter}", letter.lower()


def answer(draw, letter):
    explained = f"{letter.upper()} is {letter} so " if draw.random() < 0.5 else ""
    return "well " * draw.randrange(5) + explained + letter


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw = random.Random(1)

    def write(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    examples = []
    for _ in range(SFT):
        text, letter = question(draw)
        examples.append({"messages": [{"role": "user", "content": text},
                                      {"role": "assistant", "content": answer(draw, letter)}]})
    write("sft.jsonl", examples)
    asked = {}
    while len(asked) < TRAIN + HELD_OUT:
        text, letter = question(draw)
        asked[text] = letter
    rows = [{"task_id": f"p{i}", "question": text, "letter": letter} for i, (text, letter) in enumerate(asked.items())]
    write("train.jsonl", rows[:TRAIN])
    write("held_out.jsonl", rows[TRAIN:])


if __name__ == "__main__":
    main()
