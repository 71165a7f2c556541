"""The Python clients of run.py: python_clients.py CASE URL. Each has the same conversation with the scripted model: one
call of a tool, two at once, an answer."""
import json
import sys

url = sys.argv[2]
QUESTION = "How is the weather in Paris, Rome and Oslo?"
ANSWER = "Mild, warm and cold."
WEATHER = {"Paris": "mild", "Rome": "warm", "Oslo": "cold"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def openai_python(stream=False):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="key-openai")
    tools = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": PARAMETERS}}]
    messages = [{"role": "user", "content": QUESTION}]
    for _ in range(5):
        if stream:
            with client.chat.completions.stream(model="ingot", messages=messages, tools=tools) as events:
                for _event in events:
                    pass
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="ingot", messages=messages, tools=tools).choices[0].message
        if not message.tool_calls:
            return check(message.content == ANSWER, message)
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for tool_call in message.tool_calls:
            city = json.loads(tool_call.function.arguments)["city"]
            messages.append({"role": "tool", "tool_call_id": tool_call.id, "content": WEATHER[city]})
    check(False, "no answer")


def openai_python_responses():
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="key-responses")
    tools = [{"type": "function", "name": "weather", "description": "of a city", "parameters": PARAMETERS}]
    items = [{"role": "user", "content": QUESTION}]
    for turn in range(5):
        if turn % 2:
            response = client.responses.create(model="ingot", input=items, tools=tools, store=False)
        else:
            with client.responses.stream(model="ingot", input=items, tools=tools, store=False) as events:
                for _event in events:
                    pass
                response = events.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return check(response.output_text == ANSWER, response)
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        for item in calls:
            items.append({"type": "function_call_output", "call_id": item.call_id,
                          "output": WEATHER[json.loads(item.arguments)["city"]]})
    check(False, "no answer")


def anthropic_python(stream=False):
    import anthropic
    client = anthropic.Anthropic(base_url=url, api_key="key-anthropic")
    tools = [{"name": "weather", "description": "of a city", "input_schema": PARAMETERS}]
    messages = [{"role": "user", "content": QUESTION}]
    count = client.messages.count_tokens(model="ingot", messages=messages, tools=tools)
    for turn in range(5):
        arguments = {"model": "ingot", "max_tokens": 200, "messages": messages, "tools": tools}
        if stream:
            with client.messages.stream(**arguments) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**arguments)
        if turn == 0:
            check(count.input_tokens == message.usage.input_tokens, f"{count} but {message.usage}")
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            return check(message.content[0].text == ANSWER, message)
        messages.append({"role": "assistant", "content": message.content})
        messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": use.id, "content": WEATHER[use.input["city"]]} for use in uses]})
    check(False, "no answer")


def langchain():
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def weather(city: str) -> str:
        """of a city"""
        return WEATHER[city]

    model = ChatOpenAI(model="ingot", base_url=url + "/v1", api_key="key-langchain").bind_tools([weather])
    messages = [HumanMessage(QUESTION)]
    for _ in range(5):
        message = model.invoke(messages)
        if not message.tool_calls:
            return check(message.content == ANSWER, message)
        messages.append(message)
        for tool_call in message.tool_calls:
            messages.append(ToolMessage(weather.invoke(tool_call["args"]), tool_call_id=tool_call["id"]))
    check(False, "no answer")


def expect_error(kind, http, call, **fields):
    """`call` raises exactly `kind`, with that HTTP status, a message and these attributes, and no second attempt."""
    try:
        result = call()
    except Exception as error:
        check(type(error) is kind and error.status_code == http, f"{type(error)}: {error}, expected {kind} {http}")
        found = {name: getattr(error, name, None) for name in fields}
        check(found == fields and len(str(error)) > 20, f"{found}, expected {fields}: {error}")
    else:
        check(False, f"{result}, expected {kind}")


