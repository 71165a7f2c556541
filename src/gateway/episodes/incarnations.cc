#include "gateway/episodes/incarnations.h"

#include <algorithm>
#include <utility>

namespace ingot::gateway {

Incarnations::Start Incarnations::See(const std::string& runner, const std::string& incarnation) {
  const auto [found, is_new] = runners_.try_emplace(runner);
  Runner& known = found->second;
  known.seen = ++requests_;
  if (is_new) {
    known.newest = incarnation;
    if (runners_.size() > kMaxRunners) ForgetOne();
    return incarnation.empty() ? Start::kSame : Start::kNewer;
  }
  if (known.newest == incarnation) return Start::kSame;
  if (std::find(known.past.begin(), known.past.end(), incarnation) != known.past.end()) return Start::kPast;
  known.past.push_back(std::exchange(known.newest, incarnation));
  if (known.past.size() > kMaxPast) known.past.pop_front();
  return Start::kNewer;
}

std::optional<std::string> Incarnations::NewestOf(const std::string& runner) const {
  const auto known = runners_.find(runner);
  return known == runners_.end() ? std::nullopt : std::optional(known->second.newest);
}

// Forgets the runner that has been silent the longest.
void Incarnations::ForgetOne() {
  const auto oldest = std::min_element(runners_.begin(), runners_.end(),
                                       [](const auto& a, const auto& b) { return a.second.seen < b.second.seen; });
  runners_.erase(oldest);
}

}  // namespace ingot::gateway
