#!/usr/bin/env python3
"""Alternates between the model and its tools until the model answers: tables, MCP servers, and an OpenEnv environment.

    OPENAI_BASE_URL=http://host:port/v1 OPENAI_API_KEY=... react.py TASK.json

TASK.json is tool_agent.py's, without "session" and "strict", and optionally

    {"mcp": {"NAME": {"command": "..", "args": [..]}},    MCP servers (mcp_client.py), as in ${mcp.servers}
     "environment": "ws://127.0.0.1:8000/ws",             an OpenEnv server: the tool `step(action)` takes an action of it
     "reset": {"seed": 7}}                                what the environment is reset with; the observation follows the prompt

If two tools have the same name, the later server's tool is offered as NAME_TOOL. With an environment, the last line
printed is {"reward": the sum of the steps' rewards, "signals": {..}}, for the verifier `agent_reported`, and otherwise
the answer. An episode without an answer after max_turns prints an empty line. Exit codes: 0, 1 if a server could not be
reached, 2 for invalid arguments.
"""
import sys

sys.path.insert(0, __file__.rpartition("/")[0] or ".")
import harness  # noqa: E402
import tool_agent  # noqa: E402

STEP = {"type": "function", "function": {"name": "step", "parameters": {
    "type": "object", "properties": {"action": {"type": "object"}}}}}


class Tools:
    """What the model may call: the offered tools, and a function of the call's arguments for each name."""

    def __init__(self, task):
        self.offered, self.carry = list(task.get("tools") or []), {}
        self.tables, self.sessions, self.environment = task.get("tables") or {}, [], None
        for name, settings in (task.get("mcp") or {}).items():
            self.add_server(name, settings)
        if task.get("environment"):
            self.add_environment(task)

    def names(self):
        return {tool["function"]["name"] for tool in self.offered}

    def add_server(self, server, settings):
        import mcp_client

        session = mcp_client.connect(settings)
        self.sessions.append(session)
        for tool in session.tools:
            name = tool["function"]["name"]
            shown = f"{server}_{name}" if name in self.names() else name
            self.offered.append({"type": "function", "function": {**tool["function"], "name": shown}})
            self.carry[shown] = lambda arguments, session=session, name=name: session.call(name, arguments)

    def add_environment(self, task):
        import openenv_agent

        self.environment = openenv_agent.Episode(task)
        self.offered.append(STEP)
        self.carry["step"] = lambda arguments: self.environment.step(harness.argument(arguments, "action", dict))

    def result(self, call):
        if isinstance(call.get("function"), dict) and call["function"].get("name") in self.carry:
            return harness.carry_out(call, self.carry)
        return {"role": "tool", "tool_call_id": str(call.get("id", "")), "content": tool_agent.call_tool(self.tables, call)}

    def done(self):
        return self.environment is not None and self.environment.done

    def close(self):
        for session in self.sessions:
            session.close()


def first_observation(tools, task):
    import openenv_agent

    try:
        return openenv_agent.observed(tools.environment.environment.ask("reset", task.get("reset") or {}))
    except openenv_agent.Refused as refusal:
        raise harness.Failure(f"the environment rejected the reset: {refusal}") from None


def converse(task, tools):
    """The answer, or an empty one."""
    model = harness.Model()
    prompt = f"{task['prompt']}\n{first_observation(tools, task)}" if tools.environment else task["prompt"]
    messages = [{"role": "system", "content": task["system"]}] if task.get("system") else []
    messages += (task.get("history") or []) + [{"role": "user", "content": prompt}]
    for _ in range(task.get("max_turns", 8)):
        reply = model.ask(messages, tools.offered, task.get("max_tokens"))
        calls = harness.calls_of(reply)
        if not calls:
            return harness.text_of(reply)
        messages.append(reply)
        for call in calls:
            messages.append(tools.result(call))
            if tools.done():
                return ""
    return ""


def play(task):
    tools = Tools(task)
    try:
        answer = converse(task, tools)
    finally:
        tools.close()
    if not tools.environment:
        return answer
    episode = tools.environment
    return harness.dumps({"reward": episode.reward, "signals": {"openenv/steps": episode.steps, "openenv/errors": episode.errors}})


if __name__ == "__main__":
    sys.exit(harness.main(sys.argv, "react", play, {"prompt": str}, mcp=dict, environment=str, reset=dict, history=list, **harness.TOOLS))
