#include "rollout/speculation/speculation.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace ingot::rollout {
namespace {

// Hands out rows in descending order of survival. On ties, the earlier request goes first.
class RowQueue {
 public:
  struct Row {
    double survival = 0;
    size_t request = 0;
    bool operator<(const Row& other) const {
      return survival != other.survival ? survival < other.survival : request > other.request;
    }
  };

  explicit RowQueue(std::span<const SpeculationPolicy::Survival> requests)
      : requests_(requests), taken_(requests.size(), 0) {
    for (size_t i = 0; i < requests.size(); ++i) Push(i, AcceptanceOf(i));
  }

  bool empty() const { return rows_.empty(); }
  const Row& top() const { return rows_.top(); }
  void Take() {
    const Row row = rows_.top();
    rows_.pop();
    ++taken_[row.request];
    Push(row.request, row.survival * AcceptanceOf(row.request));
  }
  std::vector<int32_t> taken() && { return std::move(taken_); }

 private:
  // NaN counts as 0.
  double AcceptanceOf(size_t request) const {
    const double acceptance = requests_[request].acceptance;
    return acceptance > 0 ? std::min(acceptance, 1.0) : 0;
  }
  void Push(size_t request, double survival) {
    if (taken_[request] < requests_[request].drafts) rows_.push({survival, request});
  }

  const std::span<const SpeculationPolicy::Survival> requests_;
  std::vector<int32_t> taken_;
  std::priority_queue<Row> rows_;
};

std::vector<int32_t> TakeFirst(std::span<const SpeculationPolicy::Survival> requests, int64_t most) {
  RowQueue queue(requests);
  for (; most > 0 && !queue.empty(); --most) queue.Take();
  return std::move(queue).taken();
}

}  // namespace

void StepCost::Add(double rows, double seconds) {
  if (!(seconds > 0)) return;
  if (weight_ > 1) seconds = std::min(seconds, kMaxSlow * Of(rows));
  for (double* sum : {&weight_, &rows_, &seconds_, &rows2_, &rows_seconds_}) *sum *= kForgetting;
  weight_ += 1;
  rows_ += rows;
  seconds_ += seconds;
  rows2_ += rows * rows;
  rows_seconds_ += rows * seconds;
}

double StepCost::Of(double rows) const {
  const Line line = Fit();
  return line.fixed + line.per_row * rows;
}

StepCost::Line StepCost::Fit() const {
  if (weight_ == 0) return {kPriorFixedRows, 1};
  const double rows = rows_ / weight_, seconds = seconds_ / weight_;
  const double variance = rows2_ - weight_ * rows * rows, covariance = rows_seconds_ - weight_ * rows * seconds;
  const double prior = seconds / (kPriorFixedRows + rows);
  const double spread = 1 + rows / 8;  // standard deviation of rows at which steps support the prior
  const double prior_variance = kPriorWeight * spread * spread;
  const double slope = (covariance + prior_variance * prior) / (std::max(variance, 0.0) + prior_variance);
  const double per_row = std::clamp(slope, 0.0, seconds / std::max(rows, 1.0));
  return {seconds - per_row * rows, per_row};
}

std::vector<int32_t> SpeculationPolicy::Plan(std::span<const Survival> requests, int64_t rows, int64_t free_rows) {
  const bool any =
      free_rows > 0 && std::any_of(requests.begin(), requests.end(), [](const Survival& s) { return s.drafts > 0; });
  if (!any) {
    since_none_ = 0;
    return std::vector<int32_t>(requests.size(), 0);
  }
  if (min_gain_ == -1) return TakeFirst(requests, free_rows);
  std::vector<int32_t> plan = Best(requests, rows, free_rows);
  const bool drafts = std::accumulate(plan.begin(), plan.end(), int64_t{0}) > 0;
  if (drafts && ++since_none_ >= kProbeEvery) {
    plan.assign(requests.size(), 0);
  } else if (!drafts && ++since_some_ >= kProbeEvery) {
    plan = TakeFirst(requests, std::min(free_rows, std::max<int64_t>(1, rows / 8)));
  }
  if (std::accumulate(plan.begin(), plan.end(), int64_t{0}) > 0) {
    since_some_ = 0;
  } else {
    since_none_ = 0;
  }
  return plan;
}

std::vector<int32_t> SpeculationPolicy::Best(std::span<const Survival> requests, int64_t rows,
                                             int64_t free_rows) const {
  RowQueue queue(requests);
  const auto sampling = static_cast<double>(requests.size()), others = static_cast<double>(rows);
  const double before = sampling / cost_.Of(others);
  double tokens = sampling, rate = before;
  for (int64_t taken = 1; taken <= free_rows && !queue.empty(); ++taken) {
    const double more = tokens + queue.top().survival;
    const double next = more / cost_.Of(others + static_cast<double>(taken));
    if (!(next > rate)) break;
    tokens = more;
    rate = next;
    queue.Take();
  }
  if (rate < before * (1 + min_gain_)) return std::vector<int32_t>(requests.size(), 0);
  return std::move(queue).taken();
}

}  // namespace ingot::rollout
