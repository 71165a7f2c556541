#include "scheduler/policy.h"

#include <algorithm>
#include <cmath>

#include "base/config.h"

namespace ingot::scheduler {

int64_t WindowOptions::Budget() const { return (max_staleness + 1) * groups_per_step; }

int64_t WindowOptions::Window() const {
  if (order == WindowOrder::kStrict) return 1;
  if (order == WindowOrder::kGreedy) return kNoWindow;
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(window_fraction * static_cast<double>(Budget()))));
}

absl::Status WindowOptions::Validate() const { return base::CheckBounds(*this); }

void BindWindow(base::Schema& schema, int64_t* groups_per_step, int64_t* max_staleness, double* window_fraction,
                WindowOrder* order) {
  schema.Field("groups_per_step", groups_per_step, "P: number of groups per optimizer step", base::InRange(1, 1 << 20));
  schema.Field("max_staleness", max_staleness, "S: maximum age of trained samples, in policy versions; 0: on-policy",
               base::InRange(0, 1 << 20));
  schema.Field("window_fraction", window_fraction,
               "W = max(1, floor(window_fraction x (S+1)P)): how far past the oldest group a batch may reach",
               base::Fraction());
  schema.Choice("order", order, {"strict", "windowed", "greedy"},
                "which finished groups a batch may take: strict: only in admission order; windowed: those within W; "
                "greedy: any, regardless of age");
}

void Bind(base::Schema& schema, WindowOptions& o) {
  BindWindow(schema, &o.groups_per_step, &o.max_staleness, &o.window_fraction, &o.order);
}

WindowedFifo::WindowedFifo(const WindowOptions& options)
    : budget_(options.Budget()), window_(options.Window()), groups_per_step_(options.groups_per_step) {}

std::optional<std::vector<int64_t>> WindowedFifo::ReadyBatch() const {
  if (pending() < groups_per_step_) return std::nullopt;
  return std::vector<int64_t>(pending_.begin(), std::next(pending_.begin(), groups_per_step_));
}

absl::Status WindowedFifo::BeginAt(int64_t step, int64_t group) {
  if (step < 0 || group < 0) {
    return absl::OutOfRangeError(absl::StrCat("a run cannot start at step ", step, " and group ", group));
  }
  if (next_group() > 0 || next_step() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run has already started: it is at group ", next_group(), " and step ", next_step()));
  }
  first_step_ = step;
  batch_sizes_.resize(static_cast<size_t>(step));
  head_ = scanned_ = group;
  return absl::OkStatus();
}

absl::Status WindowedFifo::AdmitGroup(int64_t group) {
  if (group != next_group()) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", group, " was admitted out of order: ", next_group(), " is next"));
  }
  states_.push_back(State::kOpen);
  ++open_;
  Slide();
  return absl::OkStatus();
}

absl::Status WindowedFifo::CheckOpen(int64_t group, const char* transition) const {
  if (group < 0 || group >= next_group()) {
    return absl::NotFoundError(absl::StrCat("group ", group, " cannot ", transition, ": it was never admitted"));
  }
  if (group < head_ || states_[static_cast<size_t>(group - head_)] != State::kOpen) {
    return absl::FailedPreconditionError(absl::StrCat("group ", group, " cannot ", transition, ": it is not open"));
  }
  return absl::OkStatus();
}

absl::Status WindowedFifo::FinishGroup(int64_t group) {
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

absl::Status WindowedFifo::CloseGroup(int64_t group) {
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

absl::Status WindowedFifo::CheckBatch(int64_t step, std::span<const int64_t> groups) const {
  if (step != next_step()) {
    return absl::FailedPreconditionError(
        absl::StrCat("batch ", step, " found, but batch ", next_step(), " was expected"));
  }
  auto taken = pending_.begin();
  for (size_t i = 0; i < groups.size(); ++i) {
    const int64_t group = groups[i];
    if (i > 0 && group <= groups[i - 1]) {
      return absl::FailedPreconditionError(absl::StrCat("batch ", step, " lists group ", group, " after group ",
                                                        groups[i - 1], ": ids must be in ascending order"));
    }
    while (taken != pending_.end() && *taken < group) ++taken;
    if (taken != pending_.end() && *taken == group) continue;
    if (group < head_ || group >= next_group() || states_[static_cast<size_t>(group - head_)] != State::kFinished) {
      return absl::FailedPreconditionError(
          absl::StrCat("batch ", step, " lists group ", group,
                       ", which was never admitted, has no reward, is closed, or is in a batch"));
    }
  }
  return absl::OkStatus();
}

absl::Status WindowedFifo::TakeBatch(int64_t step, std::span<const int64_t> groups) {
  INGOT_RETURN_IF_ERROR(CheckBatch(step, groups));
  auto taken = pending_.begin();
  for (const int64_t group : groups) {
    while (taken != pending_.end() && *taken < group) ++taken;
    if (taken != pending_.end() && *taken == group) {
      taken = pending_.erase(taken);
      continue;
    }
    --outside_;
    at(group) = State::kTerminal;
  }
  batch_sizes_.push_back(static_cast<int32_t>(groups.size()));
  unreleased_batched_ += static_cast<int64_t>(groups.size());
  Slide();
  return absl::OkStatus();
}

absl::Status WindowedFifo::SetLiveVersion(int64_t version) {
  if (version < 0) {
    return absl::OutOfRangeError(absl::StrCat("version ", version, " cannot be live: versions count from 0"));
  }
  if (version > next_step()) {
    return absl::OutOfRangeError(
        absl::StrCat("version ", version, " cannot be live: batch ", version - 1, " has not been created yet"));
  }
  while (live_version_ < version) unreleased_batched_ -= batch_sizes_[static_cast<size_t>(live_version_++)];
  while (live_version_ > version) unreleased_batched_ += batch_sizes_[static_cast<size_t>(--live_version_)];
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
