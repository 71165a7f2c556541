// The gateway in front of a model with a tokenizer and a chat template of its own, as its folder has them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gateway/clients.h"
#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::gateway::model_folder_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// In the manner of Qwen 3: ChatML, tools in the system message, results of tools in user turns, reasoning kept after
// the last question only, an empty thought where thinking is off and in the last message, and no other, that has none.
// `open_thinking` begins the reasoning in the prompt,
// as newer thinking models do.
constexpr char kTemplate[] = R"({%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- if tools %}{{ '<|im_start|>system\nTools:\n' ~ tools | tojson ~ '<|im_end|>\n' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\n<tool_response>\n' ~ m.content ~ '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
{%- else %}
{{- '<|im_start|>' ~ m.role ~ '\n' }}
{%- set thought = m.reasoning_content or '' %}
{%- if m.role == 'assistant' and loop.index0 > ns.last and (loop.last or thought) %}
{{- '<think>\n' ~ thought.strip('\n') ~ '\n</think>\n\n' }}
{%- endif %}
{{- m.content }}
{%- for call in m.tool_calls %}
{%- if (loop.first and m.content) or not loop.first %}{{ '\n' }}{% endif %}
{{- '<tool_call>\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}
{%- elif open_thinking %}{{ '<think>\n' }}{% endif %}
{%- endif %})";

const std::vector<std::string> kSpecials = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>",
                                            "</tool_call>",  "<think>",      "</think>"};
const std::vector<std::pair<std::string, std::string>> kMerges = {{"i", "s"}, {"d", "d"},  {"a", "dd"}, {"e", "r"},
                                                                  {"t", "h"}, {"th", "e"}, {"0", "0"}};

