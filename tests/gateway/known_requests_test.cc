// Requests that are read only as far as they differ from an earlier one: read as if they were read whole, or not so.
#include "gateway/known_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <random>

#include "gateway/api_error.h"
#include "gateway/dialects/dialects.h"
#include "gateway/fakes.h"
#include "gateway/request_fields.h"

namespace ingot::gateway {
namespace {

std::vector<std::string> Elements(std::string_view body) {
  std::vector<std::string> elements;
  const auto list = FindList(body, "messages");
  if (!list.has_value()) return elements;
  size_t begin = list->begin;
  for (const size_t end : list->ends) {
    elements.emplace_back(body.substr(begin, end - begin));
    begin = end;
  }
  return elements;
}

TEST(FindList, FindsTheElementsOfTheOneList) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Elements(R"({"messages":[1,"a]","b"]})"), (Strings{"1", ",\"a]\"", ",\"b\""}));
  EXPECT_EQ(Elements(R"({"x":{"messages":["no"]},"messages":[ "a\\\"]," , {"k\"":"}"} ],"y":[]})"),
            (Strings{R"( "a\\\"],")", R"( , {"k\"":"}"})"}));
  EXPECT_EQ(Elements("{\"messages\" :\n[true,null,-1.5e3\n]\n}"), (Strings{"true", ",null", ",-1.5e3"}));
}

TEST(FindList, DoesNotGuessWhichListItIs) {
  for (const char* body :
       {R"({"messages":["a"],"messages":["b"]})", R"({"m\u0065ssages":["a"],"messages":["b"]})", R"({"messages":[]})",
        R"({"messages":"a"})", R"({"other":["a"]})", R"({})", R"(["a"])", "", R"({"messages":["a")", R"({"messages)",
        R"({"messages":["a"}})", R"({"a":1 "messages":[1]})"}) {
    EXPECT_FALSE(FindList(body, "messages").has_value()) << body;
  }
}

std::shared_ptr<const KnownRequest> Known(const std::string& body, const Dialect& dialect = ChatDialect()) {
  auto request = dialect.Parse({.body = body, .headers = {}});
  const auto list = FindList(body, dialect.growing_list());
  if (!request.ok() || !list.has_value()) return nullptr;
  EXPECT_EQ(request->elements.size(), list->ends.size()) << body;
  return std::make_shared<const KnownRequest>(KnownRequest{
      .body = body, .list = *list, .request = std::make_shared<const GatewayRequest>(*std::move(request))});
}

// What is read of the body by way of `known`; nullopt: it is read whole.
std::optional<GatewayRequest> Continued(const KnownRequest& known, const std::string& body,
                                        const Dialect& dialect = ChatDialect()) {
  const auto change = FindChange(known, body, dialect.growing_list());
  if (!change.has_value()) return std::nullopt;
  const auto list = FindList(body, dialect.growing_list());
  EXPECT_TRUE(list.has_value() && list->begin == change->list.begin && list->ends == change->list.ends) << body;
  const RawRequest rest{.body = change->rest, .headers = {}};
  auto request = dialect.ParseChange(*known.request, change->kept, change->added, rest.body.empty() ? nullptr : &rest);
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
    for (const text::ToolCall& call : message.tool_calls) absl::StrAppend(&all, " ", call.id);
    for (const std::string& id : request.echoed_ids[i]) absl::StrAppend(&all, " ", id);
    all += "\n";
  }
  for (const GatewayRequest::ListElement& element : request.elements) {
    absl::StrAppend(&all, element.first, " ", element.count, " ", static_cast<int>(element.open), ";");
  }
  for (const GatewayRequest::ItemReference& reference : request.references) {
    absl::StrAppend(&all, reference.message, static_cast<int>(reference.kind), " ", reference.at, " ",
                    reference.call_id, " ", reference.index, reference.path, ";");
  }
  absl::StrAppend(&all, request.count_only, request.prompt_field,
                  request.repeated == nullptr ? "" : request.repeated->text, request.seals_reasoning, "\n");
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

