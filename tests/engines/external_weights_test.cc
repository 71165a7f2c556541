// Versions of the external engine: swaps under running requests, and loads that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "engines/external_rig.h"
#include "trials.h"
#include "weights/delta.h"

namespace ingot::engines::external_weights_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)

class ExternalWeights : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalWeights, kEachServer, KindName);

TEST_P(ExternalWeights, TakesDeltasAndFullCopies) {
  Served served;
  const auto two = Seeded(2, 102), three = Seeded(3, 103), base = Seeded(1, 101);
  EXPECT_EQ(served.rig.engine->Update(*weights::Encode(base.get(), *two, false)).status(), absl::OkStatus());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(served.rig.engine->Update(*weights::Encode(base.get(), *three, false)).status()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), 2);
  const auto full = served.rig.engine->Update(*weights::Encode(nullptr, *three, true));
  ASSERT_EQ(full.status(), absl::OkStatus());
  EXPECT_TRUE(full->not_retained());
  EXPECT_EQ(*served.rig.engine->HeldVersions(), (std::vector<weights::HeldVersion>{{3, three->checksum()}}));
  EXPECT_TRUE(absl::IsResourceExhausted(served.rig.engine->Update(*weights::EncodeHeld(*two)).status()));
}

// Streams that run from the first version to the last.
TEST_P(ExternalWeights, NamesTheVersionOfEachTokenWhileWeightsChange) {
  constexpr int32_t kMost = 3900;
  const int64_t newest = 1 + Trials(6, 50);
  rollout::EngineOptions options = Options();
  options.context_length = 4000;
  for (const SwapMode swap : {SwapMode::kKeep, SwapMode::kRecompute}) {
    Served served({.swap = swap}, options);
    // On a busy machine, too, no stream is complete before the last version.
    served.server.Fault("slow_ms", 30);
    std::deque<Collect> answers(16);
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    for (Collect& answer : answers) requests.push_back(served.rig.engine->Generate(Ask(kMost), answer.OnChunk()));
    for (Collect& answer : answers) answer.WaitForTokens(3);
    for (int64_t version = 2; version <= newest; ++version) {
      ASSERT_EQ(served.rig.Share(version, static_cast<uint32_t>(SeedOf(version))).status(), absl::OkStatus());
      Collect fresh;
      const auto request = served.rig.engine->Generate(Ask(4), fresh.OnChunk());
      ASSERT_EQ(fresh.Wait(), absl::OkStatus());
      CheckAnswer(fresh, 3, SeedOf);
      EXPECT_EQ(fresh.last.answer_versions(0).version(), version);
      for (Collect& answer : answers) answer.WaitForVersion(version);
    }
    served.server.Fault("end", true);
    for (Collect& answer : answers) {
      ASSERT_EQ(answer.Wait(), absl::OkStatus());
      ASSERT_LT(std::ssize(answer.ids), kMost) << "it ended before the last version";
      CheckAnswer(answer, 3, SeedOf);
      std::vector<int64_t> versions;
      for (const v1::VersionRun& run : answer.last.answer_versions()) {
        versions.push_back(run.version());
        EXPECT_EQ(run.kv_mixed(), swap == SwapMode::kKeep && run.version() > 1);
      }
      std::vector<int64_t> all(static_cast<size_t>(newest));
      std::iota(all.begin(), all.end(), 1);
      EXPECT_EQ(versions, all);
    }
    EXPECT_EQ(served.server.State("overlap"), 0) << "it drew tokens of torn weights";
  }
}

TEST_P(ExternalWeights, EndsOrDrainsRequestsAsAsked) {
  for (const SwapMode swap : {SwapMode::kDrain, SwapMode::kAbort}) {
    if (swap == SwapMode::kDrain && !IsVllm()) continue;  // SGLang cannot
    Served served({.swap = swap});
    served.server.Fault("slow_ms", 2);
    Collect answer;
    const auto request = served.rig.engine->Generate(Ask(60), answer.OnChunk());
    answer.WaitForTokens(2);
    ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
    const absl::Status end = answer.Wait();
    EXPECT_EQ(end.code(), swap == SwapMode::kDrain ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable);
    EXPECT_EQ(answer.last.answer_versions_size(), swap == SwapMode::kDrain ? 1 : 0);
  }
}

