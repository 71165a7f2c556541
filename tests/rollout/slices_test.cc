// Calls in slices: every slice is a request of its own, at another engine, and the call is as if it had not stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>

#include "rollout/rig.h"
#include "rollout/seen.h"

namespace ingot::rollout::slices_test {
namespace {

using testing::HasSubstr;

EngineOptions Slices(int32_t tokens) {
  EngineOptions options = Options();
  options.max_tokens_per_turn_slice = tokens;
  return options;
}

// Asks for the rest of a call that was paused, as the gateway does.
v1::GenerateRequest RestOf(const v1::GenerateRequest& ask, const Seen& seen) {
  v1::GenerateRequest rest = ask;
  rest.mutable_prompt_ids()->Add(seen.ids.begin(), seen.ids.end());
  rest.set_first_index(static_cast<int64_t>(seen.ids.size()));
  rest.mutable_first_logprobs()->Add(seen.logprobs.begin(), seen.logprobs.end());
  rest.set_paused_version(seen.versions.back().first);
  return rest;
}

// A call in slices, each at another one of `engines`. `between` runs after each pause with the call so far.
struct Sliced {
  Seen whole;
  std::vector<size_t> slices;  // ids
};
Sliced CallInSlices(std::span<Engine* const> engines, v1::GenerateRequest ask,
                    const std::function<void(const Seen&)>& between = nullptr) {
  ask.set_may_pause(true);
  Sliced sliced;
  Seen& whole = sliced.whole;
  for (size_t slice = 0; sliced.slices.size() < 1000; ++slice) {
    const Seen seen = Call(*engines[slice % engines.size()], slice == 0 ? ask : RestOf(ask, whole));
    sliced.slices.push_back(seen.ids.size());
    whole.status = seen.status;
    whole.ids.insert(whole.ids.end(), seen.ids.begin(), seen.ids.end());
    whole.logprobs.insert(whole.logprobs.end(), seen.logprobs.begin(), seen.logprobs.end());
    whole.versions.insert(whole.versions.end(), seen.versions.begin(), seen.versions.end());
    whole.tops += seen.tops;
    whole.routes += seen.routes;
    whole.stop_string = seen.stop_string;
    whole.finish = seen.finish;
    whole.acted = seen.acted;
    if (seen.finish != v1::FINISH_PAUSED) return sliced;
    if (between) between(whole);
  }
  ADD_FAILURE() << "the call does not end";
  return sliced;
}

TEST(SliceTest, EveryKindOfCallIsTheSameInSlices) {
  int paused = 0;
  for (const int32_t tokens : {1, 3, 7}) {
    Rig whole(Options(), FakeSnapshot(1, 1001), {2}), first(Slices(tokens), FakeSnapshot(1, 1001), {2}),
        second(Slices(tokens), FakeSnapshot(1, 1001), {2});
    for (Rig* rig : {&whole, &first, &second}) {
      ASSERT_TRUE(rig->Update(2, /*retain=*/true).ok());
      ASSERT_TRUE(rig->Update(3).ok());
    }
    Engine* const engines[] = {first.engine.get(), second.engine.get()};
    for (uint64_t seed = 0; seed < 80; ++seed) {
      const v1::GenerateRequest ask = RandomAsk(seed);
      const Seen expected = Call(*whole.engine, ask);
      Sliced sliced = CallInSlices(engines, ask);
      sliced.whole.acted = expected.acted;  // a continued call with a grammar always counts
      ASSERT_TRUE(sliced.whole == expected) << "seed " << seed << ", slices of " << tokens;
      for (size_t i = 0; i + 1 < sliced.slices.size(); ++i) ASSERT_EQ(sliced.slices[i], static_cast<size_t>(tokens));
      ASSERT_LE(sliced.slices.back(), static_cast<size_t>(tokens));
      paused += static_cast<int>(sliced.slices.size()) - 1;
    }
    EXPECT_EQ(first.engine->Status()->kv_blocks_used() + second.engine->Status()->kv_blocks_used(), 0);
    EXPECT_GT(first.engine->Status()->paused_requests(), 0);
  }
  EXPECT_GT(paused, 500);
}

// Each slice under another version: its log-probs are those of its version over the whole path, and nothing is mixed.
TEST(SliceTest, EachSliceHasTheLogprobsOfItsVersion) {
  Rig first(Slices(5), FakeSnapshot(1, 1001)), second(Slices(5), FakeSnapshot(1, 1001));
  Engine* const engines[] = {first.engine.get(), second.engine.get()};
  int64_t version = 1;
  const v1::GenerateRequest ask = Ask({1, 2, 3}, 23);
  const Sliced sliced = CallInSlices(engines, ask, [&](const Seen&) {
    ++version;
    for (Rig* rig : {&first, &second}) ASSERT_TRUE(rig->Update(version).ok());
  });
  ASSERT_EQ(sliced.slices, (std::vector<size_t>{5, 5, 5, 5, 3}));
  std::vector<int32_t> path = {1, 2, 3};
  path.insert(path.end(), sliced.whole.ids.begin(), sliced.whole.ids.end());
  for (int64_t v = 1; v <= 5; ++v) {
    Rig alone(Options(), FakeSnapshot(v, static_cast<uint64_t>(1000 + v)));
    v1::GenerateRequest score = Ask(path, 1, 1, /*pinned=*/v);
    score.set_score_ids(23);
    const Seen scored = Call(*alone.engine, score);
    ASSERT_EQ(scored.logprobs.size(), 23u);
    for (size_t i = 0; i < 23; ++i) {
      if (static_cast<int64_t>(i / 5) + 1 != v) continue;
      EXPECT_EQ(sliced.whole.versions[i], std::pair(v, false)) << i;
      EXPECT_EQ(sliced.whole.logprobs[i], scored.logprobs[i]) << i;
    }
  }
}

TEST(SliceTest, OnlyACallThatMayPauseDoes) {
  Rig rig(Slices(2), FakeSnapshot(1, 1001));
  const Seen seen = Call(*rig.engine, Ask({1, 2, 3}, 20));
  EXPECT_EQ(seen.finish, v1::FINISH_LENGTH);
  EXPECT_EQ(seen.ids.size(), 20u);
  EXPECT_EQ(rig.engine->Status()->paused_requests(), 0);
}

TEST(SliceTest, ACallThatEndsWithItsSliceIsNotPaused) {
  Rig rig(Slices(4), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 4);
  ask.set_may_pause(true);
  EXPECT_EQ(Call(*rig.engine, ask).finish, v1::FINISH_LENGTH);
}

TEST(SliceTest, NoDraftIsVerifiedAfterTheSlice) {
  EngineOptions options = Slices(8);
  options.speculation.min_gain = -1;
  Rig rig(options, FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 60);
  const Seen whole = Call(*rig.engine, ask);
  ask.mutable_draft_ids()->Add(whole.ids.begin(), whole.ids.end());
  ask.set_may_pause(true);
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  ASSERT_TRUE(result.Wait().ok());
  EXPECT_EQ(result.ids, std::vector<int32_t>(whole.ids.begin(), whole.ids.begin() + 8));
  EXPECT_EQ(result.last.finish(), v1::FINISH_PAUSED);
  EXPECT_EQ(result.last.drafted_tokens(), 7);
  EXPECT_EQ(result.last.accepted_tokens(), 7);
}

// ---- The halt on repetition

TEST(SliceTest, CertainTokensCountAcrossSlices) {
  EngineOptions options = Slices(7);
  options.halt.repetition = "on";
  options.halt.certain_tokens = 20;
  options.halt.periods = 1000;
  Rig first(options, FakeSnapshot(1, 1001)), second(options, FakeSnapshot(1, 1001));
  for (Rig* rig : {&first, &second}) {
    rig->runner->edit = [](std::vector<float>& row) {
      std::fill(row.begin(), row.end(), -50.0f);
      row[7] = -1e-6f;
    };
  }
  Engine* const engines[] = {first.engine.get(), second.engine.get()};
  const Sliced sliced = CallInSlices(engines, Ask({1, 2, 3}, 60));
  EXPECT_EQ(sliced.whole.finish, v1::FINISH_REPETITION);
  EXPECT_EQ(sliced.slices, (std::vector<size_t>{7, 7, 6}));
}

TEST(SliceTest, APeriodCountsAcrossSlices) {
  EngineOptions options = Slices(5);
  options.halt.repetition = "on";
  Rig rig(options, FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 60);
  (*ask.mutable_sampling()->mutable_logit_bias())[7] = 100;  // it samples nothing else
  Engine* const engines[] = {rig.engine.get()};
  const Sliced sliced = CallInSlices(engines, ask);
  EXPECT_EQ(sliced.whole.finish, v1::FINISH_REPETITION);
  EXPECT_EQ(sliced.slices, (std::vector<size_t>{5, 5, 5, 1}));
}

// ---- Bad input

std::string Refusal(const std::function<void(v1::GenerateRequest&)>& change) {
  Rig rig(Slices(4), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3, 4}, 9);
  ask.set_first_index(2);
  change(ask);
  const absl::Status status = Call(*rig.engine, ask).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(SliceTest, TheLogprobsOfEarlierIdsAreOnePerIdAndFinite) {
  EXPECT_THAT(Refusal([](auto& ask) { ask.add_first_logprobs(-1); }), HasSubstr("first_logprobs has 1 entries"));
  EXPECT_THAT(Refusal([](auto& ask) {
                ask.set_first_index(0);
                ask.add_first_logprobs(-1);
              }),
              HasSubstr("one for each of the 0 ids"));
  for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity(), 0.5f}) {
    EXPECT_THAT(Refusal([&](auto& ask) {
                  ask.add_first_logprobs(-1);
                  ask.add_first_logprobs(bad);
                }),
                HasSubstr("a log-prob is finite and at most 0"));
  }
}

