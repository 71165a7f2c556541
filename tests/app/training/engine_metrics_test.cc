// The engine's share of a step's metrics, from hand-made answers of an engine.
#include "app/training/engine_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

namespace ingot::app::engine_metrics_test {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class FakeEngine final : public rollout::Client {
 public:
  std::unique_ptr<Request> Generate(v1::GenerateRequest, OnChunk) override { return nullptr; }
  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    if (!trouble.ok()) return trouble;
    return status;
  }
  void Pass(double alive, double busy, int64_t sampled, int64_t prompt, int64_t cached) {
    status.set_alive_seconds(status.alive_seconds() + alive);
    status.set_busy_seconds(status.busy_seconds() + busy);
    status.set_sampled_tokens(status.sampled_tokens() + sampled);
    status.set_prompt_tokens(status.prompt_tokens() + prompt);
    status.set_cached_prompt_tokens(status.cached_prompt_tokens() + cached);
  }

  absl::Status trouble;
  v1::EngineStatusResponse status;
};

std::map<std::string, double> Added(EngineMetrics& engine, int64_t step, std::map<std::string, double> metrics = {}) {
  engine.Add(step, /*version=*/step + 1, metrics);
  return metrics;
}

TEST(EngineMetricsTest, AStepHasTheDifferenceSinceTheStepBefore) {
  FakeEngine engine;
  engine.Pass(/*alive=*/100, /*busy=*/50, /*sampled=*/1000, /*prompt=*/500, /*cached=*/100);
  EngineMetrics metrics(engine);
  engine.Pass(10, 8, 40, 20, 5);
  const auto resumed = Added(metrics, 3);
  EXPECT_THAT(resumed, Contains(Pair("rollout/alive_seconds", 10))) << "a resumed run counts from its start";
  EXPECT_THAT(resumed, Contains(Pair("rollout/paused_requests", 0)));
  engine.Pass(20, 5, 60, 10, 10);
  engine.status.set_paused_requests(7);
  const auto next = Added(metrics, 4);
  EXPECT_THAT(next, Contains(Pair("rollout/idle_ratio", 0.75)));  // 1 - 5 / 20
  EXPECT_THAT(next, Contains(Pair("rollout/paused_requests", 7)));
  EXPECT_THAT(next, Contains(Pair("rollout/sampled_tokens", 60)));               // 1100 - 1040
  EXPECT_THAT(next, Contains(Pair("rollout/sampled_tokens_per_second", 3)));     // 60 / 20
  EXPECT_THAT(next, Contains(Pair("rollout/prefix_cache_hit_ratio", 1)));        // 10 / 10
  EXPECT_THAT(resumed, Contains(Pair("rollout/prefix_cache_hit_ratio", 0.25)));  // 5 / 20
}

TEST(EngineMetricsTest, AStepHasTheDraftsSinceTheStepBefore) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  engine.Pass(10, 8, 40, 20, 5);
  engine.status.set_sampling_passes(40);
  engine.status.add_drafters()->set_name("given");
  engine.status.add_drafters()->set_name("history");
  const auto without = Added(metrics, 0);
  EXPECT_THAT(without, Contains(Pair("rollout/tokens_per_pass", 1)));
  EXPECT_THAT(without, Not(Contains(Key("rollout/draft_acceptance"))));
  engine.Pass(10, 8, 60, 20, 5);
  engine.status.set_sampling_passes(60);
  engine.status.mutable_drafters(1)->set_drafted(80);
  engine.status.mutable_drafters(1)->set_accepted(40);
  const auto with = Added(metrics, 1);
  EXPECT_THAT(with, Contains(Pair("rollout/tokens_per_pass", 3)));  // 60 / 20
  EXPECT_THAT(with, Contains(Pair("rollout/draft_acceptance", 0.5)));
  EXPECT_THAT(with, Contains(Pair("rollout/drafted_tokens", 80)));
  EXPECT_THAT(with, Contains(Pair("rollout/accepted_tokens/history", 40)));
  EXPECT_THAT(with, Not(Contains(Key("rollout/drafted_tokens/given"))));
  EXPECT_THAT(with, Not(Contains(Key("draft/shadow_accept_rate"))));
}

