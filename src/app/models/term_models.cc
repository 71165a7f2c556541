#include "app/models/term_models.h"

#include <utility>

#include "reward/terms/teacher.h"

namespace ingot::app {
namespace {

class EngineTeacher final : public reward::TeacherModel {
 public:
  explicit EngineTeacher(std::shared_ptr<const ModelPlaces> places) : places_(std::move(places)) {}

  absl::StatusOr<std::vector<float>> Score(const reward::TeacherQuestion& question) const override {
    INGOT_ASSIGN_OR_RETURN(const ModelPlaces::Place place, places_->PlaceOf(question.model));
    v1::GenerateRequest request;
    request.set_request_id(absl::StrCat("teacher-", question.model));
    request.mutable_prompt_ids()->Add(question.ids.begin(), question.ids.end());
    request.mutable_sampling()->set_temperature(question.temperature);
    request.mutable_sampling()->set_max_new_tokens(1);
    request.set_score_ids(question.sampled);
    request.set_pinned_version(place.version);
    const auto chunk = ModelPlaces::Ask(*place.client, std::move(request), question.timeout_s);
    if (!chunk.ok()) return base::Annotate(chunk.status(), absl::StrCat("teacher '", question.model, "'"));
    return std::vector<float>(chunk->logprobs().begin(), chunk->logprobs().end());
  }

  absl::StatusOr<std::string> Tokenizer(const std::string& model) const override {
    INGOT_ASSIGN_OR_RETURN(const ModelPlaces::Place place, places_->PlaceOf(model));
    return place.tokenizer;
  }

 private:
  const std::shared_ptr<const ModelPlaces> places_;
};

// Calls a model in gateway.models through its engine, and any other model over HTTP.
class EngineJudge final : public reward::JudgeModel {
 public:
  EngineJudge(std::shared_ptr<const ModelPlaces> places, TextParts text, std::shared_ptr<const reward::JudgeModel> http)
      : places_(std::move(places)), text_(std::move(text)), http_(std::move(http)) {}

  absl::StatusOr<std::string> Ask(const reward::JudgeServer& server,
                                  const reward::JudgeQuestion& question) const override {
    if (!server.url.empty()) return http_->Ask(server, question);
    INGOT_ASSIGN_OR_RETURN(const ModelPlaces::Place place, places_->PlaceOf(server.model));
    if (place.tokenizer != text_.tokenizer->fingerprint()) {
      return absl::FailedPreconditionError(absl::StrCat("the judge '", server.model,
                                                        "' does not have the tokenizer of the ",
                                                        "run; set judge.url to its chat completions URL"));
    }
    text::Conversation conversation;
    for (const auto& [role, content] : {std::pair("system", &question.system), {"user", &question.user}}) {
      text::Message& message = conversation.messages.emplace_back();
      message.role = role;
      message.content = *content;
    }
    INGOT_ASSIGN_OR_RETURN(const text::RenderedPrompt prompt, text_.format->Render(conversation, true));
    v1::GenerateRequest request;
    request.set_request_id(absl::StrCat("judge-", server.model));
    request.mutable_prompt_ids()->Add(prompt.ids.begin(), prompt.ids.end());
    request.set_pinned_version(place.version);
    v1::SamplingParams& sampling = *request.mutable_sampling();
    sampling.set_max_new_tokens(server.max_tokens);
    const auto& ends = text_.format->end_of_turn_ids();
    sampling.mutable_stop_token_ids()->Add(ends.begin(), ends.end());
    sampling.mutable_grammar()->add_alternatives()->add_parts()->set_json_schema(question.schema_json);
    const auto chunk = ModelPlaces::Ask(*place.client, std::move(request), server.timeout_s);
    if (!chunk.ok()) return base::Annotate(chunk.status(), absl::StrCat("judge '", server.model, "'"));
    const std::vector<int32_t> ids(chunk->token_ids().begin(), chunk->token_ids().end());
    return text_.tokenizer->DecodeText(ids, /*skip_special=*/true);
  }

 private:
  const std::shared_ptr<const ModelPlaces> places_;
  const TextParts text_;
  const std::shared_ptr<const reward::JudgeModel> http_;
};

}  // namespace

absl::Status CheckTeachers(const reward::RewardOptions& rewards, const reward::TermParts& parts,
                           const std::string& fingerprint) {
  for (const reward::TermOptions& term : rewards.terms) {
    if (term.kind != "teacher" || parts.teacher == nullptr) continue;
    const std::string& model = term.Of<reward::TeacherOptions>().model;
    const absl::StatusOr<std::string> tokenizer = parts.teacher->Tokenizer(model);
    if (!tokenizer.ok() || *tokenizer == fingerprint) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rewards.terms (", term.Name(), "): the teacher '", model, "' has the tokenizer ", *tokenizer,
        ", but the run has ", fingerprint, ": their ids do not match; name a teacher with the run's tokenizer"));
  }
  return absl::OkStatus();
}

void AddTermModels(std::shared_ptr<const ModelPlaces> places, TextParts text, reward::TermParts& parts) {
  parts.teacher = std::make_shared<EngineTeacher>(places);
  parts.judge = std::make_shared<EngineJudge>(std::move(places), std::move(text), std::move(parts.judge));
}

}  // namespace ingot::app
