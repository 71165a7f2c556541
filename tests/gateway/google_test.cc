// Google's generateContent: its requests, replies, streams and errors, and conversations that come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <regex>

#include "absl/strings/escaping.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/dialects/google_schema.h"
#include "gateway/fakes.h"
#include "gateway/random_arguments.h"

namespace ingot::gateway::google_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kGenerate[] = "google.generateContent";
constexpr char kStream[] = "google.streamGenerateContent";
constexpr char kCount[] = "google.countTokens";

absl::StatusOr<GatewayRequest> Parse(const std::string& body, const char* dialect = kGenerate) {
  return FindDialect(dialect)->Parse({.body = body, .headers = {}});
}

// A request with these members beside one content.
std::string With(const std::string& members) {
  return absl::StrCat(R"({"contents":[{"parts":[{"text":"q"}]}])", members.empty() ? "" : ",", members, "}");
}
std::string Configured(const std::string& members) { return With("\"generationConfig\":{" + members + "}"); }

// role: content [reasoning] name(arguments) <call id> {name}
std::string Emitted(const GatewayRequest& request) {
  std::string all;
  for (const text::Message& message : request.conversation.messages) {
    absl::StrAppend(&all, message.role, ": ", message.content);
    if (!message.reasoning.empty()) absl::StrAppend(&all, " [", message.reasoning, "]");
    for (const text::ToolCall& call : message.tool_calls) {
      absl::StrAppend(&all, " ", call.name, "(", call.arguments_json, ")<", call.id, ">");
    }
    if (!message.tool_call_id.empty()) absl::StrAppend(&all, " <", message.tool_call_id, ">");
    if (!message.name.empty()) absl::StrAppend(&all, " {", message.name, "}");
    all += "\n";
  }
  return all;
}

Script Say(const std::string& text, v1::FinishReason finish = v1::FINISH_STOP) {
  Script script;
  script.text = text;
  script.chunk = 1 << 20;
  script.finish = finish;
  script.end_of_turn = finish == v1::FINISH_STOP;
  return script;
}

// All ids come at once: every part is one delta.
struct Direct : World {
  explicit Direct(Script script) : World([script](const auto&) { return script; }) {
    with_admission = with_pool = false;
    engine->inline_chunks = true;
  }
};

std::string WithoutIds(const std::string& text) { return std::regex_replace(text, std::regex("[0-9a-f]{32}"), "ID"); }

// What a client changes in the parts that it keeps.
using Change = void (*)(object& part);
void Nothing(object&) {}
void DropIds(object& part) {
  part.erase("thoughtSignature");
  if (object* call = part.contains("functionCall") ? &part["functionCall"].as_object() : nullptr) call->erase("id");
}
void DropSignature(object& part) { part.erase("thoughtSignature"); }
void DropCallId(object& part) {
  if (part.contains("functionCall")) part["functionCall"].as_object().erase("id");
}
// Gemini CLI's signature for calls that have none.
void ReplaceSignature(object& part) {
  if (part.contains("functionCall")) part["thoughtSignature"] = "skip_thought_signature_validator";
}

// The parts of an answer, streamed or whole, as clients keep them: `joins` neighbouring texts or not.
array PartsOf(const World::Outcome& outcome, bool joins, bool thoughts, Change change) {
  array kept;
  for (const value& event : outcome.events) {
    for (const value& sent : event.at("candidates").at(0).at("content").at("parts").as_array()) {
      object part = sent.as_object();
      change(part);
      if (part.contains("thought") && !thoughts) continue;
      object* last = kept.empty() ? nullptr : &kept.back().as_object();
      const bool joined = joins && last != nullptr && part.contains("text") && last->contains("text") &&
                          part.contains("thought") == last->contains("thought");
      if (joined) {
        std::string text(last->at("text").as_string());
        text += part.at("text").as_string();
        (*last)["text"] = text;
      } else {
        kept.push_back(std::move(part));
      }
    }
  }
  return kept;
}

// ---- Requests -----------------------------------------------------------------------------------------------------

TEST(GoogleRequest, ReadsTheConversation) {
  const auto request =
      Parse(R"({"model":"models/m","systemInstruction":{"parts":[{"text":"Be brief."},{"text":"Be kind."}]},
      "contents":[{"role":"user","parts":[{"text":"one"},{"text":"two"}]},
        {"role":"model","parts":[{"text":"hm","thought":true},{"text":"I "},{"text":"look."},
          {"functionCall":{"id":"c1","name":"f","args":{"b":1,"a":"x"}}},{"functionCall":{"id":"c2","name":"f"}}]},
        {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"warm"}}},
          {"functionResponse":{"id":"c2","name":"f","response":{"result":{"t":1.0}}}},{"text":"And?"}]},
        {"role":"model","parts":[{"text":"Mild."}]},{"parts":[{"text":"Thanks."}]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(Emitted(*request),
            "system: Be brief.\n\nBe kind.\n"
            "user: one\ntwo\n"
            "assistant: I look. [hm] f({\"b\": 1, \"a\": \"x\"})<c1> f({})<c2>\n"
            "tool: warm <c1> {f}\n"
            "tool: {\"t\": 1.0} <c2> {f}\n"
            "user: And?\n"
            "assistant: Mild.\n"
            "user: Thanks.\n");
  EXPECT_EQ(request->echoed_ids.size(), request->conversation.messages.size());
}

