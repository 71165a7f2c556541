#include "reward/stage.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tree/episode_return.h"

namespace ingot::reward {
namespace {

// The grades that the pool holds of the group; nullopt = it has not been judged.
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
    stored.ungraded[episode.ref().sample_index()] = "it could not be judged with its group";
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
  Turn(History& history, std::string of) : history_(history), of_(std::move(of)) {
    base::MutexLock lock(history_.mu);
    while (!history_.in_turn.insert(of_).second) {
      waited_ = true;
      history_.judged.Wait(history_.mu);
    }
  }
  ~Turn() {
    base::MutexLock lock(history_.mu);
    history_.in_turn.erase(of_);
    history_.judged.SignalAll();
  }
  bool waited() const { return waited_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  History& history_;
  const std::string of_;
  bool waited_ = false;
};

absl::StatusOr<TaskHistory::OfTask> Stage::HistoryOf(const std::string& task_id) {
  base::MutexLock lock(history_->mu);
  if (!history_->read) {
    INGOT_ASSIGN_OR_RETURN(history_->tasks, ReadHistory(pool_, v1::PURPOSE_TRAIN, ""));
    history_->read = true;
  }
  return history_->tasks.Of(task_id);
}

absl::StatusOr<v1::GradeResponse> Stage::Grade(const v1::GradeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(v1::Group group, Read(request.group_id()));
  if (const auto stored = StoredGrades(group)) return Answer(group, *stored);
  const Turn turn(*history_, rule_.uses_history() ? absl::StrCat("task ", group.task().task_id())
                                                  : absl::StrCat("group ", request.group_id()));
  if (turn.waited()) {
    INGOT_ASSIGN_OR_RETURN(group, Read(request.group_id()));
    if (const auto stored = StoredGrades(group)) return Answer(group, *stored);
  }
  return Judge(request, std::move(group));
}

absl::StatusOr<v1::GradeResponse> Stage::Judge(const v1::GradeRequest& request, v1::Group group) {
  const std::string task_id = group.task().task_id();
  INGOT_ASSIGN_OR_RETURN(GroupFacts facts, FactsOf(group, request.admitted_version(), options_.total_steps));
  if (rule_.uses_history()) {
    INGOT_ASSIGN_OR_RETURN(facts.history, HistoryOf(task_id));
  }
  INGOT_ASSIGN_OR_RETURN(const GroupGrades grades, rule_.Apply(facts));
  if (grades.grades.empty()) return Answer(group, grades);  // nothing to store
  v1::GradeGroupRequest store;
  store.set_group_id(request.group_id());
  store.set_purpose(v1::PURPOSE_TRAIN);
  for (const EpisodeFacts& episode : facts.episodes) {
    const auto grade = grades.grades.find(episode.record().ref().sample_index());
    if (grade != grades.grades.end()) (*store.mutable_grades())[episode.record().episode_id()] = grade->second;
  }
  const absl::Status stored = pool_.GradeGroup(store);
  if (absl::IsAlreadyExists(stored)) {  // another stage was faster: its grades count
    INGOT_ASSIGN_OR_RETURN(group, Read(request.group_id()));
    if (const auto others = StoredGrades(group)) return Answer(group, *others);
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(stored, "storing the grades of a group"));
  if (rule_.uses_history()) {
    base::MutexLock lock(history_->mu);
    for (const auto& [sample, grade] : grades.grades) history_->tasks.Add(task_id, grade);
  }
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
  response.set_equal(NothingToTrain(grades, group, options_.credit));
  return response;
}

}  // namespace ingot::reward
