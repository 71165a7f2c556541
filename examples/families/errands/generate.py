#!/usr/bin/env python3
"""Creates the family "errands": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give
the same bytes.

    user       do k m z                       2 to 4 independent look-ups
    assistant  calls assign_task({"agent": "a", "task": "k"}), assign_task({"agent": "b", "task": "m"}), ...
    tool       kc                             each sub-agent looks up its key, in two steps, and answers with the result
    assistant  kc ma zf                       the reward is the share of right words

An episode has a budget of BUDGET critical steps. With all look-ups in one turn, it needs 4. One after another, each
takes 3, so only two fit. The warm-start conversations assign all look-ups at once in one of CHOICES episodes, and the
first two, one after another, in the others, so imitating them takes 6.2 critical steps. As many conversations have the
prompt "all k m z" and always assign all at once: they teach to write several calls and words. Others are a sub-agent's,
because the sub-agents use the warm-started model. Every other conversation is an echo: without them, a warm start may not
learn to copy at all. easy.jsonl has look-ups of sub-agents, for agents/tool_agent.py, and prompts with "all".
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import family  # noqa: E402

SHORTEST, LONGEST, BUDGET, SERIAL = 2, 4, 7, 2
LOOKUP, ASSIGN = family.tool("lookup", "key"), family.tool("assign_task", "agent", "task")


def look_ups(rng, count):
    """Results by key."""
    return {key: key + family.pick(rng, family.LETTERS) for key in family.sample(rng, family.KEYS, count)}


def made(name, domain, prompt, table):
    return {"task_id": name, "domain": domain, "prompt": prompt, "tools": [LOOKUP], "tables": {"lookup": table}, "answer": " ".join(table.values())}


def lookup_task(rng, name):
    table = look_ups(rng, 1)
    return made(name, "lookup", *table, table)


def orchestrator_task(rng, name, verb):
    table = look_ups(rng, family.pick(rng, range(SHORTEST, LONGEST + 1)))
    return made(name, "orchestrate", " ".join([verb, *table]), table)


def task(rng, name, easy):
    if not easy:
        return orchestrator_task(rng, name, "do")
    return lookup_task(rng, name) if rng.random() < 0.5 else orchestrator_task(rng, name, "all")


def sub_agent(rng):
    made = lookup_task(rng, "")
    return {"tools": [LOOKUP], "messages": [
        family.user(made["prompt"]), family.calls(("lookup", {"key": made["prompt"]})), family.result(made["answer"]),
        family.answer(made["answer"])]}


def turns(words, parallel):
    """The orchestrator's turns, each a list of the words that its sub-agents return."""
    return [words] if parallel else [[word] for word in words[:SERIAL]]


def orchestrator(rng, verb, parallel):
    made, messages, words = orchestrator_task(rng, "", verb), [], []
    for turn in turns(made["answer"].split(), parallel):
        assigned = [("assign_task", {"agent": "abcd"[len(words) + i], "task": word[0]}) for i, word in enumerate(turn)]
        messages += [family.calls(*assigned), *(family.result(word, i) for i, word in enumerate(turn))]
        words += turn
    return {"tools": [ASSIGN], "messages": [family.user(made["prompt"]), *messages, family.answer(" ".join(words))]}


def conversations(rng, i):
    if i % 4 == 3:
        shown = sub_agent(rng)
    else:
        shown = orchestrator(rng, "all", True) if i % 4 == 2 else orchestrator(rng, "do", i // 4 % family.CHOICES == 0)
    return [shown, family.echo(rng)]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