// Libraries keep the chunks of a stream as contents of their own, and agents send a prompt behind results.
TEST(GoogleRequest, JoinsNeighboursOfOneRole) {
  const auto request = Parse(R"({"contents":[{"role":"user","parts":[{"text":"a"}]},{"parts":[{"text":"b"}]},
      {"role":"model","parts":[{"text":"I "}]},{"role":"model","parts":[{"text":"do."}]},
      {"role":"model","parts":[{"functionCall":{"id":"c","name":"f"}}]},
      {"role":"function","parts":[{"functionResponse":{"id":"c","name":"f","response":{}}}]},
      {"role":"user","parts":[{"text":"go on"}]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), "user: a\nb\nassistant: I do. f({})<c>\ntool: {} <c> {f}\nuser: go on\n");
}

// Older libraries send no ids: a result answers the first call of its name that is still open.
TEST(GoogleRequest, FindsTheCallOfAResultWithoutAnId) {
  const auto request = Parse(R"({"contents":[{"parts":[{"text":"q"}]},
      {"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f"}}]},
      {"parts":[{"functionResponse":{"name":"g","response":{"output":"1"}}},
        {"functionResponse":{"name":"f","response":{"output":"2"}}},
        {"functionResponse":{"name":"f","response":{"output":"3"}}},
        {"functionResponse":{"name":"f","response":{"output":"4"}}}]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  const std::string calls = "contents[1].parts[";
  EXPECT_EQ(Emitted(*request), absl::StrCat("user: q\nassistant:  f({})<", calls, "0].functionCall> g({})<", calls,
                                            "1].functionCall> f({})<", calls, "2].functionCall>\ntool: 1 <", calls,
                                            "1].functionCall> {g}\ntool: 2 <", calls, "0].functionCall> {f}\ntool: 3 <",
                                            calls, "2].functionCall> {f}\ntool: 4 {f}\n"));
}

TEST(GoogleRequest, SkipsPartsOfTheVendorsOwnTools) {
  const auto request = Parse(R"({"contents":[{"parts":[{"text":"q"}]},{"role":"model","parts":[
      {"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}},
      {"toolCall":{}},{"toolResponse":{}},{"text":"a"}]},{"parts":[{"text":"r"}]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Emitted(*request), "user: q\nassistant: a\nuser: r\n");
}

// JSON of protocol buffers: names with underscores, and lists of one entry without brackets.
TEST(GoogleRequest, TakesBothSpellingsOfANameAndListsOfOne) {
  const auto request = Parse(R"({"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":{"text":"q"}},
      "generation_config":{"top_p":0.5,"top_k":3,"max_output_tokens":7,"stop_sequences":"x","response_mime_type":
      "application/json","response_schema":{"type":"STRING"},"thinking_config":{"include_thoughts":true}},
      "tools":{"function_declarations":{"name":"f","parameters_json_schema":{"type":"object"}}},
      "tool_config":{"function_calling_config":{"mode":"NONE"}}})");
  EXPECT_EQ(request.status().message(), "'generation_config.stop_sequences' must be a list of at most 1048576 entries");
  const auto good = Parse(R"({"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":{"text":"q"}},
      "generation_config":{"top_p":0.5,"top_k":3,"max_output_tokens":7,"stop_sequences":["x"],"response_mime_type":
      "application/json","response_schema":{"type":"STRING"},"thinking_config":{"include_thoughts":true}},
      "tools":{"function_declarations":{"name":"f","parameters_json_schema":{"type":"object"}}},
      "tool_config":{"function_calling_config":{"mode":"NONE"}}})");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(Emitted(*good), "system: s\nuser: q\n");
  EXPECT_EQ(good->top_p, 0.5);
  EXPECT_EQ(good->top_k, 3);
  EXPECT_EQ(good->max_tokens, 7);
  EXPECT_EQ(good->stop, std::vector<std::string>{"x"});
  EXPECT_EQ(good->json_schema, R"({"type":"string","x-lenient":true})");
  EXPECT_TRUE(good->emits_reasoning);
  EXPECT_EQ(good->tools.size(), 1u);
  EXPECT_EQ(good->tool_choice.mode, ToolChoice::Mode::kNone);
}

