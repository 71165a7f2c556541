// `ingot regrade`: scores a run's stored groups again with other reward terms, without a new rollout. Writes nothing.
#include "app/commands/data/regrade.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "app/cluster/role_addresses.h"
#include "app/record/stored_groups.h"
#include "app/record/stored_run.h"
#include "app/roles/assembly.h"
#include "app/run/named_models.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "app/terminal/terminal.h"
#include "app/training/grading.h"
#include "base/json.h"
#include "reward/history.h"
#include "reward/rule.h"
#include "reward/terms/judge.h"
#include "reward/terms/teacher.h"
#include "trainer/advantages/advantage.h"
#include "tree/episode_return.h"
#include "tree/roles.h"

namespace ingot::app {
namespace {

// A group as recorded in the journal.
struct JournalledGroup {
  int64_t admitted_version = 0;
  int64_t step = -1;  // its batch's step; for a dropped group, the next batch's step
};

struct Journal {
  std::map<int64_t, JournalledGroup> groups;  // those that ended with a reward
  std::vector<int64_t> rewarded;              // groups in the order in which they were rewarded
  int64_t steps = 0;
};

absl::StatusOr<Journal> ReadJournal(datapool::Client& pool) {
  Journal journal;
  std::map<int64_t, int64_t> admitted;  // version by group
  for (datapool::JournalPages pages(pool); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pages.Next());
    for (const v1::JournalRecord& record : page.records()) {
      if (record.has_admitted()) admitted[record.admitted().group_id()] = record.admitted().admitted_version();
      if (record.has_rewarded()) journal.rewarded.push_back(record.rewarded().group_id());
      if (record.has_begun()) journal.steps = record.begun().step();
      if (record.has_closed() && record.closed().outcome() == v1::GROUP_DROPPED) {
        const int64_t id = record.closed().group_id();
        journal.groups[id] = {admitted[id], journal.steps};
      }
      if (!record.has_batch()) continue;
      for (const int64_t id : record.batch().group_ids()) journal.groups[id] = {admitted[id], record.batch().step()};
      journal.steps = record.batch().step() + 1;
    }
  }
  return journal;
}

struct Mean {
  double sum = 0;
  int64_t count = 0;
  void Add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

// Totals for one step or for all steps.
struct Comparison {
  Mean before, after;
  int64_t groups = 0;
  std::set<int64_t> turned;  // groups where an episode's advantage changes sign
  int64_t now_equal = 0;     // groups that would have nothing to train on
  int64_t now_useful = 0;    // groups that had nothing to train on
  int64_t ungraded = 0;      // episodes that the terms cannot judge
  std::map<std::string, Mean> terms;
  std::map<std::string, Mean> reverse_kl;  // teachers: nats per token
};

int SignOf(double value) { return value > 1e-9 ? 1 : value < -1e-9 ? -1 : 0; }

// The owner of a return: a sample, or one role in a sample (trainer.advantage_groups).
using Owner = std::pair<std::string, int32_t>;  // role and sample; the role "" also stands for a whole sample
using Returns = std::map<Owner, double>;

// Returns the signs of the returns relative to their role's mean.
std::map<Owner, int> SignsOf(const Returns& returns) {
  std::map<std::string, Mean> means;
  for (const auto& [owner, value] : returns) means[owner.first].Add(value);
  std::map<Owner, int> signs;
  for (const auto& [owner, value] : returns) signs[owner] = SignOf(value - means.at(owner.first).value());
  return signs;
}

// Returns the signs of the episodes' advantages if the trainer compares each term separately.
std::map<Owner, int> SignsByTerms(const std::map<int32_t, v1::Grade>& grades) {
  std::vector<trainer::EpisodeReturn> group;
  for (const auto& [sample, grade] : grades) {
    trainer::EpisodeReturn& episode = group.emplace_back();
    episode.credits = {0};
    for (const v1::TermValue& term : grade.terms()) {
      const double value = tree::ReturnOf(term);
      episode.terms.push_back({term.weight(), value, {value}});
    }
  }
  const trainer::AdvantageRule rule{.baseline = "mean", .normalization = "terms"};
  const trainer::GroupAdvantages advantages = trainer::Advantages({group}, rule).front();
  std::map<Owner, int> signs;
  for (auto turns = advantages.turns.begin(); const auto& [sample, grade] : grades) {
    signs[{"", sample}] = SignOf((turns++)->front());
  }
  return signs;
}

// Returns a group's stored grades. Without grades, the posted reward is the only term.
std::map<int32_t, v1::Grade> GradesOf(const v1::Group& group) {
  std::map<int32_t, v1::Grade> stored, posted;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    if (episode.state() != v1::EPISODE_FINISHED) continue;
    const int32_t sample = episode.ref().sample_index();
    if (episode.has_grade()) stored[sample] = episode.grade();
    v1::TermValue& outcome = *posted[sample].add_terms();
    outcome.set_weight(1);
    outcome.set_value(tree::ReturnOf(episode));
  }
  return stored.empty() ? posted : stored;
}

bool AllZero(const std::map<Owner, int>& signs) {
  return std::all_of(signs.begin(), signs.end(), [](const auto& sign) { return sign.second == 0; });
}

// Adds an episode's returns. `reward` is the episode's own, and `of_calls` has its calls' rewards.
void AddReturns(const v1::EpisodeTree& tree, bool by_role, double reward,
                const google::protobuf::Map<std::string, double>& of_calls, Returns& out) {
  const int32_t sample = tree.episode().ref().sample_index();
  if (!by_role) {
    for (const auto& [call, earned] : of_calls) reward += earned;
    out[{"", sample}] = reward;
    return;
  }
  for (const auto& [role, turns] : tree::TurnsByRole(tree)) {
    double& sum = out[{role, sample}] = reward;
    for (const int turn : turns) {
      const auto earned = of_calls.find(tree.calls(turn).call_id());
      if (earned != of_calls.end()) sum += earned->second;
    }
  }
}

// `by` is how the trainer compares the episodes.
void Compare(const v1::Group& group, const reward::GroupGrades& regraded, const trainer::TrainerOptions& by,
             Comparison& out) {
  Returns before, after;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    if (episode.state() != v1::EPISODE_FINISHED) continue;
    AddReturns(tree, by.by_role(), tree::RewardOf(episode), tree::CallRewardsOf(episode), before);
    out.before.Add(tree::ReturnOf(episode));
    const auto grade = regraded.grades.find(episode.ref().sample_index());
    if (grade == regraded.grades.end()) continue;
    AddReturns(tree, by.by_role(), grade->second.reward(), grade->second.call_rewards(), after);
    out.after.Add(tree::ReturnOf(grade->second));
  }
  for (const auto& [sample, grade] : regraded.grades) {
    for (const v1::TermValue& term : grade.terms()) {
      out.terms[term.term()].Add(tree::ValueOf(term));
      const auto kl = term.measures().find("reverse_kl"), tokens = term.measures().find("tokens");
      if (kl == term.measures().end() || tokens == term.measures().end()) continue;
      Mean& per_token = out.reverse_kl[term.term()];
      per_token.sum += kl->second;
      per_token.count += static_cast<int64_t>(tokens->second);
    }
  }
  const auto signs_before = by.by_terms() ? SignsByTerms(GradesOf(group)) : SignsOf(before);
  const auto signs_after = by.by_terms() ? SignsByTerms(regraded.grades) : SignsOf(after);
  ++out.groups;
  out.ungraded += std::ssize(regraded.ungraded);
  const bool turned = std::any_of(signs_after.begin(), signs_after.end(), [&](const auto& sign) {
    const auto old = signs_before.find(sign.first);
    return old != signs_before.end() && old->second != sign.second;
  });
  if (turned) out.turned.insert(group.group_id());
  out.now_equal += !AllZero(signs_before) && AllZero(signs_after);
  out.now_useful += AllZero(signs_before) && !AllZero(signs_after);
}

