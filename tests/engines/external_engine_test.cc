// The external engine in front of a fake server, and every fault that the server can play.
#include "engines/external_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>

#include "engines/fake_server.h"
#include "rollout/collect.h"
#include "rollout/fake_tokenizer.h"
#include "weights/delta.h"

namespace ingot::engines {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using rollout::Collect;
using testing::Await;
using testing::FakeServer;
using testing::LogprobOf;
using testing::Seeded;

std::string ExchangeRoot() { return ::testing::TempDir() + "ingot-exchange"; }

constexpr char kKey[] = "0123456789abcdefghij";

rollout::EngineOptions Options() {
  rollout::EngineOptions options;
  options.context_length = 200;
  options.max_running = 64;
  return options;
}

struct Rig {
  explicit Rig(ExternalOptions external = {}, rollout::EngineOptions options = Options(), std::string url = "") {
    if (!url.empty()) external.url = url;
    external.idle_health_s = 0.02;
    external.exchange = ExchangeRoot();
    std::vector<std::string> pieces;
    for (int i = 0; i < testing::kVocab; ++i) pieces.push_back(std::string(1, static_cast<char>('a' + i)));
    ExternalEngine::Parts parts;
    parts.api = NewVllmApi();
    parts.model = {.vocab_size = testing::kVocab, .context_length = 200, .eos_ids = {23}};
    parts.max_weight_bytes = 1 << 20;
    parts.tokenizer = std::make_shared<rollout::PieceTokenizer>(pieces);
    parts.exchange = *ExchangeFolder::Open(external.exchange, "test", testing::WriteSeed);
    parts.start_model = Seeded(0, 7);
    parts.key = kKey;
    parts.log_path = ::testing::TempDir() + "fake-server.log";
    engine = *ExternalEngine::Create(options, external, std::move(parts));
  }

  absl::StatusOr<v1::UpdateWeightsResponse> Share(int64_t version, uint32_t seed) {
    return engine->Share(Seeded(version, seed), weights::Place::kLive);
  }