TEST_P(ExternalWeights, LoadsAgainWhileTheServerStaysPaused) {
  Served served;
  Collect answer;
  served.server.Fault("slow_ms", 2);
  const auto request = served.rig.engine->Generate(Ask(100), answer.OnChunk());
  answer.WaitForTokens(2);
  served.server.Fault("load", 2);
  ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  CheckAnswer(answer, 3, SeedOf);
  EXPECT_EQ(served.server.State("overlap"), 0);
}

TEST_P(ExternalWeights, DeliversNothingOfTornWeights) {
  Served served;
  served.server.Fault("slow_ms", 2);
  std::deque<Collect> answers(6);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (Collect& answer : answers) requests.push_back(served.rig.engine->Generate(Ask(190), answer.OnChunk()));
  answers[0].WaitForTokens(2);
  served.server.Fault("load", 1000);
  EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(2, 102).status()));
  for (Collect& answer : answers) EXPECT_TRUE(absl::IsUnavailable(answer.Wait()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), -1);
  Collect rejected;
  const auto late = served.rig.engine->Generate(Ask(5), rejected.OnChunk());
  EXPECT_TRUE(absl::IsUnavailable(rejected.Wait()));
  EXPECT_TRUE(served.server.State().at("paused").as_bool());
  // The keeper loads the last accepted version as soon as the server can.
  served.server.Fault("load", 0);
  ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; }));
  Collect again;
  const auto request = served.rig.engine->Generate(Ask(5), again.OnChunk());
  ASSERT_EQ(again.Wait(), absl::OkStatus());
  CheckAnswer(again, 3, SeedOf);
  EXPECT_EQ(served.server.State("overlap"), 0);
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
}

TEST_P(ExternalWeights, StaysAtTheOldVersionIfThePauseFails) {
  Served served;
  served.server.Fault("pause", 1);
  EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(2, 102).status()));
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(5), answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.last.answer_versions(0).version(), 1);
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
}

TEST_P(ExternalWeights, LosesItsVersionIfTheServerIsNotLabeledOrResumed) {
  for (const char* call : {"label", "resume"}) {
    Served served;
    served.server.Fault(call, 1000);
    EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(2, 102).status())) << call;
    EXPECT_EQ(*served.rig.engine->LiveVersion(), -1);
    served.server.Fault(call, 0);
    ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; }));
    EXPECT_EQ(served.server.State("seed"), 101);
  }
}

TEST_P(ExternalWeights, GivesUpAnUpdateThatItsSenderAbandoned) {
  Served served;
  const weights::EncodedDelta two = *weights::Encode(nullptr, *Seeded(2, 102), false);
  EXPECT_TRUE(absl::IsCancelled(served.rig.engine->UpdateUnless(two, [] { return true; }).status()));
  int asked = 0;  // while it waits for the server, in its turn, and after the pause
  EXPECT_TRUE(absl::IsCancelled(served.rig.engine->UpdateUnless(two, [&] { return ++asked > 1; }).status()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), 1);
  EXPECT_FALSE(served.server.State().at("paused").as_bool());
  EXPECT_EQ(served.server.State("seed"), 101);
}

// Its prefix cache may be of other weights under the same salt, such as those that a restarted run trained again.
TEST_P(ExternalWeights, ClearsTheCacheOfAServerWhoseWeightsAreUnknown) {
  const auto pauses = [](const FakeServer& server) {
    std::vector<std::string> all;
    const value state = server.State();
    for (const value& call : state.at("calls").as_array()) {
      const std::string path(call.as_string());
      if (path.starts_with("/pause") || path == "/flush_cache") all.push_back(path);
    }
    return all;
  };
  Served served({.trial_load = false});
  ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  std::vector<std::string> clear = {"/pause?mode=abort&clear_cache=true"};
  std::vector<std::string> expected = {clear[0], "/pause?mode=keep&clear_cache=false"};
  if (!IsVllm()) {
    clear = {"/pause_generation retract", "/flush_cache"};
    expected = {clear[0], clear[1], "/pause_generation in_place"};
  }
  EXPECT_EQ(pauses(served.server), expected);
  served.server.Post("/fake/label", object{{"label", "someone-else"}});
  expected.insert(expected.end(), clear.begin(), clear.end());
  ASSERT_TRUE(Await([&] { return pauses(served.server).size() == expected.size(); }));
  EXPECT_EQ(pauses(served.server), expected);
}

