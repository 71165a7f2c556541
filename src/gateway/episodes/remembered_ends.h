// Ended episodes, so that late requests get the right error. The oldest are forgotten. Not thread safe: OpenEpisodes
// calls it under its lock.
//
//   1. Each remembered episode has one place in the order of ends.
//   2. A key has at most one end, that of a remembered episode; an end that freed its key has none.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "gateway/options.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// An episode that is over.
struct EndedEpisode {
  std::string episode_id;
  v1::EpisodeState state = v1::EPISODE_UNSPECIFIED;
  std::string detail;     // as the client that ended it sent it
  std::string rejection;  // Episode::End::rejection
  std::string told = {};  // ToldOf
};

// What late requests are told about an end with this Episode.cause and detail: empty, unless the gateway ended the
// episode because it made no call. Other details are for the episode's owner, and its agent may not see them.
inline std::string ToldOf(const std::string& cause, const std::string& detail) {
  return cause == kNeverCalled ? detail : "";
}

class RememberedEnds {
 public:
  // `most`: ends that it remembers; 0 = none.
  explicit RememberedEnds(int most) : most_(most) {}

  // `free_key`: the key may open a new session. Otherwise its requests get the error that the episode is over. Does
  // nothing for an episode that is remembered already.
  void Remember(const std::string& key_hash, EndedEpisode ended, bool free_key);
  // v1::Episode::key_hash of an ended episode; null = it is not remembered.
  const std::string* KeyHashOf(const std::string& episode_id) const;
  // The end of the key's episode; null = none is remembered, or the key is free.
  const EndedEpisode* OfKey(const std::string& key_hash) const;

 private:
  const int most_;
  std::unordered_map<std::string, EndedEpisode> by_key_;
  std::unordered_map<std::string, std::string> keys_;  // v1::Episode::key_hash, by episode id
  std::deque<std::string> order_;                      // episode ids, the oldest end first
};

}  // namespace ingot::gateway