TEST(FindChange, TakesTheMessagesWhereOtherFieldsDiffer) {
  const auto known = Known(kBegun);
  const auto other =
      Continued(*known, R"({"n":2,"messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}],
                 "model":"other","tools":[{"type":"function","function":{"name":"f"}}]})");
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->model, "other");
  EXPECT_EQ(other->n, 2);
  EXPECT_FALSE(other->stream);
  EXPECT_EQ(other->tools.size(), 1u);
  ASSERT_EQ(other->conversation.messages.size(), 2u);
  EXPECT_EQ(&other->conversation.messages[0], &known->request->conversation.messages[0]);

  // Claude Code's first block of `system` is another one in each request, and is no part of the prompt.
  const auto code = [](const char* build, const char* system, const char* more) {
    return absl::StrCat(R"({"system":[{"type":"text","text":"x-anthropic-billing-header: )", build,
                        R"("},{"type":"text","text":")", system, R"("}],"messages":[{"role":"user","content":"a"})",
                        more, "]}");
  };
  const char more[] = R"(,{"role":"assistant","content":"b"},{"role":"user","content":"c"})";
  const auto begun = Known(code("1", "s", ""), MessagesDialect());
  const auto continued = Continued(*begun, code("2", "s", more), MessagesDialect());
  ASSERT_TRUE(continued.has_value());
  EXPECT_EQ(continued->conversation.messages.size(), 4u);
  EXPECT_EQ(&continued->conversation.messages[1], &begun->request->conversation.messages[1]);
  EXPECT_FALSE(Continued(*begun, code("2", "t", more), MessagesDialect()).has_value()) << "another system prompt";
}

TEST(FindChange, IsNoneWhereTheListBeginsOtherwiseOrCannotBeTold) {
  const auto known = Known(kBegun);
  for (
      const char* body :
      {R"({"model":"m","messages":[{"role":"user","content":"b"},{"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"} {"role":"user","content":"c"}],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"},],"stream":true})",
       R"({"model":"m","messages":[{"role":"user","content":"a"},],"stream":false})",
       R"({"model":"m","messages":[{"role":"user","content":"a"}],"stream":tru})",
       R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"c],"stream":true})",
       R"({"model":"m","messages":[],"stream":true})", R"({"model":"m","messages":[{"role":"user","conte)", "", "{}"}) {
    EXPECT_FALSE(Continued(*known, body).has_value()) << body;
  }
}

// What stands between the known list and the known end of the body is the end of a list, and a field that begins.
TEST(FindChange, IsNotFooledByAFieldWithoutAName) {
  const auto known = Known(R"({"messages":[{"role":"user","content":"a"}]})");
  const std::string body =
      R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}],"":[{"role":"user","content":"d"}]})";
  const auto read = Continued(*known, body);
  EXPECT_EQ(read.has_value() ? read->conversation.messages[1].content : "c", "c");
}

