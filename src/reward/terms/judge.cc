#include "reward/terms/judge.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"
#include "base/config.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/utf8.h"
#include "reward/delivered.h"
#include "reward/parallel.h"
#include "reward/task_field.h"

namespace ingot::reward {
namespace {

constexpr size_t kShownReasoning = 400;  // maximum bytes of each reasoning to include in the detail
constexpr size_t kShownAnswer = 200;     // bytes of an unusable answer to show in the error

// Returns a task field as a string. A value that is not a string is returned as JSON. Returns FAILED_PRECONDITION if
// the field is missing.
absl::StatusOr<std::string> TaskText(const v1::Task& task, const std::string& field) {
  if (field.empty()) return "";
  INGOT_ASSIGN_OR_RETURN(const auto value, TaskField(task, field));
  if (!value.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat("task '", task.task_id(), "' has no field '", field,
                                                      "' for the judge (judge.question_field, judge.reference_field)"));
  }
  return value->is_string() ? std::string(value->get_string()) : base::PrintJson(*value);
}

// Formats untrusted text for an error.
std::string Shown(const std::string& text) {
  return absl::StrCat("\"", base::Printable(text, {.max_bytes = kShownAnswer, .quoted = true}), "\"");
}

std::string ResponseOf(const EpisodeFacts& episode) {
  for (auto call = episode.calls.rbegin(); call != episode.calls.rend(); ++call) {
    if (!call->policy) continue;
    std::string content = DeliveredBy(*call->record).content;
    if (!content.empty()) return WithoutVerdicts(std::move(content));
  }
  return "";
}

base::Key128 KeyOf(const JudgeServer& server, const JudgeCase& one) {
  const base::json::array parts = {base::json::string(server.url),    base::json::string(server.model),
                                   base::json::string(one.rubric),    base::json::string(one.question),
                                   base::json::string(one.reference), base::json::string(one.response)};
  return base::ContentKey128(base::PrintJson(parts));
}

}  // namespace

absl::Status JudgeOptions::Validate() const {
  if (server.model.empty()) return absl::InvalidArgumentError("judge.model is empty: set it to the judge's model");
  if (!rubrics.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("judge.rubrics is empty: it needs at least one rubric");
}

void Bind(base::Schema& schema, JudgeOptions& o) {
  schema.Field("url", &o.server.url,
               "base URL of a server for OpenAI's chat completions; empty: judge.model is in gateway.models");
  schema.Field("model", &o.server.model, "name of the judge's model");
  schema.Field("key_file", &o.server.key_file, "file with the bearer key; empty: none is sent");
  schema.Field("timeout_s", &o.server.timeout_s, "timeout of one request, in seconds", base::LeftOpen(0, 86400));
  schema.Field("max_tokens", &o.server.max_tokens, "maximum number of tokens in an answer", base::AtLeast(1));
  schema.Field("rubrics", &o.rubrics, "questions for the judge; the value is the mean of their scores");
  schema.Field("question_field", &o.question_field, "task field with the question");
  schema.Field("reference_field", &o.reference_field, "task field with the correct answer; empty: the judge sees none");
  schema.Field("concurrency", &o.concurrency, "maximum number of concurrent requests per group", base::AtLeast(1));
}

absl::StatusOr<JudgeVerdict> JudgeTerm::VerdictOf(const JudgeCase& one) const {
  const base::Key128 key = KeyOf(options_.server, one);
  if (auto known = verdicts_->Find(key)) return *std::move(known);
  absl::Status fault;
  for (const bool again : {false, true}) {
    const auto answer = model_->Ask(options_.server, QuestionOf(one, base::RandomHex(16), again));
    if (!answer.ok()) {
      fault = answer.status();
      continue;
    }
    absl::StatusOr<JudgeVerdict> verdict = VerdictIn(*answer);
    if (verdict.ok()) {
      const absl::Status kept = verdicts_->Add(key, *verdict);
      if (!kept.ok())
        INGOT_LOG(warn, "cannot store a verdict, so the judge may have to score again: {}",
                  std::string(kept.message()));
      return verdict;
    }
    fault = absl::Status(verdict.status().code(),
                         absl::StrCat(verdict.status().message(), "; it answered ", Shown(*answer)));
  }
  return base::Annotate(fault, absl::StrCat("rubric '", base::CutText(one.rubric, 60), "', asked twice"));
}

TermResult JudgeTerm::Combine(const std::vector<JudgeVerdict>& verdicts) const {
  std::vector<double> scores;
  TermResult result;
  for (const JudgeVerdict& verdict : verdicts) {
    if (!verdict.unsure) scores.push_back(verdict.score);
    const std::string said = verdict.unsure ? "unsure" : absl::StrCat(verdict.score);
    absl::StrAppend(&result.detail, result.detail.empty() ? "" : "\n", said, ": ",
                    base::CutText(verdict.reasoning, kShownReasoning));
  }
  const auto n = static_cast<double>(scores.size());
  double squares = 0;
  for (const double score : scores) result.value += score / n;
  for (const double score : scores) squares += (score - result.value) * (score - result.value) / n;
  result.measures["disagreement"] = std::sqrt(squares);
  result.measures["abstained"] = static_cast<double>(verdicts.size() - scores.size());
  return result;
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> JudgeTerm::Judge(const GroupFacts& group) const {
  if (model_ == nullptr) return absl::FailedPreconditionError("this process cannot reach the judge's model");
  INGOT_ASSIGN_OR_RETURN(const std::string question, TaskText(group.group->task(), options_.question_field));
  INGOT_ASSIGN_OR_RETURN(const std::string reference, TaskText(group.group->task(), options_.reference_field));
  const size_t rubrics = options_.rubrics.size();
  std::vector<std::string> responses;
  for (const EpisodeFacts& episode : group.episodes) responses.push_back(ResponseOf(episode));
  std::vector<absl::StatusOr<JudgeVerdict>> verdicts(responses.size() * rubrics, JudgeVerdict());
  ForEach(verdicts.size(), options_.concurrency, [&](size_t i) {
    verdicts[i] = VerdictOf({.rubric = options_.rubrics[i % rubrics],
                             .question = question,
                             .reference = reference,
                             .response = responses[i / rubrics]});
  });
  std::vector<absl::StatusOr<TermResult>> results;
  for (size_t episode = 0; episode < responses.size(); ++episode) {
    absl::Status fault;
    std::vector<JudgeVerdict> of_episode;
    for (size_t i = episode * rubrics; i < (episode + 1) * rubrics; ++i) {
      if (verdicts[i].ok())
        of_episode.push_back(*verdicts[i]);
      else if (fault.ok())
        fault = verdicts[i].status();
    }
    const bool all_unsure = std::all_of(of_episode.begin(), of_episode.end(), [](const auto& v) { return v.unsure; });
    if (fault.ok() && all_unsure) fault = absl::FailedPreconditionError("the judge was unsure on every rubric");
    if (fault.ok()) {
      results.emplace_back(Combine(of_episode));
    } else {
      results.emplace_back(fault);
    }
  }
  return results;
}

}  // namespace ingot::reward