base::json::object ToJson(const Comparison& of) {
  base::json::object fields;
  fields["reward"] = of.before.value();
  fields["regraded"] = of.after.value();
  fields["groups"] = of.groups;
  fields["groups_that_change_sign"] = std::ssize(of.turned);
  fields["changed_groups"] = base::json::array(of.turned.begin(), of.turned.end());
  fields["groups_now_equal"] = of.now_equal;
  fields["groups_now_useful"] = of.now_useful;
  fields["episodes_ungraded"] = of.ungraded;
  base::json::object terms;
  for (const auto& [name, mean] : of.terms) terms[name] = mean.value();
  fields["terms"] = std::move(terms);
  base::json::object teachers;
  for (const auto& [name, mean] : of.reverse_kl) teachers[name] = mean.value();
  if (!teachers.empty()) fields["reverse_kl"] = std::move(teachers);
  return fields;
}

struct RegradeResult {
  std::map<int64_t, Comparison> steps;
  Comparison all;
  int64_t trimmed = 0;         // groups that are missing from the pool
  std::string first_ungraded;  // the reason
};

// Returns a list of the first 20 groups.
std::string FirstOf(const std::set<int64_t>& groups) {
  constexpr int64_t kPrinted = 20;
  const int64_t printed = std::min(kPrinted, std::ssize(groups));
  std::string text = absl::StrJoin(groups.begin(), std::next(groups.begin(), printed), ", ");
  if (printed < std::ssize(groups)) absl::StrAppend(&text, " and ", std::ssize(groups) - printed, " more (--json)");
  return text;
}

