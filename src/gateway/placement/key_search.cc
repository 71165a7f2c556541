#include "gateway/placement/key_search.h"

#include <utility>

#include "gateway/api/api_error.h"

namespace ingot::gateway {

absl::StatusOr<KeySearch::Found> KeySearch::ReadAll() {
  Found found;
  for (const v1::EpisodePurpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    for (datapool::EpisodePages pages(*pool_, purpose, 0, -1, true); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
      for (const v1::Episode& episode : page.episodes()) found[episode.key_hash()] = episode.episode_id();
    }
  }
  return found;
}

absl::StatusOr<std::string> KeySearch::Find(const std::vector<std::string>& hashes) {
  if (pool_ == nullptr) return std::string();
  std::shared_ptr<const absl::StatusOr<Found>> seen;
  {
    base::MutexLock lock(mu_);
    const int64_t next = begun_ + 1;  // a scan that began earlier may miss a newly opened episode
    while (ended_ < next) {
      if (reading_) {
        changed_.Wait(mu_);
        continue;
      }
      reading_ = true;
      const int64_t number = ++begun_;
      mu_.Unlock();
      auto read = std::make_shared<const absl::StatusOr<Found>>(ReadAll());
      mu_.Lock();
      reading_ = false;
      ended_ = number;
      last_ = std::move(read);
      changed_.SignalAll();
    }
    seen = last_;
  }
  if (!seen->ok()) return seen->status();
  for (const std::string& hash : hashes) {
    if (const auto episode = (*seen)->find(hash); episode != (*seen)->end()) return episode->second;
  }
  return std::string();
}

}  // namespace ingot::gateway
