// Fleets: requests through a round-robin load balancer, weights to each worker, and workers that join, die, or are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <optional>
#include <thread>

#include "engines/external_rig.h"

namespace ingot::engines::external_fleet_test {
namespace {

using base::json::array;
using base::json::object;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)

class Fleets : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, Fleets, kEachServer, KindName);

std::string LabelOf(int64_t version) {
  return VersionLabel(version, Seeded(version, static_cast<uint32_t>(SeedOf(version)))->checksum());
}

// An engine in front of two workers, of which the second may be down.
struct Fleet {
  explicit Fleet(ExternalOptions external = {}) {
    first.emplace();
    second.emplace();
    urls = {first->url(), second->url()};
    front = FakeServer::Front(urls);
    external.workers = urls;
    rig.emplace(external, Options(), front->url());
  }
  absl::Status Share(int64_t version) { return rig->Share(version, static_cast<uint32_t>(SeedOf(version))).status(); }
  static bool Has(const FakeServer& worker, int64_t version) {
    const auto state = worker.State();
    return state.at("label").as_string().starts_with(LabelOf(version)) &&  // and a number after a second load
           state.at("seed").to_number<uint64_t>() == SeedOf(version) && !state.at("paused").as_bool();
  }
  // Starts a worker at the address where it was before.
  static void Restart(std::optional<FakeServer>& worker, const std::string& words = "") {
    const int port = worker->port();
    worker.emplace(port, words);
    ASSERT_EQ(worker->port(), port);
  }

  std::optional<FakeServer> first, second;
  std::vector<std::string> urls;
  std::unique_ptr<FakeServer> front;
  std::optional<Rig> rig;
};

TEST_P(Fleets, EachWorkerHasTheVersionsAndServesRequests) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  const int64_t before = fleet.first->State("count"), other = fleet.second->State("count");
  std::deque<Collect> answers(8);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (Collect& answer : answers) requests.push_back(fleet.rig->engine->Generate(Ask(20), answer.OnChunk()));
  for (Collect& answer : answers) {
    ASSERT_EQ(answer.Wait(), absl::OkStatus());
    CheckAnswer(answer, 3, SeedOf);
  }
  EXPECT_GE(fleet.first->State("count"), before + 3);
  EXPECT_GE(fleet.second->State("count"), other + 3);
  ASSERT_EQ(fleet.Share(2), absl::OkStatus());
  EXPECT_TRUE(fleet.Has(*fleet.first, 2));
  EXPECT_TRUE(fleet.Has(*fleet.second, 2));
}

TEST_P(Fleets, OneJoinsAndOneDiesUnderLoad) {
  Fleet fleet;
  fleet.second->Kill();
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  int64_t version = 1;
  {
    Load load(*fleet.rig->engine);
    load.AwaitMore(4);
    fleet.Restart(fleet.second);  // with the weights "default"
    ASSERT_EQ(fleet.Share(++version), absl::OkStatus());
    ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.second, version); })) << "it joins";
    load.AwaitMore(8);
    EXPECT_GT(fleet.second->State("count"), 0);
    fleet.first->Kill();
    ASSERT_EQ(fleet.Share(++version), absl::OkStatus());
    load.AwaitMore(8);
    fleet.Restart(fleet.first);
    ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, version); })) << "it joins again";
    ASSERT_EQ(fleet.Share(++version), absl::OkStatus());
    EXPECT_TRUE(fleet.Has(*fleet.first, version));
    EXPECT_TRUE(fleet.Has(*fleet.second, version));
    load.AwaitMore(4);
  }
  EXPECT_EQ(fleet.rig->engine->fault(), absl::OkStatus());
}

TEST_P(Fleets, AWorkerThatKeepsOldWeightsIsLeftOut) {
  Fleet fleet;
  fleet.second->Kill();
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  fleet.Restart(fleet.second, R"(--faults {"keep":"tensor","keep_loads":1000000})");
  Load load(*fleet.rig->engine);
  ASSERT_TRUE(Await([&] { return fleet.second->State("count") > 4; })) << "requests reach it";
  ASSERT_EQ(fleet.Share(2), absl::OkStatus()) << "the other one continues";
  load.AwaitMore(4);
  EXPECT_FALSE(fleet.Has(*fleet.second, 2));
  fleet.second->Post("/fake/faults", object{{"keep_loads", 0}});
  EXPECT_TRUE(Await([&] { return fleet.Has(*fleet.second, 2); })) << "it joins once it is mended";
}

// It has joined, and then fails at a swap where the other one does not.
TEST_P(Fleets, AWorkerThatFailsAtASwapIsLeftOut) {
  const object faults[] = {{{"keep", "head"}, {"keep_loads", 1000000}}, {{"load", 1000000}}, {{"pause", 1000000}}};
  for (const object& fault : faults) {
    Fleet fleet;
    ASSERT_EQ(fleet.Share(1), absl::OkStatus());
    ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
    Load load(*fleet.rig->engine);
    load.AwaitMore(4);
    fleet.second->Post("/fake/faults", fault);
    EXPECT_EQ(fleet.Share(2), absl::OkStatus()) << "the other one continues";
    EXPECT_TRUE(fleet.Has(*fleet.first, 2));
    load.AwaitMore(8);
    EXPECT_FALSE(fleet.Has(*fleet.second, 2));
    ASSERT_EQ(fleet.Share(3), absl::OkStatus());
    fleet.second->Post("/fake/faults", object{{"keep_loads", 0}, {"load", 0}, {"pause", 0}});
    EXPECT_TRUE(Await([&] { return fleet.Has(*fleet.second, 3); })) << "it joins once it is mended";
    EXPECT_EQ(fleet.rig->engine->fault(), absl::OkStatus());
  }
}

