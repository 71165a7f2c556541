#!/usr/bin/env python3
"""Drives real agent programs and client libraries, as published and unchanged, against `ingot serve --script`.

    run.py BINARY [--cache DIR] [--require] [CASE ...]        `make test-agents`; all cases by default

Installs them from npm and PyPI into the cache folder (first time only). Each case has a script of what the model
samples, and the numbers that must come out: calls answered, calls that went on from their predecessor's sampled ids out
of those that could, forks by cause, prompt tokens that were encoded anew out of all. No call may be recorded with
another prompt than the engine got. The case opencode_training lets OpenCode train a model instead. A client that cannot
be installed is reported as skipped, with the reason; with --require that is a failure. claude_code is skipped unless
INGOT_ACCEPT_CLAUDE_CODE_TERMS=1 says that you have accepted its vendor's terms: then the newest version is installed.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from resume import Gate, fork

HERE = pathlib.Path(__file__).resolve().parent
NPM = ["openai", "@anthropic-ai/sdk", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@ai-sdk/anthropic",
       "opencode-ai", "@openai/codex", "@earendil-works/pi-coding-agent", "zod", "@google/genai", "@google/gemini-cli"]
# Python environments: packages that do not agree on their dependencies have environments of their own.
VENVS = {"venv": ["openai", "anthropic", "langchain-openai", "openai-agents", "mini-swe-agent", "smolagents[openai]",
                  "google-genai"],
         "strands": ["strands-agents[anthropic,openai]==1.62.0"],
         "inspect": ["inspect-ai==0.3.285", "anthropic==2.14.0", "openai==3.57.0"],
         "litellm": ["litellm[proxy]==1.104.4", "anthropic==0.125.0"]}


CLAUDE_CODE = "@anthropic-ai/claude-code"
ACCEPT_CLAUDE_CODE = "INGOT_ACCEPT_CLAUDE_CODE_TERMS"


class Skip(Exception):
    pass


def sh(argv, timeout=600, **kwargs):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout, **kwargs)
    return done.returncode, done.stdout


class Cache:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def installed(self, venv):
        return self.folder / venv / "installed"  # what pip has installed, once it has all of it

    def has_python(self, venv):
        return self.installed(venv).exists() and self.installed(venv).read_text() == " ".join(VENVS[venv])

    def python(self, venv="venv"):
        if not self.has_python(venv):
            raise Skip(f"the Python environment '{venv}' is not installed")
        return self.folder / venv / "bin" / "python"

    def has_node(self):
        return all((self.folder / "node_modules" / name).exists() for name in NPM)

    def install(self):
        for venv, packages in VENVS.items():
            if self.has_python(venv):
                continue
            print(f"installing from PyPI into {self.folder / venv}: {' '.join(packages)}", flush=True)
            code, output = sh([sys.executable, "-m", "venv", str(self.folder / venv)])
            if code == 0:
                pip = [str(self.folder / venv / "bin" / "python"), "-m", "pip", "install", "-q"]
                code, output = sh([*pip, *packages], timeout=1200)
            if code == 0:
                self.installed(venv).write_text(" ".join(packages))
            else:
                print(output[-2000:])
        if shutil.which("npm") is None:
            print("npm is not installed: the Node clients are skipped")
        elif not self.has_node():
            print(f"installing from npm into {self.folder}: {' '.join(NPM)}", flush=True)
            (self.folder / "package.json").write_text('{"private": true, "type": "module"}')
            code, output = sh(["npm", "install", "--no-audit", "--no-fund", *NPM], timeout=1200, cwd=self.folder)
            if code != 0:
                print(output[-2000:])

    def claude_code(self):
        """The program, which is installed for those alone who say that they have accepted its terms."""
        return install_claude_code(self.folder / "claude-code") / "claude"

    def node(self, name):
        path = self.folder / "node_modules" / ".bin" / name
        if not path.exists():
            raise Skip(f"{name} is not installed")
        return str(path)


def accepts_claude_code():
    return os.environ.get(ACCEPT_CLAUDE_CODE) == "1"


def install_claude_code(place):
    """The folder of its program."""
    if not accepts_claude_code():
        raise Skip(f"Claude Code's terms are its user's to accept; {ACCEPT_CLAUDE_CODE}=1 says that you have")
    if shutil.which("npm") is None:
        raise Skip("npm is not installed")
    programs = place / "node_modules" / ".bin"
    if not (programs / "claude").exists():
        print(f"installing from npm into {place}: {CLAUDE_CODE}", flush=True)
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}')
        code, output = sh(["npm", "install", "--no-audit", "--no-fund", CLAUDE_CODE], timeout=1200, cwd=place)
        if code != 0:
            raise Skip(f"npm: {output[-300:]}")
    return programs


class Server:
    """`ingot serve` with a script, on a free port, what its metrics say, and what it recorded."""

    def __init__(self, binary, model, script, folder):
        path = folder / "script.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in script))
        self.record = folder / "record"
        self.metrics = folder / "metrics.sock"
        self.process = subprocess.Popen(  # some agents send their vendors' model names
            [binary, "serve", str(model), "--port", "0", "--model", "ingot", "--any-model-name", "--script", str(path),
             "--record", str(self.record), "--metrics-socket", str(self.metrics)], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise SystemExit(f"ingot serve did not start: {line}")
        self.url = re.search(r"http://[^/]+", line).group(0)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)

    def prompts(self):
        """By call: what the engine was asked, and what the record says, once the server has stopped."""
        def read(name):
            with open(self.record / name, encoding="utf-8") as file:
                return {call["call_id"]: call["prompt_ids"] for call in map(json.loads, file)}
        return read("engine.jsonl"), read("calls.jsonl")

    def figures(self):
        connection = http.client.HTTPConnection("ingot", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.metrics))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        value = lambda name: int(float(re.search(rf"^{name} (\S+)$", text, re.M).group(1)))
        return {"completed": value(r'ingot_gateway_calls_total\{outcome="completed"\}'),
                "failed": value(r'ingot_gateway_calls_total\{outcome="failed"\}'),
                "aborted": value(r'ingot_gateway_calls_total\{outcome="aborted"\}'),
                "malformed": value("ingot_gateway_malformed_tool_calls_total"),
                "spliced": value("ingot_gateway_spliced_calls_total"),
                "forks": {cause: int(count) for cause, count in
                          re.findall(r'ingot_gateway_forks_total\{cause="(\w+)"\} (\d+)', text)},
                "encoded": (value("ingot_gateway_rendered_prompt_tokens_total"),
                            value("ingot_gateway_prompt_tokens_total"))}


def call(name, **arguments):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


# What each case's script samples, and what must come of it; all of it is exact, but:
#   could    calls whose client sent an earlier answer back as it got it: those that may be among `spliced`
#   encoded  prompt tokens encoded anew, out of all; or, of an agent whose prompts change with its version and the day,
#            the largest share
#   forks    by cause; of several, any
CASES = {}


def case(script, completed, spliced, could, forks, encoded, failed=0, aborted=0, malformed=0):
    def register(function):
        CASES[function.__name__] = (function, script, could, {
            "completed": completed, "spliced": spliced, "forks": forks, "encoded": encoded, "failed": failed,
            "aborted": aborted, "malformed": malformed})
        return function
    return register


def differs(found, expected):
    if isinstance(found, dict) and isinstance(expected, tuple):
        return found not in expected
    if isinstance(expected, float):
        return found[0] > expected * found[1]
    return found != expected


WEATHER = [call("weather", city="Paris"), {"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}},
                                                         {"name": "weather", "arguments": {"city": "Oslo"}}]},
           {"content": "Mild, warm and cold."}]


def python_client(cache, server, folder, name, script="python_clients.py", venv="venv"):
    return sh([str(cache.python(venv)), str(HERE / script), name, server.url], cwd=folder, timeout=180,
              env={**os.environ, "OPENAI_API_KEY": f"key-{name}", "OPENAI_AGENTS_DISABLE_TRACING": "1"})


def agent_client(cache, server, folder, name):
    """A case of agent_clients.py, whose first word is its environment."""
    return python_client(cache, server, folder, name, "agent_clients.py", name.split("_")[0])


def node_client(cache, server, folder, name):
    if not cache.has_node():
        raise Skip("the Node clients are not installed")
    script = cache.folder / "node_clients.mjs"
    shutil.copy(HERE / "node_clients.mjs", script)
    return sh(["node", str(script), name, server.url], cwd=folder, timeout=120)


def library_case(client, name, script, **expected):
    def run(cache, server, folder):
        return client(cache, server, folder, name)
    run.__name__ = name
    case(script, **expected)(run)


# Streams, a call, two calls at once, an answer: the same conversation in every library.
for _name in ("openai_python", "openai_python_stream", "openai_python_responses", "anthropic_python",
              "anthropic_python_stream", "langchain", "langchain_stream", "google_python", "google_python_stream"):
    library_case(python_client, _name, WEATHER, completed=3, spliced=2, could=2, forks={}, encoded=(648, 2060))
for _name in ("openai_node", "openai_node_stream", "openai_node_responses", "anthropic_ts", "anthropic_ts_stream",
              "google_node", "google_node_stream"):
    library_case(node_client, _name, WEATHER, completed=3, spliced=2, could=2, forks={}, encoded=(648, 2060))
# These write the tool's schema themselves.
for _name in ("openai_agents", "openai_agents_stream", "openai_agents_responses", "openai_agents_responses_stream",
              "google_chat", "google_chat_stream"):
    library_case(python_client, _name, WEATHER, completed=3, spliced=2, could=2, forks={}, encoded=0.4)
for _name in ("ai_sdk_chat", "ai_sdk_responses", "ai_sdk_anthropic"):
    library_case(node_client, _name, WEATHER, completed=3, spliced=2, could=2, forks={}, encoded=0.4)

# Malformed calls: arguments that are not JSON, a tool that is not there, a call that the turn ends within, and a good
# one beside one that is cut. The clients answer each and go on.
NOT_JSON = {"tool_calls": [{"name": "weather", "arguments": '{"city": Paris}'}]}
NO_TOOL = call("no_such_tool", city="Rome")
NOT_CLOSED = {"output": '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"'}
HALF = {"output": 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>\n'
                  '<tool_call>\n{"name": "weather", "arguments": {"city": "Os'}
MALFORMED = [NOT_JSON, NO_TOOL, NOT_CLOSED, HALF, WEATHER[-1]]
for _name in ("openai_python", "openai_python_stream", "openai_python_responses", "langchain"):
    library_case(python_client, _name + "_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={},
                 encoded=(787, 4015), malformed=3)
for _name in ("openai_node", "openai_node_stream", "openai_node_responses"):
    library_case(node_client, _name + "_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={},
                 encoded=(787, 4015), malformed=3)

# These answer the calls themselves, in words that change with their version.
for _name in ("openai_agents", "openai_agents_stream", "openai_agents_responses", "openai_agents_responses_stream"):
    library_case(python_client, _name + "_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={}, encoded=0.3,
                 malformed=3)
# The AI SDK sends {} for arguments that it could not parse. The first turn is such a one: nothing before it goes on.
for _name in ("ai_sdk_chat", "ai_sdk_responses"):
    library_case(node_client, _name + "_malformed", MALFORMED, completed=5, spliced=3, could=3,
                 forks={"arguments_changed": 3}, encoded=0.6, malformed=3)
# LangChain closes a streamed call that is not closed, and one that is cut, and sends them back so.
library_case(python_client, "langchain_stream_malformed", MALFORMED, completed=5, spliced=4, could=4,
             forks={"arguments_changed": 2}, encoded=(1109, 3984), malformed=3)

# Over Messages and Google's API arguments that are not JSON come as an object, as far as they can be read, and go back so.
for _client, _names in {python_client: ("anthropic_python", "anthropic_python_stream", "google_python",
                                        "google_python_stream"),
                        node_client: ("anthropic_ts", "anthropic_ts_stream", "google_node",
                                      "google_node_stream")}.items():
    for _name in _names:
        library_case(_client, _name + "_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={},
                     encoded=(765, 3971), malformed=3)
library_case(node_client, "ai_sdk_anthropic_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={}, encoded=0.3,
             malformed=3)

# Strands, which always streams, Inspect, and LiteLLM's proxy between a client and the server, which it asks over Messages
# or (to_chat) over chat. A call streamed over Messages once ended an agent of theirs, or every later request.
for _name in ("strands", "strands_chat", "inspect", "inspect_stream", "inspect_chat"):
    library_case(agent_client, _name, WEATHER, completed=3, spliced=2, could=2, forks={}, encoded=0.4)
# Over Responses, Inspect first requests a greeting to test if the model summarizes thoughts. It has a separate session.
for _name, _script, _malformed in (("inspect_responses", WEATHER, 0), ("inspect_responses_malformed", MALFORMED, 3)):
    library_case(agent_client, _name, [{"content": "Hello, world.", "tools": False}, *_script], completed=len(_script) + 1,
                 spliced=len(_script) - 1, could=len(_script) - 1, forks={}, encoded=0.4,
                 malformed=_malformed)
for _name in ("strands", "inspect", "inspect_stream"):
    library_case(agent_client, _name + "_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={}, encoded=0.3,
                 malformed=3)
# They send {} for arguments that they could not parse, as the AI SDK does.
for _name in ("strands_chat", "inspect_chat"):
    library_case(agent_client, _name + "_malformed", MALFORMED, completed=5, spliced=3, could=3,
                 forks={"arguments_changed": 3}, encoded=0.6, malformed=3)
for _name in ("litellm", "litellm_stream", "litellm_anthropic", "litellm_anthropic_stream", "litellm_to_chat",
              "litellm_to_chat_stream", "litellm_anthropic_to_chat", "litellm_anthropic_to_chat_stream"):
    library_case(agent_client, _name, WEATHER, completed=3, spliced=2, could=2, forks={}, encoded=(648, 2060))
for _name in ("litellm", "litellm_stream", "litellm_anthropic", "litellm_anthropic_stream"):
    library_case(agent_client, _name + "_malformed", MALFORMED, completed=5, spliced=4, could=4, forks={},
                 encoded=(765, 3971), malformed=3)

# smolagents' CodeAgent completes the closing tag, which is a stop string or was not written, and goes on behind it in the
# same message.
CODE = [{"output": "I add.\n<code>\nx = 1 + 2\nprint(x)\n</code>"}, {"output": "I look.\n<code>\nprint(x)\n"},
        {"output": "It is 3.\n<code>\nfinal_answer(x)\n</code>"}]
for _name in ("smolagents_code", "smolagents_code_stream"):
    library_case(python_client, _name, CODE, completed=3, spliced=2, could=2, forks={}, encoded=0.6)

# A stream of nearly as many tokens as a call may have, with characters of several bytes, and a turn behind it.
LONG = "\n".join(f"{line:03}: grüße 日本語 😀" for line in range(140))
for _client, _names in {python_client: ("openai_python", "openai_python_responses", "anthropic_python", "langchain",
                                        "openai_agents", "openai_agents_responses", "google_python"),
                        node_client: ("openai_node", "openai_node_responses", "anthropic_ts", "ai_sdk_chat",
                                      "ai_sdk_responses", "ai_sdk_anthropic", "google_node")}.items():
    for _name in _names:
        library_case(_client, _name + "_long", [{"content": LONG}, WEATHER[-1]], completed=2, spliced=1, could=1,
                     forks={}, encoded=(63, 4020))
        # The client leaves after 300 characters and goes on with those, and what else came with them.
        library_case(_client, _name + "_abort", [{"content": LONG}, WEATHER[-1]], completed=1, aborted=1, spliced=1,
                     could=1, forks={}, encoded=0.2)

# Faults: what the libraries raise for each. None is answered, and none is tried again.
for _name, _faults in (("openai_python_errors", 35), ("anthropic_python_errors", 18), ("google_python_errors", 18)):
    library_case(python_client, _name, WEATHER, completed=0, spliced=0, could=0, forks={}, encoded=(0, 0),
                 failed=_faults)


# Agent programs. Each makes files with the shell, and its exit code counts only if they are there. Their prompts change
# with their version, the system and the day: the share that is encoded anew has a bound.
MAKE, READ = "echo hi > made.txt", "cat made.txt"
ANSWERED = {"content": "Made made.txt.", "repeat": True}


def agent_case(agent, name, script, *settings, **expected):
    def run(cache, server, folder):
        code, output = agent(cache, server, folder, *settings)
        for line in script if code == 0 else ():
            for file in re.findall(r"> (\w+\.txt)", json.dumps(line)):
                if not (folder / file).exists() or (folder / file).read_text() != "hi\n":
                    code, output = 1, f"{output}\n{file} was not made"
            if line.get("tools", True) and line.get("content", "") not in output:
                code, output = 1, f"{output}\nnot shown whole: {line['content'][:50]}"
        return code, output
    run.__name__ = name
    case(script, **expected)(run)


def parallel(run):
    """Turns of an agent whose shell is called by `run`(command): two calls at once, and two again."""
    both = lambda *commands: {"tool_calls": [made for command in commands for made in run(command)["tool_calls"]]}
    return [both(MAKE, "echo hi > also.txt"), both(READ, "cat also.txt")]


def codex_home(url, folder):
    """The environment of Codex."""
    home = folder / "codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"""model = "ingot"
