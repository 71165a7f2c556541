"""Code shared by the agents in this folder: the task's file, the model, tool calls, and the report.

Only the standard library, and imports as few as those of tool_agent.py: run the agents as `python3 -I -S`.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import tool_agent  # noqa: E402
from tool_agent import Failure, dumps, env, loads  # noqa: E402, F401


class Refused(Exception):
    """A tool rejects a call. Its message is the call's result."""


class Mistake(Exception):
    """The task's file cannot be used."""


class Model:
    """The server's models. ask() returns the assistant's message. `tokens` is the length of the last call, prompt and answer,
    as the server counted it, or None if it did not."""

    def __init__(self):
        self.http, self.tokens = tool_agent.Http(env.get("OPENAI_BASE_URL", "")), None

    def ask(self, messages, tools=None, max_tokens=None, model=None, role=None):
        """`role` names the player in a game of several, for rewards per role."""
        request = {"model": model or env.get("OPENAI_MODEL", "default"), "messages": messages}
        if role:
            request["metadata"] = {"ingot_role": role}
        if tools:
            request["tools"] = tools
        if max_tokens:
            request["max_tokens"] = max_tokens
        reply = tool_agent.complete(self.http, request)
        usage = reply.get("usage")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
        self.tokens = tokens if isinstance(tokens, int) else None
        return reply["choices"][0]["message"]


def post(reward, signals=None, facts=None, calls=None):
    """Posts the episode's reward, signals, and facts to the gateway, for the verifier `agent_posted`. `calls` has rewards of
    single calls: [{"turn": 0, "reward": 1}]."""
    url = env.get("OPENAI_BASE_URL", "")
    scheme, _, rest = url.partition("://")
    http = tool_agent.Http(f"{scheme}://{rest.partition('/')[0]}")
    if "INGOT_EPISODE_ID" not in env:
        raise Failure("INGOT_EPISODE_ID is not set, so the reward cannot be posted")
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + env.get("OPENAI_API_KEY", "")}
    posted = {"reward": reward, "signals": signals or {}, "facts": facts or {}}
    if calls:
        posted["calls"] = calls
    body = dumps(posted).encode()
    status, _, reply = http.post(f"/ingot/v1/episodes/{env['INGOT_EPISODE_ID']}/reward", headers, body)
    if status != 200:
        raise Failure(f"the gateway rejected the reward with {status}: {reply[:200].decode('utf-8', 'replace')}")


def text_of(message):
    content = message.get("content")
    return content if isinstance(content, str) else ""


def calls_of(message):
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def read_call(call):
    """The name and the arguments of a tool call."""
    try:
        name, arguments = call["function"]["name"], loads(call["function"]["arguments"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused("error: malformed call") from None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Refused("error: malformed call")
    return name, arguments


def argument(arguments, name, kind=str):
    """One argument of a call, which must have the type `kind`."""
    value = arguments.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"error: '{name}' is missing or has the wrong type")
    return value


def carry_out(call, tools):
    """The result of a tool call as a message. `tools` maps each name to a function of the arguments."""
    try:
        name, arguments = read_call(call)
        if name not in tools:
            raise Refused("error: no such tool")
        result = tools[name](arguments)
    except Refused as refusal:
        result = str(refusal)
    identity = call.get("id")
    return {"role": "tool", "tool_call_id": identity if isinstance(identity, str) else "", "content": result}


NUMBER = (int, float)
TOOLS = {"system": str, "tools": list, "tables": dict, "max_turns": int, "max_tokens": int}  # optional fields of most agents


def read_task(path, fields, optional):
    """The task's file as a dictionary. `fields` maps each required field to its type, and `optional` each other field."""
    try:
        with open(path, encoding="utf-8") as file:
            task = loads(file.read())
    except (OSError, ValueError) as mistake:
        raise Mistake(f"{path}: {mistake}") from None
    if not isinstance(task, dict):
        raise Mistake(f"{path}: a task is a JSON object")
    for name, kind in {**optional, **fields}.items():
        if (name in fields or name in task) and not isinstance(task.get(name), kind):
            raise Mistake(f"{path}: the field '{name}' is missing or has the wrong type")
    return task


def main(argv, name, play, fields, **optional):
    """Runs an agent: exit code 0, 1 if a server failed, 2 for a mistake in how it was called."""
    if len(argv) != 2:
        print(f"usage: {name}.py TASK.json", file=sys.stderr)
        return 2
    try:
        answer = play(read_task(argv[1], fields, optional))
    except Mistake as mistake:
        print(f"{name}: {mistake}", file=sys.stderr)
        return 2
    except (OSError, Failure) as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(answer.encode("utf-8", "replace") + b"\n")
    return 0
