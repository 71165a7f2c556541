#!/usr/bin/env python3
"""A small tool-using agent in plain Python, with only the standard library.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... tool_agent.py TASK.json [PROMPT]

Sends the prompt to an OpenAI-compatible server, executes the returned tool calls, sends the results, and repeats this
until the model answers without a call. Prints that answer. It knows the server only from the two variables above (and
OPENAI_MODEL, if set). All fields of TASK.json are optional:

    {"prompt": "text of the user's message; the argument PROMPT comes before it",
     "system": "text of the system message",
     "history": [...messages that come before the prompt, as in the API...],
     "tools": [...as in the API...],
     "tables": {"TOOL": {"ARGUMENT": "RESULT", ...}},   what each tool returns for its one argument
     "max_turns": 3, "max_tokens": 64,
     "session": "FILE",                      saves the messages to FILE before every request; resumes from an existing FILE
     "strict": false}                        true: a call whose arguments are not JSON ends it, with an empty answer

An unknown tool or key and malformed arguments are reported to the model as the tool's result. An agent that has not
answered after max_turns requests prints an empty line. Exit codes: 0, 1 if the server could not be reached, 2 for
invalid arguments.

A training run starts thousands of these agents, often on few cores, so startup time matters: run it as `python3 -I -S`,
and with compiled.py for many short episodes. The imports are chosen for that: `json` and `socket` are thin Python
around the C modules `_json` and `_socket`, and load `re`, `enum` and `selectors`, which take longer than all the rest
of this program.
"""
import sys

try:
    from posix import _exit, environ as _environ

    env = {name.decode(): value.decode("utf-8", "replace") for name, value in _environ.items()}
except ImportError:
    from os import _exit, environ as env

try:
    import _socket as socket
except ImportError:
    import socket

TIMEOUT_S = 600
ATTEMPTS = 4  # of a request while the server is too busy


class Failure(Exception):
    """Communication with the server failed."""


# ---------------------------------------------------------------- JSON


def make_loads():
    try:
        from _json import make_scanner

        class Settings:
            strict = True
            object_hook = object_pairs_hook = array_hook = None
            parse_float, parse_int, parse_constant = float, int, None

        scan = make_scanner(Settings)
    except (ImportError, AttributeError, TypeError):
        from json import loads

        return loads

    def loads(text):
        text = text.strip()
        try:
            value, end = scan(text, 0)
        except (StopIteration, TypeError, SystemError):
            # TypeError: NaN and similar, because there is no parse_constant. SystemError: the C code looks for the exception
            # to raise in json.decoder, which is not loaded.
            raise ValueError("malformed JSON") from None
        if end != len(text):
            raise ValueError("text after the JSON value")
        return value

    return loads


def make_dumps():
    try:
        from _json import encode_basestring_ascii as quoted
    except ImportError:
        from json import dumps

        return dumps

    def dumps(value):
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, dict):
            return "{" + ",".join(quoted(key) + ":" + dumps(item) for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(dumps, value)) + "]"
        for constant, text in ((None, "null"), (True, "true"), (False, "false")):
            if value is constant:
                return text
        return repr(value)

    return dumps


loads, dumps = make_loads(), make_dumps()


# ---------------------------------------------------------------- HTTP


