// `rewards`: the reward terms. Each has a weight, a schedule, domains and the options of its kind.
#include <utility>

#include "app/run/role_schemas.h"

namespace ingot::app {
namespace {

void BindSchedule(base::Schema& schema, reward::TermSchedule& o) {
  schema.Field("schedule.from", &o.from, "share of the run's steps from which it counts, 0 to 1");
  schema.Field("schedule.until", &o.until, "share of the run's steps up to which it counts; 1: to the end");
  schema.Field("schedule.linear", &o.linear, "the weight falls linearly to 0 between `from` and `until`");
  schema.Field("schedule.phase_steps", &o.phase_steps, "versions per phase; 0: no phases");
  schema.Field("schedule.phase", &o.phase, "0: it counts only in even phases, 1: only in odd ones, -1: in all");
}

// Binds the options of one kind. Their keys are in the section with its name, which no term of another kind may set.
class KindOptions {
 public:
  KindOptions(base::Schema& schema, const reward::TermOptions& term, std::string kind)
      : schema_(schema), kind_(std::move(kind)) {
    schema_.Guard(kind_, [&term, own = kind_]() -> std::string {
      if (term.kind == own) return "";
      return absl::StrCat("it is an option of terms of kind ", own, ", and this one is of kind ", term.kind);
    });
  }
  template <typename T>
  void Field(const std::string& key, T* field, const std::string& doc) {
    schema_.Field(absl::StrCat(kind_, ".", key), field, absl::StrCat(kind_, ": ", doc));
  }
  void Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
              const std::string& doc) {
    schema_.Choice(absl::StrCat(kind_, ".", key), field, names, absl::StrCat(kind_, ": ", doc));
  }

