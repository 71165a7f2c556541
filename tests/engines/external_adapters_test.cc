// Versions that are adapters of one base model: several at once, each request on one of them to its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "engines/external/adapter_versions.h"
#include "engines/external_rig.h"
#include "weights/delta.h"

namespace ingot::engines::external_adapters_test {
namespace {

using base::json::object;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

class ExternalAdapters : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalAdapters, kEachServer, KindName);

// An engine whose server has the adapter version 1, seed 101.
struct Adapters {
  explicit Adapters(ExternalOptions external = {}, int32_t retained = 4)
      : rig(std::move(external), Retaining(retained), server.url(), /*adapters=*/true) {
    EXPECT_EQ(Share(1).status(), absl::OkStatus());
  }
  static rollout::EngineOptions Retaining(int32_t versions) {
    rollout::EngineOptions options = Options();
    options.max_retained_versions = versions;
    return options;
  }
  absl::StatusOr<v1::UpdateWeightsResponse> Share(int64_t version, weights::Place place = weights::Place::kLive) {
    return rig.engine->Share(Adapted(version, 100 + static_cast<uint32_t>(version)), place);
  }
  size_t loaded() const { return server.State().at("adapters").as_object().size(); }

  FakeServer server;
  Rig rig;
};

v1::GenerateRequest AskPinned(int64_t version, int32_t ids) {
  v1::GenerateRequest request = Ask(ids);
  request.set_pinned_version(version);
  return request;
}

void ExpectVersion(Collect& answer, int64_t version) {
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  CheckAnswer(answer, 3, SeedOf);
  ASSERT_EQ(answer.last.answer_versions_size(), 1);
  EXPECT_EQ(answer.last.answer_versions(0).version(), version);
  EXPECT_FALSE(answer.last.answer_versions(0).kv_mixed());
}

TEST_P(ExternalAdapters, AnswerEndsOnTheVersionThatItBeganOn) {
  Adapters served({.verify = false});  // a verification takes as long as an answer here
  served.server.Fault("slow_ms", 4);
  std::deque<Collect> answers(4);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (int64_t version = 1; version <= 4; ++version) {
    ASSERT_EQ(served.Share(version).status(), absl::OkStatus());
    Collect& answer = answers[static_cast<size_t>(version - 1)];
    requests.push_back(served.rig.engine->Generate(Ask(190), answer.OnChunk()));
    answer.WaitForTokens(1);
  }
  EXPECT_EQ(served.loaded(), 4u) << "running requests use the earlier ones";
  for (int64_t version = 1; version <= 4; ++version) ExpectVersion(answers[static_cast<size_t>(version - 1)], version);
  EXPECT_TRUE(Await([&] { return served.loaded() == 1; }));
  EXPECT_EQ(served.server.State("torn_from"), 0);
}

TEST_P(ExternalAdapters, PinnedVersionsRunBesideTheNewest) {
  Adapters served;
  ASSERT_EQ(served.Share(2, weights::Place::kLiveRetained).status(), absl::OkStatus());
  ASSERT_EQ(served.Share(3).status(), absl::OkStatus());
  ASSERT_EQ(served.rig.engine->Update(*weights::EncodeHeld(*Adapted(0, 100))).status(), absl::OkStatus());
  EXPECT_EQ(*served.rig.engine->LiveVersion(), 3);
  Collect newest, second, first, none;
  const auto a = served.rig.engine->Generate(Ask(8), newest.OnChunk());
  const auto b = served.rig.engine->Generate(AskPinned(2, 8), second.OnChunk());
  const auto c = served.rig.engine->Generate(AskPinned(0, 8), first.OnChunk());
  const auto d = served.rig.engine->Generate(AskPinned(1, 8), none.OnChunk());
  ExpectVersion(newest, 3);
  ExpectVersion(second, 2);
  ExpectVersion(first, 0);
  EXPECT_TRUE(absl::IsNotFound(none.Wait()));
  EXPECT_THAT(served.rig.engine->Status()->held_versions(), ::testing::UnorderedElementsAre(3, 2, 0));
  EXPECT_EQ(served.rig.engine->HeldVersions()->size(), 3u);
  ASSERT_EQ(served.rig.engine->Release(2), absl::OkStatus());
  ASSERT_EQ(served.rig.engine->Release(0), absl::OkStatus());
  EXPECT_TRUE(Await([&] { return served.loaded() == 1; }));
}

TEST_P(ExternalAdapters, RetainsNoMoreThanAsked) {
  Adapters served({}, /*retained=*/1);
  const auto kept = served.Share(2, weights::Place::kLiveRetained),
             more = served.Share(3, weights::Place::kLiveRetained);
  ASSERT_EQ(kept.status(), absl::OkStatus());
  ASSERT_EQ(more.status(), absl::OkStatus());
  EXPECT_FALSE(kept->not_retained());
  EXPECT_TRUE(more->not_retained());
  EXPECT_TRUE(absl::IsResourceExhausted(served.Share(0, weights::Place::kBeside).status()));
  EXPECT_EQ(served.Share(2, weights::Place::kBeside).status(), absl::OkStatus()) << "it has this one";
}

// A run that went back to a checkpoint trains other weights under the same number.
TEST_P(ExternalAdapters, ReplacesAVersionWithTheSameNumber) {
  Adapters served;
  ASSERT_EQ(served.Share(2, weights::Place::kLiveRetained).status(), absl::OkStatus());
  ASSERT_EQ(served.rig.engine->Share(Adapted(2, 202), weights::Place::kLiveRetained).status(), absl::OkStatus());
  Collect answer;
  const auto request = served.rig.engine->Generate(AskPinned(2, 6), answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  CheckAnswer(answer, 3, [](int64_t) { return 202; });
}

TEST_P(ExternalAdapters, AWrongOneIsFoundAndTheEarlierOneServesOn) {
  Adapters served;
  served.server.Fault("wrong_adapter", 2);
  const auto refused = served.Share(2);
  EXPECT_TRUE(absl::IsUnavailable(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("verify_bound"));
  EXPECT_EQ(served.rig.engine->Status()->servers(0).refused(), 2);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(6), answer.OnChunk());
  ExpectVersion(answer, 1);
  served.server.Fault("wrong_adapter", 1);
  EXPECT_EQ(served.Share(2).status(), absl::OkStatus()) << "loaded again";
}

// Each is loaded with status 200. The simulated vLLM exits if it scores given ids beside the running request.
TEST_P(ExternalAdapters, SixFaultsAreFoundBesideARunningRequest) {
  for (const char* fault : {"all", "head", "tensor", "half", "cast", "adapter"}) {
    Adapters served;
    served.server.Fault("slow_ms", 2);
    Collect running;
    const auto request = served.rig.engine->Generate(Ask(190), running.OnChunk());
    running.WaitForTokens(2);
    served.server.Post("/fake/faults", object{{"keep", fault}, {"keep_loads", 2}});
    const auto refused = served.Share(2);
    EXPECT_TRUE(absl::IsUnavailable(refused.status())) << fault;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("verify_bound")) << fault;
    EXPECT_EQ(served.rig.engine->Status()->servers(0).refused(), 2) << fault;
    EXPECT_EQ(served.Share(2).status(), absl::OkStatus()) << fault;
    EXPECT_LT(served.rig.engine->Status()->servers(0).verify_diff_mean(), 1e-6);
    ExpectVersion(running, 1);
  }
}

TEST_P(ExternalAdapters, FactorsThatDoNotArriveAreFoundBeforeTheFirstVersion) {
  for (const char* fault : {"head", "tensor", "cast"}) {
    FakeServer server;
    server.Post("/fake/faults", object{{"keep", fault}, {"keep_loads", 1}});
    Rig rig({}, Options(), server.url(), /*adapters=*/true);
    EXPECT_FALSE(rig.engine->Share(Adapted(1, 101), weights::Place::kLive).ok());
    EXPECT_THAT(std::string(rig.engine->fault().message()), HasSubstr("trial load")) << fault;
  }
}

TEST_P(ExternalAdapters, PrefixCachesOfOtherWeightsAreFound) {
  Adapters served;
  served.server.Fault("prefix", true);  // whatever the salt
  EXPECT_EQ(served.Share(2).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(served.Share(3).status()));
}

TEST_P(ExternalAdapters, TheCacheOfAWrongLoadIsNotUsedAgain) {
  Adapters served;
  served.server.Post("/fake/faults", object{{"prefix", "salted"}, {"wrong_adapter", 1}});
  EXPECT_EQ(served.Share(2).status(), absl::OkStatus());
  EXPECT_EQ(served.rig.engine->Status()->servers(0).refused(), 1);
}

TEST_P(ExternalAdapters, AServerWithoutThemIsAFault) {
  FakeServer server;
  server.Fault("no_adapters", true);
  Rig rig({}, Options(), server.url(), /*adapters=*/true);
  EXPECT_FALSE(rig.engine->Share(Adapted(1, 101), weights::Place::kLive).ok());
  EXPECT_THAT(std::string(rig.engine->fault().message()), HasSubstr("--enable-lora"));
}

TEST_P(ExternalAdapters, AllHeldOnesComeBackAfterARestart) {
  ExternalOptions external;
  external.command = {"python3", FakeProgram(), "--dialect", Dialect(), "--port", "${port}", "--model", "${model}"};
  Rig rig(external, Adapters::Retaining(4), "", /*adapters=*/true);
  const auto share = [&](int64_t version, weights::Place place) {
    return rig.engine->Share(Adapted(version, 100 + static_cast<uint32_t>(version)), place).status();
  };
  ASSERT_EQ(share(1, weights::Place::kLiveRetained), absl::OkStatus());
  ASSERT_EQ(share(2, weights::Place::kLive), absl::OkStatus());
  FakeServer::PostTo(rig.engine->server_url(), "/fake/faults", object{{"slow_ms", 3}});
  Collect broken;
  const auto request = rig.engine->Generate(Ask(190), broken.OnChunk());
  broken.WaitForTokens(2);
  ::kill(rig.engine->server_pid(), SIGKILL);
  EXPECT_TRUE(absl::IsUnavailable(broken.Wait()));
  ASSERT_TRUE(Await([&] { return *rig.engine->LiveVersion() == -1; }));
  ASSERT_TRUE(Await([&] { return *rig.engine->LiveVersion() == 2; }));
  Collect newest, pinned;
  const auto a = rig.engine->Generate(Ask(6), newest.OnChunk());
  const auto b = rig.engine->Generate(AskPinned(1, 6), pinned.OnChunk());
  ExpectVersion(newest, 2);
  ExpectVersion(pinned, 1);
}

TEST_P(ExternalAdapters, AnotherBaseRestartsTheServer) {
  ExternalOptions external;
  external.command = {"python3", FakeProgram(), "--dialect", Dialect(), "--port", "${port}", "--model", "${model}"};
  Rig rig(external, Options(), "", /*adapters=*/true);
  ASSERT_EQ(rig.engine->Share(Adapted(1, 101), weights::Place::kLive).status(), absl::OkStatus());
  const pid_t first = rig.engine->server_pid();
  const auto other = Adapted(2, 102, /*base=*/9);
  EXPECT_TRUE(absl::IsUnavailable(rig.engine->Share(other, weights::Place::kLive).status()));
  ASSERT_TRUE(Await([&] { return rig.engine->Share(other, weights::Place::kLive).ok(); }));
  EXPECT_NE(rig.engine->server_pid(), first);
}

TEST_P(ExternalAdapters, SomeoneElsesBaseEndsAnAnswer) {
  Adapters served;
  served.server.Fault("slow_ms", 3);
  Collect answer;
  const auto request = served.rig.engine->Generate(Ask(190), answer.OnChunk());
  answer.WaitForTokens(2);
  served.server.Post("/fake/label", object{{"label", "default"}});
  EXPECT_TRUE(absl::IsUnavailable(answer.Wait()));
  // The server is labeled and has its adapters again.
  ASSERT_TRUE(Await([&] { return served.server.State().at("label").as_string().starts_with("base-"); }));
  ASSERT_TRUE(Await([&] { return *served.rig.engine->LiveVersion() == 1; }));
  Collect again;
  const auto next = served.rig.engine->Generate(Ask(6), again.OnChunk());
  ExpectVersion(again, 1);
}

WrittenVersion Version(int64_t number, uint32_t seed) {
  const auto snapshot = Adapted(number, seed);
  return {.snapshot = snapshot, .dir = "", .label = VersionLabel(number, snapshot->checksum()), .scores = {}};
}

TEST(AdapterVersions, UnusedAreThoseThatNothingNeeds) {
  AdapterVersions versions;
  const WrittenVersion one = Version(1, 1), two = Version(2, 2), three = Version(3, 3);
  for (const WrittenVersion& version : {one, two, three}) versions.Add(version, 0);
  versions.SetLive(three.label);
  versions.Retain(two.label);
  versions.Begin(one.label);
  EXPECT_TRUE(versions.TakeUnused().empty());
  EXPECT_EQ(versions.Find(1), nullptr) << "only its running request uses it";
  versions.End(one.label);
  versions.Release(2);
  EXPECT_EQ(versions.TakeUnused().size(), 2u);
  EXPECT_EQ(versions.Held().size(), 1u);
  versions.Lose();
  EXPECT_EQ(versions.Find(3), nullptr);
  versions.SetLoaded(three.label);
  EXPECT_NE(versions.Find(3), nullptr);
}

TEST(AdapterVersions, BaseChecksumIgnoresFactors) {
  EXPECT_EQ(BaseChecksum(*Adapted(1, 5)), BaseChecksum(*Adapted(2, 6)));
  EXPECT_NE(BaseChecksum(*Adapted(1, 5)), BaseChecksum(*Adapted(1, 5, 2)));
  const auto mixed = WithFactorsOf(*Adapted(1, 5, 3), *Adapted(1, 6, 4));
  EXPECT_EQ((*mixed)->checksum(), Adapted(1, 6, 3)->checksum());
}

}  // namespace
}  // namespace ingot::engines::external_adapters_test
