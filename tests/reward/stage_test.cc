// The reward stage over a real pool: a group is judged once, and answered from its stored grades ever after.
#include "reward/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <memory>

#include "../datapool/make_pool.h"
#include "datapool/store.h"
#include "reward/terms/external_score.h"
#include "reward/terms/judge.h"
#include "reward/terms/toggle.h"
#include "reward/terms/verdicts.h"

namespace ingot::reward {
namespace {

namespace pool = datapool::testing;
using ::testing::ElementsAre;

class StageTest : public ::testing::Test {
 protected:
  // Group 3: a right answer of 2 tokens, a right one of 6 and a wrong one of 6.
  void SetUp() override {
    pool_ = *datapool::Store::Open(pool::QuickOptions(dir_.path()));
    Add("a", 1, {1, 2});
    Add("b", 1, {1, 2, 3, 4, 5, 6});
    Add("c", 0, {1, 2, 3, 4, 5, 7});
  }
  void Add(const std::string& id, double outcome, const std::vector<int32_t>& ids) {
    ASSERT_TRUE(pool_->StoreEpisode(pool::Open(id, 3, samples_++)).ok());
    ASSERT_TRUE(pool_->AppendCall(pool::Append(id, 0, {pool::Prompt({9})}, {pool::Sampled(ids)})).ok());
    ASSERT_TRUE(pool_->StoreEnd(pool::End(id, v1::EPISODE_FINISHED, outcome)).ok());
  }
  void AddGroup4() {
    ASSERT_TRUE(pool_->StoreEpisode(pool::Open("e", 4, 0)).ok());
    ASSERT_TRUE(pool_->StoreEnd(pool::End("e", v1::EPISODE_FINISHED, 1)).ok());
  }
  Stage Make(double length_weight) {
    RewardOptions options;
    options.terms.resize(2);
    options.terms[1].kind = "length";
    options.terms[1].weight = length_weight;
    return Stage(*Rule::Make(options, absl::StrCat(length_weight)), *pool_, {.total_steps = 10});
  }
  static v1::GradeRequest Group(int64_t group) {
    v1::GradeRequest request;
    request.set_group_id(group);
    return request;
  }

