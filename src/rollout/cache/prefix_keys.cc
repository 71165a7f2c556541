#include "rollout/cache/prefix_keys.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/rng.h"

namespace ingot::rollout {

PrefixKeys::PrefixKeys(int64_t pinned_version)
    : pinned_(pinned_version >= 0), last_(base::Mix64(static_cast<uint64_t>(pinned_version))) {}

void PrefixKeys::Append(std::span<const int32_t> ids) {
  constexpr auto kCount = static_cast<size_t>(kTokens);
  if (!rest_.empty()) {
    const size_t taken = std::min(kCount - rest_.size(), ids.size());
    rest_.insert(rest_.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(taken));
    ids = ids.subspan(taken);
    if (rest_.size() < kCount) return;
    Add(rest_);
    rest_.clear();
  }
  keys_.reserve(keys_.size() + ids.size() / kCount);
  for (; ids.size() >= kCount; ids = ids.subspan(kCount)) Add(ids.first(kCount));
  rest_.assign(ids.begin(), ids.end());
}

void PrefixKeys::Add(std::span<const int32_t> ids) {
  last_ = base::DeriveSeed(last_, base::Checksum64(std::as_bytes(ids)));
  keys_.push_back(last_);
}

}  // namespace ingot::rollout
