#include "reward/terms/teacher.h"

#include <utility>

#include "base/config.h"
#include "reward/parallel.h"
#include "tree/forest.h"

namespace ingot::reward {
namespace {

bool IsTrained(const CallFacts& call) {
  const v1::SamplingParams& sampling = call.record->sampling();
  return call.policy && !call.record->encoded() && call.sampled_tokens > 0 && !sampling.penalty_acted() &&
         !sampling.bias_acted() && !sampling.grammar_acted();
}

struct ScoredCall {
  size_t episode = 0;
  tree::CallPath path;
  absl::StatusOr<std::vector<float>> teacher = absl::UnknownError("not scored");
};

// Returns every call in the group that the teacher scores.
absl::StatusOr<std::vector<ScoredCall>> CallsOf(const GroupFacts& group) {
  std::vector<ScoredCall> calls;
  for (size_t e = 0; e < group.episodes.size(); ++e) {
    const EpisodeFacts& episode = group.episodes[e];
    INGOT_ASSIGN_OR_RETURN(std::vector<tree::CallPath> paths, tree::CallPathsOf(*episode.tree, 0, 0));
    for (size_t c = 0; c < episode.calls.size(); ++c) {
      if (IsTrained(episode.calls[c])) calls.push_back({e, std::move(paths[c])});
    }
  }
  return calls;
}

// Adds one call's values.
absl::Status AddCall(const ScoredCall& call, TermResult& result) {
  INGOT_RETURN_IF_ERROR(base::Annotate(call.teacher.status(), absl::StrCat("call ", call.path.call_id)));
  const std::vector<float>& teacher = *call.teacher;
  if (teacher.size() != call.path.sampled.size()) {
    return absl::InternalError(absl::StrCat("call ", call.path.call_id, ": the teacher scored ", teacher.size(), " of ",
                                            call.path.sampled.size(), " ids"));
  }
  std::vector<float>& values = result.tokens[call.path.call_id];
  for (size_t t = 0; t < teacher.size(); ++t) {
    values.push_back(teacher[t] - call.path.logprobs[t]);
    result.measures["reverse_kl"] -= values.back();
  }
  result.measures["tokens"] += static_cast<double>(teacher.size());
  return absl::OkStatus();
}

}  // namespace

absl::Status TeacherOptions::Validate() const {
  if (!model.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("teacher.model is empty: set it to a model in gateway.models");
}

void Bind(base::Schema& schema, TeacherOptions& o) {
  schema.Field("model", &o.model, "model in gateway.models, pinned or external, that has the policy's tokenizer");
  schema.Field("timeout_s", &o.timeout_s, "timeout for scoring one call, in seconds", base::LeftOpen(0, 86400));
  schema.Field("concurrency", &o.concurrency, "maximum number of calls scored concurrently per group",
               base::AtLeast(1));
}

absl::Status TeacherTerm::CheckTokenizer(const GroupFacts& group) const {
  INGOT_ASSIGN_OR_RETURN(const std::string teacher, model_->Tokenizer(options_.model));
  for (const EpisodeFacts& episode : group.episodes) {
    for (const CallFacts& call : episode.calls) {
      const std::string& own = call.record->tokenizer_fingerprint();
      if (!call.policy || own == teacher) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the teacher '", options_.model, "' has the tokenizer ", teacher.empty() ? "(unknown)" : teacher,
                       ", but call ", call.id(), " of the policy has ", own,
                       ": the ids do not match; choose a teacher with the policy's tokenizer"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> TeacherTerm::Judge(const GroupFacts& group) const {
  if (model_ == nullptr) return absl::FailedPreconditionError("this process has no engines for a teacher");
  INGOT_RETURN_IF_ERROR(CheckTokenizer(group));
  INGOT_ASSIGN_OR_RETURN(std::vector<ScoredCall> calls, CallsOf(group));
  ForEach(calls.size(), options_.concurrency, [&](size_t i) {
    ScoredCall& call = calls[i];
    call.teacher = model_->Score({.model = options_.model,
                                  .ids = call.path.Tokens(),
                                  .sampled = static_cast<int32_t>(call.path.sampled.size()),
                                  .temperature = call.path.temperature,
                                  .timeout_s = options_.timeout_s});
  });
  std::vector<absl::StatusOr<TermResult>> results(group.episodes.size(), TermResult());
  for (const ScoredCall& call : calls) {
    absl::StatusOr<TermResult>& result = results[call.episode];
    if (!result.ok()) continue;
    if (const absl::Status added = AddCall(call, *result); !added.ok()) result = added;
  }
  for (absl::StatusOr<TermResult>& result : results) {
    if (result.ok() && result->measures["tokens"] > 0) result->measures["reverse_kl"] /= result->measures["tokens"];
  }
  return results;
}

}  // namespace ingot::reward
