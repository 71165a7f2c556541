#!/usr/bin/env python3
"""Creates the family "vault": train.jsonl, easy.jsonl, eval.jsonl, and sft.jsonl in --out. The same arguments give the
same bytes.

    user       go u
    assistant  open u
    user       48 nx k                         noise, then the next room or, in the last room, "an LETTER"
    ...                                       a chain of 2 to 6 rooms
    user       full u                         the view holds 3 rooms; u is the oldest
    assistant  prune u                        or gives up, with "?"
    user       ok nx p                         the room that was refused

The warm-start conversations prune in one of CHOICES full views and give up in the others. So imitating them scores
0.47, and only the reward shows that pruning is better. One in CHOICES conversations may not prune, for the run without
pruning. Half of the conversations have two rooms, so that answers are copied often. easy.jsonl has chains of two rooms.
The warm start must solve them with greedy decoding before it is worth starting a run.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import agent  # noqa: E402
import family  # noqa: E402

SHORTEST, LONGEST, CAPACITY, GIVE_UP = 2, 6, 3, "?"


def task(rng, name, easy):
    keys = family.sample(rng, family.KEYS, SHORTEST if easy else family.pick(rng, range(SHORTEST, LONGEST + 1)))
    answer = family.pick(rng, family.KEYS)
    ends = [f"nx {key}" for key in keys[1:]] + [f"an {answer}"]
    rooms = {key: "".join(family.pick(rng, "0123456789") for _ in range(2)) + " " + end for key, end in zip(keys, ends)}
    return {"task_id": name, "start": keys[0], "rooms": rooms, "answer": answer, "prune": True}


def next_turn(result, prunes):
    """The turn that follows a result: a command, or None for an answer."""
    words = result.split()
    if words[0] == "full":
        return f"prune {words[1]}" if prunes else None
    return f"open {words[-1]}" if words[-2] == "nx" else None


def episode(rng, made):
    """An episode as conversations: a prune rewrites the messages, so a new one begins, whose earlier turns are context."""
    vault, messages = agent.Vault(made["rooms"], CAPACITY, made["prune"]), agent.Messages(made)
    turn, shown, rows = f"open {made['start']}", 0, []

    def trained():
        listed = messages.listed()
        return [m if i >= shown or m["role"] != "assistant" else {**m, "weight": 0} for i, m in enumerate(listed)]

    while turn:
        before, prunes = trained() + [family.answer(turn)], vault.prunes
        result = agent.step(vault, messages, turn)
        if vault.prunes > prunes:
            rows.append({"messages": before})
            shown = len(messages.listed())
        turn = next_turn(result, made["prune"] and rng.random() * family.CHOICES < 1)
    answer = GIVE_UP if result.startswith("full") else result.split()[-1]
    return rows + [{"messages": trained() + [family.answer(answer)]}]


def conversations(rng, i):
    return [*episode(rng, {**task(rng, "", i // family.CHOICES % 2 == 0), "prune": i % family.CHOICES > 0}), family.echo(rng)]


if __name__ == "__main__":
    family.main(__doc__.splitlines()[0], task, conversations)
