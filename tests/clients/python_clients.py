"""The Python clients of run.py: python_clients.py CASE URL. Each has the same conversation with the scripted model: one
call of a tool, two at once, an answer. A case may end with how it is held: _stream, and what is scripted: _malformed
calls, a _long answer that streams, or one that the client leaves (_abort)."""
import asyncio
import contextlib
import json
import sys
import time
import urllib.request

url = sys.argv[2]
QUESTION = "How is the weather in Paris, Rome and Oslo?"
ANSWER = "Mild, warm and cold."
WEATHER = {"Paris": "mild", "Rome": "warm", "Oslo": "cold"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LONG = "\n".join(f"{line:03}: grüße 日本語 😀" for line in range(140))
KEPT = 300  # characters, at least, of an answer that is left

NO_JSON, NO_CITY, NO_TOOL = "the arguments are not JSON", "the arguments name no city", "there is no such tool"
RESULTS = ["mild", "warm", "cold"]
# Of malformed calls: arguments that are not JSON, no such tool, a call that is not closed, a good one and one that is cut.
MALFORMED_RESULTS = [NO_JSON, NO_TOOL, NO_JSON, "warm", NO_JSON]
# Over Messages their arguments are an object, as far as they can be read.
READ_RESULTS = [NO_CITY, NO_TOOL, "cold", "warm", NO_CITY]


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def run_tool(name, arguments):
    """What a careful agent answers a call with; `arguments`: their text, or what the library made of it."""
    if name != "weather":
        return NO_TOOL
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return NO_JSON
    return WEATHER.get(arguments.get("city"), NO_CITY)


def converse(turn, stream, expected):
    """`turn`(results of the last calls, stream): what the model calls, as (id, name, arguments), and its text."""
    found, results = [], []
    for _ in range(10):
        calls, text = turn(results, stream)
        if not calls:
            check(text == ANSWER, text)
            return check(found == expected, f"{found}, expected {expected}")
        results = [(key, run_tool(name, arguments)) for key, name, arguments in calls]
        found += [result for _, result in results]
    check(False, "no answer")


def leave(pieces, close):
    """The text of a stream that is closed once there is enough of it."""
    kept = ""
    for piece in pieces:
        kept += piece
        if len(kept) >= KEPT:
            break
    close()
    check(KEPT <= len(kept) < len(LONG) and LONG.startswith(kept), f"kept {kept!r}")
    return kept


def wait_until_idle():
    """The gateway has noticed that the client left, and recorded what was sampled."""
    for _ in range(600):
        with urllib.request.urlopen(url + "/ingot/v1/status", timeout=30) as response:
            if json.load(response)["active_calls"] == 0:
                return
        time.sleep(0.05)
    check(False, "the call goes on without its client")


def go_on(start, text_of, abort):
    """Two questions on one history; of the first answer, with `abort`, only a beginning is read and joins it.
    `start`(history): a stream of events, `text_of`(events): the pieces of its text."""
    history = []

    def ask(text, leaves):
        history.append({"role": "user", "content": text})
        with start(history) as events:
            pieces = text_of(events)
            answer = leave(pieces, events.close) if leaves else "".join(pieces)
        history.append({"role": "assistant", "content": answer})
        return answer

    text = ask("Write a long text.", abort)
    check(abort or text == LONG, text)
    wait_until_idle()
    check(ask("Go on.", False) == ANSWER, "no answer")


def openai_python(stream=False, malformed=False, long=False, abort=False):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="key-openai")
    tools = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": PARAMETERS}}]
    messages = [{"role": "user", "content": QUESTION}]

    def turn(results, stream):
        messages.extend({"role": "tool", "tool_call_id": key, "content": result} for key, result in results)
        if stream:
            with client.chat.completions.stream(model="ingot", messages=messages, tools=tools) as events:
                for _event in events:
                    pass
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="ingot", messages=messages, tools=tools).choices[0].message
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        return [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []], message.content

    if long or abort:
        return go_on(lambda history: client.chat.completions.create(model="ingot", messages=history, stream=True),
                     lambda events: (event.choices[0].delta.content or "" for event in events), abort)
    converse(turn, stream, MALFORMED_RESULTS if malformed else RESULTS)


def openai_python_responses(malformed=False, long=False, abort=False):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="key-responses")
    tools = [{"type": "function", "name": "weather", "description": "of a city", "parameters": PARAMETERS}]
    items = [{"role": "user", "content": QUESTION}]

    def turn(results, _stream):
        items.extend({"type": "function_call_output", "call_id": key, "output": result} for key, result in results)
        if len(items) % 2 == 0:
            response = client.responses.create(model="ingot", input=items, tools=tools, store=False)
        else:
            with client.responses.stream(model="ingot", input=items, tools=tools, store=False) as events:
                for _event in events:
                    pass
                response = events.get_final_response()
        items.extend(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output)
        return [(item.call_id, item.name, item.arguments) for item in response.output
                if item.type == "function_call"], response.output_text

    if long or abort:
        return go_on(
            lambda history: client.responses.create(model="ingot", input=history, store=False, stream=True),
            lambda events: (event.delta for event in events if event.type == "response.output_text.delta"), abort)
    converse(turn, True, MALFORMED_RESULTS if malformed else RESULTS)


