// The keys of an episode. Its owner's key may do everything: call models, reward, end. The call key is made from that
// one and calls models only; whoever has it cannot find the owner's. Gateway and pool keep the hash of the call key, by
// which either key is recognised, also by a gateway that was started again. Pure functions.
#pragma once

#include <string>

namespace ingot::gateway {

// The call key of the episode that `owner_key` owns.
std::string CallKeyOf(const std::string& owner_key);

// v1::Episode.key_hash of the episode that a key belongs to, if it is the one or the other.
struct KeyHashes {
  explicit KeyHashes(const std::string& key);
  std::string as_owner;
  std::string as_caller;
};

}  // namespace ingot::gateway
