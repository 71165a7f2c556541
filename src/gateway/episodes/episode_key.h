// The two keys of an episode. The owner's key may call models, reward and end. The call key may call models only. It is
// made from the owner's key by a one-way hash. Gateway and pool keep a hash of the call key, by which either key is
// recognized, even after a restart. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace ingot::gateway {

// Keys of episodes begin with this prefix and ids do not, which distinguishes them in a URL.
inline constexpr std::string_view kKeyPrefix = "ingot-";
inline bool LooksLikeKey(std::string_view text) { return text.starts_with(kKeyPrefix); }

// The owner's key of the episode that was opened with an idempotency key.
std::string OwnerKeyOf(const std::string& idempotency_key);

// The call key of the episode that `owner_key` owns.
std::string CallKeyOf(const std::string& owner_key);

// v1::Episode.key_hash of the episode to which a key belongs, if it is the owner's key or the call key.
struct KeyHashes {
  explicit KeyHashes(const std::string& key);
  std::string as_owner;
  std::string as_caller;
};

}  // namespace ingot::gateway