class Http:
    """Keeps one HTTP/1.1 connection. post() returns (status, headers, body)."""

    def __init__(self, url):
        scheme, _, rest = url.partition("://")
        authority, slash, path = rest.partition("/")
        self.path = (slash + path).rstrip("/")
        self.authority = authority
        if scheme == "https":  # worth its imports only here
            from http.client import HTTPSConnection

            self.secure = HTTPSConnection(authority, timeout=TIMEOUT_S)
        elif scheme == "http" and authority:
            self.secure = None
        else:
            raise Failure(f"OPENAI_BASE_URL is '{url}': http://host:port/path")
        self.connection = None

    def post(self, path, headers, body):
        if self.secure:
            self.secure.request("POST", self.path + path, body, headers)
            response = self.secure.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        lines = [f"POST {self.path}{path} HTTP/1.1", f"Host: {self.authority}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        reused = self.connection is not None
        try:
            return self.exchange(request)
        except (OSError, Failure):
            self.close()
            if not reused:
                raise
        return self.exchange(request)  # the server had closed the kept connection

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def connect(self):
        host, _, port = self.authority.rpartition(":") if ":" in self.authority.rpartition("]")[2] else (
            self.authority, "", "80")
        error = None
        name = host.strip("[]").encode()  # text would load the codec for international names
        for family, kind, protocol, _, address in socket.getaddrinfo(name, int(port), 0, socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(TIMEOUT_S)
            try:
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connection = connection
                return
            except OSError as failure:
                connection.close()
                error = failure
        raise error

    def exchange(self, request):
        if self.connection is None:
            self.connect()
        self.connection.sendall(request)
        self.buffer = b""
        head = self.take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.take_until(b"\r\n").split(b";")[0], 16):
                body += self.take(size)
                self.take_until(b"\r\n")
            while self.take_until(b"\r\n"):
                pass
        elif "content-length" in headers:
            body = self.take(int(headers["content-length"]))
        else:
            body = b""
            headers["connection"] = "close"
            while self.receive():
                pass
            body = self.buffer
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, headers, body

    def receive(self):
        data = self.connection.recv(65536)
        self.buffer += data
        return data

    def take_until(self, mark):
        while mark not in self.buffer:
            if not self.receive():
                raise Failure("the server closed the connection in the middle of a reply")
        taken, _, self.buffer = self.buffer.partition(mark)
        return taken

    def take(self, size):
        while len(self.buffer) < size:
            if not self.receive():
                raise Failure("the server closed the connection in the middle of a reply")
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken


# ---------------------------------------------------------------- the agent


def complete(http, request):
    """One completion: the reply, whose first choice has a message."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + env.get("OPENAI_API_KEY", "")}
    body = dumps(request).encode()
    for attempt in range(1, ATTEMPTS + 1):
        status, reply_headers, reply = http.post("/chat/completions", headers, body)
        if status == 200:
            try:
                completion = loads(reply.decode())
                message = completion["choices"][0]["message"]
            except (ValueError, KeyError, IndexError, TypeError):
                raise Failure(f"the server's reply is not a chat completion: {reply[:300]!r}") from None
            if isinstance(message, dict):
                return completion
            raise Failure("the server's reply has no message")
        if status not in (429, 503) or attempt == ATTEMPTS:
            raise Failure(f"the server answered {status}: {reply[:300].decode('utf-8', 'replace')}")
        from time import sleep

        try:
            sleep(min(float(reply_headers.get("retry-after", 1)), 10))
        except ValueError:
            sleep(1)


def chat(http, request):
    """One completion; the assistant's message."""
    return complete(http, request)["choices"][0]["message"]


def call_tool(tables, call):
    """What the tool says, or what is wrong with the call."""
    try:
        name, arguments = call["function"]["name"], loads(call["function"]["arguments"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "error: malformed call"
    if not isinstance(name, str) or name not in tables:
        return "error: no such tool"
    if not isinstance(arguments, dict) or len(arguments) != 1:
        return "error: one argument expected"
    return str(tables[name].get(str(next(iter(arguments.values()))), "error: not found"))


def well_formed(call):
    try:
        return isinstance(loads(call["function"]["arguments"]), dict)
    except (KeyError, TypeError, ValueError):
        return False


def begin(task):
    """The turn to begin with and the messages before it, from an agent that was ended between two requests, if any."""
    try:
        with open(task["session"], encoding="utf-8") as file:
            session = loads(file.read())
        return session["turn"], session["messages"]
    except (FileNotFoundError, KeyError):
        pass
    messages = [{"role": "system", "content": task["system"]}] if task.get("system") else []
    messages += task.get("history") or []
    return 0, messages + [{"role": "user", "content": task["prompt"]}]


def run(task):
    http = Http(env.get("OPENAI_BASE_URL", ""))
    first, messages = begin(task)
    request = {"model": env.get("OPENAI_MODEL", "default"), "messages": messages}
    for option in ("tools", "max_tokens"):
        if task.get(option):
            request[option] = task[option]
    for turn in range(first, task.get("max_turns", 3)):
        if task.get("session"):
            with open(task["session"], "w", encoding="utf-8") as file:
                file.write(dumps({"turn": turn, "messages": messages}))
        message = chat(http, request)
        calls = message.get("tool_calls") or []
        if not calls:
            return message.get("content") or ""
        messages.append(message)
        for call in calls:
            if task.get("strict") and not well_formed(call):
                return ""
            result = call_tool(task.get("tables", {}), call)
            identity = call.get("id", "") if isinstance(call, dict) else ""
            messages.append({"role": "tool", "tool_call_id": identity, "content": result})
    return ""


def main(argv):
    if len(argv) not in (2, 3):
        print("usage: tool_agent.py TASK.json [PROMPT]", file=sys.stderr)
        return 2
    try:
        with open(argv[1], encoding="utf-8") as file:
            task = loads(file.read())
        if len(argv) == 3:
            task["prompt"] = argv[2]
        if not isinstance(task["prompt"], str):
            raise ValueError("prompt is not text")
    except (OSError, ValueError, KeyError, TypeError) as mistake:
        print(f"tool_agent: {argv[1]}: {mistake!r}", file=sys.stderr)
        return 2
    try:
        answer = run(task)
    except (OSError, Failure) as failure:
        print(f"tool_agent: {failure}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(answer.encode("utf-8", "replace") + b"\n")
    return 0


def leave(code):
    """Ends the process without taking the interpreter apart, which is a tenth of a short episode's CPU time."""
    sys.stdout.flush()
    sys.stderr.flush()
    _exit(code)


if __name__ == "__main__":
    leave(main(sys.argv))