  std::unique_ptr<ExternalEngine> engine;
};

// A rig at a server whose weights are version 1, seed 101.
struct Served {
  explicit Served(ExternalOptions external = {}, rollout::EngineOptions options = Options())
      : rig(std::move(external), options, server.url()) {
    EXPECT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  }
  FakeServer server;
  Rig rig;
};

v1::GenerateRequest Ask(int32_t max_new, int prompt = 3) {
  v1::GenerateRequest request;
  request.set_request_id("r");
  for (int i = 0; i < prompt; ++i) request.add_prompt_ids(i);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.mutable_sampling()->set_ignore_eos(true);
  request.set_pinned_version(-1);
  return request;
}

// Each token's log-prob is that of the version which the answer names.
void CheckAnswer(const Collect& answer, int prompt, const std::function<uint64_t(int64_t version)>& seed_of) {
  size_t at = 0;
  for (const v1::VersionRun& run : answer.last.answer_versions()) {
    for (int i = 0; i < run.count(); ++i, ++at) {
      ASSERT_LT(at, answer.logprobs.size());
      EXPECT_FLOAT_EQ(answer.logprobs[at], LogprobOf(seed_of(run.version()), prompt + static_cast<int64_t>(at)))
          << "token " << at << " of version " << run.version();
    }
  }
  EXPECT_EQ(at, answer.ids.size());
}

uint64_t SeedOf(int64_t version) { return 100 + static_cast<uint64_t>(version); }

TEST(ExternalEngine, GivesIdsLogprobsAndVersions) {
  Served served;
  Collect answer;
  v1::GenerateRequest ask = Ask(20);
  ask.set_top_logprobs(2);
  const auto request = served.rig.engine->Generate(ask, answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.ids.size(), 20u);
  EXPECT_EQ(answer.last.finish(), v1::FINISH_LENGTH);
  ASSERT_EQ(answer.top.size(), 20u);
  EXPECT_EQ(answer.top[0].entries_size(), 2);
  CheckAnswer(answer, 3, SeedOf);
  EXPECT_FALSE(answer.last.answer_versions(0).kv_mixed());
  const v1::EngineStatusResponse status = *served.rig.engine->Status();
  EXPECT_EQ(status.version(), 1);
  EXPECT_EQ(status.sampled_tokens(), 20);
  EXPECT_EQ(status.running(), 0);
}

TEST(ExternalEngine, KeepsRequestsUntilTheFirstWeights) {
  FakeServer server;
  Rig rig({}, Options(), server.url());
  Collect answer;
  const auto request = rig.engine->Generate(Ask(5), answer.OnChunk());
  EXPECT_EQ(*rig.engine->LiveVersion(), -1);
  EXPECT_EQ(rig.engine->Status()->waiting(), 1);
  ASSERT_EQ(rig.Share(3, 103).status(), absl::OkStatus());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  CheckAnswer(answer, 3, SeedOf);
  EXPECT_EQ(answer.last.answer_versions(0).version(), 3);
}

TEST(ExternalEngine, TakesDeltasAndFullCopies) {
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

TEST(ExternalEngine, NamesTheVersionOfEachTokenWhileWeightsChange) {
  for (const SwapMode swap : {SwapMode::kKeep, SwapMode::kRecompute}) {
    Served served({.swap = swap});
    served.server.Fault("slow_ms", 2);
    std::deque<Collect> answers(12);
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    for (Collect& answer : answers) requests.push_back(served.rig.engine->Generate(Ask(150), answer.OnChunk()));
    answers[0].WaitForTokens(3);
    for (int64_t version = 2; version < 8; ++version) {
      ASSERT_EQ(served.rig.Share(version, 100 + version).status(), absl::OkStatus());
      Collect fresh;
      const auto request = served.rig.engine->Generate(Ask(4), fresh.OnChunk());
      ASSERT_EQ(fresh.Wait(), absl::OkStatus());
      CheckAnswer(fresh, 3, SeedOf);
      EXPECT_EQ(fresh.last.answer_versions(0).version(), version);
    }
    for (Collect& answer : answers) {
      ASSERT_EQ(answer.Wait(), absl::OkStatus());
      CheckAnswer(answer, 3, SeedOf);
      ASSERT_GT(answer.last.answer_versions_size(), 1);
      for (const v1::VersionRun& run : answer.last.answer_versions()) {
        EXPECT_EQ(run.kv_mixed(), swap == SwapMode::kKeep && run.version() > 1);
      }
    }
  }
}

TEST(ExternalEngine, EndsOrDrainsRequestsAsAsked) {
  for (const SwapMode swap : {SwapMode::kDrain, SwapMode::kAbort}) {
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

TEST(ExternalEngine, LoadsAgainWhileTheServerStaysPaused) {
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

TEST(ExternalEngine, DeliversNothingOfTornWeights) {
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

TEST(ExternalEngine, StaysAtTheOldVersionIfThePauseFails) {
  Served served;
  served.server.Fault("pause", 1);
  EXPECT_TRUE(absl::IsUnavailable(served.rig.Share(2, 102).status()));
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(5), answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.last.answer_versions(0).version(), 1);
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
}

TEST(ExternalEngine, LosesItsVersionIfTheServerIsNotLabeledOrResumed) {
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

TEST(ExternalEngine, GivesUpAnUpdateThatItsSenderAbandoned) {
  Served served;
  const weights::EncodedDelta two = *weights::Encode(nullptr, *Seeded(2, 102), false);
  EXPECT_TRUE(absl::IsCancelled(served.rig.engine->UpdateUnless(two, [] { return true; }).status()));
  int asked = 0;  // while it waits for the server, in its turn, and after the pause
  EXPECT_TRUE(absl::IsCancelled(served.rig.engine->UpdateUnless(two, [&] { return ++asked > 1; }).status()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), 1);
  EXPECT_FALSE(served.server.State().at("paused").as_bool());
  EXPECT_EQ(served.server.State("seed"), 101);
}

struct BadAnswer {
  const char* fault;
  value setting;
  absl::StatusCode code;
};

TEST(ExternalEngine, NeverConfirmsABadAnswer) {
  using Code = absl::StatusCode;
  const std::vector<BadAnswer> table = {
      {"logprob", 0.5, Code::kDataLoss},        {"logprob", 1e-6, Code::kDataLoss},
      {"logprob", "nan", Code::kDataLoss},      {"logprob", "missing", Code::kDataLoss},
      {"logprob", "short", Code::kDataLoss},    {"foreign", "default", Code::kUnavailable},
      {"foreign", "1-000", Code::kUnavailable}, {"no_spans", true, Code::kDataLoss},
      {"bad_spans", true, Code::kDataLoss},     {"cut", 4, Code::kUnavailable},
      {"broken", true, Code::kDataLoss},        {"big", 10 << 20, Code::kDataLoss},
      {"outside", true, Code::kDataLoss}};
  for (const BadAnswer& bad : table) {
    Served served;
    served.server.Fault(bad.fault, bad.setting);
    Collect answer;
    const auto request = served.rig.engine->Generate(Ask(12), answer.OnChunk());
    EXPECT_EQ(answer.Wait().code(), bad.code) << bad.fault << " " << base::PrintJson(bad.setting) << answer.Wait();
    EXPECT_EQ(answer.last.finish(), v1::FINISH_UNSPECIFIED);
    EXPECT_TRUE(Await([&] { return served.server.State("running") == 0; })) << bad.fault;
  }
}

TEST(ExternalEngine, LoadsItsWeightsAgainIfSomeoneElseChangesThem) {
  Served served;
  served.server.Fault("slow_ms", 2);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(190), answer.OnChunk());
  answer.WaitForTokens(2);
  served.server.Post("/fake/label", object{{"label", "someone-else"}});
  EXPECT_TRUE(absl::IsUnavailable(answer.Wait()));
  ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; }));
  Collect again;
  const auto next = served.rig.engine->Generate(Ask(5), again.OnChunk());
  ASSERT_EQ(again.Wait(), absl::OkStatus());
  CheckAnswer(again, 3, SeedOf);
}

TEST(ExternalEngine, ClosesARequestThatItsCallerDrops) {
  Served served;
  served.server.Fault("slow_ms", 5);
  Collect answer;
  auto request = served.rig.engine->Generate(Ask(190), answer.OnChunk());
  answer.WaitForTokens(2);
  answer.ExpectNothingMore();
  request.reset();
  EXPECT_TRUE(Await([&] { return served.server.State("running") == 0; }));
  EXPECT_TRUE(Await([&] { return served.rig.engine->Status()->running() == 0; }));
}

TEST(ExternalEngine, AppliesIngotsStopStringsAndKeepsTheVersions) {
  Served served;
  served.server.Fault("slow_ms", 2);
  array ids;
  for (const int id : {0, 1, 2, 3, 4, 5}) ids.emplace_back(id);
  served.server.Post("/fake/script", object{{"ids", ids}});
  v1::GenerateRequest ask = Ask(150);
  ask.mutable_sampling()->add_stop("fab");
  Collect answer;
  const auto request = served.rig.engine->Generate(ask, answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.last.finish(), v1::FINISH_STOP);
  EXPECT_EQ(answer.last.stop_string(), "fab");
  EXPECT_EQ(answer.ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 0, 1}));
  CheckAnswer(answer, 3, SeedOf);
  EXPECT_EQ(served.server.State("aborted"), 1);
}

