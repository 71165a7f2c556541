#!/usr/bin/env python3
"""Creates train.jsonl and eval.jsonl for the SmolLM2 run from `reasoning-gym`. The same arguments give the same bytes.

    pip install reasoning-gym==0.1.25
    generate.py --out DIR

Four kinds of task, mixed: sums, sorting numbers, sorting words, counting a letter. Each task has `history`: SHOTS solved
tasks of its kind, as earlier turns of the conversation, the same for every task of the kind. They show the form of the
answer, so that reinforcement learning teaches the skill rather than the form. Answers to counting tasks are equally
frequent, and sorting tasks request both orders equally often. So a constant answer or a copy of the question is right
only as often as the table in docs/results/smollm2.md shows.

No task in eval.jsonl is in train.jsonl or among the solved tasks.
"""
import argparse
import collections
import json
import pathlib
import re

import reasoning_gym

SHOTS = 4
POOL = 40000  # drawn from per kind, before what repeats or is over-represented is left out


def sums(entry):
    question = re.search(r"Calculate (.*)\.", entry["question"])[1]
    return question, entry["answer"], None


def numbers(entry):
    order, listed = re.search(r"in (\w+) order: (.*)\n", entry["question"]).groups()
    plain = [str(int(float(n))) for n in listed.split(", ")]
    if len(set(plain)) < len(plain):
        return None
    answer = [str(int(float(n))) for n in re.findall(r"-?[\d.]+", entry["answer"])]
    return f"{order}: {', '.join(plain)}", ", ".join(answer), (order, plain == answer)


def words(entry):
    order, listed = re.search(r"in (\w+) order \(using.*list: (.*)\n", entry["question"]).groups()
    plain = listed.lower().split(", ")
    if len(set(plain)) < len(plain) or not all(word.isalpha() and 3 <= len(word) <= 7 for word in plain):
        return None
    answer = sorted(plain, reverse=order == "descending")
    return f"{order}: {', '.join(plain)}", ", ".join(answer), (order, plain == answer)


def letters(entry):
    letter, text = re.search(r'letter "(.)" appear in the text: "(.*)"', entry["question"]).groups()
    if not text.isalpha() or not 3 <= len(text) <= 9 or not 1 <= int(entry["answer"]) <= 3:
        return None
    return f"How many {letter} are in {text.lower()}?", entry["answer"], entry["answer"]


# name: (generator of reasoning-gym, its settings, reading of an entry -> (question, answer, class to balance) or None)
KINDS = {
    "sums": ("basic_arithmetic", dict(min_terms=2, max_terms=2, min_digits=1, max_digits=1, operators=["+"],
                                  allow_parentheses=False, allow_negation=False), sums),
    "numbers": ("number_sorting", dict(min_numbers=2, max_numbers=2, max_decimals=0, min_value=0, max_value=99), numbers),
    "words": ("word_sorting", dict(min_words=2, max_words=2), words),
    "letters": ("letter_counting", dict(min_words=1, max_words=1), letters),
}


def unique_tasks(kind, seed, wanted):
    """The first tasks without repeats, every class equally often."""
    generator, settings, read = KINDS[kind]
    data = reasoning_gym.create_dataset(generator, size=POOL, seed=seed, **settings)
    by_class, seen = collections.defaultdict(list), set()
    for index in range(POOL):
        task = read(data[index])
        if task is None or task[0] in seen:
            continue
        seen.add(task[0])
        by_class[task[2]].append(task[:2])
        # Classes of answers differ in frequency: enough of the rarest one ends the search.
        if index > 200 and min(map(len, by_class.values())) * len(by_class) >= wanted:
            break
    mixed = [task for row in zip(*by_class.values()) for task in row]
    return mixed[:wanted]


def rows(kind, tasks, history):
    for number, (question, answer) in enumerate(tasks):
        yield {"task_id": f"{kind}-{number}", "domain": kind, "history": history, "prompt": question, "answer": answer}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=int, default=600, help="training tasks of each kind; sums have fewer")
    parser.add_argument("--eval", type=int, default=48, help="held-out tasks of each kind")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    options = parser.parse_args()

    train, held_out = [], []
    for kind in KINDS:
        tasks = unique_tasks(kind, options.seed, SHOTS + options.eval + options.train)
        shots, rest = tasks[:SHOTS], tasks[SHOTS:]
        history = [message for question, answer in shots for message in (
            {"role": "user", "content": question}, {"role": "assistant", "content": answer})]
        held_out.append(list(rows(kind, rest[:options.eval], history)))
        train.append(list(rows("train-" + kind, rest[options.eval:], history)))
        for row in train[-1]:
            row["domain"] = kind

    def write(name, kinds):
        options.out.mkdir(parents=True, exist_ok=True)
        with open(options.out / name, "w", encoding="utf-8") as file:
            for index in range(max(map(len, kinds))):
                for tasks in kinds:  # one of each kind in turn
                    if index < len(tasks):
                        file.write(json.dumps(tasks[index]) + "\n")

    write("train.jsonl", train)
    write("eval.jsonl", held_out)


if __name__ == "__main__":
    main()
