// The scheduling core on a model of plain code, step by step, without threads.
#include "rollout/engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/device_failure.h"
#include "base/rng.h"
#include "rollout/fake_model.h"
#include "rollout/mixed_drafter.h"

namespace ingot::rollout {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int64_t kVocab = 24;

struct Result {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<v1::VersionRun> versions;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  absl::Status error;
  int32_t cached = 0;
  bool ended = false;
};

EngineOptions Options(int32_t blocks = 64, int32_t batch_tokens = 64) {
  EngineOptions options;
  options.kv_block_tokens = 4;
  options.kv_cache_tokens = 4 * blocks;
  options.max_running = 8;
  options.max_batch_tokens = batch_tokens;
  options.context_length = 512;
  return options;
}

// A core with its model. It collects the emissions of each request.
class World {
 public:
  explicit World(const EngineOptions& options, std::vector<std::unique_ptr<Drafter>> drafters = {})
      : runner(kVocab, options.context_length, options.kv_cache_tokens, options.kv_block_tokens),
        options(options),
        core(options, &runner, &clock, std::move(drafters)) {}

  std::shared_ptr<const WeightVersion> Version(int64_t number, uint64_t weights) {
    auto version = std::make_shared<WeightVersion>();
    version->version = number;
    version->salt = ++salts;
    version->model = *runner.Load(FakeSnapshot(number, weights));
    return version;
  }
  void SetVersion(int64_t number) { core.SetNewest(newest = Version(number, 1000 + number)); }

  int Add(std::vector<int32_t> prompt, int32_t max_new, float temperature = 1,
          std::shared_ptr<const WeightVersion> pinned = nullptr, int64_t min_version = 0) {
    const int id = static_cast<int>(results.size());
    results.emplace_back();
    auto sequence = std::make_unique<Sequence>();
    sequence->min_version = min_version;
    sequence->draw.temperature = temperature;
    sequence->draw.seed = 900 + id;
    sequence->pinned = std::move(pinned);
    sequence->tokens = prompt;
    sequence->prompt_size = prompt.size();
    sequence->limit = std::min<size_t>(prompt.size() + max_new, options.context_length);
    sequence->order = id;
    sequence->deadline = deadline;
    sequence->arrived = clock.Now();
    if (change) change(*sequence);
    sequence->gate = std::make_shared<ChunkGate>([this, id](absl::StatusOr<v1::GenerateChunk> chunk) {
      Result& result = results[id];
      EXPECT_FALSE(result.ended) << "a chunk after the last";
      if (!chunk.ok()) {
        result.error = chunk.status();
        result.ended = true;
        return;
      }
      result.ids.insert(result.ids.end(), chunk->token_ids().begin(), chunk->token_ids().end());
      result.logprobs.insert(result.logprobs.end(), chunk->logprobs().begin(), chunk->logprobs().end());
      result.versions.insert(result.versions.end(), chunk->versions().begin(), chunk->versions().end());
      result.finish = chunk->finish();
      result.ended = chunk->finish() != v1::FINISH_UNSPECIFIED;
      result.cached = chunk->cached_tokens();
    });
    gates.push_back(sequence->gate);
    prompts.push_back(std::move(prompt));
    core.Add(std::move(sequence));
    return id;
  }

  void Step() {
    std::vector<Emission> emissions;
    core.Step(&emissions);
    for (Emission& emission : emissions) emission.gate->Deliver(std::move(emission.chunk));
    EXPECT_EQ(core.blocks().CheckInvariants(), "");
  }
  void Drain() {
    for (int i = 0; core.CanStep(); ++i) {
      ASSERT_LT(i, 5000) << "the engine does not finish";
      Step();
    }
  }

  // Compares the request with a reference that has no cache, chunks or paging and computes KV entries by definition.
  // `weights_of(i)` gives the weights that computed the entry of token i; `sampled_under(n)` gives the weights that
  // sampled token n.
  void ExpectEqualsReference(int id, const std::function<uint64_t(size_t)>& weights_of,
                             const std::function<uint64_t(size_t)>& sampled_under, float temperature = 1) {
    std::vector<int32_t> tokens = prompts[id];
    Sampler reference;
    DrawOptions options;
    options.temperature = temperature;
    options.seed = 900 + id;
    for (size_t n = 0; n < results[id].ids.size(); ++n) {
      std::vector<uint64_t> entries;
      for (size_t i = 0; i < tokens.size(); ++i) {
        entries.push_back(FakeRunner::Entry(weights_of(i), tokens[i], static_cast<int64_t>(i)));
      }
      const auto row = FakeRunner::Row(entries, sampled_under(n), kVocab, temperature == 0 ? 1 : temperature);
      const int32_t expected = *reference.Draw({row, {}}, options, static_cast<int64_t>(n));
      ASSERT_EQ(results[id].ids[n], expected) << "request " << id << " token " << n;
      ASSERT_EQ(results[id].logprobs[n], row[expected]);
      tokens.push_back(expected);
    }
  }
  void ExpectEqualsReference(int id, int64_t version, float temperature = 1) {
    const auto same = [&](size_t) { return static_cast<uint64_t>(1000 + version); };
    ExpectEqualsReference(id, same, same, temperature);
  }

