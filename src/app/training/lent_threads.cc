#include "app/training/lent_threads.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/run/compute_members.h"

namespace ingot::app {

LentThreads::LentThreads(std::shared_ptr<const kernels::ComputeMember> compute, const base::Clock& clock)
    : compute_(std::move(compute)), clock_(clock), before_(Now()) {}

LentThreads::Totals LentThreads::Now() const {
  if (compute_ == nullptr) return {};
  return {.seconds = std::chrono::duration<double>(clock_.Now()).count(),
          .trainer = BorrowedSeconds(compute_->table(), "trainer"),
          .rollout = BorrowedSeconds(compute_->table(), "rollout")};
}

void LentThreads::Add(std::map<std::string, double>& metrics) {
  const Totals now = Now(), before = std::exchange(before_, now);
  const double seconds = now.seconds - before.seconds;
  if (seconds <= 0) return;
  metrics["perf/threads_lent_to_trainer"] = std::max(0.0, now.trainer - before.trainer) / seconds;
  metrics["perf/threads_lent_to_rollout"] = std::max(0.0, now.rollout - before.rollout) / seconds;
}

}  // namespace ingot::app
