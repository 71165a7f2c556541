"""The agent of the page's test: agent.py NAME HOLD. Its episodes have what the page must show: a tool call, a sub-agent, a summary, a retry, and
one of two answers. `examples` has the conversations by which a policy learns its part. While the file HOLD is there, the first agent that comes by
renames it to HOLD.taken, and waits until that is gone: it is a straggler.

    main   task NAME ── task({"ask": ...}) ── result ── "the rows of NAME were counted"
    sub      └─ ASK ── "rows NAME are 7"
    main   a conversation that begins with the summary, asked twice
"""
import http.client
import json
import os
import pathlib
import random
import sys
import time
import urllib.parse

TOOLS = [{"type": "function", "function": {"name": "task", "parameters": {"type": "object", "properties": {"ask": {"type": "string"}}}}}]


def ask_of(name):
    return f"count all rows of {name}"


def summary_of(name):
    return f"so far: the rows of {name} were counted"


def begun(name):
    return [{"role": "user", "content": f"use the tool: {name}"}]


def called(name):
    call = {"id": "call_0", "type": "function", "function": {"name": "task", "arguments": json.dumps({"ask": ask_of(name)})}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def examples(names):
    """Rows of supervised training."""
    for name in names:
        answered = [*begun(name), called(name), {"role": "tool", "tool_call_id": "call_0", "content": "7"}, {"role": "assistant", "content": summary_of(name)}]
        yield {"messages": answered, "tools": TOOLS}
        yield {"messages": [{"role": "user", "content": f"helper: {ask_of(name)}"}, {"role": "assistant", "content": "7"}]}
        yield {"messages": [{"role": "user", "content": f"Summary: {summary_of(name)}. Go on."}, {"role": "assistant", "content": "done"}]}


def straggle(hold):
    taken = hold.with_suffix(".taken")
    try:
        hold.rename(taken)
    except FileNotFoundError:
        return
    while taken.exists():
        time.sleep(0.1)


class Agent:
    def __init__(self):
        self.url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
        self.connection = http.client.HTTPConnection(self.url.netloc, timeout=60)

    def call(self, thread, messages, tools=None):
        headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json", "x-session-id": thread}
        if thread != "main":
            headers["x-parent-session-id"] = "main"
        body = {"model": "policy", "messages": messages, "max_tokens": 64, **({"tools": tools} if tools else {})}
        self.connection.request("POST", self.url.path + "/chat/completions", json.dumps(body), headers)
        response = self.connection.getresponse()
        reply = json.loads(response.read())
        if response.status != 200:
            raise SystemExit(f"{thread}: {response.status} {reply}")
        message = reply["choices"][0]["message"]
        return {key: value for key, value in message.items() if key in ("role", "content", "tool_calls") and value is not None}


def main():
    name, agent = sys.argv[1], Agent()
    session = pathlib.Path(os.environ["HOME"], "session.json")
    if session.exists():  # a leaf goes on where its trunk was forked
        messages = json.loads(session.read_text())
    else:
        messages = begun(name)
        messages.append(agent.call("main", messages, TOOLS))
        session.write_text(json.dumps(messages))
    for call in messages[-1].get("tool_calls", ()):
        try:
            ask = json.loads(call["function"]["arguments"])["ask"]
        except (ValueError, KeyError, TypeError):
            ask = name
        answer = agent.call("helper", [{"role": "user", "content": f"helper: {ask}"}])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer.get("content", "")[:16]})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "and now?"})
    said = agent.call("main", messages, TOOLS).get("content", "")
    straggle(pathlib.Path(sys.argv[2]))
    compacted = [{"role": "user", "content": f"Summary: {said[:64]}. Go on."}]
    agent.call("main", compacted)
    agent.call("main", compacted)
    print(random.getrandbits(1))


if __name__ == "__main__":
    main()
