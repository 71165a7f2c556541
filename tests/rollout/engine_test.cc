// The engine with its threads, on a model of plain code: inbox, callbacks, cancellation, weights.
#include "rollout/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <set>

#include "base/device_failure.h"
#include "base/rng.h"
#include "rollout/collect.h"
#include "rollout/rig.h"

namespace ingot::rollout {
namespace {

using ::testing::ElementsAre;

TEST(EngineTest, AnswersARequestWithTimesAndCounts) {
  Rig rig(Options(), FakeSnapshot(3, 1003));
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 5), result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.ids.size(), 5u);
  EXPECT_EQ(result.last.finish(), v1::FINISH_LENGTH);
  EXPECT_GT(result.last.times().queued_unix_ns(), 0);
  EXPECT_GE(result.last.times().first_token_unix_ns(), result.last.times().queued_unix_ns());
  EXPECT_GE(result.last.times().end_unix_ns(), result.last.times().first_token_unix_ns());
  const v1::EngineStatusResponse status = *rig.engine->Status();
  EXPECT_EQ(status.version(), 3);
  EXPECT_EQ(status.sampled_tokens(), 5);
  EXPECT_EQ(status.prompt_tokens(), 3);
  EXPECT_EQ(status.kv_blocks_total(), 100);
  EXPECT_EQ(status.kv_blocks_used(), 0) << "freed before the last chunk is delivered";
  EXPECT_EQ(status.running(), 0);
  EXPECT_EQ(status.context_length(), 200);
}

TEST(EngineTest, SaysHowFarALongPrefillIs) {
  base::ManualClock clock;
  Rig rig(Options(), FakeSnapshot(1, 1001), {}, clock);
  EXPECT_FALSE(rig.engine->Status()->has_prefill());
  rig.gate.Close();
  Collect result;
  auto request = rig.engine->Generate(Ask(std::vector<int32_t>(100, 3), 2), result.OnChunk());
  rig.gate.AwaitHeld();
  clock.Advance(std::chrono::seconds(150));
  rig.gate.Let(2);  // forward passes of max_batch_tokens (32) rows
  rig.gate.AwaitHeld();
  const v1::EngineStatusResponse status = *rig.engine->Status();
  EXPECT_EQ(status.prefill().requests(), 1);
  EXPECT_EQ(status.prefill().tokens(), 100);
  EXPECT_EQ(status.prefill().prefilled(), 64);
  EXPECT_EQ(status.prefill().oldest_seconds(), 150);
  rig.gate.Open();
  ASSERT_EQ(result.Wait(), absl::OkStatus());
}

