"""Agent frameworks and proxies of run.py that need Python packages of their own: agent_clients.py CASE URL, in the
environment that run.py's VENVS names for it. The conversation and the names of cases are those of python_clients.py."""
import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from free_ports import free_port  # noqa: E402
from python_clients import (ANSWER, NO_CITY, PARAMETERS, QUESTION, READ_RESULTS, RESULTS, WEATHER, check,
                            converse, url)


def check_results(found, malformed, reads):
    """Errors are in the library's words, which change with its version. `reads`: calls that are not closed are made."""
    if not malformed:
        return check(found == RESULTS, found)
    made = [result if result in WEATHER.values() else None for result in found]
    check(made == [None, None, "cold" if reads else None, "warm", None], found)


def strands(kind="messages", malformed=False):
    """Strands streams every call, and raises where a streamed call's input is no JSON."""
    import strands
    if kind == "messages":
        from strands.models.anthropic import AnthropicModel
        model = AnthropicModel(client_args={"base_url": url, "api_key": "key-strands"}, model_id="ingot", max_tokens=500)
    else:
        from strands.models.openai import OpenAIModel
        model = OpenAIModel(client_args={"base_url": url + "/v1", "api_key": "key-strands"}, model_id="ingot")

    @strands.tool
    def weather(city: str) -> str:
        """of a city"""
        return WEATHER.get(city, NO_CITY)

    agent = strands.Agent(model=model, tools=[weather], callback_handler=None)
    result = agent(QUESTION)
    text = "".join(block.get("text", "") for block in result.message["content"])
    check(text == ANSWER, text)
    found = [part["text"] for message in agent.messages for block in message["content"] if "toolResult" in block
             for part in block["toolResult"]["content"]]
    check_results(found, malformed, reads=kind == "messages")


def strands_chat(**how):
    strands(kind="chat", **how)


def inspect(kind="anthropic", stream=False, malformed=False):
    """Inspect's own loop over a model and its tools."""
    from inspect_ai.model import ChatMessageTool, GenerateConfig, get_model
    from inspect_ai.tool import tool

    @tool
    def weather():
        async def execute(city: str) -> str:
            """of a city

            Args:
              city: its name
            """
            return WEATHER.get(city, NO_CITY)
        return execute

    base = url if kind == "anthropic" else url + "/v1"
    arguments = {"streaming": stream} if kind == "anthropic" else {}
    model = get_model(f"{kind}/ingot", base_url=base, api_key="key-inspect", config=GenerateConfig(max_tokens=500),
                      **arguments)
    messages, output = asyncio.run(model.generate_loop(QUESTION, tools=[weather()]))
    check(output.completion == ANSWER, output)
    found = [message.text or str(message.error) for message in messages if isinstance(message, ChatMessageTool)]
    check_results(found, malformed, reads=kind == "anthropic")


def inspect_chat(**how):
    inspect(kind="openai-api/ingot", **how)


def inspect_responses(**how):
    inspect(kind="openai", **how)


@contextlib.contextmanager
def litellm_proxy():
    """LiteLLM's proxy in front of the server: models `messages` and `chat` are asked over that API. Yields its URL."""
    port = free_port()
    bases = {"messages": ("anthropic", url), "chat": ("openai", url + "/v1")}
    config = {"model_list": [{"model_name": name, "litellm_params": {
        "model": f"{vendor}/ingot", "api_base": base, "api_key": "key-litellm"}}
        for name, (vendor, base) in bases.items()], "general_settings": {"master_key": "sk-proxy"}}
    pathlib.Path("litellm.json").write_text(json.dumps(config))  # JSON is YAML
    program = pathlib.Path(sys.executable).parent / "litellm"
    with open("litellm.log", "w", encoding="utf-8") as log:
        proxy = subprocess.Popen([program, "--config", "litellm.json", "--host", "127.0.0.1", "--port", str(port)],
                                 stdout=log, stderr=log, env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    try:
        for _ in range(600):
            check(proxy.poll() is None, "the proxy ended")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        print(pathlib.Path("litellm.log").read_text(encoding="utf-8")[-3000:])
        proxy.terminate()
        proxy.wait(timeout=30)


def litellm(model="messages", stream=False, malformed=False):
    """An OpenAI client behind the proxy, whose calls the proxy translates to the other API and back."""
    import openai
    tools = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": PARAMETERS}}]
    messages = [{"role": "user", "content": QUESTION}]
    with litellm_proxy() as base:
        client = openai.OpenAI(base_url=base + "/v1", api_key="sk-proxy", max_retries=0)

        def turn(results, stream):
            messages.extend({"role": "tool", "tool_call_id": key, "content": result} for key, result in results)
            asked = {"model": model, "messages": messages, "tools": tools, "max_tokens": 500}
            if stream:
                with client.chat.completions.stream(**asked) as events:
                    for _event in events:
                        pass
                    message = events.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**asked).choices[0].message
            messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
            return calls, message.content

        converse(turn, stream, READ_RESULTS if malformed else RESULTS)


def litellm_anthropic(model="messages", stream=False, malformed=False):
    """An Anthropic client behind the proxy, which hands the request on, or translates it to chat and back."""
    import anthropic
    tools = [{"name": "weather", "description": "of a city", "input_schema": PARAMETERS}]
    messages = [{"role": "user", "content": QUESTION}]
    with litellm_proxy() as base:
        client = anthropic.Anthropic(base_url=base, api_key="sk-proxy", max_retries=0)

        def turn(results, stream):
            if results:
                messages.append({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": key, "content": result} for key, result in results]})
            asked = {"model": model, "messages": messages, "tools": tools, "max_tokens": 500}
            if stream:
                with client.messages.stream(**asked) as events:
                    message = events.get_final_message()
            else:
                message = client.messages.create(**asked)
            messages.append({"role": "assistant", "content": message.content})
            return ([(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
                    "".join(block.text for block in message.content if block.type == "text"))

        converse(turn, stream, READ_RESULTS if malformed else RESULTS)


if __name__ == "__main__":
    name, how = sys.argv[1], {}
    for word in ("malformed", "stream"):
        if name.endswith("_" + word):
            name, how[word] = name.removesuffix("_" + word), True
    if name.endswith("_to_chat"):
        name, how["model"] = name.removesuffix("_to_chat"), "chat"
    globals()[name](**how)