// Bodies whose parts all belong to one turn, read behind a known one: in the time of a few copies of them, not of one
// copy for each part.
TEST(FindChange, ReadsATurnOfManyPartsInLinearTime) {
  struct Case {
    const Dialect& dialect;
    std::string begun, part, head, foot;
  };
  const std::string id(32, 'a');
  const std::string result = R"(,{"type":"function_call_output","call_id":"call_)" + id + R"(_0","output":"r"})";
  const std::string call = R"(,{"type":"function_call","call_id":"call_)" + id + R"(_0","name":"f","arguments":"{}"})";
  for (const Case& one :
       {Case{MessagesDialect(), R"({"messages":[{"role":"user","content":"a"})",
             R"(,{"type":"text","text":"some of the turn's text"})",
             R"(,{"role":"assistant","content":[{"type":"text","text":""})", R"(]},{"role":"user","content":"b"}]})"},
        Case{ResponsesDialect(), R"({"input":[{"role":"user","content":"a"})",
             R"(,{"role":"assistant","content":"some of the turn's text"})", "", "]}"},
        Case{ResponsesDialect(), R"({"input":[{"role":"user","content":"a"})", call, "", "]}"},
        Case{ResponsesDialect(), R"({"input":[{"role":"user","content":"a"})", result, call,
             call + call + call + "]}"}}) {
    constexpr int kParts = 60'000;  // of which copies of each beginning take minutes
    std::string body = absl::StrCat(one.begun, one.head);
    for (int i = 0; i < kParts; ++i) body += one.part;
    body += one.foot;
    const auto known = Known(absl::StrCat(one.begun, "]}"), one.dialect);
    const auto start = std::chrono::steady_clock::now();
    const auto read = Continued(*known, body, one.dialect);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    ASSERT_TRUE(read.has_value()) << one.part;
    EXPECT_GE(read->conversation.messages.size(), 2u);
  }
}

using Random = std::mt19937;
std::string OneOf(Random& random, const std::vector<std::string>& texts) { return texts[random() % texts.size()]; }
std::string SomeText(Random& random) {
  return OneOf(random, {"", "a", "\\\"", "]}", "\\\\", "é\\u00e9", "{\\\"x\\\":[1,2]}"});
}
// One of ours, of one of two answers.
std::string SomeId(Random& random, const std::string& prefix) {
  return prefix + "_" + std::string(32, OneOf(random, {"a", "b"})[0]) + "_" + std::to_string(random() % 2);
}

std::string SomeChatMessage(Random& random) {
  const std::string text = SomeText(random);
  return OneOf(random,
               {R"({"role":"user","content":")" + text + R"("})", R"({"role":"system","content":")" + text + R"("})",
                R"( {"content":[{"type":"text","text":")" + text + R"("}] , "role":"user"})",
                R"({"role":"assistant","content":")" + text + R"(","reasoning_content":"hm"})",
                R"({"role":"assistant","content":null,"tool_calls":[{"id":")" +
                    OneOf(random, {"c1", "function_call[1]", "function_call[2]"}) +
                    R"(","type":"function","function":{"name":"f","arguments":")" +
                    OneOf(random, {"{}", "{\\\"a\\\":1}", ""}) + R"("}}]})",
                R"({"role":"assistant","function_call":{"name":"f","arguments":"{}"}})",
                R"({"role":"function","name":"f","content":"r"})",
                R"({"role":"tool","tool_call_id":"c1","content":")" + text + R"("})", R"({"role":"nobody"})"});
}

// Turns of one role follow each other, have any blocks, and none.
std::string SomeMessagesTurn(Random& random) {
  const std::string mark = OneOf(random, {"", R"(,"cache_control":{"type":"ephemeral"})"});
  const auto block = [&](bool assistant) {
    const std::string text = R"({"type":"text","text":")" + SomeText(random) + R"(")" + mark + "}";
    if (!assistant) {
      return OneOf(random,
                   {text, R"({"type":"tool_result","tool_use_id":"t","content":")" + SomeText(random) + R"("})"});
    }
    return OneOf(random, {text, R"({"type":"thinking","thinking":"hm","signature":")" + SomeId(random, "sig") + R"("})",
                          R"({"type":"tool_use","id":")" + SomeId(random, "toolu") + R"(","name":"f","input":{}})",
                          R"({"type":"redacted_thinking","data":"x"})"});
  };
  const std::string role = OneOf(random, {"user", "user", "assistant", "assistant", "system", "developer", "nobody"});
  std::string blocks;
  for (size_t count = random() % 3; count > 0; --count) {
    absl::StrAppend(&blocks, blocks.empty() ? "" : ",", block(role == "assistant"));
  }
  return OneOf(random, {R"({"role":")" + role + R"(","content":[)" + blocks + "]}",
                        R"( {"content":")" + SomeText(random) + R"(" , "role":")" + role + R"("})"});
}

// Items of the turns of two answers and of others, in any order.
std::string SomeResponsesItem(Random& random) {
  const std::string text = SomeText(random), call = OneOf(random, {SomeId(random, "call"), "c1"});
  return OneOf(
      random,
      {R"({"role":"user","content":")" + text + R"("})",
       R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":")" + text + R"("}]})",
       R"({"type":"message","id":")" + SomeId(random, "msg") + R"(","role":"assistant","content":")" + text + R"("})",
       R"({"type":"reasoning","id":")" + SomeId(random, "rs") +
           R"(","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]})",
       R"({"type":"function_call","call_id":")" + call + R"(","name":"f","arguments":"{}"})",
       R"({"type":"function_call_output","call_id":")" + call + R"(","output":")" + text + R"("})",
       R"({"type":"item_reference","id":")" + SomeId(random, OneOf(random, {"rs", "msg", "fc"})) + R"("})",
       R"({"type":"web_search_call","id":"ws"})", R"({"type":"item_reference","id":"another"})"});
}

std::string NameOf(std::string dialect) {
  std::replace(dialect.begin(), dialect.end(), '.', '_');
  return dialect;
}

