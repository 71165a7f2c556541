// Servers that report success and sample from other weights than they were given.
#include "engines/verification/weight_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engines/external_rig.h"

namespace ingot::engines::weight_verifier_test {
namespace {

using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

class WeightVerification : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, WeightVerification, kEachServer, KindName);

// What the fake server keeps of its earlier weights, each with status 200 and the new label.
const char* const kFaults[] = {"all", "head", "tensor", "half", "cast", "adapter"};

TEST_P(WeightVerification, FindsSixFaultsBeforeATokenIsRecorded) {
  for (const char* fault : kFaults) {
    Served served;
    served.server.Fault("slow_ms", 5);
    Collect running;
    const auto request = served.rig.engine->Generate(Ask(100), running.OnChunk());
    running.WaitForTokens(2);
    served.server.Fault("keep", fault);
    served.server.Fault("keep_loads", 2);
    // The running request ends before the verification does.
    if (fault == kFaults[0]) served.server.Fault("score_ms", 200);
    Collect waiting;
    const auto updated = served.rig.Share(2, 102);
    const auto next = served.rig.engine->Generate(Ask(5), waiting.OnChunk());
    EXPECT_TRUE(absl::IsUnavailable(updated.status())) << fault << updated.status();
    EXPECT_THAT(std::string(updated.status().message()), HasSubstr("verify_bound"));
    EXPECT_TRUE(absl::IsUnavailable(running.Wait())) << fault;
    EXPECT_EQ(running.last.finish(), v1::FINISH_UNSPECIFIED);
    // The version before is loaded again, and no answer has a token of the refused one.
    if (waiting.Wait().ok()) CheckAnswer(waiting, 3, SeedOf);
    ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; })) << fault;
    EXPECT_EQ(served.rig.engine->Status()->servers(0).refused(), 2) << fault;
    EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus()) << fault;
  }
}

// The fake server's cache ignores salts, so it still has the prompts of the version before.
TEST_P(WeightVerification, FindsPrefixCachesOfEarlierWeights) {
  Served served;
  served.server.Fault("prefix", true);
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(3, 103).status()));
}

TEST_P(WeightVerification, AsksWithTheSaltOfTheRequests) {
  for (const bool salt : {true, false}) {
    Served served({.swap = SwapMode::kRecompute, .salt = salt});
    served.server.Fault("prefix", "salted");
    EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
    EXPECT_EQ(served.rig.Share(3, 103).ok(), salt);
  }
}

TEST_P(WeightVerification, KeepsAnswersUntilTheWeightsAreVerified) {
  Served served;
  served.server.Fault("slow_ms", 5);
  Collect running;
  const auto request = served.rig.engine->Generate(Ask(100), running.OnChunk());
  running.WaitForTokens(2);
  served.server.Fault("score_ms", 200);
  ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  ASSERT_EQ(running.Wait(), absl::OkStatus());
  CheckAnswer(running, 3, SeedOf);
  EXPECT_EQ(running.last.answer_versions_size(), 2);
  EXPECT_LT(served.rig.engine->Status()->servers(0).verify_diff_mean(), 1e-6);
}

TEST_P(WeightVerification, GivesUpAServerWhoseWeightsStayWrong) {
  Served served;
  served.server.Fault("keep", "adapter");
  served.server.Fault("keep_loads", 1000000);
  EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(2, 102).status()));
  ASSERT_TRUE(Await([&] { return !served.rig.engine->fault().ok(); }));
  EXPECT_THAT(std::string(served.rig.engine->fault().message()),
              ::testing::AllOf(HasSubstr("3 times without success"), HasSubstr("does not sample from version")));
}

TEST_P(WeightVerification, TriesOtherWeightsBeforeTheFirstVersion) {
  for (const char* fault : {"head", "tensor", "cast"}) {
    FakeServer server;
    server.Fault("keep", fault);
    server.Fault("keep_loads", 1);
    Rig rig({}, Options(), server.url());
    EXPECT_FALSE(rig.Share(1, 101).ok());
    EXPECT_THAT(std::string(rig.engine->fault().message()), HasSubstr("trial load")) << fault;
  }
}

// Such as a server with fused or quantized weights, whose loader does not know Ingot's tensors.
TEST_P(WeightVerification, ALoaderThatRejectsTheTensorsIsNamedWithItsReason) {
  constexpr char kReason[] = "KeyError: 'model.layers.0.mlp.experts.w13_blocks'";
  FakeServer server;
  server.Fault("names", kReason);
  Rig rig({.start_s = 1}, Options(), server.url());
  Collect answer;
  const auto request = rig.engine->Generate(Ask(5), answer.OnChunk());
  const absl::Status shared = rig.Share(1, 101).status();
  EXPECT_TRUE(absl::IsUnavailable(shared)) << shared;
  EXPECT_THAT(std::string(shared.message()), ::testing::AllOf(HasSubstr(server.url()), HasSubstr("w13_blocks")));
  EXPECT_FALSE(answer.Wait().ok());
  EXPECT_TRUE(Await([&] {
    (void)rig.Share(1, 101);  // as the publisher does
    return !rig.engine->fault().ok();
  }));
  EXPECT_THAT(std::string(rig.engine->fault().message()),
              ::testing::AllOf(HasSubstr("without success"), HasSubstr("w13_blocks")));
  EXPECT_TRUE(answer.ids.empty());
}

