// Calls in slices of 64 tokens on a real (small, random) transformer, each slice at the other one of two engines.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/rng.h"
#include "rollout/small_transformer.h"

namespace ingot::rollout::slices_identity_test {
namespace {

v1::GenerateRequest LongAsk(uint64_t seed) {
  v1::GenerateRequest ask;
  for (uint64_t i = 0; i < 20; ++i) ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(seed, i) % kIds));
  ask.set_pinned_version(-1);
  ask.mutable_sampling()->set_temperature(0.7f);
  ask.mutable_sampling()->set_seed(seed);
  ask.mutable_sampling()->set_max_new_tokens(200);
  return ask;
}

// Samples the call slice by slice. `between` runs at each pause.
Outcome InSlices(std::span<Engine* const> engines, v1::GenerateRequest ask, const std::function<void()>& between) {
  ask.set_may_pause(true);
  Outcome whole;
  for (size_t slice = 0; slice < 10; ++slice) {
    const Outcome part = Outcomes(*engines[slice % engines.size()], std::span(&ask, 1))[0];
    ask.mutable_prompt_ids()->Add(part.ids.begin(), part.ids.end());
    ask.mutable_first_logprobs()->Add(part.logprobs.begin(), part.logprobs.end());
    ask.set_first_index(ask.first_index() + std::ssize(part.ids));
    whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
    whole.logprobs.insert(whole.logprobs.end(), part.logprobs.begin(), part.logprobs.end());
    whole.versions.insert(whole.versions.end(), part.versions.begin(), part.versions.end());
    whole.tops += part.tops;
    whole.stop = part.stop;
    whole.finish = part.finish;
    if (!part.status.ok() || part.finish != v1::FINISH_PAUSED) return whole;
    EXPECT_EQ(part.ids.size(), 64u);
    between();
  }
  return whole;
}

TEST(SliceIdentityTest, UnderOneVersionSlicesChangeNoBit) {
  EngineOptions options;
  options.max_tokens_per_turn_slice = 64;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto whole = EngineOf(options, dtype, {}), first = EngineOf(options, dtype, {}),
               second = EngineOf(options, dtype, {});
    Engine* const engines[] = {first.get(), second.get()};
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const v1::GenerateRequest ask = LongAsk(seed);
      const Outcome expected = Outcomes(*whole, std::span(&ask, 1))[0];
      ASSERT_EQ(expected.ids.size(), 200u);
      int pauses = 0;
      ASSERT_TRUE(InSlices(engines, ask, [&] { ++pauses; }) == expected) << seed;
      EXPECT_EQ(pauses, 3);
    }
  }
}

TEST(SliceIdentityTest, OverVersionsEachTokenHasTheLogprobOfItsVersion) {
  EngineOptions options;
  options.max_tokens_per_turn_slice = 64;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto first = EngineOf(options, dtype, {}), second = EngineOf(options, dtype, {}),
               scorer = EngineOf(options, dtype, {});
    Engine* const engines[] = {first.get(), second.get()};
    int64_t version = 3;
    const auto update = [&](Engine& engine, int64_t to) {
      ASSERT_TRUE(engine.Update(*weights::Encode(engine.newest().get(), *RandomWeights(to, dtype), false)).ok());
    };
    v1::GenerateRequest ask = LongAsk(7);
    const Outcome seen = InSlices(engines, ask, [&] {
      ++version;
      for (Engine* engine : engines) update(*engine, version);
    });
    ASSERT_EQ(seen.ids.size(), 200u);
    ask.mutable_prompt_ids()->Add(seen.ids.begin(), seen.ids.end());
    ask.set_score_ids(200);
    for (version = 3; version <= 6; ++version) {
      if (version > 3) update(*scorer, version);
      ask.set_pinned_version(version);
      const Outcome scored = Outcomes(*scorer, std::span(&ask, 1))[0];
      ASSERT_EQ(scored.logprobs.size(), 200u) << scored.status;
      for (size_t i = 0; i < 200; ++i) {
        if (static_cast<int64_t>(3 + i / 64) != version) continue;
        ASSERT_EQ(seen.versions[i], std::pair(version, false)) << i;
        ASSERT_EQ(seen.logprobs[i], scored.logprobs[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace ingot::rollout::slices_identity_test
