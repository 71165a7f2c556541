// Dialogues that grow turn by turn: a gateway prompts the same text whether it saw the earlier turns, was started again
// between them, or sees the dialogue for the first time.
#include <gtest/gtest.h>

#include <random>

#include "gateway/clients.h"

namespace ingot::gateway::growing_dialogues_test {
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
      const bool called = client.keep(answer, history);
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
                         testing::Values(kChatClient, kMessagesClient, kResponsesClient, kGoogleClient),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace ingot::gateway::growing_dialogues_test
