#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/retry.h"
#include "datapool/grpc_client.h"
#include "datapool/make_pool.h"
#include "datapool/service.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Get;
using ::testing::HasSubstr;
using testing::Open;
using testing::Prompt;
using testing::Sampled;
using namespace std::chrono_literals;

struct Server {
  Server(Client& pool, int at = 0) : service(NewDataPoolService(pool)) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(at), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

// The deadline of 20 s is never reached.
TEST(Grpc, ATreeLargerThanAMessageIsOutOfRange) {
  testing::TempDir dir;
  const auto store = Store::Open(testing::QuickOptions(dir.path())).value();
  const Server server(*store);
  const auto pool = NewGrpcClient(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server.port), grpc::InsecureChannelCredentials()), 20s);
  ASSERT_TRUE(pool->StoreEpisode(Open("e", 3, 0)).ok());
  const std::vector<int32_t> many(1 << 20, 1 << 24);  // 4 bytes each: 4 MiB, the default limit of a client
  ASSERT_TRUE(pool->AppendCall(Append("e", 0, {Prompt(many)}, {})).ok());
  const auto tree = Get(*pool, "e");
  EXPECT_EQ(tree.status().code(), absl::StatusCode::kOutOfRange) << tree.status();
  EXPECT_THAT(std::string(tree.status().message()), HasSubstr("larger than max"));
}

TEST(Grpc, EveryMethodGoesThereAndBack) {
  testing::TempDir dir;
  const auto store = Store::Open(testing::QuickOptions(dir.path())).value();
  const Server server(*store);
  const auto pool = NewGrpcClient(server.Channel(), 20s);

  ASSERT_TRUE(pool->StoreEpisode(Open("e", 3, 0)).ok());
  const auto call = Append("e", 0, {Prompt({1, 2})}, {Sampled({3})});
  auto bare = call;
  bare.clear_segments();
  const absl::Status missing = pool->AppendCall(bare);
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(missing.GetPayload(kMissingSegments).has_value());
  ASSERT_TRUE(pool->AppendCall(call).ok());
  std::vector<int32_t> many(2000000, 5);  // beyond gRPC's default limit of 4 MiB
  ASSERT_TRUE(pool->AppendCall(Append("e", 1, {Prompt(many)}, {Sampled(many)})).ok());
  ASSERT_TRUE(pool->StoreReward(testing::Reward("e", 0.5, {{"e/1", 2}})).ok());
  EXPECT_EQ(pool->StoreReward(testing::Reward("e", 1, {{"e/2", 2}})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Get(*pool, "e")->episode().reward(), 0.5);
  EXPECT_EQ(Get(*pool, "e")->episode().call_rewards().at("e/1"), 2);
  ASSERT_TRUE(pool->StoreEnd(End("e")).ok());
  EXPECT_EQ(pool->StoreEnd(End("e", v1::EPISODE_FAILED)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Get(*pool, "e")->SerializePartialAsString().size(), Get(*store, "e")->SerializePartialAsString().size());
  EXPECT_EQ(Get(*pool, "e")->calls_size(), 2);
  EXPECT_EQ(Get(*pool, "none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(testing::GetGroup(*pool, 3)->episodes(0).segments_size(), 4);
  v1::ListEpisodesRequest list;
  list.set_last_group(-1);
  EXPECT_EQ(pool->ListEpisodes(list)->episodes(0).reward(), 1);
  EXPECT_EQ(pool->AppendJournal(testing::BatchRecord(0, {3})).value(), 0);
  EXPECT_EQ(pool->AppendJournal(testing::BatchRecord(1, {4})).value(), 1);
  auto late = testing::BatchRecord(1, {5});
  late.set_expected_index(1);
  EXPECT_EQ(pool->AppendJournal(late).status().code(), absl::StatusCode::kAborted);
  v1::ReadJournalRequest read;
  read.set_from_index(1);
  EXPECT_EQ(pool->ReadJournal(read)->records(0).batch().step(), 1);
  EXPECT_EQ(pool->Status()->calls(), 2);
  EXPECT_EQ(testing::TrimBelow(*pool, 1), 1);
  EXPECT_EQ(pool->Status()->episodes(), 0);
}

// A pool that answers with given errors.
class ScriptedPool final : public Client {
 public:
  std::function<absl::Status()> script;
  absl::Status StoreEpisode(const v1::StoreEpisodeRequest&) override { return script(); }
  absl::Status AppendCall(const v1::AppendCallRequest&) override { return script(); }
  absl::Status StoreReward(const v1::StoreRewardRequest&) override { return script(); }
  absl::Status StoreEnd(const v1::StoreEndRequest&) override { return script(); }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest&) override { return script(); }
  absl::Status StoreGrades(const v1::StoreGradesRequest&) override { return script(); }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest&) override { return script(); }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest&) override { return script(); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest&) override { return script(); }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest&) override { return script(); }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest&) override { return script(); }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest&) override { return script(); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return script(); }
};

TEST(GrpcClient, RetriesUnavailableAndNoOtherError) {
  ScriptedPool scripted;
  const Server server(scripted);
  const auto pool = NewGrpcClient(server.Channel(), 20s);
  std::atomic<int> calls{0};
  scripted.script = [&] { return ++calls < 4 ? absl::UnavailableError("later") : absl::OkStatus(); };
  EXPECT_TRUE(pool->AppendCall({}).ok());
  EXPECT_EQ(calls, 4);
  scripted.script = [&] {
    ++calls;
    return base::WithRetryAfter(absl::ResourceExhaustedError("full"), 70);
  };
  calls = 0;
  const absl::Status full = pool->AppendCall({});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::RetryAfterMs(full), 70);
  EXPECT_EQ(calls, 1);
  scripted.script = [] { return absl::UnavailableError("the disk is away"); };
  const absl::Status given_up = NewGrpcClient(server.Channel(), 500ms)->StoreEpisode({});
  EXPECT_EQ(given_up.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(given_up.message()), HasSubstr("the disk is away"));
}

TEST(GrpcClient, WaitsForAPoolThatComesBack) {
  testing::TempDir dir;
  const auto store = Store::Open(testing::QuickOptions(dir.path())).value();
  auto server = std::make_unique<Server>(*store);
  const auto pool = NewGrpcClient(server->Channel(), 30s);
  ASSERT_TRUE(pool->StoreEpisode(Open("e", 0, 0)).ok());
  const int port = server->port;
  server->server->Shutdown();
  server.reset();
  std::thread comeback([&] { server = std::make_unique<Server>(*store, port); });
  EXPECT_TRUE(pool->AppendCall(Append("e", 0, {Prompt({1})}, {})).ok());
  comeback.join();
}

}  // namespace
}  // namespace ingot::datapool
