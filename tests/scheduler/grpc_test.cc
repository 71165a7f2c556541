// The scheduler over gRPC: client and service together answer as the scheduler behind them.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "base/cause.h"
#include "base/retry.h"
#include "proto/reward.grpc.pb.h"
#include "proto/scheduler.grpc.pb.h"
#include "scheduler/grader_service.h"
#include "scheduler/grpc_client.h"
#include "scheduler/grpc_grader.h"
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
  const auto rejected = client_->Admit({});
  EXPECT_TRUE(absl::IsResourceExhausted(rejected.status()));
  EXPECT_EQ(base::RetryAfterMs(rejected.status()), 123);
  ASSERT_TRUE(client_->MarkVersionLive(0).ok());
  for (const double reward : {0.0, 1.0}) {
    const auto ticket = client_->Admit({});
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    EXPECT_FALSE(ticket->task().task_id().empty());
    pool_.Open(*ticket);
    pool_.End(EndOf(*ticket, v1::EPISODE_FINISHED, reward));
    ASSERT_TRUE(client_->ReportEpisodeEnd(EndOf(*ticket, v1::EPISODE_FINISHED, reward)).ok());
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

class OneAnswer final : public Grader {
 public:
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override {
    asked = request;
    return answer;
  }
  v1::GradeRequest asked;
  absl::StatusOr<v1::GradeResponse> answer;
};

// Judges until it is told that it may end.
class SlowStage final : public Grader {
 public:
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest&) override {
    begun.set_value();
    end.get_future().wait();
    return v1::GradeResponse();
  }
  std::promise<void> begun, end;
};

class GraderGrpcTest : public ::testing::Test {
 protected:
  GraderGrpcTest() : service_(NewGraderService(stage_)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials());
    grader_ = NewGrpcGrader(channel_, std::chrono::seconds(30));
    request_.set_group_id(7);
    request_.set_admitted_version(3);
  }

  OneAnswer stage_;
  std::unique_ptr<grpc::Service> service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<RemoteGrader> grader_;
  v1::GradeRequest request_;
};

TEST_F(GraderGrpcTest, CarriesTheQuestionAndTheAnswer) {
  v1::GradeResponse response;
  response.add_returns(0.5);
  response.add_returns(std::numeric_limits<double>::quiet_NaN());
  (*response.mutable_ungraded())[1] = "unsure";
  response.set_equal(true);
  stage_.answer = response;
  const auto answer = grader_->Grade(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(stage_.asked.group_id(), 7);
  EXPECT_EQ(stage_.asked.admitted_version(), 3);
  EXPECT_EQ(answer->returns(0), 0.5);
  EXPECT_TRUE(std::isnan(answer->returns(1)));
  EXPECT_EQ(answer->ungraded().at(1), "unsure");
  EXPECT_TRUE(answer->equal());
  grpc::ClientContext context;
  v1::RewardsStatusResponse status;
  ASSERT_TRUE(v1::Rewards::NewStub(channel_)->Status(&context, {}, &status).ok());
  EXPECT_EQ(status.judged(), 1);
  EXPECT_EQ(status.judging(), 0);
}

TEST_F(GraderGrpcTest, AnErrorKeepsItsCodeItsTextAndTheTermThatItBlames) {
  stage_.answer = base::WithCause(absl::UnavailableError("the judge is down"), "judge");
  const absl::Status status = grader_->Grade(request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the judge is down");
  EXPECT_EQ(base::CauseOf(status), "judge");
}

TEST_F(GraderGrpcTest, AStageThatIsGoneIsUnavailableAtOnceAndAskedAgainAtItsNewPlace) {
  stage_.answer = v1::GradeResponse();
  ASSERT_TRUE(grader_->Grade(request_).ok());
  server_->Shutdown();
  server_.reset();
  EXPECT_EQ(grader_->Grade(request_).status().code(), absl::StatusCode::kUnavailable) << "within 30 s, without a wait";
  service_ = NewGraderService(stage_);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  ASSERT_TRUE(channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30)));
  EXPECT_TRUE(grader_->Grade(request_).ok());
}

TEST(GrpcGrader, AStoppedProcessWaitsForNoJudgement) {
  SlowStage stage;
  const auto service = NewGraderService(stage);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto grader =
      NewGrpcGrader(grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()),
                    std::chrono::hours(1));
  auto asked = std::async(std::launch::async, [&] { return grader->Grade(v1::GradeRequest()).status(); });
  stage.begun.get_future().wait();
  grader->Stop();
  EXPECT_EQ(asked.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  stage.end.set_value();
  EXPECT_EQ(asked.get().code(), absl::StatusCode::kUnavailable) << "its group is asked about again after the restart";
  EXPECT_EQ(grader->Grade(v1::GradeRequest()).status().code(), absl::StatusCode::kUnavailable);
  server->Shutdown();
}

}  // namespace
}  // namespace ingot::scheduler
