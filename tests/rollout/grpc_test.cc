// Engine, service and client over a real channel on 127.0.0.1, on a model of plain code.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/service.h"
#include "rollout/fake_model.h"
#include "rollout/grpc_client.h"
#include "weights/grpc_sink.h"

namespace ingot::rollout::grpc_test {
namespace {

struct Remote {
  explicit Remote(int64_t max_update_bytes = 1 << 20, bool takes_weights = true) {
    EngineOptions options;
    options.kv_block_tokens = 4;
    options.kv_cache_tokens = 8000;
    options.max_batch_tokens = 64;
    options.max_update_bytes = max_update_bytes;
    options.record_alternatives = 2;
    auto owned = std::make_unique<FakeRunner>(24, 5000, options.kv_cache_tokens, options.kv_block_tokens);
    owned->before_forward = [this](const ForwardBatch&) { gate.Pass(); };
    owned->after_load = [this] { ++loads; };
    Engine::Parts parts;
    parts.runner = std::move(owned);
    engine = *Engine::Create(options, std::move(parts), FakeSnapshot(1, 1001));
    service = takes_weights ? NewRolloutService(*engine) : NewRolloutService(*engine, std::nullopt);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    parking_service = NewParkingService(*engine);
    builder.RegisterService(parking_service.get());
    server = builder.BuildAndStart();
    channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
    client = NewGrpcClient(channel);
  }
  ~Remote() {
    gate.Open();
    engine->Shutdown();  // ends the streams, so that the server need not wait for them
    server->Shutdown();
  }

  StepGate gate;
  std::atomic<uint64_t> loads{0};  // of weights
  std::unique_ptr<Engine> engine;
  std::unique_ptr<grpc::Service> service, parking_service;
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<grpc::Channel> channel;
  std::shared_ptr<Client> client;
};

v1::GenerateRequest Ask(std::vector<int32_t> prompt, int32_t max_new, uint64_t seed = 1, int64_t pinned = -1) {
  v1::GenerateRequest request;
  request.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(seed);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.set_pinned_version(pinned);
  return request;
}

TEST(RolloutGrpcTest, RemoteAndLocalAnswersAreEqual) {
  Remote remote;
  std::deque<Collect> there(16), here(16);
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 16; ++i) {
    v1::GenerateRequest ask = Ask({i, 2, 3}, 10 + i, i);
    ask.set_top_logprobs(2);
    ask.set_record_routes(true);
    requests.push_back(remote.client->Generate(ask, there[i].OnChunk()));
    requests.push_back(remote.engine->Generate(ask, here[i].OnChunk()));
  }
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(there[i].Wait(), absl::OkStatus());
    ASSERT_EQ(here[i].Wait(), absl::OkStatus());
    EXPECT_EQ(there[i].ids, here[i].ids);
    EXPECT_EQ(there[i].logprobs, here[i].logprobs);
    EXPECT_EQ(there[i].routes.size(), 2 * there[i].ids.size());
    EXPECT_EQ(there[i].routes, here[i].routes);
    EXPECT_EQ(there[i].alternative_ids.size(), 2 * there[i].ids.size());
    EXPECT_EQ(there[i].alternative_ids, here[i].alternative_ids);
    EXPECT_EQ(there[i].alternative_logprobs, here[i].alternative_logprobs);
    EXPECT_EQ(there[i].top.size(), there[i].ids.size());
    EXPECT_EQ(there[i].versions.size(), there[i].ids.size());
    EXPECT_EQ(there[i].last.finish(), v1::FINISH_LENGTH);
    EXPECT_GT(there[i].last.times().end_unix_ns(), 0);
  }
  EXPECT_EQ(remote.client->Status()->version(), 1);
}

TEST(RolloutGrpcTest, ErrorsKeepTheirCodes) {
  Remote remote;
  Collect empty, pinned;
  auto first = remote.client->Generate(Ask({}, 5), empty.OnChunk());
  auto second = remote.client->Generate(Ask({1}, 5, 1, 9), pinned.OnChunk());
  EXPECT_EQ(empty.Wait().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.Wait().message()), testing::HasSubstr("prompt_ids"));
  EXPECT_EQ(pinned.Wait().code(), absl::StatusCode::kNotFound);
}