  pool::TempDir dir_;
  std::unique_ptr<datapool::Store> pool_;
  int samples_ = 0;
};

// By hand: lengths 2 and 6; lambda 0.5 and -0.5.
TEST_F(StageTest, GivesEverySampleItsReturn) {
  const auto graded = Make(0.2).Grade(Group(3));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_THAT(graded->returns(), ElementsAre(1.1, 0.9, -0.1));
  EXPECT_FALSE(graded->equal());
  EXPECT_THAT(graded->outcomes(), ElementsAre(1, 1, 0));
}

TEST_F(StageTest, AGroupIsJudgedOnceWhateverIsAskedLater) {
  ASSERT_TRUE(Make(0.2).Grade(Group(3)).ok());
  const auto again = Make(0.4).Grade(Group(3));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->returns(), ElementsAre(1.1, 0.9, -0.1)) << "other weights do not judge a judged group again";
}

TEST_F(StageTest, AnAttemptThatFailedIsNoPartOfTheGroup) {
  ASSERT_TRUE(pool_->StoreEpisode(pool::Open("d", 3, 3)).ok());
  ASSERT_TRUE(pool_->StoreEnd(pool::End("d", v1::EPISODE_FAILED, 5)).ok());
  const auto graded = Make(0.2).Grade(Group(3));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_TRUE(std::isnan(graded->returns(3)));
}

class NoScorer final : public ExternalScorer {
 public:
  absl::StatusOr<std::string> Post(const std::string&, const std::string&, double) const override {
    return std::string("no idea");
  }
};

TEST_F(StageTest, ReportsWhichTermsJudgedAGroupOrWhichOneFailed) {
  EXPECT_THAT(Make(0.2).Grade(Group(3))->terms(), ElementsAre("outcome", "length"));
  AddGroup4();
  RewardOptions options;
  options.terms.resize(2);
  options.terms[1].kind = "external";
  options.terms[1].name = "mine";
  options.terms[1].Of<ExternalOptions>().url = "http://localhost/";
  const TermParts parts{.external = std::make_shared<NoScorer>()};
  const auto graded = Stage(*Rule::Make(options, "", parts), *pool_, {.total_steps = 10}).Grade(Group(4));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_THAT(graded->terms(), ElementsAre());
  EXPECT_EQ(graded->failed_term(), "mine");
}

// Twice its score and the outcome are 1, whatever the outcome is.
class OpposingScorer final : public ExternalScorer {
 public:
  absl::StatusOr<std::string> Post(const std::string&, const std::string& json, double) const override {
    const bool right = json.find(R"("outcome":1)") != std::string::npos;
    return std::string(right ? R"({"score": 0})" : R"({"score": 0.5})");
  }
};

TEST_F(StageTest, AGroupOfEqualSumsTeachesATrainerThatComparesTerms) {
  RewardOptions options;
  options.terms.resize(2);
  options.terms[1].kind = "external";
  options.terms[1].weight = 2;
  options.terms[1].Of<ExternalOptions>().url = "http://localhost/";
  const TermParts parts{.external = std::make_shared<OpposingScorer>()};
  const auto summed = Stage(*Rule::Make(options, "", parts), *pool_, {.total_steps = 10}).Grade(Group(3));
  ASSERT_TRUE(summed.ok()) << summed.status();
  EXPECT_THAT(summed->returns(), ElementsAre(1, 1, 1));
  EXPECT_TRUE(summed->equal());
  const auto apart = Stage(*Rule::Make(options, "", parts), *pool_, {.total_steps = 10, .compared = {.by_terms = true}})
                         .Grade(Group(3));
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_FALSE(apart->equal()) << "the stored grades say it";
}

// A pool of groups that are all of one task, whose answers are right and of these lengths.
class OneTaskTest : public ::testing::Test {
 protected:
  void SetUp() override { pool_ = *datapool::Store::Open(pool::QuickOptions(dir_.path())); }
  void Add(int64_t group, const std::vector<int32_t>& lengths) {
    for (int sample = 0; sample < std::ssize(lengths); ++sample) {
      const std::string id = absl::StrCat("g", group, "s", sample);
      v1::StoreEpisodeRequest open = pool::Open(id, group, sample);
      open.mutable_episode()->mutable_task()->set_task_id("the task");
      open.mutable_episode()->mutable_task()->set_payload_json(R"({"question": "why?", "answer": "so"})");
      ASSERT_TRUE(pool_->StoreEpisode(open).ok());
      std::vector<int32_t> ids(static_cast<size_t>(lengths[static_cast<size_t>(sample)]), 7);
      ids[0] = sample;
      v1::AppendCallRequest call = pool::Append(id, 0, {pool::Prompt({9})}, {pool::Sampled(ids)});
      call.mutable_call()->set_weights(v1::WEIGHTS_FOLLOW);
      call.mutable_call()->set_delivered_json(absl::StrCat(R"({"role": "assistant", "content": ")", id, R"("})"));
      ASSERT_TRUE(pool_->AppendCall(call).ok());
      ASSERT_TRUE(pool_->StoreEnd(pool::End(id, v1::EPISODE_FINISHED, 1)).ok());
    }
  }
  // Outcome, Toggle with the shortest right answer as its budget, and more.
  static RewardOptions Toggle(std::vector<TermOptions> more = {}) {
    RewardOptions options;
    options.terms.resize(2);
    options.terms[1].kind = "toggle";
    options.terms[1].Of<ToggleOptions>().rho = 1;
    options.terms.insert(options.terms.end(), more.begin(), more.end());
    return options;
  }
  Stage Make(const RewardOptions& options, const TermParts& parts = {}, StageOptions stage = {.total_steps = 10}) {
    return Stage(*Rule::Make(options, "", parts), *pool_, stage);
  }
  static absl::StatusOr<v1::GradeResponse> Grade(Stage& stage, int64_t group) {
    v1::GradeRequest request;
    request.set_group_id(group);
    return stage.Grade(request);
  }