TEST(EngineTest, BadRequestsAreRejectedBeforeTheyAreQueued) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  const auto fault = [&](const v1::GenerateRequest& request) {
    Collect result;
    auto handle = rig.engine->Generate(request, result.OnChunk());
    return result.Wait();
  };
  EXPECT_EQ(fault(Ask({}, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault(Ask({1, 24}, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault(Ask({-1}, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault(Ask({1}, 0)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault(Ask(std::vector<int32_t>(200, 1), 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault(Ask({1}, 5, 1, 7)).code(), absl::StatusCode::kNotFound);
  v1::GenerateRequest many = Ask({1}, 5);
  many.set_top_logprobs(21);
  EXPECT_EQ(fault(many).code(), absl::StatusCode::kInvalidArgument);
  v1::GenerateRequest stop = Ask({1}, 5);
  stop.mutable_sampling()->add_stop("");
  EXPECT_EQ(fault(stop).code(), absl::StatusCode::kInvalidArgument);
}

// A prompt of 20 ids, of which [6, 14) stand for an image. A block has 4 ids.
v1::GenerateRequest AskAbout(const std::string& image) {
  v1::GenerateRequest request = Ask(std::vector<int32_t>(20, 7), 2);
  v1::Placeholders* run = request.add_placeholders();
  run->set_first(6);
  run->set_count(8);
  run->set_content(image);
  return request;
}

TEST(EngineTest, PlaceholdersOfDifferentContentNeverShareKv) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  const auto cached = [&](const v1::GenerateRequest& request) {
    Collect result;
    auto handle = rig.engine->Generate(request, result.OnChunk());
    EXPECT_EQ(result.Wait(), absl::OkStatus());
    return result.last.cached_tokens();
  };
  EXPECT_EQ(cached(AskAbout("image-01")), 0);
  EXPECT_EQ(cached(AskAbout("image-02")), 4) << "the block before the first placeholder alone";
  EXPECT_EQ(cached(Ask(std::vector<int32_t>(20, 7), 2)), 4) << "text of equal ids";
  EXPECT_EQ(cached(AskAbout("image-01")), 16);
  EXPECT_EQ(cached(AskAbout("image-02")), 16);
}

// While the first prompt is computed, the second one waits for no block that it could not share.
TEST(EngineTest, ARequestAboutAnotherImageDoesNotWaitForTheFirst) {
  EngineOptions options = Options();
  options.max_batch_tokens = 8;  // a prompt takes three passes
  Rig rig(options, FakeSnapshot(1, 1));
  rig.gate.Close();
  Collect first, second, third;
  auto a = rig.engine->Generate(AskAbout("image-01"), first.OnChunk());
  auto b = rig.engine->Generate(AskAbout("image-02"), second.OnChunk());
  auto c = rig.engine->Generate(AskAbout("image-01"), third.OnChunk());
  rig.gate.Open();
  EXPECT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_EQ(second.Wait(), absl::OkStatus());
  EXPECT_EQ(third.Wait(), absl::OkStatus());
  EXPECT_LE(second.last.cached_tokens(), 4);
  EXPECT_EQ(third.last.cached_tokens(), 16);
}

TEST(EngineTest, PlaceholdersThatAreNotSoundAreRejected) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  const auto fault = [&](const std::function<void(v1::Placeholders&)>& spoil) {
    v1::GenerateRequest request = AskAbout("image-01");
    spoil(*request.mutable_placeholders(0));
    Collect result;
    auto handle = rig.engine->Generate(request, result.OnChunk());
    return result.Wait().code();
  };
  EXPECT_EQ(fault([](auto&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(fault([](auto& run) { run.set_count(0); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault([](auto& run) { run.set_count(15); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault([](auto& run) { run.set_first(-1); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fault([](auto& run) { run.clear_content(); }), absl::StatusCode::kInvalidArgument);
}

// The fake model's routes of a call with that many prompt and sampled ids.
std::string RoutesFrom(int prompt, int sampled) {
  std::string bytes;
  for (int at = prompt - 1; at < prompt - 1 + sampled; ++at) {
    bytes += static_cast<char>((at + 300) & 0xFF);
    bytes += static_cast<char>((at + 300) >> 8);
  }
  return bytes;
}

TEST(EngineTest, RoutesAreThoseOfTheRowsThatDrewTheIds) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  v1::GenerateRequest recorded = Ask({1, 2, 3}, 5);
  recorded.set_record_routes(true);
  Collect with, without, longer;
  auto a = rig.engine->Generate(recorded, with.OnChunk());
  auto b = rig.engine->Generate(Ask({4, 5}, 5), without.OnChunk());
  v1::GenerateRequest other = Ask(std::vector<int32_t>(50, 7), 9);
  other.set_record_routes(true);
  auto c = rig.engine->Generate(other, longer.OnChunk());
  ASSERT_EQ(with.Wait(), absl::OkStatus());
  ASSERT_EQ(without.Wait(), absl::OkStatus());
  ASSERT_EQ(longer.Wait(), absl::OkStatus());
  EXPECT_EQ(with.routes, RoutesFrom(3, 5));
  EXPECT_EQ(without.routes, "");
  EXPECT_EQ(longer.routes, RoutesFrom(50, 9));
}

TEST(EngineTest, AnEngineMayRecordTheRoutesOfEveryCall) {
  EngineOptions options = Options();
  options.record_routes = true;
  Rig rig(options, FakeSnapshot(1, 1));
  Collect result;
  auto request = rig.engine->Generate(Ask({4, 5}, 5), result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.routes, RoutesFrom(2, 5));
}

TEST(EngineTest, ARequestThatCouldNeverFitTheCacheIsRejected) {
  EngineOptions options = Options();
  options.kv_cache_tokens = 40;
  Rig rig(options, FakeSnapshot(1, 1));
  Collect rejected, fits;
  auto first = rig.engine->Generate(Ask({1, 2, 3}, 39), rejected.OnChunk());
  EXPECT_EQ(rejected.Wait().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.Wait().message()), testing::HasSubstr("kv_cache_tokens"));
  auto second = rig.engine->Generate(Ask({1, 2, 3}, 38), fits.OnChunk());
  EXPECT_EQ(fits.Wait(), absl::OkStatus());
}

TEST(EngineTest, EndsAtEosAtStopIdsAtStopStringsAndAtTheContextLength) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  Collect free;
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 60), free.OnChunk());
  ASSERT_EQ(free.Wait(), absl::OkStatus());
  const auto first_of = [&](int32_t id) { return std::find(free.ids.begin(), free.ids.end(), id) - free.ids.begin(); };

  v1::GenerateRequest stop_id = Ask({1, 2, 3}, 60);
  stop_id.mutable_sampling()->add_stop_token_ids(free.ids[9]);
  Collect by_id;
  request = rig.engine->Generate(stop_id, by_id.OnChunk());
  ASSERT_EQ(by_id.Wait(), absl::OkStatus());
  EXPECT_EQ(by_id.last.finish(), v1::FINISH_STOP);
  EXPECT_EQ(static_cast<ptrdiff_t>(by_id.ids.size()), first_of(free.ids[9]) + 1);

  v1::GenerateRequest stop_string = Ask({1, 2, 3}, 60);
  const std::string text = {static_cast<char>('a' + free.ids[20]), static_cast<char>('a' + free.ids[21]),
                            static_cast<char>('a' + free.ids[22])};
  stop_string.mutable_sampling()->add_stop("never said");
  stop_string.mutable_sampling()->add_stop(text);
  Collect by_string;
  request = rig.engine->Generate(stop_string, by_string.OnChunk());
  ASSERT_EQ(by_string.Wait(), absl::OkStatus());
  EXPECT_EQ(by_string.last.finish(), v1::FINISH_STOP);
  EXPECT_EQ(by_string.last.stop_string(), text);
  EXPECT_LE(by_string.ids.size(), 23u);
  EXPECT_GE(by_string.ids.size(), 3u);

  Rig with_eos(Options(), FakeSnapshot(1, 1), {free.ids[5]});
  Collect by_eos, ignored;
  request = with_eos.engine->Generate(Ask({1, 2, 3}, 60), by_eos.OnChunk());
  ASSERT_EQ(by_eos.Wait(), absl::OkStatus());
  EXPECT_EQ(static_cast<ptrdiff_t>(by_eos.ids.size()), first_of(free.ids[5]) + 1);
  v1::GenerateRequest ignore = Ask({1, 2, 3}, 60);
  ignore.mutable_sampling()->set_ignore_eos(true);
  request = with_eos.engine->Generate(ignore, ignored.OnChunk());
  ASSERT_EQ(ignored.Wait(), absl::OkStatus());
  EXPECT_EQ(ignored.ids, free.ids);

  Collect full;
  request = rig.engine->Generate(Ask(std::vector<int32_t>(190, 2), 60), full.OnChunk());
  ASSERT_EQ(full.Wait(), absl::OkStatus());
  EXPECT_EQ(full.last.finish(), v1::FINISH_LENGTH);
  EXPECT_EQ(full.ids.size(), 10u);
}

TEST(EngineTest, TopLogprobsComeWithEveryToken) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 4);
  ask.set_top_logprobs(3);
  ask.mutable_sampling()->set_temperature(0);
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  ASSERT_EQ(result.top.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(result.top[i].entries_size(), 3);
    EXPECT_EQ(result.top[i].entries(0).token_id(), result.ids[i]);
    EXPECT_EQ(result.top[i].entries(0).logprob(), result.logprobs[i]);
  }
}

// The record has what a client with as many top_logprobs gets, and the samples are those without a record.
TEST(EngineTest, RecordedAlternativesAreTheMostLikelyIdsAndChangeNothingElse) {
  EngineOptions options = Options();
  options.record_alternatives = 3;
  Rig recording(options, FakeSnapshot(1, 1)), plain(Options(), FakeSnapshot(1, 1));
  Collect recorded, unrecorded;
  auto a = recording.engine->Generate(Ask({1, 2, 3}, 20), recorded.OnChunk());
  v1::GenerateRequest ask = Ask({1, 2, 3}, 20);
  ask.set_top_logprobs(3);
  auto b = plain.engine->Generate(ask, unrecorded.OnChunk());
  ASSERT_EQ(recorded.Wait(), absl::OkStatus());
  ASSERT_EQ(unrecorded.Wait(), absl::OkStatus());
  EXPECT_EQ(recorded.ids, unrecorded.ids);
  EXPECT_EQ(recorded.logprobs, unrecorded.logprobs);
  EXPECT_TRUE(recorded.top.empty());
  EXPECT_TRUE(unrecorded.alternative_ids.empty());
  ASSERT_EQ(recorded.alternative_ids.size(), 60u);
  ASSERT_EQ(recorded.alternative_logprobs.size(), 60u);
  for (size_t i = 0; i < 60; ++i) {
    const v1::TopLogprob& expected = unrecorded.top[i / 3].entries(static_cast<int>(i % 3));
    EXPECT_EQ(recorded.alternative_ids[i], expected.token_id());
    EXPECT_EQ(recorded.alternative_logprobs[i], expected.logprob());
  }
}

TEST(EngineTest, ManyAtOnceEqualEachAlone) {
  std::vector<std::vector<int32_t>> alone;
  const auto ask = [](int i) { return Ask({i % 5, 2, i % 3}, 5 + i, 40 + i); };
  for (int i = 0; i < 20; ++i) {
    Rig rig(Options(), FakeSnapshot(1, 1));
    Collect result;
    auto request = rig.engine->Generate(ask(i), result.OnChunk());
    ASSERT_EQ(result.Wait(), absl::OkStatus());
    alone.push_back(result.ids);
  }
  Rig rig(Options(), FakeSnapshot(1, 1));
  std::deque<Collect> results(20);
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(rig.engine->Generate(ask(i), results[i].OnChunk()));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(results[i].Wait(), absl::OkStatus());
    EXPECT_EQ(results[i].ids, alone[i]);
  }
}

TEST(EngineTest, ARequestBeyondTheLimitsIsRejectedNotQueued) {
  EngineOptions options = Options();
  options.max_running = 2;
  options.max_waiting = 1;
  Rig rig(options, FakeSnapshot(1, 1));
  rig.gate.Close();
  std::deque<Collect> results(4);
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(rig.engine->Generate(Ask({1}, 3), results[i].OnChunk()));
  EXPECT_EQ(results[3].Wait().code(), absl::StatusCode::kResourceExhausted);
  rig.gate.Open();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(results[i].Wait(), absl::OkStatus());
}

TEST(EngineTest, AFaultIsReportedAndRejectsLaterRequests) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  rig.gate.Close();
  Collect lost, late;
  auto first = rig.engine->Generate(Ask({1}, 3), lost.OnChunk());
  rig.runner->fail = base::DeviceFailure("an uncorrectable ECC error");
  EXPECT_EQ(rig.engine->fault(), absl::OkStatus());
  rig.gate.Open();
  EXPECT_EQ(lost.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(base::IsDeviceFailure(rig.engine->fault()));
  auto second = rig.engine->Generate(Ask({1}, 3), late.OnChunk());
  EXPECT_THAT(late.Wait().ToString(), testing::AllOf(testing::HasSubstr("UNAVAILABLE"), testing::HasSubstr("ECC")));
}

TEST(EngineTest, WeightsThatFindNoMemorySeveralTimesAreAFault) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  const auto load = [&](int64_t version) { return rig.engine->Share(FakeSnapshot(version, 9), weights::Place::kLive); };
  rig.runner->fail_load = absl::ResourceExhaustedError("out of memory");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(load(2).ok());
  rig.runner->fail_load = absl::OkStatus();
  EXPECT_TRUE(load(2).ok());
  rig.runner->fail_load = absl::ResourceExhaustedError("out of memory");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(load(3).ok());
  EXPECT_EQ(rig.engine->fault(), absl::OkStatus());
  EXPECT_FALSE(load(3).ok());
  EXPECT_THAT(rig.engine->fault().ToString(),
              testing::AllOf(testing::HasSubstr("INTERNAL"), testing::HasSubstr("3 attempts")));
}

TEST(EngineTest, RequestsWaitForTheFirstWeights) {
  Rig rig;
  EXPECT_EQ(rig.engine->Status()->version(), -1);
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2}, 3), result.OnChunk());
  ASSERT_EQ(rig.Update(0).status(), absl::OkStatus());
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.versions.front().version(), 0);
}

TEST(EngineTest, ADestroyedRequestHearsNothingMoreAndFreesItsBlocks) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  for (int round = 0; round < 50; ++round) {
    Collect result;
    auto request = rig.engine->Generate(Ask({1, 2, 3}, 100, round), result.OnChunk());
    if (round % 2 == 0) result.WaitForTokens(3);
    request.reset();
    result.ExpectNothingMore();  // a later chunk would fail the test
  }
  Collect after;
  auto request = rig.engine->Generate(Ask({1}, 2), after.OnChunk());
  ASSERT_EQ(after.Wait(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Status()->kv_blocks_used(), 0);
}

TEST(EngineTest, ARequestMayBeDestroyedInsideAnothersOnChunkAndEvenItsOwn) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  Collect other;
  auto victim = rig.engine->Generate(Ask({1, 2, 3}, 150), other.OnChunk());
  Collect result;
  std::unique_ptr<Client::Request> own;
  rig.gate.Close();
  own = rig.engine->Generate(Ask({1}, 50), [&](absl::StatusOr<v1::GenerateChunk>) {
    victim.reset();
    own.reset();
    result.Finish();
  });
  rig.gate.Open();
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  Collect after;
  auto last = rig.engine->Generate(Ask({1}, 2), after.OnChunk());
  ASSERT_EQ(after.Wait(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Status()->kv_blocks_used(), 0);
}

TEST(EngineTest, ShutdownEndsEveryRequestWithUnavailable) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  rig.gate.Close();
  std::deque<Collect> results(12);
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (Collect& result : results) requests.push_back(rig.engine->Generate(Ask({1, 2}, 150), result.OnChunk()));
  std::thread stopper([&] { rig.engine->Shutdown(); });
  while (rig.engine->Status().ok()) std::this_thread::yield();
  rig.gate.Open();
  stopper.join();
  for (Collect& result : results) EXPECT_EQ(result.Wait().code(), absl::StatusCode::kUnavailable);
  Collect late;
  auto request = rig.engine->Generate(Ask({1}, 2), late.OnChunk());
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig.engine->Status().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig.Update(2).status().code(), absl::StatusCode::kUnavailable);
}

