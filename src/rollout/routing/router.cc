#include "rollout/routing/router.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"

namespace ingot::rollout {
namespace {

using std::chrono::nanoseconds;

constexpr double kFirstGuess = 1e-4;  // assumed seconds per prompt token until an engine has answered
constexpr double kDecay = 0.9;        // weight of earlier requests in an engine's speed
constexpr double kMoveSeconds = 0.005;
constexpr double kTie = 1.05;
constexpr size_t kMostLineages = size_t{1} << 16;

double Seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Router::Router(const RouterOptions& options, size_t engines, uint64_t seed)
    : options_(options), seed_(seed), engines_(engines), prefixes_(engines), hits_(engines), costs_(engines) {}

void Router::AddEngine() {
  engines_.emplace_back();
  prefixes_.AddEngine();
  hits_.push_back(0);
  costs_.push_back(0);
}

Router::Sent Router::Send(const PrefixKeys& prompt, uint64_t lineage, std::span<const size_t> candidates,
                          nanoseconds now) {
  if (uses_prefixes()) prefixes_.Match(prompt, now, hits_);
  const size_t engine = Choose(prompt, lineage, candidates);
  Engine& chosen = engines_[engine];
  Sent sent{.engine = engine, .tokens = prompt.tokens(), .ahead = chosen.pending, .sent = now};
  sent.pending = std::max<int64_t>(prompt.tokens() - hits_[engine], 1);  // the last token is always computed
  sent.estimate = SecondsPerToken(engine) * static_cast<double>(sent.ahead + sent.pending);
  chosen.pending += sent.pending;
  ++chosen.in_flight;
  SetLastEngine(lineage, engine);
  if (uses_prefixes()) prefixes_.Add(prompt, engine, now);
  return sent;
}

void Router::FirstToken(Sent& sent, nanoseconds now) {
  if (sent.until_first > nanoseconds(0)) return;
  engines_[sent.engine].pending -= std::exchange(sent.pending, 0);
  sent.until_first = std::max(now - sent.sent, nanoseconds(1));
}

void Router::End(Sent& sent) {
  engines_[sent.engine].pending -= std::exchange(sent.pending, 0);
  --engines_[sent.engine].in_flight;
}

void Router::Answered(const Sent& sent, const PrefixKeys& whole, int64_t cached, bool timed, nanoseconds now) {
  if (uses_prefixes()) prefixes_.Add(whole, sent.engine, now);
  if (!timed || sent.until_first == nanoseconds(0)) return;
  const double took = Seconds(sent.until_first);
  ++stats_.estimates;
  stats_.error_sum += std::abs(sent.estimate - took) / took;
  Engine& engine = engines_[sent.engine];
  engine.seconds = kDecay * engine.seconds + took;
  engine.tokens = kDecay * engine.tokens + static_cast<double>(sent.ahead + std::max<int64_t>(sent.tokens - cached, 1));
}

size_t Router::Choose(const PrefixKeys& prompt, uint64_t lineage, std::span<const size_t> candidates) {
  const size_t* last = LastEngine(lineage, candidates);
  size_t chosen = 0;
  switch (options_.policy) {
    case RouterPolicy::kCost:
      chosen = Cheapest(prompt, last, candidates);
      break;
    case RouterPolicy::kFewest:
      chosen = Fewest(candidates);
      break;
    case RouterPolicy::kRoundRobin:
      chosen = candidates[next_++ % candidates.size()];
      break;
    case RouterPolicy::kSticky:
      chosen = last != nullptr ? *last : candidates[next_++ % candidates.size()];
      break;
  }
  if (last != nullptr) ++(*last == chosen ? stats_.stayed : stats_.moved);
  return chosen;
}

// Starting with a different engine each time distributes requests among equally loaded engines.
size_t Router::Fewest(std::span<const size_t> candidates) {
  const size_t start = next_++ % candidates.size();
  size_t best = candidates[start];
  for (size_t i = 1; i < candidates.size(); ++i) {
    const size_t engine = candidates[(start + i) % candidates.size()];
    if (engines_[engine].in_flight < engines_[best].in_flight) best = engine;
  }
  return best;
}

size_t Router::Cheapest(const PrefixKeys& prompt, const size_t* last, std::span<const size_t> candidates) {
  int64_t least_in_flight = INT64_MAX;
  for (const size_t e : candidates) least_in_flight = std::min(least_in_flight, engines_[e].in_flight);
  double least = INFINITY;
  for (const size_t e : candidates) least = std::min(least, costs_[e] = CostOf(e, prompt.tokens(), least_in_flight));
  if (last != nullptr && costs_[*last] <= options_.stay * least + kMoveSeconds) return *last;
  size_t best = candidates.front();
  int64_t best_hit = -1;
  double best_draw = 0;
  for (const size_t e : candidates) {
    if (costs_[e] > kTie * least) continue;
    const double draw = base::UniformAt(seed_, draws_++);
    if (hits_[e] < best_hit || (hits_[e] == best_hit && draw <= best_draw)) continue;
    best = e;
    best_hit = hits_[e];
    best_draw = draw;
  }
  return best;
}

double Router::SecondsPerToken(size_t engine) const {
  if (engines_[engine].tokens > 0) return engines_[engine].seconds / engines_[engine].tokens;
  double seconds = 0, tokens = 0;
  for (const Engine& other : engines_) {
    seconds += other.seconds;
    tokens += other.tokens;
  }
  return tokens > 0 ? seconds / tokens : kFirstGuess;
}

double Router::CostOf(size_t engine, int64_t tokens, int64_t least_in_flight) const {
  const Engine& e = engines_[engine];
  const double load = options_.load_weight * static_cast<double>(e.in_flight - least_in_flight);
  return SecondsPerToken(engine) * (static_cast<double>(e.pending + tokens - hits_[engine]) + load);
}

const size_t* Router::LastEngine(uint64_t lineage, std::span<const size_t> candidates) const {
  if (lineage == 0) return nullptr;
  auto found = last_.find(lineage);
  if (found == last_.end() && (found = older_last_.find(lineage)) == older_last_.end()) return nullptr;
  const auto candidate = std::find(candidates.begin(), candidates.end(), found->second);
  return candidate == candidates.end() ? nullptr : &*candidate;
}

void Router::SetLastEngine(uint64_t lineage, size_t engine) {
  if (lineage == 0) return;
  if (last_.size() >= kMostLineages && !last_.contains(lineage)) older_last_ = std::exchange(last_, {});
  last_[lineage] = engine;
}

}  // namespace ingot::rollout