def anthropic_python(stream=False, malformed=False, long=False, abort=False):
    import anthropic
    client = anthropic.Anthropic(base_url=url, api_key="key-anthropic")
    tools = [{"name": "weather", "description": "of a city", "input_schema": PARAMETERS}]
    messages = [{"role": "user", "content": QUESTION}]

    def turn(results, stream):
        if results:
            messages.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": key, "content": result} for key, result in results]})
        arguments = {"model": "ingot", "max_tokens": 200, "messages": messages, "tools": tools}
        count = client.messages.count_tokens(model="ingot", messages=messages, tools=tools)
        if stream:
            with client.messages.stream(**arguments) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**arguments)
        usage = message.usage
        asked = usage.input_tokens + usage.cache_read_input_tokens
        check(len(messages) > 1 or count.input_tokens == asked, f"{count} but {usage}")
        messages.append({"role": "assistant", "content": message.content})
        text = "".join(block.text for block in message.content if block.type == "text")
        return [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"], text

    if long or abort:
        return go_on(lambda history: client.messages.stream(model="ingot", max_tokens=5000, messages=history),
                     lambda events: events.text_stream, abort)
    converse(turn, stream, READ_RESULTS if malformed else RESULTS)


def smolagents_code(stream=False):
    import smolagents
    model = smolagents.OpenAIModel(model_id="ingot", api_base=url + "/v1", api_key="key-smolagents")
    agent = smolagents.CodeAgent(tools=[], model=model, max_steps=5, stream_outputs=stream)
    answer = agent.run("What is 1 + 2?")
    check(answer == 3, answer)


def google_python(stream=False, malformed=False, long=False, abort=False):
    from google import genai
    client = genai.Client(api_key="key-google", http_options={"base_url": url})
    tool = {"name": "weather", "description": "of a city", "parameters_json_schema": PARAMETERS}
    config = {"tools": [{"function_declarations": [tool]}], "automatic_function_calling": {"disable": True}}
    contents = [{"role": "user", "parts": [{"text": QUESTION}]}]

    def turn(results, stream):
        if results:
            contents.append({"role": "user", "parts": [
                {"function_response": {"id": key, "name": name, "response": {"output": result}}}
                for (key, name), result in results]})
        arguments = {"model": "ingot", "contents": contents, "config": config}
        if stream:
            replies = list(client.models.generate_content_stream(**arguments))
        else:
            replies = [client.models.generate_content(**arguments)]
        last = replies[-1]
        check(last.candidates[0].finish_reason == genai.types.FinishReason.STOP, last)
        check(last.usage_metadata.total_token_count > last.usage_metadata.prompt_token_count > 0, last)
        parts = [part for reply in replies for part in reply.candidates[0].content.parts]
        contents.append({"role": "model", "parts": parts})
        calls = [part.function_call for part in parts if part.function_call]
        return ([((made.id, made.name), made.name, made.args) for made in calls],
                "".join(part.text or "" for part in parts))

    def read(history):
        roles = {"user": "user", "assistant": "model"}
        contents = [{"role": roles[turn["role"]], "parts": [{"text": turn["content"]}]} for turn in history]
        check(client.models.count_tokens(model="ingot", contents=contents).total_tokens > 10, "no tokens")
        return contextlib.closing(client.models.generate_content_stream(model="ingot", contents=contents))

    if long or abort:
        return go_on(read, lambda chunks: (chunk.text or "" for chunk in chunks), abort)
    converse(turn, stream, READ_RESULTS if malformed else RESULTS)


def google_chat(stream=False):
    """The library keeps the history and calls the function itself."""
    from google import genai
    found = []

    def weather(city: str) -> str:
        """of a city"""
        found.append(WEATHER[city])
        return WEATHER[city]

    client = genai.Client(api_key="key-google-chat", http_options={"base_url": url})
    chat = client.chats.create(model="ingot", config={"tools": [weather]})
    if stream:
        text = "".join(chunk.text or "" for chunk in chat.send_message_stream(QUESTION))
    else:
        text = chat.send_message(QUESTION).text
    check(text == ANSWER and found == RESULTS, f"{text}, {found}")
    check(chat.get_history(curated=True) == chat.get_history(), "the library drops a turn of its history")


def langchain(stream=False, malformed=False, long=False, abort=False):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def weather(city: str) -> str:
        """of a city"""
        return WEATHER[city]

    model = ChatOpenAI(model="ingot", base_url=url + "/v1", api_key="key-langchain")
    if long or abort:
        return go_on(lambda history: contextlib.closing(model.stream(history)),
                     lambda chunks: (chunk.content for chunk in chunks), abort)
    model = model.bind_tools([weather])
    messages = [HumanMessage(QUESTION)]

    def turn(results, stream):
        messages.extend(ToolMessage(result, tool_call_id=key) for key, result in results)
        if stream:
            first, *rest = model.stream(messages)
            message = sum(rest, first)
        else:
            message = model.invoke(messages)
        messages.append(message)
        return [(made["id"], made["name"], made["args"])
                for made in message.tool_calls + message.invalid_tool_calls], message.content

    if malformed and stream:  # the library closes what is not closed: one city is whole then, one is not
        return converse(turn, stream, [NO_JSON, NO_TOOL, "cold", "warm", NO_CITY])
    converse(turn, stream, MALFORMED_RESULTS if malformed else RESULTS)


def expect_error(kind, http, call, **fields):
    """`call` raises exactly `kind`, with that HTTP status, a message and these attributes, and no second attempt."""
    try:
        result = call()
    except Exception as error:
        found = error.status_code if hasattr(error, "status_code") else error.code
        check(type(error) is kind and found == http, f"{type(error)}: {error}, expected {kind} {http}")
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
                     code="context_length_exceeded", param="messages")
        expect_error(bad, 400, lambda: client.responses.create(model="ingot", input=too_long, stream=stream),
                     code="context_length_exceeded", param="input")
        expect_error(bad, 400, lambda: client.completions.create(model="ingot", prompt=too_long, stream=stream),
                     code="context_length_exceeded", param="prompt")
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