struct GrowingBody {
  const char* dialect;
  std::string (*element)(Random&);
  std::vector<std::string> heads, tails;
};
void PrintTo(const GrowingBody& body, std::ostream* out) { *out << body.dialect; }
class KnownBodies : public testing::TestWithParam<GrowingBody> {};

// Bodies of random conversations, each made of the one before it: elements come, go and change, other fields do, bytes
// are broken. Whatever is not read whole reads as if it were, and says the same of how to go on.
TEST_P(KnownBodies, ReadAsTheyDoWhole) {
  const Dialect& dialect = *FindDialect(GetParam().dialect);
  Random random(7);
  const auto element = [&] { return GetParam().element(random); };
  std::vector<std::string> elements = {element()};
  std::string head = GetParam().heads.front(), tail = GetParam().tails.front();
  std::shared_ptr<const KnownRequest> known;
  int continued = 0, whole = 0;
  for (int i = 0; i < 20000; ++i) {
    switch (random() % 12) {
      case 0:
        elements.resize(1 + random() % elements.size());
        break;
      case 1:
        elements[random() % elements.size()] = element();
        break;
      case 2:
        head = OneOf(random, GetParam().heads);
        break;
      case 3:
        tail = OneOf(random, GetParam().tails);
        break;
      default:
        elements.push_back(element());
    }
    if (elements.size() > 30) elements.resize(1);
    std::string body = head;
    for (size_t e = 0; e < elements.size(); ++e) absl::StrAppend(&body, e == 0 ? "" : ",", elements[e]);
    body += tail;
    if (random() % 10 == 0)
      body.insert(random() % body.size(),
                  OneOf(random, {"]", "}", ",", "\"", "\\", "]}", "],\"messages\":[", "],\"\":["}));
    const auto parsed = dialect.Parse({.body = body, .headers = {}});
    if (known != nullptr) {
      const std::optional<GatewayRequest> read = Continued(*known, body, dialect);
      if (parsed.ok()) ++(read.has_value() ? continued : whole);
      if (read.has_value()) {
        ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << known->body << "\n" << body;
        ASSERT_EQ(Said(*read), Said(*parsed)) << known->body << "\n" << body;
        if (random() % 2 == 0) {  // as it would be kept
          const auto list = FindList(body, dialect.growing_list());
          known = std::make_shared<const KnownRequest>(
              KnownRequest{.body = body, .list = *list, .request = std::make_shared<const GatewayRequest>(*read)});
          continue;
        }
      }
    }
    if (auto next = Known(body, dialect)) known = std::move(next);
  }
  EXPECT_GT(continued, 1000);
  EXPECT_GT(whole, 200);
}

INSTANTIATE_TEST_SUITE_P(
    Of, KnownBodies,
    testing::Values(GrowingBody{"chat.completions",
                                SomeChatMessage,
                                {R"({"model":"m","messages":[)",
                                 R"({ "tools":[{"type":"function","function":{"name":"f"}}],"messages":[)"},
                                {R"(],"stream":true})", R"(] })", R"(],"max_tokens":5,"messages2":[1]})"}},
                    GrowingBody{"messages",
                                SomeMessagesTurn,
                                {R"({"model":"m","max_tokens":9,"messages":[)",
                                 R"({"system":[{"type":"text","text":"s"}],"messages":[)"},
                                {R"(],"stream":true})", R"(],"tools":[{"name":"f","input_schema":{}}]})"}},
                    GrowingBody{"responses",
                                SomeResponsesItem,
                                {R"({"model":"m","input":[)", R"({"instructions":"i","input":[)"},
                                {R"(],"stream":true})", R"(],"tools":[{"type":"function","name":"f"}]})"}}),
    [](const auto& info) { return NameOf(info.param.dialect); });

