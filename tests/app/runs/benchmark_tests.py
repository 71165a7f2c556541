#!/usr/bin/env python3
"""A public benchmark through `ingot eval`: benchmark_tests.py BINARY SOURCE CASE.

Cases: reasoning_gym (the rewards equal the package's own scores of the same answers, for a model's answers and for prepared
ones that are right, partly right, and wrong). The package is installed into build/peers-reasoning-gym.
"""
import json
import pathlib
import subprocess
import sys

from ingot_runs import check, main, skip

PACKAGE = "reasoning-gym==0.1.25"
SETS = ("chain_sum", "gcd", "letter_counting", "spell_backward")
SIZE = 6
SMALL = {"model.path": "", "model.chat_format": "hermes", "model.hidden_size": 32, "model.intermediate_size": 64, "model.layers": 1,
         "model.heads": 2, "model.kv_heads": 1, "model.head_dim": 16, "model.context_length": 2048, "rollout.context_length": 0,
         "scheduler.total_steps": 1, "scheduler.groups_per_step": 1, "scheduler.group_size": 2, "scheduler.drop_zero_variance": "false",
         "eval.avg_n": 2, "gateway.max_new_tokens": 24, "agents.concurrency": 4, "http.port": 0}

# Makes one call, as every agent does, and prints what the task says.
PREPARED = """
import json, os, sys, urllib.request
said = json.load(open(sys.argv[1]))["said"]
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
urllib.request.urlopen(request).read()
sys.stdout.write(said)
"""
# The package alone: a score for each line [dataset, seed, size, index, answer].
SCORER = """
import json, sys, reasoning_gym
from reasoning_gym.utils import extract_answer
for line in sys.stdin:
    name, seed, size, index, answer = json.loads(line)
    data = reasoning_gym.create_dataset(name, seed=seed, size=size)
    print(json.dumps([data.score_answer(extract_answer(answer), data[index]), data[index]["answer"]]))
"""


def install(source):
    """The Python that has the package."""
    place = pathlib.Path(source).resolve() / "build/peers-reasoning-gym"
    python = place / "bin/python"
    has = [python, "-c", "import reasoning_gym"]
    if not python.exists() or subprocess.run(has, capture_output=True, check=False).returncode != 0:
        subprocess.run(["/usr/bin/python3", "-m", "venv", place], check=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            skip(f"{PACKAGE} could not be installed: {done.stderr[-300:]}")
    return str(python)


def score_all(python, rows):
    """(score, reference answer) of each row by the package alone."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([python, "-W", "ignore", "-c", SCORER], input=lines, capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def key_of(task):
    return [task[name] for name in ("dataset", "seed", "size", "index")]


def prepare_answers(python, path):
    """Adds a field with an answer to each task: right, around the right one, wrong, and none at all, in turn."""
    tasks = [json.loads(line) for line in path.read_text().splitlines()]
    for i, (task, (_, right)) in enumerate(zip(tasks, score_all(python, [[*key_of(task), ""] for task in tasks]))):
        task["said"] = (f"so <answer>{right}</answer>", f"<answer>about {right}</answer>", "<answer>no idea</answer>", right)[i % 4]
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))


def case_reasoning_gym(ingot):
    """The rewards of `ingot eval` are reasoning-gym's own scores."""
    python, folder = install(ingot.source), pathlib.Path(ingot.folder)
    subprocess.run([python, "-W", "ignore", "examples/reasoning_gym/prepare.py", folder / "tasks", "--size", str(SIZE), "--train", "2"],
                   cwd=ingot.source, check=True)
    for name in SETS:
        prepare_answers(python, folder / f"tasks/{name}.jsonl")
    (folder / "prepared.py").write_text(PREPARED)
    ingot.config = "examples/reasoning_gym/run.yaml"
    settings = {**SMALL, "python": python, "data.tasks": folder / "tasks/train.jsonl",
                "eval.tasks": "{" + ", ".join(f"{name}: {folder}/tasks/{name}.jsonl" for name in SETS) + "}"}
    code, output = ingot.run("train", {**settings, "eval.tasks": ""})
    check(code == 0, output)

    verifier = {"kind": "python", "python": {"function": "examples/reasoning_gym/score.py:score"}}
    recipes = [{"name": "single_call", "verifier": verifier, "files": {"task.json": '{"system": ${json:task.system}, "prompt": ${json:task.prompt}}'},
                "command": ["/usr/bin/python3", "-I", "-S", "${cwd}/examples/reasoning_gym/agent.py", "task.json"]},
               {"name": "prepared", "verifier": verifier, "files": {"task.json": '{"said": ${json:task.said}}'},
                "command": ["/usr/bin/python3", "-I", "-S", f"{folder}/prepared.py", "task.json"]}]
    checkpoint = folder / "reasoning_gym/checkpoints/step-00000001"
    scaffolds = ("--scaffold", "single_call", "--scaffold", "prepared")
    done = ingot.ask(("eval", "--json", *scaffolds, checkpoint), {**settings, "agents.recipes": json.dumps(recipes)}, timeout=600)
    check(done.returncode == 0, done)
    rows = json.loads(done.stdout)["rows"]
    means = {}
    for scaffold in ("single_call", "prepared"):
        episodes = [json.loads(line) for line in
                    ingot.inspect(f"reasoning_gym-eval/step-00000001@{scaffold}", "--json", "--limit", "0").splitlines()]
        check(len(episodes) == 2 * SIZE * len(SETS), f"{len(episodes)} episodes of {scaffold}")
        asked = []
        for tree in episodes:
            task = json.loads(tree["episode"]["task"]["payloadJson"])
            said = task["said"] if scaffold == "prepared" else json.loads(tree["calls"][-1]["deliveredJson"])["content"] or ""
            asked.append([*key_of(task), said])
        scores = [score for score, _ in score_all(python, asked)]
        for tree, score, row in zip(episodes, scores, asked):
            check(tree["episode"].get("reward", 0) == score, f"{scaffold}: {row} got {tree['episode']}, and the package's score is {score}")
        means[scaffold] = sum(scores) / len(scores)
        (all_sets,) = [row for row in rows if row["scaffold"] == scaffold and row["set"] == ""]
        check(abs(all_sets["avg"]["mean"] - means[scaffold]) < 1e-9, f"{all_sets} and {means}")
    print(f"equal to reasoning-gym's scores: {means}")
    check(0.2 < means["prepared"] < 0.8, "the prepared answers do not differ in their scores")


if __name__ == "__main__":
    main(case_reasoning_gym)
