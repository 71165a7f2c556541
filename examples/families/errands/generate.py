#!/usr/bin/env python3
"""Creates the family "errands": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give
the same bytes.

    user       do k m z                       2 to 5 independent look-ups
    assistant  calls assign_task({"agent": "a", "task": "k"}), assign_task({"agent": "b", "task": "m"}), ...
    tool       kc                             each sub-agent looks up its key, in two steps, and answers with the result
    assistant  kc ma zf                       the reward is the share of right words

An episode has a budget of BUDGET critical steps. With all look-ups in one turn, it needs 4. One after another, each
takes 3, so only one fits. The warm-start conversations assign all look-ups at once in one of CHOICES episodes, and only
the first one in the others, so imitating them scores 0.55 with guesses. Other conversations are a sub-agent's, because
the sub-agents use the warm-started model. easy.jsonl has the look-ups of sub-agents, for agents/tool_agent.py.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import family  # noqa: E402

SHORTEST, LONGEST, BUDGET = 2, 5, 6
LOOKUP, ASSIGN = family.tool("lookup", "key"), family.tool("assign_task", "agent", "task")


def task(rng, name, easy):
    count = 1 if easy else family.pick(rng, range(SHORTEST, LONGEST + 1))
    keys = family.sample(rng, family.KEYS, count)
    table = {key: key + family.pick(rng, family.LETTERS) for key in keys}
    prompt = keys[0] if easy else "do " + " ".join(keys)
    return {"task_id": name, "domain": "lookup" if easy else "orchestrate", "prompt": prompt, "tools": [LOOKUP], "tables": {"lookup": table},
            "answer": " ".join(table.values())}


def sub_agent(rng):
    made = task(rng, "", True)
    return {"tools": [LOOKUP], "messages": [
        family.user(made["prompt"]), family.calls(("lookup", {"key": made["prompt"]})), family.result(made["answer"]),
        family.answer(made["answer"])]}


def orchestrator(rng, parallel):
    made = task(rng, "", False)
    words = made["answer"].split() if parallel else made["answer"].split()[:1]
    assigned = [("assign_task", {"agent": "abcde"[i], "task": word[0]}) for i, word in enumerate(words)]
    return {"tools": [ASSIGN], "messages": [
        family.user(made["prompt"]), family.calls(*assigned), *(family.result(word, i) for i, word in enumerate(words)),
        family.answer(" ".join(words))]}


def conversations(rng, i):
    return [sub_agent(rng) if i % 2 else orchestrator(rng, i // 2 % family.CHOICES == 0)]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
