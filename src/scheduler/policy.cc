#include "scheduler/policy.h"

#include <algorithm>
#include <cmath>

namespace ingot::scheduler {

int64_t WindowOptions::Budget() const { return (max_staleness + 1) * groups_per_step; }

int64_t WindowOptions::Window() const {
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(window_fraction * static_cast<double>(Budget()))));
}

absl::Status WindowOptions::Validate() const {
  if (groups_per_step < 1 || groups_per_step > (1 << 20)) {
    return absl::InvalidArgumentError(absl::StrCat("groups_per_step is ", groups_per_step, ": 1 to 1048576"));
  }
  if (max_staleness < 0 || max_staleness > (1 << 20)) {
    return absl::InvalidArgumentError(absl::StrCat("max_staleness is ", max_staleness, ": 0 to 1048576"));
  }
  if (!(window_fraction > 0 && window_fraction <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("window_fraction is ", window_fraction, ": above 0, at most 1"));
  }
  return absl::OkStatus();
}

WindowedFifo::WindowedFifo(const WindowOptions& options)
    : budget_(options.Budget()), window_(options.Window()), groups_per_step_(options.groups_per_step) {}

absl::StatusOr<int64_t> WindowedFifo::Admit() {
  if (!CanAdmit()) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", budget_, " groups of the window are in use"));
  }
  const int64_t group = next_group();
  INGOT_RETURN_IF_ERROR(RestoreAdmitted(group));
  return group;
}

absl::Status WindowedFifo::RestoreAdmitted(int64_t group) {
  if (group != next_group()) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", group, " was admitted out of order: ", next_group(), " is next"));
  }
  states_.push_back(State::kOpen);
  ++open_;
  Slide();
  return absl::OkStatus();
}

absl::Status WindowedFifo::CheckOpen(int64_t group, const char* what) const {
  if (group < 0 || group >= next_group()) {
    return absl::NotFoundError(absl::StrCat("group ", group, " cannot ", what, ": it was never admitted"));
  }
  if (group < head_ || states_[static_cast<size_t>(group - head_)] != State::kOpen) {
    return absl::FailedPreconditionError(absl::StrCat("group ", group, " cannot ", what, ": it is not open"));
  }
  return absl::OkStatus();
}

absl::Status WindowedFifo::Finish(int64_t group, bool zero_variance) {
  if (zero_variance) return Fail(group);
  INGOT_RETURN_IF_ERROR(CheckOpen(group, "finish"));
  --open_;
  if (group < head_ + window_) {
    at(group) = State::kTerminal;
    pending_.insert(group);
    Slide();
  } else {
    at(group) = State::kFinished;
    ++outside_;
  }
  return absl::OkStatus();
}

absl::Status WindowedFifo::Fail(int64_t group) {
  INGOT_RETURN_IF_ERROR(CheckOpen(group, "close"));
  --open_;
  at(group) = State::kTerminal;
  Slide();
  return absl::OkStatus();
}

void WindowedFifo::Slide() {
  while (true) {
    while (!states_.empty() && states_.front() == State::kTerminal) {
      states_.pop_front();
      ++head_;
    }
    scanned_ = std::max(scanned_, head_);
    if (scanned_ >= std::min(head_ + window_, next_group())) return;
    if (State& state = at(scanned_); state == State::kFinished) {
      state = State::kTerminal;
      pending_.insert(scanned_);
      --outside_;
    }
    ++scanned_;
  }
}

std::optional<std::vector<int64_t>> WindowedFifo::ReadyBatch() const {
  if (pending() < groups_per_step_) return std::nullopt;
  return std::vector<int64_t>(pending_.begin(), std::next(pending_.begin(), groups_per_step_));
}

absl::StatusOr<int64_t> WindowedFifo::TakeBatch(std::span<const int64_t> groups) {
  if (static_cast<int64_t>(groups.size()) != groups_per_step_ || pending() < groups_per_step_ ||
      !std::equal(groups.begin(), groups.end(), pending_.begin())) {
    return absl::FailedPreconditionError("these groups are not the ready batch");
  }
  pending_.erase(pending_.begin(), std::next(pending_.begin(), groups_per_step_));
  batch_sizes_.push_back(static_cast<int32_t>(groups_per_step_));
  unreleased_batched_ += groups_per_step_;
  return next_step() - 1;
}

absl::Status WindowedFifo::RestoreBatch(int64_t step, std::span<const int64_t> groups) {
  if (step != next_step()) {
    return absl::FailedPreconditionError(
        absl::StrCat("batch ", step, " stands where batch ", next_step(), " should stand"));
  }
  std::set<int64_t> seen;
  for (const int64_t group : groups) {
    const bool held =
        group >= head_ && group < next_group() && states_[static_cast<size_t>(group - head_)] != State::kTerminal;
    if (!seen.insert(group).second || !(held || pending_.contains(group))) {
      return absl::FailedPreconditionError(absl::StrCat("batch ", step, " names group ", group,
                                                        ", which was never admitted, is closed, or is in a batch"));
    }
  }
  for (const int64_t group : groups) {
    if (pending_.erase(group) > 0) continue;
    --(at(group) == State::kOpen ? open_ : outside_);
    at(group) = State::kTerminal;
  }
  batch_sizes_.push_back(static_cast<int32_t>(groups.size()));
  unreleased_batched_ += static_cast<int64_t>(groups.size());
  Slide();
  return absl::OkStatus();
}

absl::Status WindowedFifo::OnVersionLive(int64_t version) {
  if (version > next_step()) {
    return absl::OutOfRangeError(
        absl::StrCat("version ", version, " cannot be live: batch ", version - 1, " was not made yet"));
  }
  for (; live_version_ < version; ++live_version_) unreleased_batched_ -= batch_sizes_[live_version_];
  return absl::OkStatus();
}

absl::Status WindowedFifo::Rewind(int64_t version) {
  if (version < 0 || version > live_version_) {
    return absl::OutOfRangeError(
        absl::StrCat("cannot go back to version ", version, ": version ", live_version_, " is live"));
  }
  while (live_version_ > version) unreleased_batched_ += batch_sizes_[--live_version_];
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