TEST(GoogleRequest, ReadsTheGenerationConfig) {
  const auto request = Parse(Configured(
      R"("temperature":0.5,"topP":0.9,"topK":40.0,"candidateCount":3,"maxOutputTokens":64,"stopSequences":["x","","y"],
         "seed":-1,"presencePenalty":0.1,"frequencyPenalty":0.2,"responseLogprobs":true,"logprobs":5)"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->temperature, 0.5);
  EXPECT_EQ(request->top_p, 0.9);
  EXPECT_EQ(request->top_k, 40);
  EXPECT_EQ(request->n, 3);
  EXPECT_EQ(request->max_tokens, 64);
  EXPECT_EQ(request->stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(request->seed, UINT64_MAX);
  EXPECT_EQ(request->presence_penalty, 0.1);
  EXPECT_EQ(request->frequency_penalty, 0.2);
  EXPECT_TRUE(request->logprobs);
  EXPECT_EQ(request->top_logprobs, 5);
  EXPECT_FALSE(request->json_schema.has_value());
}

TEST(GoogleRequest, HoldsTheAnswerToASchema) {
  const auto schema = [](const std::string& members) {
    const auto request = Parse(Configured(members));
    EXPECT_TRUE(request.ok()) << members << request.status();
    return request->json_schema.value_or("none") + " " + request->format_field;
  };
  EXPECT_EQ(schema(R"("responseMimeType":"text/plain")"), "none response_format");
  EXPECT_EQ(schema(R"("responseMimeType":"application/json")"), "{} generationConfig.responseMimeType");
  EXPECT_EQ(
      schema(R"("responseMimeType":"application/json","responseSchema":{"type":"ARRAY","items":{"type":"STRING"}})"),
      R"({"type":"array","items":{"type":"string"},"x-lenient":true} generationConfig.responseSchema)");
  EXPECT_EQ(schema(R"("responseJsonSchema":{"type":"number"})"),
            R"({"type":"number","x-lenient":true} generationConfig.responseJsonSchema)");
  EXPECT_EQ(schema(R"("_responseJsonSchema":{"type":"number"})"),
            R"({"type":"number","x-lenient":true} generationConfig._responseJsonSchema)");
  const auto names = Parse(
      Configured(R"("responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":["Piano","Drum"]})"));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->choice_texts, (std::vector<std::string>{"Piano", "Drum"}));
  EXPECT_FALSE(names->json_schema.has_value());
}

TEST(GoogleRequest, TurnsThinkingIntoTemplateVariables) {
  const auto read = [](const std::string& config) {
    const auto request = Parse(Configured("\"thinkingConfig\":{" + config + "}"));
    EXPECT_TRUE(request.ok()) << config << request.status();
    return base::PrintJson(request->conversation.template_variables) + (request->emits_reasoning ? " told" : "");
  };
  EXPECT_EQ(read(""), "{}");
  EXPECT_EQ(read(R"("includeThoughts":true)"), "{} told");
  EXPECT_EQ(read(R"("thinkingBudget":0)"), R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(read(R"("thinkingBudget":-1)"), "{}");
  EXPECT_EQ(read(R"("thinkingBudget":1024)"), R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(read(R"("thinkingLevel":"HIGH","includeThoughts":true)"),
            R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"high"} told)");
  EXPECT_EQ(read(R"("thinkingLevel":"THINKING_LEVEL_UNSPECIFIED")"), "{}");
}

constexpr char kTwoTools[] =
    R"("tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{
       "a":{"type":"INTEGER"}},"required":["a"]}}]},{"googleSearch":{}},{"functionDeclarations":[{"name":"g",
       "parameters":{"type":"STRING"},"parametersJsonSchema":{"type":"object","additionalProperties":false}}]}])";

TEST(GoogleRequest, ReadsFunctionsInBothForms) {
  const auto request = Parse(With(kTwoTools));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(base::PrintJson(array(request->conversation.tools.begin(), request->conversation.tools.end())),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",)"
            R"("properties":{"a":{"type":"integer"}},"required":["a"]}}},{"type":"function","function":{"name":"g",)"
            R"("parameters":{"type":"object","additionalProperties":false}}}])");
}

TEST(GoogleRequest, ChoosesFunctionsByMode) {
  const auto choose = [](const std::string& config) {
    return Parse(With(absl::StrCat(kTwoTools, R"(,"toolConfig":{"functionCallingConfig":{)", config, "}}")));
  };
  EXPECT_EQ(choose(R"("mode":"AUTO")")->tool_choice.mode, ToolChoice::Mode::kAuto);
  EXPECT_EQ(choose(R"("mode":"NONE")")->tool_choice.mode, ToolChoice::Mode::kNone);
  const auto any = choose(R"("mode":"ANY","allowedFunctionNames":["g"])");
  EXPECT_EQ(any->tool_choice.mode, ToolChoice::Mode::kRequired);
  EXPECT_EQ(any->tool_choice.names, std::vector<std::string>{"g"});
  EXPECT_TRUE(choose(R"("mode":"ANY")")->tool_choice.names.empty());
  const auto some = choose(R"("mode":"VALIDATED","allowedFunctionNames":["g"])");
  EXPECT_EQ(some->tool_choice.mode, ToolChoice::Mode::kAuto);
  ASSERT_EQ(some->tools.size(), 1u);
  EXPECT_EQ(some->tools[0].name, "g");
  EXPECT_EQ(choose(R"("mode":"MAYBE")").status().message(),
            R"('toolConfig.functionCallingConfig.mode' must be "AUTO", "ANY", "NONE", or "VALIDATED")");
  EXPECT_EQ(choose(R"("mode":"ANY","allowedFunctionNames":["h"])").status().message(),
            "'toolConfig.functionCallingConfig.allowedFunctionNames[0]' must be the name of a function among 'tools'");
  EXPECT_EQ(Parse(With(R"("toolConfig":{"functionCallingConfig":{"mode":"ANY"}})")).status().message(),
            "'toolConfig.functionCallingConfig.mode' requires a call, but there are no functions");
}

