// A server that dies during weight changes: no token of torn weights is delivered, and the run continues.
#include <gtest/gtest.h>

#include <thread>

#include "engines/external_rig.h"
#include "trials.h"

namespace ingot::engines::external_kills_test {
namespace {

using base::json::object;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)

class ExternalKills : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalKills, kEachServer, KindName);

// Where an update is when the server dies.
enum class Place : uint8_t { kLoading, kVerifying, kAnywhere, kPlaces };

// Returns whether the update is there, or the server is gone.
bool IsAt(Place place, const std::string& url, int64_t version) {
  const auto state = FakeServer::TryStateOf(url);
  if (!state.has_value()) return true;
  const bool labeled = state->at("label").as_string().starts_with(std::to_string(version) + "-");
  const bool paused = state->at("paused").as_bool();
  return place == Place::kLoading ? paused && !labeled : labeled && !paused;
}

// Updates that fail are sent again, as the publisher does.
void ShareUntilAccepted(Rig& rig, int64_t version) {
  absl::Status shared;
  ASSERT_TRUE(Await([&] {
    shared = rig.Share(version, static_cast<uint32_t>(SeedOf(version))).status();
    return shared.ok() || !absl::IsUnavailable(shared);
  }));
  ASSERT_EQ(shared, absl::OkStatus());
}

TEST_P(ExternalKills, AServerKilledInUpdatesTearsNoToken) {
  ExternalOptions external;
  external.command = {"python3", FakeProgram(), "--dialect", Dialect(), "--port", "${port}", "--model", "${model}"};
  Rig rig(external);
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  Load load(*rig.engine);
  const int kills = Trials(2, 20);
  for (int kill = 0; kill < kills; ++kill) {
    const int64_t version = kill + 2;
    const auto place = static_cast<Place>(kill % static_cast<int>(Place::kPlaces));
    const std::string url = rig.engine->server_url();
    const pid_t server = rig.engine->server_pid();
    load.AwaitMore(4);
    // A load is torn for as long as it takes, and a verification needs eight requests.
    FakeServer::PostTo(url, "/fake/faults",
                       object{{"slow_ms", 1},
                              {"load_ms", place == Place::kLoading ? 2000 : 20},
                              {"score_ms", place == Place::kVerifying ? 500 : 5}});
    std::thread update([&] { (void)rig.Share(version, static_cast<uint32_t>(SeedOf(version))); });
    if (place == Place::kAnywhere) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kill * 37 % 80));
    } else {
      EXPECT_TRUE(Await([&] { return IsAt(place, url, version); }));
    }
    const auto state = FakeServer::TryStateOf(url);
    EXPECT_TRUE(state.has_value() && state->at("overlap").to_number<int64_t>() == 0)
        << "it drew tokens of torn weights";
    ::kill(server, SIGKILL);
    update.join();
    ASSERT_NO_FATAL_FAILURE(ShareUntilAccepted(rig, version));
    EXPECT_EQ(*rig.engine->LiveVersion(), version);
    EXPECT_EQ(rig.engine->fault(), absl::OkStatus());
  }
  load.AwaitMore(4);
  EXPECT_GE(rig.engine->Status()->servers(0).restarts(), kills);
}

// Workers of a fleet die at updates in turn, and come back at the same address.
TEST_P(ExternalKills, WorkersOfAFleetDieInUpdatesInTurn) {
  std::optional<FakeServer> workers[2];
  std::vector<std::string> urls;
  for (auto& worker : workers) urls.push_back(worker.emplace().url());
  const auto front = FakeServer::Front(urls);
  Rig rig({.workers = urls}, Options(), front->url());
  ASSERT_NO_FATAL_FAILURE(ShareUntilAccepted(rig, 1));
  Load load(*rig.engine);
  for (int kill = 0; kill < Trials(2, 20); ++kill) {
    const int64_t version = kill + 2;
    auto& worker = workers[kill % 2];
    const auto has_joined = [&] {
      return worker->State().at("label").as_string().starts_with(std::to_string(version - 1) + "-");
    };
    ASSERT_TRUE(Await(has_joined));
    load.AwaitMore(4);
    worker->Post("/fake/faults", object{{"load_ms", kill % 3 == 0 ? 1000 : 10}, {"score_ms", kill % 3 == 1 ? 300 : 2}});
    std::thread update([&] { (void)rig.Share(version, static_cast<uint32_t>(SeedOf(version))); });
    if (kill % 3 == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kill * 37 % 60));
    } else {
      EXPECT_TRUE(
          Await([&] { return IsAt(kill % 3 == 0 ? Place::kLoading : Place::kVerifying, worker->url(), version); }));
    }
    EXPECT_EQ(worker->State("overlap"), 0);
    const int port = worker->port();
    worker->Kill();
    update.join();
    ASSERT_NO_FATAL_FAILURE(ShareUntilAccepted(rig, version));
    load.AwaitMore(8);
    worker.emplace(port);
    ASSERT_EQ(worker->port(), port);
    EXPECT_EQ(rig.engine->fault(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace ingot::engines::external_kills_test
