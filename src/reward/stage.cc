#include "reward/stage.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/waits.h"
#include "tree/episode_return.h"

namespace ingot::reward {
namespace {

// Returns the group's stored grades, or nullopt if it has not been judged.
std::optional<GroupGrades> StoredGrades(const v1::Group& group) {
  GroupGrades stored;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    if (episode.has_grade()) stored.grades[episode.ref().sample_index()] = episode.grade();
  }
  if (stored.grades.empty()) return std::nullopt;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    if (episode.state() != v1::EPISODE_FINISHED || episode.has_grade()) continue;
    stored.ungraded[episode.ref().sample_index()] = "it received no grade when its group was judged";
  }
  return stored;
}

}  // namespace

absl::StatusOr<v1::Group> Stage::Read(int64_t group_id) {
  v1::GetGroupRequest request;
  request.set_group_id(group_id);
  request.set_purpose(v1::PURPOSE_TRAIN);
  return pool_.GetGroup(request);
}

class Stage::Turn {
 public:
  explicit Turn(History& history) : history_(history) {}
  ~Turn() { End(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Must be called at most once. Returns UNAVAILABLE if another request held the turn for all of `timeout`.
  absl::Status TakeTurn(std::string of, std::chrono::milliseconds timeout) {
    const base::Clock& clock = base::Clock::Real();
    const std::chrono::nanoseconds late = clock.Now() + timeout;
    std::optional<base::Wait> wait;
    base::MutexLock lock(history_.mu);
    while (!history_.in_turn.insert(of).second) {
      waited_ = true;
      if (!wait.has_value()) wait.emplace(absl::StrCat("the judgment of ", of), base::WaitKind::kWork);
      if (clock.WaitUntil(history_.judged, history_.mu, late)) continue;
      return absl::UnavailableError(absl::StrCat(of, " is being judged for another request"));
    }
    of_ = std::move(of);
    return absl::OkStatus();
  }
  void End() {
    base::MutexLock lock(history_.mu);
    if (of_.empty()) return;
    history_.in_turn.erase(of_);
    of_.clear();
    history_.judged.SignalAll();
  }
  bool waited() const { return waited_; }

 private:
  History& history_;
  std::string of_;  // empty = does not have a turn
  bool waited_ = false;
};

absl::StatusOr<TaskHistory::OfTask> Stage::HistoryOf(const std::string& task_id) {
  base::MutexLock lock(history_->mu);
  if (!history_->read) {
    INGOT_ASSIGN_OR_RETURN(history_->tasks, ReadHistory(pool_, v1::PURPOSE_TRAIN));
    history_->read = true;
  }
  return history_->tasks.Of(task_id);
}

void Stage::Remember(const v1::Group& group, const GroupGrades& grades) {
  if (!rule_.uses_history()) return;
  base::MutexLock lock(history_->mu);
  if (!history_->read) return;  // the pool has these grades and is read before the first judgment
  for (const auto& [sample, grade] : grades.grades) history_->tasks.Add(group.task().task_id(), grade);
}

std::optional<v1::GradeResponse> Stage::StoredAnswer(const v1::Group& group) {
  const std::optional<GroupGrades> stored = StoredGrades(group);
  if (!stored.has_value()) return std::nullopt;
  Remember(group, *stored);
  return Answer(group, *stored);
}

absl::StatusOr<v1::GradeResponse> Stage::Grade(const v1::GradeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(v1::Group group, Read(request.group_id()));
  if (auto stored = StoredAnswer(group)) return *std::move(stored);
  // A request takes its group's turn first and its task's turn second, so there is no deadlock.
  Turn of_group(*history_), of_task(*history_);
  INGOT_RETURN_IF_ERROR(of_group.TakeTurn(absl::StrCat("group ", request.group_id()), options_.turn_timeout));
  if (of_group.waited()) {
    INGOT_ASSIGN_OR_RETURN(group, Read(request.group_id()));
    if (auto stored = StoredAnswer(group)) return *std::move(stored);
  }
  INGOT_ASSIGN_OR_RETURN(GroupFacts facts, FactsOf(group, request.admitted_version(), options_.total_steps));
  if (!rule_.uses_history()) return Judge(group, facts);
  const std::string& task_id = group.task().task_id();
  INGOT_ASSIGN_OR_RETURN(facts.history, HistoryOf(task_id));
  if (rule_.LacksMeasures(facts)) {
    INGOT_RETURN_IF_ERROR(of_task.TakeTurn(absl::StrCat("task ", task_id), options_.turn_timeout));
    INGOT_ASSIGN_OR_RETURN(facts.history, HistoryOf(task_id));
    if (!rule_.LacksMeasures(facts)) of_task.End();
  }
  return Judge(group, facts);
}

absl::StatusOr<v1::GradeResponse> Stage::Judge(const v1::Group& group, const GroupFacts& facts) {
  INGOT_ASSIGN_OR_RETURN(const GroupGrades grades, rule_.Apply(facts));
  if (grades.grades.empty()) return Answer(group, grades);  // nothing to store
  v1::StoreGradesRequest store;
  store.set_group_id(group.group_id());
  store.set_purpose(v1::PURPOSE_TRAIN);
  for (const EpisodeFacts& episode : facts.episodes) {
    const auto grade = grades.grades.find(episode.record().ref().sample_index());
    if (grade != grades.grades.end()) (*store.mutable_grades())[episode.record().episode_id()] = grade->second;
  }
  const absl::Status stored = pool_.StoreGrades(store);
  if (absl::IsAlreadyExists(stored)) {  // another stage was faster, so its grades count
    INGOT_ASSIGN_OR_RETURN(const v1::Group judged, Read(group.group_id()));
    if (auto others = StoredAnswer(judged)) return *std::move(others);
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(stored, "storing the grades of a group"));
  Remember(group, grades);
  return Answer(group, grades);
}

v1::GradeResponse Stage::Answer(const v1::Group& group, const GroupGrades& grades) const {
  v1::GradeResponse response;
  int32_t samples = 0;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    samples = std::max(samples, tree.episode().ref().sample_index() + 1);
  }
  for (int32_t sample = 0; sample < samples; ++sample) {
    const auto grade = grades.grades.find(sample);
    response.add_returns(grade == grades.grades.end() ? std::numeric_limits<double>::quiet_NaN()
                                                      : tree::ReturnOf(grade->second));
  }
  response.mutable_outcomes()->Resize(samples, std::numeric_limits<double>::quiet_NaN());
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    if (episode.state() == v1::EPISODE_FINISHED) {
      response.set_outcomes(episode.ref().sample_index(), episode.reward());
    }
  }
  response.mutable_ungraded()->insert(grades.ungraded.begin(), grades.ungraded.end());
  if (grades.grades.empty()) {
    response.set_failed_term(grades.failed_term);
  } else {
    for (const v1::TermValue& term : grades.grades.begin()->second.terms()) response.add_terms(term.term());
  }
  response.set_equal(NothingToTrain(grades, group, options_.compared));
  return response;
}

}  // namespace ingot::reward
