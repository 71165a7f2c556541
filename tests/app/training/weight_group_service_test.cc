// Weights by broadcast as in a run: gRPC asks the engines to join and to receive, Gloo carries the bytes.
#include "app/training/weight_group_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "weights/applying_engine.h"
#include "weights/make_snapshot.h"
#include "weights/publisher.h"

namespace ingot::app {
namespace {

using namespace std::chrono_literals;
using weights::BroadcastSet;
using weights::testing::ApplyingEngine;
using weights::testing::SameWeights;

bool Await(const std::function<bool()>& done) {
  for (const auto end = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < end;) {
    if (done()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return done();
}

WeightGroupSeat Seat() { return {.own_host = "127.0.0.1", .device = "cpu", .nccl = nullptr}; }

// An engine's process: its service, and the engine itself as the direct way.
struct Engine {
  Engine() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
  }
  ~Engine() { server->Shutdown(std::chrono::system_clock::now() + 1s); }
  v1::RoleChannel Channel() const {
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  }

  const std::shared_ptr<ApplyingEngine> engine = std::make_shared<ApplyingEngine>();
  const std::unique_ptr<grpc::Service> service = NewWeightGroupService(*engine, {}, Seat());
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

TEST(WeightGroupServiceTest, VersionsReachAllEnginesThroughALossAndAJoin) {
  const auto deadline = 12s;  // a third of it for the engines of a group to meet
  const auto set =
      BroadcastSet::Make({.gather = 5s, .rebuild = 5ms, .retry = 50ms}, NewWeightGroupRoots(Seat(), deadline)).value();
  weights::PublisherOptions options;
  options.deadline = deadline;
  weights::Publisher publisher(options);
  std::vector<std::unique_ptr<Engine>> engines;
  const auto add = [&] {
    const Engine& engine = *engines.emplace_back(std::make_unique<Engine>());
    ASSERT_TRUE(publisher
                    .AddEngine("rollout-" + std::to_string(engines.size() - 1),
                               BroadcastSet::SinkTo(set, "rollout-" + std::to_string(engines.size() - 1),
                                                    NewWeightGroupMember(engine.Channel(), deadline), engine.engine))
                    .ok());
  };
  std::mt19937_64 rng(1);
  weights::testing::Tensors tensors;
  tensors.Add("a", "F32", {1 << 18}, weights::testing::RandomBytes(rng, 1 << 20));
  tensors.Add("b", "BF16", {1 << 10}, weights::testing::RandomBytes(rng, 1 << 11));
  int64_t version = -1;
  std::shared_ptr<const weights::Snapshot> newest;
  const auto publish = [&] {
    for (int i = 0; i < 1000; ++i) tensors.bytes[0][rng() % (1 << 20)] ^= 1;
    newest = tensors.TakeSnapshot(++version);
    return publisher.Publish(newest, false).status();
  };
  const auto all_have_it = [&] {
    return std::all_of(engines.begin(), engines.end(),
                       [&](const auto& engine) { return SameWeights(*engine->engine->live(), *newest); });
  };
  add();
  add();
  ASSERT_EQ(publish(), absl::OkStatus());
  ASSERT_TRUE(Await([&] { return set->members().size() == 2; }));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(publish(), absl::OkStatus());
  EXPECT_EQ(set->broadcasts(), 3);
  EXPECT_TRUE(all_have_it());
  add();
  ASSERT_TRUE(Await([&] { return set->members().size() == 3; }));
  ASSERT_EQ(publish(), absl::OkStatus());
  EXPECT_EQ(set->broadcasts(), 4);
  EXPECT_TRUE(all_have_it());
  // The service of one is gone; its direct way is not. The version still reaches all.
  engines[1]->server->Shutdown(std::chrono::system_clock::now());
  ASSERT_EQ(publish(), absl::OkStatus());
  EXPECT_TRUE(all_have_it());
  EXPECT_EQ(publisher.leased_engines(), 3);
  ASSERT_TRUE(Await([&] { return set->members().size() == 2; }));
  // On a loaded machine, another group may still be forming. Versions are then sent directly.
  const int64_t before = set->broadcasts();
  ASSERT_TRUE(Await([&] { return publish().ok() && set->broadcasts() > before; }));
  EXPECT_TRUE(all_have_it());
}

}  // namespace
}  // namespace ingot::app