TEST(ExternalOptions, RejectsMixedCachesThatNoTokenWouldShow) {
  ExternalOptions external{.salt = false};
  EXPECT_TRUE(absl::IsInvalidArgument(external.Validate(EngineKind::kVllm)));
  external.swap = SwapMode::kRecompute;
  EXPECT_EQ(external.Validate(EngineKind::kVllm), absl::OkStatus());
}

TEST(ExternalOptions, RejectsWhatAServerCannotDo) {
  ExternalOptions drain{.swap = SwapMode::kDrain}, fleet{.workers = {"http://127.0.0.1:1"}};
  EXPECT_EQ(drain.Validate(EngineKind::kVllm), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(drain.Validate(EngineKind::kSglang)));
  EXPECT_TRUE(absl::IsInvalidArgument(fleet.Validate(EngineKind::kVllm)));
  fleet.url = "http://127.0.0.1:2";
  EXPECT_EQ(fleet.Validate(EngineKind::kVllm), absl::OkStatus());
}

TEST(ExchangeFolders, OneThatCannotBeCreatedIsNamedWithItsKey) {
  const std::string file = ::testing::TempDir() + "no-folder";
  std::ofstream(file) << "x";
  for (const absl::Status& status : {ExchangeFolder::Open(file + "/exchange", "test", WriteSeed).status(),
                                     ClaimServer(file, "http://127.0.0.1:1").status()}) {
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(::testing::HasSubstr(file), ::testing::HasSubstr("rollout.external.exchange")));
  }
}

TEST_P(ExternalWeights, LeavesNoFolderBehind) {
  std::string folder;
  {
    Served served;
    ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
    ASSERT_EQ(served.rig.Share(3, 103).status(), absl::OkStatus());
    folder = ExchangeRoot() + "/test-" + std::to_string(::getpid());
    int versions = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) versions += entry.is_directory();
    EXPECT_EQ(versions, 2);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_P(ExternalWeights, DrainsForLongerThanALoadMayTake) {
  if (!IsVllm()) GTEST_SKIP() << "SGLang cannot drain";
  Served served({.swap = SwapMode::kDrain, .load_s = 1});
  served.server.Fault("slow_ms", 10);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(150), answer.OnChunk());
  answer.WaitForTokens(2);
  ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  EXPECT_EQ(answer.Wait(), absl::OkStatus());
}

TEST_P(ExternalWeights, TwoUpdatesTakeTurns) {
  Served served;
  served.server.Fault("load_ms", 50);
  std::thread other([&] { EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus()); });
  EXPECT_EQ(served.rig.Share(3, 103).status(), absl::OkStatus());
  other.join();
  const int64_t live = *served.rig.engine->LiveVersion();
  EXPECT_EQ(served.server.State("seed"), 100 + live) << "the label is that of the weights";
}

TEST_P(ExternalWeights, AServerThatCannotOpenTheFolderIsNamedWithIt) {
  FakeServer server;
  Rig rig({.trial_load = false}, Options(), server.url(), /*adapters=*/false,
          [](const std::string& dir, const auto&) -> absl::Status {
            std::filesystem::create_directory(dir + "/empty");
            return absl::OkStatus();
          });
  const absl::Status loaded = rig.Share(1, 101).status();
  EXPECT_TRUE(absl::IsUnavailable(loaded));
  EXPECT_THAT(std::string(loaded.message()), ::testing::HasSubstr("cannot read " + ExchangeRoot()));
}

TEST_P(ExternalWeights, EndsWaitingRequestsDuringALongLoad) {
  rollout::EngineOptions options = Options();
  options.request_deadline_ms = 100;
  Served served({}, options);
  served.server.Fault("load_ms", 800);
  std::thread update([&] { EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus()); });
  EXPECT_TRUE(Await([&] { return served.server.State().at("paused").as_bool(); }));
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(5), answer.OnChunk());
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.Wait()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), 1);
  update.join();
}

TEST_P(ExternalWeights, GivesUpAServerThatNeverTakesAVersion) {
  Served served({.start_s = 1});
  served.server.Fault("load", 1000000);
  EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(2, 102).status()));
  ASSERT_TRUE(Await([&] { return !served.rig.engine->fault().ok(); }));
  EXPECT_THAT(std::string(served.rig.engine->fault().message()),
              ::testing::AllOf(::testing::HasSubstr("version 1"), ::testing::HasSubstr("halfway")));
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(5), answer.OnChunk());
  EXPECT_TRUE(absl::IsFailedPrecondition(answer.Wait()));
}

}  // namespace
}  // namespace ingot::engines::external_weights_test
