// Computes keys for a token sequence's prefixes, to predict which prefixes an engine has cached. Each key identifies
// all tokens up to a multiple of kTokens. Keys have 64 bits, so two prefixes may have the same key by chance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::rollout {

class PrefixKeys {
 public:
  static constexpr int64_t kTokens = 64;  // tokens per key

  // Sequences for different pinned versions have different keys. -1 = the request follows the newest version.
  explicit PrefixKeys(int64_t pinned_version = -1);

  void Append(std::span<const int32_t> ids);

  // keys()[i] identifies the first (i + 1) * kTokens tokens.
  const std::vector<uint64_t>& keys() const { return keys_; }
  int64_t tokens() const { return static_cast<int64_t>(keys_.size()) * kTokens + static_cast<int64_t>(rest_.size()); }
  bool pinned() const { return pinned_; }

 private:
  void Add(std::span<const int32_t> ids);  // exactly kTokens ids

  bool pinned_;
  uint64_t last_;
  std::vector<uint64_t> keys_;
  std::vector<int32_t> rest_;  // the tokens after the last key
};

}  // namespace ingot::rollout
