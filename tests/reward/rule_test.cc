// The reward of a group: weighted sums of terms, schedules, grades that fail, and groups that teach nothing.
#include "reward/rule.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "base/cause.h"
#include "group_maker.h"
#include "reward/terms/external_score.h"
#include "reward/terms/length.h"
#include "reward/terms/parl.h"
#include "reward/terms/toggle.h"

namespace ingot::reward {
namespace {

// Four episodes: right and short, right and long, wrong and short, wrong and long.
v1::Group FourAnswers() {
  v1::Group group;
  group.set_group_id(7);
  for (const auto& [outcome, tokens] : {std::pair(1.0, 10), {1.0, 30}, {0.0, 10}, {0.0, 30}}) {
    AddCall(AddEpisode(group, outcome), tokens);
  }
  return group;
}

TermOptions Term(const std::string& kind, double weight) {
  TermOptions term;
  term.kind = kind;
  term.weight = weight;
  return term;
}

GroupGrades Judge(const RewardOptions& options, const v1::Group& group, int64_t version = 0) {
  const auto rule = Rule::Make(options, "test");
  EXPECT_TRUE(rule.ok()) << rule.status();
  const auto facts = FactsOf(group, version, 100);
  EXPECT_TRUE(facts.ok()) << facts.status();
  const auto grades = rule->Apply(*facts);
  EXPECT_TRUE(grades.ok()) << grades.status();
  return *grades;
}

std::vector<double> Rewards(const GroupGrades& grades) {
  std::vector<double> rewards;
  for (const auto& [sample, grade] : grades.grades) rewards.push_back(grade.reward());
  return rewards;
}

TEST(Rule, WithoutTermsTheRewardIsTheOutcomeWithItsCallRewards) {
  v1::Group group = FourAnswers();
  const std::string call = group.episodes(1).calls(0).call_id();
  (*group.mutable_episodes(1)->mutable_episode()->mutable_call_rewards())[call] = 0.25;
  const GroupGrades grades = Judge({}, group);
  EXPECT_EQ(Rewards(grades), (std::vector<double>{1, 1, 0, 0}));
  EXPECT_EQ(grades.grades.at(1).call_rewards().at(call), 0.25);
  ASSERT_EQ(grades.grades.at(1).terms_size(), 1);
  EXPECT_EQ(grades.grades.at(1).terms(0).term(), "outcome");
}

// By hand: lengths 10 and 30, so lambda is 0.5 and -0.5. Right answers get lambda, wrong ones min(0, lambda).
TEST(Rule, LengthRewardsShortRightAnswersAndNeverAWrongOne) {
  RewardOptions options;
  options.terms = {Term("outcome", 1), Term("length", 0.2)};
  EXPECT_EQ(Rewards(Judge(options, FourAnswers())), (std::vector<double>{1.1, 0.9, 0, -0.1}));
}

TEST(Rule, EqualLengthsEarnNothing) {
  v1::Group group;
  for (int i = 0; i < 3; ++i) AddCall(AddEpisode(group, i % 2), 20);
  RewardOptions options;
  options.terms = {Term("length", 1)};
  EXPECT_EQ(Rewards(Judge(options, group)), (std::vector<double>{0, 0, 0}));
}

TEST(Rule, KeepsEveryTermApartWithItsWeight) {
  RewardOptions options;
  options.terms = {Term("outcome", 1), Term("length", 0.2)};
  const v1::Grade grade = Judge(options, FourAnswers()).grades.at(1);
  ASSERT_EQ(grade.terms_size(), 2);
  EXPECT_EQ(grade.terms(1).term(), "length");
  EXPECT_EQ(grade.terms(1).weight(), 0.2);
  EXPECT_EQ(grade.terms(1).value(), -0.5);
}

TEST(Rule, ATermCountsInItsDomainsAlone) {
  RewardOptions options;
  options.terms = {Term("outcome", 1), Term("length", 1)};
  options.terms[1].domains = {"math"};
  v1::Group group = FourAnswers();
  EXPECT_EQ(Rewards(Judge(options, group))[0], 1);
  group.mutable_task()->set_domain("math");
  EXPECT_EQ(Rewards(Judge(options, group))[0], 1.5);
}

// The rewards of K2.5's recipe: Toggle in one domain, critical steps in the other. By hand: the budget of tokens is 10, the
// shortest right answer's; each episode has 4 critical steps of 3.
TEST(Rule, ARightAnswerBeyondItsBudgetEarnsAsMuchAsAWrongOne) {
  RewardOptions options;
  options.terms = {Term("outcome", 1), Term("toggle", 1), Term("critical_steps", 1)};
  options.terms[1].Of<ToggleOptions>().rho = 1;
  options.terms[1].domains = {"lookup"};
  options.terms[2].Of<CriticalStepsOptions>().budget = 3;
  options.terms[2].domains = {"orchestrate"};
  v1::Group group = FourAnswers();
  for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
    for (int i = 0; i < 3; ++i) AddCall(tree, 0);
    for (v1::Call& call : *tree.mutable_calls()) call.set_finish(v1::FINISH_STOP);
    (*tree.mutable_episode()->mutable_facts())["stages"] = R"([{"main": 4}])";
  }
  group.mutable_task()->set_domain("lookup");
  EXPECT_EQ(Rewards(Judge(options, group)), (std::vector<double>{1, 0, 0, 0}));
  group.mutable_task()->set_domain("orchestrate");
  EXPECT_EQ(Rewards(Judge(options, group)), (std::vector<double>{0, 0, 0, 0}));
  group.mutable_task()->set_domain("lookup");
  options.terms[2].domains = {};
  EXPECT_EQ(Rewards(Judge(options, group))[1], -1)
      << "both subtract the outcome, which app/checks/run_warnings.cc warns of";
}

TEST(TermSchedule, BeginsAfterItsWarmUpAndFallsLinearly) {
  TermSchedule schedule{.from = 0.2, .until = 0.6, .linear = true};
  EXPECT_EQ(schedule.At(19, 100), 0);
  EXPECT_EQ(schedule.At(20, 100), 1);
  EXPECT_NEAR(schedule.At(40, 100), 0.5, 1e-12);
  EXPECT_EQ(schedule.At(60, 100), 0);
  EXPECT_EQ(schedule.At(99, 100), 0);
  EXPECT_EQ((TermSchedule{.from = 0.2}).At(100, 100), 1);
}

TEST(TermSchedule, AlternatesByPhase) {
  const TermSchedule even{.phase_steps = 20, .phase = 0}, odd{.phase_steps = 20, .phase = 1};
  for (const int64_t version : {0, 19, 40}) EXPECT_EQ(even.At(version, 100), 1) << version;
  for (const int64_t version : {20, 39, 60}) EXPECT_EQ(even.At(version, 100), 0) << version;
  EXPECT_EQ(odd.At(20, 100), 1);
  EXPECT_EQ(odd.At(0, 100), 0);
}

TEST(Rule, AnUnusableNumberLeavesItsEpisodeOutAndIsNoZero) {
  v1::Group group = FourAnswers();
  group.mutable_episodes(2)->mutable_episode()->set_reward(std::numeric_limits<double>::quiet_NaN());
  const GroupGrades grades = Judge({}, group);
  EXPECT_EQ(grades.grades.size(), 3u);
  EXPECT_NE(grades.ungraded.at(2).find("term 'outcome': its value is nan"), std::string::npos) << grades.ungraded.at(2);
}

// Answers one request as it is told; the others score 1.
class OneAnswer final : public ExternalScorer {
 public:
  explicit OneAnswer(absl::Status first) : first_(std::move(first)) {}
  absl::StatusOr<std::string> Post(const std::string&, const std::string& json, double) const override {
    if (json.find("episode0") != std::string::npos) return first_;
    return std::string(R"({"score": 1})");
  }

