// A history of 200,000 tokens: a turn stores and encodes its own tokens, not the whole history.
#include <gtest/gtest.h>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

TEST(LongHistory, TwoHundredThousandTokensAreEncodedStoredAndSentOnce) {
  constexpr int kTurns = 20, kTurnBytes = 10'000, kTokens = 200'000;
  World world([](const auto&) {
    Script script;
    script.text = "I read the next file.";
    return script;
  });
  world.engine->context_length = 2 * kTokens;
  const auto episode = world.Open();
  base::json::array messages{Msg("system", "You work on a program.")};
  for (int turn = 0; turn < kTurns; ++turn) {
    std::string text = absl::StrCat("File ", turn, "\n");
    while (text.size() < kTurnBytes) absl::StrAppend(&text, "line ", text.size(), " of \"it\"\n");
    messages.push_back(Msg("user", text));
    const auto outcome = world.Chat(episode.api_key(), Body(messages));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    messages.push_back(outcome.message());
  }
  const auto requests = world.engine->requests();
  const int64_t last = requests.back().prompt_ids_size();
  EXPECT_GT(last, kTokens);
  // Each prompt continues the prompt before it and the ids sampled for it.
  for (size_t i = 1; i < requests.size(); ++i) {
    const auto& before = requests[i - 1].prompt_ids();
    ASSERT_GT(requests[i].prompt_ids_size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), requests[i].prompt_ids().begin()));
  }
  EXPECT_EQ(world.gateway().Status().spliced_calls(), kTurns - 1);
  // Stored once: all segments together are the last path.
  int64_t stored = 0;
  std::set<std::string> keys;
  for (const v1::Call& call : world.pool.calls()) {
    for (const auto* named : {&call.context_keys(), &call.sampled_keys()}) keys.insert(named->begin(), named->end());
  }
  for (const std::string& key : keys) stored += world.pool.segment(key).token_ids_size();
  EXPECT_LT(stored, last + 100);
  // Each call records its new segments, however long its history is.
  const auto calls = world.pool.calls();
  EXPECT_LT(calls.back().ByteSizeLong(), calls[1].ByteSizeLong() + 20);
  const std::string metrics = world.gateway().MetricsText();
  const std::string name = "ingot_gateway_rendered_prompt_tokens_total ";
  const size_t at = metrics.find("\n" + name);
  ASSERT_NE(at, std::string::npos) << metrics;
  EXPECT_LT(std::stod(metrics.substr(at + 1 + name.size())), static_cast<double>(last));
}

}  // namespace
}  // namespace ingot::gateway
