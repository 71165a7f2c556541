#include "trainer/trust_region.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"

namespace ingot::trainer {
namespace {

// Streams of a step's seed.
enum Stream : uint64_t { kStart, kPositions, kDrawn, kTokens };

uint64_t KeyOf(uint64_t seed, Stream stream, const std::pair<int32_t, int32_t>& place) {
  const auto number =
      (static_cast<uint64_t>(static_cast<uint32_t>(place.first)) << 32) | static_cast<uint32_t>(place.second);
  return base::DeriveSeed(base::DeriveSeed(seed, stream), number);
}

// `count` of `places`, drawn without replacement; ascending.
std::vector<std::pair<int32_t, int32_t>> Draw(std::vector<std::pair<int32_t, int32_t>> places, int64_t count,
                                              uint64_t seed, Stream stream) {
  if (std::ssize(places) > count) {
    const auto before = [&](const auto& a, const auto& b) {
      return std::pair(KeyOf(seed, stream, a), a) < std::pair(KeyOf(seed, stream, b), b);
    };
    std::nth_element(places.begin(), places.begin() + count, places.end(), before);
    places.resize(static_cast<size_t>(count));
  }
  std::sort(places.begin(), places.end());
  return places;
}

// The token at `uniform` in [0, 1) of a row of log-probs, by the sum of the probabilities before it. Rounding may leave
// the sum below 1: the last possible token takes the rest.
int32_t TokenAt(std::span<const double> logprobs, double uniform) {
  double sum = 0;
  int32_t last = 0;
  for (size_t id = 0; id < logprobs.size(); ++id) {
    const double p = std::exp(logprobs[id]);
    if (!(p > 0)) continue;
    sum += p;
    last = static_cast<int32_t>(id);
    if (uniform < sum) break;
  }
  return last;
}

// KL(old || new) of each row [rows], from log-probs [rows, vocab].
at::Tensor RowKl(const at::Tensor& old, const at::Tensor& now) {
  const at::Tensor p = old.exp();
  // A token that the old policy excludes adds nothing, whatever its log-prob is now.
  return at::where(p > 0, p * (old - now), at::zeros_like(p)).sum(1, false, at::kDouble);
}

std::vector<double> ToHost(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

// Consecutive calls of `order` from the one at `at` in [0, 1): one call, and more, doubled, while their merged rows are
// at most `budget`. Neighbours in the forest's order share the longest prefixes, and cost the fewest rows.
absl::StatusOr<std::vector<int64_t>> RunAt(const PreparedBatch& batch, const std::vector<int32_t>& order, double at,
                                           double budget) {
  const auto calls = static_cast<int64_t>(order.size());
  const auto start = static_cast<int64_t>(at * static_cast<double>(calls));
  std::vector<int64_t> run;
  for (int64_t count = 1;; count = std::min(2 * count, calls)) {
    std::vector<int64_t> indices;
    std::vector<int32_t> longer;
    for (int64_t i = 0; i < count; ++i) {
      indices.push_back((start + i) % calls);
      longer.push_back(order[static_cast<size_t>(indices.back())]);
    }
    INGOT_ASSIGN_OR_RETURN(const tree::PackedForest packed, PackBatch(batch, longer));
    const bool fits = static_cast<double>(packed.size()) <= budget;
    if (count == 1 || fits) run = std::move(indices);
    if (!fits || count == calls) return run;
  }
}

}  // namespace

void PolicyShift::Add(const PolicyShift& other) {
  sum += other.sum;
  max = std::max(max, other.max);
  positions += other.positions;
  not_finite += other.not_finite;
}

bool PolicyShift::Within(const TrustRegionOptions& bounds) const {
  return not_finite == 0 && (bounds.max_mean == 0 || mean() <= bounds.max_mean) &&
         (bounds.max_position == 0 || max <= bounds.max_position);
}

absl::StatusOr<TrustRegion> TrustRegion::Choose(const TrustRegionOptions& options, const PreparedBatch& batch,
                                                const tree::PackedForest& forest, uint64_t seed, int64_t version,
                                                int rank) {
  const uint64_t of_step =
      base::DeriveSeed(base::DeriveSeed(seed, static_cast<uint64_t>(version)), static_cast<uint64_t>(rank));
  TrustRegion region(batch, of_step);
  const std::vector<int32_t>& order = forest.call_indices;
  if (order.empty()) return region;
  const double budget = options.share * static_cast<double>(forest.size()) / static_cast<double>(options.places);
  std::set<int64_t> chosen;  // indices into order
  for (int64_t place = 0; place < options.places; ++place) {
    const double at = base::UniformAt(base::DeriveSeed(of_step, kStart), static_cast<uint64_t>(place));
    INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> run, RunAt(batch, order, at, budget));
    chosen.insert(run.begin(), run.end());
  }
  for (const int64_t i : chosen) region.calls_.push_back(order[static_cast<size_t>(i)]);
  INGOT_ASSIGN_OR_RETURN(const tree::PackedForest all, PackBatch(batch, region.calls_));
  region.ChoosePositions(options, all);
  return region;
}

void TrustRegion::ChoosePositions(const TrustRegionOptions& options, const tree::PackedForest& calls) {
  std::vector<Place> places;
  for (const tree::LossEntry& entry : calls.entries) places.emplace_back(entry.call, entry.offset);
  positions_ = Draw(std::move(places), options.positions, seed_, kPositions);
  constexpr int64_t kPositionsPerDraw = 4;
  const int64_t draws = (std::ssize(positions_) + kPositionsPerDraw - 1) / kPositionsPerDraw;
  for (const Place& place : Draw(positions_, draws, seed_, kDrawn)) drawn_[place] = -1;
}

PolicyReader TrustRegion::Reader() {
  return
      [this](const kernels::Policy& policy, std::span<const tree::LossEntry> entries, std::span<const int64_t> rows) {
        std::vector<int64_t> wanted;
        std::vector<int32_t*> tokens;
        std::vector<uint64_t> keys;
        for (size_t i = 0; i < entries.size(); ++i) {
          const auto found = drawn_.find({entries[i].call, entries[i].offset});
          if (found == drawn_.end()) continue;
          wanted.push_back(rows[i]);
          tokens.push_back(&found->second);
          keys.push_back(KeyOf(seed_, kTokens, found->first));
        }
        if (wanted.empty()) return;
        const at::Tensor logprobs = policy.LogSoftmaxOf(wanted);
        const std::vector<double> values = ToHost(logprobs);
        const auto vocab = static_cast<size_t>(logprobs.size(1));
        for (size_t i = 0; i < wanted.size(); ++i) {
          *tokens[i] = TokenAt(std::span(values).subspan(i * vocab, vocab), base::UniformAt(keys[i], 0));
        }
      };
}

absl::Status TrustRegion::Remember(const model::Transformer& model, const PassOptions& options) {
  paths_.clear();
  old_.clear();
  std::map<int32_t, int32_t> path_of;  // call of the batch -> index into paths_
  for (const int32_t call : calls_) {
    path_of[call] = static_cast<int32_t>(paths_.size());
    paths_.push_back(batch_->calls[static_cast<size_t>(call)]);
  }
  std::set<Place> wanted;  // entries of paths_
  for (const Place& place : positions_) wanted.insert({path_of.at(place.first), place.second});
  for (const auto& [place, token] : drawn_) {
    const tree::CallPath& call = batch_->calls[static_cast<size_t>(place.first)];
    const auto offset = static_cast<size_t>(place.second);
    if (token < 0 || token == call.sampled[offset]) continue;  // the sample's own position covers it
    tree::CallPath path;
    path.temperature = call.temperature;
    path.context = call.context;
    std::vector<int32_t> tail(call.sampled.begin(), call.sampled.begin() + place.second);
    tail.push_back(token);
    path.context = path.context.Then(std::move(tail));
    // Any label and record: the policy is read, and no token's log-prob.
    path.sampled = {0};
    path.logprobs = {0};
    path.versions = {0};
    path.kv_mixed = {0};
    wanted.insert({static_cast<int32_t>(paths_.size()), 0});
    paths_.push_back(std::move(path));
  }
  std::vector<int32_t> all(paths_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  if (wanted.empty()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(forest_, tree::PackForest(paths_, all));
  std::erase_if(forest_.entries,
                [&](const tree::LossEntry& entry) { return !wanted.contains({entry.call, entry.offset}); });
  PassOptions reading = options;
  reading.read_policy = [this](const kernels::Policy& policy, std::span<const tree::LossEntry>,
                               std::span<const int64_t>) { old_.push_back(policy.LogSoftmax()); };
  ScoreForest(model, forest_, paths_, reading);
  return absl::OkStatus();
}

PolicyShift TrustRegion::Measure(const model::Transformer& model, const PassOptions& options) const {
  PolicyShift shift;
  if (old_.empty()) return shift;
  PassOptions reading = options;
  size_t chunk = 0;
  reading.read_policy = [&](const kernels::Policy& policy, std::span<const tree::LossEntry>, std::span<const int64_t>) {
    for (const double kl : ToHost(RowKl(old_.at(chunk++), policy.LogSoftmax()))) {
      ++shift.positions;
      if (!std::isfinite(kl)) {
        ++shift.not_finite;
        continue;
      }
      shift.sum += std::max(kl, 0.0);  // rounding may leave a little below 0
      shift.max = std::max(shift.max, kl);
    }
  };
  ScoreForest(model, forest_, paths_, reading);
  return shift;
}

}  // namespace ingot::trainer