def openai_python_errors():
    """Each fault raises the type that the library promises, with the field at fault."""
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="key-errors")
    question = [{"role": "user", "content": "hi"}]
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}]}]
    too_long = "x" * 400001
    check([model.id for model in client.models.list()] == ["ingot"] and client.models.retrieve("ingot").id == "ingot",
          "models")
    bad = openai.BadRequestError
    expect_error(openai.NotFoundError, 404, lambda: client.models.retrieve("no"), code="model_not_found", param="model")
    expect_error(openai.NotFoundError, 404, lambda: client.embeddings.create(model="m", input="x"), code="not_found")
    expect_error(openai.APIStatusError, 405, lambda: client.models.delete("ingot"), code="method_not_allowed")
    chat = lambda **fields: client.chat.completions.create(**{"model": "ingot", "messages": question, **fields})
    for field, wrong in {"messages": 5, "temperature": "hot", "n": 1.5, "max_tokens": 0, "stop": 7, "tools": 5,
                         "tool_choice": "sometimes", "response_format": {"type": "xml"}, "top_logprobs": 99,
                         "stream_options": 7, "logit_bias": {"a": 1}}.items():
        for stream in (False, True):
            expect_error(bad, 400, lambda: chat(**{field: wrong, "stream": stream}), param=field,
                         type="invalid_request_error")
    expect_error(bad, 400, lambda: chat(messages=image), code="unsupported_content", param="messages[0].content[0]")
    for stream in (False, True):
        expect_error(bad, 400, lambda: chat(messages=[{"role": "user", "content": too_long}], stream=stream),
                     code="context_length_exceeded")
        expect_error(bad, 400, lambda: client.responses.create(model="ingot", input=too_long, stream=stream),
                     code="context_length_exceeded")
        expect_error(bad, 400, lambda: client.completions.create(model="ingot", prompt=too_long, stream=stream),
                     code="context_length_exceeded")
    for field, wrong in {"previous_response_id": "resp_1", "input": 5, "text": 7, "reasoning": 7,
                         "tool_choice": "never"}.items():
        expect_error(bad, 400, lambda: client.responses.create(**{"model": "ingot", "input": "hi", field: wrong}),
                     param=field)
    expect_error(openai.NotFoundError, 404, lambda: client.responses.retrieve("resp_1"), code="not_found")
    expect_error(bad, 400, lambda: client.completions.create(model="ingot", prompt=[]), param="prompt")


def anthropic_python_errors():
    import anthropic
    client = anthropic.Anthropic(base_url=url, api_key="key-errors")
    question = [{"role": "user", "content": "hi"}]
    source = {"type": "base64", "media_type": "image/png", "data": "aa"}
    check([model.id for model in client.models.list()] == ["ingot"], "models")
    bad, missing = anthropic.BadRequestError, anthropic.NotFoundError
    invalid = {"type": "invalid_request_error"}
    expect_error(missing, 404, lambda: client.models.retrieve("no"), type="not_found_error")
    expect_error(missing, 404, lambda: client.messages.batches.list(), type="not_found_error")
    messages = lambda **fields: client.messages.create(
        **{"model": "ingot", "messages": question, "max_tokens": 8, **fields})
    for field, wrong in {"messages": [], "max_tokens": 0, "system": 5, "tools": [{}], "thinking": 7,
                         "stop_sequences": [7], "tool_choice": {"type": "tool", "name": "none"}}.items():
        for stream in (False, True):
            expect_error(bad, 400, lambda: messages(**{field: wrong, "stream": stream}), **invalid)
    expect_error(bad, 400, lambda: messages(messages=[{"role": "user", "content": [{"type": "image", "source": source}]}]),
                 **invalid)
    expect_error(bad, 400, lambda: client.beta.messages.create(model="ingot", messages=[], max_tokens=8), **invalid)
    expect_error(bad, 400, lambda: client.messages.count_tokens(model="ingot", messages=5), **invalid)
    try:
        messages(messages=[{"role": "user", "content": "x" * 400001}])
        check(False, "no error")
    except bad as error:  # what agents look for, to make their history shorter
        check("prompt is too long" in error.body["error"]["message"], error)


def openai_agents():
    import openai
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool

    @function_tool
    def weather(city: str) -> str:
        """of a city"""
        return WEATHER[city]

    client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="key-agents")
    agent = Agent(name="weather", tools=[weather], model=OpenAIChatCompletionsModel("ingot", client))
    result = Runner.run_sync(agent, QUESTION)
    check(result.final_output == ANSWER, result)


if __name__ == "__main__":
    name = sys.argv[1]
    if name.endswith("_stream"):
        globals()[name.removesuffix("_stream")](stream=True)
    else:
        globals()[name]()