TEST(KnownRequests, ForgetsWhatWasNotAskedForTheLongest) {
  const auto of = [](size_t bytes) {
    return std::make_shared<const KnownRequest>(KnownRequest{.body = std::string(bytes, 'x'), .list = {0, {1}}});
  };
  KnownRequests known(10 * of(1000)->bytes());
  for (int i = 0; i < 10; ++i) std::ignore = known.Keep(std::to_string(i), of(1000));
  EXPECT_EQ(known.bytes(), 10 * of(1000)->bytes());
  EXPECT_NE(known.Find("0"), nullptr);  // asked for: 1 is the oldest now
  std::ignore = known.Keep("new", of(1000));
  EXPECT_EQ(known.Find("1"), nullptr);
  EXPECT_NE(known.Find("0"), nullptr);
  std::ignore = known.Keep("0", of(500));  // in the place of the one before
  EXPECT_LT(known.bytes(), 10 * of(1000)->bytes());
  std::ignore = known.Keep("0", of(100'000));
  EXPECT_EQ(known.Find("0"), nullptr) << "too large, and what it stood for is no longer the newest";
  EXPECT_NE(known.Find("new"), nullptr);
  auto ended = std::make_shared<KnownRequest>();
  ended->episode = "ended";
  ended->request = std::make_shared<const GatewayRequest>();
  const int64_t before = known.bytes();
  std::ignore = known.Keep("of it", ended);
  EXPECT_GT(known.bytes(), before);
  std::ignore = known.ForgetEpisode("another");
  EXPECT_NE(known.Find("of it"), nullptr);
  std::ignore = known.ForgetEpisode("ended");
  EXPECT_EQ(known.Find("of it"), nullptr);
  EXPECT_EQ(known.bytes(), before);
  for (int i = 0; i < 3; ++i) {
    auto more = std::make_shared<KnownRequest>(*ended);
    std::ignore = known.Keep(absl::StrCat("of it ", i), more);
  }
  EXPECT_EQ(known.ForgetEpisode("ended").size(), 3u) << "all of its callers'";
  EXPECT_EQ(known.bytes(), before);
  KnownRequests none(0);
  std::ignore = none.Keep("a", of(1));
  EXPECT_EQ(none.Find("a"), nullptr);
}

// How a client of a dialect keeps its history.
struct Talk {
  const char* dialect;
  const char* list;
  void (*keep)(const World::Outcome& answer, base::json::array& history);
};
void PrintTo(const Talk& talk, std::ostream* out) { *out << talk.dialect; }
class KnownTalks : public testing::TestWithParam<Talk> {};

// Two agents' dialogues, with edits, on a gateway that keeps requests and on one that does not: the engines are asked
// the same, and the forks are the same.
TEST_P(KnownTalks, ChangeNothingButTheTimeItTakes) {
  const auto run = [](int64_t max_bytes, int64_t* continued) {
    World world([](const auto&) {
      Script script;
      script.text = "I see.";
      return script;
    });
    world.options.max_known_request_bytes = max_bytes;
    const v1::EpisodeOpenResponse agents[] = {world.Open(), world.Open()};
    base::json::array histories[] = {{Msg("user", "one")}, {Msg("user", "two")}};
    std::mt19937 random(3);
    std::string asked;
    for (int turn = 0; turn < 90; ++turn) {
      const size_t agent = random() % 2;
      base::json::array& history = histories[agent];
      const base::json::object body{{"model", "m"}, {"max_tokens", 50}, {GetParam().list, history}};
      const auto outcome =
          world.Ask(GetParam().dialect, agents[agent].api_key(), base::PrintJson(base::json::value(body)));
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      GetParam().keep(outcome, history);
      history.push_back(Msg("user", absl::StrCat("more ", turn)));
      if (turn % 17 == 3) history[random() % history.size()] = Msg("user", "changed");
      if (turn % 31 == 25) history.resize(1);
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
  EXPECT_GT(continued, 60);
  EXPECT_EQ(without, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, KnownTalks,
                         testing::Values(Talk{"chat.completions", "messages",
                                              [](const World::Outcome& answer, base::json::array& history) {
                                                history.push_back(answer.message());
                                              }},
                                         Talk{"messages", "messages",
                                              [](const World::Outcome& answer, base::json::array& history) {
                                                history.push_back(
                                                    base::json::object{{"role", "assistant"},
                                                                       {"content", answer.events.at(0).at("content")}});
                                              }},
                                         Talk{"responses", "input",
                                              [](const World::Outcome& answer, base::json::array& history) {
                                                for (const base::json::value& item :
                                                     answer.events.at(0).at("output").as_array()) {
                                                  history.push_back(item);
                                                }
                                              }}),
                         [](const auto& info) { return NameOf(info.param.dialect); });

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
