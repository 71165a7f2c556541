#include "reward/terms/retrieval.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/config.h"
#include "reward/task_field.h"

namespace ingot::reward {
namespace {

using base::json::value;
using Ids = std::set<std::string>;

constexpr int kFreePrunes = 3;  // in a row
constexpr double kPruneCost = 0.1, kMaxPruneCost = 0.5;
constexpr double kFreeTurns = 64, kMaxTurns = 128, kMaxTurnCost = 0.5;

// Returns nullopt if `list` is not a list of ids. Ids are strings or whole numbers.
std::optional<Ids> IdsIn(const value& list) {
  if (!list.is_array()) return std::nullopt;
  Ids ids;
  for (const value& id : list.get_array()) {
    if (!id.is_string() && !id.is_int64()) return std::nullopt;
    ids.insert(id.is_string() ? std::string(id.get_string()) : std::to_string(id.get_int64()));
  }
  return ids;
}

absl::StatusOr<std::optional<Ids>> TaskIds(const v1::Task& task, const std::string& field) {
  INGOT_ASSIGN_OR_RETURN(const auto list, TaskField(task, field));
  if (!list.has_value()) return std::nullopt;
  std::optional<Ids> ids = IdsIn(*list);
  if (ids.has_value()) return ids;
  return absl::FailedPreconditionError(
      absl::StrCat("field '", field, "' of task '", task.task_id(), "' is not a list of ids"));
}

absl::StatusOr<std::optional<Ids>> PostedIds(const EpisodeFacts& episode, const std::string& name) {
  INGOT_ASSIGN_OR_RETURN(const auto list, episode.Fact(name));
  if (!list.has_value()) return std::nullopt;
  std::optional<Ids> ids = IdsIn(*list);
  if (ids.has_value()) return ids;
  return absl::InvalidArgumentError(absl::StrCat("fact '", name, "' is not a list of ids"));
}

// Prunes in adjacent turns count as in a row.
absl::StatusOr<double> PruneCostOf(const EpisodeFacts& episode) {
  double cost = 0;
  INGOT_ASSIGN_OR_RETURN(const auto posted, episode.Fact("pruned"));
  if (!posted.has_value()) return cost;
  const absl::Status bad =
      absl::InvalidArgumentError("fact 'pruned' is not a list of {\"turn\": number, \"ids\": [..]} in turn order");
  if (!posted->is_array()) return bad;
  int64_t last = -2;
  int in_a_row = 0;
  for (const value& prune : posted->get_array()) {
    const value* turn = base::Find(prune, "turn");
    const value* list = base::Find(prune, "ids");
    if (list == nullptr || !IdsIn(*list).has_value()) return bad;
    if (turn == nullptr || !turn->is_int64() || turn->get_int64() < std::max<int64_t>(last, 0)) return bad;
    in_a_row = turn->get_int64() - last <= 1 ? in_a_row + 1 : 1;
    last = turn->get_int64();
    if (in_a_row > kFreePrunes) cost += kPruneCost;
  }
  return std::min(cost, kMaxPruneCost);
}

size_t Common(const Ids& a, const Ids& b) {
  return std::count_if(a.begin(), a.end(), [&](const std::string& id) { return b.contains(id); });
}

double FBeta(double precision, double recall, double beta) {
  const double square = beta * beta;
  const double below = square * precision + recall;
  return below == 0 ? 0 : (1 + square) * precision * recall / below;
}

struct WantedIds {
  Ids relevant, answer;
};

absl::StatusOr<TermResult> ValueOf(const EpisodeFacts& episode, const WantedIds& wanted, double beta,
                                   const RetrievalOptions& options) {
  INGOT_ASSIGN_OR_RETURN(const std::optional<Ids> seen, PostedIds(episode, "seen"));
  INGOT_ASSIGN_OR_RETURN(const std::optional<Ids> returned, PostedIds(episode, "returned"));
  INGOT_ASSIGN_OR_RETURN(const double prunes, PruneCostOf(episode));
  TermResult result;
  if (!returned.has_value()) {
    result.detail = "it returned nothing";
    return result;
  }
  if (!seen.has_value()) return absl::InvalidArgumentError("fact 'returned' was posted without the fact 'seen'");
  Ids found;
  for (const std::string& id : *returned) {
    if (seen->contains(id)) found.insert(id);
  }
  const auto all = static_cast<double>(wanted.relevant.size());
  const auto right = static_cast<double>(Common(found, wanted.relevant));
  const double precision = returned->empty() ? 0 : right / static_cast<double>(returned->size());
  const double recall = right / all;
  const double seen_recall = static_cast<double>(Common(*seen, wanted.relevant)) / all;
  const double before = 0.7 * FBeta(precision, recall, beta) + 0.3 * seen_recall +
                        (Common(found, wanted.answer) > 0 ? options.answer_bonus : 0);
  const double past = static_cast<double>(episode.policy_calls()) - kFreeTurns;
  const double turns = kMaxTurnCost * std::clamp(past / (kMaxTurns - kFreeTurns), 0.0, 1.0);
  result.value = std::min(std::max(before - prunes - turns, options.floor), before);
  result.measures = {{"precision", precision}, {"recall", recall}, {"seen_recall", seen_recall}};
  return result;
}

}  // namespace

absl::Status RetrievalOptions::Validate() const {
  if (!relevant_field.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "retrieval.relevant_field is empty: set it to the task field with the relevant ids");
}

void Bind(base::Schema& schema, RetrievalOptions& o) {
  schema.Field("beta", &o.beta, "beta of F_beta in the first epoch", base::LeftOpen(0, 1000));
  schema.Field("beta_end", &o.beta_end, "beta of F_beta in the last epoch", base::LeftOpen(0, 1000));
  schema.Field("epochs", &o.epochs,
               "number of equal parts of the run over which beta moves to beta_end; 1: beta throughout",
               base::AtLeast(1));
  schema.Field("answer_bonus", &o.answer_bonus, "bonus for a returned chunk that contains the answer",
               base::InRange(0, 1e6));
  schema.Field("floor", &o.floor, "penalties never lower the value below this", base::InRange(0, 1));
  schema.Field("relevant_field", &o.relevant_field, "task field with the relevant ids");
  schema.Field("answer_field", &o.answer_field, "task field with the ids of chunks that contain the answer");
}

double RetrievalTerm::BetaAt(int64_t version, int64_t total_steps) const {
  if (options_.epochs == 1) return options_.beta;
  const double t = static_cast<double>(version) / static_cast<double>(total_steps);
  const double epoch = std::clamp(std::floor(t * options_.epochs), 0.0, options_.epochs - 1.0);
  return options_.beta + (options_.beta_end - options_.beta) * epoch / (options_.epochs - 1);
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> RetrievalTerm::Judge(const GroupFacts& group) const {
  const v1::Task& task = group.group->task();
  INGOT_ASSIGN_OR_RETURN(const std::optional<Ids> relevant, TaskIds(task, options_.relevant_field));
  INGOT_ASSIGN_OR_RETURN(const std::optional<Ids> answer, TaskIds(task, options_.answer_field));
  if (!relevant.has_value() || relevant->empty()) {
    return absl::FailedPreconditionError(absl::StrCat("task '", task.task_id(), "' has no ids in its field '",
                                                      options_.relevant_field, "' (retrieval.relevant_field)"));
  }
  const WantedIds wanted{.relevant = *relevant, .answer = answer.value_or(Ids())};
  const double beta = BetaAt(group.version, group.total_steps);
  std::vector<absl::StatusOr<TermResult>> results;
  for (const EpisodeFacts& episode : group.episodes) results.push_back(ValueOf(episode, wanted, beta, options_));
  return results;
}

}  // namespace ingot::reward
