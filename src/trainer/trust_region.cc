#include "trainer/trust_region.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"
#include "kernels/draws/race.h"

namespace ingot::trainer {
namespace {

// Random streams of a step's seed.
enum Stream : uint64_t { kStart, kPositions, kDrawn, kTokens };

uint64_t KeyOf(uint64_t seed, Stream stream, const std::pair<int32_t, int32_t>& place) {
  const auto number =
      (static_cast<uint64_t>(static_cast<uint32_t>(place.first)) << 32) | static_cast<uint32_t>(place.second);
  return base::DeriveSeed(base::DeriveSeed(seed, stream), number);
}

// Returns KL(old || new) of each row [rows], from log-probs [rows, vocab].
at::Tensor RowKl(const at::Tensor& old, const at::Tensor& now) {
  const at::Tensor p = old.exp();
  // A token that the old policy excludes adds nothing, regardless of its current log-prob.
  return at::where(p > 0, p * (old - now), at::zeros_like(p)).sum(1, false, at::kDouble);
}

std::vector<double> ToHost(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

// Calls of a forest in forest order, and their merged forest.
struct ChosenCalls {
  std::vector<int32_t> calls;
  tree::PackedForest forest;
};

// Returns `count` consecutive calls in `order` from each of `places` equally spaced places. `at`, in [0, 1), is the
// offset of the first place as a fraction of the spacing.
absl::StatusOr<ChosenCalls> RunsOf(const PreparedBatch& batch, const std::vector<int32_t>& order, int64_t places,
                                   double at, int64_t count) {
  const auto calls = static_cast<int64_t>(order.size());
  std::set<int64_t> indices;
  for (int64_t place = 0; place < places; ++place) {
    const double start = (static_cast<double>(place) + at) / static_cast<double>(places);
    const auto first = static_cast<int64_t>(start * static_cast<double>(calls));
    for (int64_t i = 0; i < std::min(count, calls); ++i) indices.insert((first + i) % calls);
  }
  ChosenCalls chosen;
  for (const int64_t i : indices) chosen.calls.push_back(order[static_cast<size_t>(i)]);
  INGOT_ASSIGN_OR_RETURN(chosen.forest, PackBatch(batch, chosen.calls));
  return chosen;
}

// Returns the longest runs whose total rows fit into `budget`, or one call each. Neighbors in forest order share the
// longest prefixes and cost the fewest rows.
absl::StatusOr<ChosenCalls> LongestRuns(const PreparedBatch& batch, const std::vector<int32_t>& order, int64_t places,
                                        double at, double budget) {
  const auto calls = static_cast<int64_t>(order.size());
  INGOT_ASSIGN_OR_RETURN(ChosenCalls longest, RunsOf(batch, order, places, at, 1));
  int64_t fits = 1, exceeds = calls + 1;  // numbers of calls
  while (fits < calls && (exceeds > calls || exceeds - fits > std::max<int64_t>(1, fits / 8))) {
    const int64_t count = exceeds > calls ? std::min(2 * fits, calls) : fits + (exceeds - fits) / 2;
    INGOT_ASSIGN_OR_RETURN(ChosenCalls longer, RunsOf(batch, order, places, at, count));
    if (static_cast<double>(longer.forest.size()) <= budget) {
      fits = count;
      longest = std::move(longer);
    } else {
      exceeds = count;
    }
  }
  return longest;
}

}  // namespace

void PolicyShift::AddRow(double kl, int64_t visits, double share) {
  positions += visits;
  if (!std::isfinite(kl)) {
    not_finite += visits;
    return;
  }
  kl = std::max(kl, 0.0);  // rounding may make it slightly negative
  sum += kl * static_cast<double>(visits);
  max = std::max(max, kl * std::min(share, 1.0));
}

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
                                                const tree::PackedForest& forest, int64_t most_rows, uint64_t seed,
                                                int64_t version, int rank) {
  const uint64_t of_step =
      base::DeriveSeed(base::DeriveSeed(seed, static_cast<uint64_t>(version)), static_cast<uint64_t>(rank));
  TrustRegion region(batch, of_step);
  const std::vector<int32_t>& order = forest.call_indices;
  if (order.empty()) return region;
  const int64_t places = std::min(options.places, static_cast<int64_t>(order.size()));
  INGOT_ASSIGN_OR_RETURN(ChosenCalls chosen,
                         LongestRuns(batch, order, places, base::UniformAt(base::DeriveSeed(of_step, kStart), 0),
                                     options.share * static_cast<double>(forest.size())));
  region.calls_ = std::move(chosen.calls);
  region.ChoosePositions(chosen.forest, most_rows);
  return region;
}

void TrustRegion::ChoosePositions(const tree::PackedForest& calls, int64_t most_rows) {
  constexpr int64_t kPositionsPerDraw = 4;
  const int64_t most_draws = most_rows / (kPositionsPerDraw + 1), most_sampled = most_rows - most_draws;
  std::vector<std::pair<uint64_t, const tree::LossEntry*>> entries;  // sorted by a random key
  const auto place_of = [](const tree::LossEntry* entry) { return Place(entry->call, entry->offset); };
  const auto order_by = [&](Stream stream) {
    for (auto& [key, entry] : entries) key = KeyOf(seed_, stream, place_of(entry));
    std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.first, place_of(a.second)) < std::pair(b.first, place_of(b.second));
    });
  };
  for (const tree::LossEntry& entry : calls.entries) entries.emplace_back(0, &entry);
  order_by(kPositions);
  std::set<std::pair<int32_t, float>> rows;  // policy rows: a row of the forest at a temperature
  size_t count = 0;
  for (; count < entries.size(); ++count) {
    const tree::LossEntry* entry = entries[count].second;
    rows.emplace(entry->row, batch_->calls[static_cast<size_t>(entry->call)].temperature);
    if (std::ssize(rows) > most_sampled) break;
  }
  entries.resize(count);
  for (const auto& [key, entry] : entries) positions_.push_back(place_of(entry));
  order_by(kDrawn);
  const int64_t draws = (std::ssize(entries) + kPositionsPerDraw - 1) / kPositionsPerDraw;
  entries.resize(static_cast<size_t>(std::min(draws, most_draws)));
  for (const auto& [key, entry] : entries) drawn_[place_of(entry)] = -1;
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
        const at::Tensor logprobs = policy.LogSoftmaxOf(wanted).to(at::kCPU, at::kFloat).contiguous();
        const int64_t vocab = logprobs.size(1);
        for (size_t i = 0; i < wanted.size(); ++i) {
          const float* row = logprobs.const_data_ptr<float>() + static_cast<int64_t>(i) * vocab;
          *tokens[i] = static_cast<int32_t>(kernels::Race({.log_weight = row, .count = vocab}, keys[i]));
        }
      };
}