void Print(const RegradeResult& regraded) {
  const Comparison& all = regraded.all;
  std::printf("%8s %10s %10s %8s %12s\n", "step", "reward", "regraded", "groups", "change sign");
  std::vector<double> before, after;
  for (const auto& [step, of] : regraded.steps) {
    std::printf("%8ld %10.4f %10.4f %8ld %12ld\n", static_cast<long>(step), of.before.value(), of.after.value(),
                static_cast<long>(of.groups), static_cast<long>(of.turned.size()));
    before.push_back(of.before.value());
    after.push_back(of.after.value());
  }
  std::printf("reward by step   %s  %.3f -> %.3f\n", Sparkline(before).c_str(), before.front(), before.back());
  std::printf("regraded         %s  %.3f -> %.3f\n", Sparkline(after).c_str(), after.front(), after.back());
  for (const auto& [name, mean] : all.terms) {
    std::printf("term %-20s mean %.4f over %ld episodes\n", name.c_str(), mean.value(), static_cast<long>(mean.count));
  }
  for (const auto& [name, mean] : all.reverse_kl) {
    std::printf("term %-20s reverse KL %.4f nats a token over %ld tokens\n", name.c_str(), mean.value(),
                static_cast<long>(mean.count));
  }
  std::printf(
      "%ld groups: %ld change the sign of an episode's advantage, %ld lose their training signal, %ld gain one\n",
      static_cast<long>(all.groups), static_cast<long>(all.turned.size()), static_cast<long>(all.now_equal),
      static_cast<long>(all.now_useful));
  if (!all.turned.empty()) {
    std::printf("groups that change sign: %s\n", FirstOf(all.turned).c_str());
  }
  if (all.ungraded > 0) {
    std::printf("%ld episodes could not be scored, for example: %s\n", static_cast<long>(all.ungraded),
                regraded.first_ungraded.c_str());
  }
  if (regraded.trimmed > 0) {
    std::printf("%ld groups are no longer in the pool (datapool.keep_steps)\n", static_cast<long>(regraded.trimmed));
  }
}

void PrintAsJson(const RegradeResult& regraded) {
  base::json::object out = ToJson(regraded.all);
  base::json::array curve;
  for (const auto& [step, of] : regraded.steps) {
    base::json::object fields = ToJson(of);
    fields["step"] = step;
    curve.push_back(std::move(fields));
  }
  out["steps"] = std::move(curve);
  out["groups_trimmed"] = regraded.trimmed;
  std::printf("%s\n", base::PrintJson(out).c_str());
}

// External teachers and judges in gateway.models can be called at their addresses. Pinned versions cannot be used
// because no engine is running.
absl::Status CheckReachable(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(CheckAskedModels(config.rewards, config.gateway));
  for (const reward::TermOptions& term : config.rewards.terms) {
    const reward::JudgeServer& judge = term.Of<reward::JudgeOptions>().server;
    const std::string& name = term.kind == "teacher" ? term.Of<reward::TeacherOptions>().model : judge.model;
    if (term.kind != "teacher" && (term.kind != "judge" || !judge.url.empty())) continue;
    if (FindModel(config.gateway, name)->weights != gateway::ModelWeights::kPinned) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rewards.terms (", term.Name(), "): '", name,
        "' is a pinned version, but regrade starts no engine: serve the version's ",
        "weights (`ingot serve MODEL_DIR --rollout-port PORT --token-file FILE`), and configure them as external with "
        "--set ",
        "'gateway.models=[{name: ", name, ", weights: external, address: \"127.0.0.1:PORT\", token_file: FILE}]'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<reward::Rule> RuleOf(const StoredRun& run) {
  const RunConfig& config = run.config();
  RoleClients clients;
  if (AsksModels(config.rewards)) {
    INGOT_RETURN_IF_ERROR(CheckReachable(config));
    INGOT_ASSIGN_OR_RETURN(clients.external, ConnectExternalModels(config.gateway, config.cluster.allow_plaintext));
  }
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts terms, MakeTermParts(config, clients, [&] { return run.Text(); }));
  return MakeRule(config.rewards, terms);
}