TEST(GoogleRequest, NamesTheFieldAtFault) {
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "'contents' must have at least one content"},
      {R"({"contents":[]})", "'contents' must have at least one content"},
      {R"({"contents":"hi"})", "'contents' must be a list of at most 1048576 entries"},
      {R"({"contents":["hi"]})", "'contents[0]' must be an object with 'parts'"},
      {R"({"contents":[{"role":"user"}]})", "'contents[0]' needs at least one of 'parts'"},
      {R"({"contents":[{"role":"system","parts":[{"text":"x"}]}]})", R"('contents[0].role' must be "user" or "model")"},
      {R"({"contents":[{"parts":[{}]}]})",
       "'contents[0].parts[0]' needs 'text', 'functionCall', or 'functionResponse'"},
      {R"({"contents":[{"parts":[{"text":5}]}]})", "'contents[0].parts[0].text' must be a string"},
      {R"({"contents":[{"parts":["hi"]}]})", "'contents[0].parts[0]' must be an object"},
      {R"({"contents":[{"parts":[{"functionResponse":{"name":"f","response":"x"}}]}]})",
       "'contents[0].parts[0].functionResponse.response' must be an object"},
      {R"({"contents":[{"parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"args":{}}}]}]})",
       "'contents[1].parts[0].functionCall.name' must be a nonempty string"},
      {R"({"contents":[{"parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":"x"}}]}]})",
       "'contents[1].parts[0].functionCall.args' must be an object"},
      {With(R"("tools":[5])"), "'tools[0]' must be an object"},
      {With(R"("tools":[{"functionDeclarations":[{"name":""}]}])"),
       "'tools[0].functionDeclarations[0]' needs a name of 1 to 256 bytes"},
      {With(R"("cachedContent":"c")"),
       "'cachedContent' is not supported: this server does not store contents, so send all of them"},
      {Configured(R"("temperature":3)"), "'generationConfig.temperature' must be a number in [0, 2]"},
      {Configured(R"("maxOutputTokens":0)"),
       "'generationConfig.maxOutputTokens' must be a whole number in [1, 2147483647]"},
      {Configured(R"("logprobs":2)"), "'logprobs' needs 'responseLogprobs': true"},
      {Configured(R"("responseMimeType":"text/html")"),
       R"('generationConfig.responseMimeType' must be "text/plain", "application/json", or "text/x.enum")"},
      {Configured(R"("responseMimeType":"text/x.enum","responseSchema":{"type":"STRING"})"),
       "'generationConfig.responseSchema' must be a schema with an 'enum' of strings if the MIME type is "
       "\"text/x.enum\""},
      {Configured(R"("responseModalities":["IMAGE"])"),
       R"('generationConfig.responseModalities[0]' must be "TEXT": this model writes only text)"},
      {R"({"contents":[{"parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]}]})",
       "the model cannot continue the last message of 'contents': it must be an assistant message with text and "
       "without tool calls"}};
  for (const auto& [body, message] : cases) {
    for (const char* dialect : {kGenerate, kStream}) {
      const absl::Status status = Parse(body, dialect).status();
      EXPECT_EQ(HttpStatusOf(status), 400) << body;
      EXPECT_EQ(std::string(status.message()), message) << body;
    }
  }
}

TEST(GoogleRequest, TakesTheModelOfTheUrlAndTheFormOfTheStream) {
  const auto parse = [](const char* dialect, const char* model, const char* query) {
    return *FindDialect(dialect)->Parse(
        {.body = With(R"("model":"models/body","stream":true)"), .headers = {}, .model = model, .query = query});
  };
  EXPECT_EQ(parse(kGenerate, "url", "").model, "url");
  EXPECT_EQ(parse(kGenerate, "url\xE4", "").model, "url\xEF\xBF\xBD") << "a call's record holds UTF-8 alone";
  EXPECT_EQ(parse(kGenerate, "", "").model, "body");
  EXPECT_FALSE(parse(kGenerate, "", "alt=sse").stream);
  EXPECT_TRUE(parse(kStream, "", "").stream);
  EXPECT_TRUE(parse(kStream, "", "key=k&x").streams_array);
  EXPECT_FALSE(parse(kStream, "", "key=k&alt=sse").streams_array);
  EXPECT_FALSE(parse(kStream, "", "$alt=sse").streams_array);
}

TEST(GoogleSchema, BecomesJsonSchema) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"OBJECT","properties":{"type":{"type":"STRING","format":"enum","enum":["A","b"]},
          "n":{"type":"INTEGER","format":"int32","nullable":true}},"propertyOrdering":["n","gone"],"required":["n"]})",
       R"({"type":"object","properties":{"n":{"type":["integer","null"],"format":"int32"},)"
       R"("type":{"type":"string","enum":["A","b"]}},"required":["n"]})"},
      {R"({"type":"ARRAY","items":{"type":"STRING"},"min_items":"1","maxItems":"x","nullable":false})",
       R"({"type":"array","items":{"type":"string"},"minItems":1,"maxItems":"x"})"},
      {R"({"anyOf":[{"type":"STRING"},{"type":"TYPE_UNSPECIFIED"}],"nullable":true})",
       R"({"anyOf":[{"type":"string"},{},{"type":"null"}]})"},
      {R"({"type":"STRING","enum":["a"],"nullable":true})", R"({"type":["string","null"],"enum":["a",null]})"},
      {R"({"type":["string","null"],"$ref":"#/$defs/x","$defs":{"x":{"type":"NUMBER"}},"additionalProperties":true})",
       R"({"type":["string","null"],"$ref":"#/$defs/x","$defs":{"x":{"type":"number"}},"additionalProperties":true})"},
      {R"({"properties":5,"anyOf":{},"items":[],"nullable":1,"type":7,"propertyOrdering":"a"})",
       R"({"properties":5,"anyOf":{},"items":[],"nullable":1,"type":7})"},
      {"true", "true"}};
  for (const auto& [schema, expected] : cases) {
    const value json = JsonSchemaOf(base::ParseJson(schema).value());
    EXPECT_EQ(base::PrintJson(json), expected);
    EXPECT_EQ(base::PrintJson(JsonSchemaOf(json)), base::PrintJson(json)) << "JSON Schema stays as it is";
  }
}

