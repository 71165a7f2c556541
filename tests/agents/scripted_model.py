"""An OpenAI server with scripted answers, and a gateway's address for rewards, for tests of the example agents."""
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading


def check(truth, what):
    if not truth:
        sys.exit(f"FAILED: {what}")


def say(text):
    return {"role": "assistant", "content": text}


def call(*calls):
    """A message that calls tools: (name, arguments), where arguments are an object or the text to send."""
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": f"c{i}", "type": "function", "function": {
            "name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls)]}


class Model:
    """Answers requests with `answer(request, number of earlier requests)`, or with the messages of a list. An integer instead
    of a message is an HTTP status. Keeps the requests and the posted rewards."""

    def __init__(self, answer, tokens_per_byte=0.25):
        self.requests, self.posts, self.lock = [], [], threading.Lock()
        script = answer if callable(answer) else lambda _, i: answer[i]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(inner):
                body = json.loads(inner.rfile.read(int(inner.headers["content-length"])))
                if inner.path.startswith("/ingot/v1/episodes/e1/reward"):
                    self.posts.append(body)
                    return inner.reply(200, {})
                with self.lock:
                    self.requests.append(body)
                    number = len(self.requests) - 1
                message = script(body, number)
                if isinstance(message, int):
                    return inner.reply(message, {"error": {"message": "scripted"}})
                size = len("".join(str(m.get("content") or "") for m in body["messages"]))
                inner.reply(200, {"choices": [{"message": message}], "usage": {"total_tokens": int(size * tokens_per_byte)}})

            def reply(inner, status, value):
                text = json.dumps(value).encode()
                inner.send_response(status)
                inner.send_header("content-length", str(len(text)))
                inner.end_headers()
                inner.wfile.write(text)

            def log_message(inner, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def results(self, request=-1):
        """The tool results in a request's messages."""
        return [message["content"] for message in self.requests[request]["messages"] if message["role"] == "tool"]


def run(agent, answer, task, python=("/usr/bin/python3", "-I", "-S"), **environment):
    """Runs an agent on a task, which may be text. Returns (the process, the model)."""
    model = Model(answer)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "task.json")
        path.write_text(task if isinstance(task, str) else json.dumps(task), encoding="utf-8")
        done = subprocess.run([*python, str(agent), str(path)], capture_output=True, text=True, timeout=60,
                              env={"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k", "INGOT_EPISODE_ID": "e1", **environment})
    return done, model