 private:
  const absl::Status first_;
};

TEST(Rule, AServerThatIsDownOrLateDecidesNothingAndOneThatRejectsLeavesItsEpisodeOut) {
  RewardOptions options;
  options.terms = {Term("external", 1)};
  options.terms[0].Of<ExternalOptions>().url = "http://127.0.0.1:1/score";
  options.terms[0].Of<ExternalOptions>().tries = 1;
  const v1::Group group = FourAnswers();
  const auto facts = FactsOf(group, 0, 100);
  const auto apply = [&](const absl::Status& first) {
    TermParts parts;
    parts.external = std::make_shared<OneAnswer>(first);
    return Rule::Make(options, "test", parts)->Apply(*facts);
  };
  EXPECT_EQ(apply(absl::UnavailableError("down")).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(apply(absl::DeadlineExceededError("late")).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(base::CauseOf(apply(absl::UnavailableError("down")).status()), "external");
  const auto rejected = apply(absl::InvalidArgumentError("no such episode"));
  ASSERT_TRUE(rejected.ok()) << rejected.status();
  EXPECT_EQ(rejected->ungraded.size(), 1u);
  EXPECT_EQ(rejected->grades.size(), 3u);
}

// The reason goes into the journal, whose record could not be read again with other bytes.
TEST(Rule, TheReasonWhyAnEpisodeHasNoGradeIsUtf8) {
  RewardOptions options;
  options.terms = {Term("external", 1)};
  options.terms[0].Of<ExternalOptions>().url = "http://127.0.0.1:1/score";
  TermParts parts;
  parts.external = std::make_shared<OneAnswer>(absl::InvalidArgumentError("no \xE4\xBD"));
  const v1::Group group = FourAnswers();
  const auto grades = Rule::Make(options, "test", parts)->Apply(*FactsOf(group, 0, 100));
  ASSERT_TRUE(grades.ok()) << grades.status();
  EXPECT_EQ(grades->ungraded.at(0), "term 'external': no \xEF\xBF\xBD");
}

TEST(Rule, NamesTheTermThatCouldJudgeNothing) {
  RewardOptions options;
  options.terms = {Term("outcome", 1), Term("external", 1)};
  options.terms[1].name = "mine";
  options.terms[1].Of<ExternalOptions>().url = "http://127.0.0.1:1/score";
  v1::Group group = FourAnswers();
  TermParts parts;
  parts.external = std::make_shared<OneAnswer>(absl::InvalidArgumentError("no such episode"));
  EXPECT_EQ(Rule::Make(options, "test", parts)->Apply(*FactsOf(group, 0, 100))->failed_term, "mine");
  // A sum beyond the bound is the fault of its greatest part.
  options.terms[1].weight = 9e5;
  options.terms[0].weight = 2e5;
  group.mutable_episodes()->DeleteSubrange(0, 1);
  parts.external = std::make_shared<OneAnswer>(absl::OkStatus());
  const auto grades = Rule::Make(options, "test", parts)->Apply(*FactsOf(group, 0, 100));
  ASSERT_TRUE(grades.ok()) << grades.status();
  EXPECT_EQ(grades->failed_term, "mine");
  EXPECT_NE(grades->ungraded.begin()->second.find("most of it by term 'mine', is 1.1e+06"), std::string::npos)
      << grades->ungraded.begin()->second;
}

TEST(Rule, UnfinishedEpisodesAreNoPartOfTheGroup) {
  v1::Group group = FourAnswers();
  group.mutable_episodes(0)->mutable_episode()->set_state(v1::EPISODE_FAILED);
  RewardOptions options;
  options.terms = {Term("length", 1)};
  EXPECT_EQ(Judge(options, group).grades.count(0), 0u);
}

TEST(RewardOptions, RejectUnknownKindsTakenNamesAndWeightsThatCancel) {
  const auto fault = [](std::vector<TermOptions> terms) {
    RewardOptions options;
    options.terms = std::move(terms);
    return std::string(options.Validate().message());
  };
  EXPECT_NE(fault({Term("lenght", 1)}).find("one of outcome, length"), std::string::npos);
  EXPECT_NE(fault({Term("outcome", 1), Term("outcome", 1)}).find("another term has this name"), std::string::npos);
  TermOptions other = Term("length", -0.5);
  other.name = "longer";
  EXPECT_NE(fault({Term("outcome", 1), Term("length", 0.5), other}).find("cancel each other"), std::string::npos);
  // Also where both count at the same times, and not where they count at different ones.
  TermOptions early = Term("length", 0.5);
  early.schedule.until = other.schedule.until = 0.5;
  EXPECT_NE(fault({Term("outcome", 1), early, other}).find("cancel each other"), std::string::npos);
  early.schedule.until = 0.4;
  EXPECT_EQ(fault({Term("outcome", 1), early, other}), "");
  // Terms of one kind with other options are no opposites.
  early.schedule.until = 0.5;
  early.Of<LengthOptions>().correct_above = 0.9;
  EXPECT_EQ(fault({Term("outcome", 1), early, other}), "");
  EXPECT_NE(fault({Term("outcome", 0)}).find("nothing is rewarded"), std::string::npos);
  EXPECT_NE(fault({Term("outcome", std::numeric_limits<double>::infinity())}).find("weight is inf"), std::string::npos);
  TermOptions late = Term("outcome", 1);
  late.schedule.from = 1.5;
  EXPECT_NE(fault({late}).find("from is 1.5"), std::string::npos);
}

TEST(TermOptions, ACopyHasItsOwnOptionsOfAKind) {
  TermOptions term = Term("length", 1);
  term.Of<LengthOptions>().correct_above = 0.7;
  TermOptions copy = term;
  copy.Of<LengthOptions>().correct_above = 0.9;
  EXPECT_EQ(term.Of<LengthOptions>().correct_above, 0.7);
  EXPECT_EQ(copy.Of<LengthOptions>().correct_above, 0.9);
}

TEST(NothingToTrain, JudgesTheCreditThatIsTrained) {
  v1::Group group;
  for (int i = 0; i < 2; ++i) {
    v1::EpisodeTree& tree = AddEpisode(group, 1);
    AddCall(tree, 3);
    AddCall(tree, 4);
  }
  EXPECT_TRUE(NothingToTrain(Judge({}, group), group, {}));
  EXPECT_TRUE(NothingToTrain(Judge({}, group), group, {.credit = "reward_to_go"}));
  // The same return, but earned by the first call: what follows it has less credit.
  v1::Episode& episode = *group.mutable_episodes(0)->mutable_episode();
  episode.set_reward(0);
  (*episode.mutable_call_rewards())[group.episodes(0).calls(0).call_id()] = 1;
  EXPECT_TRUE(NothingToTrain(Judge({}, group), group, {}));
  EXPECT_FALSE(NothingToTrain(Judge({}, group), group, {.credit = "reward_to_go"}));
}

TEST(NothingToTrain, ByTermsAGroupIsEqualOnlyIfEveryTermIs) {
  const v1::Group group = FourAnswers();
  // 1 + 2 * 0 = 0 + 2 * 0.5: the sums are equal.
  GroupGrades grades;
  for (const int32_t sample : {0, 1}) {
    v1::Grade& grade = grades.grades[sample];
    grade.set_reward(1);
    for (const auto& [weight, value] : {std::pair(1.0, 1.0 - sample), {2.0, 0.5 * sample}}) {
      v1::TermValue& term = *grade.add_terms();
      term.set_weight(weight);
      term.set_value(value);
    }
  }
  EXPECT_TRUE(NothingToTrain(grades, group, {}));
  EXPECT_FALSE(NothingToTrain(grades, group, {.by_terms = true}));
  *grades.grades[1].mutable_terms() = grades.grades[0].terms();
  EXPECT_TRUE(NothingToTrain(grades, group, {.by_terms = true}));
  // What a term gives to a call before the last counts too, although another term takes it away from the sum.
  v1::Group longer;
  for (int i = 0; i < 2; ++i) {
    v1::EpisodeTree& tree = AddEpisode(longer, 1);
    AddCall(tree, 3);
    AddCall(tree, 4);
  }
  v1::TermValue& term = *grades.grades[0].mutable_terms(0);
  (*term.mutable_calls())[longer.episodes(0).calls(0).call_id()] = 0.5;
  term.set_value(term.value() - 0.5);
  EXPECT_TRUE(NothingToTrain(grades, longer, {.credit = "reward_to_go"}));
  EXPECT_TRUE(NothingToTrain(grades, longer, {.by_terms = true}));
  EXPECT_FALSE(NothingToTrain(grades, longer, {.credit = "reward_to_go", .by_terms = true}));
}

// White wins one game and loses the other; both earn 0 as a whole.
TEST(NothingToTrain, JudgesEachRoleByItself) {
  v1::Group group;
  for (const double won : {1.0, -1.0}) {
    v1::EpisodeTree& tree = AddEpisode(group, 0);
    for (const auto& [role, reward] : {std::pair("white", won), std::pair("black", -won)}) {
      v1::Call& call = AddCall(tree, 3);
      call.set_role(role);
      (*tree.mutable_episode()->mutable_call_rewards())[call.call_id()] = reward;
    }
  }
  EXPECT_TRUE(NothingToTrain(Judge({}, group), group, {}));
  EXPECT_FALSE(NothingToTrain(Judge({}, group), group, {.by_role = true}));
  // White draws level with itself; black is a pinned opponent, whose returns teach nothing.
  group.mutable_episodes(0)->mutable_calls(1)->set_weights(v1::WEIGHTS_PINNED);
  group.mutable_episodes(1)->mutable_calls(1)->set_weights(v1::WEIGHTS_PINNED);
  (*group.mutable_episodes(1)->mutable_episode()->mutable_call_rewards())[group.episodes(1).calls(0).call_id()] = 1;
  EXPECT_FALSE(NothingToTrain(Judge({}, group), group, {}));
  EXPECT_TRUE(NothingToTrain(Judge({}, group), group, {.by_role = true}));
  EXPECT_TRUE(NothingToTrain(Judge({}, group), group, {.credit = "reward_to_go", .by_role = true}))
      << "white's only turn is its last";
}

}  // namespace
}  // namespace ingot::reward
