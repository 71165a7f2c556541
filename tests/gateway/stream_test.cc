// Streams and whole replies of the OpenAI dialect.
#include <gtest/gtest.h>

#include "gateway/fakes.h"

namespace ingot::gateway::stream_test {
namespace {

using base::json::object;
using base::json::value;

constexpr char kTwoCalls[] =
    "First.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": "
    "\"add\", \"arguments\": {\"b\": \"ü\"}}\n</tool_call>";

// The message that a client puts together from a stream, in the form of one that came whole.
object Collect(const World::Outcome& outcome, std::string& finish_reason) {
  std::string content;
  base::json::array calls;
  for (const value& event : outcome.events) {
    if (event.at("choices").as_array().empty()) continue;
    const value& choice = event.at("choices").at(0);
    if (choice.at("finish_reason").is_string()) finish_reason = std::string(choice.at("finish_reason").as_string());
    const value& delta = choice.at("delta");
    if (const value* text = base::Find(delta, "content")) content += text->as_string();
    const value* pieces = base::Find(delta, "tool_calls");
    if (pieces == nullptr) continue;
    for (const value& piece : pieces->as_array()) {
      const size_t index = piece.at("index").to_number<size_t>();
      if (base::Find(piece, "id") != nullptr) {
        EXPECT_EQ(index, calls.size());
        object call{{"id", piece.at("id")}, {"type", piece.at("type")}, {"function", piece.at("function")}};
        calls.push_back(std::move(call));
      } else {
        auto& arguments = calls.at(index).at("function").at("arguments").as_string();
        const auto& more = piece.at("function").at("arguments").as_string();
        arguments.append(more.begin(), more.end());
      }
    }
  }
  object message{{"content", content}, {"tool_calls", calls}};
  return message;
}

TEST(Stream, GivesTheSameMessageAsAWholeAnswer) {
  World world([](const auto&) {
    Script script;
    script.text = kTwoCalls;
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "add")});
  body["tools"] = CalculatorTools();
  const auto whole = world.Chat(episode.api_key(), body);
  body["stream"] = true;
  const auto stream = world.Chat(episode.api_key(), body);
  std::string finish_reason;
  const object collected = Collect(stream, finish_reason);
  EXPECT_EQ(finish_reason, "tool_calls");
  EXPECT_EQ(collected.at("content"), whole.message().at("content"));
  const auto& calls = collected.at("tool_calls").as_array();
  const auto& expected = whole.message().at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2u);
  std::set<std::string> ids;
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].at("function"), expected[i].at("function"));
    ids.insert(std::string(calls[i].at("id").as_string()));
    ids.insert(std::string(expected[i].at("id").as_string()));
  }
  EXPECT_EQ(ids.size(), 4u);
  // A streamed answer is continued, too.
  body["messages"].as_array().push_back(
      object{{"role", "assistant"}, {"content", collected.at("content")}, {"tool_calls", collected.at("tool_calls")}});
  body["messages"].as_array().push_back(Msg("tool", "3"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(world.pool.calls().at(2).parent_call_id(), world.pool.calls().at(1).call_id());
}

TEST(Stream, SendsUsageOnlyIfAsked) {
  World world([](const auto&) {
    Script script;
    script.text = "hello";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["stream"] = true;
  for (const value& event : world.Chat(episode.api_key(), body).events) {
    EXPECT_EQ(base::Find(event, "usage"), nullptr);
    EXPECT_EQ(event.at("choices").as_array().size(), 1u);
    EXPECT_EQ(event.at("object").as_string(), "chat.completion.chunk");
  }
  body["stream_options"] = object{{"include_usage", true}};
  const auto events = world.Chat(episode.api_key(), body).events;
  for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_TRUE(events[i].at("usage").is_null());
  EXPECT_TRUE(events.back().at("choices").as_array().empty());
  EXPECT_EQ(events.back().at("usage").at("completion_tokens").as_int64(), 6);
  EXPECT_EQ(events.back().at("usage").at("total_tokens").as_int64(),
            events.back().at("usage").at("prompt_tokens").as_int64() + 6);
}

TEST(Stream, ReportsEveryTokensLogprobOnce) {
  World world([](const auto&) {
    Script script;
    script.text = "grüße <tool_call>no";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["logprobs"] = true;
  body["top_logprobs"] = 1;
  body["return_token_ids"] = true;
  const auto whole = world.Chat(episode.api_key(), body);
  const value& expected = whole.events[0].at("choices").at(0).at("logprobs").at("content");
  EXPECT_EQ(expected.as_array().size(), TestTokenizer()->Encode("grüße <tool_call>no<|im_end|>", true).size());
  body["stream"] = true;
  base::json::array tokens, ids;
  value prompt_ids;
  for (const value& event : world.Chat(episode.api_key(), body).events) {
    const value& choice = event.at("choices").at(0);
    if (const value* prompt = base::Find(event, "prompt_token_ids")) prompt_ids = *prompt;
    if (const value* more = base::Find(choice, "token_ids")) {
      ids.insert(ids.end(), more->as_array().begin(), more->as_array().end());
    }
    if (choice.at("logprobs").is_null()) continue;
    const auto& more = choice.at("logprobs").at("content").as_array();
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  EXPECT_EQ(value(tokens), expected);
  EXPECT_EQ(value(ids), whole.events[0].at("choices").at(0).at("token_ids"));
  EXPECT_EQ(prompt_ids, whole.events[0].at("prompt_token_ids"));
  const auto sent = world.engine->requests()[0].prompt_ids();
  EXPECT_EQ(prompt_ids, value(base::json::array(sent.begin(), sent.end())));
}

// The ids and log-probs of a reply or a chunk, each at most once.
void CollectTokens(const value& json, base::json::array& ids, base::json::array& logprobs) {
  if (const value* more = base::Find(json, "token_ids")) {
    ids.insert(ids.end(), more->as_array().begin(), more->as_array().end());
  }
  const value* reported = base::Find(json, "logprobs");
  if (reported == nullptr || reported->is_null()) return;
  if (const value* list = base::Find(*reported, "token_logprobs")) {  // of completions
    logprobs.insert(logprobs.end(), list->as_array().begin(), list->as_array().end());
  } else {
    for (const value& entry : reported->at("content").as_array()) logprobs.push_back(entry.at("logprob"));
  }
}

// With ids, each id has its log-prob in every dialect that returns ids: thoughts, calls and the end of the turn, too.
TEST(Stream, PairsEachIdWithItsLogprob) {
  const std::string text = absl::StrCat("<think>\nhm\n</think>\n\nI add.\n", kTwoCalls);
  World world([&](const auto&) {
    Script script;
    script.text = text;
    return script;
  });
  world.with_admission = world.with_pool = false;
  const std::vector<int32_t> sampled = TestTokenizer()->Encode(text + "<|im_end|>", true);
  const char* const tools = R"("tools":[{"type":"function","name":"add","function":{"name":"add"}}],)";
  const std::pair<const char*, std::string> cases[] = {
      {"chat.completions", absl::StrCat(R"({"logprobs":true,"messages":[{"role":"user","content":"x"}],)", tools)},
      {"completions", R"({"logprobs":0,"prompt":"x",)"},
      {"responses", absl::StrCat(R"({"include":["message.output_text.logprobs"],"input":"x",)", tools)},
      {"messages", R"({"logprobs":true,"max_tokens":500,"messages":[{"role":"user","content":"x"}],
                       "tools":[{"name":"add","input_schema":{"type":"object"}}],)"}};
  for (const auto& [dialect, body] : cases) {
    for (const bool stream : {false, true}) {
      const auto outcome = world.Ask(
          dialect, "key", absl::StrCat(body, R"("return_token_ids":true,"stream":)", stream ? "true}" : "false}"));
      ASSERT_TRUE(outcome.status.ok()) << dialect << outcome.status;
      base::json::array ids, logprobs;
      for (const value& event : outcome.events) {
        if (base::Find(event, "item_id") == nullptr) CollectTokens(event, ids, logprobs);  // Responses: not of a delta
        const value* response = base::Find(event, "response");
        if (response != nullptr) CollectTokens(*response, ids, logprobs);
        const value* choices = base::Find(event, "choices");
        if (choices == nullptr || choices->as_array().empty()) continue;
        CollectTokens(choices->at(0), ids, logprobs);
        EXPECT_EQ(ids.size(), logprobs.size()) << "within one chunk of " << dialect;
      }
      ASSERT_EQ(value(ids), value(base::json::array(sampled.begin(), sampled.end()))) << dialect << stream;
      ASSERT_EQ(logprobs.size(), ids.size()) << dialect << stream;
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_FLOAT_EQ(logprobs[i].to_number<float>(), -(1 + ids[i].as_int64() % 7) / 8.0f) << dialect << i;
      }
    }
  }
}

TEST(Stream, SaysLengthWhenItWasCut) {
  World world([](const auto&) {
    Script script;
    script.text = "cut of";
    script.end_of_turn = false;
    script.finish = v1::FINISH_LENGTH;
    return script;
  });
  const auto episode = world.Open();
  base::json::array messages{Msg("user", "hi")};
  const auto first = world.Chat(episode.api_key(), Body(messages));
  EXPECT_EQ(first.events[0].at("choices").at(0).at("finish_reason").as_string(), "length");
  EXPECT_EQ(first.message().at("content").as_string(), "cut of");
  messages.push_back(first.message());
  messages.push_back(Msg("user", "go on"));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
}

TEST(Stream, LeavesTextAloneThatLooksLikeACallWhenThereAreNoTools) {
  World world([](const auto&) {
    Script script;
    script.text = kTwoCalls;
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "add")});
  EXPECT_EQ(world.Chat(episode.api_key(), body).message().at("content").as_string(), kTwoCalls);
  body["tools"] = CalculatorTools();
  body["tool_choice"] = "none";
  EXPECT_EQ(world.Chat(episode.api_key(), body).message().at("content").as_string(), kTwoCalls);
  EXPECT_EQ(world.pool.calls().size(), 2u);
}

}  // namespace
}  // namespace ingot::gateway::stream_test
