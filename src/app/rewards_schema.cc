// `rewards`: the terms of the reward, each with its weight, schedule, domains and the options of its kind.
#include "app/role_schemas.h"

namespace ingot::app {
namespace {

void BindSchedule(base::Schema& schema, reward::TermSchedule& o) {
  schema.Field("schedule.from", &o.from, "share of the run's steps from which it counts, 0 to 1");
  schema.Field("schedule.until", &o.until, "share of the run's steps up to which it counts; 1: to the end");
  schema.Field("schedule.linear", &o.linear, "the weight falls linearly to 0 between `from` and `until`");
  schema.Field("schedule.phase_steps", &o.phase_steps, "versions of a phase; 0: there are no phases");
  schema.Field("schedule.phase", &o.phase, "0: it counts in even phases alone, 1: in odd ones, -1: in all");
}

void BindEffort(base::Schema& schema, reward::EffortOptions& o) {
  schema.Field("effort.k", &o.k, "effort: how early the penalty flattens, per thousand tokens");
  schema.Field("effort.q", &o.q, "effort: 0 is linear, 1 logarithmic");
  schema.Field("effort.thinking", &o.thinking, "effort: weight of thinking tokens");
  schema.Field("effort.tool_call", &o.tool_call, "effort: weight of tokens of tool calls");
  schema.Field("effort.tool_output", &o.tool_output, "effort: weight of tokens of tools' results");
  schema.Field("effort.final_text", &o.final_text, "effort: weight of tokens of other text");
  schema.Field("effort.call_weight", &o.call_weight, "effort: thousands of tokens that a tool call counts for");
  schema.Field("effort.turn_weight", &o.turn_weight, "effort: thousands of tokens that a turn counts for");
  schema.Field("effort.correct_above", &o.correct_above, "effort: an outcome above it is correct");
  schema.Choice("effort.charge_wrong", &o.charge_wrong, {"most", "own"},
                "effort: a wrong episode pays the group's largest cost, or its own");
}

void BindLengths(base::Schema& schema, reward::TermOptions& o) {
  schema.Field("length.correct_above", &o.length.correct_above, "length: an outcome above it is correct");
  schema.Field("overlong.max_tokens", &o.overlong.max_tokens, "overlong: an episode with more sampled tokens gets -1");
  schema.Field("overlong.soft_tokens", &o.overlong.soft_tokens, "overlong: tokens below it in which the penalty grows");
  schema.Field("completion_time.correct_above", &o.completion_time.correct_above,
               "completion_time: an outcome above it is correct");
  schema.Field("repetition.ngram", &o.repetition.ngram, "repetition: ids that count as one repeated phrase");
  schema.Field("repetition.allowed", &o.repetition.allowed, "repetition: share of repeats without a penalty");
  schema.Field("toggle.lambda", &o.toggle.lambda, "toggle: mean outcome of a group from which on the budget binds");
  schema.Field("toggle.rho", &o.toggle.rho, "toggle: percentile of the lengths of correct answers that is the budget");
  schema.Field("toggle.min_correct", &o.toggle.min_correct, "toggle: correct answers that the estimate needs");
  schema.Field("toggle.correct_above", &o.toggle.correct_above, "toggle: an outcome above it is correct");
}

void BindProcess(base::Schema& schema, reward::TermOptions& o) {
  schema.Field("language_mixing.language", &o.language_mixing.language,
               "language_mixing: ISO 639-1 code; empty: the scripts of the task's strings");
  schema.Field("language_mixing.allowed", &o.language_mixing.allowed,
               "language_mixing: share of foreign letters without a penalty");
  schema.Field("parl_parallel.cap", &o.parl_parallel.cap, "parl_parallel: sub-agents side by side that earn all of it");
  schema.Field("critical_steps.budget", &o.critical_steps.budget,
               "critical_steps: of tasks without a budget of their own; 0: they are errors");
  schema.Field("critical_steps.field", &o.critical_steps.field, "critical_steps: the task's field with its own budget");
}

void BindRetrieval(base::Schema& schema, reward::RetrievalOptions& o) {
  schema.Field("retrieval.beta", &o.beta, "retrieval: of F_beta in the first epoch");
  schema.Field("retrieval.beta_end", &o.beta_end, "retrieval: of F_beta in the last epoch");
  schema.Field("retrieval.epochs", &o.epochs, "retrieval: equal parts of the run; 1: beta throughout");
  schema.Field("retrieval.answer_bonus", &o.answer_bonus, "retrieval: for a returned chunk that holds the answer");
  schema.Field("retrieval.floor", &o.floor, "retrieval: penalties lead no lower than this");
  schema.Field("retrieval.relevant_field", &o.relevant_field, "retrieval: the task's field of relevant ids");
  schema.Field("retrieval.answer_field", &o.answer_field, "retrieval: the task's field of ids that hold the answer");
}

void BindServers(base::Schema& schema, reward::TermOptions& o) {
  schema.Field("judge.url", &o.judge.server.url,
               "judge: base URL of a server of OpenAI's chat completions; empty: judge.model is of gateway.models");
  schema.Field("judge.model", &o.judge.server.model, "judge: the model's name there");
  schema.Field("judge.key_file", &o.judge.server.key_file, "judge: file with the bearer key; empty: none is sent");
  schema.Field("judge.timeout_s", &o.judge.server.timeout_s, "judge: seconds of one request");
  schema.Field("judge.max_tokens", &o.judge.server.max_tokens, "judge: tokens of one answer");
  schema.Field("judge.rubrics", &o.judge.rubrics, "judge: one question each; the value is the mean of their scores");
  schema.Field("judge.question_field", &o.judge.question_field, "judge: the task's field with the question");
  schema.Field("judge.reference_field", &o.judge.reference_field,
               "judge: the task's field with the right answer; empty: the judge sees none");
  schema.Field("judge.concurrency", &o.judge.concurrency, "judge: requests at a time for one group");
  schema.Field("teacher.model", &o.teacher.model,
               "teacher: a model of gateway.models, pinned or external, with the policy's tokenizer");
  schema.Field("teacher.timeout_s", &o.teacher.timeout_s, "teacher: seconds of scoring one call");
  schema.Field("teacher.concurrency", &o.teacher.concurrency, "teacher: calls scored at a time for one group");
  schema.Field("external.url", &o.external.url, "external: the server that scores episodes");
  schema.Field("external.timeout_s", &o.external.timeout_s, "external: seconds of one request");
  schema.Field("external.tries", &o.external.tries, "external: requests for an episode while none is answered");
  schema.Field("external.concurrency", &o.external.concurrency, "external: requests at a time for one group");
}

void BindTerm(base::Schema& schema, reward::TermOptions& o) {
  schema.Choice("kind", &o.kind, reward::TermKinds(), "the formula; docs/rewards.md has a row for each");
  schema.Field("name", &o.name, "of the term in metrics and records; empty: its kind");
  schema.Field("weight", &o.weight, "factor of its values in the reward; may be negative");
  BindSchedule(schema, o.schedule);
  schema.Field("domains", &o.domains, "the tasks' domains in which it counts; empty: all");
  BindLengths(schema, o);
  BindEffort(schema, o.effort);
  BindProcess(schema, o);
  BindRetrieval(schema, o.retrieval);
  BindServers(schema, o);
}

}  // namespace

void BindRewards(base::Schema& schema, reward::RewardOptions& o) {
  schema.Field("rewards.deadline_s", &o.deadline_s, "seconds to judge a complete group; past it the group fails");
  schema.Field("rewards.concurrency", &o.concurrency, "groups that are judged at a time");
  schema.List<reward::TermOptions>("rewards.terms", &o.terms, BindTerm,
                                   "the reward is the weighted sum of their values; empty: the outcome alone");
}

}  // namespace ingot::app
