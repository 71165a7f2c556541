// The external engine's server: servers that cannot be used, die, or are changed by someone else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engines/external_rig.h"
#include "weights/delta.h"

namespace ingot::engines::external_server_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)

class ExternalServer : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalServer, kEachServer, KindName);

ExternalOptions Started() {
  ExternalOptions external;
  external.command = {"python3", FakeProgram(), "--dialect", Dialect(), "--port", "${port}", "--model", "${model}"};
  return external;
}

TEST_P(ExternalServer, LoadsItsWeightsAgainIfSomeoneElseChangesThem) {
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

// An update finds that the server is gone before the keeper does.
TEST_P(ExternalServer, GivesALostServerTheTimeOfAStart) {
  FakeServer server;
  Rig rig({.start_s = 1}, Options(), server.url());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  server.Post("/fake/faults", object{{"pause", 1000}, {"resume", 1000}});
  EXPECT_TRUE(absl::IsUnavailable(rig.Share(2, 102).status()));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(rig.engine->fault(), absl::OkStatus());
  server.Post("/fake/faults", object{{"pause", 0}, {"resume", 0}});
  EXPECT_TRUE(Await([&] { return *rig.engine->LiveVersion() == 1; }));
}

TEST_P(ExternalServer, TwoEnginesNeverShareAServer) {
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
  EXPECT_FALSE(ClaimServer(ExchangeRoot(), server.url() + "/").ok());
}

TEST_P(ExternalServer, ReportsAServerThatReportsLogits) {
  FakeServer server;
  server.Fault("logits", true);
  Rig rig({}, Options(), server.url());
  ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); }));
  EXPECT_THAT(std::string(rig.engine->fault().message()),
              ::testing::HasSubstr(NewEngineApi(Kind())->flags().raw_logprobs));
}

TEST_P(ExternalServer, ReportsAServerThatCannotBeUsed) {
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

TEST_P(ExternalServer, NamesWhatTheServerWasStartedWithout) {
  struct Lacking {
    const char* fault;
    const char* vllm;
    const char* sglang;
  };
  for (const Lacking& row : {Lacking{"no_routes", "VLLM_SERVER_DEV_MODE=1", "SGLang 0.5.23 or newer"},
                             Lacking{"no_scale_out", "--enable-scale-out", nullptr},
                             Lacking{"cumulative", nullptr, "--incremental-streaming-output"},
                             Lacking{"overlap", nullptr, "--disable-overlap-schedule"}}) {
    const char* const named = IsVllm() ? row.vllm : row.sglang;
    if (named == nullptr) continue;
    FakeServer server;
    server.Fault(row.fault, true);
    Rig rig({}, Options(), server.url());
    ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); })) << row.fault;
    EXPECT_THAT(std::string(rig.engine->fault().message()), ::testing::HasSubstr(named));
  }
}

TEST_P(ExternalServer, NamesAShorterContext) {
  FakeServer server(0, "--context 150");
  Rig rig({}, Options(), server.url());
  ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); }));
  EXPECT_THAT(
      std::string(rig.engine->fault().message()),
      ::testing::AllOf(::testing::HasSubstr("150"), ::testing::HasSubstr(NewEngineApi(Kind())->flags().context)));
}

// Its ids would mean other text, or have no row in the run's model.
TEST_P(ExternalServer, NamesAnotherVocabularyBeforeWeightsAreLoaded) {
  for (const char* words : {"--known 20", "--known 25", "--vocab 300"}) {
    FakeServer server(0, words);
    Rig rig({}, Options(), server.url());
    Collect answer;
    const auto request = rig.engine->Generate(Ask(5), answer.OnChunk());
    ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); })) << words;
    EXPECT_THAT(std::string(rig.engine->fault().message()),
                ::testing::AllOf(::testing::HasSubstr(server.url()), ::testing::HasSubstr("a vocabulary of 24 ids")));
    EXPECT_FALSE(answer.Wait().ok());
    EXPECT_FALSE(rig.Share(1, 101).ok());
    EXPECT_EQ(server.State("seed"), 0);
  }
}

// Then the log-probs decide.
TEST_P(ExternalServer, AcceptsAServerWhoseBiasesTellNothing) {
  for (const char* biases : {"ignored", "rejected"}) {
    FakeServer server;
    server.Fault("no_bias", biases);
    Rig rig({}, Options(), server.url());
    EXPECT_EQ(rig.Share(1, 101).status(), absl::OkStatus()) << biases;
  }
}