// ---- Replies ------------------------------------------------------------------------------------------------------

constexpr char kThoughtAndCall[] =
    "<think>\nhm\n</think>\n\nLet me add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
constexpr char kAdding[] =
    R"({"model":"m","contents":[{"parts":[{"text":"1+2?"}]}],"tools":[{"functionDeclarations":[{"name":"add"}]}],
        "generationConfig":{"maxOutputTokens":90,"thinkingConfig":{"includeThoughts":true}}})";

TEST(GoogleReply, AnswersWhole) {
  Direct world(Say(kThoughtAndCall));
  const auto outcome = world.Ask(kGenerate, "key", kAdding);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const value& json = outcome.events.at(0);
  const std::string id(json.at("responseId").as_string());
  const int prompt = world.engine->requests()[0].prompt_ids_size();
  const int sampled = static_cast<int>(TestTokenizer()->Encode(kThoughtAndCall, true).size()) + 1;
  const int64_t thought = json.at("usageMetadata").at("thoughtsTokenCount").as_int64();
  EXPECT_GE(thought, 2);
  EXPECT_EQ(
      base::PrintJson(json),
      absl::StrCat(R"({"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Let me add."},)",
                   R"({"thoughtSignature":")", absl::Base64Escape("call_" + id + "_0"),
                   R"(","functionCall":{"id":"call_)", id, R"(_0","name":"add","args":{"a":1}}}],"role":"model"},)",
                   R"("index":0,"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":)", prompt,
                   R"(,"candidatesTokenCount":)", sampled - thought, R"(,"totalTokenCount":)", prompt + sampled,
                   R"(,"promptTokensDetails":[{"modality":"TEXT","tokenCount":)", prompt,
                   R"(}],"cachedContentTokenCount":2,"thoughtsTokenCount":)", thought,
                   R"(},"modelVersion":"m","responseId":")", id, "\"}"));
}

// One event a piece, and the reason of the end in the last one, whose part is not empty.
TEST(GoogleReply, StreamsPieces) {
  Script script =
      Say("<think>\nhm\n</think>\n\nab\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>");
  script.chunk = 1;
  World world([&](const auto&) { return script; });
  world.with_admission = world.with_pool = false;
  const auto outcome = world.Ask(kStream, "key", kAdding);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  std::string parts;
  for (size_t i = 0; i < outcome.events.size(); ++i) {
    const value& event = outcome.events[i];
    const object& candidate = event.at("candidates").at(0).as_object();
    const array& list = candidate.at("content").at("parts").as_array();
    ASSERT_EQ(list.size(), 1u);
    object part = list[0].as_object();
    part.erase("thoughtSignature");
    parts += base::PrintJson(part) + "\n";
    const bool last = i + 1 == outcome.events.size();
    EXPECT_EQ(candidate.contains("finishReason"), last);
    EXPECT_EQ(event.as_object().contains("usageMetadata"), last);
  }
  EXPECT_EQ(WithoutIds(parts),
            "{\"text\":\"h\",\"thought\":true}\n{\"text\":\"m\",\"thought\":true}\n{\"text\":\"a\"}\n{\"text\":\"b\"}\n"
            "{\"functionCall\":{\"id\":\"call_ID_0\",\"name\":\"add\",\"args\":{\"a\":1}}}\n");
  EXPECT_EQ(outcome.trailer, "]");
}

TEST(GoogleReply, KeepsThoughtsFromClientsThatDidNotAskForThem) {
  for (const char* dialect : {kGenerate, kStream}) {
    Direct world(Say("<think>\nhm\n</think>\n\nyes"));
    const auto outcome = world.Ask(dialect, "key", With(""));
    EXPECT_EQ(base::PrintJson(PartsOf(outcome, true, true, Nothing)), R"([{"text":"yes"}])");
    EXPECT_GT(outcome.events.back().at("usageMetadata").at("thoughtsTokenCount").as_int64(), 0);
  }
}

TEST(GoogleReply, NamesTheReasonOfItsEnd) {
  const std::pair<Script, const char*> cases[] = {{Say("half", v1::FINISH_LENGTH), "MAX_TOKENS"},
                                                  {Say("whole"), "STOP"},
                                                  {Say(""), "STOP"},
                                                  {Say("<think>\nhm", v1::FINISH_LENGTH), "MAX_TOKENS"},
                                                  {Say(kThoughtAndCall), "STOP"}};
  for (const auto& [script, reason] : cases) {
    for (const char* dialect : {kGenerate, kStream}) {
      Direct world(script);
      const auto outcome = world.Ask(dialect, "key", kAdding);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      const value& candidate = outcome.events.back().at("candidates").at(0);
      EXPECT_EQ(candidate.at("finishReason").as_string(), reason) << dialect << script.text;
      EXPECT_FALSE(candidate.at("content").at("parts").as_array().empty()) << dialect << script.text;
    }
  }
}