// A folder with the files that a model comes with, its weights aside: byte-level BPE of a few merges.
class ModelFolder {
 public:
  ModelFolder() : dir_(std::filesystem::path(testing::TempDir()) / ("model_folder_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(dir_);
    value json = *base::ParseJson(text::ByteTokenizerJson(kSpecials));
    object& model = json.as_object()["model"].as_object();
    array merges;
    for (const auto& [left, right] : kMerges) {
      model["vocab"].as_object()[left + right] = 256 + static_cast<int>(merges.size());
      merges.push_back(base::json::string(left + " " + right));
    }
    model["merges"] = merges;
    for (value& token : json.as_object()["added_tokens"].as_array()) {
      token.as_object()["id"] = token.as_object()["id"].as_int64() + static_cast<int64_t>(kMerges.size());
    }
    Write("tokenizer.json", base::PrintJson(json));
    Write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
    Write("chat_template.jinja", kTemplate);
  }
  ~ModelFolder() { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }
  const std::filesystem::path dir_;
};

// A token for every byte: ids that a model may sample, and that its tokenizer never gives.
std::vector<int32_t> ByteByByte(const std::string& text) {
  std::vector<int32_t> ids = text::MakeByteTokenizer(kSpecials)->Encode(text, true);
  for (int32_t& id : ids) id += id < 256 ? 0 : static_cast<int32_t>(kMerges.size());
  return ids;
}

struct ModelWorld : World {
  explicit ModelWorld(ScriptedEngine::Author author) : World(std::move(author)) {
    const ModelFolder folder;
    engine->tokenizer = text::LoadTokenizer(folder.dir_).value();
    auto loaded = text::LoadChatFormat(folder.dir_, engine->tokenizer, "");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    format = *loaded;
  }
  std::string PromptText(size_t call) const {
    const auto requests = engine->requests();
    const auto& ids = requests.at(call).prompt_ids();
    return engine->tokenizer->Decode(std::vector<int32_t>(ids.begin(), ids.end()), false);
  }
  std::vector<int32_t> Prompt(size_t call) const {
    const auto requests = engine->requests();
    return {requests.at(call).prompt_ids().begin(), requests.at(call).prompt_ids().end()};
  }
};

Script Sample(const std::string& text) {
  Script script;
  script.ids = ByteByByte(text);
  return script;
}

constexpr char kCallTurn[] =
    "<think>\nadd the numbers\n</think>\n\nAdding.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 100, "
    "\"b\":  200}}\n</tool_call>";
constexpr char kAnswerTurn[] = "<think>\nthe tool said it\n</think>\n\nIt is 300.";

// A call, its result, an answer, another question. The client streams, keeps the reasoning, and prints arguments anew.
struct Conversed {
  std::vector<v1::Call> calls;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> texts;
  std::map<std::string, int64_t> forks;
};
Conversed Converse(HistoryThinking mode) {
  ModelWorld world(
      [calls = std::make_shared<int>(0)](const auto&) { return Sample((*calls)++ == 0 ? kCallTurn : kAnswerTurn); });
  world.options.history_thinking = mode;
  const auto episode = world.Open();
  object body = Body({Msg("user", "100+200?")});
  body["tools"] = CalculatorTools();
  body["stream"] = true;
  const auto say = [&] {
    const auto outcome = world.Chat(episode.api_key(), body);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    object message = CollectChat(outcome);
    if (message.contains("tool_calls")) {
      auto& arguments = message["tool_calls"].as_array()[0].at("function").at("arguments").as_string();
      EXPECT_EQ(arguments, R"({"a": 100, "b":  200})");
      arguments = R"({"b":200,"a":100})";
    }
    body["messages"].as_array().push_back(message);
  };
  say();
  EXPECT_EQ(body["messages"].at(1).at("content").as_string(), "Adding.");
  EXPECT_EQ(body["messages"].at(1).at("reasoning_content").as_string(), "add the numbers");
  object result = Msg("tool", "300");
  result["tool_call_id"] = body["messages"].at(1).at("tool_calls").at(0).at("id");
  body["messages"].as_array().push_back(result);
  body["chat_template_kwargs"] = object{{"unread", true}};  // changes nothing: the template does not ask for it
  say();
  EXPECT_EQ(body["messages"].at(3).at("content").as_string(), "It is 300.");
  body["messages"].as_array().push_back(Msg("user", "and then?"));
  say();
  Conversed out{world.pool.calls(), {}, {}, {}};
  for (size_t i = 0; i < 3; ++i) {
    out.prompts.push_back(world.Prompt(i));
    out.texts.push_back(world.PromptText(i));
  }
  const auto status = world.gateway().Status();
  out.forks.insert(status.forks().begin(), status.forks().end());
  return out;
}

std::vector<int32_t> Join(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(ModelFolder, AToolConversationContinuesOnItsSampledIds) {
  for (const HistoryThinking mode : {HistoryThinking::kTemplate, HistoryThinking::kKeep}) {
    const Conversed turns = Converse(mode);
    ASSERT_EQ(turns.calls.size(), 3u);
    EXPECT_EQ(turns.calls[1].parent_call_id(), turns.calls[0].call_id());
    const std::vector<int32_t> before = Join(turns.prompts[0], ByteByByte(std::string(kCallTurn) + "<|im_end|>"));
    ASSERT_GT(turns.prompts[1].size(), before.size());
    EXPECT_EQ(std::vector<int32_t>(turns.prompts[1].begin(), turns.prompts[1].begin() + before.size()), before);
    EXPECT_EQ(turns.texts[1], turns.texts[0] + kCallTurn +
                                  "<|im_end|>\n<|im_start|>user\n<tool_response>\n300\n</tool_response><|im_end|>\n"
                                  "<|im_start|>assistant\n");
  }
}

TEST(ModelFolder, ThinkingThatTheTemplateStripsIsAForkOfItsOwnCause) {
  const Conversed turns = Converse(HistoryThinking::kTemplate);
  ASSERT_EQ(turns.calls.size(), 3u);
  EXPECT_EQ(turns.calls[2].parent_call_id(), "");
  EXPECT_EQ(turns.calls[2].fork_cause(), kForkThinkingStripped);
  EXPECT_EQ(turns.forks, (std::map<std::string, int64_t>{{kForkThinkingStripped, 1}}));
  EXPECT_EQ(turns.texts[2].find("the tool said it"), std::string::npos);
  EXPECT_NE(turns.texts[2].find("It is 300.<|im_end|>\n<|im_start|>user\nand then?<|im_end|>\n<|im_start|>assistant\n"),
            std::string::npos);
}

TEST(ModelFolder, ThinkingStaysWhereTheConfigurationKeepsIt) {
  const Conversed turns = Converse(HistoryThinking::kKeep);
  ASSERT_EQ(turns.calls.size(), 3u);
  EXPECT_EQ(turns.calls[2].parent_call_id(), turns.calls[1].call_id());
  EXPECT_TRUE(turns.forks.empty());
  EXPECT_EQ(turns.texts[2], turns.texts[1] + kAnswerTurn +
                                "<|im_end|>\n<|im_start|>user\nand then?<|im_end|>\n<|im_start|>assistant\n");
  const std::vector<int32_t> before = Join(turns.prompts[1], ByteByByte(std::string(kAnswerTurn) + "<|im_end|>"));
  EXPECT_EQ(std::vector<int32_t>(turns.prompts[2].begin(), turns.prompts[2].begin() + before.size()), before);
}

// Answers one after the other; every message comes back as it was delivered, and "go on" or a result follows it.
struct Chain {
  std::vector<std::string> causes;
  std::vector<bool> continued;  // its predecessor
};
Chain Answers(const std::vector<std::string>& turns, const char* variables = "{}") {
  ModelWorld world([&, next = std::make_shared<size_t>(0)](const auto&) { return Sample(turns.at((*next)++)); });
  const auto episode = world.Open();
  object body = Body({Msg("user", "100+200?")});
  body["tools"] = CalculatorTools();
  body["chat_template_kwargs"] = *base::ParseJson(variables);
  for (size_t i = 0; i < turns.size(); ++i) {
    const auto outcome = world.Chat(episode.api_key(), body);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    const object message = outcome.message().as_object();
    body["messages"].as_array().push_back(message);
    object then = Msg(message.contains("tool_calls") ? "tool" : "user", "go on");
    if (message.contains("tool_calls")) then["tool_call_id"] = message.at("tool_calls").at(0).at("id");
    body["messages"].as_array().push_back(then);
  }
  Chain chain;
  const auto calls = world.pool.calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    chain.causes.push_back(calls[i].fork_cause());
    chain.continued.push_back(i > 0 && calls[i].parent_call_id() == calls[i - 1].call_id());
    EXPECT_EQ(world.pool.PromptOf(calls[i]), world.Prompt(i));
  }
  return chain;
}

const std::string kBareCall =
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 100,  \"b\": 200}}\n</tool_call>";

TEST(ModelFolder, TurnsWithoutAThoughtAreContinuedThroughout) {
  const Chain chain = Answers({kBareCall, "Adding.\n" + kBareCall, "It is 300.", "As I said.", "Yes."});
  EXPECT_EQ(chain.causes, std::vector<std::string>(5, ""));
  EXPECT_EQ(chain.continued, (std::vector<bool>{false, true, true, true, true}));
}

// Malformed calls are written back as they were sampled, and continued too.
TEST(ModelFolder, AMalformedCallWithoutAThoughtIsContinued) {
  const Chain chain =
      Answers({"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": oops}}\n</tool_call>", "It is 300."});
  EXPECT_EQ(chain.causes, std::vector<std::string>(2, ""));
  EXPECT_EQ(chain.continued, (std::vector<bool>{false, true}));
}

// A thought that the template leaves out is a fork, even if it is empty marks alone.
TEST(ModelFolder, AnEmptyThoughtThatTheTemplateStripsIsAFork) {
  const Chain sampled = Answers({"<think>\n\n</think>\n\nIt is 300.", "Yes."});
  EXPECT_EQ(sampled.causes, (std::vector<std::string>{"", kForkThinkingStripped}));
  const Chain prompted = Answers({"It is 300.", "Yes."}, R"({"enable_thinking": false})");
  EXPECT_EQ(prompted.causes, (std::vector<std::string>{"", kForkThinkingStripped}));
  const Chain mixed = Answers({"It is 300.", "<think>\nhm\n</think>\n\nYes.", "No."});
  EXPECT_EQ(mixed.causes, (std::vector<std::string>{"", "", kForkThinkingStripped}));
}

// ---- Variables of the run ----

TEST(RunVariables, HoldInEveryDialectAndGiveTheRenderersPrompt) {
  ModelWorld world([](const auto&) { return Sample("Hello."); });
  world.options.template_variables = object{{"enable_thinking", false}};
  object messages = Body({Msg("user", "hi")});
  messages["max_tokens"] = 100;
  const object google{{"model", "m"},
                      {"contents", array{object{{"role", "user"}, {"parts", array{object{{"text", "hi"}}}}}}}};
  const std::vector<std::pair<std::string, object>> asked = {{"chat.completions", Body({Msg("user", "hi")})},
                                                             {"messages", messages},
                                                             {"responses", object{{"model", "m"}, {"input", "hi"}}},
                                                             {"google.generateContent", google}};
  text::Conversation conversation;
  conversation.messages.emplace_back();
  conversation.messages[0].role = "user";
  conversation.messages[0].content = "hi";
  conversation.template_variables = world.options.template_variables;
  const auto rendered = world.format->Render(conversation, true);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto outcome = world.Ask(asked[i].first, world.Open().api_key(), base::PrintJson(asked[i].second));
    ASSERT_TRUE(outcome.status.ok()) << asked[i].first << outcome.status;
    EXPECT_EQ(world.Prompt(i), rendered->ids) << asked[i].first;
    EXPECT_EQ(world.pool.PromptOf(world.pool.calls()[i]), rendered->ids) << asked[i].first;
  }
  EXPECT_TRUE(world.PromptText(0).ends_with("<think>\n\n</think>\n\n")) << world.PromptText(0);
  object thinking = Body({Msg("user", "hi")});
  thinking["chat_template_kwargs"] = object{{"enable_thinking", true}};
  ASSERT_TRUE(world.Chat(world.Open().api_key(), thinking).status.ok());
  EXPECT_TRUE(world.PromptText(asked.size()).ends_with("<|im_start|>assistant\n")) << "the client's own wins";
}

