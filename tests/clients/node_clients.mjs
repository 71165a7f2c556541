// The Node clients of run.py: node_clients.mjs CASE URL. Each has the same conversation with the scripted model: one call
// of a tool, two at once, an answer.
const [name, url] = process.argv.slice(2);
const QUESTION = "How is the weather in Paris, Rome and Oslo?";
const ANSWER = "Mild, warm and cold.";
const WEATHER = { Paris: "mild", Rome: "warm", Oslo: "cold" };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

function check(condition, message) {
  if (condition) return;
  console.error("FAILED:", JSON.stringify(message, null, 1));
  process.exit(1);
}

async function openai(stream) {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: url + "/v1", apiKey: "key-openai-node" });
  const tools = [{ type: "function", function: { name: "weather", description: "of a city", parameters } }];
  const messages = [{ role: "user", content: QUESTION }];
  for (let turn = 0; turn < 5; ++turn) {
    const body = { model: "ingot", messages, tools };
    const reply = stream ? await client.chat.completions.stream(body).finalChatCompletion()
                         : await client.chat.completions.create(body);
    const message = reply.choices[0].message;
    if (!message.tool_calls?.length) return check(message.content === ANSWER, message);
    messages.push({ role: "assistant", content: message.content, tool_calls: message.tool_calls });
    for (const call of message.tool_calls) {
      const city = JSON.parse(call.function.arguments).city;
      messages.push({ role: "tool", tool_call_id: call.id, content: WEATHER[city] });
    }
  }
  check(false, "no answer");
}

async function anthropic(stream) {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: url, apiKey: "key-anthropic-ts" });
  const tools = [{ name: "weather", description: "of a city", input_schema: parameters }];
  const messages = [{ role: "user", content: QUESTION }];
  for (let turn = 0; turn < 5; ++turn) {
    const body = { model: "ingot", max_tokens: 200, messages, tools };
    const message = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
    const uses = message.content.filter((block) => block.type === "tool_use");
    if (!uses.length) return check(message.content[0].text === ANSWER, message);
    messages.push({ role: "assistant", content: message.content });
    messages.push({ role: "user", content: uses.map((use) => (
        { type: "tool_result", tool_use_id: use.id, content: WEATHER[use.input.city] })) });
  }
  check(false, "no answer");
}

async function aiSdk(model) {
  const { generateText, streamText, tool, stepCountIs } = await import("ai");
  const { z } = await import("zod");
  const weather = tool({ description: "of a city", inputSchema: z.object({ city: z.string() }),
                         execute: async ({ city }) => WEATHER[city] });
  const result = streamText({ model, prompt: QUESTION, tools: { weather }, stopWhen: stepCountIs(5) });
  const text = await result.text;
  check(text === ANSWER, text);
}

const cases = {
  openai_node: () => openai(false),
  openai_node_stream: () => openai(true),
  anthropic_ts: () => anthropic(false),
  anthropic_ts_stream: () => anthropic(true),
  ai_sdk_chat: async () => {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    await aiSdk(createOpenAICompatible({ name: "ingot", baseURL: url + "/v1", apiKey: "key-ai-chat" })("ingot"));
  },
  ai_sdk_responses: async () => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    await aiSdk(createOpenAI({ baseURL: url + "/v1", apiKey: "key-ai-responses" }).responses("ingot"));
  },
  ai_sdk_anthropic: async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    await aiSdk(createAnthropic({ baseURL: url + "/v1", apiKey: "key-ai-anthropic" })("ingot"));
  },
};
await cases[name]();
