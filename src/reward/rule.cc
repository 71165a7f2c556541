#include "reward/rule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/cause.h"
#include "base/checksum.h"
#include "base/retry.h"
#include "base/utf8.h"
#include "reward/term_kinds.h"
#include "tree/episode_return.h"
#include "tree/reward_bounds.h"
#include "tree/roles.h"
#include "tree/token_advantages.h"

namespace ingot::reward {
namespace {

// Adds a term's result to the grade. Returns an error if a number cannot be a reward.
absl::Status AddTerm(const TermOptions& term, double weight, const TermResult& result, v1::Grade& grade) {
  v1::TermValue& value = *grade.add_terms();
  value.set_term(term.Name());
  value.set_weight(weight);
  value.set_value(result.value);
  value.set_detail(base::ToUtf8(result.detail));
  value.mutable_measures()->insert(result.measures.begin(), result.measures.end());
  if (const std::string fault = tree::RewardFault(result.value); !fault.empty()) {
    return absl::OutOfRangeError(absl::StrCat("its value ", fault));
  }
  grade.set_reward(grade.reward() + weight * result.value);
  for (const auto& [call, of_call] : result.calls) {
    if (const std::string fault = tree::RewardFault(of_call); !fault.empty()) {
      return absl::OutOfRangeError(absl::StrCat("its value for call ", call, " ", fault));
    }
    (*value.mutable_calls())[call] = of_call;
    (*grade.mutable_call_rewards())[call] += weight * of_call;
  }
  for (const auto& [call, values] : result.tokens) {
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      return absl::OutOfRangeError(
          absl::StrCat("it gives a token of call ", call, " a value that is not a finite number"));
    }
    (*value.mutable_tokens())[call].mutable_values()->Add(values.begin(), values.end());
  }
  return absl::OkStatus();
}

// Attributes the error to the term that contributes most to the sum.
absl::Status CheckSum(const v1::Grade& grade) {
  std::string fault = tree::RewardFault(grade.reward());
  for (const auto& [call, reward] : grade.call_rewards()) {
    if (fault.empty()) fault = tree::RewardFault(reward);
  }
  if (fault.empty()) return absl::OkStatus();
  const auto& greatest =
      *std::max_element(grade.terms().begin(), grade.terms().end(), [](const v1::TermValue& a, const v1::TermValue& b) {
        return std::abs(a.weight() * a.value()) < std::abs(b.weight() * b.value());
      });
  return base::WithCause(
      absl::OutOfRangeError(absl::StrCat("the sum of its terms, most of it by term '", greatest.term(), "', ", fault)),
      greatest.term());
}

// Returns the reward sums (returns) that the trainer compares within a group.
std::vector<double> ComparedReturns(const v1::Grade& grade, bool by_terms) {
  if (!by_terms) return {tree::ReturnOf(grade)};
  std::vector<double> returns;
  for (const v1::TermValue& term : grade.terms()) returns.push_back(tree::ReturnOf(term));
  return returns;
}

bool SameReturns(const GroupGrades& grades, bool by_terms) {
  std::vector<double> low = ComparedReturns(grades.grades.begin()->second, by_terms), high = low;
  for (const auto& [sample, grade] : grades.grades) {
    const std::vector<double> returns = ComparedReturns(grade, by_terms);
    if (returns.size() != low.size()) return false;
    for (size_t k = 0; k < returns.size(); ++k) {
      low[k] = std::min(low[k], returns[k]);
      high[k] = std::max(high[k], returns[k]);
    }
  }
  return std::equal(low.begin(), low.end(), high.begin(), tree::SameReturn);
}

bool HasEarned(const google::protobuf::Map<std::string, double>& calls, const std::string& call) {
  const auto earned = calls.find(call);
  return earned != calls.end() && earned->second != 0;
}

bool HasEarned(const v1::Grade& grade, const std::string& call, bool by_terms) {
  if (!by_terms) return HasEarned(grade.call_rewards(), call);
  return std::any_of(grade.terms().begin(), grade.terms().end(),
                     [&](const v1::TermValue& term) { return HasEarned(term.calls(), call); });
}

// The returns of one role across a group's samples.
struct RoleReturns {
  double low = 0, high = 0;
  int samples = 0;
  bool early = false;  // a call before the role's last call earned a reward
};

// Same as NothingToTrain, but for groups whose roles are compared separately.
bool NoRoleToTrain(const GroupGrades& grades, const v1::Group& group, const ReturnComparison& by) {
  std::map<std::string, RoleReturns> roles;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const auto grade = grades.grades.find(tree.episode().ref().sample_index());
    if (grade == grades.grades.end() || tree.episode().state() != v1::EPISODE_FINISHED) continue;
    for (const auto& [role, turns] : tree::TurnsByRole(tree)) {
      RoleReturns& of_role = roles[role];
      double earned = grade->second.reward();
      for (const int turn : turns) {
        const auto reward = grade->second.call_rewards().find(tree.calls(turn).call_id());
        if (reward == grade->second.call_rewards().end()) continue;
        earned += reward->second;
        of_role.early = of_role.early || (turn != turns.back() && reward->second != 0);
      }
      of_role.low = of_role.samples == 0 ? earned : std::min(of_role.low, earned);
      of_role.high = of_role.samples == 0 ? earned : std::max(of_role.high, earned);
      ++of_role.samples;
    }
  }
  return std::all_of(roles.begin(), roles.end(), [&](const auto& role) {
    const RoleReturns& of = role.second;
    if (of.samples < 2) return !by.lone_roles;
    return tree::SameReturn(of.low, of.high) && (by.credit != "reward_to_go" || !of.early);
  });
}