  FakeRunner runner;
  base::ManualClock clock;
  nanoseconds deadline = nanoseconds::max();
  std::function<void(Sequence&)> change;  // of the sequences to add; null = none
  const EngineOptions options;
  EngineCore core;
  uint64_t salts = 0;
  std::shared_ptr<const WeightVersion> newest;
  std::deque<Result> results;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::shared_ptr<ChunkGate>> gates;
};

std::vector<int32_t> Prompt(uint64_t seed, size_t length) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(base::DeriveSeed(seed, i) % kVocab));
  return prompt;
}

TEST(EngineCoreTest, ChunkedPrefillDecodeAndCacheHitsChangeNoToken) {
  World world(Options(64, /*batch_tokens=*/9));
  world.SetVersion(1);
  std::vector<int> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(world.Add(Prompt(i % 3, 5 + 7 * (i % 4)), 3 + i % 5));
  world.Drain();
  for (int i = 0; i < 6; ++i) ids.push_back(world.Add(Prompt(i % 3, 26), 6));
  world.Drain();
  for (const int id : ids) {
    EXPECT_EQ(world.results[id].finish, v1::FINISH_LENGTH);
    world.ExpectEqualsReference(id, 1);
  }
  EXPECT_GT(world.core.stats().cached_prompt_tokens, 0);
  EXPECT_EQ(world.core.blocks().held(), 0);
}

TEST(EngineCoreTest, GreedyIsTheArgmaxAndItsLogprobIsAtTemperatureOne) {
  World world(Options());
  world.SetVersion(1);
  const int id = world.Add(Prompt(1, 6), 8, /*temperature=*/0);
  world.Drain();
  world.ExpectEqualsReference(id, 1, 0);
}

TEST(EngineCoreTest, NoForwardPassExceedsTheTokenBudget) {
  World world(Options(64, 8));
  world.SetVersion(1);
  size_t most = 0;
  world.runner.before_forward = [&](const ForwardBatch& batch) { most = std::max(most, batch.token_ids.size()); };
  for (int i = 0; i < 10; ++i) world.Add(Prompt(i, 30), 10);
  world.Drain();
  EXPECT_EQ(most, 8u);
}

TEST(EngineCoreTest, SaysHowFarThePrefillOfWaitingRequestsIs) {
  World world(Options(64, /*batch_tokens=*/16));
  EXPECT_EQ(world.core.prefill().requests, 0);
  const nanoseconds first = world.clock.Now();
  world.Add(Prompt(1, 40), 2);
  world.SetVersion(1);
  world.clock.Advance(milliseconds(5));
  world.Add(Prompt(2, 20), 2);
  for (const int64_t prefilled : {0, 16, 32}) {
    const Prefill prefill = world.core.prefill();
    EXPECT_EQ(prefill.requests, 2);
    EXPECT_EQ(prefill.tokens, 60);
    EXPECT_EQ(prefill.prefilled, prefilled);
    EXPECT_EQ(prefill.oldest, first);
    world.Step();
  }
  EXPECT_EQ(world.core.prefill().requests, 1) << "the first one samples";
  EXPECT_EQ(world.core.prefill().tokens, 20);
  EXPECT_EQ(world.core.prefill().prefilled, 8);
  EXPECT_EQ(world.core.prefill().oldest, first + milliseconds(5));
  world.Drain();
  EXPECT_EQ(world.core.prefill().requests, 0);
}

TEST(EngineCoreTest, DecodingRequestsAdvanceInEveryStepBesideAPrefill) {
  World world(Options(64, 8));
  world.SetVersion(1);
  const int decoding = world.Add(Prompt(1, 3), 20);
  world.Step();
  world.Add(Prompt(2, 60), 1);
  for (size_t i = 2; i < 9; ++i) {
    world.Step();
    EXPECT_EQ(world.results[decoding].ids.size(), i);
  }
}

TEST(EngineCoreTest, ASecondTurnFindsTheFirstTurnsTokensInTheCache) {
  World world(Options());
  world.SetVersion(1);
  const int first = world.Add(Prompt(1, 10), 9);
  world.Drain();
  std::vector<int32_t> second = world.prompts[first];
  second.insert(second.end(), world.results[first].ids.begin(), world.results[first].ids.end());
  second.push_back(3);
  const int id = world.Add(second, 2);
  world.Drain();
  EXPECT_EQ(world.results[id].cached, 16);  // 10 + 8 computed tokens are four whole blocks
  world.ExpectEqualsReference(id, 1);
}

