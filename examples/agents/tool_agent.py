#!/usr/bin/env python3
"""A small tool-using agent: the standard library and an OpenAI-style server, nothing else.

    OPENAI_BASE_URL=http://... OPENAI_API_KEY=... tool_agent.py TASK.json

TASK.json: {"prompt": "...", "tools": [OpenAI tool definitions], "tables": {tool name: {argument: result}}}. The agent
sends the prompt, runs the tool calls that come back by looking their first argument up in the table, appends the
results, and goes on until the model answers in words. It prints that answer and exits with 0. It speaks HTTP over a
plain socket: importing http.client would cost more than everything else it does.
"""
import json
import os
import socket
import sys

MAX_TURNS = 4


class Server:
    """One kept-alive connection to the server that the environment names."""

    def __init__(self, base_url, api_key):
        scheme, _, rest = base_url.partition("://")
        if scheme != "http":
            raise SystemExit("tool_agent: only http:// URLs are spoken here")
        authority, _, path = rest.partition("/")
        host, _, port = authority.partition(":")
        self.head = f"Host: {authority}\r\nAuthorization: Bearer {api_key}\r\nContent-Type: application/json\r\n"
        self.path = "/" + path.rstrip("/")
        self.socket = socket.create_connection((host, int(port or 80)))
        self.stream = self.socket.makefile("rb")

    def post(self, path, body):
        data = json.dumps(body).encode()
        head = f"POST {self.path}{path} HTTP/1.1\r\n{self.head}Content-Length: {len(data)}\r\n\r\n"
        self.socket.sendall(head.encode() + data)
        status = int(self.stream.readline().split()[1])
        length = 0
        while (line := self.stream.readline().strip()):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        answer = json.loads(self.stream.read(length))
        if status != 200:
            raise SystemExit(f"tool_agent: the server answered {status}: {answer}")
        return answer


def run_tool(tables, call):
    """The result of a tool call as text; a call that makes no sense gets an error the model can read."""
    table = tables.get(call["function"]["name"])
    if table is None:
        return "error: no such tool"
    try:
        arguments = json.loads(call["function"]["arguments"])
        key = str(next(iter(arguments.values())))
    except (ValueError, AttributeError, StopIteration):
        return "error: bad arguments"
    return table.get(key, "error: not found")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        task = json.load(file)
    server = Server(os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"])
    messages = [{"role": "user", "content": task["prompt"]}]
    for _ in range(MAX_TURNS):
        body = {"model": "policy", "messages": messages, "tools": task["tools"]}
        message = server.post("/chat/completions", body)["choices"][0]["message"]
        calls = message.get("tool_calls")
        if not calls:
            print(message.get("content") or "")
            return
        messages.append(message)
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": run_tool(task["tables"], call)})
    print("")


if __name__ == "__main__":
    main()