// Marks an error as caused by the term with this name.
absl::Status Blamed(const absl::Status& fault, const std::string& term) {
  return fault.ok() ? fault : base::WithCause(base::Annotate(fault, absl::StrCat("term '", term, "'")), term);
}

}  // namespace

absl::StatusOr<Rule> Rule::Make(const RewardOptions& options, std::string_view configuration, const TermParts& parts) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  Rule rule;
  std::vector<TermOptions> terms = options.terms;
  if (terms.empty()) terms.emplace_back();
  for (TermOptions& term : terms) {
    INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const RewardTerm> made, MakeTerm(term, parts));
    rule.terms_.push_back({std::move(term), std::move(made)});
  }
  rule.key_ = base::ContentKey(configuration);
  return rule;
}

bool Rule::uses_history() const {
  return std::any_of(terms_.begin(), terms_.end(), [](const WeightedTerm& term) { return term.term->uses_history(); });
}

bool Rule::LacksMeasures(const GroupFacts& group) const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const WeightedTerm& term) {
    return term.term->uses_history() && WeightOf(term, group) != 0 && !group.history.contains(term.options.Name());
  });
}

double Rule::WeightOf(const WeightedTerm& term, const GroupFacts& group) const {
  const std::vector<std::string>& domains = term.options.domains;
  if (!domains.empty() && std::find(domains.begin(), domains.end(), group.domain()) == domains.end()) return 0;
  return term.options.weight * term.options.schedule.At(group.version, group.total_steps);
}

absl::StatusOr<GroupGrades> Rule::Apply(const GroupFacts& group) const {
  std::vector<v1::Grade> grades(group.episodes.size());
  std::vector<absl::Status> faults(group.episodes.size());
  for (const WeightedTerm& term : terms_) {
    const double weight = WeightOf(term, group);
    if (weight == 0) continue;
    const auto results = term.term->Judge(group);
    if (!results.ok()) return Blamed(results.status(), term.options.Name());
    for (size_t i = 0; i < grades.size(); ++i) {
      const absl::StatusOr<TermResult>& result = results->at(i);
      const absl::Status added = Blamed(
          result.ok() ? AddTerm(term.options, weight, *result, grades[i]) : result.status(), term.options.Name());
      if (base::MayAnswerLater(added)) return added;  // nothing is decided yet
      if (faults[i].ok()) faults[i] = added;
    }
  }
  GroupGrades out;
  for (size_t i = 0; i < grades.size(); ++i) {
    const int32_t sample = group.episodes[i].record().ref().sample_index();
    if (faults[i].ok()) faults[i] = CheckSum(grades[i]);
    if (!faults[i].ok()) {
      out.ungraded[sample] = base::ToUtf8(std::string(faults[i].message()));
      if (out.failed_term.empty()) out.failed_term = base::CauseOf(faults[i]);
      continue;
    }
    grades[i].set_rule(key_);
    out.grades[sample] = std::move(grades[i]);
  }
  return out;
}

bool NothingToTrain(const GroupGrades& grades, const v1::Group& group, const ReturnComparison& by) {
  if (grades.grades.size() < 2) return false;
  for (const auto& [sample, grade] : grades.grades) {
    if (tree::HasTokenAdvantages(grade)) return false;
  }
  if (by.by_role) return NoRoleToTrain(grades, group, by);
  if (!SameReturns(grades, by.by_terms)) return false;
  if (by.credit != "reward_to_go") return true;
  // A call's credit is the reward earned starting with it: the return minus the rewards from earlier calls.
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const auto grade = grades.grades.find(tree.episode().ref().sample_index());
    if (grade == grades.grades.end()) continue;
    for (int i = 0; i + 1 < tree.calls_size(); ++i) {
      if (HasEarned(grade->second, tree.calls(i).call_id(), by.by_terms)) return false;
    }
  }
  return true;
}

}  // namespace ingot::reward
