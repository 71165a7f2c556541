// Stores the snapshots that a runner holds, by id. They come from trunks and from episodes whose owners requested a
// snapshot. The runner keeps them until their group is in a batch or closed, because until then, a leaf may have to
// start from one again. Thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

class HeldSnapshots {
 public:
  using Files = std::shared_ptr<const sandbox::Snapshot>;

  explicit HeldSnapshots(size_t most) : most_(most) {}

  // Returns RESOURCE_EXHAUSTED if `most` snapshots are already held.
  absl::Status Add(const std::string& id, int64_t group_id, Files files) {
    base::MutexLock lock(mu_);
    if (held_.size() >= most_ && !held_.contains(id)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the runner holds ", most_, " snapshots, its limit (agents.max_snapshots)"));
    }
    held_[id] = {group_id, std::move(files)};
    return absl::OkStatus();
  }
  Files Find(const std::string& id) const {  // null = not held
    base::MutexLock lock(mu_);
    const auto found = held_.find(id);
    return found == held_.end() ? nullptr : found->second.files;
  }
  // Releases the snapshots of groups below `oldest_group`.
  void Free(int64_t oldest_group) {
    std::vector<Files> freed;  // destroyed after unlocking, because removing files takes time
    base::MutexLock lock(mu_);
    for (auto held = held_.begin(); held != held_.end();) {
      if (held->second.group_id >= oldest_group) {
        ++held;
        continue;
      }
      freed.push_back(std::move(held->second.files));
      held = held_.erase(held);
    }
  }
  size_t size() const {
    base::MutexLock lock(mu_);
    return held_.size();
  }

 private:
  struct HeldSnapshot {
    int64_t group_id = 0;
    Files files;
  };
  const size_t most_;
  mutable base::Mutex mu_;
  std::map<std::string, HeldSnapshot> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::agents
