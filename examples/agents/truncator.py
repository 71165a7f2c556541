#!/usr/bin/env python3
"""Drops its oldest tool results when its messages exceed a limit. It knows nothing about training.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... truncator.py TASK.json

TASK.json is tool_agent.py's, without "session" and "strict", and also has

    {"limit": 8000,                 bytes of messages, above which results are dropped, the oldest first
     "keep": 1}                     results that are never dropped, the newest

A dropped result is replaced with "[dropped]". The gateway records each request as sent, so every call is trained with
its own messages. Exit codes: 0, 1 if the server could not be reached, 2 for invalid arguments.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import harness  # noqa: E402
import tool_agent  # noqa: E402

DROPPED = "[dropped]"


def size(messages):
    return sum(len(harness.text_of(message).encode()) + len(str(message.get("tool_calls") or "")) for message in messages)


def drop(messages, limit, keep):
    """Drops results until the messages fit or only the newest are left. Returns the number dropped."""
    results = [message for message in messages if message["role"] == "tool"]
    dropped = 0
    for message in results[:len(results) - keep]:
        if size(messages) <= limit:
            break
        dropped += message["content"] != DROPPED
        message["content"] = DROPPED
    return dropped


def play(task):
    model, tables = harness.Model(), task.get("tables") or {}
    messages = [{"role": "system", "content": task["system"]}] if task.get("system") else []
    messages += (task.get("history") or []) + [{"role": "user", "content": task["prompt"]}]
    for _ in range(task.get("max_turns", 16)):
        drop(messages, task.get("limit", 8000), task.get("keep", 1))
        reply = model.ask(messages, task.get("tools"), task.get("max_tokens"))
        calls = harness.calls_of(reply)
        if not calls:
            return harness.text_of(reply)
        messages.append(reply)
        messages += [{"role": "tool", "tool_call_id": str(call.get("id", "")), "content": tool_agent.call_tool(tables, call)}
                     for call in calls]
    return ""


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "truncator", play, {"prompt": str}, limit=int, keep=int, history=list, **harness.TOOLS))
