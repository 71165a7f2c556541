// Requests that are read only as far as they differ from an earlier one: read as if they were read whole, or not so.
#include "gateway/known_requests.h"

#include <gtest/gtest.h>

#include <random>

#include "gateway/api_error.h"
#include "gateway/dialects/dialects.h"
#include "gateway/fakes.h"
#include "gateway/request_fields.h"

namespace ingot::gateway {
namespace {

std::vector<std::string> Elements(std::string_view body) {
  std::vector<std::string> elements;
  const auto ends = FindListEnds(body, "messages");
  for (size_t i = 0; ends.has_value() && i < ends->size(); ++i) {
    size_t begin = (*ends)[i];
    while (begin > 0 && (i == 0 ? body[begin - 1] != '[' : begin > (*ends)[i - 1])) --begin;
    elements.emplace_back(body.substr(begin, (*ends)[i] - begin));
  }
  return elements;
}

TEST(FindListEnds, FindsTheElementsOfTheOneList) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Elements(R"({"messages":[1,"a]","b"]})"), (Strings{"1", ",\"a]\"", ",\"b\""}));
  EXPECT_EQ(Elements(R"({"x":{"messages":["no"]},"messages":[ "a\\\"]," , {"k\"":"}"} ],"y":[]})"),
            (Strings{R"( "a\\\"],")", R"( , {"k\"":"}"})"}));
  EXPECT_EQ(Elements("{\"messages\" :\n[true,null,-1.5e3\n]\n}"), (Strings{"true", ",null", ",-1.5e3"}));
}

TEST(FindListEnds, DoesNotGuessWhichListItIs) {
  for (const char* body :
       {R"({"messages":["a"],"messages":["b"]})", R"({"m\u0065ssages":["a"],"messages":["b"]})", R"({"messages":[]})",
        R"({"messages":"a"})", R"({"other":["a"]})", R"({})", R"(["a"])", "", R"({"messages":["a")", R"({"messages)",
        R"({"messages":["a"}})", R"({"a":1 "messages":[1]})"}) {
    EXPECT_FALSE(FindListEnds(body, "messages").has_value()) << body;
  }
}

std::shared_ptr<const KnownRequest> Known(const std::string& body) {
  auto request = ChatDialect().Parse({.body = body, .headers = {}});
  const auto ends = FindListEnds(body, "messages");
  if (!request.ok() || !ends.has_value()) return nullptr;
  return std::make_shared<const KnownRequest>(KnownRequest{
      .body = body, .ends = *ends, .request = std::make_shared<const GatewayRequest>(*std::move(request))});
}

// What is read of the body by way of `known`; nullopt: it is read whole.
std::optional<GatewayRequest> Continued(const KnownRequest& known, const std::string& body) {
  const auto change = FindChange(known, body);
  if (!change.has_value()) return std::nullopt;
  EXPECT_EQ(change->ends, FindListEnds(body, "messages")) << body;
  auto request = ChatDialect().ParseChange(*known.request, change->kept, change->added);
  if (!request.ok()) return std::nullopt;
  return *std::move(request);
}

// All that a request says.
std::string Said(const GatewayRequest& request) {
  std::string all = absl::StrCat(request.model, "|", request.branch, "|", request.parent_branch, "|", request.stream,
                                 "|", request.max_tokens, "|", request.temperature.value_or(-1), "|", request.n, "\n");
  for (size_t i = 0; i < request.conversation.messages.size(); ++i) {
    const text::Message& message = request.conversation.messages[i];
    absl::StrAppend(&all, base::PrintJson(text::MessageToJson(message)), message.tool_call_id, message.name);
    for (const std::string& id : request.echoed_ids[i]) absl::StrAppend(&all, " ", id);
    all += "\n";
  }
  for (const base::json::value& tool : request.conversation.tools) absl::StrAppend(&all, base::PrintJson(tool), "\n");
  for (const Tool& tool : request.tools) absl::StrAppend(&all, tool.name, tool.wire_name, tool.strict, "\n");
  return all;
}

constexpr char kBegun[] = R"({"model":"m","messages":[{"role":"user","content":"a"}],"stream":true})";

