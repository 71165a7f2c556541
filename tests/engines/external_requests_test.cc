// Requests of the external engine: answers, limits, and every fault that a server's answer can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "engines/external_rig.h"
#include "weights/delta.h"

namespace ingot::engines::external_requests_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)

class ExternalRequests : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalRequests, kEachServer, KindName);

TEST_P(ExternalRequests, GivesIdsLogprobsAndVersions) {
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

TEST_P(ExternalRequests, KeepsRequestsUntilTheFirstWeights) {
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

// Otherwise, the requests of a verification would wait behind them in the server's queue.
TEST_P(ExternalRequests, SendsTheServerNoMoreThanMaxRunning) {
  rollout::EngineOptions options = Options();
  options.max_running = 2;
  Served served({}, options);
  served.server.Fault("slow_ms", 5);
  std::deque<Collect> answers(6);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (Collect& answer : answers) requests.push_back(served.rig.engine->Generate(Ask(60), answer.OnChunk()));
  EXPECT_TRUE(Await([&] { return served.server.State("running") == 2; }));
  EXPECT_EQ(served.rig.engine->Status()->running(), 2);
  EXPECT_EQ(served.rig.engine->Status()->waiting(), 4);
  requests[5].reset();
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  EXPECT_LE(served.server.State("running"), 2);
  for (size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(answers[i].Wait(), absl::OkStatus());
    CheckAnswer(answers[i], 3, SeedOf);
  }
}

struct BadAnswer {
  const char* fault;
  value setting;
  absl::StatusCode code;
};

TEST_P(ExternalRequests, NeverConfirmsABadAnswer) {
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

TEST_P(ExternalRequests, ClosesARequestThatItsCallerDrops) {
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

TEST_P(ExternalRequests, AppliesIngotsStopStringsAndKeepsTheVersions) {
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

TEST_P(ExternalRequests, EndsAtEndOfTurnIdsAndRepetitions) {
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

v1::GenerateRequest AskForRegex(int32_t ids) {
  v1::GenerateRequest ask = Ask(ids);
  ask.mutable_sampling()->set_ignore_eos(false);
  ask.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex("[ab]*");
  return ask;
}

// The server's own log-probs of such an answer are those after its mask.
TEST_P(ExternalRequests, RecordsThePolicysLogprobsOfAMaskedAnswer) {
  Served served;
  served.server.Post("/fake/script", object{{"ids", array{1, 0, 1}}});
  Collect answer;
  const auto request = served.rig.engine->Generate(AskForRegex(9), answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.ids.size(), 9u);
  CheckAnswer(answer, 3, SeedOf);
  EXPECT_TRUE(answer.last.grammar_acted());
  EXPECT_EQ(answer.last.finish(), v1::FINISH_LENGTH);
  EXPECT_EQ(served.rig.engine->Status()->running(), 0);
}

TEST_P(ExternalRequests, RetriesAMaskedAnswerThatTheNextWeightsScored) {
  Served served;
  served.server.Post("/fake/script", object{{"ids", array{0, 1}}});
  served.server.Fault("slow_ms", 2);
  served.server.Fault("score_ms", 100);
  Collect answer;
  const auto request = served.rig.engine->Generate(AskForRegex(40), answer.OnChunk());
  EXPECT_TRUE(Await([&] { return served.server.State("running") == 1; }));
  ASSERT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(answer.Wait()));
  EXPECT_TRUE(answer.ids.empty());
}

TEST_P(ExternalRequests, ScoresAPrompt) {
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

TEST_P(ExternalRequests, KeepsToPinnedAndLeastVersions) {
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

TEST_P(ExternalRequests, RefusesWhatTheServerCannotDo) {
  Served served;
  v1::GenerateRequest hot = Ask(5), forced = Ask(5), outside = Ask(5);
  hot.mutable_sampling()->set_temperature(0.7F);
  if (!IsVllm()) hot.mutable_sampling()->set_presence_penalty(1);
  forced.add_forced_ids(1);
  outside.add_prompt_ids(kVocab);
  for (const v1::GenerateRequest& ask : {hot, forced, outside}) {
    Collect answer;
    const auto request = served.rig.engine->Generate(ask, answer.OnChunk());
    EXPECT_TRUE(absl::IsInvalidArgument(answer.Wait())) << answer.Wait();
  }
}

TEST_P(ExternalRequests, FindsOutWhatLogprobsMean) {
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
  EXPECT_EQ(absl::IsInvalidArgument(b.Wait()), IsVllm());  // SGLang's are from before truncation
}

TEST_P(ExternalRequests, RefusesTemperaturesIfLogprobsAreRaw) {
  FakeServer server;
  server.Fault("processed", false);
  Rig rig({}, Options(), server.url());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  v1::GenerateRequest hot = Ask(5);
  hot.mutable_sampling()->set_temperature(0.7F);
  Collect answer;
  const auto request = rig.engine->Generate(hot, answer.OnChunk());
  EXPECT_TRUE(absl::IsInvalidArgument(answer.Wait())) << answer.Wait();
}

TEST_P(ExternalRequests, KeepsARequestThatTheKindOfLogprobsDecides) {
  FakeServer server;
  server.Fault("processed", true);
  server.Fault("health", true);
  Rig rig({}, Options(), server.url());
  v1::GenerateRequest hot = Ask(5), neither = Ask(5);
  hot.mutable_sampling()->set_temperature(0.7F);
  neither.mutable_sampling()->set_temperature(0.7F);
  if (IsVllm()) {
    neither.mutable_sampling()->set_top_p(0.5F);
  } else {
    neither.mutable_sampling()->set_presence_penalty(1);
  }
  Collect a, b;
  const auto first = rig.engine->Generate(hot, a.OnChunk());
  const auto second = rig.engine->Generate(neither, b.OnChunk());
  EXPECT_TRUE(absl::IsInvalidArgument(b.Wait()));
  EXPECT_EQ(rig.engine->Status()->waiting(), 1);
  server.Fault("health", false);
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  EXPECT_EQ(a.Wait(), absl::OkStatus());
}

TEST_P(ExternalRequests, DoesNotRepeatTheKey) {
  Served served;
  served.server.Fault("refuse", true);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(5), answer.OnChunk());
  const absl::Status end = answer.Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(end));
  EXPECT_THAT(std::string(end.message()), ::testing::HasSubstr("refused Bearer"));
  EXPECT_THAT(std::string(end.message()), ::testing::Not(::testing::HasSubstr(kKey)));
}

}  // namespace
}  // namespace ingot::engines::external_requests_test