  pool::TempDir dir_;
  std::unique_ptr<datapool::Store> pool_;
};

// By hand: group 5 is judged first, so the budget is 6 tokens. Group 3 would set 2, and take the outcome of its second
// answer away.
TEST_F(OneTaskTest, TheFirstJudgedGroupFixesTheBudgetThroughRestarts) {
  Add(3, {2, 6});
  Add(5, {6, 8});
  Add(6, {2, 7});
  Stage first = Make(Toggle());
  EXPECT_THAT(Grade(first, 5)->returns(), ElementsAre(1, 0));
  EXPECT_THAT(Grade(first, 3)->returns(), ElementsAre(1, 1));
  Stage after = Make(Toggle());
  EXPECT_THAT(Grade(after, 6)->returns(), ElementsAre(1, 0)) << "the budget of a new process is 6 too";
}

// Holds the first request until another one comes, or for a while: groups that are not judged together never meet.
class MeetingScorer final : public ExternalScorer {
 public:
  explicit MeetingScorer(std::chrono::milliseconds timeout = std::chrono::milliseconds(300)) : timeout_(timeout) {}
  absl::StatusOr<std::string> Post(const std::string&, const std::string&, double) const override {
    if (const int earlier = come_.fetch_add(1); earlier > 0) {
      if (earlier == 1) other_.set_value();
      return std::string(R"({"score": 0})");
    }
    first_.set_value();
    met = other_.get_future().wait_for(timeout_) == std::future_status::ready;
    return std::string(R"({"score": 0})");
  }
  void WaitForFirst() { first_.get_future().wait(); }
  mutable std::atomic<bool> met = false;