TEST(ExternalEngine, EndsAtEndOfTurnIdsAndRepetitions) {
  rollout::EngineOptions options = Options();
  options.halt = {.repetition = "on", .periods = 5};
  Served served({}, options);
  v1::GenerateRequest ask = Ask(150);
  ask.mutable_sampling()->set_ignore_eos(false);
  served.server.Post("/fake/script", object{{"ids", array{1, 23}}});
  Collect ended, repeated;
  const auto first = served.rig.engine->Generate(ask, ended.OnChunk());
  ASSERT_EQ(ended.Wait(), absl::OkStatus());
  EXPECT_EQ(ended.last.finish(), v1::FINISH_STOP);
  EXPECT_EQ(ended.ids, (std::vector<int32_t>{1, 23}));
  served.server.Post("/fake/script", object{{"ids", array{1, 2}}});
  served.server.Fault("slow_ms", 2);
  const auto second = served.rig.engine->Generate(ask, repeated.OnChunk());
  ASSERT_EQ(repeated.Wait(), absl::OkStatus());
  EXPECT_EQ(repeated.last.finish(), v1::FINISH_REPETITION);
  CheckAnswer(repeated, 3, SeedOf);
}

TEST(ExternalEngine, ScoresAPrompt) {
  Served served;
  v1::GenerateRequest ask = Ask(1, 9);
  ask.set_score_ids(4);
  ask.set_pinned_version(1);
  Collect answer;
  const auto request = served.rig.engine->Generate(ask, answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.ids, (std::vector<int32_t>{5, 6, 7, 8}));
  CheckAnswer(answer, 5, SeedOf);
}

