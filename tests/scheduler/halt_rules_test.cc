#include "scheduler/journal/halt_rules.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace ingot::scheduler {
namespace {

using std::chrono::seconds;

// B = 2 slots.
const WindowedFifo& Policy() {
  static const WindowedFifo policy({.groups_per_step = 2, .max_staleness = 0});
  return policy;
}

std::string MessageOf(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? std::string(status.message()) : "";
}

v1::ReportEpisodeEndRequest End(v1::EpisodeState state, bool before_first_call = false) {
  v1::ReportEpisodeEndRequest end;
  end.set_state(state);
  end.set_before_first_call(before_first_call);
  end.set_detail("no image");
  return end;
}

TEST(HaltRules, MoreThanBGroupsMustFailForTheWholeTime) {
  HaltRules rules({.give_up_seconds = 10}, 0);
  for (int64_t group = 0; group < 2; ++group) rules.GroupFailed(group, "late", seconds(100));
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(200)).ok());
  rules.GroupFailed(2, "lost", seconds(105));
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(109)).ok());
  EXPECT_NE(MessageOf(rules.CheckGroups(Policy(), 1, seconds(110))).find("the last failure: group 2: lost"),
            std::string::npos);
  rules.GroupRewarded();
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(999)).ok());
  EXPECT_EQ(rules.last_failure(), "group 2: lost");
}

TEST(HaltRules, FailedGroupsBetweenEqualOnesDoNotCount) {
  HaltRules rules({.give_up_equal = 3}, 0);
  const std::vector<double> zero = {0, 0}, one = {1, 1};
  rules.GroupDropped(0, zero);
  rules.GroupDropped(1, one);
  rules.GroupFailed(2, "late", seconds(0));
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(0)).ok());
  rules.GroupDropped(3, zero);
  const std::string message = MessageOf(rules.CheckGroups(Policy(), 1, seconds(0)));
  EXPECT_NE(message.find("their samples earned from 0 to 1; the last one is group 3"), std::string::npos) << message;
  rules.RunStartedAgain();
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(0)).ok());
}

TEST(HaltRules, DroppedGroupsDoNotEndARunThatTrainsThem) {
  HaltRules rules({.give_up_equal = 1, .max_drops_per_batch = 1}, 0);
  rules.GroupDropped(0, std::vector<double>{0, 0});
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(0)).ok());
}

TEST(HaltRules, EpisodesThatNeverStartedEndARunInWhichNoneFinished) {
  HaltRules rules({.give_up_unstarted = 2}, 0);
  rules.EpisodeEnded(End(v1::EPISODE_INFRASTRUCTURE_FAILED), seconds(0));
  EXPECT_TRUE(rules.CheckUnstarted(false, seconds(0)).ok());
  EXPECT_FALSE(rules.CheckUnstarted(true, seconds(0)).ok());
  rules.EpisodeEnded(End(v1::EPISODE_FAILED), seconds(0));  // its agent made a call
  EXPECT_TRUE(rules.CheckUnstarted(true, seconds(0)).ok());
  for (int i = 0; i < 2; ++i) rules.EpisodeEnded(End(v1::EPISODE_FAILED, /*before_first_call=*/true), seconds(0));
  EXPECT_NE(MessageOf(rules.CheckUnstarted(false, seconds(0))).find("the last failure: no image"), std::string::npos);
  EXPECT_FALSE(rules.CheckGroups(Policy(), 1, seconds(0)).ok());
  rules.EpisodeEnded(End(v1::EPISODE_FINISHED), seconds(0));
  EXPECT_TRUE(rules.CheckUnstarted(true, seconds(0)).ok());
}

// A server that every set-up needs may restart or stay down.
TEST(HaltRules, AfterAFinishedEpisodeSetUpsMustFailForTheWholeTime) {
  HaltRules rules({.give_up_seconds = 100, .give_up_unstarted = 2}, 0);
  const auto fail = [&rules](int64_t at) { rules.EpisodeEnded(End(v1::EPISODE_INFRASTRUCTURE_FAILED), seconds(at)); };
  fail(0);
  rules.EpisodeEnded(End(v1::EPISODE_FINISHED), seconds(1));
  fail(10);
  EXPECT_TRUE(rules.CheckUnstarted(true, seconds(500)).ok()) << "one is not enough";
  rules.EpisodeEnded(End(v1::EPISODE_FINISHED), seconds(20));
  fail(30);
  fail(40);
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(129)).ok()) << "it may come back";
  const std::string message = MessageOf(rules.CheckGroups(Policy(), 1, seconds(130)));
  EXPECT_NE(message.find("in 100 s, 2 consecutive episodes"), std::string::npos) << message;
  EXPECT_NE(message.find("start the run again: no image"), std::string::npos) << message;
  rules.EpisodeEnded(End(v1::EPISODE_FINISHED), seconds(131));
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(999)).ok());
}

TEST(HaltRules, WithoutATimeAFinishedEpisodeKeepsTheRun) {
  HaltRules rules({.give_up_seconds = 0, .give_up_unstarted = 1}, 0);
  rules.EpisodeEnded(End(v1::EPISODE_FINISHED), seconds(0));
  rules.EpisodeEnded(End(v1::EPISODE_INFRASTRUCTURE_FAILED), seconds(1));
  EXPECT_TRUE(rules.CheckGroups(Policy(), 1, seconds(100'000)).ok());
}

TEST(HaltRules, ATermThatJudgesAgainStartsFromZero) {
  HaltRules rules({}, 2);
  rules.TermsAsked({"length"}, "judge", "no answer");
  rules.TermsAsked({"judge"}, "", "");
  rules.TermsAsked({}, "judge", "no answer");
  EXPECT_TRUE(rules.CheckTerms().ok());
  rules.TermsAsked({}, "judge", "503");
  const std::string message = MessageOf(rules.CheckTerms());
  EXPECT_NE(message.find("'judge' has scored no episode in 2 consecutive groups"), std::string::npos) << message;
  EXPECT_NE(message.find("the last failure: 503"), std::string::npos) << message;
}

TEST(HaltRules, UsedUpTasksEndARunOnceTheGroupsMakeNoBatch) {
  SchedulerOptions options;
  options.sampling.once = true;
  const HaltRules rules(options, 0);
  WindowedFifo policy({.groups_per_step = 2, .max_staleness = 0});
  EXPECT_TRUE(rules.CheckGroups(policy, /*tasks_left=*/1, seconds(0)).ok());
  for (int64_t group = 0; group < 2; ++group) ASSERT_TRUE(policy.AdmitGroup(group).ok());
  EXPECT_TRUE(rules.CheckGroups(policy, 0, seconds(0)).ok());
  ASSERT_TRUE(policy.CloseGroup(0).ok());
  EXPECT_NE(MessageOf(rules.CheckGroups(policy, 0, seconds(0))).find("1 groups remain of the 2 that batch 0 needs"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::scheduler