model_provider = "ingot"
[model_providers.ingot]
name = "ingot"
base_url = "{url}/v1"
env_key = "INGOT_KEY"
wire_api = "responses"
""")
    return {**os.environ, "CODEX_HOME": str(home), "INGOT_KEY": "key-codex"}


CODEX_EXEC = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]


def codex(cache, server, folder):
    return sh([cache.node("codex"), *CODEX_EXEC, "make the file made.txt"], cwd=folder, timeout=180,
              env=codex_home(server.url, folder))


def exec_command(command):
    return call("exec_command", cmd=command)


agent_case(codex, "codex", [exec_command(MAKE), exec_command(READ), ANSWERED], completed=3, spliced=2, could=2, forks={},
           encoded=0.5)
agent_case(codex, "codex_parallel", [*parallel(exec_command), ANSWERED], completed=3, spliced=2, could=2, forks={},
           encoded=0.5)
agent_case(codex, "codex_long", [{"content": LONG, **exec_command(MAKE)}, ANSWERED], completed=2, spliced=1, could=1,
           forks={}, encoded=0.6)
# It answers malformed calls and sends them back as it got them.
agent_case(codex, "codex_malformed",
           [exec_command(MAKE), {"tool_calls": [{"name": "exec_command", "arguments": '{"cmd": cat made.txt}'}]},
            call("no_such_tool", a=1), {"output": '<tool_call>\n{"name": "exec_command", "arguments": {"cmd": "ls"'},
            ANSWERED], completed=5, spliced=4, could=4, forks={}, encoded=0.4, malformed=2)


def resumed(server, folder, begin, resume, make, seen):
    """An agent that is ended while it waits for its third answer, and goes on in a copy of its folder."""
    gate = Gate(server.url, lambda body: seen in body)
    try:
        code, output = fork(gate, begin, resume, folder, lambda place: make(gate.url, place))
    finally:
        gate.close()
    made = folder / "work" / "made.txt"
    if code == 0 and (not made.exists() or made.read_text() != "hi\n"):
        code, output = 1, f"{output}\nmade.txt is not in the copy"
    return (1, f"{output}\nnot shown: made it") if code == 0 and "Made made.txt." not in output else (code, output)


# Its output is in the request behind it alone.
COUNT = "expr 123 + 456"
AFTER_COUNT = "579"


@case([exec_command(MAKE), exec_command(COUNT), ANSWERED], completed=3, spliced=2, could=2, forks={}, encoded=0.5)
def codex_resumed(cache, server, folder):
    program = cache.node("codex")
    return resumed(server, folder, [program, *CODEX_EXEC, "make the file made.txt"],
                   [program, *CODEX_EXEC, "resume", "--last", "go on"], codex_home, AFTER_COUNT)


def opencode_home(url, folder, package):
    """The environment of OpenCode."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (folder / "opencode.json").write_text(json.dumps({
        "$schema": "https://opencode.ai/config.json", "model": "ingot/ingot", "small_model": "ingot/ingot",
        "provider": {"ingot": {"npm": package, "name": "Ingot", "models": {"ingot": {"name": "ingot"}},
                               "options": {"baseURL": url + "/v1", "apiKey": "key-opencode"}}}}))
    return {**os.environ, "HOME": str(home), "PWD": str(folder)}


