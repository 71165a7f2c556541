// Stores the weight versions that an engine has loaded: the newest one, the retained ones, and earlier ones for episodes
// that began with them. Not thread safe: Engine
// holds its lock while calling it. Removed versions are returned so that the caller can free them without holding that
// lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "rollout/engine/sequence.h"
#include "weights/snapshot.h"

namespace ingot::rollout {

// A version with its loaded model. Both are null before the first version.
struct LoadedVersion {
  std::shared_ptr<const WeightVersion> version;
  std::shared_ptr<const weights::Snapshot> snapshot;
};

class LoadedVersions {
 public:
  // `max_earlier` is the number of versions kept for episodes. They are not among All, and cannot be pinned.
  explicit LoadedVersions(int64_t max_retained, int64_t max_earlier = 0)
      : max_retained_(max_retained), max_earlier_(max_earlier) {}

  const LoadedVersion& newest() const { return newest_; }
  int64_t newest_number() const { return newest_.version == nullptr ? -1 : newest_.version->version; }
  // Returns the versions that are no longer kept. After a swap to an older version, they include all later versions.
  std::vector<LoadedVersion> SetNewest(LoadedVersion next);

  // Returns, for each version, the weights that a pinned request would get.
  std::vector<const WeightVersion*> All() const;
  // Returns the weights for one version, UNAVAILABLE if no weights are loaded yet, or NOT_FOUND if the engine does not
  // have the version.
  absl::StatusOr<std::shared_ptr<const WeightVersion>> Pin(int64_t number) const;

  // Returns the weights for a version that an episode prefers: the newest, an earlier one, or an older retained one. null
  // = the engine does not have them.
  std::shared_ptr<const WeightVersion> Prefer(int64_t number) const;

  bool HasRoom(int64_t number) const;  // true = this version can be retained
  bool Retains(int64_t number, uint64_t checksum) const;
  // Returns false and leaves `version` unchanged if a version with its number is already retained.
  bool Add(LoadedVersion&& version);
  // Replaces any retained version with the same number and returns the old one.
  LoadedVersion Retain(LoadedVersion version);
  // Call after SetNewest. Removes and returns a retained version that has the newest number but different weights. If
  // `retain` is true, also retains the newest version.
  LoadedVersion ReplaceRetained(bool retain);
  LoadedVersion Release(int64_t number);

 private:
  const int64_t max_retained_, max_earlier_;
  LoadedVersion newest_;
  std::deque<LoadedVersion> earlier_;  // for episodes, latest first; all are older than newest_
  // By version number. An entry with the same number as newest_ but different weights was pushed after newest_.
  std::map<int64_t, LoadedVersion> retained_;
};

}  // namespace ingot::rollout
