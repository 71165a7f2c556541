"""A client for MCP servers (Model Context Protocol, revision 2025-06-18): tools over stdio or streamable HTTP.

Needs only the standard library. connect(settings) takes an entry of Ingot's ${mcp.servers}: {"command", "args", "env"},
or {"url", "headers"}. Use a session on one thread only.
"""
import json
import os
import select
import subprocess
import sys
import time

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import tool_agent  # noqa: E402

VERSION = "2025-06-18"
LARGEST = 16 << 20  # bytes of a message
MAX_PAGES = 100  # of a tool list


class McpFailure(tool_agent.Failure):
    """The server cannot be used."""


class Rejected(Exception):
    """The server answered a request with an error."""


class Stdio:
    """A server as a child process, one JSON message a line. Its standard error is the agent's."""

    def __init__(self, settings, timeout_s):
        command = [settings["command"], *settings.get("args", [])]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            env={**os.environ, **settings.get("env", {})})
        except OSError as error:
            raise McpFailure(f"the MCP server {command[0]} did not start: {error}") from None
        self.name, self.timeout_s, self.buffer = command[0], timeout_s, b""

    def exchange(self, message):
        """Sends a message. Returns the messages up to the answer, or none for a notification."""
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise McpFailure(f"the MCP server {self.name} ended: {error}") from None
        deadline = time.monotonic() + self.timeout_s
        while "id" in message:
            received = json_of(self.line(deadline), self.name)
            if received.get("id") == message["id"] and "method" not in received:
                return received
        return None

    def line(self, deadline):
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise McpFailure(f"the MCP server {self.name} did not answer within {self.timeout_s} s")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise McpFailure(f"the MCP server {self.name} closed its output")
            self.buffer += data
            if len(self.buffer) > LARGEST:
                raise McpFailure(f"a message of the MCP server {self.name} exceeds {LARGEST} bytes")
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def close(self):
        try:
            self.process.stdin.close()
        except OSError:  # it ended with unread input
            pass
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Http:
    """A server over streamable HTTP. An answer is JSON or a stream of events."""

    def __init__(self, settings, _):
        self.name, self.http = settings["url"], tool_agent.Http(settings["url"])
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                        "MCP-Protocol-Version": VERSION, **settings.get("headers", {})}

    def exchange(self, message):
        status, headers, body = self.http.post("", self.headers, json.dumps(message).encode())
        if status not in (200, 202):
            raise McpFailure(f"the MCP server {self.name} answered {status}: {body[:200].decode('utf-8', 'replace')}")
        if "mcp-session-id" in headers:
            self.headers["Mcp-Session-Id"] = headers["mcp-session-id"]
        if "id" not in message:
            return None
        streamed = headers.get("content-type", "").startswith("text/event-stream")
        for received in events(body, self.name) if streamed else [json_of(body, self.name)]:
            if received.get("id") == message["id"] and "method" not in received:
                return received
        raise McpFailure(f"the MCP server {self.name} did not answer the request")

    def close(self):
        self.http.close()


def json_of(text, name):
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise McpFailure(f"the MCP server {name} sent no JSON object: {text[:200]!r}")
    return value


def events(body, name):
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if data:
            yield json_of(data, name)


class Session:
    """The tools of one server. call() returns a tool's text."""

    def __init__(self, transport):
        self.transport, self.last = transport, 0
        self.request("initialize", {"protocolVersion": VERSION, "capabilities": {},
                                    "clientInfo": {"name": "ingot-react", "version": "1"}})
        transport.exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = self.list()

    def request(self, method, parameters):
        self.last += 1
        reply = self.transport.exchange({"jsonrpc": "2.0", "id": self.last, "method": method, "params": parameters})
        if "error" in reply:
            error = reply["error"]
            raise Rejected(str(error.get("message", error) if isinstance(error, dict) else error)[:200])
        if not isinstance(reply.get("result"), dict):
            raise McpFailure(f"the MCP server {self.transport.name} answered {method} without a result")
        return reply["result"]

    def list(self):
        """The tools in the form of the API."""
        tools, cursor = [], None
        for _ in range(MAX_PAGES):
            page = self.request("tools/list", {"cursor": cursor} if cursor else {})
            for tool in page.get("tools", []):
                tools.append({"type": "function", "function": {
                    "name": tool["name"], "description": tool.get("description", ""),
                    "parameters": tool.get("inputSchema", {"type": "object"})}})
            cursor = page.get("nextCursor")
            if not cursor:
                return tools
        raise McpFailure(f"the tool list of the MCP server {self.transport.name} has more than {MAX_PAGES} pages")

    def call(self, name, arguments):
        try:
            result = self.request("tools/call", {"name": name, "arguments": arguments})
        except Rejected as rejection:
            return f"error: {rejection}"
        parts = [part.get("text") or f"[{part.get('type')}]" for part in result.get("content", []) if isinstance(part, dict)]
        text = "\n".join(str(part) for part in parts)
        return f"error: {text}" if result.get("isError") else text

    def close(self):
        self.transport.close()


def connect(settings, timeout_s=60):
    if not isinstance(settings, dict) or not ("command" in settings or "url" in settings):
        raise McpFailure(f"an MCP server has neither 'command' nor 'url': {settings}")
    transport = Stdio(settings, timeout_s) if "command" in settings else Http(settings, timeout_s)
    try:
        return Session(transport)
    except Rejected as rejection:
        transport.close()
        raise McpFailure(f"the MCP server {transport.name} rejected the session: {rejection}") from None
    except BaseException:
        transport.close()
        raise
