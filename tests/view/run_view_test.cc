// The answers of a page, where a run has no pool, another one, or one that does not answer.
#include "view/runs/run_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "view/make_run.h"

namespace ingot::view::run_view_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Reads of another pool; GetGroup fails while `fault` is one.
class FaultyReads final : public datapool::Client {
 public:
  explicit FaultyReads(datapool::Client& pool) : pool_(pool) {}
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override {
    ++asked;
    return fault.ok() ? pool_.GetGroup(request) : fault;
  }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override {
    return pool_.ReadJournal(request);
  }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest&) override { return kNot; }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest&) override { return kNot; }
  absl::Status StoreEpisode(const v1::StoreEpisodeRequest&) override { return kNot; }
  absl::Status AppendCall(const v1::AppendCallRequest&) override { return kNot; }
  absl::Status StoreReward(const v1::StoreRewardRequest&) override { return kNot; }
  absl::Status StoreEnd(const v1::StoreEndRequest&) override { return kNot; }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest&) override { return kNot; }
  absl::Status StoreGrades(const v1::StoreGradesRequest&) override { return kNot; }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest&) override { return kNot; }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest&) override { return kNot; }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return kNot; }

  absl::Status fault;
  int asked = 0;

 private:
  const absl::Status kNot = absl::UnimplementedError("the journal and groups alone");
  datapool::Client& pool_;
};

class RunViewTest : public ::testing::Test {
 protected:
  std::string Ask(RunView& view, const std::string& target) {
    clock_.Advance(RunView::kFresh);  // no answer is one that was kept
    const absl::StatusOr<std::string> answer = view.Answer(target);
    return answer.ok() ? *answer : answer.status().ToString();
  }
  void WriteRecord(const std::string& name, const std::string& lines) {
    std::filesystem::create_directories(std::filesystem::path(run_.folder() + "/" + name).parent_path());
    std::ofstream(run_.folder() + "/" + name) << lines;
  }

  testing::SmallRun run_;
  base::ManualClock clock_;
};

constexpr char kSteps[] =
    "{\"step\": 0, \"time\": 5, \"sft/loss\": 4.5, \"sft/tokens_per_second\": 70, \"tree/speedup\": 2}\n"
    "{\"step\": 1, \"time\": 6, \"dpo/loss\": 0.25, \"dpo/accuracy\": 0.75, \"dpo/tokens_per_second\": 80}\n";

TEST_F(RunViewTest, ASupervisedRunHasItsCurvesAndNoEpisodes) {
  WriteRecord("metrics.jsonl", kSteps);
  RunSource source = run_.Source();
  source.facts = {.supervised = true};
  source.pool = []() -> absl::StatusOr<std::shared_ptr<datapool::Client>> { return absl::NotFoundError("no agents"); };
  source.live = [] { return LiveState(); };
  RunView view(source, clock_);
  const std::string run = Ask(view, "/api/run");
  EXPECT_THAT(run, HasSubstr("\"no_pool\":\"no agents\""));
  EXPECT_THAT(run, HasSubstr("\"supervised\":{\"step\":1,"));
  EXPECT_THAT(run, HasSubstr("\"dpo/accuracy\":0.75"));
  for (const char* absent : {"pool_error", "scheduler", "engines", "started"}) EXPECT_THAT(run, Not(HasSubstr(absent)));
  EXPECT_THAT(Ask(view, "/api/curves?names=sft/loss"), HasSubstr("\"mean\":[4.5]"));
  for (const char* target : {"/api/window", "/api/episodes", "/api/step?step=0", "/api/group?group=0"}) {
    EXPECT_THAT(Ask(view, target), HasSubstr("NOT_FOUND: no agents")) << target;
  }
  EXPECT_THAT(Ask(view, "/api/time"), HasSubstr("\"steps\":0"));
}

TEST_F(RunViewTest, SaysWhatTheTrainerComputesAndHowFarTheEnginesPrefillIs) {
  RunSource source = run_.Source();
  LiveState live;
  source.live = [&live] { return live; };
  RunView view(source, clock_);
  EXPECT_THAT(Ask(view, "/api/run"), Not(HasSubstr("\"trainer\":")));
  live.trainer = "step 4 for 35 s: gradient";
  v1::EngineStatusResponse engine;
  live.engines.emplace_back("rollout-0", engine);
  EXPECT_THAT(Ask(view, "/api/run"), HasSubstr("\"trainer\":\"step 4 for 35 s: gradient\""));
  EXPECT_THAT(Ask(view, "/api/run"), Not(HasSubstr("prefill")));
  engine.mutable_prefill()->set_requests(2);
  engine.mutable_prefill()->set_tokens(401200);
  engine.mutable_prefill()->set_prefilled(34816);
  live.engines = {{"rollout-0", engine}};
  EXPECT_THAT(Ask(view, "/api/run"), HasSubstr("\"prefill\":{\"requests\":2,\"tokens\":401200,\"prefilled\":34816,"));
}

