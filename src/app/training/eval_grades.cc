#include "app/training/eval_grades.h"

#include <algorithm>
#include <set>

#include "app/training/grading.h"
#include "scheduler/eval_board.h"
#include "tree/episode_return.h"

namespace ingot::app {
namespace {

struct Mean {
  double sum = 0, count = 0;
  void Add(double value) {
    sum += value;
    ++count;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<EvalGrades>> EvalGrades::Make(const RunConfig& config, datapool::Client& pool,
                                                             const reward::TermParts& parts) {
  reward::RewardOptions options = config.rewards;
  std::erase_if(options.terms, [](const reward::TermOptions& term) { return term.kind == "teacher"; });
  if (options.outcome_alone()) return nullptr;
  INGOT_ASSIGN_OR_RETURN(reward::Rule rule, MakeRule(options, parts));
  return std::unique_ptr<EvalGrades>(new EvalGrades(std::move(rule), pool, config));
}

absl::StatusOr<std::map<std::string, double>> EvalGrades::Of(int64_t version) const {
  const int64_t first = version * scheduler::EvalBoard::kGroupsPerVersion;
  std::set<int64_t> groups;
  for (datapool::EpisodePages pages(pool_, v1::PURPOSE_EVAL, first,
                                    first + scheduler::EvalBoard::kGroupsPerVersion - 1);
       !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) groups.insert(episode.ref().group_id());
  }
  std::map<std::string, Mean> means;
  double ungraded = 0;
  for (const int64_t id : groups) {
    v1::GetGroupRequest request;
    request.set_group_id(id);
    request.set_purpose(v1::PURPOSE_EVAL);
    INGOT_ASSIGN_OR_RETURN(const v1::Group group, pool_.GetGroup(request));
    INGOT_ASSIGN_OR_RETURN(const reward::GroupFacts facts,
                           reward::FactsOf(group, version, total_steps_, other_models_));
    const absl::StatusOr<reward::GroupGrades> grades = rule_.Apply(facts);
    if (absl::IsDeadlineExceeded(grades.status())) {  // no retries here
      ungraded += static_cast<double>(facts.episodes.size());
      continue;
    }
    INGOT_RETURN_IF_ERROR(grades.status());
    ungraded += static_cast<double>(grades->ungraded.size());
    for (const auto& [sample, grade] : grades->grades) {
      means["eval/graded_mean"].Add(tree::ReturnOf(grade));
      for (const v1::TermValue& term : grade.terms()) means["eval/term/" + term.term()].Add(tree::ValueOf(term));
    }
  }
  std::map<std::string, double> metrics{{"eval/ungraded", ungraded}};
  for (const auto& [name, mean] : means) metrics[name] = mean.sum / mean.count;
  return metrics;
}

}  // namespace ingot::app
