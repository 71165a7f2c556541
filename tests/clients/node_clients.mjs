// The Node clients of run.py: node_clients.mjs CASE URL. Each has the same conversation with the scripted model: one call
// of a tool, two at once, an answer. A case may end with how it is held: _stream, and what is scripted: _malformed
// calls, a _long answer that streams, or one that the client leaves (_abort).
const [name, url] = process.argv.slice(2);
const QUESTION = "How is the weather in Paris, Rome and Oslo?";
const ANSWER = "Mild, warm and cold.";
const WEATHER = { Paris: "mild", Rome: "warm", Oslo: "cold" };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const LONG = Array.from({ length: 140 }, (_, line) => `${String(line).padStart(3, "0")}: grüße 日本語 😀`).join("\n");
const KEPT = 300; // characters, at least, of an answer that is left

const NO_JSON = "the arguments are not JSON", NO_CITY = "the arguments name no city", NO_TOOL = "there is no such tool";
const RESULTS = ["mild", "warm", "cold"];
// Of malformed calls: arguments that are not JSON, no such tool, a call that is not closed, a good one and one that is cut.
const MALFORMED_RESULTS = [NO_JSON, NO_TOOL, NO_JSON, "warm", NO_JSON];
// Over Messages their arguments are an object, as far as they can be read.
const READ_RESULTS = [NO_CITY, NO_TOOL, "cold", "warm", NO_CITY];

function check(condition, message) {
  if (condition) return;
  console.error("FAILED:", JSON.stringify(message, null, 1));
  process.exit(1);
}

// What a careful agent answers a call with; `input`: the text of its arguments, or what the library made of it.
function runTool(name, input) {
  if (name !== "weather") return NO_TOOL;
  if (typeof input === "string") {
    try {
      input = JSON.parse(input);
    } catch {
      return NO_JSON;
    }
  }
  return WEATHER[input.city] ?? NO_CITY;
}

// `turn`(results of the last calls): what the model calls, as { id, name, input }, and its text.
async function converse(turn, expected) {
  const found = [];
  let results = [];
  for (let i = 0; i < 10; ++i) {
    const { calls, text } = await turn(results);
    if (!calls.length) {
      check(text === ANSWER, text);
      return check(JSON.stringify(found) === JSON.stringify(expected), { found, expected });
    }
    results = calls.map(({ id, name, input }) => ({ id, result: runTool(name, input) }));
    found.push(...results.map(({ result }) => result));
  }
  check(false, "no answer");
}

// The text of a stream; of one that is left, what came until there was enough.
async function read(pieces, leaves) {
  let text = "";
  for await (const piece of pieces) {
    text += piece;
    if (leaves && text.length >= KEPT) break;
  }
  check(!leaves || (text.length >= KEPT && text.length < LONG.length && LONG.startsWith(text)), text);
  return text;
}

// The gateway has noticed that the client left, and recorded what was sampled.
async function waitUntilIdle() {
  for (let i = 0; i < 600; ++i) {
    if ((await (await fetch(url + "/ingot/v1/status")).json()).active_calls === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  check(false, "the call goes on without its client");
}

// Two questions on one history; of the first answer, with `abort`, only a beginning is read and joins it.
// `start`(history): a stream of events, `textOf`(event): its text, if it has any.
async function goOn(start, textOf, abort) {
  const history = [];
  async function ask(text, leaves) {
    history.push({ role: "user", content: text });
    const events = await start(history);
    async function* pieces() {
      for await (const event of events) yield textOf(event) ?? "";
    }
    const answer = await read(pieces(), leaves);
    history.push({ role: "assistant", content: answer });
    return answer;
  }
  const text = await ask("Write a long text.", abort);
  check(abort || text === LONG, text);
  await waitUntilIdle();
  check((await ask("Go on.", false)) === ANSWER, "no answer");
}

async function openai({ stream, malformed, long, abort }) {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: url + "/v1", apiKey: "key-openai-node" });
  const tools = [{ type: "function", function: { name: "weather", description: "of a city", parameters } }];
  const messages = [];
  async function turn(results) {
    for (const { id, result } of results) messages.push({ role: "tool", tool_call_id: id, content: result });
    const body = { model: "ingot", messages, tools };
    const reply = stream ? await client.chat.completions.stream(body).finalChatCompletion()
                         : await client.chat.completions.create(body);
    const message = reply.choices[0].message;
    const calls = message.tool_calls ?? [];
    messages.push({ role: "assistant", content: message.content, ...(calls.length && { tool_calls: calls }) });
    return { calls: calls.map((call) => ({ id: call.id, name: call.function.name, input: call.function.arguments })),
             text: message.content };
  }
  if (long || abort) {
    return goOn((history) => client.chat.completions.create({ model: "ingot", messages: history, stream: true }),
                (event) => event.choices[0].delta.content, abort);
  }
  messages.push({ role: "user", content: QUESTION });
  await converse(turn, malformed ? MALFORMED_RESULTS : RESULTS);
}

async function responses({ malformed, long, abort }) {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: url + "/v1", apiKey: "key-openai-node" });
  const tools = [{ type: "function", name: "weather", description: "of a city", parameters, strict: false }];
  const input = [];
  let turns = 0;
  async function turn(results) {
    for (const { id, result } of results) input.push({ type: "function_call_output", call_id: id, output: result });
    const body = { model: "ingot", input, tools, store: false };
    const reply = turns++ % 2 ? await client.responses.create(body) : await client.responses.stream(body).finalResponse();
    input.push(...reply.output.map(({ parsed_arguments, ...item }) => item));
    return { calls: reply.output.filter((item) => item.type === "function_call")
                        .map((item) => ({ id: item.call_id, name: item.name, input: item.arguments })),
             text: reply.output_text };
  }
  if (long || abort) {
    return goOn((history) => client.responses.create({ model: "ingot", input: history, store: false, stream: true }),
                (event) => (event.type === "response.output_text.delta" ? event.delta : ""), abort);
  }
  input.push({ role: "user", content: QUESTION });
  await converse(turn, malformed ? MALFORMED_RESULTS : RESULTS);
}