TEST(EngineCoreTest, APromptIsComputedOnceForAGroupThatArrivesTogether) {
  World world(Options(64, 16));
  world.SetVersion(1);
  for (int i = 0; i < 8; ++i) world.Add(Prompt(1, 41), 1);
  world.Drain();
  // 40 shared tokens once; the 41st, never matched, eight times.
  EXPECT_EQ(world.runner.rows_computed, 40 + 8);
  for (int i = 0; i < 8; ++i) world.ExpectEqualsReference(i, 1);
}

TEST(EngineCoreTest, WithoutThePrefixCacheEveryPromptIsComputed) {
  EngineOptions options = Options();
  options.prefix_cache = false;
  World world(options);
  world.SetVersion(1);
  for (int i = 0; i < 3; ++i) world.Add(Prompt(1, 20), 2);
  world.Drain();
  EXPECT_EQ(world.core.stats().cached_prompt_tokens, 0);
  EXPECT_EQ(world.runner.rows_computed, 3 * 21);
}

TEST(EngineCoreTest, AFollowingRequestMixesItsKvAndSaysSo) {
  World world(Options());
  world.SetVersion(1);
  const int id = world.Add(Prompt(1, 6), 8);
  for (int i = 0; i < 3; ++i) world.Step();
  world.SetVersion(2);
  world.Drain();
  const Result& result = world.results[id];
  ASSERT_EQ(result.versions.size(), 8u);
  for (size_t n = 0; n < 8; ++n) {
    EXPECT_EQ(result.versions[n].version(), n < 3 ? 1 : 2);
    EXPECT_EQ(result.versions[n].kv_mixed(), n >= 3);
  }
  // Tokens 0-7 (prompt and two sampled) were computed under version 1.
  world.ExpectEqualsReference(
      id, [](size_t i) { return i < 8 ? 1001u : 1002u; }, [](size_t n) { return n < 3 ? 1001u : 1002u; });
}

TEST(EngineCoreTest, MixedBlocksAreNeverShared) {
  // The swap falls inside the first block, or after one that was shared under the old version.
  for (const size_t length : {2, 6}) {
    World world(Options());
    world.SetVersion(1);
    const int first = world.Add(Prompt(1, length), 20);
    world.Step();
    world.SetVersion(2);
    world.Drain();
    std::vector<int32_t> again = world.prompts[first];
    again.insert(again.end(), world.results[first].ids.begin(), world.results[first].ids.end());
    const int id = world.Add(again, 4);
    world.Drain();
    EXPECT_EQ(world.results[id].cached, 0);
    world.ExpectEqualsReference(id, 2);
    for (const v1::VersionRun& run : world.results[id].versions) EXPECT_FALSE(run.kv_mixed());
  }
}

TEST(EngineCoreTest, BlocksOfADroppedVersionAreNotFoundEvenIfItsNumberComesBack) {
  World world(Options());
  world.SetVersion(1);
  world.Add(Prompt(1, 20), 2);
  world.Drain();
  EXPECT_GT(world.core.blocks().cached(), 0);
  world.SetVersion(2);
  world.Step();
  EXPECT_EQ(world.core.blocks().cached(), 0) << "nobody can ask for them again";
  world.core.SetNewest(world.newest = world.Version(1, 5555));  // other weights under an old number
  const int id = world.Add(Prompt(1, 20), 2);
  world.Drain();
  EXPECT_EQ(world.results[id].cached, 0);
  const auto other = [](size_t) { return uint64_t{5555}; };
  world.ExpectEqualsReference(id, other, other);
}

TEST(EngineCoreTest, PinnedRequestsRunOnTheirVersionBesideNewerOnes) {
  World world(Options());
  world.SetVersion(1);
  const auto pinned_version = world.newest;
  const int pinned = world.Add(Prompt(1, 9), 12, 1, pinned_version);
  const int following = world.Add(Prompt(2, 9), 12);
  for (int i = 0; i < 4; ++i) world.Step();
  world.SetVersion(2);
  const int late = world.Add(Prompt(1, 9), 5, 1, pinned_version);
  world.Drain();
  world.ExpectEqualsReference(pinned, 1);
  world.ExpectEqualsReference(late, 1);
  for (const v1::VersionRun& run : world.results[pinned].versions) {
    EXPECT_EQ(run.version(), 1);
    EXPECT_FALSE(run.kv_mixed());
  }
  EXPECT_EQ(world.results[following].versions.back().version(), 2);
}

TEST(EngineCoreTest, RequestsWaitForTheFirstVersion) {
  World world(Options());
  const int id = world.Add(Prompt(1, 9), 3);
  EXPECT_FALSE(world.core.CanStep());
  world.Step();
  EXPECT_EQ(world.core.waiting(), 1);
  world.SetVersion(4);
  world.Drain();
  world.ExpectEqualsReference(id, 4);
}

