#include "agents/grpc_episodes.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "agents/fake_episodes.h"
#include "base/retry.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::agents {
namespace {

// The gateway's service over a FakeEpisodes.
class FakeGateway final : public v1::Gateway::Service {
 public:
  explicit FakeGateway(Episodes& episodes) : episodes_(episodes) {}
  grpc::Status OpenEpisode(grpc::ServerContext*, const v1::EpisodeOpenRequest* request,
                           v1::EpisodeOpenResponse* response) override {
    auto opened = episodes_.Open(*request);
    if (!opened.ok()) return v1::ToGrpc(opened.status());
    *response = std::move(*opened);
    return grpc::Status::OK;
  }
  grpc::Status RewardEpisode(grpc::ServerContext*, const v1::EpisodeRewardRequest* request,
                             v1::EpisodeRewardResponse*) override {
    return v1::ToGrpc(episodes_.Reward(*request));
  }
  grpc::Status ReadMessages(grpc::ServerContext*, const v1::ReadMessagesRequest* request,
                            v1::ReadMessagesResponse* response) override {
    const auto read = episodes_.ReadMessages(*request);
    if (read.ok()) *response = *read;
    return v1::ToGrpc(read.status());
  }
  grpc::Status EndEpisode(grpc::ServerContext*, const v1::EpisodeEndRequest* request,
                          v1::EpisodeEndResponse* response) override {
    auto ended = episodes_.End(*request);
    if (!ended.ok()) return v1::ToGrpc(ended.status());
    *response = *std::move(ended);
    return grpc::Status::OK;
  }

  grpc::Status NextSnapshot(grpc::ServerContext*, const v1::NextSnapshotRequest* request,
                            v1::NextSnapshotResponse* response) override {
    asked = *request;
    *response = *episodes_.NextSnapshot(*request);
    return grpc::Status::OK;
  }
  grpc::Status SnapshotTaken(grpc::ServerContext*, const v1::SnapshotTakenRequest* request,
                             v1::SnapshotTakenResponse*) override {
    return v1::ToGrpc(episodes_.SnapshotTaken(*request));
  }
  grpc::Status SendSnapshotFiles(grpc::ServerContext*, const v1::SnapshotFilesPart* part,
                                 v1::SnapshotFilesResponse*) override {
    admin_key_of_files = part->admin_key();
    ++parts;
    if (knows_no_transfer) return v1::ToGrpc(absl::NotFoundError("nobody reads"));
    return v1::ToGrpc(episodes_.SendSnapshotFiles(*part));
  }
  v1::NextSnapshotRequest asked;  // the last one
  std::string admin_key_of_files;
  int parts = 0;  // of files
  bool knows_no_transfer = false;

 private:
  Episodes& episodes_;
};

std::shared_ptr<grpc::Channel> Connect(int port) {
  return grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
}

TEST(GrpcEpisodesTest, CarriesAnEpisodeThroughItsLifeAndErrorsWithTheirPayload) {
  FakeEpisodes gateway(1);
  int opens = 0;
  gateway.before_open = [&] {
    return ++opens == 1 ? base::WithRetryAfter(absl::ResourceExhaustedError("full"), 250) : absl::OkStatus();
  };
  FakeGateway service(gateway);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ASSERT_GT(port, 0);
  const auto episodes = MakeGrpcEpisodes({Connect(port)}, {.admin_key = "secret"});

  v1::EpisodeOpenRequest open;
  open.set_scaffold("tool_agent");
  const auto rejected = episodes->Open(open);
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::RetryAfterMs(rejected.status()), 250);

  const auto opened = episodes->Open(open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->task().payload_json(), R"({"text":"hello","answer":"42"})");
  EXPECT_EQ(gateway.scaffolds().at("tool_agent"), 1);

  gateway.messages = {R"({"content":"one"})"};
  v1::ReadMessagesRequest read;
  read.set_episode_id(opened->episode_id());
  EXPECT_EQ(episodes->ReadMessages(read).status().code(), absl::StatusCode::kPermissionDenied);
  read.set_api_key(opened->api_key());
  EXPECT_EQ(episodes->ReadMessages(read)->messages_json(0), R"({"content":"one"})");

  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(opened->episode_id());
  reward.set_api_key("wrong");
  EXPECT_EQ(episodes->Reward(reward).code(), absl::StatusCode::kPermissionDenied);
  reward.set_api_key(opened->api_key());
  reward.set_reward(0.5);
  EXPECT_TRUE(episodes->Reward(reward).ok());
  EXPECT_EQ(gateway.rewards().at(opened->episode_id()).reward(), 0.5);

