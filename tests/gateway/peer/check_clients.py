#!/usr/bin/env python3
"""Drives openai-python and anthropic-python, unchanged, against a gateway: check_clients.py URL [--model NAME]

    pip install openai anthropic
    build/release/tests/gateway/gateway_echo_server        prints the URL; serves until its stdin ends

Against the echo server (a scripted model that calls the first tool once, then repeats what the user said) every answer
is checked; with --any, for a real model, only what holds whatever it says.
"""
import argparse
import json
import sys

import anthropic
import openai

CHAT_TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}}
MESSAGES_TOOL = {"name": "add", "input_schema": CHAT_TOOL["function"]["parameters"]}
RESPONSES_TOOL = {"type": "function", **CHAT_TOOL["function"]}
ARGS = argparse.Namespace()


def expect(what, got, wanted):
    if not ARGS.any and got != wanted:
        sys.exit(f"FAILED {what}: got {got!r}, wanted {wanted!r}")
    print(f"ok {what}: {got!r}"[:160])


def chat(client):
    user = [{"role": "user", "content": "grüße"}]
    whole = client.chat.completions.create(model=ARGS.model, messages=user, max_tokens=40, seed=1)
    expect("chat", whole.choices[0].message.content, "You said: grüße")
    with client.chat.completions.stream(model=ARGS.model, messages=user, max_tokens=40, seed=1, logprobs=True, top_logprobs=2,
                                        stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    expect("chat stream", final.choices[0].message.content, "You said: grüße")
    assert final.usage.completion_tokens >= len(final.choices[0].logprobs.content) > 0
    several = client.chat.completions.create(model=ARGS.model, messages=user, max_tokens=8, n=3)
    assert [choice.index for choice in several.choices] == [0, 1, 2]
    called = client.chat.completions.create(model=ARGS.model, messages=user, tools=[CHAT_TOOL], max_tokens=200)
    if called.choices[0].message.tool_calls:
        call = called.choices[0].message.tool_calls[0]
        expect("chat tool", (call.function.name, json.loads(call.function.arguments)), ("add", {"a": 1, "b": 2}))
        after = client.chat.completions.create(model=ARGS.model, tools=[CHAT_TOOL], max_tokens=200, messages=user + [
            called.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "3"}])
        assert after.choices[0].finish_reason in ("stop", "length", "tool_calls")
    text = client.completions.create(model=ARGS.model, prompt="abc", max_tokens=5, logprobs=2)
    assert text.object == "text_completion" and len(text.choices[0].logprobs.tokens) > 0
    assert [model.id for model in client.models.list()]


def responses(client):
    whole = client.responses.create(model=ARGS.model, input="grüße", max_output_tokens=40, store=False)
    expect("responses", whole.output_text, "You said: grüße")
    with client.responses.stream(model=ARGS.model, input="grüße", max_output_tokens=40, store=False) as stream:
        events = [event for event in stream]
        final = stream.get_final_response()
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")][0] == 0
    expect("responses stream", final.output_text, "You said: grüße")
    items = [{"role": "user", "content": "add"}]
    called = client.responses.create(model=ARGS.model, input=items, tools=[RESPONSES_TOOL], max_output_tokens=200, store=False,
                                     include=["reasoning.encrypted_content"])
    calls = [item for item in called.output if item.type == "function_call"]
    if calls:
        expect("responses tool", (calls[0].name, json.loads(calls[0].arguments)), ("add", {"a": 1, "b": 2}))
        items += [item.model_dump(exclude_none=True) for item in called.output]
        items.append({"type": "function_call_output", "call_id": calls[0].call_id, "output": "3"})
        again = client.responses.create(model=ARGS.model, input=items, tools=[RESPONSES_TOOL], max_output_tokens=200, store=False)
        assert again.status in ("completed", "incomplete")


def messages(client):
    user = [{"role": "user", "content": [{"type": "text", "text": "grüße"}]}]
    whole = client.messages.create(model=ARGS.model, max_tokens=40, messages=user, system="Be brief.")
    expect("messages", "".join(block.text for block in whole.content if block.type == "text"), "You said: grüße")
    with client.messages.stream(model=ARGS.model, max_tokens=40, messages=user) as stream:
        final = stream.get_final_message()
    expect("messages stream", "".join(block.text for block in final.content if block.type == "text"), "You said: grüße")
    counted = client.messages.count_tokens(model=ARGS.model, messages=user)
    usage = final.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens, (counted, usage)
    with client.messages.stream(model=ARGS.model, max_tokens=200, messages=user, tools=[MESSAGES_TOOL]) as stream:
        called = stream.get_final_message()
    uses = [block for block in called.content if block.type == "tool_use"]
    if uses:
        expect("messages tool", (uses[0].name, uses[0].input, called.stop_reason), ("add", {"a": 1, "b": 2}, "tool_use"))
        after = client.messages.create(model=ARGS.model, max_tokens=200, tools=[MESSAGES_TOOL], messages=user + [
            {"role": "assistant", "content": called.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": uses[0].id, "content": "3"}]}])
        assert after.type == "message"
    beta = client.beta.messages.create(model=ARGS.model, max_tokens=8, messages=user)
    assert beta.role == "assistant"


def errors(chat_client, messages_client):
    for what, call in [
            ("chat", lambda: chat_client.chat.completions.create(model=ARGS.model, messages=[])),
            ("responses", lambda: chat_client.responses.create(model=ARGS.model, input="x", previous_response_id="resp_1")),
            ("messages", lambda: messages_client.messages.create(model=ARGS.model, max_tokens=1, messages=[{
                "role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]))]:
        try:
            call()
        except (openai.BadRequestError, anthropic.BadRequestError) as error:
            print(f"ok {what} error: {error}"[:160])
        else:
            sys.exit(f"FAILED {what}: there is no error")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="ingot")
    parser.add_argument("--key", default="sdk-check")
    parser.add_argument("--any", action="store_true", help="the model may say anything")
    parser.parse_args(namespace=ARGS)
    chat_client = openai.OpenAI(base_url=ARGS.url + "/v1", api_key=ARGS.key, max_retries=0)
    messages_client = anthropic.Anthropic(base_url=ARGS.url, api_key=ARGS.key, max_retries=0)
    print("openai", openai.__version__, "anthropic", anthropic.__version__)
    chat(chat_client)
    responses(chat_client)
    messages(messages_client)
    errors(chat_client, messages_client)
    print("all ok")


if __name__ == "__main__":
    main()
