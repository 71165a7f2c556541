#!/usr/bin/env python3
"""The families of examples/families are as hard as their pages say: families_test.py EXAMPLES_DIR [CASE...].

Each case plays TASKS tasks by fixed policies, with the family's own rules and without a model. A constant answer, a copy of the
prompt, a random answer, and every shortcut stay below a bound, and the wanted behavior earns everything.
"""
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scripted_model import check, run, say  # noqa: E402

EXAMPLES = pathlib.Path(sys.argv[1]).resolve()
sys.path[:0] = [str(EXAMPLES / "families"), str(EXAMPLES / "agents")]
import family  # noqa: E402

TASKS = 1000


def load(path):
    """A module of a family, under a name of its own: each has an agent.py and a generate.py."""
    for name in ("agent", "generate"):
        sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location("_".join(path.parts[-2:])[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mean(rewards):
    rewards = list(rewards)
    return sum(rewards) / len(rewards)


def within(name, rewards, low, high):
    value = mean(rewards)
    print(f"  {name}: {value:.3f}")
    check(low <= value <= high, f"{name}: {value:.3f}, wanted {low} to {high}")


def case_vault():
    generate = load(EXAMPLES / "families/vault/generate.py")
    agent, rng = generate.agent, random.Random(1)
    tasks = [generate.task(rng, str(i), False) for i in range(TASKS)]

    def walk(task, prunes, gives_up=lambda: generate.GIVE_UP):
        """The answer of a policy that prunes a full view with probability `prunes` and else answers what `gives_up` returns."""
        vault, messages = agent.Vault(task["rooms"], generate.CAPACITY, True), agent.Messages(task)
        turn, result = f"open {task['start']}", ""
        while turn:
            result = agent.step(vault, messages, turn)
            turn = generate.next_turn(result, rng.random() < prunes)
        return gives_up() if result.startswith("full") else result.split()[-1]

    within("constant", (task["answer"] == "k" for task in tasks), 0, 0.1)
    within("copied", (task["answer"] == task["start"] for task in tasks), 0, 0.1)
    within("random", (task["answer"] == family.pick(rng, family.KEYS) for task in tasks), 0, 0.1)
    within("guesses at a full view", (task["answer"] == walk(task, 0, lambda: family.pick(rng, family.KEYS)) for task in tasks), 0.38, 0.48)
    within("never prunes", (task["answer"] == walk(task, 0) for task in tasks), 0.36, 0.44)
    within("imitates the warm start", (task["answer"] == walk(task, 0.25) for task in tasks), 0.42, 0.51)
    within("always prunes", (task["answer"] == walk(task, 1) for task in tasks), 1, 1)


def case_ledger():
    generate = load(EXAMPLES / "families/ledger/generate.py")
    rng = random.Random(2)
    tasks = [generate.task(rng, str(i), False) for i in range(TASKS)]

    def read(task, keep, guesses=True):
        summary = []
        for page in task["pages"]:
            summary = generate.agent.first_facts(" ".join(keep(summary, page.split()))).split()
        return generate.answer_from(summary, task, guess(task) if guesses else generate.GIVE_UP) == task["answer"]

    def guess(task):
        return task["question"] + family.pick(rng, family.LETTERS)

    def keep_any(summary, page):
        return family.sample(rng, summary + page, generate.agent.KEPT)

    def imitate(task):
        return read(task, generate.policy(int(rng.random() * 8)), False)

    within("constant", (task["answer"] == task["question"] + "a" for task in tasks), 0, 0.15)
    within("copied", (task["answer"] == task["question"] for task in tasks), 0, 0)
    within("random", (task["answer"] == guess(task) for task in tasks), 0, 0.15)
    within("empty summaries", (read(task, lambda *_: []) for task in tasks), 0, 0.15)
    within("keeps the first 4", (read(task, generate.keep_first) for task in tasks), 0.36, 0.47)
    within("keeps the last 4", (read(task, generate.keep_last) for task in tasks), 0.36, 0.47)
    within("keeps any 4", (read(task, keep_any) for task in tasks), 0.3, 0.47)
    within("imitates the warm start", (imitate(task) for task in tasks), 0.45, 0.56)
    within("keeps the marked", (read(task, generate.keep_marked) for task in tasks), 1, 1)


def case_errands():
    generate = load(EXAMPLES / "families/errands/generate.py")
    import orchestrator

    class Worker(orchestrator.SubAgent):
        """Looks up its task, in two calls."""
        def work(self, text):
            self.calls += 2
            return self.settings["tables"]["lookup"][text]

    orchestrator.SubAgent, rng = Worker, random.Random(3)
    tasks = [generate.task(rng, str(i), False) for i in range(TASKS)]
    steps = []

    def play(task, turns):
        """The reward of a policy that assigns the look-ups in `turns`, each a list of (agent, key), then answers."""
        team, words = orchestrator.Orchestrator({"create_on_assign": True, "sub_agent": {"tables": task["tables"]}}), []
        for turn in turns:
            messages = team.turn(family.calls(*(("assign_task", {"agent": a, "task": key}) for a, key in turn))["tool_calls"])
            words += [message["content"] for message in messages]
        team.turn([])
        steps.append(team.critical_steps())
        words += [key + family.pick(rng, family.LETTERS) for key in keys(task)[len(words):]]  # a guess for the others
        within_budget = team.critical_steps() <= generate.BUDGET
        return within_budget * orchestrator.score({"answer": task["answer"], "score": "words"}, " ".join(words))

    def keys(task):
        return task["prompt"].split()[1:]

    def serial(task, count):
        return play(task, [[("a", key)] for key in keys(task)[:count]])

    def parallel(task):
        return play(task, [[(str(i), key) for i, key in enumerate(keys(task))]])

    within("copied", (orchestrator.score({"answer": t["answer"], "score": "words"}, t["prompt"]) for t in tasks), 0, 0)
    within("constant", (orchestrator.score({"answer": t["answer"], "score": "words"}, "ia ja ka la") for t in tasks), 0, 0.05)
    within("assigns nothing", (play(task, []) for task in tasks), 0, 0.15)
    within("one after another", (serial(task, 9) for task in tasks), 0.28, 0.38)
    within("only the first", (serial(task, 1) for task in tasks), 0.4, 0.5)
    within("all to one sub-agent", (play(t, [[("a", key) for key in keys(t)]]) for t in tasks), 0.28, 0.4)
    steps.clear()
    within("the first two, one after another", (serial(task, 2) for task in tasks), 0.7, 0.8)
    within("critical steps", steps, 7, 7)
    steps.clear()
    within("imitates the warm start", (parallel(t) if rng.random() < 0.25 else serial(t, 2) for t in tasks), 0.76, 0.86)
    within("critical steps", steps, 6, 6.5)
    steps.clear()
    within("all at the same time", (parallel(task) for task in tasks), 1, 1)
    within("critical steps", steps, 4, 4)


def retrieval(task, seen, returned, beta):
    """The reward term of Context-1, without prunes and late turns."""
    relevant, found = set(task["relevant_ids"]), set(returned) & set(seen)
    right = len(found & relevant)
    precision, recall = right / max(1, len(set(returned))), right / len(relevant)
    below = beta ** 2 * precision + recall
    f_beta = (1 + beta ** 2) * precision * recall / below if below else 0
    return 0.7 * f_beta + 0.3 * len(relevant & set(seen)) / len(relevant) + bool(found & set(task["answer_ids"]))


def case_hunt():
    generate = load(EXAMPLES / "families/hunt/generate.py")
    from corpus import Corpus

    rng = random.Random(4)
    tasks = [generate.task(rng, str(i), False) for i in range(TASKS)]

    def play(task, searches, choose, beta=4):
        """The reward after `searches` searches along the chain. `choose(seen)` gives the returned ids."""
        context = generate.pruner.Context({**generate.SETTINGS, "question": task["question"]})
        searcher = generate.pruner.Searcher(generate.SETTINGS, Corpus.of(task["chunks"]), context)
        query = task["question"].split()[-1]
        for turn in range(searches):
            searcher.search({"query": query})
            query = task["relevant_ids"][turn]
        return retrieval(task, searcher.seen, choose(task, list(searcher.seen)), beta)

    def everything(_, seen):
        return seen

    def chain(task, seen):
        return [id for id in task["relevant_ids"] if id in seen]

    def some(_, seen):
        return family.sample(rng, seen, 3)

    few = tasks[:TASKS // 2]
    within("returns nothing", (play(task, 1, lambda *_: []) for task in few), 0, 0.11)
    within("constant ids", (retrieval(task, ["a", "b", "c"], ["a", "b", "c"], 4) for task in tasks), 0, 0.4)
    within("one search, all returned", (play(task, 1, everything) for task in few), 0.2, 0.6)
    within("one search, the right one", (play(task, 1, chain) for task in few), 0.2, 0.6)
    within("two searches, all returned", (play(task, 2, everything) for task in few), 0.4, 0.75)
    within("two searches, the right ones", (play(task, 2, chain) for task in few), 0.4, 0.75)
    within("three searches, three of them", (play(task, 3, some) for task in few), 0.3, 0.8)
    within("three searches, all returned", (play(task, 3, everything) for task in few), 1.7, 1.9)
    within("three searches, all returned, last beta", (play(task, 3, everything, 2) for task in few), 1.5, 1.75)
    within("three searches, the right ones", (play(task, 3, chain) for task in few), 2, 2.0001)


VAULT = {"start": "i", "capacity": 2, "rooms": {"i": "1 nx j", "j": "2 nx k", "k": "3 an c"}, "answer": "c"}


def case_vault_agent():
    agent = EXAMPLES / "families/vault/agent.py"
    done, model = run(agent, [say(text) for text in ("open i", "open j", "open k", "prune i", "open k", "c ")], VAULT)
    check(json.loads(done.stdout) == {"reward": 1, "signals": {"vault/prunes": 1, "vault/refusals": 1, "vault/turns": 6,
                                                              "vault/prunes_per_refusal": 1}}, done)
    check(model.requests[3]["messages"][-1]["content"] == "full i", model.requests[3])
    view = [message["content"] for message in model.requests[4]["messages"]]
    check(view == ["go i", "open j", "2 nx k", "prune i", "ok nx k"], f"the pruned room and the refused turn leave: {view}")

    done, model = run(agent, [say(text) for text in ("prune i", "open z", "open i", "open i", "a")], {**VAULT, "prune": False})
    results = [message["content"] for message in model.requests[-1]["messages"]][2::2]
    check(results == ["error: no such command", "error: no such room", "1 nx j", "error: open already"], results)
    check(model.requests[0]["messages"][0]["content"] == "no prune, go i" and json.loads(done.stdout)["reward"] == 0, done)
    done, _ = run(agent, lambda *_: say("prune i"), {**VAULT, "max_turns": 3})
    check(json.loads(done.stdout)["reward"] == 0, "an agent that never answers earns nothing")


def case_ledger_agent():
    agent, task = EXAMPLES / "families/ledger/agent.py", {"pages": ["ia Jb", "kc Ld"], "question": "J", "answer": "Jb"}
    done, model = run(agent, [say("Jb ia xa ya za"), say("Jb"), say("Jb")], task)
    check([request["messages"][0]["content"] for request in model.requests]
          == ["ia Jb", "Jb ia xa ya\nkc Ld", "Jb\nask J"], model.requests)
    check(json.loads(done.stdout) == {"reward": 1, "signals": {"ledger/marked_kept": 0.5, "ledger/summaries": 2,
                                                              "ledger/empty_summaries": 0}}, done)
    done, model = run(agent, [say(""), say(""), say("x")], task)
    check(model.requests[2]["messages"][0]["content"] == "ask J", "an empty summary leaves the question alone")
    check(json.loads(done.stdout)["signals"]["ledger/empty_summaries"] == 2, done)


def case_files():
    """The same arguments give the same bytes, and every conversation ends with the model's turn."""
    for name in ("vault", "ledger", "errands", "hunt"):
        with tempfile.TemporaryDirectory() as folder:
            made = []
            for i in range(2):
                out = pathlib.Path(folder, str(i))
                subprocess.run([sys.executable, str(EXAMPLES / f"families/{name}/generate.py"), "--out", str(out), "--train", "20",
                                "--eval", "5", "--easy", "5", "--sft", "40"], check=True)
                made.append({path.name: path.read_bytes() for path in out.iterdir()})
            check(made[0] == made[1] and set(made[0]) == {"train.jsonl", "eval.jsonl", "easy.jsonl", "sft.jsonl"}, name)
            rows = [json.loads(line) for line in made[0]["sft.jsonl"].splitlines()]
            check(len(rows) >= 40 and all(row["messages"][-1]["role"] == "assistant" for row in rows), name)
            ids = [json.loads(line)["task_id"] for file in ("train.jsonl", "eval.jsonl") for line in made[0][file].splitlines()]
            check(len(set(ids)) == 25, f"{name}: the tasks' ids differ")


def main():
    for name in sys.argv[2:] or [name[5:] for name in globals() if name.startswith("case_")]:
        print(name)
        globals()["case_" + name]()


if __name__ == "__main__":
    main()