TEST(RolloutGrpcTest, DestroyingARequestCancelsItInTheEngine) {
  Remote remote;
  for (int round = 0; round < 20; ++round) {
    Collect result;
    auto request = remote.client->Generate(Ask({1, 2, 3}, 4900, round), result.OnChunk());
    if (round % 2 == 0) result.WaitForTokens(2);
    request.reset();
    result.ExpectNothingMore();
  }
  // If the cancel were lost, the engine would sample 98,000 tokens. It frees every block long before.
  while (remote.engine->Status()->running() + remote.engine->Status()->waiting() > 0) std::this_thread::yield();
  EXPECT_EQ(remote.engine->Status()->kv_blocks_used(), 0);
  EXPECT_LT(remote.engine->Status()->sampled_tokens(), 20 * 4900);
}

TEST(RolloutGrpcTest, ASlowReaderGetsEveryTokenOnce) {
  Remote remote;
  Collect slow, reference;
  auto local = remote.engine->Generate(Ask({1, 2}, 500, 3), reference.OnChunk());
  ASSERT_EQ(reference.Wait(), absl::OkStatus());
  int seen = 0;
  auto collect = slow.OnChunk();
  auto request = remote.client->Generate(Ask({1, 2}, 500, 3), [&](absl::StatusOr<v1::GenerateChunk> chunk) {
    for (int i = 0; i < 200; ++i) std::this_thread::yield();
    ++seen;
    collect(std::move(chunk));
  });
  ASSERT_EQ(slow.Wait(), absl::OkStatus());
  EXPECT_EQ(slow.ids, reference.ids);
  EXPECT_EQ(slow.logprobs, reference.logprobs);
  EXPECT_LE(seen, 500);
}