 private:
  const std::chrono::milliseconds timeout_;
  mutable std::atomic<int> come_ = 0;
  mutable std::promise<void> first_, other_;
};

TEST_F(OneTaskTest, GroupsOfOneTaskAreJudgedOneAfterTheOther) {
  Add(3, {2});
  Add(5, {6});
  TermOptions external;
  external.kind = "external";
  external.Of<ExternalOptions>().url = "http://localhost/";
  const auto scorer = std::make_shared<MeetingScorer>();
  Stage stage = Make(Toggle({external}), {.external = scorer});
  auto first = std::async(std::launch::async, [&] { return Grade(stage, 5); });
  scorer->WaitForFirst();
  EXPECT_THAT(Grade(stage, 3)->returns(), ElementsAre(1));
  EXPECT_THAT(first.get()->returns(), ElementsAre(1));
  EXPECT_FALSE(scorer->met);
  v1::GetGroupRequest request;
  request.set_group_id(3);
  request.set_purpose(v1::PURPOSE_TRAIN);
  EXPECT_EQ(pool_->GetGroup(request)->episodes(0).episode().grade().terms(1).measures().at("budget"), 6);
}

TEST_F(OneTaskTest, GroupsOfATaskWithABudgetAreJudgedTogether) {
  Add(3, {2});
  Add(5, {6});
  Add(6, {4});
  Stage before = Make(Toggle());
  ASSERT_TRUE(Grade(before, 6).ok());
  TermOptions external;
  external.kind = "external";
  external.Of<ExternalOptions>().url = "http://localhost/";
  const auto scorer = std::make_shared<MeetingScorer>(std::chrono::seconds(30));
  Stage stage = Make(Toggle({external}), {.external = scorer});
  auto first = std::async(std::launch::async, [&] { return Grade(stage, 5); });
  scorer->WaitForFirst();
  EXPECT_THAT(Grade(stage, 3)->returns(), ElementsAre(1));
  EXPECT_THAT(first.get()->returns(), ElementsAre(0)) << "6 tokens, and the budget is 4";
  EXPECT_TRUE(scorer->met);
}

TEST_F(OneTaskTest, AQuestionWhoseTurnDoesNotComeIsToldToAskAgain) {
  Add(3, {2});
  Add(5, {6});
  TermOptions external;
  external.kind = "external";
  external.Of<ExternalOptions>().url = "http://localhost/";
  const auto scorer = std::make_shared<MeetingScorer>(std::chrono::seconds(30));
  Stage stage = Make(Toggle({external}), {.external = scorer}, {.turn_timeout = std::chrono::milliseconds(5)});
  auto first = std::async(std::launch::async, [&] { return Grade(stage, 5); });
  scorer->WaitForFirst();
  for (const int64_t group : {3, 5}) {
    EXPECT_EQ(Grade(stage, group).status().code(), absl::StatusCode::kUnavailable) << "group " << group;
  }
  (void)scorer->Post("", "", 0);  // ends the first judgement
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(Grade(stage, 3).ok());
}

// By hand: another stage fixes the budget of 6 tokens, of two right answers. Group 6 would set 2.
TEST_F(OneTaskTest, ABudgetThatAnotherStageFixedIsLearnedFromItsGrades) {
  Add(3, {4});
  Add(5, {6, 8});
  Add(6, {2, 6});
  RewardOptions options = Toggle();
  options.terms[1].Of<ToggleOptions>().min_correct = 2;
  Stage stage = Make(options), other = Make(options);
  ASSERT_TRUE(Grade(stage, 3).ok()) << "which reads the history, and has too few right answers for a budget";
  ASSERT_TRUE(Grade(other, 5).ok());
  EXPECT_THAT(Grade(stage, 5)->returns(), ElementsAre(1, 0));
  EXPECT_THAT(Grade(stage, 6)->returns(), ElementsAre(1, 1));
}

// Group 3 was judged before there was a budget, and stays without one when it is judged again.
TEST_F(OneTaskTest, MeasuresOfAGroupAreThoseOfItsOwnGrades) {
  Add(3, {4});
  Add(5, {6, 8});
  Add(6, {2});
  RewardOptions options = Toggle();
  options.terms[1].Of<ToggleOptions>().min_correct = 2;
  Stage stage = Make(options);
  const std::string key = Rule::Make(options, "")->key();
  ASSERT_TRUE(Grade(stage, 3).ok());
  ASSERT_TRUE(Grade(stage, 5).ok());
  const auto group = [&](int64_t id) {
    v1::GetGroupRequest request;
    request.set_group_id(id);
    request.set_purpose(v1::PURPOSE_TRAIN);
    return *pool_->GetGroup(request);
  };
  EXPECT_EQ(MeasuresOf(group(3), key), TaskHistory::OfTask());
  EXPECT_EQ(MeasuresOf(group(5), key), (TaskHistory::OfTask{{"toggle", {{"budget", 6}}}}));
  EXPECT_EQ(MeasuresOf(group(5), "another rule"), std::nullopt);
  EXPECT_EQ(MeasuresOf(group(6), key), std::nullopt) << "nobody judged it";
}

// The first question is answered only when the second one waits, or after a while.
TEST_F(OneTaskTest, ASecondQuestionAboutAGroupWaitsForTheFirstJudgement) {
  Add(3, {2});
  TermOptions external;
  external.kind = "external";
  external.Of<ExternalOptions>().url = "http://localhost/";
  RewardOptions options;
  options.terms = {external};
  const auto scorer = std::make_shared<MeetingScorer>();
  Stage stage = Make(options, {.external = scorer});
  auto first = std::async(std::launch::async, [&] { return Grade(stage, 3); });
  scorer->WaitForFirst();
  EXPECT_THAT(Grade(stage, 3)->returns(), ElementsAre(0));
  EXPECT_THAT(first.get()->returns(), ElementsAre(0));
  EXPECT_FALSE(scorer->met) << "the server was asked about one group twice";
}

class CountingJudge final : public JudgeModel {
 public:
  absl::StatusOr<std::string> Ask(const JudgeServer&, const JudgeQuestion&) const override {
    if (++asked >= down_from) return absl::UnavailableError("down");
    return std::string(R"({"reasoning": "because", "verdict": "correct", "score": 1})");
  }
  mutable std::atomic<int> asked = 0;
  int down_from = 1 << 30;
};

RewardOptions Judged() {
  RewardOptions options;
  options.terms.resize(1);
  options.terms[0].kind = "judge";
  options.terms[0].Of<JudgeOptions>().server.model = "j";
  options.terms[0].Of<JudgeOptions>().concurrency = 1;
  return options;
}

TEST_F(OneTaskTest, AStoredGroupAsksNoJudgeAgainInANewProcess) {
  Add(3, {2, 6, 4});
  const auto judge = std::make_shared<CountingJudge>();
  Stage first = Make(Judged(), {.judge = judge});
  ASSERT_TRUE(Grade(first, 3).ok());
  EXPECT_EQ(judge->asked, 3);
  Stage after = Make(Judged(), {.judge = judge});
  EXPECT_THAT(Grade(after, 3)->returns(), ElementsAre(1, 1, 1));
  EXPECT_EQ(judge->asked, 3);
}

// The judge answers two questions, and then is down, for both tries of the third one.
TEST_F(OneTaskTest, ARetryAsksTheJudgeOnlyWhatItDidNotAnswer) {
  Add(3, {2, 6, 4});
  const auto judge = std::make_shared<CountingJudge>();
  Stage stage = Make(Judged(), {.judge = judge});
  judge->down_from = 3;
  EXPECT_EQ(Grade(stage, 3).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(judge->asked, 4);
  judge->down_from = 1 << 30;
  ASSERT_TRUE(Grade(stage, 3).ok());
  EXPECT_EQ(judge->asked, 5);
}

TEST_F(OneTaskTest, ANewProcessAsksTheJudgeOnlyWhatTheLastOneLacked) {
  Add(3, {2, 6, 4});
  const pool::TempDir folder;
  const std::string file = folder.path() + "/verdicts.jsonl";
  const auto judge = std::make_shared<CountingJudge>();
  judge->down_from = 3;
  {
    Stage first = Make(Judged(), {.judge = judge, .verdicts = *Verdicts::Open(file)});
    EXPECT_EQ(Grade(first, 3).status().code(), absl::StatusCode::kUnavailable);
  }
  judge->down_from = 1 << 30;
  Stage after = Make(Judged(), {.judge = judge, .verdicts = *Verdicts::Open(file)});
  EXPECT_THAT(Grade(after, 3)->returns(), ElementsAre(1, 1, 1));
  EXPECT_EQ(judge->asked, 5) << "two answers, the third question twice in vain, and once more";
}

TEST(Verdicts, OutliveTheirProcessAndALineThatWasCut) {
  const pool::TempDir dir;
  const std::string file = dir.path() + "/verdicts.jsonl";
  const auto key = [](const char* of) { return base::ContentKey128(of); };
  {
    const auto verdicts = *Verdicts::Open(file);
    ASSERT_TRUE(verdicts->Add(key("a"), {.score = 0.75, .reasoning = "line\nbreak \"quoted\""}).ok());
    ASSERT_TRUE(verdicts->Add(key("b"), {.unsure = true, .reasoning = ""}).ok());
    EXPECT_FALSE(verdicts->Find(key("c")).has_value());
  }
  ASSERT_EQ(::truncate(file.c_str(), static_cast<off_t>(std::filesystem::file_size(file)) - 9), 0);
  {
    const auto verdicts = *Verdicts::Open(file);
    EXPECT_EQ(verdicts->Find(key("a"))->score, 0.75);
    EXPECT_EQ(verdicts->Find(key("a"))->reasoning, "line\nbreak \"quoted\"");
    EXPECT_FALSE(verdicts->Find(key("b")).has_value()) << "its line was cut";
    ASSERT_TRUE(verdicts->Add(key("c"), {.score = 1, .reasoning = ""}).ok());
  }
  EXPECT_EQ((*Verdicts::Open(file))->Find(key("c"))->score, 1);
  EXPECT_EQ(Verdicts::Open(dir.path() + "/none/verdicts.jsonl").status().code(), absl::StatusCode::kUnavailable);
}

// Two games of sum zero. Another process finds roles, rewards and grades in the pool and says the same.
TEST_F(StageTest, AGameOfSumZeroIsWorthTrainingByRoleAlsoAfterARestart) {
  for (const auto& [id, won] : {std::pair("w", 1.0), std::pair("l", -1.0)}) {
    ASSERT_TRUE(pool_->StoreEpisode(pool::Open(id, 7, won > 0 ? 0 : 1)).ok());
    v1::StoreEndRequest end = pool::End(id, v1::EPISODE_FINISHED, 0);
    for (const auto& [turn, role] : {std::pair(0, "white"), std::pair(1, "black")}) {
      v1::AppendCallRequest call = pool::Append(id, turn, {pool::Prompt({9})}, {pool::Sampled({turn + 1})});
      call.mutable_call()->set_role(role);
      (*end.mutable_call_rewards())[call.call().call_id()] = turn == 0 ? won : -won;
      ASSERT_TRUE(pool_->AppendCall(call).ok());
    }
    ASSERT_TRUE(pool_->StoreEnd(end).ok());
  }
  const auto make = [&](bool by_role) {
    return Stage(*Rule::Make({}, ""), *pool_, {.total_steps = 10, .compared = {.by_role = by_role}});
  };
  const auto graded = make(true).Grade(Group(7));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_THAT(graded->returns(), ElementsAre(0, 0));
  EXPECT_FALSE(graded->equal());
  pool_.reset();
  pool_ = *datapool::Store::Open(pool::QuickOptions(dir_.path()));
  EXPECT_EQ(pool::GetGroup(*pool_, 7)->episodes(0).calls(1).role(), "black");
  EXPECT_FALSE(make(true).Grade(Group(7))->equal());
  EXPECT_TRUE(make(false).Grade(Group(7))->equal());
}

TEST_F(StageTest, AGroupThatThePoolLacksIsAnError) {
  EXPECT_EQ(Make(0.2).Grade(Group(5)).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ingot::reward