TEST(SliceTest, ThePausedVersionBelongsToASampledId) {
  EXPECT_THAT(Refusal([](auto& ask) { ask.set_paused_version(-1); }), HasSubstr("paused_version is -1"));
  EXPECT_THAT(Refusal([](auto& ask) {
                ask.set_first_index(0);
                ask.set_paused_version(1);
              }),
              HasSubstr("first_index is 0"));
  EXPECT_THAT(Refusal([](auto& ask) {
                ask.set_first_index(0);
                ask.set_pinned_version(1);
                ask.set_score_ids(1);
                ask.set_may_pause(true);
              }),
              HasSubstr("score_ids excludes"));
}

TEST(SliceTest, OptionsOutOfTheirBoundsAreErrors) {
  const auto fault = [](const std::function<void(EngineOptions&)>& change) {
    EngineOptions options;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(fault([](auto& o) { o.max_tokens_per_turn_slice = -1; }), HasSubstr("max_tokens_per_turn_slice"));
  for (const double bad : {-1.0, 86401.0, std::nan("")}) {
    EXPECT_THAT(fault([&](auto& o) { o.slice_seconds = bad; }), HasSubstr("slice_seconds"));
    EXPECT_THAT(fault([&](auto& o) { o.slice_wait_seconds = bad; }), HasSubstr("slice_wait_seconds"));
  }
  EXPECT_THAT(fault([](auto& o) { o.slice_wait_seconds = 5; }), HasSubstr("no call is ever paused"));
  EXPECT_EQ(fault([](auto& o) { o.slice_wait_seconds = o.slice_seconds = 5; }), "");
}

// ---- Threads

// The rest waits in an engine without other work, and the swap wakes it.
TEST(SliceTest, TheRestWaitsForTheNextVersion) {
  EngineOptions options = Slices(4);
  options.slice_wait_seconds = 86400;
  Rig rig(options, FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 8);
  ask.set_may_pause(true);
  const Seen slice = Call(*rig.engine, ask);
  ASSERT_EQ(slice.finish, v1::FINISH_PAUSED);
  Collect result;
  auto request = rig.engine->Generate(RestOf(ask, slice), result.OnChunk());
  EXPECT_EQ(Call(*rig.engine, Ask({4, 5}, 20)).ids.size(), 20u) << "others run in the meantime";
  EXPECT_EQ(rig.engine->Status()->waiting(), 1);
  ASSERT_TRUE(rig.Update(2).ok());
  const Seen rest = SeenOf(result);
  ASSERT_EQ(rest.ids.size(), 4u);
  for (const auto& version : rest.versions) EXPECT_EQ(version, std::pair(int64_t{2}, false));
  EXPECT_EQ(rest.finish, v1::FINISH_LENGTH);
}

TEST(SliceTest, TheRestIsAcceptedByAFullEngineUpToTwiceItsLimit) {
  EngineOptions options = Slices(4);
  options.max_running = 1;
  options.max_waiting = 1;
  Rig rig(options, FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 8);
  ask.set_may_pause(true);
  const Seen slice = Call(*rig.engine, ask);
  ASSERT_EQ(slice.finish, v1::FINISH_PAUSED);
  rig.gate.Close();
  std::deque<Collect> results(6);
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (size_t i = 0; i < 6; ++i) {
    const bool is_rest = i >= 3;
    v1::GenerateRequest request = is_rest ? RestOf(ask, slice) : Ask({4, 5}, 3);
    if (i == 4) request.clear_paused_version();  // the rest of a call whose engine was lost
    requests.push_back(rig.engine->Generate(request, results[i].OnChunk()));
  }
  rig.gate.Open();
  const absl::StatusCode ok = absl::StatusCode::kOk, full = absl::StatusCode::kResourceExhausted;
  const absl::StatusCode expected[] = {ok, ok, full, ok, ok, full};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(SeenOf(results[i]).status.code(), expected[i]) << i;
}

}  // namespace
}  // namespace ingot::rollout::slices_test
