#!/usr/bin/env python3
"""The shipped OpenEnv agent against servers in this process: openenv_agent_test.py AGENT."""
import base64
import hashlib
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scripted_model import Model, check  # noqa: E402

TEXT, CONTINUED, CLOSE, PING, PONG = 1, 0, 8, 9, 10


class Environment:
    """A WebSocket server of one session. It answers message N with answer N, in fragments, after a ping."""

    def __init__(self, answers):
        self.asked, self.ponged = [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.listener.getsockname()[1]}/ws"
        threading.Thread(target=self.serve, args=(answers,), daemon=True).start()

    def serve(self, answers):
        connection, _ = self.listener.accept()
        file = connection.makefile("rb")
        head = {}
        check(file.readline().startswith(b"GET /ws HTTP/1.1"), "the handshake's path")
        while line := file.readline().decode().strip():
            name, _, value = line.partition(": ")
            head[name.lower()] = value
        accept = base64.b64encode(hashlib.sha1((head["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
                                               .encode()).digest()).decode()
        connection.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}"
                           "\r\n\r\n".encode())
        for answer in answers:
            self.asked.append(json.loads(self.receive(file)))
            if answer is None:
                connection.sendall(bytes([0x80 | CLOSE, 0]))
                return
            text = json.dumps(answer).encode()
            connection.sendall(bytes([0x80 | PING, 2]) + b"hi")
            connection.sendall(bytes([TEXT, 3]) + text[:3])
            rest = text[3:]
            size = bytes([len(rest)]) if len(rest) < 126 else bytes([126]) + struct.pack(">H", len(rest))
            connection.sendall(bytes([0x80 | CONTINUED]) + size + rest)
        self.receive(file)

    def receive(self, file):
        while True:
            head = file.read(2)
            if len(head) < 2:
                return b"{}"
            check(head[1] & 0x80, "a client's frame must be masked")
            size = head[1] & 0x7F
            if size == 126:
                size = struct.unpack(">H", file.read(2))[0]
            mask, payload = file.read(4), file.read(size)
            payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
            if head[0] & 0x0F == PONG:
                self.ponged += payload == b"hi"
                continue
            return payload


def play(agent, messages, answers, **task):
    model, environment = Model(messages), Environment(answers)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "task.json")
        path.write_text(json.dumps({"environment": environment.url, "prompt": "Play.", **task}))
        done = subprocess.run(["/usr/bin/python3", "-I", "-S", agent, str(path)], capture_output=True, text=True, timeout=60,
                              env={"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k"})
    return done, model, environment


def observation(text, reward=None, done=False):
    return {"type": "observation", "data": {"observation": {"seen": text}, "reward": reward, "done": done}}


def call(arguments):
    return {"role": "assistant", "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "move", "arguments": arguments}}]}


def main():
    agent = sys.argv[1]
    long = "x" * 300
    done, model, environment = play(
        agent, [call('{"to": 1}'), call("{no"), call('{"to": 9}'), call('{"to": "' + long + '"}')],
        [observation("start"), observation("one", 0.25), {"type": "error", "data": {"message": "no such place"}},
         observation(long, 0.5, True)], reset={"seed": 3}, tools=[{"type": "function", "function": {"name": "move"}}])
    check(done.returncode == 0, done)
    check(json.loads(done.stdout) == {"reward": 0.75, "signals": {"openenv/steps": 2, "openenv/errors": 2}}, done.stdout)
    check([asked["data"] for asked in environment.asked] == [{"seed": 3}, {"to": 1}, {"to": 9}, {"to": long}],
          environment.asked)
    results = [message["content"] for message in model.requests[3]["messages"] if message["role"] == "tool"]
    check(model.requests[0]["messages"][0]["content"] == 'Play.\n{"seen": "start"}', model.requests[0])
    check(results == ['{"seen": "one"}', "error: malformed call", 'error: {"message": "no such place"}'], results)
    check(environment.ponged >= 3, "pings are answered")

    # An answer without a call is a step where the task names a field for it, and the end where it does not.
    said = [{"role": "assistant", "content": "hello"}]
    done, model, environment = play(agent, said, [observation("a"), observation("b", 1, True)], text_field="text")
    check(json.loads(done.stdout)["reward"] == 1 and environment.asked[1]["data"] == {"text": "hello"}, done)
    done, model, environment = play(agent, said, [observation("a")])
    check(json.loads(done.stdout)["reward"] == 0 and len(model.requests) == 1, done)

    done, _, _ = play(agent, said, [None])
    check(done.returncode == 1 and "ended the session" in done.stderr, done)
    done = subprocess.run(["/usr/bin/python3", "-I", "-S", agent, "/no/such/file"], capture_output=True, text=True, timeout=60)
    check(done.returncode == 2, done)


if __name__ == "__main__":
    main()
