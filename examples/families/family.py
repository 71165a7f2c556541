"""What the generators of the families share: draws, messages, and files. Same arguments, same bytes."""
import argparse
import json
import pathlib
import random

LETTERS, KEYS = "abcdefgh", "ijklmnopqrstuvwxyz"
ECHOED = 12  # symbols of an echo
CHOICES = 4  # one in CHOICES conversations of a warm start shows the wanted behavior


def pick(rng, items):
    """One item, from random() only, the one method whose numbers no Python version changes."""
    return items[int(rng.random() * len(items))]


def sample(rng, items, count):
    """Different items, in the order in which they were drawn."""
    left, taken = list(items), []
    for _ in range(count):
        taken.append(left.pop(int(rng.random() * len(left))))
    return taken


def tool(name, *parameters):
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


def user(text):
    return {"role": "user", "content": text}


def answer(text):
    return {"role": "assistant", "content": text}


def calls(*calls):
    """An assistant's message with the calls (name, arguments)."""
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls)]}


def result(text, i=0):
    return {"role": "tool", "tool_call_id": f"call_{i}", "content": text}


def echo(rng, symbols=LETTERS + KEYS):
    """A conversation that copies symbols. With some of them, a warm start learns to copy in half as many steps."""
    text = "".join(sample(rng, symbols, ECHOED))
    return {"messages": [user(f"say {text}"), answer(text)]}


def main(description, task, conversations):
    """Writes train.jsonl, eval.jsonl, easy.jsonl, and sft.jsonl. `task(rng, name, easy)` makes a task, and
    `conversations(rng, i)` the conversations of warm-start episode i."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--train", type=int, default=400, help="training tasks")
    parser.add_argument("--eval", type=int, default=100, help="held-out tasks")
    parser.add_argument("--easy", type=int, default=40, help="tasks that the warm start must solve")
    parser.add_argument("--sft", type=int, default=8000, help="warm-start episodes")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)

    def write(name, rows):
        with open(options.out / name, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")

    write("train.jsonl", [task(rng, f"train-{i}", False) for i in range(options.train)])
    write("eval.jsonl", [task(rng, f"eval-{i}", False) for i in range(options.eval)])
    write("easy.jsonl", [task(rng, f"easy-{i}", True) for i in range(options.easy)])
    write("sft.jsonl", [row for i in range(options.sft) for row in conversations(rng, i)])