TEST(EngineCoreTest, FirstWeightsOlderThanMinVersionEndAWaitingRequest) {
  World world(Options());
  const int late = world.Add(Prompt(1, 9), 3, 1, nullptr, /*min_version=*/7);
  const int early = world.Add(Prompt(1, 9), 3, 1, nullptr, /*min_version=*/6);
  world.SetVersion(6);
  world.Drain();
  EXPECT_EQ(world.results[late].error.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(world.results[late].error.message()), testing::HasSubstr("at version 6"));
  EXPECT_TRUE(world.results[late].ids.empty());
  EXPECT_EQ(world.results[early].finish, v1::FINISH_LENGTH);
  world.ExpectEqualsReference(early, 6);
}

TEST(EngineCoreTest, AnOlderVersionEndsRequestsWithALaterMinVersion) {
  World world(Options());
  world.SetVersion(7);
  const int following = world.Add(Prompt(1, 9), 8, 1, nullptr, /*min_version=*/7);
  const int pinned = world.Add(Prompt(2, 9), 8, 1, world.newest, /*min_version=*/7);
  const int lenient = world.Add(Prompt(3, 9), 8, 1, nullptr, /*min_version=*/6);
  for (int i = 0; i < 3; ++i) world.Step();
  world.SetVersion(6);
  world.Drain();
  EXPECT_EQ(world.results[following].error.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(world.results[following].ids.size(), 3u) << "what version 7 sampled stays delivered";
  world.ExpectEqualsReference(following, 7);
  EXPECT_EQ(world.results[pinned].finish, v1::FINISH_LENGTH);
  world.ExpectEqualsReference(pinned, 7);
  EXPECT_EQ(world.results[lenient].versions.back().version(), 6);
  EXPECT_EQ(world.core.blocks().held(), 0);
}

TEST(EngineCoreTest, WhenBlocksRunOutTheYoungestIsPreemptedAndItsResultIsTheSame) {
  World world(Options(/*blocks=*/12));
  world.SetVersion(1);
  std::vector<int> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(world.Add(Prompt(i, 5), 30));
  world.Drain();
  EXPECT_GT(world.core.stats().preemptions, 0);
  for (const int id : ids) {
    EXPECT_EQ(world.results[id].ids.size(), 30u);
    world.ExpectEqualsReference(id, 1);
  }
  EXPECT_EQ(world.core.blocks().held(), 0);
  EXPECT_EQ(world.core.stats().prompt_tokens, 6 * 5) << "a preempted prompt is counted once";
}

TEST(EngineCoreTest, ARequestThatMustWaitEvictsNothing) {
  World world(Options(/*blocks=*/12));
  world.SetVersion(1);
  world.Add(Prompt(1, 16), 1);
  world.Drain();
  EXPECT_EQ(world.core.blocks().cached(), 4);
  const int grows = world.Add(Prompt(2, 5), 4);
  world.Step();
  // Two blocks are held. Ten are left, four of them cached. It needs all ten, and would have no block to grow into.
  const int waits = world.Add(Prompt(3, 40), 2);
  world.Step();
  EXPECT_EQ(world.core.waiting(), 1);
  EXPECT_EQ(world.core.blocks().cached(), 4);
  world.Drain();
  world.ExpectEqualsReference(grows, 1);
  world.ExpectEqualsReference(waits, 1);
}

TEST(EngineCoreTest, ARequestThatFillsTheWholeCacheRunsAlone) {
  World world(Options(/*blocks=*/6));
  world.SetVersion(1);
  const int small = world.Add(Prompt(1, 5), 4);
  const int whole = world.Add(Prompt(2, 14), 11);  // 24 tokens of KV: all six blocks
  world.Drain();
  world.ExpectEqualsReference(small, 1);
  world.ExpectEqualsReference(whole, 1);
  EXPECT_EQ(world.results[whole].ids.size(), 11u);
}

TEST(EngineCoreTest, AClosedRequestLeavesAtTheNextStepWithoutAChunk) {
  World world(Options());
  world.SetVersion(1);
  const int gone = world.Add(Prompt(1, 9), 50);
  const int stays = world.Add(Prompt(2, 9), 50);
  world.Step();
  world.gates[gone]->Close();
  world.Step();
  EXPECT_EQ(world.core.running(), 1);
  EXPECT_EQ(world.results[gone].ids.size(), 1u);
  EXPECT_FALSE(world.results[gone].ended);
  world.Drain();
  world.ExpectEqualsReference(stays, 1);
  EXPECT_EQ(world.core.blocks().held(), 0);
}

TEST(EngineCoreTest, ALateRequestIsAbortedOrItsErrorNamesTheCauseOfTheWait) {
  World world(Options());
  world.deadline = world.clock.Now() + milliseconds(10);
  const int first = world.Add(Prompt(1, 9), 50);
  world.Step();
  world.clock.Advance(milliseconds(10));
  world.Step();
  EXPECT_EQ(world.results[first].error.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(world.results[first].error.message()), testing::HasSubstr("first weights"));

  world.SetVersion(1);
  world.deadline = world.clock.Now() + milliseconds(10);
  const int second = world.Add(Prompt(1, 9), 50);
  world.Step();
  world.clock.Advance(milliseconds(10));
  world.Step();
  EXPECT_EQ(world.results[second].finish, v1::FINISH_ABORTED);
  EXPECT_EQ(world.results[second].ids.size(), 1u);
  EXPECT_EQ(world.core.blocks().held(), 0);
}

TEST(EngineCoreTest, AFailedForwardPassEndsItsRequestsAndTheNextOnesRun) {
  World world(Options());
  world.SetVersion(1);
  const int unlucky = world.Add(Prompt(1, 9), 5);
  world.Step();
  world.runner.fail = absl::InternalError("device lost");
  world.Step();
  EXPECT_EQ(world.results[unlucky].error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(world.results[unlucky].error.message()), testing::HasSubstr("device lost"));
  EXPECT_EQ(world.core.blocks().held(), 0);
  world.runner.fail = absl::OkStatus();
  const int lucky = world.Add(Prompt(1, 9), 5);
  world.Drain();
  world.ExpectEqualsReference(lucky, 1);
}

TEST(EngineCoreTest, ADeviceThatFailedIsAFaultAndItsRequestsMayContinueElsewhere) {
  World world(Options());
  world.SetVersion(1);
  const int id = world.Add(Prompt(1, 9), 5);
  world.runner.fail = base::DeviceFailure("an illegal memory access");
  world.Step();
  EXPECT_EQ(world.results[id].error.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(base::IsDeviceFailure(world.core.fault())) << world.core.fault();
}

// Runs forward passes that fail, each `apart` after the one before.
void FailPasses(World& world, int passes, milliseconds apart) {
  world.runner.fail = absl::ResourceExhaustedError("out of memory");
  for (int i = 0; i < passes; ++i) {
    world.clock.Advance(apart);
    world.Add(Prompt(1, 9), 5);
    world.Step();
  }
  world.runner.fail = absl::OkStatus();
}

TEST(EngineCoreTest, PassesThatFailInARowForLongAreAFault) {
  World world(Options());
  world.SetVersion(1);
  const milliseconds apart =
      milliseconds(EngineCore::kMinFailingTime) / (EngineCore::kMinFailedPasses - 1) + milliseconds(1);
  FailPasses(world, EngineCore::kMinFailedPasses - 1, apart);
  world.Add(Prompt(1, 9), 5);
  world.Drain();  // one pass succeeds, so the count and the time start again
  FailPasses(world, EngineCore::kMinFailedPasses - 1, apart);
  EXPECT_EQ(world.core.fault(), absl::OkStatus());
  FailPasses(world, 1, apart);
  EXPECT_EQ(world.core.fault().code(), absl::StatusCode::kInternal) << "nobody may retry";
  EXPECT_EQ(world.core.fault().message(), "for 20 s, all 8 forward passes failed: out of memory");
}

TEST(EngineCoreTest, ManyPassesThatFailInAShortTimeAreNoFault) {
  World world(Options());
  world.SetVersion(1);
  world.clock.Advance(std::chrono::hours(1));  // idle before
  FailPasses(world, 300, milliseconds(1));
  EXPECT_EQ(world.core.fault(), absl::OkStatus());
  const int lucky = world.Add(Prompt(1, 9), 5);
  world.Drain();
  world.ExpectEqualsReference(lucky, 1);
}

// One request failed an hour ago, and then a moment's shortage fails many.
TEST(EngineCoreTest, IdleTimeBetweenFailedPassesIsNoFailingTime) {
  World world(Options());
  world.SetVersion(1);
  FailPasses(world, 1, milliseconds(1));
  world.clock.Advance(std::chrono::hours(1));
  FailPasses(world, 300, milliseconds(1));
  EXPECT_EQ(world.core.fault(), absl::OkStatus());
  FailPasses(world, 2, milliseconds(EngineCore::kMaxPause));
  EXPECT_EQ(world.core.fault(), absl::OkStatus()) << "15.3 s";
  FailPasses(world, 1, milliseconds(EngineCore::kMaxPause));
  EXPECT_EQ(world.core.fault().message(), "for 20 s, all 304 forward passes failed: out of memory");
}

TEST(EngineCoreTest, AFewPassesThatFailOverALongTimeAreNoFault) {
  World world(Options());
  world.SetVersion(1);
  FailPasses(world, EngineCore::kMinFailedPasses - 1, std::chrono::minutes(1));
  EXPECT_EQ(world.core.fault(), absl::OkStatus());
}

TEST(EngineCoreTest, DivergedWeightsAreAnErrorNotATokenZero) {
  World world(Options());
  world.SetVersion(1);
  world.runner.poisoned = true;
  const int id = world.Add(Prompt(1, 9), 5);
  world.Drain();
  EXPECT_EQ(world.results[id].error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(world.results[id].error.message()), testing::HasSubstr("version 1"));
  EXPECT_TRUE(world.results[id].ids.empty());
  EXPECT_EQ(world.core.blocks().held(), 0);
}

TEST(EngineOptionsTest, FaultsNameTheField) {
  EXPECT_EQ(EngineOptions().Validate(), absl::OkStatus());
  const auto fault = [](auto change) {
    EngineOptions options;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(fault([](EngineOptions& o) { o.kv_block_tokens = 0; }), testing::HasSubstr("kv_block_tokens is 0"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.kv_cache_tokens = 3; }), testing::HasSubstr("kv_cache_tokens is 3"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.max_batch_tokens = 63; }), testing::HasSubstr("max_batch_tokens is 63"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.threads = 0; }), testing::HasSubstr("threads is 0"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.prefill_piece_tokens = -1; }), testing::HasSubstr("prefill_piece_tokens"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.prefill_piece_tokens = 1025; }),
              testing::HasSubstr("at most max_batch_tokens, 1024"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.max_update_bytes = 0; }), testing::HasSubstr("max_update_bytes is 0"));
  EXPECT_THAT(fault([](EngineOptions& o) { o.episode_versions = 0; }), testing::HasSubstr("episode_versions is 0"));
  EXPECT_THAT(fault([](EngineOptions& o) {
                o.episode_version = EpisodeVersion::kPinned;
                o.max_tokens_per_turn_slice = 8;
                o.slice_wait_seconds = 1;
              }),
              testing::HasSubstr("slice_wait_seconds is 1"));
}