TEST(RolloutGrpcTest, WeightsArriveOverTheChannelAndHealAfterAWrongBase) {
  Remote remote;
  const auto sink = *weights::NewGrpcSink(remote.channel);
  const auto two = FakeSnapshot(2, 1002), three = FakeSnapshot(3, 1003), stranger = FakeSnapshot(9, 9);
  const auto updated = sink->Update(*weights::Encode(remote.engine->newest().get(), *two, /*retain=*/true));
  ASSERT_EQ(updated.status(), absl::OkStatus());
  EXPECT_EQ(updated->version(), 2);
  EXPECT_EQ(sink->Update(*weights::Encode(stranger.get(), *three, false)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(sink->Update(*weights::Encode(nullptr, *three, false)).status(), absl::OkStatus());
  EXPECT_THAT(remote.client->Status()->held_versions(), testing::UnorderedElementsAre(2, 3));
  const std::vector<weights::HeldVersion> held{{2, two->checksum()}, {3, three->checksum()}};
  EXPECT_EQ(*sink->HeldVersions(), held);
  EXPECT_EQ(*remote.engine->HeldVersions(), held);
  ASSERT_EQ(sink->Release(2), absl::OkStatus());
  EXPECT_THAT(remote.client->Status()->held_versions(), testing::ElementsAre(3));
  Collect result;
  auto request = remote.client->Generate(Ask({1}, 3), result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.versions.front().version(), 3);
}

TEST(RolloutGrpcTest, ACancelledUpdateIsNeverApplied) {
  Remote remote;
  remote.gate.Let(3);
  Collect result;
  auto request = remote.client->Generate(Ask({1, 2}, 4900), result.OnChunk());
  result.WaitForTokens(3);  // the next step does not end
  const auto patient = *weights::NewGrpcSink(remote.channel);
  const auto hasty = *weights::NewGrpcSink(remote.channel, {.deadline = std::chrono::milliseconds(200)});
  const uint64_t loaded = remote.loads;
  std::thread newer([&] {
    EXPECT_EQ(patient->Update(*weights::Encode(nullptr, *FakeSnapshot(6, 1006), false)).status(), absl::OkStatus());
  });
  while (remote.loads == loaded) std::this_thread::yield();  // it has its turn, and waits for the step
  EXPECT_EQ(hasty->Update(*weights::Encode(nullptr, *FakeSnapshot(5, 1005), false)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  // A call on the same connection, after the cancel: when it returns, the server knows that the sender is gone.
  EXPECT_EQ(remote.client->Status()->version(), 1);
  request.reset();
  remote.gate.Open();
  newer.join();
  remote.server->Shutdown();  // after it has ended its calls
  EXPECT_EQ(*remote.engine->LiveVersion(), 6);
}

TEST(RolloutGrpcTest, AnUpdateBeyondTheLimitIsRejected) {
  Remote remote(/*max_update_bytes=*/16);
  const auto sink = *weights::NewGrpcSink(remote.channel);
  EXPECT_EQ(sink->Update(*weights::Encode(nullptr, *FakeSnapshot(2, 2), false)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(remote.engine->Status()->version(), 1);
}

// A few kilobytes that claim to be megabytes: refused before anything is allocated for them.
TEST(RolloutGrpcTest, AnUpdateLargerThanTheModelIsRejected) {
  Remote remote;
  const std::vector<std::byte> zeros(16 << 20);
  const auto large = *weights::Snapshot::Copy(2, {{"w", "F32", {4 << 20}, zeros}});
  for (const auto& delta : {*weights::Encode(nullptr, *large, false), *weights::EncodeHeld(*large)}) {
    ASSERT_LT(delta.wire_bytes(), 10000);
    const auto sink = *weights::NewGrpcSink(remote.channel);
    for (weights::Sink* to : {sink.get(), static_cast<weights::Sink*>(remote.engine.get())}) {
      const absl::Status status = to->Update(delta).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("more than 8 bytes"));
    }
  }
  EXPECT_THAT(remote.engine->Status()->held_versions(), testing::ElementsAre(1));
}

TEST(RolloutGrpcTest, AServerOfFixedWeightsSamplesAndRejectsUpdates) {
  Remote remote(1 << 20, /*takes_weights=*/false);
  const auto sink = *weights::NewGrpcSink(remote.channel);
  EXPECT_EQ(sink->Update(*weights::Encode(nullptr, *FakeSnapshot(2, 2), false)).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(sink->Release(1).code(), absl::StatusCode::kPermissionDenied);
  Collect result;
  auto request = remote.client->Generate(Ask({1}, 3), result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.versions.front().version(), 1);
}

TEST(RolloutGrpcTest, ParksAndResumesTheEngine) {
  Remote remote;
  const auto parking = NewGrpcParking(remote.channel, std::chrono::seconds(30));
  v1::ParkRequest park;
  EXPECT_EQ(parking->Park(park).status().code(), absl::StatusCode::kInvalidArgument);
  park.set_timeout_seconds(30);
  park.set_lease_seconds(1000);
  EXPECT_EQ(parking->Park(park)->freed_bytes(), 8 * 8000);
  Collect result;
  auto request = remote.client->Generate(Ask({1, 2}, 3), result.OnChunk());
  while (remote.engine->Status()->waiting() == 0) std::this_thread::yield();
  ASSERT_EQ(parking->Resume(), absl::OkStatus());
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  remote.engine->Shutdown();
  EXPECT_EQ(parking->Park(park).status().code(), absl::StatusCode::kUnavailable);
  remote.server->Shutdown();
  EXPECT_EQ(parking->Park(park).status().code(), absl::StatusCode::kUnavailable) << "it does not wait for a dead one";
}

TEST(RolloutGrpcTest, DestroyingTheClientEndsItsRequests) {
  Remote remote;
  Collect result, dropped;
  remote.gate.Let(3);
  auto request = remote.client->Generate(Ask({1, 2}, 4900), result.OnChunk());
  result.WaitForTokens(1);
  auto other = remote.client->Generate(Ask({1, 2}, 4900), dropped.OnChunk());
  other.reset();  // its rpc may still run when the client is destroyed
  remote.channel.reset();
  remote.client.reset();
  EXPECT_EQ(result.Wait().code(), absl::StatusCode::kUnavailable);
  remote.gate.Open();
  request.reset();
}

TEST(RolloutGrpcTest, AnEngineThatGoesAwayEndsItsRequestsWithUnavailable) {
  Remote remote;
  Collect result;
  remote.gate.Let(3);
  auto request = remote.client->Generate(Ask({1, 2}, 4900), result.OnChunk());
  result.WaitForTokens(1);
  std::thread stopper([&] { remote.engine->Shutdown(); });
  while (remote.engine->Status().ok()) std::this_thread::yield();
  remote.gate.Open();
  stopper.join();
  EXPECT_EQ(result.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(remote.client->Status().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ingot::rollout::grpc_test
