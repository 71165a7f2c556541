// Answers that game a reward: in every term each scores at most as much as an honest wrong answer. Every kind is asked, so
// that a new one is too.
#include <gtest/gtest.h>

#include <algorithm>

#include "reward/terms/overlong.h"
#include "term_maker.h"

namespace ingot::reward {
namespace {

constexpr char kQuestion[] = "How many of the first hundred numbers are prime?";

struct Answer {
  std::string name;
  double outcome = 0;
  std::string text;
  int32_t tokens = 0;
  double seconds = 10;
};

void Add(v1::Group& group, const Answer& answer) {
  v1::EpisodeTree& tree = AddEpisode(group, answer.outcome);
  Deliver(AddCall(tree, answer.tokens), answer.text);
  tree.mutable_episode()->set_opened_unix_ns(1);
  tree.mutable_episode()->set_ended_unix_ns(1 + static_cast<int64_t>(answer.seconds * 1e9));
  SetFact(tree, "seen", R"(["a", "b"])");
  SetFact(tree, "returned", answer.outcome > 0 ? R"(["a"])" : "[]");
}

v1::Group NewGroup() {
  v1::Group group;
  group.mutable_task()->set_payload_json(
      absl::StrCat(R"({"question": ")", kQuestion, R"(", "relevant_ids": ["a"], "critical_steps": 4})"));
  return group;
}

// Kinds that compute alone. The others ask servers, and have tests of their own.
std::vector<TermOptions> PureTerms() {
  std::vector<TermOptions> terms;
  for (const std::string& kind : TermKinds()) {
    if (kind == "judge" || kind == "external" || kind == "teacher" || kind == "python") continue;
    TermOptions options = TermOf(kind);
    options.Of<OverlongOptions>() = {.max_tokens = 1000, .soft_tokens = 200};
    terms.push_back(options);
  }
  return terms;
}

TEST(Gaming, NoTrickScoresAboveAnHonestWrongAnswer) {
  v1::Group group = NewGroup();
  Add(group, {.name = "honest", .text = "I count 26 of them, having left out two.", .tokens = 200});
  const std::vector<Answer> tricks = {
      {.name = "empty", .text = "", .tokens = 0, .seconds = 0.1},
      {.name = "constant", .text = "7", .tokens = 1, .seconds = 0.1},
      {.name = "copied", .text = kQuestion, .tokens = 12, .seconds = 0.2},
      {.name = "overlong", .text = std::string(8000, 'n'), .tokens = 2000, .seconds = 100},
      {.name = "boast", .text = "I am correct.", .tokens = 5, .seconds = 0.1},
  };
  for (const Answer& trick : tricks) Add(group, trick);
  for (int i = 0; i < 8; ++i) {
    Add(group, {.name = "right", .outcome = 1, .text = "There are 25.", .tokens = 100 + 10 * i, .seconds = 5.0 + i});
  }
  for (const TermOptions& term : PureTerms()) {
    const std::vector<double> values = ValuesOf(term, group);
    ASSERT_EQ(values.size(), group.episodes_size()) << term.kind;
    for (size_t i = 0; i < tricks.size(); ++i)
      EXPECT_LE(values[i + 1], values[0]) << term.kind << ": " << tricks[i].name;
  }
}

TEST(Gaming, AWrongShortAnswerNeverGainsFromALengthOrTime) {
  v1::Group group = NewGroup();
  Add(group, {.name = "short", .text = "7", .tokens = 1, .seconds = 0.1});
  Add(group, {.name = "right", .outcome = 1, .text = "There are 25.", .tokens = 500, .seconds = 50});
  for (const char* kind : {"length", "effort", "overlong", "completion_time", "toggle"}) {
    EXPECT_LE(ValuesOf(TermOf(kind), group)[0], 0) << kind;
  }
}

TEST(Gaming, SpawningWithoutAssigningGainsAtMostTheParallelWeight) {
  v1::Group group = NewGroup();
  v1::EpisodeTree& tree = AddEpisode(group, 0);
  AddCall(tree, 5);
  for (int i = 0; i < 9; ++i) AddCall(tree, 5).set_weights(v1::WEIGHTS_PINNED);  // each says one word
  SetFact(tree, "stages", R"([{"main": 1, "sub": [1, 1, 1, 1, 1, 1, 1, 1, 1]}])");
  EXPECT_LE(ValuesOf(TermOf("parl_parallel"), group)[0], 1);
  EXPECT_EQ(ValuesOf(TermOf("parl_finish"), group)[0], 0);
  (*tree.mutable_episode()->mutable_signals())["subagents/assigned"] = 100;
  (*tree.mutable_episode()->mutable_signals())["subagents/finished"] = 9;
  EXPECT_LE(ValuesOf(TermOf("parl_finish"), group)[0], 0.09) << "empty assignments lose";
}

}  // namespace
}  // namespace ingot::reward
