// Derives an episode's two keys. The owner's key can call models, post rewards, and end the episode. The call key can
// only call models, and is a one-way hash of the owner's key. The gateway and the pool store a hash of the call key,
// which identifies either key even after a restart. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace ingot::gateway {

// The episode key prefix. Ids do not start with it, so a URL may contain either an id or a key.
inline constexpr std::string_view kKeyPrefix = "ingot-";
inline bool LooksLikeKey(std::string_view text) { return text.starts_with(kKeyPrefix); }

// Returns the owner's key for the episode that was opened with this idempotency key.
std::string OwnerKeyOf(const std::string& idempotency_key);

// Returns the call key for the episode that `owner_key` owns.
std::string CallKeyOf(const std::string& owner_key);

// The possible values of v1::Episode.key_hash for a key's episode, depending on whether the key is the owner's key or
// the call key.
struct KeyHashes {
  explicit KeyHashes(const std::string& key);
  std::string as_owner;
  std::string as_caller;
};

}  // namespace ingot::gateway
