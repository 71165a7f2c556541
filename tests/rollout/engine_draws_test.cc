// A runner that draws ids itself, as one on a device: an engine's results are those of one that draws from the rows.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "rollout/rig.h"
#include "rollout/speculation/given_drafter.h"

namespace ingot::rollout::engine_draws_test {
namespace {

constexpr uint64_t kRequests = 60;

// About half of the requests need nothing but draws. The others need rows, in the same passes.
v1::GenerateRequest RandomAsk(uint64_t seed) {
  uint64_t next = 0;
  const auto draw = [&](uint64_t below) { return base::DeriveSeed(seed, next++) % below; };
  std::vector<int32_t> prompt;
  for (uint64_t i = 0, count = 1 + draw(20); i < count; ++i) prompt.push_back(static_cast<int32_t>(draw(kVocab)));
  v1::GenerateRequest ask = Ask(prompt, static_cast<int32_t>(1 + draw(30)), seed);
  v1::SamplingParams& sampling = *ask.mutable_sampling();
  if (draw(6) == 0) sampling.set_temperature(static_cast<float>(draw(3)) * 0.7f);
  if (draw(10) == 0) sampling.set_top_k(5);
  if (draw(6) == 0) sampling.set_top_p(draw(2) == 0 ? 1.0f : 0.8f);
  if (draw(10) == 0) sampling.set_min_p(0.1f);
  if (draw(10) == 0) sampling.set_presence_penalty(0.5f);
  if (draw(10) == 0) sampling.set_repetition_penalty(1.3f);
  if (draw(10) == 0) ask.set_top_logprobs(3);
  if (draw(10) == 0) ask.add_forced_ids(static_cast<int32_t>(draw(kVocab)));
  if (draw(4) == 0) ask.set_record_routes(true);
  return ask;
}

struct Results {
  std::vector<std::unique_ptr<Collect>> all;
  int64_t drawn = 0, returned = 0;  // rows that the runner drew from, and that it returned
};

Results Answers(bool draws_itself, const std::vector<v1::GenerateRequest>& asks) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<GivenDrafter>());
  Rig rig(Options(), FakeSnapshot(1, 1001), {}, base::Clock::Real(), std::move(drafters));
  Results results;
  rig.runner->draws_itself = draws_itself;
  rig.runner->before_forward = [&](const ForwardBatch& batch) {
    for (const RowRace& race : batch.races) ++(draws_itself && race.whole ? results.drawn : results.returned);
  };
  std::vector<std::unique_ptr<Client::Request>> running;
  for (const v1::GenerateRequest& ask : asks) {
    results.all.push_back(std::make_unique<Collect>());
    running.push_back(rig.engine->Generate(ask, results.all.back()->OnChunk()));
  }
  for (const auto& one : results.all) EXPECT_EQ(one->Wait(), absl::OkStatus());
  return results;
}

TEST(EngineDrawsTest, ARunnerThatDrawsGivesTheSameResults) {
  std::vector<v1::GenerateRequest> asks;
  for (uint64_t i = 0; i < kRequests; ++i) asks.push_back(RandomAsk(1000 + i));
  const Results rows = Answers(false, asks);
  for (size_t i = 0; i < kRequests; i += 2) {  // drafts, of which some are right
    const std::vector<int32_t>& ids = rows.all[i]->ids;
    for (size_t n = 0; n < ids.size(); ++n) asks[i].add_draft_ids(n < i % 16 ? ids[n] : 0);
  }
  const Results drawn = Answers(true, asks);
  EXPECT_EQ(rows.drawn, 0);
  EXPECT_GT(drawn.drawn, drawn.returned / 4);
  EXPECT_GT(drawn.returned, 0);
  for (size_t i = 0; i < kRequests; ++i) {
    const Collect &a = *drawn.all[i], &b = *rows.all[i];
    EXPECT_EQ(a.ids, b.ids) << i;
    EXPECT_EQ(a.logprobs, b.logprobs) << i;
    EXPECT_EQ(a.routes, b.routes) << i;
    EXPECT_EQ(a.alternative_ids, b.alternative_ids) << i;
    EXPECT_EQ(a.last.finish(), b.last.finish()) << i;
    ASSERT_EQ(a.top.size(), b.top.size()) << i;
    for (size_t n = 0; n < a.top.size(); ++n) EXPECT_EQ(a.top[n].SerializeAsString(), b.top[n].SerializeAsString());
  }
}

TEST(EngineDrawsTest, ADrawFromRowsThatAreNaNIsAnError) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  rig.runner->draws_itself = rig.runner->poisoned = true;
  Collect result;
  const auto request = rig.engine->Generate(Ask({1, 2}, 4), result.OnChunk());
  EXPECT_NE(std::string(result.Wait().message()).find("NaN log-probs"), std::string::npos);
}

}  // namespace
}  // namespace ingot::rollout::engine_draws_test
