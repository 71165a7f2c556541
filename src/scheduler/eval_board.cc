#include "scheduler/eval_board.h"

#include <algorithm>
#include <cmath>

namespace ingot::scheduler {

absl::Status EvalBoard::Validate(const v1::StartEvalRequest& request) const {
  if (request.version() < 0 || request.version() > (int64_t{1} << 42)) {
    return absl::InvalidArgumentError(absl::StrCat("evaluation of version ", request.version(), ": unknown version"));
  }
  if (request.tasks().empty() || request.avg_n() < 1) {
    return absl::InvalidArgumentError("an evaluation needs at least one task and avg_n of at least 1");
  }
  if (request.tasks_size() > kGroupsPerVersion ||
      int64_t{request.tasks_size()} * request.avg_n() > options_.max_eval_episodes) {
    return absl::InvalidArgumentError(absl::StrCat("an evaluation of ", request.tasks_size(), " tasks x ",
                                                   request.avg_n(),
                                                   " is above max_eval_episodes = ", options_.max_eval_episodes));
  }
  return absl::OkStatus();
}

v1::StartEvalResponse EvalBoard::Groups(const v1::StartEvalRequest& request) {
  v1::StartEvalResponse groups;
  groups.set_first_group(request.version() * kGroupsPerVersion);
  groups.set_last_group(groups.first_group() + request.tasks_size() - 1);
  return groups;
}

absl::Status EvalBoard::Start(const v1::StartEvalRequest& request, const Attempts& used) {
  const int64_t version = request.version();
  if (results_.contains(version)) return absl::OkStatus();
  if (const auto it = runs_.find(version); it != runs_.end()) {
    if (it->second.request.SerializeAsString() == request.SerializeAsString()) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("another evaluation of version ", version, " is running"));
  }
  if (std::ssize(runs_) >= options_.max_active_evals) {
    return absl::ResourceExhaustedError(absl::StrCat("max_active_evals = ", options_.max_active_evals,
                                                     " evaluations are not done yet: wait, or raise the limit"));
  }
  Run& run = runs_[version];
  run.request = request;
  run.samples.resize(static_cast<size_t>(request.tasks_size()) * static_cast<size_t>(request.avg_n()));
  run.deadlines.resize(run.samples.size());
  for (int32_t i = 0; i < std::ssize(run.samples); ++i) run.waiting.push_back(i);
  for (const auto& [place, attempt] : used) {
    const int64_t task = place.first - version * kGroupsPerVersion;
    if (task < 0 || task >= request.tasks_size() || place.second < 0 || place.second >= request.avg_n()) continue;
    run.samples[static_cast<size_t>(task * request.avg_n() + place.second)].attempt = attempt + 1;
  }
  return absl::OkStatus();
}

v1::EpisodeRef EvalBoard::RefOf(int64_t version, const Run& run, int32_t sample) {
  const int32_t avg_n = run.request.avg_n();
  return run.samples[static_cast<size_t>(sample)].Ref(version * kGroupsPerVersion + sample / avg_n, sample % avg_n);
}

std::optional<v1::Ticket> EvalBoard::NextTicket(std::chrono::nanoseconds now) {
  for (auto& [version, run] : runs_) {
    if (run.waiting.empty()) continue;
    const int32_t index = run.waiting.front();
    run.waiting.pop_front();
    Sample& sample = run.samples[static_cast<size_t>(index)];
    sample.state = Sample::kRunning;
    ++running_;
    run.deadlines[static_cast<size_t>(index)] =
        now + std::chrono::nanoseconds(static_cast<int64_t>(options_.group_deadline_seconds * 1e9));
    deadlines_.insert({run.deadlines[static_cast<size_t>(index)], version, index});
    v1::Ticket ticket;
    *ticket.mutable_ref() = RefOf(version, run, index);
    ticket.set_purpose(v1::PURPOSE_EVAL);
    *ticket.mutable_task() = run.request.tasks(index / run.request.avg_n());
    ticket.set_pinned_version(version);
    ticket.set_admitted_version(version);
    return ticket;
  }
  return std::nullopt;
}