// Many requests, cancels and swaps, in little memory. A request that never met a swap, or was preempted out of it,
// equals the reference. Every recorded run of versions is explained, and all blocks come back.
TEST(EngineCoreTest, RandomLoadWithCancelsAndSwapsKeepsEveryLaw) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    uint64_t draws = 0;
    const auto random = [&](uint64_t below) { return base::DeriveSeed(seed, draws++) % below; };
    World world(Options(/*blocks=*/static_cast<int32_t>(20 + random(40)),
                        /*batch_tokens=*/static_cast<int32_t>(8 + random(30))));
    int64_t version = 1;
    world.SetVersion(version);
    std::map<int, int64_t> pinned;
    std::vector<bool> cancelled;
    for (int step = 0; step < 300; ++step) {
      if (random(3) == 0) {
        const auto pin = random(4) == 0 ? world.newest : nullptr;
        const int id = world.Add(Prompt(random(4), 1 + random(40)), static_cast<int32_t>(1 + random(30)), 1, pin);
        if (pin != nullptr) pinned[id] = pin->version;
        cancelled.push_back(false);
      }
      if (random(12) == 0 && !world.gates.empty()) {
        const size_t id = random(world.gates.size());
        if (!world.results[id].ended) cancelled[id] = true;
        world.gates[id]->Close();
      }
      if (random(25) == 0) world.SetVersion(++version);
      world.Step();
    }
    world.Drain();
    world.Step();  // reaps the last cancelled request
    EXPECT_EQ(world.core.blocks().held(), 0);
    EXPECT_EQ(world.core.waiting(), 0);
    for (size_t id = 0; id < world.results.size(); ++id) {
      const Result& result = world.results[id];
      if (cancelled[id]) continue;
      ASSERT_TRUE(result.ended);
      ASSERT_EQ(result.error, absl::OkStatus());
      ASSERT_EQ(result.versions.size(), result.ids.size());
      if (pinned.contains(static_cast<int>(id))) {
        world.ExpectEqualsReference(static_cast<int>(id), pinned[static_cast<int>(id)]);
      } else if (result.versions.front().version() == result.versions.back().version() &&
                 !result.versions.front().kv_mixed()) {
        world.ExpectEqualsReference(static_cast<int>(id), result.versions.front().version());
      }
      for (size_t n = 1; n < result.versions.size(); ++n) {
        EXPECT_GE(result.versions[n].version(), result.versions[n - 1].version());
      }
    }
  }
}