TEST_P(Fleets, AWorkerThatFailsItsFirstLoadIsLeftOut) {
  Fleet fleet;
  fleet.second->Post("/fake/faults", object{{"keep", "tensor"}, {"keep_loads", 1000000}});
  // The first version may arrive before the second worker is ready.
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  EXPECT_TRUE(fleet.Has(*fleet.first, 1));
  Load load(*fleet.rig->engine);
  load.AwaitMore(4);
  EXPECT_FALSE(fleet.Has(*fleet.second, 1));
  EXPECT_EQ(fleet.rig->engine->fault(), absl::OkStatus());
}

TEST_P(Fleets, AWorkerThatHangsInALoadDoesNotHoldTheOthers) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  const auto calls = [&] { return fleet.second->State().at("calls").as_array().size(); };
  const size_t before = calls();
  fleet.second->Fault("load_ms", 120000);
  std::atomic<bool> shared{false};
  std::thread share([&] {
    EXPECT_EQ(fleet.Share(2), absl::OkStatus());
    shared = true;
  });
  EXPECT_TRUE(Await([&] { return calls() >= before + 2; })) << "it is paused, and loads";
  EXPECT_FALSE(shared);
  fleet.second->Fault("health", true);
  EXPECT_TRUE(Await([&] { return shared.load(); }));
  share.join();
  EXPECT_TRUE(fleet.Has(*fleet.first, 2));
}

// Its connections stay open, unlike those of a worker that dies.
TEST_P(Fleets, RequestsAtAWorkerThatHangsEnd) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  fleet.second->Fault("slow_ms", 120000);
  const int64_t before = fleet.second->State("count");
  std::deque<Collect> answers(4);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (Collect& answer : answers) requests.push_back(fleet.rig->engine->Generate(Ask(20), answer.OnChunk()));
  ASSERT_TRUE(Await([&] { return fleet.second->State("count") > before; })) << "it has some of them";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a check of its health
  fleet.second->Fault("health", true);
  int ended = 0;
  for (Collect& answer : answers) {
    const absl::Status end = answer.Wait();
    EXPECT_TRUE(end.ok() || absl::IsUnavailable(end)) << end;
    ended += absl::IsUnavailable(end);
  }
  EXPECT_GT(ended, 0);
}

TEST_P(Fleets, AWorkerThatSomeoneElseChangedJoinsAgain) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  Load load(*fleet.rig->engine);
  fleet.second->Post("/fake/label", object{{"label", "someone-else"}});
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.second, 1); }));
  EXPECT_EQ(*fleet.rig->engine->LiveVersion(), 1);
  load.AwaitMore(4);
}

TEST_P(Fleets, ServesAgainOnceAllWorkersWereRestartedInTurn) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  ASSERT_EQ(fleet.rig->engine->SetAside("its log-probs differ"), absl::OkStatus());
  for (auto* worker : {&fleet.first, &fleet.second}) {
    (*worker)->Kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // three checks of its health
    fleet.Restart(*worker);
    ASSERT_TRUE(Await([&] { return (*worker)->State().at("label").as_string() != "default"; })) << "it is ready";
    if (worker == &fleet.first) {
      EXPECT_EQ(*fleet.rig->engine->LiveVersion(), -1) << "the second one is set aside";
    }
  }
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  Collect answer;
  const auto request = fleet.rig->engine->Generate(Ask(5), answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  CheckAnswer(answer, 3, SeedOf);
}

TEST_P(Fleets, AllAreGoneAndComeBack) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  fleet.first->Kill();
  fleet.second->Kill();
  ASSERT_TRUE(Await([&] { return *fleet.rig->engine->LiveVersion() == -1; }));
  fleet.Restart(fleet.first);
  ASSERT_TRUE(Await([&] { return *fleet.rig->engine->LiveVersion() == 1; }));
  Collect answer;
  const auto request = fleet.rig->engine->Generate(Ask(5), answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  CheckAnswer(answer, 3, SeedOf);
}

TEST_P(Fleets, AbortsAtTheWorkerThatHasTheRequest) {
  Fleet fleet;
  ASSERT_EQ(fleet.Share(1), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return fleet.Has(*fleet.first, 1) && fleet.Has(*fleet.second, 1); }));
  for (const auto* worker : {&*fleet.first, &*fleet.second}) {
    worker->Fault("slow_ms", 2);
    worker->Post("/fake/script", object{{"ids", array{0, 1, 2, 3, 4, 5}}});
  }
  const int64_t before = fleet.first->State("aborted") + fleet.second->State("aborted");
  v1::GenerateRequest ask = Ask(150);
  ask.mutable_sampling()->add_stop("fab");
  Collect answer;
  const auto request = fleet.rig->engine->Generate(ask, answer.OnChunk());
  ASSERT_EQ(answer.Wait(), absl::OkStatus());
  EXPECT_EQ(answer.last.stop_string(), "fab");
  EXPECT_EQ(fleet.first->State("aborted") + fleet.second->State("aborted"), before + 1);
}

}  // namespace
}  // namespace ingot::engines::external_fleet_test