async function anthropic({ stream, malformed, long, abort }) {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: url, apiKey: "key-anthropic-ts" });
  const tools = [{ name: "weather", description: "of a city", input_schema: parameters }];
  const messages = [];
  async function turn(results) {
    if (results.length) {
      messages.push({ role: "user", content: results.map(({ id, result }) => (
          { type: "tool_result", tool_use_id: id, content: result })) });
    }
    const body = { model: "ingot", max_tokens: 200, messages, tools };
    const message = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
    messages.push({ role: "assistant", content: message.content });
    return { calls: message.content.filter((block) => block.type === "tool_use"),
             text: message.content.filter((block) => block.type === "text").map((block) => block.text).join("") };
  }
  if (long || abort) {
    return goOn((history) => client.messages.create({ model: "ingot", max_tokens: 5000, messages: history, stream: true }),
                (event) => (event.delta?.type === "text_delta" ? event.delta.text : ""), abort);
  }
  messages.push({ role: "user", content: QUESTION });
  await converse(turn, malformed ? READ_RESULTS : RESULTS);
}

async function google({ stream, malformed, long, abort }) {
  const { GoogleGenAI } = await import("@google/genai");
  const ai = new GoogleGenAI({ apiKey: "key-google-node", httpOptions: { baseUrl: url } });
  const tools = [{ functionDeclarations: [{ name: "weather", description: "of a city", parametersJsonSchema: parameters }] }];
  const contents = [];
  async function turn(results) {
    if (results.length) {
      contents.push({ role: "user", parts: results.map(({ id, result }) => (
          { functionResponse: { id: id.key, name: id.name, response: { output: result } } })) });
    }
    const parts = [];
    let finishReason;
    const body = { model: "ingot", contents, config: { tools } };
    const replies = stream ? await ai.models.generateContentStream(body) : [await ai.models.generateContent(body)];
    for await (const reply of replies) {
      parts.push(...reply.candidates[0].content.parts);
      finishReason = reply.candidates[0].finishReason;
    }
    check(finishReason === "STOP", finishReason);
    contents.push({ role: "model", parts });
    return { calls: parts.filter((part) => part.functionCall).map(({ functionCall: { id, name, args } }) => (
                 { id: { key: id, name }, name, input: args })),
             text: parts.map((part) => part.text ?? "").join("") };
  }
  if (long || abort) {
    return goOn(async function* (history) {
      const controller = new AbortController();
      try {
        yield* await ai.models.generateContentStream({
          model: "ingot", config: { abortSignal: controller.signal },
          contents: history.map(({ role, content }) => (
              { role: role === "user" ? "user" : "model", parts: [{ text: content }] })) });
      } finally {
        controller.abort();
      }
    }, (reply) => reply.text, abort);
  }
  contents.push({ role: "user", parts: [{ text: QUESTION }] });
  await converse(turn, malformed ? READ_RESULTS : RESULTS);
}

async function aiSdk(model, { malformed, long, abort }, results = MALFORMED_RESULTS) {
  const { streamText, tool, stepCountIs } = await import("ai");
  const { z } = await import("zod");
  const weather = tool({ description: "of a city", inputSchema: z.object({ city: z.string() }),
                         execute: async ({ city }) => WEATHER[city] ?? NO_CITY });
  if (long || abort) {
    return goOn(async function* (messages) {
      const controller = new AbortController();
      try {
        yield* streamText({ model, messages, abortSignal: controller.signal }).textStream;
      } finally {
        controller.abort();
      }
    }, (text) => text, abort);
  }
  const result = streamText({ model, prompt: QUESTION, tools: { weather }, stopWhen: stepCountIs(10) });
  const text = await result.text;
  check(text === ANSWER, text);
  const found = (await result.steps).flatMap(({ content, toolCalls }) => toolCalls.map(({ toolCallId }) => {
    const { output, error } = content.find((part) => part.toolCallId === toolCallId && part.type !== "tool-call");
    return output ?? (/JSON parsing failed/.test(error) ? NO_JSON : /validation failed/.test(error) ? NO_CITY
                      : /unavailable tool/.test(error) ? NO_TOOL : error);
  }));
  const expected = malformed ? results : RESULTS;
  check(JSON.stringify(found) === JSON.stringify(expected), { found, expected });
}

const cases = {
  openai_node: openai,
  openai_node_responses: responses,
  anthropic_ts: anthropic,
  google_node: google,
  ai_sdk_chat: async (how) => {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    await aiSdk(createOpenAICompatible({ name: "ingot", baseURL: url + "/v1", apiKey: "key-ai-chat" })("ingot"), how);
  },
  ai_sdk_responses: async (how) => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    await aiSdk(createOpenAI({ baseURL: url + "/v1", apiKey: "key-ai-responses" }).responses("ingot"), how);
  },
  ai_sdk_anthropic: async (how) => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    await aiSdk(createAnthropic({ baseURL: url + "/v1", apiKey: "key-ai-anthropic" })("ingot"), how, READ_RESULTS);
  },
};
let base = name;
const how = {};
for (const word of ["malformed", "long", "abort", "stream"]) {
  if (!base.endsWith("_" + word)) continue;
  base = base.slice(0, -word.length - 1);
  how[word] = true;
}
await cases[base](how);