// ---- Drafts and swaps

// A drafter that knows what a run without drafts samples under the first version.
std::vector<std::unique_ptr<Drafter>> Guesses(const MixedDrafter::Answers& answers, uint64_t seed) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<MixedDrafter>(answers, static_cast<int32_t>(kVocab), seed));
  return drafters;
}

// Runs one request. After the first step that gives it `swap_at` tokens or more, version 2 replaces version 1. Returns
// the number of tokens at the swap.
size_t RunWithSwap(World& world, const std::vector<int32_t>& prompt, size_t swap_at) {
  world.SetVersion(1);
  const int id = world.Add(prompt, 40);
  while (world.results[id].ids.size() < swap_at) world.Step();
  const size_t swapped = world.results[id].ids.size();
  world.SetVersion(2);
  world.Drain();
  return swapped;
}

// A swap between two passes of verified drafts: the ids, log-probs, and versions are those of a run without drafts that
// swaps after the same token.
TEST(EngineCoreTest, ASwapInTheMiddleOfDraftsIsRecordedAsWithoutDrafts) {
  int in_bundles = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::vector<int32_t> prompt = Prompt(seed, 3 + seed % 20);
    EngineOptions options = Options();
    options.speculation.min_gain = -1;
    EngineOptions plain = options;
    plain.speculation.drafters = {};
    MixedDrafter::Answers answers;
    {
      World first(plain);
      first.SetVersion(1);
      first.Add(prompt, 40);
      first.Drain();
      answers[900] = first.results[0].ids;
    }
    World drafted(options, Guesses(answers, seed));
    const size_t swapped = RunWithSwap(drafted, prompt, 1 + seed % 30);
    World undrafted(plain);
    ASSERT_EQ(RunWithSwap(undrafted, prompt, swapped), swapped);
    ASSERT_EQ(drafted.results[0].ids, undrafted.results[0].ids) << seed;
    ASSERT_EQ(drafted.results[0].logprobs, undrafted.results[0].logprobs) << seed;
    const auto tokens_of = [](const Result& result) {
      std::vector<std::pair<int64_t, bool>> versions;
      for (const v1::VersionRun& run : result.versions) {
        versions.insert(versions.end(), static_cast<size_t>(run.count()), {run.version(), run.kv_mixed()});
      }
      return versions;
    };
    ASSERT_EQ(tokens_of(drafted.results[0]), tokens_of(undrafted.results[0])) << seed;
    for (size_t i = 0; i < 40; ++i) ASSERT_EQ(tokens_of(drafted.results[0])[i].first, i < swapped ? 1 : 2) << i;
    // The entry of the last id before the swap was computed by the new version.
    const auto computed_by = [&](size_t i) { return i + 1 < prompt.size() + swapped ? 1001u : 1002u; };
    drafted.ExpectEqualsReference(0, computed_by, [&](size_t n) { return n < swapped ? 1001u : 1002u; });
    in_bundles += swapped > 1 + seed % 30 ? 1 : 0;
    EXPECT_EQ(drafted.core.blocks().held(), 0);
  }
  EXPECT_GT(in_bundles, 10) << "swaps after a pass that sampled several ids";
}

