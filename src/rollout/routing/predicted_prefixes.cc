#include "rollout/routing/predicted_prefixes.h"

#include <algorithm>
#include <utility>

namespace ingot::rollout {

void PredictedPrefixes::Match(const PrefixKeys& sequence, std::chrono::nanoseconds now, std::span<int64_t> hits) const {
  std::fill(hits.begin(), hits.end(), 0);
  int64_t before = 0;  // an engine that has this prefix may have the next one
  for (const uint64_t key : sequence.keys()) {
    const Holders* holders = Find(key);
    if (holders == nullptr) return;
    bool found = false;
    for (const Holder& holder : *holders) {
      if (hits[holder.engine] != before || now - holder.used > kForgetAfter) continue;
      if (holder.mark != MarkOf(holder.engine, sequence.pinned())) continue;
      hits[holder.engine] += PrefixKeys::kTokens;
      found = true;
    }
    if (!found) return;
    before += PrefixKeys::kTokens;
  }
}

void PredictedPrefixes::Add(const PrefixKeys& sequence, size_t engine, std::chrono::nanoseconds now) {
  if (newer_.size() >= kMostKeys || now - replaced_ > kForgetAfter) {
    older_ = std::exchange(newer_, Table());
    replaced_ = now;
  }
  const Holder added{static_cast<uint32_t>(engine), MarkOf(engine, sequence.pinned()), now};
  for (const uint64_t key : sequence.keys()) {
    Holders& holders = Entry(key);
    const auto known = std::find_if(holders.begin(), holders.end(),
                                    [&](const Holder& holder) { return holder.engine == added.engine; });
    known == holders.end() ? holders.push_back(added) : void(*known = added);
  }
}

void PredictedPrefixes::SawVersion(size_t engine, int64_t version) {
  Engine& known = engines_[engine];
  if (version == known.version) return;
  if (known.version >= 0) ++known.newest;
  known.version = version;
}

void PredictedPrefixes::Forget(size_t engine) {
  ++engines_[engine].newest;
  ++engines_[engine].life;
}

const PredictedPrefixes::Holders* PredictedPrefixes::Find(uint64_t key) const {
  if (const auto found = newer_.find(key); found != newer_.end()) return &found->second;
  const auto found = older_.find(key);
  return found == older_.end() ? nullptr : &found->second;
}

PredictedPrefixes::Holders& PredictedPrefixes::Entry(uint64_t key) {
  const auto [entry, is_new] = newer_.try_emplace(key);
  if (is_new) {
    if (const auto old = older_.find(key); old != older_.end()) entry->second = std::move(old->second);
  }
  return entry->second;
}

}  // namespace ingot::rollout
