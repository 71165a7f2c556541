// Dialogues that grow turn by turn: a gateway prompts the same text whether it saw the earlier turns, was started again
// between them, or sees the dialogue for the first time.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// Answers with text, with a thought, or with a tool call, as the prompt decides.
Script Author(const v1::GenerateRequest& request) {
  constexpr const char* kAnswers[] = {
      "I see.",
      "<think>\nLet me see.\n</think>\n\nSo it is.",
      "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>",
      "<think>\nA sum?\n</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 2}}\n</tool_call>",
  };
  Script script;
  script.text = kAnswers[request.prompt_ids_size() % std::size(kAnswers)];
  return script;
}

// How a client of a dialect asks, and keeps its history.
struct Client {
  const char* dialect;
  object (*body)(const array& history);
  // Appends the answer, and results of its calls. Returns whether there were calls.
  bool (*keep)(const value& answer, array& history);
};
void PrintTo(const Client& client, std::ostream* out) { *out << client.dialect; }

object ChatBody(const array& history) {
  object body = Body(history);
  body["tools"] = CalculatorTools();
  return body;
}

bool KeepChat(const value& answer, array& history) {
  const value& message = answer.at("choices").at(0).at("message");
  history.push_back(message);
  const value* calls = base::Find(message, "tool_calls");
  if (calls == nullptr || calls->is_null()) return false;
  for (const value& call : calls->as_array()) {
    object result = Msg("tool", "3");
    result["tool_call_id"] = call.at("id");
    history.push_back(result);
  }
  return true;
}

object MessagesBody(const array& history) {
  const object function = CalculatorTools()[0].at("function").as_object();
  object body = Body(history);
  body["max_tokens"] = 100;
  body["thinking"] = object{{"type", "enabled"}, {"budget_tokens", 50}};
  body["tools"] = array{object{{"name", "add"}, {"input_schema", function.at("parameters")}}};
  return body;
}

bool KeepMessages(const value& answer, array& history) {
  history.push_back(object{{"role", "assistant"}, {"content", answer.at("content")}});
  array results;
  for (const value& block : answer.at("content").as_array()) {
    if (block.at("type") != "tool_use") continue;
    results.push_back(object{{"type", "tool_result"}, {"tool_use_id", block.at("id")}, {"content", "3"}});
  }
  if (results.empty()) return false;
  history.push_back(object{{"role", "user"}, {"content", results}});
  return true;
}

object ResponsesBody(const array& history) {
  object tool = CalculatorTools()[0].at("function").as_object();
  tool["type"] = "function";
  return object{{"model", "m"}, {"input", history}, {"tools", array{tool}}};
}

bool KeepResponses(const value& answer, array& history) {
  array results;
  for (const value& item : answer.at("output").as_array()) {
    history.push_back(item);
    if (item.at("type") != "function_call") continue;
    results.push_back(object{{"type", "function_call_output"}, {"call_id", item.at("call_id")}, {"output", "3"}});
  }
  for (const value& result : results) history.push_back(result);
  return !results.empty();
}

// As in the history of a client that drops thoughts, ids and signatures.
object GoogleBody(const array& history) {
  array contents;
  for (const value& item : history) {
    if (item.as_object().contains("parts")) {
      contents.push_back(item);
    } else {
      contents.push_back(object{{"role", "user"}, {"parts", array{object{{"text", item.at("content")}}}}});
    }
  }
  object tool = CalculatorTools()[0].at("function").as_object();
  return object{{"model", "m"},
                {"contents", std::move(contents)},
                {"tools", array{object{{"functionDeclarations", array{std::move(tool)}}}}},
                {"generationConfig", object{{"thinkingConfig", object{{"includeThoughts", true}}}}}};
}

bool KeepGoogle(const value& answer, array& history) {
  array kept, results;
  for (const value& part : answer.at("candidates").at(0).at("content").at("parts").as_array()) {
    if (part.as_object().contains("thought")) continue;
    const value* call = base::Find(part, "functionCall");
    if (call == nullptr) {
      kept.push_back(part);
      continue;
    }
    kept.push_back(object{{"functionCall", object{{"name", call->at("name")}, {"args", call->at("args")}}}});
    results.push_back(
        object{{"functionResponse", object{{"name", call->at("name")}, {"response", object{{"output", "3"}}}}}});
  }
  history.push_back(object{{"role", "model"}, {"parts", kept}});
  if (results.empty()) return false;
  history.push_back(object{{"role", "user"}, {"parts", results}});
  return true;
}

class GrowingDialogues : public testing::TestWithParam<Client> {};

TEST_P(GrowingDialogues, GetTheSamePromptsFromKnowingAndFreshGateways) {
  World world(Author);
  const Client& client = GetParam();
  std::mt19937 random(5);
  int64_t spliced = 0;  // by gateways that were stopped since
  for (int dialogue = 0; dialogue < 12; ++dialogue) {
    const auto episode = world.Open();
    array history = {Msg("user", absl::StrCat("question ", dialogue))};
    for (int turn = 0; turn < 10; ++turn) {
      if (random() % 8 == 0) {
        spliced += world.gateway().Status().spliced_calls();
        ASSERT_TRUE(world.Restart().ok());
      }
      const std::string body = base::PrintJson(client.body(history));
      const auto prompt = [&](const v1::EpisodeOpenResponse& asked, World::Outcome& outcome) {
        outcome = world.Ask(client.dialect, asked.api_key(), body);
        EXPECT_TRUE(outcome.status.ok()) << outcome.status << "\n" << body;
        const v1::GenerateRequest request = world.engine->requests().back();
        return TestTokenizer()->Decode(std::vector<int32_t>(request.prompt_ids().begin(), request.prompt_ids().end()),
                                       false);
      };
      World::Outcome answer, ignored;
      const std::string known = prompt(episode, answer), fresh = prompt(world.Open(), ignored);
      ASSERT_EQ(known, fresh) << body;
      const bool called = client.keep(answer.events.at(0), history);
      if (!called || random() % 2 == 0) {
        history.push_back(Msg("user", absl::StrCat("more ", turn, std::string(random() % 40, '.'))));
      }
      if (random() % 12 == 0) history[0] = Msg("user", absl::StrCat("another question ", turn));
    }
  }
  spliced += world.gateway().Status().spliced_calls();
  EXPECT_GT(spliced, 30) << "the calls before were hardly continued";
}

INSTANTIATE_TEST_SUITE_P(Of, GrowingDialogues,
                         testing::Values(Client{"chat.completions", ChatBody, KeepChat},
                                         Client{"messages", MessagesBody, KeepMessages},
                                         Client{"responses", ResponsesBody, KeepResponses},
                                         Client{"google.generateContent", GoogleBody, KeepGoogle}),
                         [](const auto& info) {
                           std::string name = info.param.dialect;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace ingot::gateway