TEST_P(ExternalServer, EndsRequestsOfAServerThatHangs) {
  Served served;
  served.server.Fault("slow_ms", 5);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(190), answer.OnChunk());
  answer.WaitForTokens(2);
  served.server.Fault("slow_ms", 100000);
  served.server.Fault("health", true);
  EXPECT_TRUE(absl::IsUnavailable(answer.Wait()));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), -1);
}

TEST_P(ExternalServer, DiesInAnUpdate) {
  Rig rig(Started());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  FakeServer::PostTo(rig.engine->server_url(), "/fake/faults", object{{"load_ms", 5000}});
  absl::Status updated;
  std::thread update([&] { updated = rig.Share(2, 102).status(); });
  EXPECT_TRUE(Await([&] { return FakeServer::StateOf(rig.engine->server_url()).at("paused").as_bool(); }));
  ::kill(rig.engine->server_pid(), SIGKILL);
  update.join();
  EXPECT_TRUE(absl::IsUnavailable(updated)) << updated;
  ASSERT_TRUE(Await([&] { return *rig.engine->LiveVersion() == 1; }));
  EXPECT_EQ(rig.Share(2, 102).status(), absl::OkStatus());
}

// A publisher retries UNAVAILABLE forever.
TEST_P(ExternalServer, AFaultIsFinal) {
  FakeServer server;
  server.Fault("resume", 1000000);
  Rig rig({.start_s = 1}, Options(), server.url());
  ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); }));
  EXPECT_TRUE(absl::IsFailedPrecondition(rig.engine->fault())) << rig.engine->fault();
  EXPECT_TRUE(absl::IsFailedPrecondition(rig.Share(1, 101).status()));
}

TEST_P(ExternalServer, IsSetAsideUntilItsServerIsRestarted) {
  Served served;
  served.server.Fault("slow_ms", 3);
  Collect running;
  const auto request = served.rig.engine->Generate(Ask(190), running.OnChunk());
  running.WaitForTokens(2);
  ASSERT_EQ(served.rig.engine->SetAside("its log-probs differ"), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(running.Wait()));
  Collect rejected;
  const auto late = served.rig.engine->Generate(Ask(5), rejected.OnChunk());
  const absl::Status why = rejected.Wait();
  EXPECT_TRUE(absl::IsUnavailable(why));
  EXPECT_THAT(std::string(why.message()), ::testing::HasSubstr("its log-probs differ"));
  EXPECT_EQ(*served.rig.engine->LiveVersion(), -1) << "its lease ends";
  EXPECT_EQ(served.rig.engine->fault(), absl::OkStatus());
  const auto waits = base::Waits::OfProcess().Longer(std::chrono::nanoseconds(0), base::WaitKind::kFault);
  EXPECT_THAT(waits, ::testing::Contains(::testing::HasSubstr("set aside")));
  const weights::EncodedDelta two = *weights::Encode(nullptr, *Seeded(2, 102), false);
  int asked = 0;
  EXPECT_TRUE(absl::IsCancelled(served.rig.engine->UpdateUnless(two, [&] { return ++asked > 2; }).status()));
  served.server.Post("/fake/label", object{{"label", "default"}});  // as after a restart
  ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; }));
  EXPECT_EQ(served.rig.Share(2, 102).status(), absl::OkStatus());
  Collect again;
  const auto next = served.rig.engine->Generate(Ask(5), again.OnChunk());
  ASSERT_EQ(again.Wait(), absl::OkStatus());
  CheckAnswer(again, 3, SeedOf);
}

TEST_P(ExternalServer, StartsAServerAndRestoresItsWeightsAfterItDies) {
  Rig rig(Started());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(ClaimServer(ExchangeRoot(), rig.engine->server_url()).status()));
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

TEST_P(ExternalServer, RestartsAServerThatTakesNoWeights) {
  Rig rig(Started());
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  const pid_t first = rig.engine->server_pid();
  FakeServer::PostTo(rig.engine->server_url(), "/fake/faults", object{{"load", 1000000}});
  EXPECT_TRUE(absl::IsUnavailable(rig.Share(2, 102).status()));
  ASSERT_TRUE(Await([&] { return *rig.engine->LiveVersion() == 1; }));
  EXPECT_NE(rig.engine->server_pid(), first);
  EXPECT_EQ(rig.engine->Status()->servers(0).restarts(), 1);
}

TEST_P(ExternalServer, GivesUpACommandThatDoesNotStart) {
  ExternalOptions external;
  external.command = {"false"};
  Rig rig(external);
  ASSERT_TRUE(Await([&] { return !rig.engine->fault().ok(); }));
  EXPECT_THAT(std::string(rig.engine->fault().message()), ::testing::HasSubstr("rollout.external.command"));
}

}  // namespace
}  // namespace ingot::engines::external_server_test
