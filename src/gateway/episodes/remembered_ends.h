// Remembers ended episodes so that late requests get the right error. Forgets the oldest first. Not thread safe:
// OpenEpisodes holds its lock while calling it.
//
// 1. Each remembered episode appears once in order_.
// 2. A key has at most one entry, which belongs to a remembered episode. A freed key has none.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "gateway/options.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// An episode that has ended.
struct EndedEpisode {
  std::string episode_id;
  v1::EpisodeState state = v1::EPISODE_UNSPECIFIED;
  std::string detail;               // as sent by the client that ended it
  std::string rejection;            // Episode::End::rejection
  std::string visible_detail = {};  // from VisibleDetail
};

// Returns the detail that late requests receive if the episode ended with this Episode.cause. Empty unless the gateway
// ended the episode because it made no calls. Other details are for the episode's owner and must not reach its agent.
inline std::string VisibleDetail(const std::string& cause, const std::string& detail) {
  return cause == kNeverCalled ? detail : "";
}

class RememberedEnds {
 public:
  // `most` is the number of ended episodes to remember; 0 = none.
  explicit RememberedEnds(int most) : most_(most) {}

  // If `free_key` is true, the key may open a new session. Otherwise, requests with the key fail because the episode is
  // over. Does nothing for an episode that is already remembered.
  void Remember(const std::string& key_hash, EndedEpisode ended, bool free_key);
  // Returns the v1::Episode::key_hash of an ended episode, or null if it is not remembered.
  const std::string* KeyHashOf(const std::string& episode_id) const;
  // Returns the key's ended episode, or null if none is remembered or the key is free.
  const EndedEpisode* OfKey(const std::string& key_hash) const;

 private:
  const int most_;
  std::unordered_map<std::string, EndedEpisode> by_key_;
  std::unordered_map<std::string, std::string> keys_;  // v1::Episode::key_hash by episode id
  std::deque<std::string> order_;                      // episode ids, in the order in which they ended
};

}  // namespace ingot::gateway
