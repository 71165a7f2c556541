// The weight versions that an engine has loaded: the newest and the retained versions. Plain state, not thread safe;
// Engine guards it with its lock. A removed version is returned, so that the caller can free it outside that lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "rollout/sequence.h"
#include "weights/snapshot.h"

namespace ingot::rollout {

// A version whose model is loaded; both are null before the first version.
struct LoadedVersion {
  std::shared_ptr<const WeightVersion> version;
  std::shared_ptr<const weights::Snapshot> snapshot;
};

class LoadedVersions {
 public:
  explicit LoadedVersions(int64_t max_retained) : max_retained_(max_retained) {}

  const LoadedVersion& newest() const { return newest_; }
  int64_t newest_number() const { return newest_.version == nullptr ? -1 : newest_.version->version; }
  LoadedVersion SetNewest(LoadedVersion next) { return std::exchange(newest_, std::move(next)); }

  // The weights that a pinned request would get, for every version.
  std::vector<const WeightVersion*> All() const;
  // The weights of one version. UNAVAILABLE: no weights are loaded yet. NOT_FOUND: the version is not held.
  absl::StatusOr<std::shared_ptr<const WeightVersion>> Pin(int64_t number) const;

  bool HasRoom(int64_t number) const;  // whether it can be retained
  bool Retains(int64_t number, uint64_t checksum) const;
  // False: a version with its number is already retained, and `version` keeps its value.
  bool Add(LoadedVersion&& version);
  // Replaces a retained version with the same number.
  LoadedVersion Retain(LoadedVersion version);
  // After SetNewest: removes a retained entry with the newest number and other weights, and with `retain` adds the
  // newest.
  LoadedVersion ReplaceRetained(bool retain);
  LoadedVersion Release(int64_t number);

 private:
  const int64_t max_retained_;
  LoadedVersion newest_;
  // By number. An entry with newest_'s number and other weights was pushed after newest_.
  std::map<int64_t, LoadedVersion> retained_;
};

}  // namespace ingot::rollout
