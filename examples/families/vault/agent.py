#!/usr/bin/env python3
"""Walks a chain of rooms with a view that holds only a few of them.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... agent.py TASK.json

TASK.json: {"start": KEY, "rooms": {KEY: TEXT}, "answer": LETTER, "capacity": 3, "prune": true, "max_turns": 24}

The model's turns are commands, as text: a tool call would be five times as long for a byte-level model.

    open KEY     the room's text: noise, then "nx KEY" or "an LETTER"; "full KEY" if the view is full, with its oldest room
    prune KEY    removes a room from the view: "ok nx KEY", with the room that was refused last

Turns of pruned rooms and refused turns are removed from the messages. With "prune": false, the prompt says so, and
`prune` is an error. Any other text is the answer. Prints {"reward": .., "signals": {..}} for the verifier
`agent_reported`.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/../../agents")
import harness  # noqa: E402

MAX_TOKENS = 16


class Vault:
    """The rooms and the view."""

    def __init__(self, rooms, capacity, can_prune):
        self.rooms, self.capacity = rooms, capacity
        self.view, self.refused = [], None  # open rooms, oldest first; the key that was refused last
        self.refusals, self.prunes = 0, 0
        self.commands = {"open": self.open, "prune": self.prune} if can_prune else {"open": self.open}

    def open(self, key):
        if key not in self.rooms:
            return "error: no such room"
        if key in self.view:
            return "error: open already"
        if len(self.view) >= self.capacity:
            self.refused = key
            self.refusals += 1
            return f"full {self.view[0]}"
        self.view.append(key)
        return self.rooms[key]

    def prune(self, key):
        if key not in self.view:
            return "error: not in view"
        self.view.remove(key)
        self.prunes += 1
        pending, self.refused = self.refused, None
        return f"ok nx {pending}" if pending else "ok"

    def command(self, text):
        """A turn's command as (name, key), or None for an answer."""
        words = text.split()
        return (words[0], words[1]) if len(words) == 2 and words[0] in ("open", "prune") else None

    def carry_out(self, name, key):
        return self.commands[name](key) if name in self.commands else "error: no such command"


class Messages:
    """The conversation: the prompt, then one entry a turn, from which pruned rooms are removed."""

    def __init__(self, task):
        prompt = f"go {task['start']}" if task.get("prune", True) else f"no prune, go {task['start']}"
        self.first, self.turns = {"role": "user", "content": prompt}, []  # turns: (messages, key of the open room or None)

    def listed(self):
        return [self.first] + [message for messages, _ in self.turns for message in messages]

    def show_only(self, view):
        """Drops the rooms that left the view, and refused turns, which are settled."""
        self.turns = [turn for turn in self.turns if turn[1] is None or turn[1] in view]


def step(vault, messages, text):
    """Carries out a turn's command. Returns its result, or None for an answer."""
    command, prunes = vault.command(text), vault.prunes
    if command is None:
        return None
    result = vault.carry_out(*command)
    shown = "" if result.startswith("full ") else command[1] if result == vault.rooms.get(command[1]) else None
    messages.turns.append(([{"role": "assistant", "content": text}, {"role": "user", "content": result}], shown))
    if vault.prunes > prunes:
        messages.show_only(vault.view)
    return result


def report(task, vault, answer, turns):
    signals = {"vault/prunes": vault.prunes, "vault/refusals": vault.refusals, "vault/turns": turns}
    if vault.refusals:  # its mean is over the episodes that met a full view
        signals["vault/prunes_per_refusal"] = vault.prunes / vault.refusals
    return harness.dumps({"reward": float(answer == task["answer"]), "signals": signals})


def play(task):
    vault, messages, model = Vault(task["rooms"], task.get("capacity", 3), task.get("prune", True)), Messages(task), harness.Model()
    for turn in range(task.get("max_turns", 24)):
        text = harness.text_of(model.ask(messages.listed(), max_tokens=MAX_TOKENS))
        if step(vault, messages, text) is None:
            return report(task, vault, text.strip(), turn + 1)
    return report(task, vault, "", task.get("max_turns", 24))


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "vault", play, {"start": str, "rooms": dict, "answer": str}, prune=bool, capacity=int, max_turns=int))
