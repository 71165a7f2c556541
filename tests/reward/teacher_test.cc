// The teacher term, with a teacher of plain code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reward/rule.h"
#include "reward/terms/teacher.h"
#include "term_maker.h"
#include "tree/token_advantages.h"

namespace ingot::reward::teacher_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Gives id i the log-prob -i / T.
class PlainTeacher final : public TeacherModel {
 public:
  absl::StatusOr<std::vector<float>> Score(const TeacherQuestion& question) const override {
    if (!fail.ok()) return fail;
    std::vector<float> scores;
    for (size_t i = question.ids.size() - static_cast<size_t>(question.sampled); i < question.ids.size(); ++i) {
      scores.push_back(static_cast<float>(-question.ids[i]) / question.temperature);
    }
    return scores;
  }
  absl::StatusOr<std::string> Tokenizer(const std::string&) const override { return tokenizer; }

  absl::Status fail;
  std::string tokenizer = "bytes";
};

// A call with a prompt of one id, that sampled these ids with log-prob -1 each, at temperature 2.
v1::Call& AddSampled(v1::EpisodeTree& tree, const std::vector<int32_t>& ids) {
  v1::Call& call = *tree.add_calls();
  call.set_call_id(tree.episode().episode_id() + "-" + std::to_string(tree.calls_size() - 1));
  call.set_sequence(tree.calls_size() - 1);
  call.mutable_sampling()->set_temperature(2);
  call.set_tokenizer_fingerprint("bytes");
  const auto add = [&tree](const v1::Segment& segment) {
    const std::string key = base::ContentKey(segment.SerializeAsString());
    (*tree.mutable_segments())[absl::BytesToHexString(key)] = segment;
    return key;
  };
  v1::Segment prompt, sampled;
  prompt.set_source(v1::SOURCE_PROMPT);
  prompt.add_token_ids(9);
  call.add_context_keys(add(prompt));
  sampled.set_source(v1::SOURCE_SAMPLED);
  for (const int32_t id : ids) {
    sampled.add_token_ids(id);
    sampled.add_logprobs(-1);
  }
  v1::VersionRun& run = *sampled.add_versions();
  run.set_count(static_cast<int32_t>(ids.size()));
  call.add_sampled_keys(add(sampled));
  return call;
}

class TeacherTest : public testing::Test {
 protected:
  TeacherTest() {
    options_.terms.resize(1);
    options_.terms[0].kind = "teacher";
    options_.terms[0].weight = 0.5;
    options_.terms[0].Of<TeacherOptions>().model = "big";
    for (int i = 0; i < 2; ++i) AddSampled(AddEpisode(group_, 1), {4, 0});
  }
  absl::StatusOr<GroupGrades> Apply() const {
    TermParts parts;
    parts.teacher = teacher_;
    INGOT_ASSIGN_OR_RETURN(const Rule rule, Rule::Make(options_, "", parts));
    INGOT_ASSIGN_OR_RETURN(const GroupFacts facts, FactsOf(group_, 0, 10));
    return rule.Apply(facts);
  }
  RewardOptions options_;
  v1::Group group_;
  std::shared_ptr<PlainTeacher> teacher_ = std::make_shared<PlainTeacher>();
};

TEST_F(TeacherTest, EachTokenGetsTheDifferenceOfItsLogprobs) {
  const auto grades = Apply();
  ASSERT_TRUE(grades.ok()) << grades.status();
  const v1::Grade& grade = grades->grades.at(0);
  // The teacher gives -4 / 2 = -2 and 0, the student gave -1 and -1.
  EXPECT_THAT(grade.terms(0).tokens().at("episode0-0").values(), ElementsAre(-1, 1));
  EXPECT_NEAR(grade.terms(0).measures().at("reverse_kl"), 0, 1e-6);
  EXPECT_EQ(grade.terms(0).measures().at("tokens"), 2);
  EXPECT_EQ(grade.reward(), 0);
  EXPECT_THAT(*tree::TokenAdvantages(grade, "episode0-0", 2), ElementsAre(-0.5, 0.5));
  EXPECT_TRUE(tree::TokenAdvantages(grade, "another", 2)->empty());
}

TEST_F(TeacherTest, AGroupOfEqualReturnsHasSomethingToTrain) {
  const auto grades = Apply();
  ASSERT_TRUE(grades.ok());
  EXPECT_FALSE(NothingToTrain(*grades, group_, {}));
}

TEST_F(TeacherTest, AnotherTokenizerIsRejected) {
  teacher_->tokenizer = "words";
  const auto grades = Apply();
  EXPECT_EQ(grades.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(grades.status().message()), HasSubstr("tokenizer words"));
}

TEST_F(TeacherTest, ATeacherThatIsDownDecidesNothing) {
  teacher_->fail = absl::UnavailableError("down");
  EXPECT_EQ(Apply().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TeacherTest, CallsThatAreNotTrainedAreNotScored) {
  group_.mutable_episodes(0)->mutable_calls(0)->mutable_sampling()->set_grammar_acted(true);
  const auto grades = Apply();
  ASSERT_TRUE(grades.ok());
  EXPECT_TRUE(grades->grades.at(0).terms(0).tokens().empty());
  EXPECT_FALSE(grades->grades.at(1).terms(0).tokens().empty());
  group_.mutable_episodes(1)->mutable_calls(0)->set_encoded(true);
  EXPECT_TRUE(Apply()->grades.at(1).terms(0).tokens().empty());
}

TEST_F(TeacherTest, ATermNeedsTheTeachersName) {
  options_.terms[0].Of<TeacherOptions>().model = "";
  EXPECT_FALSE(Rule::Make(options_, "").ok());
}

}  // namespace
}  // namespace ingot::reward::teacher_test