def opencode(cache, server, folder, package):
    return sh([cache.node("opencode"), "run", "make the file made.txt"], cwd=folder, timeout=240,
              env=opencode_home(server.url, folder, package))


def opencode_bash(command):
    return call("bash", command=command, description="Runs it")


def opencode_case(name, package, turns, forks=None, **expected):
    # The title of the session is a conversation of its own, asked for at the same time: the later of the two is a fork,
    # unless it begins before the other one has ended.
    title = {"content": "Making a file", "tools": False, "repeat": True}
    agent_case(opencode, name, [title, *turns, ANSWERED], package,
               forks=({"new_conversation": 1, **(forks or {})}, forks or {}), encoded=0.6, **expected)


@case([{"content": "Making a file", "tools": False, "repeat": True}, opencode_bash(MAKE), opencode_bash(COUNT), ANSWERED],
      completed=4, spliced=2, could=2, forks=({"new_conversation": 1}, {}), encoded=0.6)
def opencode_resumed(cache, server, folder):
    program = cache.node("opencode")
    return resumed(server, folder, [program, "run", "make the file made.txt"], [program, "run", "--continue", "go on"],
                   lambda url, place: opencode_home(url, place, "@ai-sdk/openai-compatible"), AFTER_COUNT)


for _name, _package in {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai",
                        "messages": "@ai-sdk/anthropic"}.items():
    opencode_case(f"opencode_{_name}", _package, [opencode_bash(MAKE), opencode_bash(READ)], completed=4, spliced=2,
                  could=2)
    opencode_case(f"opencode_parallel_{_name}", _package, parallel(opencode_bash), completed=4, spliced=2, could=2)
    opencode_case(f"opencode_long_{_name}", _package, [{"content": LONG, **opencode_bash(MAKE)}], completed=3, spliced=1,
                  could=1)
    # OpenCode sends a call whose arguments it cannot read back as one of "invalid": what follows it is a branch, which goes
    # on from the last call before it. Over Messages it can read them.
    opencode_case(f"opencode_malformed_{_name}", _package,
                  [opencode_bash(MAKE), {"tool_calls": [{"name": "bash", "arguments": '{"command": cat made.txt}'}]},
                   {"output": '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"'}], completed=5, spliced=3,
                  could=3, forks=None if _name == "messages" else {"call_renamed": 2}, malformed=2)
