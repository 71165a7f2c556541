#!/usr/bin/env python3
"""Creates the tool tasks of run-tools.yaml: train.jsonl, eval.jsonl, and sft.jsonl. The same arguments give the same bytes.

    tools.py --out DIR

    user       How many apples does the friend of Tom have?
    assistant  calls friend({"of": "Tom"})
    tool       Anna
    assistant  calls apples({"of": "Anna"})
    tool       47
    assistant  47

Three kinds, mixed: `friend` as above, `friends` with the friend of a friend (three calls), and `sum` with the apples of two
people together (two calls and an addition). Each task has its own tables, so nothing can be memorized. Without one of the calls,
no answer is right except by a guess. The agent is examples/agents/tool_agent.py.

In the conversations of sft.jsonl, all look-ups are made in one of CHOICES, and the last friend or the second person is left out
in the others. So a model that imitates them is wrong in most tasks: reinforcement learning must find out which ones pay.
"""
import argparse
import json
import pathlib
import random

CHOICES = 3
PEOPLE = 6
NAMES = ["Anna", "Tom", "Mary", "Jack", "Lisa", "Paul", "Emma", "Mark", "Kate", "Adam", "Rose", "John", "Lucy", "Peter", "Sara",
         "David", "Jane", "Frank", "Alice", "Henry"]
KINDS = ("friend", "friends", "sum")


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {"of": {"type": "string"}}}}}


TOOLS = [tool("friend"), tool("apples")]


def sample(rng, items, count):
    """Different items, in the order in which they were drawn. Uses random() only, whose numbers no Python version changes."""
    left, taken = list(items), []
    for _ in range(count):
        taken.append(left.pop(int(rng.random() * len(left))))
    return taken


def task(rng, name, kind):
    people = sample(rng, NAMES, PEOPLE)
    numbers = sample(rng, range(1, 10) if kind == "sum" else range(10, 100), PEOPLE)
    friend = {person: people[(i + 1) % PEOPLE] for i, person in enumerate(people)}
    apples = dict(zip(people, numbers))
    if kind == "sum":
        prompt = f"How many apples do {people[0]} and {people[3]} have together?"
        answer = numbers[0] + numbers[3]
    else:
        hops = 1 if kind == "friend" else 2
        prompt = f"How many apples does {'the friend of ' * hops}{people[0]} have?"
        answer = numbers[hops]
    tables = {"friend": dict(sorted(friend.items())), "apples": {name: str(n) for name, n in sorted(apples.items())}}
    return {"task_id": name, "domain": kind, "prompt": prompt, "people": [people[0], people[3]], "tools": TOOLS,
            "tables": tables, "answer": str(answer)}


def plan(task, complete):
    """The calls (tool, person) that the task needs, and the answer after them. Without `complete`, one look-up is left out."""
    friend, apples = task["tables"]["friend"], task["tables"]["apples"]
    person, other = task["people"]
    if task["domain"] == "sum":
        calls = [("apples", person)] + [("apples", other)] * complete
        return calls, str(sum(int(apples[one]) for _, one in calls))
    calls = []
    for _ in range({"friend": 1, "friends": 2}[task["domain"]] - (not complete)):
        calls.append(("friend", person))
        person = friend[person]
    return calls + [("apples", person)], apples[person]


def conversation(task, complete):
    calls, answer = plan(task, complete)
    messages = [{"role": "user", "content": task["prompt"]}]
    for i, (name, person) in enumerate(calls):
        messages += [{"role": "assistant", "content": None, "tool_calls": [{
            "id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps({"of": person})}}]},
            {"role": "tool", "tool_call_id": f"call_{i}", "content": task["tables"][name][person]}]
    return {"messages": [*messages, {"role": "assistant", "content": answer}], "tools": TOOLS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--train", type=int, default=300, help="training tasks, one in three of each kind")
    parser.add_argument("--eval", type=int, default=96, help="held-out tasks")
    parser.add_argument("--sft", type=int, default=900, help="warm-start conversations")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)

    def tasks(name, count):
        return [task(rng, f"{name}-{i}", KINDS[i % len(KINDS)]) for i in range(count)]

    def write(name, rows):
        with open(options.out / name, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")

    train, held_out = tasks("train", options.train), tasks("eval", options.eval)
    write("train.jsonl", train)
    write("eval.jsonl", held_out)
    shown = tasks("sft", options.sft)
    write("sft.jsonl", [conversation(one, i // len(KINDS) % CHOICES == 0) for i, one in enumerate(shown)])


if __name__ == "__main__":
    main()