TEST(ExternalEngine, KeepsToPinnedAndLeastVersions) {
  Served served;
  v1::GenerateRequest pinned = Ask(5), newer = Ask(5);
  pinned.set_pinned_version(4);
  newer.set_min_version(2);
  Collect a, b;
  const auto first = served.rig.engine->Generate(pinned, a.OnChunk());
  const auto second = served.rig.engine->Generate(newer, b.OnChunk());
  EXPECT_TRUE(absl::IsNotFound(a.Wait()));
  EXPECT_TRUE(absl::IsUnavailable(b.Wait()));
}

TEST(ExternalEngine, RefusesWhatTheServerCannotDo) {
  Served served;
  v1::GenerateRequest hot = Ask(5), forced = Ask(5), outside = Ask(5);
  hot.mutable_sampling()->set_temperature(0.7F);
  forced.add_forced_ids(1);
  outside.add_prompt_ids(testing::kVocab);
  for (const v1::GenerateRequest& ask : {hot, forced, outside}) {
    Collect answer;
    const auto request = served.rig.engine->Generate(ask, answer.OnChunk());
    EXPECT_TRUE(absl::IsInvalidArgument(answer.Wait())) << answer.Wait();
  }
}

TEST(ExternalEngine, FindsOutWhatLogprobsMean) {
  FakeServer server;
  server.Fault("processed", true);
  Rig rig({}, Options(), server.url());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  v1::GenerateRequest hot = Ask(5), truncated = Ask(5);
  hot.mutable_sampling()->set_temperature(0.7F);
  truncated.mutable_sampling()->set_top_p(0.5F);
  Collect a, b;
  const auto first = rig.engine->Generate(hot, a.OnChunk());
  const auto second = rig.engine->Generate(truncated, b.OnChunk());
  EXPECT_EQ(a.Wait(), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(b.Wait()));
}

TEST(ExternalEngine, KeepsARequestThatTheKindOfLogprobsDecides) {
  FakeServer server;
  server.Fault("processed", true);
  server.Fault("health", true);
  Rig rig({}, Options(), server.url());
  v1::GenerateRequest hot = Ask(5), neither = Ask(5);
  hot.mutable_sampling()->set_temperature(0.7F);
  neither.mutable_sampling()->set_temperature(0.7F);
  neither.mutable_sampling()->set_top_p(0.5F);
  Collect a, b;
  const auto first = rig.engine->Generate(hot, a.OnChunk());
  const auto second = rig.engine->Generate(neither, b.OnChunk());
  EXPECT_TRUE(absl::IsInvalidArgument(b.Wait()));
  EXPECT_EQ(rig.engine->Status()->waiting(), 1);
  server.Fault("health", false);
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  EXPECT_EQ(a.Wait(), absl::OkStatus());
}

// An update finds that the server is gone before the keeper does.
TEST(ExternalEngine, GivesALostServerTheTimeOfAStart) {
  FakeServer server;
  Rig rig({.start_s = 2}, Options(), server.url());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  server.Post("/fake/faults", object{{"pause", 1000}, {"resume", 1000}});
  EXPECT_TRUE(absl::IsUnavailable(rig.Share(2, 102).status()));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(rig.engine->fault(), absl::OkStatus());
  server.Post("/fake/faults", object{{"pause", 0}, {"resume", 0}});
  EXPECT_TRUE(Await([&] { return *rig.engine->LiveVersion() == 1; }));
}

// Its prefix cache may be of other weights under the same salt, such as those that a restarted run trained again.
TEST(ExternalEngine, ClearsTheCacheOfAServerWhoseWeightsAreUnknown) {
  const auto pauses = [](const FakeServer& server) {
    std::vector<std::string> all;
    const value state = server.State();
    for (const value& call : state.at("calls").as_array()) {
      if (const std::string path(call.as_string()); path.starts_with("/pause")) all.push_back(path);
    }
    return all;
  };
  Served served;
  ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  EXPECT_THAT(pauses(served.server),
              ::testing::ElementsAre("/pause?mode=abort&clear_cache=true", "/pause?mode=keep&clear_cache=false"));
  served.server.Post("/fake/label", object{{"label", "someone-else"}});
  ASSERT_TRUE(Await([&] { return pauses(served.server).size() == 3; }));
  EXPECT_EQ(pauses(served.server)[2], "/pause?mode=abort&clear_cache=true");
}