// ---- Ids of tool calls that the model writes ----

// In the manner of Kimi K2: the id stands in the call, and in its result.
constexpr char kIdTemplate[] = R"({%- for m in messages %}
{{- '<|im_start|>' ~ m.role ~ '\n' }}
{%- if m.role == 'tool' %}{{ '## Return of ' ~ m.tool_call_id ~ '\n' }}{% endif %}
{{- m.content }}
{%- if m.tool_calls %}<|tool_calls_section_begin|>
{%- for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}
{{- '<|tool_calls_section_end|>' }}{% endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }})";

// A gateway whose chat template is `source`, with a byte tokenizer that has `tokens`.
struct TemplateWorld : World {
  TemplateWorld(const std::string& source, const std::vector<std::string>& tokens, ScriptedEngine::Author author)
      : World(std::move(author)) {
    const auto tokenizer = text::MakeByteTokenizer(tokens);
    engine->tokenizer = tokenizer;
    auto chat_template = text::ChatTemplate::Make(source, R"({"eos_token": "<|im_end|>"})", "").value();
    const auto encoder = std::make_shared<const text::MarkedEncoder>(tokenizer, chat_template->source());
    const text::OutputFormat* output = text::DetectOutputFormat(*chat_template, *encoder).value();
    format = text::MakeTemplateFormat(std::move(chat_template), encoder, output).value();
  }
  std::string PromptText(size_t call) const {
    const auto requests = engine->requests();
    const auto& ids = requests.at(call).prompt_ids();
    return engine->tokenizer->Decode(std::vector<int32_t>(ids.begin(), ids.end()), false);
  }
};