// A library takes arguments for an object whatever the model wrote: this one is as much of them as can be read.
TEST(GoogleReply, GivesArgumentsAsAnObject) {
  const std::pair<const char*, const char*> cases[] = {{R"({"a": )", "{}"},
                                                       {R"({"a": "x)", R"({"a":"x"})"},
                                                       {R"({"a": {"b": [1]}}})"
                                                        "\n</tool_call>",
                                                        R"({"a":{"b":[1]}})"}};
  for (const auto& [written, args] : cases) {
    for (const char* dialect : {kGenerate, kStream}) {
      Direct world(Say(absl::StrCat("<tool_call>\n{\"name\": \"add\", \"arguments\": ", written)));
      const auto outcome = world.Ask(dialect, "key", kAdding);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      const array parts = PartsOf(outcome, true, true, DropIds);
      ASSERT_EQ(parts.size(), 1u) << dialect << written;
      EXPECT_EQ(base::PrintJson(parts[0].at("functionCall").at("args")), args) << dialect << written;
    }
  }
}

TEST(GoogleReply, ReportsLogProbsOfTheContent) {
  Direct world(Say("<think>\nhm\n</think>\n\nyes"));
  const std::string body = Configured(R"("responseLogprobs":true,"logprobs":1)");
  for (const char* dialect : {kGenerate, kStream}) {
    const auto outcome = world.Ask(dialect, "key", body);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    std::string text;
    size_t alternatives = 0;
    for (const value& event : outcome.events) {
      const value& result = event.at("candidates").at(0).at("logprobsResult");
      for (const value& chosen : result.at("chosenCandidates").as_array()) {
        text += chosen.at("token").as_string();
        const int64_t id = chosen.at("tokenId").as_int64();
        EXPECT_EQ(chosen.at("logProbability").to_number<float>(), -(1 + id % 7) / 8.0f);
      }
      if (const value* top = base::Find(result, "topCandidates")) alternatives += top->as_array().size();
    }
    EXPECT_EQ(text, "yes") << dialect;
    EXPECT_EQ(alternatives, 3u) << dialect;
  }
}

// Thoughts, calls and the end of the turn included.
TEST(GoogleReply, PairsEachIdWithItsLogProb) {
  Direct world(Say(kThoughtAndCall));
  object body = base::ParseJson(kAdding)->as_object();
  body["return_token_ids"] = true;
  body["generationConfig"].as_object()["responseLogprobs"] = true;
  for (const char* dialect : {kGenerate, kStream}) {
    const auto outcome = world.Ask(dialect, "key", base::PrintJson(body));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    std::vector<int64_t> ids, paired;
    for (const value& event : outcome.events) {
      for (const value& candidate : event.at("candidates").as_array()) {
        for (const value& id : candidate.at("token_ids").as_array()) ids.push_back(id.as_int64());
        for (const value& chosen : candidate.at("logprobsResult").at("chosenCandidates").as_array()) {
          paired.push_back(chosen.at("tokenId").as_int64());
        }
      }
    }
    const std::vector<int32_t> sampled = TestTokenizer()->Encode(absl::StrCat(kThoughtAndCall, "<|im_end|>"), true);
    EXPECT_EQ(ids, std::vector<int64_t>(sampled.begin(), sampled.end())) << dialect;
    EXPECT_EQ(paired, ids) << dialect;
  }
}

TEST(GoogleReply, GivesSeveralCandidatesAndTokenIds) {
  Direct world(Say("yes"));
  const std::string body =
      R"({"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"candidateCount":2},"return_token_ids":true})";
  const value whole = world.Ask(kGenerate, "key", body).events.at(0);
  ASSERT_EQ(whole.at("candidates").as_array().size(), 2u);
  EXPECT_EQ(whole.at("candidates").at(1).at("index").as_int64(), 1);
  EXPECT_EQ(base::PrintJson(whole.at("candidates").at(1).at("token_ids")), "[121,101,115,257]");
  const size_t prompt = whole.at("prompt_token_ids").as_array().size();
  EXPECT_EQ(whole.at("usageMetadata").at("promptTokenCount").as_int64(), static_cast<int64_t>(prompt));
  EXPECT_EQ(whole.at("usageMetadata").at("candidatesTokenCount").as_int64(), 8);
  const auto stream = world.Ask(kStream, "key", body);
  std::map<int64_t, std::string> texts;
  std::map<int64_t, array> ids;
  for (const value& event : stream.events) {
    for (const value& candidate : event.at("candidates").as_array()) {
      const int64_t index = candidate.at("index").as_int64();
      texts[index] += candidate.at("content").at("parts").at(0).at("text").as_string();
      const array& more = candidate.at("token_ids").as_array();
      ids[index].insert(ids[index].end(), more.begin(), more.end());
    }
  }
  EXPECT_EQ(texts, (std::map<int64_t, std::string>{{0, "yes"}, {1, "yes"}}));
  for (const auto& [index, list] : ids) EXPECT_EQ(base::PrintJson(list), "[121,101,115,257]") << index;
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(stream.events.back().at("usageMetadata").at("candidatesTokenCount").as_int64(), 8);
}