// ---- Chunked prefill

TEST(EngineCoreTest, WhileOthersSamplePromptsAreComputedInPieces) {
  for (const int32_t piece : {1, 3, 8, 0}) {
    EngineOptions options = Options(/*blocks=*/128, /*batch_tokens=*/64);
    options.prefill_piece_tokens = piece;
    World world(options);
    size_t most_prompt_rows = 0;
    int passes_of_prompts = 0;
    world.runner.before_forward = [&](const ForwardBatch& batch) {
      size_t prompt_rows = 0;
      for (const kernels::AttentionSequence& sequence : batch.sequences) {
        // A prompt's last row samples and does not count.
        prompt_rows += sequence.q_offset < 39 ? static_cast<size_t>(sequence.q_count) : 0;
      }
      if (batch.sequences.size() > 1) most_prompt_rows = std::max(most_prompt_rows, prompt_rows);
      passes_of_prompts += prompt_rows > 0 ? 1 : 0;
    };
    world.SetVersion(1);
    const int decodes = world.Add(Prompt(1, 90), 120);
    world.Step();
    EXPECT_EQ(world.core.stats().forward_rows, 64) << "nobody samples, so the pass is full";
    while (world.results[decodes].ids.empty()) world.Step();
    passes_of_prompts = 0;
    const int first = world.Add(Prompt(2, 40), 3), second = world.Add(Prompt(3, 40), 3);
    const size_t before = world.results[decodes].ids.size();
    while (!world.results[second].ended) world.Step();
    EXPECT_EQ(most_prompt_rows, piece == 0 ? 63u : static_cast<size_t>(piece));
    EXPECT_GE(passes_of_prompts, piece == 0 ? 2 : 78 / piece);
    EXPECT_GE(world.results[decodes].ids.size() - before, static_cast<size_t>(passes_of_prompts)) << "one in each pass";
    world.Drain();
    for (const int id : {decodes, first, second}) world.ExpectEqualsReference(id, 1);
  }
}

// Pieces with drafts, a small cache, and equal prefixes: ids and log-probs are those of whole prompts.
TEST(EngineCoreTest, PiecesOfPromptsChangeNothing) {
  int64_t preemptions = 0;
  for (const int32_t piece : {1, 2, 5, 13}) {
    EngineOptions options = Options(/*blocks=*/16, /*batch_tokens=*/24);
    options.prefill_piece_tokens = piece;
    options.speculation.min_gain = -1;
    World world(options, Guesses({}, 7));
    world.SetVersion(1);
    for (uint64_t i = 0; i < 20; ++i) {
      std::vector<int32_t> prompt = Prompt(i % 3, 11);
      for (const int32_t id : Prompt(50 + i, i)) prompt.push_back(id);
      world.Add(prompt, 1 + static_cast<int32_t>(3 * i % 20));
      if (i % 4 == 3) world.Step();
    }
    world.Drain();
    for (int id = 0; id < 20; ++id) world.ExpectEqualsReference(id, 1);
    preemptions += world.core.stats().preemptions;
    EXPECT_EQ(world.core.blocks().held(), 0);
  }
  EXPECT_GT(preemptions, 0);
}