const std::vector<std::string> kIdTokens = {"<|im_start|>",
                                            "<|im_end|>",
                                            "<|tool_calls_section_begin|>",
                                            "<|tool_calls_section_end|>",
                                            "<|tool_call_begin|>",
                                            "<|tool_call_argument_begin|>",
                                            "<|tool_call_end|>"};
constexpr char kTwoCalls[] =
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:4<|tool_call_argument_begin|>{\"a\": 1}"
    "<|tool_call_end|><|tool_call_begin|>functions.add:5<|tool_call_argument_begin|>{\"a\": 2}<|tool_call_end|>"
    "<|tool_calls_section_end|>";

// The message, and a result for each of its calls.
void AnswerCalls(const object& message, const std::string& result, array& messages) {
  messages.push_back(message);
  for (const value& call : message.at("tool_calls").as_array()) {
    object answer = Msg("tool", result);
    answer["tool_call_id"] = call.at("id");
    messages.push_back(answer);
  }
}

// The variable stands at the beginning of every prompt.
constexpr char kStyleTemplate[] = R"({{- '<|im_start|>system\nstyle ' ~ style ~ '<|im_end|>\n' }}
{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}{% endfor %}
{{- '<|im_start|>assistant\n' if add_generation_prompt }})";

TEST(RunVariables, CountInHistoriesAsAClientsOwnDo) {
  TemplateWorld world(kStyleTemplate, {"<|im_start|>", "<|im_end|>"}, [](const auto&) {
    Script script;
    script.text = "Yes.";
    return script;
  });
  world.options.template_variables = object{{"style", "brief"}, {"unread", 7}};
  const auto episode = world.Open();
  object body = Body({Msg("user", "1?")});
  const auto say = [&](const char* next) {
    const auto outcome = world.Chat(episode.api_key(), body);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    body["messages"].as_array().push_back(outcome.message());
    body["messages"].as_array().push_back(Msg("user", next));
  };
  say("2?");
  body["chat_template_kwargs"] = object{{"style", "brief"}};  // the run's value, said by the client
  say("3?");
  ASSERT_TRUE(world.Restart().ok());
  body.erase("chat_template_kwargs");
  say("4?");
  body["chat_template_kwargs"] = object{{"style", "long"}};
  say("5?");
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(world.PromptText(0),
            "<|im_start|>system\nstyle brief<|im_end|>\n<|im_start|>user\n1?<|im_end|>\n"
            "<|im_start|>assistant\n");
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(calls[i].parent_call_id(), calls[i - 1].call_id()) << i;
    EXPECT_EQ(world.PromptText(i), absl::StrCat(world.PromptText(i - 1), "Yes.<|im_end|>\n<|im_start|>user\n", i + 1,
                                                "?<|im_end|>\n<|im_start|>assistant\n"));
  }
  EXPECT_EQ(calls[3].parent_call_id(), "") << "another variable, another history";
  EXPECT_TRUE(world.PromptText(3).starts_with("<|im_start|>system\nstyle long<|im_end|>\n"));
}