TEST(EngineMetricsTest, SaysIfDraftingIsOffAndHowManyDraftsCouldNotBeUsed) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  engine.Pass(10, 8, 40, 20, 5);
  v1::DrafterStatus& drafter = *engine.status.add_drafters();
  drafter.set_name("mtp");
  const auto idle = Added(metrics, 0);
  EXPECT_THAT(idle, Not(Contains(Key("draft/disabled")))) << "nothing was proposed";
  EXPECT_THAT(idle, Not(Contains(Key("rollout/dropped_tokens/mtp"))));
  drafter.set_proposed(64);
  drafter.set_drafted(2);
  drafter.set_dropped(4);
  const auto off = Added(metrics, 1);
  EXPECT_THAT(off, Contains(Pair("draft/disabled", 1))) << "2 of 64 were verified, as while it does not pay";
  EXPECT_THAT(off, Contains(Pair("rollout/dropped_tokens/mtp", 4)));
  drafter.set_proposed(128);
  drafter.set_drafted(5);
  const auto on = Added(metrics, 2);
  EXPECT_THAT(on, Contains(Pair("draft/disabled", 0))) << "3 of 64";
  EXPECT_THAT(on, Not(Contains(Key("rollout/dropped_tokens/mtp"))));
  drafter.set_proposed(140);
  drafter.set_drafted(17);
  drafter.set_failures(1);
  EXPECT_THAT(Added(metrics, 3), Contains(Pair("draft/disabled", 1))) << "the head failed";
}

TEST(EngineMetricsTest, AShadowsDraftsAreNotCountedAsDrafts) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  engine.Pass(10, 8, 40, 20, 5);
  engine.status.set_sampling_passes(20);
  for (const char* name : {"mtp", "shadow"}) {
    v1::DrafterStatus& drafter = *engine.status.add_drafters();
    drafter.set_name(name);
    drafter.set_drafted(60);
    drafter.set_accepted(name == std::string("mtp") ? 20 : 15);
  }
  const auto seen = Added(metrics, 0);
  EXPECT_THAT(seen, Contains(Pair("rollout/drafted_tokens", 60)));
  EXPECT_THAT(seen, Contains(Pair("rollout/tokens_per_pass", 2)));                 // 40 / 20
  EXPECT_THAT(seen, Contains(Pair("draft/shadow_accept_rate", 0.25)));             // 15 / 60
  EXPECT_THAT(seen, Contains(Pair("draft/shadow_tokens_per_pass", 40.0 / 25.0)));  // 15 of 40 tokens without a pass
}

TEST(EngineMetricsTest, AStepHasTheUseOfTheStoreSinceTheStepBefore) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  engine.Pass(10, 8, 40, 20, 5);
  EXPECT_THAT(Added(metrics, 0), Not(Contains(Key("kv_store/fetched_tokens")))) << "no store";
  engine.Pass(10, 8, 40, 20, 5);
  engine.status.mutable_kv_store()->set_fetched_tokens(512);
  engine.status.mutable_kv_store()->set_bytes(1000);
  EXPECT_THAT(Added(metrics, 1), Contains(Pair("kv_store/fetched_tokens", 512)));
  engine.Pass(10, 8, 40, 20, 5);
  engine.status.mutable_kv_store()->set_fetched_tokens(768);
  engine.status.mutable_kv_store()->set_corrupt(2);
  const auto next = Added(metrics, 2);
  EXPECT_THAT(next, Contains(Pair("kv_store/fetched_tokens", 256)));  // 768 - 512
  EXPECT_THAT(next, Contains(Pair("kv_store/corrupt", 2)));
  EXPECT_THAT(next, Contains(Pair("kv_store/bytes", 1000))) << "not a difference";
}

TEST(EngineMetricsTest, TheFirstStepOfANewRunHasAllThatEnginesHadSampled) {
  FakeEngine engine;
  engine.Pass(100, 50, 1000, 0, 0);
  EngineMetrics metrics(engine);
  engine.Pass(10, 10, 10, 0, 0);
  const auto first = Added(metrics, 0);
  EXPECT_THAT(first, Contains(Pair("rollout/sampled_tokens", 1010)));
  EXPECT_THAT(first, Not(Contains(Key("rollout/prefix_cache_hit_ratio")))) << "no prompt, no ratio";
}