TEST_F(RunViewTest, TheWarmStartsCurvesStandBesideThoseOfTheRun) {
  WriteRecord("metrics.jsonl", "{\"step\": 0, \"time\": 9, \"perf/step_seconds\": 2, \"dpo/accuracy\": 0.5}\n");
  WriteRecord("warm_start/metrics.jsonl", kSteps);
  RunView view(run_.Source(), clock_);
  const std::string run = Ask(view, "/api/run");
  EXPECT_THAT(run, HasSubstr("\"sft/loss\""));
  EXPECT_THAT(run, Not(HasSubstr("tree/speedup\",")));  // the run's own steps may have it later
  EXPECT_THAT(Ask(view, "/api/curves?names=sft/loss"), HasSubstr("\"mean\":[4.5]"));
  EXPECT_THAT(Ask(view, "/api/curves?names=dpo/accuracy"), HasSubstr("\"mean\":[0.5]"));  // the run's, which has it too
}

TEST_F(RunViewTest, ThePageSaysThatItsSettingsAreOldAndThatItsPoolIsGone) {
  RunSource source = run_.Source();
  std::string outdated;
  source.outdated = [&outdated] { return outdated; };
  bool gone = false;
  source.pool = [&, good = source.pool]() -> absl::StatusOr<std::shared_ptr<datapool::Client>> {
    return gone ? absl::UnavailableError("no disk") : good();
  };
  RunView view(source, clock_);
  EXPECT_THAT(Ask(view, "/api/run"), Not(HasSubstr("outdated")));
  outdated = "replaced";
  gone = true;
  EXPECT_THAT(Ask(view, "/api/run"), HasSubstr("\"outdated\":\"replaced\""));
  EXPECT_THAT(Ask(view, "/api/run"), HasSubstr("\"pool_error\":\"no disk\""));
}

TEST_F(RunViewTest, TokensOfAGroupThatCouldNotBeReadAreCountedLater) {
  const auto pool = std::make_shared<FaultyReads>(run_.pool());
  RunSource source = run_.Source();
  source.pool = [&]() -> absl::StatusOr<std::shared_ptr<datapool::Client>> { return pool; };
  RunView view(source, clock_);
  pool->fault = absl::UnavailableError("busy");
  EXPECT_THAT(Ask(view, "/api/time"), HasSubstr("\"dropped_groups_counted\":0"));
  pool->fault = absl::OkStatus();
  EXPECT_THAT(Ask(view, "/api/time"), HasSubstr("\"dropped_groups_counted\":1"));
}

TEST_F(RunViewTest, TheConfigurationIsThatOfTheRunsFolderAndSafeToShow) {
  RunView view(run_.Source(), clock_);
  EXPECT_TRUE(absl::IsNotFound(view.Answer("/api/config").status()));
  std::ofstream(run_.folder() + "/config.yaml") << "run:\n  name: \x1b]0;x\n";
  EXPECT_EQ(Ask(view, "/api/config"), R"({"yaml":"run:\n  name: \\x1b]0;x\n"})");
}

TEST_F(RunViewTest, ADeletedGroupIsAskedForOnce) {
  const auto pool = std::make_shared<FaultyReads>(run_.pool());
  RunSource source = run_.Source();
  source.pool = [&]() -> absl::StatusOr<std::shared_ptr<datapool::Client>> { return pool; };
  RunView view(source, clock_);
  pool->fault = absl::NotFoundError("deleted");
  for (int look = 0; look < 2; ++look) {
    EXPECT_THAT(Ask(view, "/api/time"),
                HasSubstr(R"("dropped_groups":1,"dropped_groups_counted":0,"dropped_groups_deleted":1)"));
    EXPECT_EQ(pool->asked, 1);
  }
}

TEST_F(RunViewTest, CountsOfAnotherRunsGroupsAreForgotten) {
  namespace pools = testing::pools;
  pools::TempDir dir;
  const auto other = datapool::OpenPool(pools::QuickOptions(dir.path())).value();
  v1::AppendJournalRequest admitted;
  admitted.add_records()->mutable_admitted()->set_group_id(1);
  ASSERT_TRUE(other->AppendJournal(admitted).ok());
  v1::AppendJournalRequest closed = pools::ClosedRecord(1);
  closed.mutable_records(0)->mutable_closed()->set_outcome(v1::GROUP_DROPPED);
  ASSERT_TRUE(other->AppendJournal(closed).ok());
  ASSERT_TRUE(other->StoreEpisode(pools::Open("e", 1, 0)).ok());
  ASSERT_TRUE(other->AppendCall(pools::Append("e", 0, {pools::Prompt({'a'})}, {pools::Sampled({'x', 'y', 'z'})})).ok());

  datapool::Client* serves = &run_.pool();
  RunSource source = run_.Source();
  source.pool = [&]() -> absl::StatusOr<std::shared_ptr<datapool::Client>> {
    return std::shared_ptr<datapool::Client>(std::shared_ptr<void>(), serves);
  };
  RunView view(source, clock_);
  EXPECT_THAT(Ask(view, "/api/time"), HasSubstr("\"dropped\":4,"));  // two samples of two tokens
  serves = other.get();
  EXPECT_THAT(Ask(view, "/api/time"), HasSubstr("\"dropped\":3,"));
}

}  // namespace
}  // namespace ingot::view::run_view_test
