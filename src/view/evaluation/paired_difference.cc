#include "view/evaluation/paired_difference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/log.h"
#include "base/rng.h"

namespace ingot::view {
namespace {

constexpr size_t kMostEnumerated = 16;
constexpr int64_t kSampled = 10'000;
constexpr uint64_t kSeed = 1;

// Returns the sum of the differences, with the signs flipped where `signs(i)` is true.
template <typename Signs>
double FlippedSum(const std::vector<double>& differences, Signs signs) {
  double sum = 0;
  for (size_t i = 0; i < differences.size(); ++i) sum += signs(i) ? -differences[i] : differences[i];
  return sum;
}

double SignFlipP(std::vector<double> differences) {
  std::erase(differences, 0.0);
  if (differences.empty()) return 1;
  const double observed = std::abs(FlippedSum(differences, [](size_t) { return false; }));
  // Sums of the same values in another order may differ in their last bits.
  const auto as_far = [&](double sum) { return std::abs(sum) >= observed - 1e-9 * std::max(1.0, observed); };
  if (differences.size() <= kMostEnumerated) {
    const uint64_t all = uint64_t{1} << differences.size();
    int64_t far = 0;
    for (uint64_t signs = 0; signs < all; ++signs) {
      far += as_far(FlippedSum(differences, [&](size_t i) { return (signs >> i & 1) != 0; })) ? 1 : 0;
    }
    return static_cast<double>(far) / static_cast<double>(all);
  }
  int64_t far = 1;  // the observed signs are one of the samples
  for (int64_t sample = 0; sample < kSampled; ++sample) {
    const uint64_t seed = base::DeriveSeed(kSeed, static_cast<uint64_t>(sample));
    uint64_t bits = 0;
    far += as_far(FlippedSum(differences, [&](size_t i) {
      if (i % 64 == 0) bits = base::DeriveSeed(seed, i / 64);
      return (bits >> (i % 64) & 1) != 0;
    }));
  }
  return static_cast<double>(far) / static_cast<double>(kSampled + 1);
}

std::string LeftOut(const PairedDifference& difference) {
  const int64_t tasks = difference.only_first + difference.only_other;
  if (tasks == 0) return "";
  return fmt::format("; {} task{} that only one of them has {} left out: use the same eval.tasks for both", tasks,
                     tasks == 1 ? "" : "s", tasks == 1 ? "is" : "are");
}

}  // namespace

PairedDifference DifferenceOf(const TaskRewards& first, const TaskRewards& other) {
  PairedDifference result;
  std::vector<double> differences;
  for (const auto& [task, reward] : first) {
    const auto found = other.find(task);
    if (found != other.end()) differences.push_back(found->second - reward);
  }
  const auto common = std::ssize(differences);
  result.only_first = std::ssize(first) - common;
  result.only_other = std::ssize(other) - common;
  result.estimate = BootstrapOf(differences);
  if (result.known()) result.p_value = SignFlipP(differences);
  return result;
}

TaskRewards TasksOfSet(const TaskRewards& tasks, const std::string& set) {
  TaskRewards found;
  const std::string prefix = set + "/";
  for (const auto& [task, reward] : tasks) {
    if (task.starts_with(prefix)) found.emplace(task, reward);
  }
  return found;
}

std::string Verdict(const PairedDifference& difference) {
  const Estimate& estimate = difference.estimate;
  if (!difference.known()) {
    return fmt::format(
        "not comparable: {} and {} tasks, of which {} in common; evaluate both on the same eval.tasks with ingot eval",
        estimate.values + difference.only_first, estimate.values + difference.only_other, estimate.values);
  }
  return fmt::format("{:+.4g} ({:.4g} to {:.4g}), p = {:.2g}, {} tasks: {}{}", estimate.mean, estimate.low,
                     estimate.high, difference.p_value, estimate.values,
                     difference.real() ? "the difference is real" : "the difference may be chance",
                     LeftOut(difference));
}

}  // namespace ingot::view