TEST(FindChange, TakesWhatIsTheSame) {
  const auto known = Known(kBegun);
  const auto more =
      Continued(*known, R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"} ,
                 {"role":"user","content":"c"}],"stream":true})");
  ASSERT_TRUE(more.has_value());
  EXPECT_EQ(more->conversation.messages.size(), 3u);
  EXPECT_EQ(more->conversation.messages[2].content, "c");
  EXPECT_TRUE(more->stream);
  EXPECT_EQ(&more->conversation.messages[0], &known->request->conversation.messages[0]) << "it is shared";
  EXPECT_TRUE(Continued(*known, kBegun).has_value());
}

TEST(FindChange, IsNoneWhereAnythingElseDiffers) {
  const auto known = Known(kBegun);
  for (
      const char* body :
      {R"({"model":"n","messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"b"},{"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}],"stream":false})",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"n":2,"x":[1],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"} {"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"},],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"c],"stream":true})",
       R"({"model":"m","messages":[],"stream":true})", R"({"model":"m","messages":[{"role":"user","conte)", "", "{}"}) {
    EXPECT_FALSE(Continued(*known, body).has_value()) << body;
  }
}

// Bodies of random conversations, each made of the one before it: messages come, go and change, other fields do, bytes
// are broken. Whatever is not read whole reads as if it were.
TEST(FindChange, ReadsAsTheWholeBodyDoes) {
  std::mt19937 random(7);
  const auto one_of = [&random](const std::vector<std::string>& texts) { return texts[random() % texts.size()]; };
  const auto message = [&] {
    const std::string text = one_of({"", "a", "\\\"", "]}", "\\\\", "é\\u00e9", "{\\\"x\\\":[1,2]}"});
    return one_of(
        {R"({"role":"user","content":")" + text + R"("})", R"({"role":"system","content":")" + text + R"("})",
         R"( {"content":[{"type":"text","text":")" + text + R"("}] , "role":"user"})",
         R"({"role":"assistant","content":")" + text + R"(","reasoning_content":"hm"})",
         R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":")" +
             one_of({"{}", "{\\\"a\\\":1}", ""}) + R"("}}]})",
         R"({"role":"assistant","function_call":{"name":"f","arguments":"{}"}})",
         R"({"role":"function","name":"f","content":"r"})",
         R"({"role":"tool","tool_call_id":"c1","content":")" + text + R"("})", R"({"role":"nobody"})"});
  };
  std::vector<std::string> messages = {message()};
  std::string head = R"({"model":"m","messages":[)", tail = R"(],"stream":true})";
  std::shared_ptr<const KnownRequest> known;
  int continued = 0, whole = 0;
  for (int i = 0; i < 20000; ++i) {
    switch (random() % 12) {
      case 0:
        messages.resize(1 + random() % messages.size());
        break;
      case 1:
        messages[random() % messages.size()] = message();
        break;
      case 2:
        head = one_of({R"({"model":"m","messages":[)",
                       R"({ "tools":[{"type":"function","function":{"name":"f"}}],"messages":[)"});
        break;
      case 3:
        tail = one_of({R"(],"stream":true})", R"(] })", R"(],"max_tokens":5,"messages2":[1]})"});
        break;
      default:
        messages.push_back(message());
    }
    if (messages.size() > 30) messages.resize(1);
    std::string body = head;
    for (size_t m = 0; m < messages.size(); ++m) absl::StrAppend(&body, m == 0 ? "" : ",", messages[m]);
    body += tail;
    if (random() % 10 == 0)
      body.insert(random() % body.size(), one_of({"]", "}", ",", "\"", "\\", "]}", "],\"messages\":["}));
    const auto parsed = ChatDialect().Parse({.body = body, .headers = {}});
    if (known != nullptr) {
      const std::optional<GatewayRequest> read = Continued(*known, body);
      ++(read.has_value() ? continued : whole);
      if (read.has_value()) {
        ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << known->body << "\n" << body;
        ASSERT_EQ(Said(*read), Said(*parsed)) << known->body << "\n" << body;
      }
    }
    if (auto next = Known(body)) known = std::move(next);
  }
  EXPECT_GT(continued, 5000);
  EXPECT_GT(whole, 1000);
}

