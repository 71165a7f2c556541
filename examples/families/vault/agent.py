#!/usr/bin/env python3
"""Walks a chain of rooms with a view that holds only a few of them.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... agent.py TASK.json

TASK.json: {"start": KEY, "rooms": {KEY: TEXT}, "answer": LETTER, "capacity": 3, "prune": true, "max_turns": 24}

    open(key)    the room's text: noise, then "nx KEY" or "an LETTER"; "full KEY" if the view is full, with its oldest room
    prune(key)   removes a room from the view: "ok nx KEY", with the room that was refused last

A pruned room's call and result leave the messages, and so does the refused call. Without `prune`, that tool is not offered.
The episode ends with the first answer without a call. Prints {"reward": .., "signals": {..}} for the verifier
`agent_reported`.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/../../agents")
import harness  # noqa: E402

MAX_TOKENS = 96


def tool(name):
    return {"type": "function", "function": {
        "name": name, "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}}


OPEN, PRUNE = tool("open"), tool("prune")


class Vault:
    """The rooms and the view. open() and prune() are the tools."""

    def __init__(self, rooms, capacity, can_prune):
        self.rooms, self.capacity = rooms, capacity
        self.view, self.refused = [], None  # open rooms, oldest first; the key that was refused last
        self.refusals, self.prunes = 0, 0
        self.tools = {"open": self.open, "prune": self.prune} if can_prune else {"open": self.open}

    def open(self, arguments):
        key = harness.argument(arguments, "key")
        if key not in self.rooms:
            raise harness.Refused("error: no such room")
        if key in self.view:
            raise harness.Refused("error: open already")
        if len(self.view) >= self.capacity:
            self.refused = key
            self.refusals += 1
            return f"full {self.view[0]}"
        self.view.append(key)
        return self.rooms[key]

    def prune(self, arguments):
        key = harness.argument(arguments, "key")
        if key not in self.view:
            raise harness.Refused("error: not in view")
        self.view.remove(key)
        self.prunes += 1
        pending, self.refused = self.refused, None
        return f"ok nx {pending}" if pending else "ok"


class Messages:
    """The conversation: the prompt, then one entry a turn, from which pruned rooms are removed."""

    def __init__(self, prompt):
        self.first, self.turns = {"role": "user", "content": prompt}, []  # turns: (messages, key of the open room or None)

    def listed(self):
        return [self.first] + [message for messages, _ in self.turns for message in messages]

    def add(self, messages, key):
        self.turns.append((messages, key))

    def show_only(self, view):
        """Drops the rooms that left the view, and refused calls that are settled."""
        self.turns = [turn for turn in self.turns if turn[1] is None or turn[1] in view]


def room_of(vault, call, result):
    """The room that a turn shows, "" for a refused call, None for any other turn."""
    if result.startswith("full "):
        return ""
    try:
        name, arguments = harness.read_call(call)
    except harness.Refused:
        return None
    key = arguments.get("key")
    return key if name == "open" and key in vault.view and result == vault.rooms[key] else None


def step(vault, messages, reply):
    """Carries out one call of a turn; the others are dropped."""
    call = harness.calls_of(reply)[0]
    prunes = vault.prunes
    result = harness.carry_out(call, vault.tools)
    messages.add([{"role": "assistant", "content": reply.get("content"), "tool_calls": [call]}, result],
                 room_of(vault, call, result["content"]))
    if vault.prunes > prunes:
        messages.show_only(vault.view)


def play(task):
    vault = Vault(task["rooms"], task.get("capacity", 3), task.get("prune", True))
    messages, model = Messages(f"go {task['start']}"), harness.Model()
    offered = [OPEN, PRUNE] if "prune" in vault.tools else [OPEN]
    answer, turns = "", 0
    for turns in range(1, task.get("max_turns", 24) + 1):
        reply = model.ask(messages.listed(), offered, MAX_TOKENS)
        if not harness.calls_of(reply):
            answer = harness.text_of(reply).strip()
            break
        step(vault, messages, reply)
    signals = {"vault/prunes": vault.prunes, "vault/refusals": vault.refusals, "vault/turns": turns,
               "vault/prunes_per_refusal": vault.prunes / vault.refusals if vault.refusals else 0}
    if not vault.refusals:
        del signals["vault/prunes_per_refusal"]  # its mean is over the episodes that met a full view
    return harness.dumps({"reward": float(answer == task["answer"]), "signals": signals})


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "vault", {"start": str, "rooms": dict, "answer": str}, play))
