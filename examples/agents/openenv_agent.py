#!/usr/bin/env python3
"""Plays an episode on an OpenEnv server, like tool_agent.py with the environment's steps as tools.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... openenv_agent.py TASK.json

TASK.json; all fields except the first two are optional:

    {"environment": "ws://127.0.0.1:8000/ws",
     "prompt": "text of the user's message; the first observation follows it",
     "reset": {"seed": 7},           what the environment is reset with
     "system": "text", "tools": [...as in the API...],
     "text_field": "text",           an answer without a tool call is a step too: its text is this field of the action
     "max_turns": 8, "max_tokens": 64}

A tool call is a step with the call's arguments as the action. Its result is the observation as JSON, or the server's
error. The episode ends when the environment is done, the model answers without a step, or after max_turns requests. The
last line printed is {"reward": the sum of the steps' rewards, "signals": {"openenv/steps": .., "openenv/errors": ..}},
for the verifier `agent_reported`. Exit codes: 0, 1 if a server could not be reached, 2 for invalid arguments.

OpenEnv 0.3's protocol is JSON over a WebSocket, with one connection per episode. No package is needed.
"""
import base64
import json
import os
import pathlib
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tool_agent  # noqa: E402

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
LARGEST = 16 << 20  # bytes of a message


class Refused(Exception):
    """The environment rejected a message."""


class Environment:
    """One session of an environment server."""

    def __init__(self, url, timeout_s=600):
        scheme, _, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        host, _, port = authority.rpartition(":") if ":" in authority.rpartition("]")[2] else (authority, "", "80")
        if scheme != "ws" or not host:
            raise tool_agent.Failure(f"the environment is '{url}': ws://host:port/path")
        self.connection = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)
        key = base64.b64encode(os.urandom(16)).decode()
        self.connection.sendall((f"GET /{path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n"
                                 f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                                 "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self.file = self.connection.makefile("rb")
        status = self.file.readline().split(b" ")
        while self.file.readline().strip():
            pass
        if len(status) < 2 or status[1] != b"101":
            raise tool_agent.Failure(f"{url} is not a WebSocket: {status}")

    def send(self, kind, payload):
        mask = os.urandom(4)
        size = len(payload)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([0x80 | size])
        else:
            head += bytes([0x80 | 126]) + struct.pack(">H", size) if size < 1 << 16 else (
                bytes([0x80 | 127]) + struct.pack(">Q", size))
        self.connection.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def take(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise tool_agent.Failure("the environment closed the connection")
        return data

    def receive(self):
        """The next message, joined from its frames."""
        message = b""
        while True:
            first, second = self.take(2)
            size = second & 0x7F
            if size > 125:
                size = struct.unpack(">H" if size == 126 else ">Q", self.take(2 if size == 126 else 8))[0]
            if size + len(message) > LARGEST:
                raise tool_agent.Failure("a message of the environment is too long")
            payload = self.take(size)
            kind = first & 0x0F
            if kind == CLOSE:
                raise tool_agent.Failure("the environment ended the session")
            if kind == PING:
                self.send(PONG, payload)
            if kind >= CLOSE:
                continue
            message += payload
            if first & 0x80:
                return message

    def ask(self, kind, data):
        self.send(TEXT, json.dumps({"type": kind, "data": data}).encode())
        answer = json.loads(self.receive())
        if answer.get("type") == "error":
            raise Refused(json.dumps(answer.get("data")))
        return answer["data"]

    def close(self):
        self.send(TEXT, b'{"type": "close"}')
        self.connection.close()


def observed(data):
    return json.dumps(data["observation"], ensure_ascii=False)


class Episode:
    def __init__(self, task):
        self.task, self.environment = task, Environment(task["environment"])
        self.reward, self.steps, self.errors, self.done = 0.0, 0, 0, False

    def step(self, action):
        """The observation, or the error, as text."""
        try:
            data = self.environment.ask("step", action)
        except Refused as refusal:
            self.errors += 1
            return f"error: {refusal}"
        self.steps += 1
        self.reward += float(data.get("reward") or 0)
        self.done = bool(data.get("done"))
        return observed(data)

    def step_of(self, call):
        try:
            action = json.loads(call["function"]["arguments"])
        except (ValueError, KeyError, TypeError):
            action = None
        if not isinstance(action, dict):
            self.errors += 1
            return "error: malformed call"
        return self.step(action)

    def play(self):
        task, http = self.task, tool_agent.Http(os.environ.get("OPENAI_BASE_URL", ""))
        first = observed(self.environment.ask("reset", task.get("reset") or {}))
        messages = [{"role": "system", "content": task["system"]}] if task.get("system") else []
        messages.append({"role": "user", "content": f"{task['prompt']}\n{first}"})
        request = {"model": os.environ.get("OPENAI_MODEL", "default"), "messages": messages,
                   **{option: task[option] for option in ("tools", "max_tokens") if task.get(option)}}
        for _ in range(task.get("max_turns", 8)):
            message = tool_agent.chat(http, request)
            calls = message.get("tool_calls") or []
            messages.append(message)
            for call in calls:
                if self.done:
                    break
                messages.append({"role": "tool", "tool_call_id": call.get("id", ""), "content": self.step_of(call)})
            if not calls and task.get("text_field"):
                result = self.step({task["text_field"]: message.get("content") or ""})
                messages.append({"role": "user", "content": result})
            if self.done or (not calls and not task.get("text_field")):
                break
        self.environment.close()
        return {"reward": self.reward, "signals": {"openenv/steps": self.steps, "openenv/errors": self.errors}}


def main(argv):
    if len(argv) != 2:
        print("usage: openenv_agent.py TASK.json", file=sys.stderr)
        return 2
    try:
        task = json.loads(pathlib.Path(argv[1]).read_text(encoding="utf-8"))
        if not isinstance(task["environment"], str) or not isinstance(task["prompt"], str):
            raise ValueError("environment and prompt are texts")
    except (OSError, ValueError, KeyError, TypeError) as mistake:
        print(f"openenv_agent: {argv[1]}: {mistake!r}", file=sys.stderr)
        return 2
    try:
        report = Episode(task).play()
    except (OSError, tool_agent.Failure, Refused) as failure:
        print(f"openenv_agent: {failure!r}", file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
