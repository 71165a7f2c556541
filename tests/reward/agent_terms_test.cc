// Terms of orchestrators and searchers: PARL's three and retrieval.
#include <gtest/gtest.h>

#include "reward/terms/parl.h"
#include "term_maker.h"

namespace ingot::reward {
namespace {

// An episode whose record has so many calls of the policy and of sub-agents.
v1::EpisodeTree& Orchestrated(v1::Group& group, double outcome, int main, int sub, const std::string& stages) {
  v1::EpisodeTree& tree = AddEpisode(group, outcome);
  for (int i = 0; i < main; ++i) AddCall(tree, 5);
  for (int i = 0; i < sub; ++i) AddCall(tree, 5).set_weights(v1::WEIGHTS_PINNED);
  if (!stages.empty()) SetFact(tree, "stages", stages);
  return tree;
}

void Signal(v1::EpisodeTree& tree, const std::string& name, double value) {
  (*tree.mutable_episode()->mutable_signals())[name] = value;
}

TEST(ParlParallel, CountsTheWidestStagesWorkingSubAgents) {
  v1::Group group;
  Orchestrated(group, 1, 2, 8, R"([{"main": 1, "sub": [3, 5]}, {"main": 1}])");
  Orchestrated(group, 1, 3, 3, R"([{"main": 1, "sub": [1]}, {"main": 1, "sub": [1]}, {"main": 1, "sub": [1]}])");
  Orchestrated(group, 1, 1, 6, R"([{"main": 1, "sub": [1, 1, 1, 1, 1, 1]}])");
  Orchestrated(group, 1, 1, 0, R"([{"main": 1, "sub": [0, 0, 0, 0]}])");  // spawned, never called a model
  Orchestrated(group, 1, 2, 0, "");
  EXPECT_EQ(ValuesOf(TermOf("parl_parallel"), group), (std::vector<double>{0.5, 0.25, 1, 0, 0}));
}

TEST(ParlFinish, DividesByWhatWasAssigned) {
  v1::Group group;
  v1::EpisodeTree& half = Orchestrated(group, 1, 1, 8, R"([{"main": 1, "sub": [3, 5]}])");
  Signal(half, "subagents/assigned", 4);
  Signal(half, "subagents/finished", 2);
  v1::EpisodeTree& idle = Orchestrated(group, 1, 1, 1, R"([{"main": 1, "sub": [1, 0]}])");
  Signal(idle, "subagents/assigned", 2);
  Signal(idle, "subagents/finished", 2);  // one of them never called a model
  Orchestrated(group, 1, 1, 0, "");
  EXPECT_EQ(ValuesOf(TermOf("parl_finish"), group), (std::vector<double>{0.5, 0.5, 0}));
  v1::Group wrong;
  Signal(Orchestrated(wrong, 1, 1, 0, ""), "subagents/finished", 1);
  EXPECT_NE(FaultOf(TermOf("parl_finish"), wrong).find("'subagents/finished' is 1"), std::string::npos);
}

TEST(Parl, StagesThatTheRecordContradictsAreAnError) {
  for (const char* stages : {R"([{"main": 2, "sub": [3, 6]}])", R"([{"main": 1, "sub": [3, 5]}])", ""}) {
    v1::Group group;
    Orchestrated(group, 1, 2, 8, stages);
    EXPECT_NE(FaultOf(TermOf("parl_parallel"), group).find("the record has"), std::string::npos) << stages;
  }
  for (const char* stages : {"7", "[7]", R"([{"sub": [1]}])", R"([{"main": -1}])", R"([{"main": 1, "sub": 3}])",
                             R"([{"main": 1.5}])", R"([{"main": 99999999999}])"}) {
    v1::Group group;
    Orchestrated(group, 1, 1, 0, stages);
    EXPECT_NE(FaultOf(TermOf("parl_parallel"), group).find("expected a list"), std::string::npos) << stages;
  }
}

TEST(Parl, CallsThatWereNotAnsweredAreNoSteps) {
  v1::Group group;
  v1::EpisodeTree& tree = Orchestrated(group, 1, 1, 2, R"([{"main": 1, "sub": [1]}])");
  tree.mutable_calls(2)->set_finish(v1::FINISH_ABORTED);
  EXPECT_EQ(ValuesOf(TermOf("parl_parallel"), group), std::vector<double>{0.25});
}

// Both calls have fixed weights in an evaluation, so only the name tells them apart. A collection's model may be
// external.
TEST(Parl, AnEvaluationsSubAgentsAreOtherModels) {
  v1::Group group;
  v1::EpisodeTree& tree = Orchestrated(group, 1, 2, 3, R"([{"main": 1, "sub": [1, 2]}, {"main": 1}])");
  tree.mutable_episode()->set_purpose(v1::PURPOSE_EVAL);
  for (v1::Call& call : *tree.mutable_calls()) {
    call.set_model(call.weights() == v1::WEIGHTS_PINNED ? "sub-agent" : "default");
    call.set_weights(v1::WEIGHTS_PINNED);
  }
  tree.mutable_calls(0)->set_weights(v1::WEIGHTS_EXTERNAL);
  const auto value = [&](const std::set<std::string>& other_models) {
    const auto facts = FactsOf(group, 0, 100, other_models);
    EXPECT_EQ(facts->episodes.at(0).policy_calls(), other_models.empty() ? 5 : 2);
    return Judge(TermOf("parl_parallel"), *facts)->at(0);
  };
  EXPECT_EQ(value({"judge", "sub-agent"})->value, 0.5);
  EXPECT_EQ(value({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CriticalSteps, TakeTheOutcomeOfEpisodesBeyondTheBudget) {
  // (1 + 5) + 1 = 7 steps.
  const char* stages = R"([{"main": 1, "sub": [3, 5]}, {"main": 1}])";
  v1::Group group;
  Orchestrated(group, 1, 2, 8, stages);
  Orchestrated(group, -1, 2, 8, stages);
  Orchestrated(group, 1, 6, 0, "");
  TermOptions options = TermOf("critical_steps");
  options.Of<CriticalStepsOptions>().budget = 6;
  EXPECT_EQ(ValuesOf(options, group), (std::vector<double>{-1, 0, 0}));
  EXPECT_EQ(ResultsOf(options, group)[0]->measures.at("critical_steps"), 7);
  group.mutable_task()->set_payload_json(R"({"critical_steps": 7})");
  for (v1::EpisodeTree& tree : *group.mutable_episodes()) *tree.mutable_episode()->mutable_task() = group.task();
  EXPECT_EQ(ValuesOf(options, group), (std::vector<double>{0, 0, 0})) << "the task's own budget counts first";
}

TEST(CriticalSteps, ATaskWithoutABudgetIsAnErrorOfTheGroup) {
  v1::Group group;
  group.mutable_task()->set_task_id("t9");
  Orchestrated(group, 1, 1, 0, "");
  const auto facts = FactsOf(group, 0, 100);
  const auto results = Judge(TermOf("critical_steps"), *facts);
  EXPECT_EQ(results.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(results.status().message().find("'t9'"), std::string::npos);
}

v1::Group SearchTask() {
  v1::Group group;
  group.mutable_task()->set_payload_json(R"({"relevant_ids": ["a", "b", "c", 4], "answer_ids": ["a"]})");
  return group;
}

v1::EpisodeTree& Search(v1::Group& group, const std::string& seen, const std::string& returned, int turns = 1) {
  v1::EpisodeTree& tree = AddEpisode(group, 0);
  for (int i = 0; i < turns; ++i) AddCall(tree, 5);
  if (!seen.empty()) SetFact(tree, "seen", seen);
  if (!returned.empty()) SetFact(tree, "returned", returned);
  return tree;
}

TEST(Retrieval, IsThePublishedFormula) {
  v1::Group group = SearchTask();
  Search(group, R"(["a", "b", "c", "x"])", R"(["a", "x"])");
  // P 1/2, R 1/4, beta 4: F = 17 * 1/8 / (16/2 + 1/4) = 2.125 / 8.25. Seen 3 of 4. The answer is among them.
  EXPECT_NEAR(ValuesOf(TermOf("retrieval"), group)[0], 0.7 * 2.125 / 8.25 + 0.3 * 0.75 + 1, 1e-12);
  // In the second epoch beta is 2: F = 5/8 / (4/2 + 1/4) = 0.625 / 2.25.
  EXPECT_NEAR(ValuesOf(TermOf("retrieval"), group, 50)[0], 0.7 * 0.625 / 2.25 + 0.3 * 0.75 + 1, 1e-12);
}

TEST(Retrieval, WholeSuccessIsTwoAndNothingReturnedIsNothing) {
  v1::Group group = SearchTask();
  Search(group, R"(["a", "b", "c", 4, "x"])", R"(["a", "b", "c", 4])");
  Search(group, R"(["a", "b", "c", 4])", "");
  Search(group, "[]", "[]");
  EXPECT_EQ(ValuesOf(TermOf("retrieval"), group), (std::vector<double>{2, 0, 0}));
}

TEST(Retrieval, GuessedIdsAreWrong) {
  v1::Group group = SearchTask();
  Search(group, R"(["x"])", R"(["a", "b", "c", 4])");
  EXPECT_EQ(ValuesOf(TermOf("retrieval"), group), std::vector<double>{0});
}

std::string Prunes(const std::vector<int>& turns) {
  std::string json = "[";
  for (const int turn : turns)
    absl::StrAppend(&json, json.size() > 1 ? "," : "", "{\"turn\":", turn, ",\"ids\":[\"x\"]}");
  return json + "]";
}

TEST(Retrieval, PruningOneByOneLoses) {
  const auto value = [](const std::vector<int>& turns) {
    v1::Group group = SearchTask();
    SetFact(Search(group, R"(["a", "b", "c", 4, "x"])", R"(["a", "b", "c", 4])"), "pruned", Prunes(turns));
    return ValuesOf(TermOf("retrieval"), group)[0];
  };
  EXPECT_EQ(value({1, 2, 3}), 2);
  EXPECT_NEAR(value({1, 2, 3, 4, 5}), 1.8, 1e-12);
  EXPECT_NEAR(value({1, 1, 1, 1}), 1.9, 1e-12) << "several in one turn are in a row too";
  EXPECT_EQ(value({1, 2, 3, 5, 6, 7}), 2) << "a search between them ends the row";
  EXPECT_NEAR(value({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), 1.5, 1e-12) << "at most 0.5";
}

TEST(Retrieval, TurnsBeyond64CostUpToAHalf) {
  const auto value = [](int turns) {
    v1::Group group = SearchTask();
    Search(group, R"(["a", "b", "c", 4])", R"(["a", "b", "c", 4])", turns);
    return ValuesOf(TermOf("retrieval"), group)[0];
  };
  EXPECT_EQ(value(64), 2);
  EXPECT_NEAR(value(96), 1.75, 1e-12);
  EXPECT_EQ(value(140), 1.5);
}

TEST(Retrieval, PenaltiesLeaveTheFloorAndNeverAddToTheReward) {
  v1::Group group = SearchTask();
  Search(group, R"(["a", "x"])", R"(["x"])", 140);  // 0.3 * 1/4 - 0.5
  Search(group, R"(["x"])", R"(["x"])", 140);       // nothing, and the floor adds nothing
  EXPECT_EQ(ValuesOf(TermOf("retrieval"), group), (std::vector<double>{0.01, 0}));
}

TEST(Retrieval, FactsOfAnotherFormAndTasksWithoutIdsAreErrors) {
  v1::Group group = SearchTask();
  v1::EpisodeTree& tree = Search(group, R"({"a": 1})", "[]");
  EXPECT_NE(FaultOf(TermOf("retrieval"), group).find("fact 'seen' is not a list"), std::string::npos);
  SetFact(tree, "seen", "[]");
  for (const char* pruned : {"[1]", R"([{"turn": 1}])", R"([{"turn": -1, "ids": []}])",
                             R"([{"turn": 3, "ids": []}, {"turn": 2, "ids": []}])"}) {
    SetFact(tree, "pruned", pruned);
    EXPECT_NE(FaultOf(TermOf("retrieval"), group).find("fact 'pruned'"), std::string::npos) << pruned;
  }
  for (const char* payload : {"{}", R"({"relevant_ids": []})", R"({"relevant_ids": "a"})"}) {
    group.mutable_task()->set_payload_json(payload);
    const auto facts = FactsOf(group, 0, 100);
    EXPECT_EQ(Judge(TermOf("retrieval"), *facts).status().code(), absl::StatusCode::kFailedPrecondition) << payload;
  }
}

}  // namespace
}  // namespace ingot::reward