// ---- Slices (tests/rollout/slices_test.cc has those of whole engines)

TEST(EngineCoreTest, ASliceEndsSecondsAfterItsFirstToken) {
  EngineOptions options = Options(64, /*batch_tokens=*/8);
  options.slice_seconds = 2;
  World world(options);
  world.SetVersion(1);
  world.change = [](Sequence& sequence) { sequence.may_pause = true; };
  const int pauses = world.Add(Prompt(1, 30), 40);  // four steps of prefill, which do not count
  world.change = nullptr;
  const int whole = world.Add(Prompt(2, 30), 40);
  while (!world.results[pauses].ended) {
    world.Step();
    world.clock.Advance(milliseconds(500));
  }
  EXPECT_EQ(world.results[pauses].finish, v1::FINISH_PAUSED);
  EXPECT_EQ(world.results[pauses].ids.size(), 5u) << "at 0, 0.5, 1, 1.5, and 2 s";
  world.Drain();
  EXPECT_EQ(world.results[whole].finish, v1::FINISH_LENGTH) << "its client did not ask for slices";
  EXPECT_EQ(world.core.stats().paused_requests, 1);
  world.ExpectEqualsReference(pauses, 1);
  world.ExpectEqualsReference(whole, 1);
}

TEST(EngineCoreTest, AfterStopPausingRequestsRunToTheirEnds) {
  World world(Options());
  world.SetVersion(1);
  world.change = [](Sequence& sequence) {
    sequence.may_pause = true;
    sequence.pause_size = sequence.tokens.size() + 3;
  };
  const int running = world.Add(Prompt(1, 9), 8);
  world.Step();
  world.change = [&](Sequence& sequence) {
    sequence.newer_than = 1;
    sequence.hold_until = world.clock.Now() + std::chrono::seconds(10);
  };
  const int held = world.Add(Prompt(2, 9), 3);
  world.core.StopPausing();
  world.Drain();
  EXPECT_EQ(world.results[running].finish, v1::FINISH_LENGTH);
  EXPECT_EQ(world.results[running].ids.size(), 8u);
  EXPECT_EQ(world.results[held].ids.size(), 3u);
}

TEST(EngineCoreTest, APausedRequestWaitsForANewerVersionWhileOthersRun) {
  World world(Options());
  world.SetVersion(1);
  world.change = [&](Sequence& sequence) {
    sequence.newer_than = 1;
    sequence.hold_until = world.clock.Now() + std::chrono::seconds(10);
  };
  const int held = world.Add(Prompt(1, 9), 3);
  EXPECT_FALSE(world.core.CanStep());
  world.change = nullptr;
  const int other = world.Add(Prompt(1, 9), 5);
  world.Drain();
  EXPECT_EQ(world.results[other].finish, v1::FINISH_LENGTH);
  EXPECT_TRUE(world.results[held].ids.empty());
  world.SetVersion(2);
  world.Drain();
  world.ExpectEqualsReference(held, 2);
  EXPECT_EQ(world.results[held].ids.size(), 3u);
}

TEST(EngineCoreTest, APausedRequestWaitsNoLongerThanItsLimit) {
  World world(Options());
  world.SetVersion(1);
  world.change = [&](Sequence& sequence) {
    sequence.newer_than = 1;
    sequence.hold_until = world.clock.Now() + std::chrono::seconds(10);
  };
  const int waits = world.Add(Prompt(1, 9), 3), gone = world.Add(Prompt(2, 9), 3);
  const int pinned = world.Add(Prompt(3, 9), 3, 1, world.newest);
  world.deadline = world.clock.Now() + std::chrono::seconds(4);
  const int late = world.Add(Prompt(4, 9), 3);
  world.Drain();
  world.ExpectEqualsReference(pinned, 1);
  EXPECT_EQ(world.results[pinned].ids.size(), 3u);
  world.gates[gone]->Close();
  world.Step();
  EXPECT_EQ(world.core.waiting(), 2) << "a client that goes away does not wait";
  world.clock.Advance(std::chrono::seconds(5));
  world.Step();
  EXPECT_EQ(world.results[late].error.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(world.results[late].error.message()), testing::HasSubstr("waiting for a newer version"));
  EXPECT_TRUE(world.results[waits].ids.empty());
  world.clock.Advance(std::chrono::seconds(5));
  world.Drain();
  world.ExpectEqualsReference(waits, 1);
  EXPECT_EQ(world.results[waits].ids.size(), 3u);
}

}  // namespace
}  // namespace ingot::rollout