TEST(EngineTest, ADrainingEngineEndsItsRequestsAndTakesNoMore) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  rig.gate.Close();
  Collect running;
  auto request = rig.engine->Generate(Ask({1, 2}, 5), running.OnChunk());
  EXPECT_FALSE(rig.engine->Drain(std::chrono::milliseconds(0))) << "one is in flight";
  Collect late;
  auto rejected = rig.engine->Generate(Ask({1}, 2), late.OnChunk());
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kUnavailable);
  std::thread leaving([&] { EXPECT_TRUE(rig.engine->Drain(std::chrono::hours(1))); });
  rig.gate.Open();
  leaving.join();
  EXPECT_EQ(running.Wait(), absl::OkStatus());
  EXPECT_TRUE(rig.Update(2).ok()) << "until it is gone it is told of new versions";
}

TEST(EngineTest, ASwapReachesRequestsInFlightAndLeavesPinnedOnesAlone) {
  Rig alone(Options(), FakeSnapshot(1, 1001));
  Collect expected;
  auto reference = alone.engine->Generate(Ask({5, 6, 7}, 60, 9), expected.OnChunk());
  ASSERT_EQ(expected.Wait(), absl::OkStatus());

  EngineOptions options = Options();
  options.context_length = 5000;
  options.kv_cache_tokens = 8000;
  Rig rig(options, FakeSnapshot(1, 1001));
  // Ten steps run, then none until the update is loaded. The following request is long enough to be running at the
  // swap, a moment later.
  rig.gate.Let(10);
  rig.runner->after_load = [&] { rig.gate.Open(); };
  Collect following, pinned;
  auto first = rig.engine->Generate(Ask({5, 6, 7}, 4900, 9), following.OnChunk());
  auto second = rig.engine->Generate(Ask({5, 6, 7}, 60, 9, /*pinned=*/1), pinned.OnChunk());
  following.WaitForTokens(3);
  const auto updated = rig.Update(2);
  ASSERT_EQ(updated.status(), absl::OkStatus());
  EXPECT_EQ(updated->version(), 2);
  EXPECT_GT(updated->apply_ms(), 0);
  ASSERT_EQ(pinned.Wait(), absl::OkStatus());
  EXPECT_EQ(pinned.ids, expected.ids);
  EXPECT_EQ(pinned.logprobs, expected.logprobs);
  following.WaitForVersion(2);
  first.reset();
  EXPECT_EQ(following.versions.front().version(), 1);
  EXPECT_FALSE(following.versions.front().kv_mixed());
  EXPECT_EQ(following.versions.back().version(), 2);
  EXPECT_TRUE(following.versions.back().kv_mixed());
}

