#!/usr/bin/env python3
"""Creates the labeled verdicts for the example in docs/results/judge.md: generate.py [FOLDER [LABELS HELD_OUT]].

A response claims a sum: "3 4 1 9 = 7". Its label says whether the claim holds (mod 10). A judge that reasons writes the running
sums before its verdict, "3 7 8 7 yes"; a classic judge writes only the verdict, "yes". Both get the same labels.
"""
import json
import pathlib
import random
import sys

DIGITS, TRAIN, HELD_OUT = 4, 4000, 500


def case(draw, index):
    digits = [draw.randrange(10) for _ in range(DIGITS)]
    sums = [sum(digits[:i + 1]) % 10 for i in range(DIGITS)]
    right = index % 2 == 0
    claim = sums[-1] if right else draw.choice([d for d in range(10) if d != sums[-1]])
    question = " ".join(map(str, digits)) + f" = {claim}"
    return question, " ".join(map(str, sums)), "yes" if right else "no"


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    labels, held_out_labels = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else (TRAIN, HELD_OUT)
    draw = random.Random(1)
    seen, cases = set(), []
    while len(cases) < labels + held_out_labels:
        one = case(draw, len(cases))
        if one[0] not in seen:
            seen.add(one[0])
            cases.append(one)

    def write(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def chat(question, answer):
        return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}

    train, held_out = cases[:labels], cases[labels:]
    write("cot.jsonl", [chat(q, f"{reasoning} {verdict}") for q, reasoning, verdict in train])
    write("classic.jsonl", [chat(q, verdict) for q, _, verdict in train])
    for name, part in (("train.jsonl", train), ("held_out.jsonl", held_out)):
        write(name, [{"task_id": f"{name[0]}{i}", "question": q, "verdict": v} for i, (q, _, v) in enumerate(part)])


if __name__ == "__main__":
    main()
