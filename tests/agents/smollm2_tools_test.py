#!/usr/bin/env python3
"""The tool tasks of examples/smollm2/tools.py, without SmolLM2: smollm2_tools_test.py EXAMPLES_DIR [CASE...]."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scripted_model import call, check, run, say  # noqa: E402

EXAMPLES = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(EXAMPLES / "smollm2"))
import tools  # noqa: E402

TASKS = 3000


def made(kind):
    rng = random.Random(1)
    return [tools.task(rng, str(i), kind) for i in range(TASKS)]


def case_shortcuts():
    """The complete look-ups earn everything, and what leaves one out earns nothing but by chance."""
    rng = random.Random(2)
    for kind in tools.KINDS:
        tasks = made(kind)

        def share(answer):
            return sum(answer(task) == task["answer"] for task in tasks) / TASKS

        def any_number(task):
            return tools.sample(rng, task["tables"]["apples"].values(), 1)[0]

        constant = max(share(lambda _, n=n: str(n)) for n in range(1, 100))
        for name, value, low, high in (("complete", share(lambda task: tools.plan(task, True)[1]), 1, 1),
                                       ("one look-up left out", share(lambda task: tools.plan(task, False)[1]), 0, 0),
                                       ("a person of the prompt", share(lambda task: task["tables"]["apples"][task["people"][0]]), 0, 0),
                                       ("any number of the table", share(any_number), 0, 0.2),
                                       ("the best constant", constant, 0, 0.13)):
            print(f"  {kind}, {name}: {value:.3f}")
            check(low <= value <= high, f"{kind}, {name}: {value:.3f}, wanted {low} to {high}")


def case_agent():
    """The agent carries out the calls of a plan, in as many turns, and answers."""
    for kind, number in (("friend", 2), ("friends", 3), ("sum", 2)):
        task = made(kind)[0]
        calls, answer = tools.plan(task, True)
        check(len(calls) == number, f"{kind} has {number} calls: {calls}")
        script = [call((name, {"of": person})) for name, person in calls] + [say(answer)]
        done, model = run(EXAMPLES / "agents/tool_agent.py", script, {**task, "max_turns": 5})
        check(done.returncode == 0 and done.stdout == task["answer"] + "\n", done)
        check(model.results() == [task["tables"][name][person] for name, person in calls], model.results())
        check(model.requests[0]["tools"] == tools.TOOLS, "the tools are offered")
    done, model = run(EXAMPLES / "agents/tool_agent.py", [call(("friend", {"of": "Nobody"})), say("5")],
                      {**task, "max_turns": 5})
    check(model.results() == ["error: not found"] and done.stdout == "5\n", done)


def case_files():
    """The same arguments give the same bytes. One in CHOICES conversations has all look-ups, and no held-out task is trained on."""
    with tempfile.TemporaryDirectory() as folder:
        both = []
        for i in range(2):
            out = pathlib.Path(folder, str(i))
            subprocess.run([sys.executable, str(EXAMPLES / "smollm2/tools.py"), "--out", str(out)], check=True)
            both.append({path.name: path.read_bytes() for path in out.iterdir()})
    check(both[0] == both[1] and set(both[0]) == {"train.jsonl", "eval.jsonl", "sft.jsonl"}, both[0].keys())
    train, held_out, sft = ([json.loads(line) for line in both[0][name].splitlines()] for name in ("train.jsonl", "eval.jsonl", "sft.jsonl"))
    check((len(train), len(held_out), len(sft)) == (300, 96, 900), (len(train), len(held_out), len(sft)))
    trained = {json.dumps((task["prompt"], task["tables"])) for task in train}
    check(not any(json.dumps((task["prompt"], task["tables"])) in trained for task in held_out), "no held-out task is trained on")
    check({task["domain"] for task in held_out} == set(tools.KINDS), "all kinds are held out")
    numbers = [sum(message["role"] == "tool" for message in row["messages"]) for row in sft]
    wanted = {"friend": 2, "friends": 3, "sum": 2}
    complete = [number == wanted[tools.KINDS[i % 3]] for i, number in enumerate(numbers)]
    check(sum(complete) == 300 and all(sum(complete[i::3]) == 100 for i in range(3)), "a third of each kind is complete")


def main():
    for name in sys.argv[2:] or [name[5:] for name in globals() if name.startswith("case_")]:
        print(name)
        globals()["case_" + name]()


if __name__ == "__main__":
    main()