EngineOptions KeepsVersions(int32_t earlier) {
  EngineOptions options = Options();
  options.episode_version = EpisodeVersion::kPinned;
  options.episode_versions = earlier;
  options.context_length = 5000;
  options.kv_cache_tokens = 8000;
  return options;
}

v1::GenerateRequest Prefer(v1::GenerateRequest request, int64_t version) {
  request.set_preferred_version(version);
  return request;
}

std::vector<int64_t> VersionsOf(const Collect& collect) {
  std::vector<int64_t> versions;
  for (const v1::VersionRun& run : collect.versions) {
    EXPECT_FALSE(run.kv_mixed());
    if (versions.empty() || versions.back() != run.version()) versions.push_back(run.version());
  }
  return versions;
}

// An episode of two calls with an update in the middle of the first.
TEST(EngineTest, CallsThatPreferAVersionAreSampledByItAlone) {
  Rig alone(Options(), FakeSnapshot(1, 1001));
  Collect expected, expected_next;
  auto reference = alone.engine->Generate(Ask({5, 6, 7}, 60, 9), expected.OnChunk());
  ASSERT_EQ(expected.Wait(), absl::OkStatus());
  std::vector<int32_t> next = {5, 6, 7};
  next.insert(next.end(), expected.ids.begin(), expected.ids.end());
  next.push_back(3);
  reference = alone.engine->Generate(Ask(next, 10, 4), expected_next.OnChunk());
  ASSERT_EQ(expected_next.Wait(), absl::OkStatus());

  Rig rig(KeepsVersions(1), FakeSnapshot(1, 1001));
  rig.gate.Let(10);
  rig.runner->after_load = [&] { rig.gate.Open(); };
  Collect first, second, following, later;
  auto request = rig.engine->Generate(Prefer(Ask({5, 6, 7}, 60, 9), -1), first.OnChunk());
  first.WaitForTokens(3);
  ASSERT_EQ(rig.Update(2).status(), absl::OkStatus());
  ASSERT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_THAT(VersionsOf(first), ElementsAre(1));
  EXPECT_EQ(first.ids, expected.ids);
  EXPECT_EQ(first.logprobs, expected.logprobs);

  request = rig.engine->Generate(Prefer(Ask(next, 10, 4), 1), second.OnChunk());
  ASSERT_EQ(second.Wait(), absl::OkStatus());
  EXPECT_THAT(VersionsOf(second), ElementsAre(1));
  EXPECT_EQ(second.ids, expected_next.ids);
  EXPECT_EQ(second.logprobs, expected_next.logprobs);
  EXPECT_EQ(second.last.cached_tokens(), expected_next.last.cached_tokens()) << "the first call's KV is still of use";
  EXPECT_GE(second.last.cached_tokens(), 56);

  request = rig.engine->Generate(Ask(next, 10, 4), following.OnChunk());
  ASSERT_EQ(following.Wait(), absl::OkStatus());
  EXPECT_THAT(VersionsOf(following), ElementsAre(2));
  EXPECT_EQ(following.last.cached_tokens(), 0) << "a new version computes the context again";

  // Version 1 is dropped now, so the episode moves to the newest one.
  ASSERT_EQ(rig.Update(3).status(), absl::OkStatus());
  request = rig.engine->Generate(Prefer(Ask(next, 10, 4), 1), later.OnChunk());
  ASSERT_EQ(later.Wait(), absl::OkStatus());
  EXPECT_THAT(VersionsOf(later), ElementsAre(3));
}