// The groups to score again.
struct Work {
  v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN;
  std::map<int64_t, JournalledGroup> groups;
  std::vector<int64_t> order;  // `groups` in the order they were judged
  int64_t total_steps = 0;     // the run's
  std::set<std::string> other_models;
};

absl::StatusOr<Work> WorkOf(const StoredRun& run) {
  Work work;
  work.total_steps = run.config().scheduler.total_steps;
  work.other_models = OtherModels(run.config().gateway);
  INGOT_ASSIGN_OR_RETURN(Journal journal, ReadJournal(*run.pool));
  if (journal.groups.empty()) {  // a collection, where nothing was trained
    INGOT_ASSIGN_OR_RETURN(StoredGroupIds stored, ListGroups(*run.pool));
    work.purpose = stored.purpose;
    for (const int64_t id : stored.ids) work.groups[id] = {.admitted_version = 0, .step = 0};
    work.order = std::move(stored.ids);
    return work;
  }
  std::set<int64_t> left;
  for (const auto& [id, group] : journal.groups) left.insert(id);
  for (const int64_t id : journal.rewarded) {
    if (left.erase(id) > 0) work.order.push_back(id);
  }
  work.order.insert(work.order.end(), left.begin(), left.end());
  work.groups = std::move(journal.groups);
  return work;
}

// If this rule judged a group in the run, the group uses the measures in its stored grades. So an estimate stays as it
// was in the run, and later estimates do not count. For other groups, the rule makes its own estimates in group order.
absl::StatusOr<RegradeResult> RegradeGroups(datapool::Client& pool, const reward::Rule& rule, const Work& work,
                                            const trainer::TrainerOptions& by, Progress& progress) {
  RegradeResult out;
  reward::TaskHistory history;
  int64_t looked_at = 0;
  for (const int64_t id : work.order) {
    progress.Show("groups", looked_at++, std::ssize(work.order));
    INGOT_ASSIGN_OR_RETURN(const std::optional<v1::Group> group, FindGroup(pool, work.purpose, id));
    if (!group.has_value()) {
      ++out.trimmed;
      continue;
    }
    const JournalledGroup& of = work.groups.at(id);
    INGOT_ASSIGN_OR_RETURN(reward::GroupFacts facts,
                           reward::FactsOf(*group, of.admitted_version, work.total_steps, work.other_models));
    facts.history = reward::MeasuresOf(*group, rule.key()).value_or(history.Of(group->task().task_id()));
    absl::StatusOr<reward::GroupGrades> grades = rule.Apply(facts);
    if (absl::IsDeadlineExceeded(grades.status())) {  // no retries here
      const std::string late(grades.status().message());
      grades = reward::GroupGrades();
      for (const auto& episode : facts.episodes) grades->ungraded[episode.record().ref().sample_index()] = late;
    }
    if (!grades.ok()) return base::Annotate(grades.status(), absl::StrCat("group ", id));
    for (const auto& [sample, grade] : grades->grades) history.Add(group->task().task_id(), grade);
    if (out.first_ungraded.empty() && !grades->ungraded.empty()) out.first_ungraded = grades->ungraded.begin()->second;
    Compare(*group, *grades, by, out.steps[of.step]);
    Compare(*group, *grades, by, out.all);
  }
  return out;
}

absl::StatusOr<int> RegradeOrError(const RegradeArgs& args) {
  Progress progress("regrade");
  progress.Show("reading the run");
  INGOT_ASSIGN_OR_RETURN(const StoredRun run, OpenStoredRun(args.run_dir, args.overrides));
  const RunConfig& config = run.config();
  INGOT_ASSIGN_OR_RETURN(const reward::Rule rule, RuleOf(run));
  INGOT_ASSIGN_OR_RETURN(const Work work, WorkOf(run));
  INGOT_ASSIGN_OR_RETURN(const RegradeResult regraded, RegradeGroups(*run.pool, rule, work, config.trainer, progress));
  progress.Clear();
  if (regraded.all.groups == 0) {
    return absl::NotFoundError(absl::StrCat("'", args.run_dir, "' contains no group with a reward to score again (",
                                            regraded.trimmed, " are no longer in the pool)"));
  }
  if (args.json) {
    PrintAsJson(regraded);
  } else {
    Print(regraded);
  }
  return 0;
}

}  // namespace

int Regrade(const RegradeArgs& args) {
  const absl::StatusOr<int> code = RegradeOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