TEST_P(WeightVerification, ALoaderThatRejectsALaterVersionRecordsNothingOfIt) {
  Served served;
  served.server.Fault("slow_ms", 2);
  Collect running, next;
  const auto request = served.rig.engine->Generate(Ask(190), running.OnChunk());
  running.WaitForTokens(2);
  served.server.Fault("names", "ValueError: There is no module or parameter named 'lm_head.weight_packed'");
  const absl::Status shared = served.rig.Share(2, 102).status();
  EXPECT_THAT(std::string(shared.message()), ::testing::AllOf(HasSubstr("version 2"), HasSubstr("weight_packed")));
  EXPECT_TRUE(absl::IsUnavailable(running.Wait()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), -1);
  served.server.Fault("names", false);
  ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; }));
  const auto again = served.rig.engine->Generate(Ask(5), next.OnChunk());
  ASSERT_EQ(next.Wait(), absl::OkStatus());
  CheckAnswer(next, 3, SeedOf);
}

TEST_P(WeightVerification, AQuantizedServerIsRefusedUnlessItsBoundAllowsIt) {
  for (const double bound : {0.0, 0.05}) {
    FakeServer server;
    server.Post("/fake/faults", base::json::object{{"keep", "quantized"}, {"keep_loads", 1000000}});
    Rig rig({.verify_bound = bound}, Options(), server.url());
    EXPECT_EQ(rig.Share(1, 101).ok(), bound > 0);
    if (bound == 0) {
      EXPECT_THAT(std::string(rig.engine->fault().message()), HasSubstr("without quantization"));
      continue;
    }
    EXPECT_NEAR(rig.engine->Status()->servers(0).verify_diff_mean(), 0.03, 0.003);
    EXPECT_EQ(rig.Share(2, 102).status(), absl::OkStatus());
  }
}

TEST_P(WeightVerification, IsOffIfAsked) {
  Served served({.verify = false});
  served.server.Fault("keep", "half");
  served.server.Fault("keep_loads", 1);
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
}

TEST(WeightVerifier, CountsMissingAndInfiniteLogprobs) {
  const std::vector<PromptScores> reference = {{{-1, -2}, {-0.5F, -1}}};
  const ScoreDifference same = DifferenceOf(reference, {{{-1, -2}, 1, -1}});
  EXPECT_EQ(same.worst_mean(), 0);
  EXPECT_EQ(same.tokens, 3);
  EXPECT_FLOAT_EQ(DifferenceOf(reference, {{{-1, -2.5F}, 1, -1}}).scored_mean, 0.25);
  EXPECT_FLOAT_EQ(DifferenceOf(reference, {{{-1, -2}, 0, -1}}).sampled_mean, 0.5);
  EXPECT_TRUE(std::isinf(DifferenceOf(reference, {{{-1}, 1, -1}}).worst_mean()));
  EXPECT_TRUE(std::isinf(DifferenceOf(reference, {{{-1, NAN}, 1, -1}}).worst_mean()));
  EXPECT_TRUE(std::isinf(DifferenceOf(reference, {{{-1, -2}, 7, -1}}).worst_mean()));
  EXPECT_TRUE(std::isinf(DifferenceOf(reference, {}).worst_mean()));
}

TEST(WeightVerifier, ComparesSampledIds) {
  const std::vector<PromptScores> reference = {{{-1, -2}, {}}, {{-3}, {}}};
  const ScoreDifference found = DifferenceOfSamples(reference, {{{5, 6}, {-1, -2.5F}}, {{7}, {-2}}});
  EXPECT_FLOAT_EQ(found.sampled_mean, 0.5);
  EXPECT_EQ(found.max, 1);
  EXPECT_EQ(found.sampled, 3);
  EXPECT_THAT(found.Text(), ::testing::Not(HasSubstr("scored")));
  EXPECT_TRUE(std::isinf(DifferenceOfSamples({{{-1}, {}}}, {{{5, 6}, {-1, -2}}}).worst_mean()));
  EXPECT_TRUE(std::isinf(DifferenceOfSamples(reference, {{{5}, {NAN}}}).worst_mean()));
  EXPECT_TRUE(std::isinf(DifferenceOfSamples(reference, {}).worst_mean()));
}

// SmolLM2's bf16 log-probs differ by 0.05 between engines, and a trial load of its adapters moves them by about 1.
TEST(WeightVerifier, AdaptersOfNarrowTypesMayDifferByMore) {
  const uint32_t seed = 1;
  const auto bytes = std::as_bytes(std::span(&seed, 1));
  const auto narrow = *weights::Snapshot::Copy(1, {{"w", "BF16", {2}, bytes}}), fp32 = Seeded(1, seed);
  const std::vector<PromptScores> given = {{{-1}, {}}};
  const auto moved = [](float by) { return std::vector<PromptScores>{{{-1 - by}, {}}}; };
  EXPECT_NEAR(AdapterTrialBound(*narrow, moved(1), given), 0.15, 1e-6);
  EXPECT_NEAR(AdapterTrialBound(*narrow, moved(0.4F), given), 0.1, 1e-6) << "a quarter would be kept back unseen";
  EXPECT_NEAR(AdapterTrialBound(*narrow, moved(8), given), 0.4, 1e-6);
  EXPECT_NEAR(TrialBound(*narrow, moved(1), given), 0.05, 1e-6);
  EXPECT_EQ(AdapterTrialBound(*fp32, moved(1), given), TrialBound(*fp32, moved(1), given));
}

TEST(WeightVerifier, HasTheSamePromptsForEachVersion) {
  const ServedModel model{.vocab_size = 100, .context_length = 12, .eos_ids = {}};
  const auto prompts = VerificationPrompts(model);
  EXPECT_EQ(prompts, VerificationPrompts(model));
  ASSERT_EQ(prompts.size(), 4u);
  for (const auto& prompt : prompts) {
    EXPECT_EQ(prompt.size(), 11u);
    EXPECT_THAT(prompt, ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(50))));
  }
}

}  // namespace
}  // namespace ingot::engines::weight_verifier_test