TEST(EngineMetricsTest, AnEngineThatLeftTakesItsCountsAlong) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  engine.Pass(10, 10, 500, 0, 0);
  Added(metrics, 0);
  engine.Pass(10, 0, -200, 0, 0);
  EXPECT_THAT(Added(metrics, 1), Contains(Pair("rollout/sampled_tokens", 0)));
}

TEST(EngineMetricsTest, AnEngineThatDoesNotAnswerIsCountedWithTheNextStep) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  engine.Pass(10, 10, 10, 0, 0);
  Added(metrics, 0);
  engine.trouble = absl::UnavailableError("restarting");
  EXPECT_TRUE(Added(metrics, 1).empty());
  engine.trouble = absl::OkStatus();
  engine.Pass(30, 30, 30, 0, 0);
  EXPECT_THAT(Added(metrics, 2), Contains(Pair("rollout/sampled_tokens", 30)));
}

TEST(EngineMetricsTest, TheWayOfAVersionToItsFirstTokenIsToldOnce) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  const std::map<std::string, double> sent = {{"perf/update_weights_snapshot_ms", 1},
                                              {"perf/update_weights_save_ms", 2},
                                              {"perf/update_weights_encode_ms", 3},
                                              {"perf/update_weights_send_ms", 4}};
  EXPECT_THAT(Added(metrics, 0, sent), Not(Contains(Key("perf/first_token_ms")))) << "version 1 has sampled nothing";
  v1::SwapTimes& times = *engine.status.mutable_first_token();
  times.set_version(1);
  times.set_fetch_ms(10);
  times.set_apply_ms(20);
  times.set_wait_ms(30);
  times.set_pause_ms(40);
  times.set_first_token_ms(50);
  times.set_step_ms(7);
  const auto reported = Added(metrics, 1, sent);
  EXPECT_THAT(reported, Contains(Pair("perf/first_token_version", 1)));
  EXPECT_THAT(reported, Contains(Pair("perf/first_token_ms", 160)));  // 1 + 2 + 3 + 4 + 10 + 20 + 30 + 40 + 50
  EXPECT_THAT(reported, Contains(Pair("perf/first_token_decode_ms", 50)));
  EXPECT_THAT(reported, Contains(Pair("perf/first_token_step_ms", 7)));
  EXPECT_THAT(Added(metrics, 2, sent), Not(Contains(Key("perf/first_token_ms"))));
}

TEST(EngineMetricsTest, AVersionThatWasNotPublishedHasNoWay) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  Added(metrics, 0, {{"perf/update_weights_snapshot_ms", 1}});
  engine.status.mutable_first_token()->set_version(1);
  EXPECT_THAT(Added(metrics, 1), Not(Contains(Key("perf/first_token_ms"))));
}

TEST(EngineMetricsTest, ServersHaveTheSlowestTimesAndNewCounts) {
  FakeEngine engine;
  EngineMetrics metrics(engine);
  EXPECT_THAT(Added(metrics, 0), Not(Contains(Key("engine/load_ms")))) << "Ingot's engine has no server";
  for (const double load : {70.0, 90.0}) {
    v1::ServerStatus& server = *engine.status.add_servers();
    server.set_load_ms(load);
    server.set_verify_diff_mean(load / 1e9);
    server.set_refused(2);
  }
  const auto first = Added(metrics, 1);
  EXPECT_THAT(first, Contains(Pair("engine/load_ms", 90)));
  EXPECT_THAT(first, Contains(Pair("engine/verify_diff_mean", 9e-8)));
  EXPECT_THAT(first, Contains(Pair("engine/refused", 4)));
  engine.status.mutable_servers(1)->set_refused(3);
  EXPECT_THAT(Added(metrics, 2), Contains(Pair("engine/refused", 1)));
}

}  // namespace
}  // namespace ingot::app::engine_metrics_test