absl::Status TrustRegion::Remember(const model::Transformer& model, const PassOptions& options) {
  paths_.clear();
  share_.clear();
  old_.clear();
  std::map<int32_t, std::set<int32_t>> episodes;  // group -> its measured episodes
  for (const int32_t call : calls_) {
    const tree::CallPath& path = batch_->calls[static_cast<size_t>(call)];
    episodes[path.group].insert(path.episode);
  }
  const auto share_of = [&](const tree::CallPath& call) {
    return 1 / static_cast<double>(episodes.at(call.group).size());
  };
  std::map<int32_t, int32_t> path_of;  // call in the batch -> index into paths_
  for (const int32_t call : calls_) {
    path_of[call] = static_cast<int32_t>(paths_.size());
    paths_.push_back(batch_->calls[static_cast<size_t>(call)]);
    share_.push_back(share_of(paths_.back()));
  }
  std::set<Place> wanted;  // entries of paths_
  for (const Place& place : positions_) wanted.insert({path_of.at(place.first), place.second});
  for (const auto& [place, token] : drawn_) {
    const tree::CallPath& call = batch_->calls[static_cast<size_t>(place.first)];
    const auto offset = static_cast<size_t>(place.second);
    if (token < 0 || token == call.sampled[offset]) continue;  // the sample's own position covers this token
    tree::CallPath path;
    path.temperature = call.temperature;
    path.context = call.context;
    std::vector<int32_t> tail(call.sampled.begin(), call.sampled.begin() + place.second);
    tail.push_back(token);
    path.context = path.context.Then(std::move(tail));
    // The label and record are arbitrary, because only the policy is read, not a token's log-prob.
    path.sampled = {0};
    path.logprobs = {0};
    path.versions = {0};
    path.kv_mixed = {0};
    wanted.insert({static_cast<int32_t>(paths_.size()), 0});
    paths_.push_back(std::move(path));
    share_.push_back(share_of(call));
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

int64_t TrustRegion::rows_held() const {
  int64_t rows = 0;
  for (const at::Tensor& chunk : old_) rows += chunk.size(0);
  return rows;
}

PolicyShift TrustRegion::Measure(const model::Transformer& model, const PassOptions& options) const {
  PolicyShift shift;
  if (old_.empty()) return shift;
  PassOptions reading = options;
  size_t chunk = 0;
  reading.read_policy = [&](const kernels::Policy& policy, std::span<const tree::LossEntry> entries,
                            std::span<const int64_t> rows) {
    const std::vector<double> kl = ToHost(RowKl(old_.at(chunk++), policy.LogSoftmax()));
    std::vector<int64_t> visits(kl.size());
    std::vector<double> share(kl.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto row = static_cast<size_t>(rows[i]);
      ++visits[row];
      share[row] += share_[static_cast<size_t>(entries[i].call)];
    }
    for (size_t row = 0; row < kl.size(); ++row) shift.AddRow(kl[row], visits[row], share[row]);
  };
  ScoreForest(model, forest_, paths_, reading);
  return shift;
}

}  // namespace ingot::trainer
