// Teachers and judges on the engines of gateway.models.
#include "app/models/term_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/run/named_models.h"
#include "reward/terms/judge.h"
#include "reward/terms/teacher.h"

namespace ingot::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Answers every request at once, in two chunks.
class FakeEngine final : public rollout::Client {
 public:
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    last = std::move(request);
    if (!fail.ok()) {
      on_chunk(fail);
      return nullptr;
    }
    v1::GenerateChunk first, second;
    for (const char c : text) first.add_token_ids(static_cast<unsigned char>(c));
    first.add_logprobs(-1);
    second.add_logprobs(-2);
    second.set_finish(v1::FINISH_STOP);
    on_chunk(first);
    on_chunk(second);
    return nullptr;
  }
  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    ++asked;
    v1::EngineStatusResponse status;
    status.set_version(7);
    status.set_tokenizer_fingerprint(tokenizer);
    return status;
  }
  v1::GenerateRequest last;
  absl::Status fail;
  std::string text, tokenizer;
  int asked = 0;
};

reward::JudgeServer ServerOf(const std::string& model) {
  reward::JudgeServer server;
  server.model = model;
  return server;
}

class TermModelsTest : public testing::Test {
 protected:
  TermModelsTest() {
    gateway_.models = {{.name = "start", .weights = gateway::ModelWeights::kPinned, .version = 3, .address = ""},
                       {.name = "big", .weights = gateway::ModelWeights::kExternal, .address = "host:1"},
                       {.name = "self", .address = ""}};
    text_ = *MakeTextParts("compact");
    own_->tokenizer = big_->tokenizer = text_.tokenizer->fingerprint();
    AddTermModels(std::make_shared<ModelPlaces>(gateway_, own_,
                                                std::map<std::string, std::shared_ptr<rollout::Client>>{{"big", big_}}),
                  text_, parts_);
  }
  gateway::GatewayOptions gateway_;
  TextParts text_;
  std::shared_ptr<FakeEngine> own_ = std::make_shared<FakeEngine>(), big_ = std::make_shared<FakeEngine>();
  reward::TermParts parts_;
};

TEST_F(TermModelsTest, ATeacherScoresUnderItsOwnVersion) {
  const reward::TeacherQuestion question{.model = "big", .ids = {1, 2, 3}, .sampled = 2, .temperature = 0.5};
  const auto scores = parts_.teacher->Score(question);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_THAT(*scores, ElementsAre(-1, -2));
  EXPECT_EQ(big_->last.score_ids(), 2);
  EXPECT_EQ(big_->last.pinned_version(), 7);
  EXPECT_EQ(big_->last.sampling().temperature(), 0.5f);
  ASSERT_TRUE(parts_.teacher->Score({.model = "start", .ids = {1, 2}, .sampled = 1}).ok());
  EXPECT_EQ(own_->last.pinned_version(), 3);
  ASSERT_TRUE(parts_.teacher->Score(question).ok());
  EXPECT_EQ(big_->asked, 1) << "its version is asked for once";
  EXPECT_TRUE(absl::IsNotFound(parts_.teacher->Score({.model = "none", .ids = {1, 2}, .sampled = 1}).status()));
  big_->fail = absl::ResourceExhaustedError("full");
  EXPECT_TRUE(absl::IsUnavailable(parts_.teacher->Score(question).status()));
}

TEST_F(TermModelsTest, AJudgeAnswersInTheFormOfItsSchema) {
  big_->text = R"({"verdict":"correct"})";
  const reward::JudgeQuestion question{.system = "Judge.", .user = "2+2=4", .schema_json = R"({"type":"object"})"};
  const auto answer = parts_.judge->Ask(ServerOf("big"), question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, big_->text);
  EXPECT_EQ(big_->last.sampling().temperature(), 0);
  EXPECT_EQ(big_->last.sampling().grammar().alternatives(0).parts(0).json_schema(), question.schema_json);
  const std::vector<int32_t> ids(big_->last.prompt_ids().begin(), big_->last.prompt_ids().end());
  EXPECT_THAT(text_.tokenizer->DecodeText(ids, false), HasSubstr("2+2=4"));
  own_->tokenizer = "other";
  EXPECT_TRUE(absl::IsFailedPrecondition(parts_.judge->Ask(ServerOf("start"), question).status()));
}

TEST_F(TermModelsTest, ATeacherWithAnotherTokenizerIsRejectedAtTheStart) {
  reward::RewardOptions rewards;
  rewards.terms.resize(1);
  rewards.terms[0].kind = "teacher";
  rewards.terms[0].Of<reward::TeacherOptions>().model = "big";
  big_->tokenizer = "other";
  const absl::Status rejected = CheckTeachers(rewards, parts_, text_.tokenizer->fingerprint());
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected));
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("'big' has the tokenizer other"));
  rewards.terms[0].Of<reward::TeacherOptions>().model = "start";
  EXPECT_TRUE(CheckTeachers(rewards, parts_, text_.tokenizer->fingerprint()).ok());
  rewards.terms[0].Of<reward::TeacherOptions>().model = "away";  // does not answer: asked again with its first group
  EXPECT_TRUE(CheckTeachers(rewards, parts_, text_.tokenizer->fingerprint()).ok());
}

TEST_F(TermModelsTest, ThePolicyNeitherTeachesNorJudgesItself) {
  reward::RewardOptions rewards;
  rewards.terms.resize(1);
  rewards.terms[0].kind = "teacher";
  for (const auto& [model, ok] : {std::pair("start", true), {"big", true}, {"self", false}, {"none", false}}) {
    rewards.terms[0].Of<reward::TeacherOptions>().model = model;
    EXPECT_EQ(CheckAskedModels(rewards, gateway_).ok(), ok) << model;
  }
  rewards.terms[0].kind = "judge";
  rewards.terms[0].Of<reward::JudgeOptions>().server.model = "self";
  EXPECT_THAT(std::string(CheckAskedModels(rewards, gateway_).message()), HasSubstr("judge.model 'self'"));
  rewards.terms[0].Of<reward::JudgeOptions>().server.model = "big";
  EXPECT_TRUE(CheckAskedModels(rewards, gateway_).ok());
}

}  // namespace
}  // namespace ingot::app