absl::StatusOr<bool> EvalBoard::EndEpisode(const v1::ReportEpisodeEndRequest& request) {
  const int64_t group = request.ref().group_id();
  const int64_t version = group / kGroupsPerVersion;
  const auto it = runs_.find(version);
  if (it == runs_.end()) return false;
  Run& run = it->second;
  const int64_t task = group % kGroupsPerVersion;
  const int32_t n = request.ref().sample_index();
  if (task < 0 || task >= run.request.tasks_size() || n < 0 || n >= run.request.avg_n()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the evaluation of version ", version, " has no task ", task, ", sample ", n));
  }
  const auto index = static_cast<int32_t>(task * run.request.avg_n() + n);
  Sample& sample = run.samples[static_cast<size_t>(index)];
  const Sample::State before = sample.state;
  const int32_t attempt = sample.attempt;
  INGOT_RETURN_IF_ERROR(sample.End(request, LimitsOf(options_)));
  Update(run, index, before);
  return sample.state != before || sample.attempt != attempt;
}

std::vector<v1::EpisodeRef> EvalBoard::Running() const {
  std::vector<v1::EpisodeRef> running;
  for (const auto& [deadline, version, index] : deadlines_) {
    const Run& run = runs_.at(version);
    running.push_back(RefOf(version, run, index));
  }
  return running;
}

void EvalBoard::Update(Run& run, int32_t index, Sample::State before) {
  const Sample& sample = run.samples[static_cast<size_t>(index)];
  if (sample.state == before) return;
  if (before == Sample::kRunning) {
    --running_;
    deadlines_.erase({run.deadlines[static_cast<size_t>(index)], run.request.version(), index});
  } else {  // an attempt from an earlier process ended, so the sample no longer waits
    std::erase(run.waiting, index);
  }
  if (sample.state == Sample::kWaiting) run.waiting.push_back(index);
  if (sample.state == Sample::kDone) {
    ++run.finished;
    run.reward_sum += sample.reward;
  }
  if (sample.state == Sample::kGivenUp) {
    ++run.failed;
    if (sample.broken >= options_.max_infrastructure_failures) ++run.broken;
  }
}

void EvalBoard::Expire(std::chrono::nanoseconds now) {
  while (!deadlines_.empty() && std::get<0>(*deadlines_.begin()) <= now) {
    const auto [deadline, version, index] = *deadlines_.begin();
    Run& run = runs_.at(version);
    run.samples[static_cast<size_t>(index)].Fail(LimitsOf(options_));
    Update(run, index, Sample::kRunning);
  }
}

v1::EvalStatusResponse EvalBoard::Summary(const Run& run) {
  v1::EvalStatusResponse summary;
  summary.set_finished(run.finished);
  summary.set_failed(run.failed);
  summary.set_total(static_cast<int32_t>(run.samples.size()));
  const int32_t over = run.finished + run.failed - run.broken;
  summary.set_reward_mean(over == 0 ? std::nan("") : run.reward_sum / over);
  return summary;
}

std::optional<v1::EvalDone> EvalBoard::NextResult() const {
  for (const auto& [version, run] : runs_) {
    if (run.finished + run.failed < std::ssize(run.samples)) continue;
    v1::EvalDone done;
    done.set_version(version);
    done.set_reward_mean(Summary(run).reward_mean());
    done.set_episodes(static_cast<int32_t>(run.samples.size()));
    return done;
  }
  return std::nullopt;
}

void EvalBoard::RecordResult(const v1::EvalDone& done) {
  v1::EvalStatusResponse& result = results_[done.version()];
  const auto it = runs_.find(done.version());
  if (it != runs_.end()) {
    result = Summary(it->second);
    Drop(it);
  } else {  // during replay: the journal does not record failed samples
    result.set_finished(done.episodes());
    result.set_total(done.episodes());
    result.set_reward_mean(done.reward_mean());
  }
  result.set_done(true);
}

absl::StatusOr<v1::EvalStatusResponse> EvalBoard::Status(int64_t version) const {
  if (const auto it = results_.find(version); it != results_.end()) return it->second;
  if (const auto it = runs_.find(version); it != runs_.end()) return Summary(it->second);
  return absl::NotFoundError(absl::StrCat("no evaluation of version ", version, " has been started: start one"));
}

void EvalBoard::Drop(std::map<int64_t, Run>::iterator it) {
  Run& run = it->second;
  for (int32_t i = 0; i < std::ssize(run.samples); ++i) {
    if (run.samples[static_cast<size_t>(i)].state != Sample::kRunning) continue;
    --running_;
    deadlines_.erase({run.deadlines[static_cast<size_t>(i)], it->first, i});
  }
  runs_.erase(it);
}

void EvalBoard::ForgetAfter(int64_t version) {
  results_.erase(results_.upper_bound(version), results_.end());
  while (!runs_.empty() && runs_.rbegin()->first > version) Drop(std::prev(runs_.end()));
}

}  // namespace ingot::scheduler