TEST(WrittenIds, ArePrintedByTheTemplateInPlaceOfTheGatewaysIds) {
  TemplateWorld world(kIdTemplate, kIdTokens, [calls = std::make_shared<int>(0)](const auto&) {
    Script script;
    script.text = (*calls)++ == 0 ? kTwoCalls : "Done.";
    return script;
  });
  ASSERT_EQ(world.format->output()->name(), "kimi_k2");
  const auto episode = world.Open();
  object body = Body({Msg("user", "add")});
  body["tools"] = CalculatorTools();
  object message = world.Chat(episode.api_key(), body).message().as_object();
  const std::string first(message["tool_calls"].at(0).at("id").as_string());
  const std::string second(message["tool_calls"].at(1).at("id").as_string());
  EXPECT_TRUE(first.starts_with("call_")) << first;
  EXPECT_NE(first, second);
  AnswerCalls(message, "3", body["messages"].as_array());
  const std::string tail =
      "<|im_end|>\n<|im_start|>tool\n## Return of functions.add:4\n3<|im_end|>\n<|im_start|>tool\n## Return of "
      "functions.add:5\n3<|im_end|>\n<|im_start|>assistant\n";
  // Continued; by another gateway, which has the ids from the record; with ids that the client made up.
  for (int i = 1; i <= 3; ++i) {
    if (i == 2) {
      ASSERT_TRUE(world.Restart().ok());
    }
    object asked = body;
    if (i == 3) {
      message["tool_calls"].at(0).at("id") = "toolu_1";
      message["tool_calls"].at(1).at("id") = "toolu_2";
      asked["messages"] = array{Msg("user", "add")};
      AnswerCalls(message, "3", asked["messages"].as_array());
    }
    ASSERT_TRUE(world.Chat(episode.api_key(), asked).status.ok());
    EXPECT_EQ(world.PromptText(i), world.PromptText(0) + kTwoCalls + tail) << i;
    EXPECT_EQ(world.pool.calls()[i].parent_call_id(), world.pool.calls()[0].call_id()) << i;
    EXPECT_EQ(world.pool.calls()[i].fork_cause(), i == 1 ? "" : kForkRetry) << i;
  }
  // Rendered anew in a history that was changed: known ids are known there too.
  object other = Body({Msg("user", "please add")});
  other["tools"] = CalculatorTools();
  other["messages"].as_array().insert(other["messages"].as_array().end(), body["messages"].as_array().begin() + 1,
                                      body["messages"].as_array().end());
  ASSERT_TRUE(world.Chat(episode.api_key(), other).status.ok());
  EXPECT_EQ(world.pool.calls()[4].fork_cause(), kForkHistoryRewritten);
  EXPECT_TRUE(
      world.PromptText(4).ends_with("functions.add:5<|tool_call_argument_begin|>{\"a\": 2}<|tool_call_end|>"
                                    "<|tool_calls_section_end|>" +
                                    tail))
      << world.PromptText(4);
}