TEST(GoogleReply, CountsTokensOfContentsOrOfAWholeRequest) {
  Direct world(Say("ok"));
  const auto whole = world.Ask(kCount, "key", absl::StrCat(R"({"generateContentRequest":)", kAdding, "}"));
  const auto plain = world.Ask(kCount, "key", R"({"contents":[{"parts":[{"text":"1+2?"}]}]})");
  ASSERT_TRUE(whole.status.ok() && plain.status.ok()) << whole.status << plain.status;
  EXPECT_TRUE(world.engine->requests().empty());
  ASSERT_TRUE(world.Ask(kGenerate, "key", kAdding).status.ok());
  EXPECT_EQ(base::PrintJson(whole.events.at(0)),
            absl::StrCat("{\"totalTokens\":", world.engine->requests()[0].prompt_ids_size(), "}"));
  EXPECT_LT(plain.events.at(0).at("totalTokens").as_int64(), whole.events.at(0).at("totalTokens").as_int64());
  EXPECT_EQ(world.Ask(kCount, "key", R"({"generateContentRequest":{"contents":[{"parts":[{}]}]}})").status.message(),
            "'generateContentRequest.contents[0].parts[0]' needs 'text', 'functionCall', or 'functionResponse'");
}

TEST(GoogleErrors, HaveGooglesShape) {
  const auto error = [](const absl::Status& status) { return GenerateContentDialect().ErrorOf(status); };
  EXPECT_EQ(error(absl::UnavailableError("no room")).body,
            R"({"error":{"code":503,"message":"no room","status":"UNAVAILABLE"}})");
  EXPECT_EQ(
      error(ApiError(400, kContextLengthExceeded, "contents", "9 tokens > 8 maximum: shorten it")).body,
      R"({"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed: 9 tokens > 8 )"
      R"(maximum: shorten it","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",)"
      R"("reason":"context_length_exceeded","domain":"ingot"},{"@type":"type.googleapis.com/google.rpc.BadRequest",)"
      R"("fieldViolations":[{"field":"contents","description":"The input token count exceeds the maximum number of )"
      R"(tokens allowed: 9 tokens > 8 maximum: shorten it"}]}]}})");
  const std::pair<int, const char*> names[] = {
      {400, "INVALID_ARGUMENT"},   {401, "UNAUTHENTICATED"}, {403, "PERMISSION_DENIED"},   {404, "NOT_FOUND"},
      {405, "UNIMPLEMENTED"},      {409, "ABORTED"},         {410, "FAILED_PRECONDITION"}, {413, "INVALID_ARGUMENT"},
      {429, "RESOURCE_EXHAUSTED"}, {500, "INTERNAL"},        {503, "UNAVAILABLE"},         {504, "DEADLINE_EXCEEDED"}};
  for (const auto& [http, name] : names) {
    const Dialect::Error worded = error(ApiError(http, "", "", "x"));
    EXPECT_EQ(worded.http, http);
    EXPECT_EQ(worded.body, absl::StrCat(R"({"error":{"code":)", http, R"(,"message":"x","status":")", name, "\"}}"));
  }
}

// ---- Conversations that come back ---------------------------------------------------------------------------------

// Samples `answers` one by one.
ScriptedEngine::Author Saying(std::vector<std::string> answers) {
  auto calls = std::make_shared<std::atomic<size_t>>(0);
  return [answers = std::move(answers), calls](const auto&) {
    Script script = Say(answers.at((*calls)++));
    script.chunk = 3;
    return script;
  };
}

// Two calls at once, then an answer, then another question: every request continues the ids of the one before.
TEST(GoogleConversation, ContinuesOnTheSampledIdsHoweverItsClientKeepsIt) {
  const std::string two =
      "<think>\nTwo sums.\n</think>\n\nI add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": "
      "1.0}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 3, \"a\": 2}}\n</tool_call>";
  struct Case {
    const char* dialect;
    bool joins, thoughts, restarts;
    Change change;
  };
  std::vector<Case> cases;
  for (const char* dialect : {kGenerate, kStream}) {
    for (const Change change : {Nothing, DropIds, DropSignature, DropCallId, ReplaceSignature}) {
      for (const int bits : {0, 1, 2, 3, 7}) {
        cases.push_back({dialect, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, change});
      }
    }
  }
  for (const Case& one : cases) {
    World world(Saying({two, "It is 2 and 5.", "Yes."}));
    const auto episode = world.Open();
    object body = base::ParseJson(kAdding)->as_object();
    array& contents = body["contents"].as_array();
    for (int turn = 0; turn < 3; ++turn) {
      const auto outcome = world.Ask(one.dialect, episode.api_key(), base::PrintJson(body));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      array parts = PartsOf(outcome, one.joins, one.thoughts, one.change), results;
      for (const value& part : parts) {
        const value* call = base::Find(part, "functionCall");
        if (call == nullptr) continue;
        object result{{"name", call->at("name")}, {"response", object{{"output", "7"}}}};
        if (const value* id = base::Find(*call, "id")) result["id"] = *id;
        results.push_back(object{{"functionResponse", std::move(result)}});
      }
      contents.push_back(object{{"role", "model"}, {"parts", std::move(parts)}});
      if (results.empty()) results.push_back(object{{"text", "sure?"}});
      contents.push_back(object{{"role", "user"}, {"parts", std::move(results)}});
      ASSERT_TRUE(!one.restarts || world.Restart().ok());
    }
    const auto calls = world.pool.calls();
    const std::string what = absl::StrCat(one.dialect, " joins ", one.joins, " thoughts ", one.thoughts, " restarts ",
                                          one.restarts, " ", base::PrintJson(contents));
    ASSERT_EQ(calls.size(), 3u);
    EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id()) << what;
    EXPECT_EQ(calls[1].fork_cause(), "") << what;
    EXPECT_EQ(world.pool.PromptOf(calls[1]), [&] {
      const auto ids = world.engine->requests()[1].prompt_ids();
      return std::vector<int32_t>(ids.begin(), ids.end());
    }()) << what;
    // The template leaves earlier thoughts out once a user speaks: a branch without a fault of the client's.
    EXPECT_THAT(calls[2].fork_cause(), testing::AnyOf("", "thinking_stripped")) << what;
  }
}

