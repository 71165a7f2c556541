#include "gateway/episodes/remembered_ends.h"

#include <utility>

namespace ingot::gateway {

void RememberedEnds::Remember(const std::string& key_hash, EndedEpisode ended, bool free_key) {
  if (most_ == 0 || !keys_.try_emplace(ended.episode_id, key_hash).second) return;
  order_.push_back(ended.episode_id);
  if (!free_key) by_key_[key_hash] = std::move(ended);
  while (static_cast<int>(order_.size()) > most_) {
    const auto oldest = keys_.find(order_.front());
    const auto by_key = by_key_.find(oldest->second);
    if (by_key != by_key_.end() && by_key->second.episode_id == oldest->first) by_key_.erase(by_key);
    keys_.erase(oldest);
    order_.pop_front();
  }
}

const std::string* RememberedEnds::KeyHashOf(const std::string& episode_id) const {
  const auto found = keys_.find(episode_id);
  return found == keys_.end() ? nullptr : &found->second;
}

const EndedEpisode* RememberedEnds::OfKey(const std::string& key_hash) const {
  const auto found = by_key_.find(key_hash);
  return found == by_key_.end() ? nullptr : &found->second;
}

}  // namespace ingot::gateway