// In the manner of Mistral: nine characters or nothing.
TEST(WrittenIds, AreShortIfTheTemplateWantsShortIds) {
  const std::string source = R"({%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ m.content }}
{%- if m.tool_calls %}[TOOL_CALLS] [{% for c in m.tool_calls %}
{%- if c.id | length != 9 %}{{ raise_exception('ids must have 9 characters') }}{% endif %}
{{- (', ' if not loop.first else '') ~ '{"name": "' ~ c.function.name ~ '", "arguments": ' ~ c.function.arguments | tojson ~ ', "id": "' ~ c.id ~ '"}' }}
{%- endfor %}]{% endif %}
{%- if m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}{{ raise_exception('ids must have 9 characters') }}{% endif %}
{{- '=' ~ m.tool_call_id }}{% endif %}<|im_end|>
{%- endfor %}{{ '<|im_start|>assistant' if add_generation_prompt }})";
  const std::string calls = R"([TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}, "id": "abcDEF123"}, )"
                            R"({"name": "add", "arguments": {"a": 2}}])";
  TemplateWorld world(source, {"<|im_start|>", "<|im_end|>", "[TOOL_CALLS]"},
                      [calls, asked = std::make_shared<int>(0)](const auto&) {
                        Script script;
                        script.text = (*asked)++ == 0 ? calls : "Done.";
                        return script;
                      });
  ASSERT_EQ(world.format->output()->name(), "mistral");
  const auto episode = world.Open();
  object body = Body({Msg("user", "add")});
  body["tools"] = CalculatorTools();
  const auto outcome = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  AnswerCalls(outcome.message().as_object(), "3", body["messages"].as_array());
  const auto second = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(second.status.ok()) << second.status;
  const std::string prompt = world.PromptText(1);
  EXPECT_NE(prompt.find("<|im_start|>tool3=abcDEF123<|im_end|>"), std::string::npos) << prompt;
  const size_t other = prompt.rfind("<|im_start|>tool3=");
  ASSERT_NE(other, std::string::npos);
  const std::string id = prompt.substr(other + 18, 9);
  EXPECT_EQ(id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), std::string::npos);
  EXPECT_NE(id, "abcDEF123");
  EXPECT_EQ(prompt.substr(other + 27), "<|im_end|><|im_start|>assistant");
  EXPECT_EQ(world.pool.calls()[1].parent_call_id(), world.pool.calls()[0].call_id());
}