 private:
  base::Schema& schema_;
  const std::string kind_;
};

void BindLength(KindOptions& options, reward::LengthOptions& o) {
  options.Field("correct_above", &o.correct_above, "an outcome above it is correct");
}

void BindEffort(KindOptions& options, reward::EffortOptions& o) {
  options.Field("k", &o.k, "how early the penalty flattens, per thousand tokens");
  options.Field("q", &o.q, "0 is linear, 1 logarithmic");
  options.Field("thinking", &o.thinking, "weight of thinking tokens");
  options.Field("tool_call", &o.tool_call, "weight of tokens of tool calls");
  options.Field("tool_output", &o.tool_output, "weight of tokens of tools' results");
  options.Field("final_text", &o.final_text, "weight of tokens of other text");
  options.Field("call_weight", &o.call_weight, "thousands of tokens that a tool call counts for");
  options.Field("turn_weight", &o.turn_weight, "thousands of tokens that a turn counts for");
  options.Field("correct_above", &o.correct_above, "an outcome above it is correct");
  options.Choice("charge_wrong", &o.charge_wrong, {"most", "own"},
                 "a wrong episode pays the group's largest cost, or its own");
}

void BindOverlong(KindOptions& options, reward::OverlongOptions& o) {
  options.Field("max_tokens", &o.max_tokens, "an episode with more sampled tokens gets -1");
  options.Field("soft_tokens", &o.soft_tokens, "tokens below it in which the penalty grows");
}

void BindCompletionTime(KindOptions& options, reward::CompletionTimeOptions& o) {
  options.Field("correct_above", &o.correct_above, "an outcome above it is correct");
}

void BindRepetition(KindOptions& options, reward::RepetitionOptions& o) {
  options.Field("ngram", &o.ngram, "ids that count as one repeated phrase");
  options.Field("allowed", &o.allowed, "share of repeats without a penalty");
}

void BindLanguageMixing(KindOptions& options, reward::LanguageMixingOptions& o) {
  options.Field("language", &o.language, "ISO 639-1 code; empty: the scripts of the task's strings");
  options.Field("allowed", &o.allowed, "share of foreign letters without a penalty");
}

void BindToggle(KindOptions& options, reward::ToggleOptions& o) {
  options.Field("lambda", &o.lambda, "mean outcome of a group from which on the budget binds");
  options.Field("rho", &o.rho, "percentile of the lengths of correct answers that is the budget");
  options.Field("min_correct", &o.min_correct, "correct answers that the estimate needs");
  options.Field("correct_above", &o.correct_above, "an outcome above it is correct");
}

void BindParlParallel(KindOptions& options, reward::ParlParallelOptions& o) {
  options.Field("cap", &o.cap, "parallel sub-agents that earn the full reward");
}

void BindCriticalSteps(KindOptions& options, reward::CriticalStepsOptions& o) {
  options.Field("budget", &o.budget, "budget of tasks that do not set one; 0: such tasks are errors");
  options.Field("field", &o.field, "the task's field with its own budget");
}

void BindRetrieval(KindOptions& options, reward::RetrievalOptions& o) {
  options.Field("beta", &o.beta, "of F_beta in the first epoch");
  options.Field("beta_end", &o.beta_end, "of F_beta in the last epoch");
  options.Field("epochs", &o.epochs, "equal parts of the run; 1: beta throughout");
  options.Field("answer_bonus", &o.answer_bonus, "for a returned chunk that holds the answer");
  options.Field("floor", &o.floor, "penalties never lower the value below this");
  options.Field("relevant_field", &o.relevant_field, "the task's field of relevant ids");
  options.Field("answer_field", &o.answer_field, "the task's field of ids that hold the answer");
}

void BindJudge(KindOptions& options, reward::JudgeOptions& o) {
  options.Field("url", &o.server.url,
                "base URL of a server of OpenAI's chat completions; empty: judge.model is of gateway.models");
  options.Field("model", &o.server.model, "the model's name there");
  options.Field("key_file", &o.server.key_file, "file with the bearer key; empty: none is sent");
  options.Field("timeout_s", &o.server.timeout_s, "seconds of one request");
  options.Field("max_tokens", &o.server.max_tokens, "tokens of one answer");
  options.Field("rubrics", &o.rubrics, "one question each; the value is the mean of their scores");
  options.Field("question_field", &o.question_field, "the task's field with the question");
  options.Field("reference_field", &o.reference_field,
                "the task's field with the right answer; empty: the judge sees none");
  options.Field("concurrency", &o.concurrency, "requests at a time for one group");
}

void BindExternal(KindOptions& options, reward::ExternalOptions& o) {
  options.Field("url", &o.url, "the server that scores episodes");
  options.Field("group", &o.group, "one request for all episodes of a group; it answers a list of scores");
  options.Field("timeout_s", &o.timeout_s, "seconds of one request");
  options.Field("tries", &o.tries, "requests for an episode, or a group, while none is answered");
  options.Field("concurrency", &o.concurrency, "requests at a time for one group");
}

void BindTeacher(KindOptions& options, reward::TeacherOptions& o) {
  options.Field("model", &o.model, "a model of gateway.models, pinned or external, with the policy's tokenizer");
  options.Field("timeout_s", &o.timeout_s, "seconds of scoring one call");
  options.Field("concurrency", &o.concurrency, "calls scored at a time for one group");
}

template <typename Options>
void BindKind(base::Schema& schema, reward::TermOptions& term, const char* kind, Options reward::TermOptions::* own,
              void (*bind)(KindOptions&, Options&)) {
  KindOptions options(schema, term, kind);
  bind(options, term.*own);
}

void BindTerm(base::Schema& schema, reward::TermOptions& o) {
  using Term = reward::TermOptions;
  schema.Choice("kind", &o.kind, reward::TermKinds(), "the formula; docs/guide/rewards.md has a row for each");
  schema.Field("name", &o.name, "of the term in metrics and records; empty: its kind");
  schema.Field("weight", &o.weight, "factor of its values in the reward; may be negative");
  BindSchedule(schema, o.schedule);
  schema.Field("domains", &o.domains, "the tasks' domains in which it counts; empty: all");
  // Every kind that has options.
  BindKind(schema, o, "length", &Term::length, BindLength);
  BindKind(schema, o, "effort", &Term::effort, BindEffort);
  BindKind(schema, o, "overlong", &Term::overlong, BindOverlong);
  BindKind(schema, o, "completion_time", &Term::completion_time, BindCompletionTime);
  BindKind(schema, o, "repetition", &Term::repetition, BindRepetition);
  BindKind(schema, o, "language_mixing", &Term::language_mixing, BindLanguageMixing);
  BindKind(schema, o, "toggle", &Term::toggle, BindToggle);
  BindKind(schema, o, "parl_parallel", &Term::parl_parallel, BindParlParallel);
  BindKind(schema, o, "critical_steps", &Term::critical_steps, BindCriticalSteps);
  BindKind(schema, o, "retrieval", &Term::retrieval, BindRetrieval);
  BindKind(schema, o, "judge", &Term::judge, BindJudge);
  BindKind(schema, o, "external", &Term::external, BindExternal);
  BindKind(schema, o, "teacher", &Term::teacher, BindTeacher);
}

}  // namespace

void BindRewards(base::Schema& schema, reward::RewardOptions& o) {
  schema.Field("rewards.deadline_s", &o.deadline_s, "seconds to judge a complete group; past it the group fails");
  schema.Field("rewards.concurrency", &o.concurrency, "groups that are judged at a time");
  schema.Field("rewards.give_up_groups", &o.give_up_groups,
               "groups in a row that a term could not judge, after which the run ends with the reason; 0: never");
  schema.List<reward::TermOptions>("rewards.terms", &o.terms, BindTerm,
                                   "the reward is the weighted sum of their values; empty: only the outcome");
}

}  // namespace ingot::app
