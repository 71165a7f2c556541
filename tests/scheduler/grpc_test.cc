// The scheduler over gRPC: client and service together answer as the scheduler behind them.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "base/retry.h"
#include "proto/scheduler.grpc.pb.h"
#include "scheduler/grpc_client.h"
#include "scheduler/makers.h"
#include "scheduler/service.h"

namespace ingot::scheduler {
namespace {

class SchedulerGrpcTest : public ::testing::Test {
 protected:
  SchedulerGrpcTest() {
    scheduler_ = MustRecover({.group_size = 2, .groups_per_step = 1, .total_steps = 3, .retry_after_ms = 123}, pool_,
                             base::Clock::Real(), 0);
    service_ = NewSchedulerService(*scheduler_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
    client_ = NewGrpcClient(channel_, std::chrono::seconds(30));
  }

  FakePool pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Client> client_;
};

TEST_F(SchedulerGrpcTest, AWholeStep) {
  const auto refused = client_->Admit({});
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(base::RetryAfterMs(refused.status()), 123);
  ASSERT_TRUE(client_->MarkVersionLive(0).ok());
  for (const double reward : {0.0, 1.0}) {
    const auto ticket = client_->Admit({});
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    EXPECT_FALSE(ticket->task().task_id().empty());
    pool_.Open(*ticket);
    pool_.End(EndOf(*ticket, v1::EPISODE_FINISHED, reward));
    ASSERT_TRUE(client_->EpisodeEnded(EndOf(*ticket, v1::EPISODE_FINISHED, reward)).ok());
  }
  const auto batch = client_->NextBatch(Batch(0, 1000));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(GroupsOf(*batch), std::vector<int64_t>{0});
  EXPECT_EQ(batch->stats().reward_mean(), 0.5);
  ASSERT_TRUE(client_->MarkVersionLive(1).ok());
  v1::CheckpointRequest checkpoint;
  checkpoint.set_step(1);
  ASSERT_TRUE(client_->MarkCheckpoint(checkpoint).ok());
  v1::StartEvalRequest eval;
  eval.set_version(1);
  eval.set_avg_n(1);
  eval.add_tasks()->set_task_id("held out");
  EXPECT_EQ(client_->StartEval(eval)->first_group(), 1 << 20);
  EXPECT_EQ(client_->EvalStatus(1)->total(), 1);
  EXPECT_TRUE(absl::IsNotFound(client_->EvalStatus(2).status()));
  EXPECT_EQ(client_->Status()->next_step(), 1);
}

TEST_F(SchedulerGrpcTest, AnExpiredWaitIsTheSchedulersDeadlineNotTheCalls) {
  const absl::Status status = client_->NextBatch(Batch(0, 5)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_NE(std::string(status.message()).find("0 of 1 groups"), std::string::npos) << status;
}

TEST_F(SchedulerGrpcTest, AWaitingNextBatchCanBeCancelled) {
  auto stub = v1::Scheduler::NewStub(channel_);
  grpc::ClientContext context;
  v1::NextBatchResponse response;
  std::thread canceller([&] {
    while (!client_->Status().ok()) {
    }
    context.TryCancel();
  });
  const grpc::Status status = stub->NextBatch(&context, Batch(0, 3'600'000), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  canceller.join();
  server_->Shutdown();  // returns once the handler has noticed and returned
}

}  // namespace
}  // namespace ingot::scheduler