// The prompt may have begun the reasoning, or ended it, before the model samples.
TEST(ModelFolder, AnswersAreReadFromWhereTheirPromptEnds) {
  const struct {
    const char* variables;
    const char* sampled;
    const char* prompt_end;
    const char* reasoning;
  } cases[] = {{R"({"open_thinking": true})", "hm\n</think>\n\nyes", "assistant\n<think>\n", "hm"},
               {R"({"enable_thinking": false})", "yes", "<think>\n\n</think>\n\n", ""},
               {"{}", "<think>\nhm\n</think>\n\nyes", "assistant\n", "hm"}};
  for (const auto& test : cases) {
    ModelWorld world([&](const auto&) { return Sample(test.sampled); });
    const auto episode = world.Open();
    object body = Body({Msg("user", "x <think> y")});
    body["chat_template_kwargs"] = *base::ParseJson(test.variables);
    for (int turn = 0; turn < 2; ++turn) {  // rendered whole, then continued
      const auto outcome = world.Chat(episode.api_key(), body);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_TRUE(world.PromptText(turn).ends_with(test.prompt_end)) << world.PromptText(turn);
      EXPECT_EQ(outcome.message().at("content").as_string(), "yes");
      const value* reasoning = base::Find(outcome.message(), "reasoning_content");
      EXPECT_EQ(reasoning == nullptr ? "" : std::string(reasoning->as_string()), test.reasoning);
      body["messages"].as_array().push_back(outcome.message());
      body["messages"].as_array().push_back(Msg("tool", "more"));
    }
  }
}

TEST(ModelFolder, AForcedCallIsWrittenAsTheTemplateWritesCalls) {
  ModelWorld world(
      [](const auto&) { return Sample("<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>"); });
  const auto episode = world.Open();
  object body = Body({Msg("user", "add")});
  body["tools"] = CalculatorTools();
  body["tool_choice"] = "required";
  body["parallel_tool_calls"] = false;
  const auto outcome = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.message().at("tool_calls").as_array().size(), 1u);
  const v1::Grammar grammar = world.engine->requests()[0].sampling().grammar();
  ASSERT_EQ(grammar.alternatives_size(), 1);
  EXPECT_EQ(grammar.alternatives(0).parts(0).literal(), "<tool_call>\n{\"name\": \"add\", \"arguments\": ");
  EXPECT_EQ(grammar.alternatives(0).parts(2).literal(), "}\n</tool_call>");
  EXPECT_EQ(grammar.begins_after(), "");
  // Where the prompt has begun the reasoning, only what follows it is held to anything.
  body["chat_template_kwargs"] = object{{"open_thinking", true}};
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(world.engine->requests()[1].sampling().grammar().begins_after(), "</think>");
}

}  // namespace
}  // namespace ingot::gateway::model_folder_test
