// A run whose reward a server decides that answers nonsense: it ends with one error that names the term and the answer. The server is
// HTTP in this process; scheduler, stage and pool are the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "../../base/manual_executor.h"
#include "../../datapool/make_pool.h"
#include "app/models/reward_servers.h"
#include "datapool/store.h"
#include "http/server.h"
#include "reward/rule.h"
#include "reward/stage.h"
#include "reward/terms/external_score.h"
#include "reward/terms/judge.h"
#include "scheduler/scheduler.h"

namespace ingot::app {
namespace {

namespace pool = datapool::testing;
using ::testing::HasSubstr;

// Says the same to everyone.
class FixedHandler final : public http::Handler {
 public:
  http::Opening Head(http::RequestHead) override {
    return {.exchange = http::MakeExchange([this](const std::string&) {
              ++asked;
              return http::Reply{.body = body};
            })};
  }
  std::string body;
  std::atomic<int> asked = 0;
};

class StageGrader final : public scheduler::Grader {
 public:
  explicit StageGrader(reward::Stage stage) : stage_(std::move(stage)) {}
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override { return stage_.Grade(request); }

 private:
  reward::Stage stage_;
};

class GiveUpTest : public ::testing::Test {
 protected:
  // B = 2 groups of 2 samples.
  void Start(const reward::TermOptions& term, const std::string& body) {
    handler_.body = body;
    http::Options options;
    options.port = 0;
    options.shutdown_grace_s = 0;
    server_ = *http::Server::Listen(options, handler_);
    server_->Serve();
    pool_ = *datapool::Store::Open(pool::QuickOptions(dir_.path()));
    reward::RewardOptions rewards;
    rewards.terms = {term};
    rewards.terms[0].Of<reward::JudgeOptions>().server.url = server_->url();
    rewards.terms[0].Of<reward::ExternalOptions>().url = server_->url();
    auto rule = reward::Rule::Make(rewards, "", HttpTermParts("", ""));
    ASSERT_TRUE(rule.ok()) << rule.status();
    grader_ = std::make_unique<StageGrader>(reward::Stage(*std::move(rule), *pool_, {.total_steps = 10}));
    v1::Task task;
    task.set_task_id("t");
    task.set_payload_json(R"({"question": "6 * 7", "answer": "42"})");
    auto scheduler = scheduler::Scheduler::Recover(
        {.group_size = 2, .groups_per_step = 1, .max_staleness = 1, .window_fraction = 1, .total_steps = 10}, {task},
        *pool_, executor_.clock(), std::nullopt, nullptr,
        {.grader = grader_.get(), .executor = &executor_.executor(), .give_up_groups = 3});
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
    ASSERT_TRUE(scheduler_->MarkVersionLive(0).ok());
  }
  void RunGroup() {
    for (int sample = 0; sample < 2; ++sample) {
      const auto ticket = scheduler_->Admit({});
      ASSERT_TRUE(ticket.ok()) << ticket.status();
      const std::string id = absl::StrCat("e", ++episodes_);
      v1::StoreEpisodeRequest open = pool::Open(id, ticket->ref().group_id(), sample);
      *open.mutable_episode()->mutable_task() = ticket->task();
      *open.mutable_episode()->mutable_ref() = ticket->ref();
      ASSERT_TRUE(pool_->StoreEpisode(open).ok());
      ASSERT_TRUE(pool_->AppendCall(pool::Append(id, 0, {pool::Prompt({9})}, {pool::Sampled({1, 2})})).ok());
      ASSERT_TRUE(pool_->StoreEnd(pool::End(id, v1::EPISODE_FINISHED, 1)).ok());
      v1::ReportEpisodeEndRequest ended;
      *ended.mutable_ref() = ticket->ref();
      ended.set_purpose(v1::PURPOSE_TRAIN);
      ended.set_state(v1::EPISODE_FINISHED);
      ended.set_reward(1);
      ASSERT_TRUE(scheduler_->ReportEpisodeEnd(ended).ok());
    }
    executor_.RunReady();
  }
  absl::Status Next() { return scheduler_->NextBatch({}).status(); }

  pool::TempDir dir_;
  FixedHandler handler_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<datapool::Store> pool_;
  base::ManualExecutor executor_;
  std::unique_ptr<StageGrader> grader_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  int episodes_ = 0;
};

TEST_F(GiveUpTest, AJudgeThatAnswersNonsenseEndsTheRun) {
  reward::TermOptions judge;
  judge.kind = "judge";
  judge.Of<reward::JudgeOptions>().server.model = "j";
  Start(judge, R"({"choices": [{"message": {"content": "I would rather not say."}}]})");
  for (int group = 0; group < 3; ++group) {
    EXPECT_EQ(Next().code(), absl::StatusCode::kDeadlineExceeded);
    RunGroup();
  }
  const absl::Status over = Next();
  EXPECT_EQ(over.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(over.message()),
              HasSubstr("the reward term 'judge' has scored no episode in 3 consecutive groups"));
  EXPECT_THAT(std::string(over.message()), HasSubstr("I would rather not say."));
  EXPECT_EQ(handler_.asked, 3 * 2 * 2) << "each episode twice";
}

TEST_F(GiveUpTest, AScorerThatAnswersNonsenseEndsTheRun) {
  reward::TermOptions external;
  external.kind = "external";
  external.name = "style";
  Start(external, R"({"score": "high"})");
  for (int group = 0; group < 3; ++group) RunGroup();
  const absl::Status over = Next();
  EXPECT_EQ(over.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(over.message()), HasSubstr("the reward term 'style'"));
  EXPECT_THAT(std::string(over.message()), HasSubstr(R"({\"score\": \"high\"})"));
}

TEST_F(GiveUpTest, AScorerThatAnswersIsNoReasonToEnd) {
  reward::TermOptions external;
  external.kind = "external";
  Start(external, R"({"score": 0.5})");
  for (int group = 0; group < 4; ++group) RunGroup();
  EXPECT_EQ(Next().code(), absl::StatusCode::kDeadlineExceeded) << "equal rewards are dropped";
}

}  // namespace
}  // namespace ingot::app