TEST(KnownRequests, ForgetsWhatWasNotAskedForTheLongest) {
  const auto of = [](size_t bytes) {
    return std::make_shared<const KnownRequest>(KnownRequest{.body = std::string(bytes, 'x'), .ends = {1}});
  };
  KnownRequests known(10 * of(1000)->bytes());
  for (int i = 0; i < 10; ++i) known.Keep(std::to_string(i), of(1000));
  EXPECT_EQ(known.bytes(), 10 * of(1000)->bytes());
  EXPECT_NE(known.Find("0"), nullptr);  // asked for: 1 is the oldest now
  known.Keep("new", of(1000));
  EXPECT_EQ(known.Find("1"), nullptr);
  EXPECT_NE(known.Find("0"), nullptr);
  known.Keep("0", of(500));  // in the place of the one before
  EXPECT_LT(known.bytes(), 10 * of(1000)->bytes());
  known.Keep("0", of(100'000));
  EXPECT_EQ(known.Find("0"), nullptr) << "too large, and what it stood for is no longer the newest";
  EXPECT_NE(known.Find("new"), nullptr);
  auto ended = std::make_shared<KnownRequest>();
  ended->episode = "ended";
  ended->request = std::make_shared<const GatewayRequest>();
  const int64_t before = known.bytes();
  known.Keep("of it", ended);
  EXPECT_GT(known.bytes(), before);
  known.ForgetEpisode("another");
  EXPECT_NE(known.Find("of it"), nullptr);
  known.ForgetEpisode("ended");
  EXPECT_EQ(known.Find("of it"), nullptr);
  EXPECT_EQ(known.bytes(), before);
  KnownRequests none(0);
  none.Keep("a", of(1));
  EXPECT_EQ(none.Find("a"), nullptr);
}

// Two agents' dialogues, with edits, on a gateway that keeps requests and on one that does not: the engines are asked
// the same, and the forks are the same.
TEST(KnownRequests, ChangeNothingButTheTimeItTakes) {
  const auto run = [](int64_t max_bytes, int64_t* continued) {
    World world([](const auto&) {
      Script script;
      script.text = "I see.";
      return script;
    });
    world.options.max_known_request_bytes = max_bytes;
    const v1::EpisodeOpenResponse agents[] = {world.Open(), world.Open()};
    base::json::array histories[] = {{Msg("system", "Work."), Msg("user", "one")}, {Msg("user", "two")}};
    std::mt19937 random(3);
    std::string asked;
    for (int turn = 0; turn < 60; ++turn) {
      const size_t agent = random() % 2;
      base::json::array& history = histories[agent];
      const auto outcome = world.Chat(agents[agent].api_key(), Body(history));
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      history.push_back(outcome.message());
      history.push_back(Msg("user", absl::StrCat("more ", turn)));
      if (turn % 7 == 3) history[random() % history.size()] = Msg("user", "changed");
      if (turn % 11 == 5) history.resize(1);
    }
    for (const auto& request : world.engine->requests()) {
      for (const int32_t id : request.prompt_ids()) absl::StrAppend(&asked, id, " ");
      asked += "\n";
    }
    const std::string metrics = world.gateway().MetricsText();
    const std::string name = "\ningot_gateway_requests_continued_total ";
    const size_t at = metrics.find(name);
    *continued = at == std::string::npos ? -1 : std::stoll(metrics.substr(at + name.size()));
    for (size_t fork = metrics.find("forks_total{"); fork != std::string::npos;
         fork = metrics.find("forks_total{", fork + 1)) {
      absl::StrAppend(&asked, metrics.substr(fork, metrics.find('\n', fork) - fork), "\n");
    }
    return asked;
  };
  int64_t continued = 0, without = 0;
  EXPECT_EQ(run(1 << 20, &continued), run(0, &without));
  EXPECT_GT(continued, 40);
  EXPECT_EQ(without, 0);
}

TEST(KnownRequests, AreNotContinuedPastWhatABodyMayHave) {
  World world([](const auto&) { return Script(); });
  const auto episode = world.Open();
  base::json::array history = {Msg("user", "one")};
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(history)).status.ok());
  history.push_back(Msg("user", "two"));
  history.back().as_object()["more"] = base::json::array(kMaxBodyValues, base::json::value(1));
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(history)).status), 413);
}

// Two keys may send the same bytes: what was read of one says nothing of the other, and who may not ask is not
// answered.
TEST(KnownRequests, AreTheirCallersAlone) {
  World world([](const auto&) { return Script(); });
  const auto episode = world.Open();
  const base::json::array history = {Msg("user", "one")};
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(history)).status.ok());
  EXPECT_FALSE(world.Chat("another", Body(history)).status.ok());
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(history)).status.ok());
}

}  // namespace
}  // namespace ingot::gateway