def google_python_errors():
    from google import genai
    client = genai.Client(api_key="key-errors", http_options={"base_url": url})
    check([model.name for model in client.models.list()] == ["models/ingot"], "models")
    check(client.models.get(model="ingot").supported_actions == ["generateContent", "countTokens"], "model")
    fault = genai.errors.ClientError
    invalid, missing = {"status": "INVALID_ARGUMENT"}, {"status": "NOT_FOUND"}
    expect_error(fault, 404, lambda: client.models.get(model="no"), **missing)
    expect_error(fault, 404, lambda: client.caches.list(), **missing)
    call = lambda method, contents="hi", **config: getattr(client.models, method)(
        model="ingot", contents=contents, config=config or None)
    read = {"generate_content": lambda answer: answer, "generate_content_stream": list}
    image = genai.types.Part.from_bytes(data=b"x", mime_type="image/png")
    for method, whole in read.items():
        for config in ({"temperature": 3}, {"max_output_tokens": -1}, {"candidate_count": 1000},
                       {"response_mime_type": "text/x.enum"}, {"response_modalities": ["IMAGE"]}, {"logprobs": 5},
                       {"tool_config": {"function_calling_config": {"mode": "ANY"}}}):
            expect_error(fault, 400, lambda: whole(call(method, **config)), **invalid)
        expect_error(fault, 400, lambda: whole(call(method, contents=[image])), **invalid)
        try:
            whole(call(method, contents="x" * 400001))
            check(False, "no error")
        except fault as error:  # what agents look for, to make their history shorter
            check("exceeds the maximum number of tokens allowed" in error.message, error)


def openai_agents(stream=False, malformed=False, long=False, abort=False, kind="OpenAIChatCompletionsModel"):
    import agents
    import openai

    @agents.function_tool
    def weather(city: str) -> str:
        """of a city"""
        return WEATHER[city]

    client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="key-agents")
    agent = agents.Agent(name="weather", tools=[] if long or abort else [weather],
                         model=getattr(agents, kind)("ingot", client))
    # By default a call of no tool ends the run with an error.
    config = agents.RunConfig(tool_not_found_behavior="return_error_to_model")
    loop = asyncio.new_event_loop()

    async def read(items, leaves=False):
        """A streamed run and its text."""
        run, text = agents.Runner.run_streamed(agent, items, run_config=config), ""
        async for event in run.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                text += event.data.delta
                if leaves and len(text) >= KEPT:
                    run.cancel()
        return run, text

    def texts(history):
        yield loop.run_until_complete(read(history, leaves=abort and len(history) == 1))[1]

    if long or abort:
        return go_on(lambda history: contextlib.closing(texts(history)), lambda texts: texts, abort)
    if stream:
        run, text = loop.run_until_complete(read(QUESTION))
        check(text.endswith(ANSWER), text)
    else:
        run = loop.run_until_complete(agents.Runner.run(agent, QUESTION, run_config=config))
    check(run.final_output == ANSWER, run)
    found = [item["output"] for item in run.to_input_list() if item.get("type") == "function_call_output"]
    no_json = "An error occurred while running the tool. Please try again."
    expected = [no_json, "Tool 'no_such_tool' not found.", no_json, "warm", no_json] if malformed else RESULTS
    check(found == expected, f"{found}, expected {expected}")


def openai_agents_responses(**how):
    openai_agents(kind="OpenAIResponsesModel", **how)


if __name__ == "__main__":
    name, how = sys.argv[1], {}
    for word in ("malformed", "long", "abort", "stream"):
        if name.endswith("_" + word):
            name, how[word] = name.removesuffix("_" + word), True
    globals()[name](**how)