// A call that is no JSON comes back as the object that was delivered.
TEST(GoogleConversation, ContinuesAMalformedCall) {
  for (const char* written : {R"({"a": 1)", R"({"a": Paris}})", "[1]}", R"({"a": 1}}} x)", ""}) {
    for (const char* dialect : {kGenerate, kStream}) {
      for (const bool restarts : {false, true}) {
        World world(Saying({absl::StrCat("<tool_call>\n{\"name\": \"add\", \"arguments\": ", written), "Sorry."}));
        const auto episode = world.Open();
        object body = base::ParseJson(kAdding)->as_object();
        const auto first = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
        ASSERT_TRUE(first.status.ok()) << first.status;
        array& contents = body["contents"].as_array();
        contents.push_back(object{{"role", "model"}, {"parts", PartsOf(first, true, false, Nothing)}});
        contents.push_back(base::json::parse(
            R"({"role":"user","parts":[{"functionResponse":{"name":"add","response":{"error":"no"}}}]})"));
        ASSERT_TRUE(!restarts || world.Restart().ok());
        const auto second = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
        ASSERT_TRUE(second.status.ok()) << second.status;
        EXPECT_EQ(world.pool.calls().back().fork_cause(), "") << dialect << written;
        EXPECT_EQ(world.pool.calls().back().parent_call_id(), world.pool.calls()[0].call_id()) << dialect << written;
      }
    }
  }
}

// Whatever a model writes as arguments: the stream has the object of the whole answer, and its echo, without ids, continues
// the sampled ids.
TEST(GoogleConversation, TakesBackAnyCall) {
  std::mt19937 random(7);
  std::string text;
  bool cut = false;
  World world([&](const auto&) {
    Script script = Say(text, cut ? v1::FINISH_LENGTH : v1::FINISH_STOP);
    script.chunk = 1 + static_cast<int>(random() % 7);
    return script;
  });
  int calls = 0, malformed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto episode = world.Open();
    text = absl::StrCat("<tool_call>\n{\"name\": \"add\", \"arguments\": ", RandomArguments(random));
    cut = random() % 3 == 0;
    if (random() % 4 > 0) text += "}\n</tool_call>";
    object body = base::ParseJson(kAdding)->as_object();
    const auto whole = world.Ask(kGenerate, episode.api_key(), base::PrintJson(body));
    const auto streamed = world.Ask(kStream, episode.api_key(), base::PrintJson(body));
    ASSERT_TRUE(streamed.status.ok() && whole.status.ok()) << streamed.status << whole.status;
    const array parts = PartsOf(streamed, true, true, DropIds);
    ASSERT_EQ(value(parts), value(PartsOf(whole, true, true, DropIds))) << text;
    malformed += world.pool.calls().back().tool_call_malformed();
    array results;
    for (const value& part : parts) {
      if (!part.as_object().contains("functionCall")) continue;
      ++calls;
      results.push_back(base::json::parse(R"({"functionResponse":{"name":"add","response":{"error":"no"}}})"));
    }
    if (results.empty()) continue;
    body["contents"].as_array().push_back(object{{"role", "model"}, {"parts", parts}});
    body["contents"].as_array().push_back(object{{"role", "user"}, {"parts", results}});
    ASSERT_TRUE(trial % 10 > 0 || world.Restart().ok());
    const std::string asked = std::exchange(text, "Sorry.");
    cut = false;
    const auto next = world.Ask(kStream, episode.api_key(), base::PrintJson(body));
    ASSERT_TRUE(next.status.ok()) << next.status << asked;
    const auto recorded = world.pool.calls();
    EXPECT_EQ(recorded.back().parent_call_id(), recorded.at(recorded.size() - 2).call_id())
        << recorded.back().fork_cause() << "\n"
        << asked;
  }
  EXPECT_GT(calls, 150);
  EXPECT_GT(malformed, 100);
}

// Two calls delivered equal parts: the id, or the signature alone, tells which one a client keeps.
TEST(GoogleConversation, FindsTheCallThatAnIdOrASignatureNames) {
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>";
  for (const Change change : {DropSignature, DropCallId}) {
    World world(Saying({call, call, "One.", "Two."}));
    const auto episode = world.Open();
    std::vector<array> answers;
    for (int i = 0; i < 2; ++i) {
      answers.push_back(PartsOf(world.Ask(kGenerate, episode.api_key(), kAdding), true, true, change));
    }
    for (int i = 0; i < 2; ++i) {
      object body = base::ParseJson(kAdding)->as_object();
      body["contents"].as_array().push_back(object{{"role", "model"}, {"parts", answers[i]}});
      body["contents"].as_array().push_back(base::json::parse(
          R"({"role":"user","parts":[{"functionResponse":{"name":"add","response":{"output":"7"}}}]})"));
      ASSERT_TRUE(world.Ask(kGenerate, episode.api_key(), base::PrintJson(body)).status.ok());
      EXPECT_EQ(world.pool.calls().back().parent_call_id(), world.pool.calls()[i].call_id());
    }
  }
}

}  // namespace
}  // namespace ingot::gateway::google_test
