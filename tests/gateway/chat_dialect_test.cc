#include <gtest/gtest.h>

#include <random>

#include "gateway/api/api_error.h"
#include "gateway/api/request_fields.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

constexpr char kFull[] = R"({"model":"m","messages":[{"role":"developer","content":"s"},
  {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
  {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"c1","content":"r"}],
  "tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"required","stream":true,
  "stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9,"top_k":3,"min_p":0.1,"seed":-1,"max_tokens":5,
  "max_completion_tokens":6,"stop":["x","y"],"logprobs":true,"top_logprobs":2,"n":1,"frequency_penalty":0,
  "return_token_ids":true,"metadata":{"branch":"sub"},"user":"u","unknown":[{}]})";

absl::StatusOr<GatewayRequest> Parse(const std::string& body) {
  return ChatDialect().Parse({.body = body, .headers = {}});
}

TEST(ChatRequest, ReadsEveryField) {
  const auto request = Parse(kFull);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model, "m");
  ASSERT_EQ(request->conversation.messages.size(), 4u);
  EXPECT_EQ(request->conversation.messages[0].role, "system");
  EXPECT_EQ(request->conversation.messages[1].content, "ab");
  EXPECT_EQ(request->conversation.messages[2].tool_calls.at(0).id, "c1");
  EXPECT_EQ(request->conversation.tools.size(), 1u);
  EXPECT_TRUE(request->stream && request->include_usage && request->logprobs && request->return_token_ids);
  EXPECT_EQ(request->temperature, 0.5);
  EXPECT_EQ(request->top_k, 3);
  EXPECT_EQ(request->seed, UINT64_MAX);
  EXPECT_EQ(request->max_tokens, 6);
  EXPECT_EQ(request->stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(request->top_logprobs, 2);
  EXPECT_EQ(request->tool_choice.mode, ToolChoice::Mode::kRequired);
  EXPECT_EQ(request->frequency_penalty, 0);
  EXPECT_EQ(request->branch, "sub");
}

TEST(ChatRequest, NamesTheFieldAtFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"temperature", "3"},
      {"temperature", "\"hot\""},
      {"top_p", "-1"},
      {"top_k", "1.5"},
      {"n", "0"},
      {"max_tokens", "0"},
      {"max_tokens", "1e30"},
      {"stop", "[5]"},
      {"stop", "5"},
      {"stream", "1"},
      {"stream_options", "[]"},
      {"logprobs", "{}"},
      {"top_logprobs", "2"},
      {"logit_bias", "[]"},
      {"tools", "{}"},
      {"tool_choice", "\"maybe\""},
      {"response_format", "{\"type\":\"xml\"}"},
      {"response_format", "{\"type\":\"json_schema\"}"},
      {"response_format", "{\"type\":\"json_schema\",\"json_schema\":\"a\"}"},
      {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":1}}"},
      {"logit_bias", "{\"x\":1}"},
      {"prompt_token_ids", "[-1]"},
      {"messages", "{}"},
      {"messages", "[]"},
      {"messages", "[{\"role\":\"robot\",\"content\":\"\"}]"},
      {"metadata", "1"},
      {"model", "7"},
      {"tool_choice", "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"}};
  for (const auto& [field, text] : cases) {
    base::json::object body = Body({Msg("user", "hi")});
    body[field] = base::ParseJson(text).value();
    const absl::Status status = Parse(base::PrintJson(body)).status();
    EXPECT_EQ(HttpStatusOf(status), 400) << field << text;
    EXPECT_NE(ErrorJson(status).find(absl::StrCat("\"param\":\"", field, "\"")), std::string::npos)
        << field << text << ErrorJson(status);
  }
  EXPECT_EQ(HttpStatusOf(Parse("{\"messages\":").status()), 400);
}

TEST(ChatRequest, TakesAStopThatIsEmptyForNone) {
  base::json::object body = Body({Msg("user", "hi")});
  body["stop"] = base::json::array{"", "END"};
  EXPECT_EQ(Parse(base::PrintJson(body)).value().stop, std::vector<std::string>{"END"});
  body["stop"] = "";
  EXPECT_TRUE(Parse(base::PrintJson(body)).value().stop.empty());
}

// As JavaScript's JSON.stringify writes a string that was cut within an emoji.
TEST(ChatRequest, ReadsHalfASurrogatePairAsTheReplacementCharacter) {
  const auto request = Parse(R"({"messages":[{"role":"user","content":"a\ud83d b \ude00 \ud83d\ude00"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->conversation.messages[0].content, "a\uFFFD b \uFFFD \U0001F600");
}

TEST(ChatRequest, HasABoundedNumberOfValues) {
  const auto with = [](size_t numbers) {
    std::string body = R"({"messages":[{"role":"user","content":"hi"}],"more":[1)";
    for (size_t i = 1; i < numbers; ++i) body += ",1";
    return body + "]}";
  };
  EXPECT_TRUE(Parse(with(kMaxBodyValues - 100)).ok());
  EXPECT_EQ(HttpStatusOf(Parse(with(kMaxBodyValues)).status()), 413);
}

TEST(ChatRequest, HasABoundedNumberOfValuesInArguments) {
  std::string arguments = "[1";
  for (size_t i = 0; i < kMaxBodyValues; ++i) arguments += ",1";
  const auto request = Parse(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[
      {"id":"c","type":"function","function":{"name":"f","arguments":")" +
                             arguments + R"(]"}}]}]})");
  EXPECT_EQ(HttpStatusOf(request.status()), 400);
  EXPECT_THAT(std::string(request.status().message()),
              testing::HasSubstr("messages[1].tool_calls[0].function.arguments"));
}

TEST(ChatRequest, TakesNullAsMissing) {
  for (const char* field : {"temperature", "top_p", "seed", "stop", "stream", "tools", "tool_choice", "max_tokens", "n",
                            "logprobs", "response_format", "stream_options", "metadata", "logit_bias"}) {
    base::json::object body = Body({Msg("user", "hi")});
    body[field] = nullptr;
    EXPECT_TRUE(Parse(base::PrintJson(body)).ok()) << field;
  }
}

// Whatever the body, an answer or an error with a message: never a crash. With a whole gateway behind it.
TEST(ChatRequest, SurvivesMutilatedBodies) {
  World world([](const auto&) {
    Script script;
    script.text = "ok";
    return script;
  });
  world.with_admission = world.with_pool = false;
  world.engine->inline_chunks = true;
  std::mt19937 random(7);
  const std::string full = kFull;
  int answered = 0, rejected = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string body = full;
    for (int edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % body.size();
      switch (random() % 4) {
        case 0:
          body[at] = static_cast<char>(random());
          break;
        case 1:
          body.erase(at, 1 + random() % 20);
          break;
        case 2:
          body.insert(at, full.substr(random() % full.size(), random() % 30));
          break;
        default:
          body[at] = "0{}[]\",:-nt"[random() % 11];
      }
      if (body.empty()) body = "x";
    }
    const auto outcome = world.ChatText("key", body);
    if (outcome.status.ok()) {
      ++answered;
    } else {
      ++rejected;
      ASSERT_EQ(HttpStatusOf(outcome.status), 400) << outcome.status << body;
      ASSERT_TRUE(base::ParseJson(ErrorJson(outcome.status)).ok());
    }
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(rejected, 1000);
}

}  // namespace
}  // namespace ingot::gateway