TEST(ExternalEngine, DoesNotRepeatTheKey) {
  Served served;
  served.server.Fault("refuse", true);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(5), answer.OnChunk());
  const absl::Status end = answer.Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(end));
  EXPECT_THAT(std::string(end.message()), ::testing::HasSubstr("refused Bearer"));
  EXPECT_THAT(std::string(end.message()), ::testing::Not(::testing::HasSubstr(kKey)));
}

TEST(ExternalOptions, RejectsMixedCachesThatNoTokenWouldShow) {
  ExternalOptions external{.salt = false};
  EXPECT_TRUE(absl::IsInvalidArgument(external.Validate(EngineKind::kVllm)));
  external.swap = SwapMode::kRecompute;
  EXPECT_EQ(external.Validate(EngineKind::kVllm), absl::OkStatus());
}

TEST(ExternalEngine, TwoEnginesNeverShareAServer) {
  FakeServer server;
  {
    const base::Fd claim = *ClaimServer(ExchangeRoot(), server.url());
    const auto second = ClaimServer(ExchangeRoot(), server.url());
    EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
    EXPECT_THAT(std::string(second.status().message()), ::testing::HasSubstr("its own server"));
  }
  Rig rig({}, Options(), server.url());
  EXPECT_FALSE(ClaimServer(ExchangeRoot(), server.url()).ok());
  EXPECT_TRUE(ClaimServer(ExchangeRoot(), "http://127.0.0.1:1").ok());
}

TEST(ExternalEngine, ReportsAServerThatReportsLogits) {
  FakeServer server;
  server.Fault("logits", true);
  Rig rig({}, Options(), server.url());
  ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); }));
  EXPECT_THAT(std::string(rig.engine->fault().message()), ::testing::HasSubstr("--logprobs-mode"));
}

TEST(ExternalEngine, ReportsAServerThatCannotBeUsed) {
  Rig absent({.start_s = 1}, Options(), "http://127.0.0.1:1");
  ASSERT_TRUE(Await([&] { return !absent.engine->fault().ok(); }));
  EXPECT_THAT(std::string(absent.engine->fault().message()), ::testing::HasSubstr("rollout.external.url"));
  EXPECT_FALSE(absent.Share(1, 101).ok());
  FakeServer server;
  server.Fault("no_spans", true);
  Rig old({}, Options(), server.url());
  ASSERT_TRUE(Await([&] { return !old.engine->fault().ok(); }));
  EXPECT_THAT(std::string(old.engine->fault().message()), ::testing::HasSubstr("newer release"));
  Collect answer;
  const auto request = old.engine->Generate(Ask(5), answer.OnChunk());
  EXPECT_TRUE(absl::IsFailedPrecondition(answer.Wait()));
}

ExternalOptions Started() {
  ExternalOptions external;
  external.command = {"python3", testing::FakeProgram(), "--port", "${port}", "--model", "${model}"};
  return external;
}

TEST(ExternalEngine, StartsAServerAndRestoresItsWeightsAfterItDies) {
  Rig rig(Started());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  for (int kills = 0; kills < 3; ++kills) {
    FakeServer::PostTo(rig.engine->server_url(), "/fake/faults", object{{"slow_ms", 3}});
    Collect answer;
    const auto request = rig.engine->Generate(Ask(190), answer.OnChunk());
    answer.WaitForTokens(2);
    ASSERT_GT(rig.engine->server_pid(), 0);
    ::kill(rig.engine->server_pid(), SIGKILL);
    EXPECT_TRUE(absl::IsUnavailable(answer.Wait()));
    ASSERT_TRUE(Await([&] { return *rig.engine->LiveVersion() == -1; }));
    ASSERT_TRUE(Await([&] { return *rig.engine->LiveVersion() == 1; }));
    Collect again;
    const auto next = rig.engine->Generate(Ask(5), again.OnChunk());
    ASSERT_EQ(again.Wait(), absl::OkStatus());
    CheckAnswer(again, 3, SeedOf);
  }
}

TEST(ExternalEngine, GivesUpACommandThatDoesNotStart) {
  ExternalOptions external;
  external.command = {"false"};
  Rig rig(external);
  ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); }));
  EXPECT_THAT(std::string(rig.engine->fault().message()), ::testing::HasSubstr("rollout.external.command"));
}

TEST(ExternalEngine, LeavesNoFolderBehind) {
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

}  // namespace
}  // namespace ingot::engines
