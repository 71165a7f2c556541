#!/usr/bin/env python3
"""Makes the family "vault": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. Same arguments, same bytes.

    user       go uz
    assistant  calls open({"key": "uz"})
    tool       483920 nx kt                   noise, then the next room or, in the last room, "an LETTER"
    ...                                       a chain of 2 to 6 rooms
    tool       full uz                        the view holds 3 rooms; uz is the oldest
    assistant  calls prune({"key": "uz"})     or gives up, and guesses a letter
    tool       ok nx pm                       the room that was refused

The conversations of the warm start prune in one of CHOICES full views and guess in the others, so imitating them scores 0.53
and only the reward shows that pruning is better. One in CHOICES conversations has no tool `prune`, for the run without it.
easy.jsonl has chains of two rooms, which a warm start must solve by greedy decoding before a run is worth its time.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import agent  # noqa: E402
import family  # noqa: E402

SHORTEST, LONGEST, CAPACITY = 2, 6, 3


def some_keys(rng, count):
    keys = []
    while len(keys) < count:
        key = family.pick(rng, family.KEYS) + family.pick(rng, family.KEYS)
        if key not in keys:
            keys.append(key)
    return keys


def task(rng, name, easy):
    keys = some_keys(rng, SHORTEST if easy else family.pick(rng, range(SHORTEST, LONGEST + 1)))
    answer = family.pick(rng, family.LETTERS)
    ends = [f"nx {key}" for key in keys[1:]] + [f"an {answer}"]
    rooms = {key: "".join(family.pick(rng, "0123456789") for _ in range(6)) + " " + end for key, end in zip(keys, ends)}
    return {"task_id": name, "start": keys[0], "rooms": rooms, "answer": answer, "prune": True}


def next_turn(result, prunes):
    """The turn that follows a result: (tool, key), or None for an answer."""
    words = result.split()
    if words[0] == "full":
        return ("prune", words[1]) if prunes else None
    return ("open", words[-1]) if words[-2] == "nx" else None


def episode(rng, made, with_prune):
    """An episode as conversations: a prune rewrites the messages, so a new one begins, whose earlier turns are context."""
    vault = agent.Vault(made["rooms"], CAPACITY, with_prune)
    tools = [agent.OPEN, agent.PRUNE] if with_prune else [agent.OPEN]
    messages, turn, shown, rows = agent.Messages(f"go {made['start']}"), ("open", made["start"]), 0, []

    def trained():
        listed = messages.listed()
        return [m if i >= shown or m["role"] != "assistant" else {**m, "weight": 0} for i, m in enumerate(listed)]

    while turn:
        reply, prunes = family.calls((turn[0], {"key": turn[1]})), vault.prunes
        before = trained() + [reply]
        agent.step(vault, messages, reply)
        if vault.prunes > prunes:
            rows.append({"messages": before, "tools": tools})
            shown = len(messages.listed())
        result = messages.listed()[-1]["content"]
        turn = next_turn(result, with_prune and rng.random() * family.CHOICES < 1)
    answer = family.pick(rng, family.LETTERS) if result.startswith("full") else result.split()[-1]
    return rows + [{"messages": trained() + [family.answer(answer)], "tools": tools}]


def conversations(rng, i):
    return episode(rng, task(rng, "", False), i % family.CHOICES > 0)


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
