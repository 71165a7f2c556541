// Which evaluations let a version be deployed.
#include "app/learning/deployment_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/device_failure.h"

namespace ingot::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<view::Requirement> Requiring(const std::vector<std::string>& texts) {
  return ParseLearnRequirements(texts).value();
}

Round Deployed(double reward) {
  Round round;
  round.version = 4;
  round.outcome = Outcome::kDeployed;
  round.evaluation = {{"eval/reward_mean", reward}};
  return round;
}

Round Decide(const std::vector<std::string>& require, const view::Figures& figures, const Round* deployed) {
  Round round;
  const absl::Status decided = DecideDeployment(Requiring(require), figures, deployed, round);
  EXPECT_TRUE(decided.ok()) << decided;
  return round;
}

TEST(DeploymentGate, RejectsAVersionThatIsWorseThanTheDeployedOne) {
  const Round deployed = Deployed(0.8);
  const Round worse = Decide({"reward_mean >= best - 0.02"}, {{"eval/reward_mean", 0.7}}, &deployed);
  EXPECT_EQ(worse.outcome, Outcome::kRejected);
  EXPECT_THAT(worse.reasons, ElementsAre(HasSubstr("NOT met")));
  EXPECT_EQ(worse.evaluation.at("eval/reward_mean"), 0.7);
  const Round within = Decide({"reward_mean >= best - 0.02"}, {{"eval/reward_mean", 0.79}}, &deployed);
  EXPECT_EQ(within.outcome, Outcome::kDeployed);
}

TEST(DeploymentGate, NeedsAllRequirements) {
  const std::vector<std::string> both = {"reward_mean >= 0.5", "truncated_ratio <= 0.1"};
  EXPECT_EQ(Decide(both, {{"eval/reward_mean", 0.6}, {"eval/truncated_ratio", 0.1}}, nullptr).outcome,
            Outcome::kDeployed);
  EXPECT_EQ(Decide(both, {{"eval/reward_mean", 0.6}, {"eval/truncated_ratio", 0.2}}, nullptr).outcome,
            Outcome::kRejected);
  EXPECT_EQ(Decide(both, {{"eval/reward_mean", 0.4}, {"eval/truncated_ratio", 0.1}}, nullptr).outcome,
            Outcome::kRejected);
}

TEST(DeploymentGate, DeploysWithoutRequirementsOnly) {
  EXPECT_EQ(Decide({}, {{"eval/reward_mean", 0}}, nullptr).outcome, Outcome::kDeployed);
  EXPECT_EQ(Decide({"reward_mean >= 2"}, {{"eval/reward_mean", 1}}, nullptr).outcome, Outcome::kRejected);
}

TEST(DeploymentGate, FailsWithoutTheFigure) {
  Round round;
  EXPECT_TRUE(absl::IsNotFound(DecideDeployment(Requiring({"pass@4 > 0"}), {{"eval/reward_mean", 1}}, nullptr, round)));
  EXPECT_NE(round.outcome, Outcome::kDeployed);
}

TEST(FailRound, LeavesTheRoundOpenIfTheProcessMustEnd) {
  Round round;
  EXPECT_EQ(FailRound(absl::ResourceExhaustedError("out of memory"), "training", round), absl::OkStatus());
  EXPECT_EQ(round.outcome, Outcome::kFailed);
  EXPECT_THAT(round.reasons, ElementsAre("training: out of memory"));
  const absl::Status lost = base::Annotate(base::DeviceFailure("an illegal memory access"), "trainer");
  for (const absl::Status& why : {lost, absl::CancelledError("the server was stopped")}) {
    Round open;
    EXPECT_EQ(FailRound(why, "training", open), why);
    EXPECT_EQ(open.outcome, Outcome::kOpen);
  }
}

TEST(DeploymentGate, NamesTheKeyOfAMalformedRequirement) {
  EXPECT_THAT(std::string(ParseLearnRequirements({"reward_mean"}).status().message()), HasSubstr("learn.require"));
}

}  // namespace
}  // namespace ingot::app