opencode_case("opencode_unknown_tool", "@ai-sdk/openai-compatible", [opencode_bash(MAKE), call("no_such_tool", a=1)],
              completed=4, spliced=2, could=2, forks={"call_renamed": 1})


def pi(cache, server, folder):
    home = folder / "home"
    (home / ".pi" / "agent").mkdir(parents=True)
    (home / ".pi" / "agent" / "models.json").write_text(json.dumps({"providers": {"ingot": {
        "baseUrl": server.url + "/v1", "apiKey": "key-pi", "api": "openai-completions",
        "models": [{"id": "ingot", "name": "ingot", "reasoning": False, "input": ["text"], "contextWindow": 100000,
                    "maxTokens": 5000, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}}))
    return sh([cache.node("pi"), "--provider", "ingot", "--model", "ingot", "--no-session", "-p",
               "make the file made.txt"], cwd=folder, timeout=120,
              env={**os.environ, "HOME": str(home), "PI_OFFLINE": "1"})


def bash(command):
    return call("bash", command=command)


agent_case(pi, "pi", [bash(MAKE), bash(READ), ANSWERED], completed=3, spliced=2, could=2, forks={}, encoded=0.5)
agent_case(pi, "pi_parallel", [*parallel(bash), ANSWERED], completed=3, spliced=2, could=2, forks={}, encoded=0.5)
# It prints the last answer alone.
agent_case(pi, "pi_long", [{"content": LONG, **bash(MAKE)}, {"content": LONG, "repeat": True}], completed=2, spliced=1,
           could=1, forks={}, encoded=0.5)
# It sends {} for arguments that are not JSON, and closes a call that is not closed, and makes it.
agent_case(pi, "pi_malformed",
           [bash(MAKE), {"tool_calls": [{"name": "bash", "arguments": '{"command": cat made.txt}'}]},
            call("no_such_tool", a=1),
            {"output": '<tool_call>\n{"name": "bash", "arguments": {"command": "echo hi > closed.txt"'}, ANSWERED],
           completed=5, spliced=4, could=4, forks={"arguments_changed": 2}, encoded=0.4, malformed=2)


def gemini_cli(cache, server, folder):
    home = folder / "home"
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps({
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "general": {"enableAutoUpdate": False}}))
    return sh([cache.node("gemini"), "-m", "ingot", "--skip-trust", "--approval-mode", "yolo", "-p",
               "make the file made.txt"], cwd=folder, timeout=180,
              env={**os.environ, "HOME": str(home), "GEMINI_API_KEY": "key-gemini",
                   "GOOGLE_GEMINI_BASE_URL": server.url})


def run_shell_command(command):
    return call("run_shell_command", command=command, description="Runs it")


agent_case(gemini_cli, "gemini_cli", [run_shell_command(MAKE), run_shell_command(READ), ANSWERED], completed=3, spliced=2,
           could=2, forks={}, encoded=0.5)
agent_case(gemini_cli, "gemini_cli_parallel", [*parallel(run_shell_command), ANSWERED], completed=3, spliced=2, could=2,
           forks={}, encoded=0.5)
agent_case(gemini_cli, "gemini_cli_long", [{"content": LONG, **run_shell_command(MAKE)}, ANSWERED], completed=2, spliced=1,
           could=1, forks={}, encoded=0.6)
agent_case(gemini_cli, "gemini_cli_malformed",
           [run_shell_command(MAKE), {"tool_calls": [{"name": "run_shell_command", "arguments": '{"command": cat x}'}]},
            call("no_such_tool", a=1), {"output": '<tool_call>\n{"name": "run_shell_command", "arguments": {"command": "ls"'},
            ANSWERED], completed=5, spliced=4, could=4, forks={}, encoded=0.4, malformed=2)


def mini_swe_agent(cache, server, folder):
    return sh([str(cache.python().parent / "mini"), "-t", "make the file made.txt", "-m", "openai/ingot", "-y",
               "--exit-immediately"], cwd=folder, timeout=180,
              env={**os.environ, "HOME": str(folder), "OPENAI_API_BASE": server.url + "/v1",
                   "OPENAI_API_KEY": "key-mini", "MSWEA_CONFIGURED": "true", "MSWEA_SILENT_STARTUP": "1",
                   "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "config")})


SUBMIT = bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
agent_case(mini_swe_agent, "mini_swe_agent", [bash(MAKE), bash(READ), SUBMIT], completed=3, spliced=2, could=2, forks={},
           encoded=0.5)
agent_case(mini_swe_agent, "mini_swe_agent_parallel", [*parallel(bash), SUBMIT], completed=3, spliced=2, could=2,
           forks={}, encoded=0.5)
agent_case(mini_swe_agent, "mini_swe_agent_long", [{"content": LONG, **bash(MAKE)}, SUBMIT], completed=2, spliced=1,
           could=1, forks={}, encoded=0.7)
# It leaves a turn out whose call it cannot make, and says in its place what was wrong, as the user: the next one goes on
# from the turn before. Three such turns in a row end it.
agent_case(mini_swe_agent, "mini_swe_agent_malformed",
           [bash(MAKE), {"tool_calls": [{"name": "bash", "arguments": '{"command": cat made.txt}'}]},
            call("no_such_tool", a=1), bash(READ),
            {"output": '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"'}, SUBMIT], completed=6, spliced=5,
           could=5, forks={"earlier_turn": 3}, encoded=0.4, malformed=2)


# As in the recipe of examples/scaffolds/run.yaml. Its numbers are those of its documentation and of public captures: nobody who
# wrote this has run it.
def claude_code(cache, server, folder):
    return sh([str(cache.claude_code()), "-p", "make the file made.txt", "--dangerously-skip-permissions"], cwd=folder,
              timeout=240, env={**os.environ, "HOME": str(folder / "home"), "ANTHROPIC_BASE_URL": server.url,
                                "ANTHROPIC_AUTH_TOKEN": "key-claude", "ANTHROPIC_API_KEY": "", "ANTHROPIC_MODEL": "ingot",
                                "ANTHROPIC_DEFAULT_HAIKU_MODEL": "ingot", "IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1",
                                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})


def Bash(command):
    return call("Bash", command=command, description="Runs it")


agent_case(claude_code, "claude_code", [Bash(MAKE), Bash(READ), ANSWERED], completed=3, spliced=2, could=2, forks={}, encoded=0.6)


def make_model(binary, source, folder):
    """A tiny random model with a long context, byte by byte: what a script needs to run on the real engine."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 32,
             "context_length": 400000, "chat_format": "hermes"}
    settings = {**{f"model.{key}": value for key, value in shape.items()}, "run.root": folder, "run.name": "tiny",
                "sft.max_steps": 1, "scheduler.total_steps": 1, "scheduler.groups_per_step": 1,
                "scheduler.group_size": 2, "scheduler.max_drops_per_batch": 1, "goal.first_steps": 0,
                "goal.last_steps": 0, "eval.tasks": "", "http.port": 0, "gateway.max_new_tokens": 32}
    argv = [binary, "train", "configs/smoke.yaml"]
    for key, value in settings.items():
        argv += ["--set", f"{key}={value}"]
    code, output = sh(argv, cwd=source, timeout=120)
    if code != 0:
        raise SystemExit(f"no model to serve: {output}")
    return folder / "tiny" / "checkpoints" / "step-00000001"


def run_case(name, binary, model, cache):
    function, script, could, expected = CASES[name]
    with tempfile.TemporaryDirectory(prefix=f"ingot-{name}-") as temporary:
        folder = pathlib.Path(temporary)
        server = Server(binary, model, script, folder)
        try:
            code, output = function(cache, server, folder)
            figures = server.figures()
        except subprocess.TimeoutExpired as error:
            code, output, figures = 1, f"timed out: {(error.output or b'')[-3000:]}", server.figures()
        finally:
            server.stop()
        asked, recorded = server.prompts()
    wrong = [f"{key} is {figures[key]}, expected {value}" for key, value in expected.items()
             if differs(figures[key], value)]
    differing = sum(asked.get(call) != prompt for call, prompt in recorded.items())
    if differing or len(recorded) != figures["completed"] + figures["aborted"]:
        wrong.append(f"{len(recorded)} calls are recorded, {differing} of them with another prompt than the engine got")
    if code != 0:
        wrong.append(f"the client ended with {code}")
    encoded, prompt_tokens = figures["encoded"]
    print(f"{name:40} {'ok' if not wrong else 'FAILED':7} calls {figures['completed']}  "
          f"continued {figures['spliced']} of {could}  forks {figures['forks']}  "
          f"prompt tokens encoded anew {encoded}/{prompt_tokens} ({encoded / max(1, prompt_tokens):.0%})  "
          f"prompts recorded otherwise {differing}", flush=True)
    if wrong:
        print("  " + "; ".join(wrong))
        print("\n".join("  | " + line for line in output.splitlines()[-25:]))
    return not wrong


def record_faults(inspect, run, steps, groups, samples):
    """What of a run's record is not as its pool has it. `inspect`(WORDS...): `ingot inspect RUN WORDS`."""
    journal = [json.loads(line) for line in inspect("--journal").splitlines()]
    batches = [[int(group) for group in record["batch"]["groupIds"]] for record in journal if "batch" in record]
    with open(run / "metrics.jsonl", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if "batch/episodes" in row]
    wrong = []
    if len(rows) != steps or len(batches) != steps:
        wrong.append(f"{len(rows)} rows of metrics and {len(batches)} batches, expected {steps}")
    if len({group for batch in batches for group in batch}) != steps * groups:
        wrong.append(f"batches {batches}: not {groups} groups each, each group once")
    calls_of_all, tokens_of_all = 0, 0
    for row, batch in zip(rows, batches):
        trees = [inspect(f"{group}/{sample}") for group in batch for sample in range(samples)]
        calls = sum(int(re.search(r"^(\d+) calls?", tree, re.M).group(1)) for tree in trees)
        sampled = sum(int(count) for tree in trees for count in re.findall(r"sampled (\d+) tokens?, version", tree))
        expected = {"batch/episodes": groups * samples, "batch/calls": calls, "batch/loss_tokens": sampled,
                    "batch/calls_left_out_flagged": 0, "batch/calls_left_out_weights": 0}
        wrong += [f"step {row['step']}: {key} is {row[key]}, the pool says {value}"
                  for key, value in expected.items() if row[key] != value]
        mismatch = row.get("mismatch/logprob_abs_diff_max")
        if mismatch is None or mismatch > 1e-5:
            wrong.append(f"step {row['step']}: mismatch {mismatch}, {row['mismatch/probe_tokens']:.0f} probe tokens")
        calls_of_all += calls
        tokens_of_all += sampled
    print(f"  {run.name}: {len(rows)} steps, batches {batches}, {calls_of_all} calls, {tokens_of_all} tokens trained, "
          "as the pool has them" + (", but for what follows" if wrong else ""), flush=True)
    return wrong


def opencode_training(binary, source, cache):
    """OpenCode trains a model: examples/opencode/run.yaml, and every number of it must add up."""
    path = os.pathsep.join([str(pathlib.Path(cache.node("opencode")).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory(prefix="ingot-training-") as folder:
        steps, groups, samples = 2, 2, 4
        code, output = sh([binary, "train", "examples/opencode/run.yaml", "--set", f"run.root={folder}", "--set",
                           f"scheduler.total_steps={steps}", "--set", "http.port=0"], cwd=source, timeout=1200,
                          env={**os.environ, "PATH": path})
        if code != 0:
            return False, output
        run = pathlib.Path(folder, "opencode")
        wrong = record_faults(lambda *what: sh([binary, "inspect", str(run), *what], cwd=source)[1], run, steps, groups,
                              samples)
        print(f"{'opencode_training':40} {'ok' if not wrong else 'FAILED'}", flush=True)
        return not wrong, "; ".join(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("cases", nargs="*", help=f"of: {' '.join(CASES)} opencode_training")
    parser.add_argument("--require", action="store_true", help="a client that is not there is a failure")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "ingot-clients")
    options = parser.parse_intermixed_args()
    binary = str(pathlib.Path(options.binary).resolve())
    cache = Cache(options.cache)
    cache.install()
    failed = []
    with tempfile.TemporaryDirectory(prefix="ingot-clients-") as temporary:
        model = make_model(binary, HERE.parent.parent, pathlib.Path(temporary))
        for name in options.cases or [*CASES, "opencode_training"]:
            try:
                if name == "opencode_training":
                    passed, why = opencode_training(binary, HERE.parent.parent, cache)
                    if not passed:
                        failed.append(name)
                        print("\n".join("  | " + line for line in why.splitlines()[-25:]))
                elif not run_case(name, binary, model, cache):
                    failed.append(name)
            except Skip as reason:
                required = options.require and (name != "claude_code" or accepts_claude_code())
                print(f"{name:40} {'FAILED:' if required else 'skipped:'} {reason}")
                if required:
                    failed.append(name)
    print(f"clients: {'all passed' if not failed else 'failed: ' + ' '.join(failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