TEST(EngineTest, APreferredVersionIsNotOlderThanMinVersion) {
  Rig rig(KeepsVersions(2), FakeSnapshot(1, 1001));
  ASSERT_EQ(rig.Update(2).status(), absl::OkStatus());
  v1::GenerateRequest ask = Prefer(Ask({5, 6, 7}, 5), 1);
  ask.set_min_version(2);
  Collect collect, bad;
  auto request = rig.engine->Generate(ask, collect.OnChunk());
  ASSERT_EQ(collect.Wait(), absl::OkStatus());
  EXPECT_THAT(VersionsOf(collect), ElementsAre(2));
  request = rig.engine->Generate(Prefer(Ask({5}, 5), -2), bad.OnChunk());
  EXPECT_EQ(bad.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EngineTest, ACallThatPrefersAVersionWaitsForTheFirstWeights) {
  Rig rig(KeepsVersions(1));
  Collect collect;
  const auto request = rig.engine->Generate(Prefer(Ask({5, 6, 7}, 5), -1), collect.OnChunk());
  ASSERT_EQ(rig.Update(4).status(), absl::OkStatus());
  ASSERT_EQ(collect.Wait(), absl::OkStatus());
  EXPECT_THAT(VersionsOf(collect), ElementsAre(4));
}

// As after a restart of the trainer: version 2 does not exist in the run any more.
TEST(EngineTest, ASwapToAnOlderVersionEndsCallsThatKeepALaterOne) {
  Rig rig(KeepsVersions(2), FakeSnapshot(2, 1002));
  rig.gate.Let(10);
  rig.runner->after_load = [&] { rig.gate.Open(); };
  Collect collect;
  const auto request = rig.engine->Generate(Prefer(Ask({5, 6, 7}, 4900, 9), -1), collect.OnChunk());
  collect.WaitForTokens(3);
  ASSERT_EQ(rig.Update(1).status(), absl::OkStatus());
  const absl::Status ended = collect.Wait();
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(ended.message().find("went back to version 1"), std::string::npos) << ended;
}

TEST(EngineTest, VersionsAreHeldUntilReleasedAndNoLonger) {
  EngineOptions options = Options();
  options.max_retained_versions = 1;
  Rig rig(options, FakeSnapshot(1, 1001));
  ASSERT_EQ(rig.Update(2, /*retain=*/true).status(), absl::OkStatus());
  ASSERT_EQ(rig.Update(3).status(), absl::OkStatus());
  EXPECT_THAT(rig.engine->Status()->held_versions(), testing::UnorderedElementsAre(2, 3));
  const auto full = rig.Update(4, /*retain=*/true);
  ASSERT_EQ(full.status(), absl::OkStatus()) << "what is served goes on, whatever is held";
  EXPECT_TRUE(full->not_retained());
  ASSERT_EQ(rig.Update(5).status(), absl::OkStatus());
  EXPECT_THAT(rig.engine->Status()->held_versions(), testing::UnorderedElementsAre(2, 5));
  Collect held, gone, again;
  auto request = rig.engine->Generate(Ask({1}, 3, 1, 2), held.OnChunk());
  EXPECT_EQ(held.Wait(), absl::OkStatus());
  EXPECT_EQ(held.versions.front().version(), 2);
  EXPECT_EQ(rig.engine->Release(2), absl::OkStatus());
  EXPECT_EQ(rig.engine->Release(77), absl::OkStatus());
  request = rig.engine->Generate(Ask({1}, 3, 1, 2), gone.OnChunk());
  EXPECT_EQ(gone.Wait().code(), absl::StatusCode::kNotFound);
  const auto room = rig.Update(6, /*retain=*/true);
  ASSERT_EQ(room.status(), absl::OkStatus());
  EXPECT_FALSE(room->not_retained());
  EXPECT_THAT(rig.engine->Status()->held_versions(), testing::UnorderedElementsAre(6));
}

TEST(EngineTest, SaysWhenItLoadedEachVersionThatItHolds) {
  base::ManualClock clock(std::chrono::seconds(10));
  Rig rig(Options(), FakeSnapshot(1, 1001), {}, clock);
  clock.Advance(std::chrono::seconds(5));
  ASSERT_EQ(rig.Update(2, /*retain=*/true).status(), absl::OkStatus());
  clock.Advance(std::chrono::seconds(5));
  ASSERT_EQ(rig.Update(3).status(), absl::OkStatus());
  clock.Advance(std::chrono::seconds(5));
  const auto status = rig.engine->Status();
  ASSERT_THAT(status->held_versions(), testing::ElementsAre(2, 3));
  EXPECT_THAT(status->held_loaded_unix_ns(), testing::ElementsAre(15'000'000'000, 20'000'000'000));
}

// An engine that was started again gets a version that it must hold. It never serves it to requests that follow the
// newest.
TEST(EngineTest, AVersionHeldBesideServesRequestsPinnedToIt) {
  EngineOptions options = Options();
  options.max_retained_versions = 1;
  Rig rig(options);
  Collect early, pinned, following;
  auto none = rig.engine->Generate(Ask({1}, 3, 1, 1), early.OnChunk());
  EXPECT_EQ(early.Wait().code(), absl::StatusCode::kUnavailable) << "it may come yet";
  const auto beside = [](int64_t version) { return *weights::EncodeHeld(*FakeSnapshot(version, 1000 + version)); };
  auto waits = rig.engine->Generate(Ask({1}, 3), following.OnChunk());
  ASSERT_EQ(rig.engine->Update(beside(1)).status(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Update(beside(1))->version(), 1) << "told again";
  EXPECT_EQ(*rig.engine->LiveVersion(), -1);
  auto request = rig.engine->Generate(Ask({1}, 3, 1, 1), pinned.OnChunk());
  ASSERT_EQ(pinned.Wait(), absl::OkStatus());
  EXPECT_EQ(pinned.versions.front().version(), 1);
  EXPECT_EQ(following.ids.size(), 0u);
  ASSERT_EQ(rig.engine->Update(*weights::Encode(nullptr, *FakeSnapshot(5, 1005), false)).status(), absl::OkStatus());
  ASSERT_EQ(following.Wait(), absl::OkStatus());
  EXPECT_EQ(following.versions.front().version(), 5);
  EXPECT_THAT(rig.engine->Status()->held_versions(), testing::UnorderedElementsAre(1, 5));
  EXPECT_EQ(rig.engine->Update(beside(2)).status().code(), absl::StatusCode::kResourceExhausted);
  // A new version of the same number replaces it.
  const auto anew = FakeSnapshot(1, 7);
  ASSERT_EQ(rig.engine->Update(*weights::EncodeHeld(*anew)).status(), absl::OkStatus());
  EXPECT_EQ(rig.engine->HeldVersions()->front(), (weights::HeldVersion{1, anew->checksum()}));
  // A release frees it. A version to be held beside is a full copy.
  ASSERT_EQ(rig.engine->Release(1), absl::OkStatus());
  weights::EncodedDelta delta = *weights::Encode(rig.engine->newest().get(), *FakeSnapshot(6, 1006), true);
  delta.header.set_beside(true);
  delta.header.set_checksum(weights::HeaderChecksum(delta.header));
  EXPECT_EQ(rig.engine->Update(delta).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*rig.engine->LiveVersion(), 5);
}

// The engine of the trainer's own process reads the trainer's version where it is.
TEST(EngineTest, ASharedVersionIsServedAsAnUpdateOfItIs) {
  Rig updated(Options(), FakeSnapshot(1, 1001)), rig(Options(), FakeSnapshot(1, 1001));
  const auto sample = [](Rig& of, int64_t pinned) {
    Collect result;
    auto request = of.engine->Generate(Ask({5, 6, 7}, 20, 9, pinned), result.OnChunk());
    EXPECT_EQ(result.Wait(), absl::OkStatus());
    return std::pair(result.ids, result.logprobs);
  };
  ASSERT_TRUE(updated.Update(2, /*retain=*/true).ok());
  const auto second = FakeSnapshot(2, 1002);
  ASSERT_TRUE(rig.engine->SharesMemory());
  const auto shared = rig.engine->Share(second, weights::Place::kLiveRetained);
  ASSERT_EQ(shared.status(), absl::OkStatus());
  EXPECT_EQ(shared->version(), 2);
  EXPECT_EQ(shared->fetch_ms(), 0);
  EXPECT_FALSE(shared->not_retained());
  EXPECT_EQ(rig.engine->newest(), second) << "the same memory";
  EXPECT_EQ(sample(rig, -1), sample(updated, -1));

  ASSERT_TRUE(updated.Update(3).ok());
  ASSERT_EQ(rig.engine->Share(FakeSnapshot(3, 1003), weights::Place::kLive).status(), absl::OkStatus());
  EXPECT_EQ(sample(rig, -1), sample(updated, -1));
  EXPECT_EQ(sample(rig, 2), sample(updated, 2)) << "retained";
  EXPECT_EQ(rig.engine->Share(FakeSnapshot(3, 1003), weights::Place::kLive)->version(), 3) << "told again";

  ASSERT_TRUE(rig.engine->Share(FakeSnapshot(9, 1009), weights::Place::kBeside).ok());
  EXPECT_EQ(*rig.engine->LiveVersion(), 3);
  EXPECT_THAT(rig.engine->Status()->held_versions(), testing::UnorderedElementsAre(2, 3, 9));
  ASSERT_TRUE(rig.engine->Release(2).ok());
  EXPECT_EQ(second.use_count(), 1) << "nobody reads it any more: its memory may be written";
}

TEST(EngineTest, ASharedVersionReachesRequestsInFlightBetweenTwoSteps) {
  EngineOptions options = Options();
  options.context_length = 5000;
  options.kv_cache_tokens = 8000;
  Rig rig(options, FakeSnapshot(1, 1001));
  rig.gate.Let(10);
  rig.runner->after_load = [&] { rig.gate.Open(); };
  Collect following;
  auto first = rig.engine->Generate(Ask({5, 6, 7}, 4900, 9), following.OnChunk());
  following.WaitForTokens(3);
  ASSERT_EQ(rig.engine->Share(FakeSnapshot(2, 1002), weights::Place::kLive).status(), absl::OkStatus());
  following.WaitForVersion(2);
  first.reset();
  EXPECT_EQ(following.versions.front().version(), 1);
  EXPECT_EQ(following.versions.back().version(), 2);
  EXPECT_TRUE(following.versions.back().kv_mixed());
}

TEST(EngineTest, SaysHowLongANewVersionTookUntilItsFirstToken) {
  base::ManualClock clock(std::chrono::seconds(10));
  Rig rig(Options(), FakeSnapshot(1, 1001), {}, clock);
  const auto sample = [&](int64_t pinned) {
    Collect result;
    auto request = rig.engine->Generate(Ask({5, 6, 7}, 3, 9, pinned), result.OnChunk());
    EXPECT_EQ(result.Wait(), absl::OkStatus());
  };
  sample(-1);
  EXPECT_FALSE(rig.engine->Status()->has_first_token()) << "version 1 was there from the start";
  rig.runner->after_load = [&] { clock.Advance(std::chrono::milliseconds(40)); };
  const auto second = FakeSnapshot(2, 1002);
  auto delta = *weights::Encode(rig.engine->newest().get(), *second, /*retain=*/true);
  delta.fetch = std::chrono::milliseconds(300);
  ASSERT_TRUE(rig.engine->Update(delta).ok());
  clock.Advance(std::chrono::milliseconds(5));
  EXPECT_FALSE(rig.engine->Status()->has_first_token());
  sample(-1);
  v1::SwapTimes times = rig.engine->Status()->first_token();
  EXPECT_EQ(times.version(), 2);
  EXPECT_EQ(times.checksum(), second->checksum());
  EXPECT_EQ(times.fetch_ms(), 300);
  EXPECT_EQ(times.apply_ms(), 40);
  EXPECT_EQ(times.wait_ms(), 0);
  EXPECT_EQ(times.first_token_ms(), 5);

  // Tokens of an older version are not the newest one's.
  ASSERT_TRUE(rig.engine->Share(FakeSnapshot(3, 1003), weights::Place::kLive).ok());
  clock.Advance(std::chrono::milliseconds(7));
  sample(2);
  EXPECT_EQ(rig.engine->Status()->first_token().version(), 2);
  sample(-1);
  times = rig.engine->Status()->first_token();
  EXPECT_EQ(times.version(), 3);
  EXPECT_EQ(times.fetch_ms(), 0);
  EXPECT_EQ(times.first_token_ms(), 7);
}

// An engine that outlived its run serves the old run's version of a number until the new run sends its own.
TEST(EngineTest, PinnedRequestsGetTheLatestUpdateOfAVersionNumber) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  const auto expect_pinned_to = [&rig](const std::shared_ptr<const weights::Snapshot>& snapshot) {
    Rig fresh(Options(), snapshot);
    Collect expected, pinned;
    auto alone = fresh.engine->Generate(Ask({5, 6, 7}, 20, 9, /*pinned=*/1), expected.OnChunk());
    auto request = rig.engine->Generate(Ask({5, 6, 7}, 20, 9, /*pinned=*/1), pinned.OnChunk());
    ASSERT_EQ(expected.Wait(), absl::OkStatus());
    ASSERT_EQ(pinned.Wait(), absl::OkStatus());
    EXPECT_EQ(pinned.ids, expected.ids);
    EXPECT_EQ(pinned.logprobs, expected.logprobs);
    EXPECT_THAT(*rig.engine->HeldVersions(), testing::ElementsAre(weights::HeldVersion{1, snapshot->checksum()}));
  };
  const auto beside = FakeSnapshot(1, 7), live = FakeSnapshot(1, 9);
  ASSERT_EQ(rig.engine->Update(*weights::EncodeHeld(*beside)).status(), absl::OkStatus());
  expect_pinned_to(beside);
  ASSERT_EQ(rig.engine->Update(*weights::Encode(nullptr, *live, /*retain=*/false)).status(), absl::OkStatus());
  expect_pinned_to(live);
  ASSERT_EQ(rig.engine->Update(*weights::EncodeHeld(*beside)).status(), absl::OkStatus());
  ASSERT_EQ(rig.engine->Update(*weights::Encode(nullptr, *live, /*retain=*/false)).status(), absl::OkStatus());
  expect_pinned_to(live);  // although it was live already
}

TEST(EngineTest, ACancelledUpdateChangesNothing) {
  Rig rig(Options(), FakeSnapshot(4, 1004));
  int loads = 0;
  rig.runner->after_load = [&] { ++loads; };
  const weights::EncodedDelta update = *weights::Encode(nullptr, *FakeSnapshot(5, 1005), /*retain=*/true);
  const weights::EncodedDelta beside = *weights::EncodeHeld(*FakeSnapshot(3, 1003));
  for (const weights::EncodedDelta* delta : {&update, &beside}) {
    // Before its turn, and during the load.
    EXPECT_EQ(rig.engine->UpdateUnless(*delta, [] { return true; }).status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(loads, 0);
    EXPECT_EQ(rig.engine->UpdateUnless(*delta, [&] { return loads > 0; }).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(std::exchange(loads, 0), 1);
    EXPECT_THAT(rig.engine->Status()->held_versions(), testing::ElementsAre(4));
  }
  EXPECT_EQ(rig.engine->UpdateUnless(update, [] { return false; }).status(), absl::OkStatus());
  EXPECT_EQ(*rig.engine->LiveVersion(), 5);
}

TEST(EngineTest, ARequestWithAMinVersionAfterTheNewestIsRejected) {
  Rig rig(Options(), FakeSnapshot(4, 4));
  v1::GenerateRequest request = Ask({1}, 5);
  request.set_min_version(5);
  Collect rejected, taken, pinned;
  auto first = rig.engine->Generate(request, rejected.OnChunk());
  EXPECT_EQ(rejected.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(rejected.Wait().message()), testing::HasSubstr("at version 4"));
  request.set_pinned_version(4);
  auto second = rig.engine->Generate(request, pinned.OnChunk());
  EXPECT_EQ(pinned.Wait(), absl::OkStatus()) << "who names a version gets it";
  request.set_pinned_version(-1);
  request.set_min_version(4);
  auto third = rig.engine->Generate(request, taken.OnChunk());
  EXPECT_EQ(taken.Wait(), absl::OkStatus());
}

// An engine that was started again gets an older version than the one at the request's admission.
TEST(EngineTest, FirstWeightsOlderThanMinVersionRejectAWaitingRequest) {
  Rig rig;
  v1::GenerateRequest request = Ask({1}, 5);
  request.set_min_version(7);
  Collect rejected;
  auto waiting = rig.engine->Generate(request, rejected.OnChunk());
  ASSERT_EQ(rig.Update(6).status(), absl::OkStatus());
  EXPECT_EQ(rejected.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(rejected.Wait().message()), testing::HasSubstr("request r: this engine is at version 6"));
  EXPECT_TRUE(rejected.ids.empty());
  EXPECT_EQ(rig.engine->Status()->running() + rig.engine->Status()->waiting(), 0);
}

TEST(EngineTest, AWrongBaseIsRejectedAndAFullCopyHeals) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  const auto stranger = FakeSnapshot(5, 5);
  const auto next = FakeSnapshot(6, 6);
  EXPECT_EQ(rig.engine->Update(*weights::Encode(stranger.get(), *next, false)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.engine->Status()->version(), 1);
  ASSERT_EQ(rig.engine->Update(*weights::Encode(nullptr, *next, false)).status(), absl::OkStatus());
  EXPECT_EQ(rig.engine->newest()->checksum(), next->checksum());
  EXPECT_EQ(rig.engine->Update(*weights::Encode(stranger.get(), *next, false)).status(), absl::OkStatus())
      << "what is live already needs no swap";
}

TEST(EngineTest, AnUpdateWhoseStepDoesNotEndInTimeChangesNothing) {
  base::ManualClock clock;
  Rig rig(Options(), FakeSnapshot(1, 1001), {}, clock);
  rig.gate.Let(1);
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2}, 50), result.OnChunk());
  result.WaitForTokens(1);
  rig.gate.AwaitHeld();  // the next step does not end
  auto updated = std::async(std::launch::async, [&] { return rig.Update(2).status().code(); });
  clock.AwaitWaiters(1);
  clock.Advance(std::chrono::milliseconds(Options().update_deadline_ms));
  EXPECT_EQ(updated.get(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(rig.engine->newest()->version(), 1);
}

TEST(EngineTest, ARequestThatNoWeightsComeForEndsAtItsDeadline) {
  base::ManualClock clock;
  EngineOptions options = Options();
  options.request_deadline_ms = 1000;
  Rig rig(options, nullptr, {}, clock);
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2}, 50), result.OnChunk());
  clock.AwaitWaiters(1);
  clock.Advance(std::chrono::milliseconds(1000));
  EXPECT_EQ(result.Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

// Threads that generate, cancel and update at once, under little memory.
TEST(EngineTest, ConcurrentUseLosesNothing) {
  EngineOptions options = Options();
  options.kv_cache_tokens = 120;
  Rig rig(options, FakeSnapshot(0, 1000));
  std::atomic<bool> stop{false};
  std::thread updater([&] {
    for (int64_t version = 1; !stop; ++version) ASSERT_EQ(rig.Update(version).status(), absl::OkStatus());
  });
  std::vector<std::thread> users;
  for (int user = 0; user < 3; ++user) {
    users.emplace_back([&, user] {
      for (int i = 0; i < 60; ++i) {
        Collect result;
        const uint64_t random = base::DeriveSeed(user, i);
        std::vector<int32_t> prompt(1 + random % 20, static_cast<int32_t>(random % 3));
        auto request =
            rig.engine->Generate(Ask(prompt, 1 + static_cast<int32_t>(random % 40), random), result.OnChunk());
        if (random % 4 == 0) {
          result.WaitForTokens(1);
          request.reset();
          result.ExpectNothingMore();
        } else {
          ASSERT_EQ(result.Wait(), absl::OkStatus());
          ASSERT_EQ(result.ids.size(), 1 + random % 40);
        }
      }
    });
  }
  for (std::thread& user : users) user.join();
  stop = true;
  updater.join();
  Collect after;
  auto request = rig.engine->Generate(Ask({1}, 2), after.OnChunk());
  ASSERT_EQ(after.Wait(), absl::OkStatus());
  const v1::EngineStatusResponse status = *rig.engine->Status();
  EXPECT_EQ(status.kv_blocks_used(), 0);
  EXPECT_EQ(status.running() + status.waiting(), 0);
}

}  // namespace
}  // namespace ingot::rollout