  v1::EpisodeEndRequest end;
  end.set_episode_id(opened->episode_id());
  end.set_api_key(opened->api_key());
  end.set_state(v1::EPISODE_FINISHED);
  gateway.last_rejection = "400 episode_limit: it has made 3 calls";
  const auto ended = episodes->End(end);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->last_rejection(), gateway.last_rejection);
  EXPECT_EQ(gateway.ends().size(), 1u);

  gateway.Ask("ep0", "ep0.3", /*ends=*/true);
  const auto ask = episodes->NextSnapshot({});
  ASSERT_TRUE(ask.ok()) << ask.status();
  EXPECT_EQ(ask->snapshot_id(), "ep0.3");
  EXPECT_TRUE(ask->ends());
  EXPECT_EQ(service.asked.runner(), "agents");
  EXPECT_EQ(service.asked.admin_key(), "secret");
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id("ep0.3");
  EXPECT_TRUE(episodes->SnapshotTaken(taken).ok());
  EXPECT_EQ(gateway.AwaitTaken(1).at(0).admin_key(), "secret");
  v1::SnapshotFilesPart part;
  part.set_transfer_id("t");
  part.set_data("bytes");
  part.set_done(true);
  EXPECT_TRUE(episodes->SendSnapshotFiles(part).ok());
  EXPECT_EQ(gateway.AwaitFiles("t").first, "bytes");
  EXPECT_EQ(service.admin_key_of_files, "secret");
  EXPECT_EQ(episodes->Open(open).status().code(), absl::StatusCode::kFailedPrecondition);
  server->Shutdown();
}

// Two gateways, each on a server of its own.
struct TwoGateways {
  TwoGateways(FakeEpisodes& first, FakeEpisodes& second) : services{FakeGateway(first), FakeGateway(second)} {
    for (int i = 0; i < 2; ++i) {
      grpc::ServerBuilder builder;
      int port = 0;
      builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
      builder.RegisterService(&services[i]);
      servers[i] = builder.BuildAndStart();
      channels.emplace_back(Connect(port));
    }
  }

  FakeGateway services[2];
  std::unique_ptr<grpc::Server> servers[2];
  std::vector<v1::RoleChannel> channels;
};

TEST(GrpcEpisodesTest, GatewaysOpenInTurnAndOneThatIsGoneIsPassedOver) {
  FakeEpisodes first(2), second(2);
  ASSERT_TRUE(first.Open({}).ok());  // so that the ids of the two differ
  TwoGateways gateways(first, second);
  const auto episodes = MakeGrpcEpisodes(gateways.channels);
  std::vector<v1::EpisodeOpenResponse> opened;
  for (int i = 0; i < 2; ++i) opened.push_back(episodes->Open({}).value());
  EXPECT_EQ(first.opened(), 2);
  EXPECT_EQ(second.opened(), 1);
  // Each reward goes to the gateway that opened its episode: no other one knows the key.
  for (const v1::EpisodeOpenResponse& one : opened) {
    v1::EpisodeRewardRequest reward;
    reward.set_episode_id(one.episode_id());
    reward.set_api_key(one.api_key());
    reward.set_reward(1);
    EXPECT_TRUE(episodes->Reward(reward).ok());
  }
  EXPECT_EQ(first.rewards().size(), 1u);
  EXPECT_EQ(second.rewards().size(), 1u);
  gateways.servers[0]->Shutdown();
  EXPECT_TRUE(episodes->Open({}).ok());
  gateways.servers[1]->Shutdown();
  EXPECT_EQ(episodes->Open({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcEpisodesTest, TheGatewayThatAskedIsToldAlone) {
  FakeEpisodes first(1), second(1);
  TwoGateways gateways(first, second);
  const auto episodes = MakeGrpcEpisodes(gateways.channels);
  const auto next = [&] {
    absl::StatusOr<v1::NextSnapshotResponse> ask;
    for (int i = 0; i < 2; ++i) {
      ask = episodes->NextSnapshot({});
      if (ask.ok() && !ask->episode_id().empty()) break;
    }
    return ask;
  };
  second.Ask("ep0", "ep0.1", false, "t");
  ASSERT_EQ(next()->transfer_id(), "t");
  v1::SnapshotFilesPart part;
  part.set_transfer_id("t");
  part.set_data("bytes");
  EXPECT_TRUE(episodes->SendSnapshotFiles(part).ok());
  EXPECT_EQ(gateways.services[0].parts, 0);
  EXPECT_EQ(gateways.services[1].parts, 1);
  // Another gateway that is gone hides no answer of the one that asked.
  gateways.servers[0]->Shutdown();
  gateways.services[1].knows_no_transfer = true;
  part.set_offset(5);
  const absl::Status reported = episodes->SendSnapshotFiles(part);
  EXPECT_TRUE(absl::IsNotFound(reported)) << reported;
  second.Ask("ep0", "ep0.2", false);
  for (int i = 0; i < 2 && second.AwaitTaken(0).empty(); ++i) {
    const auto ask = episodes->NextSnapshot({});
    if (!ask.ok() || ask->snapshot_id().empty()) continue;
    v1::SnapshotTakenRequest taken;
    taken.set_snapshot_id(ask->snapshot_id());
    EXPECT_TRUE(episodes->SnapshotTaken(taken).ok());
  }
  EXPECT_EQ(second.AwaitTaken(1).size(), 1u);
}

TEST(GrpcEpisodesTest, AGatewayThatIsNotThereIsUnavailable) {
  const auto episodes = MakeGrpcEpisodes({Connect(1)});
  EXPECT_EQ(episodes->Open({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcEpisodesTest, OptionsAreChecked) {
  EXPECT_TRUE(GrpcEpisodesOptions{}.Validate().ok());
  EXPECT_FALSE((GrpcEpisodesOptions{.timeout_s = 0}).Validate().ok());
}

}  // namespace
}  // namespace ingot::agents
