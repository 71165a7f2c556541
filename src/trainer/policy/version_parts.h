// Stores versions from several ranks. Each rank stores the parameters that it owns (weights/stores/version_layout.h),
// so no rank needs all of them.
//
//   rank 0   names the version ─┬─ encodes, writes shard-0 ─┬─ all are stored ─▶ manifest of the shards
//   rank 1   names the version ─┴─ encodes, writes shard-1 ─┴─
//
// Holds this rank's part of the newest version. Also holds its part of the previous version until the newest is stored,
// because shards are a delta from the previous version. A version is named by its number and the checksum of all parts.
//
// Used on the thread that uses Ranks. All ranks call functions marked "collective" at the same point.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "proto/weights.pb.h"
#include "trainer/parallel/rank_orders.h"
#include "trainer/parallel/ranks.h"
#include "trainer/policy/policy.h"
#include "weights/snapshot.h"
#include "weights/stores/version_layout.h"

namespace ingot::trainer {

class VersionParts {
 public:
  // Does not store versions until StoreIn is called. `policy` and `ranks` must outlive this object. Null `ranks` = one
  // rank without parts.
  VersionParts(Policy& policy, Ranks* ranks) : policy_(policy), ranks_(ranks) {}

  // Collective. Stores the policy's versions in `store` from now on. The policy publishes in parts.
  void StoreIn(weights::VersionStore store);

  // On rank 0, returns how to store the policy's version: as a delta from `base` if the ranks still have it.
  StoreOrder OrderFor(const weights::HeldVersion& base, bool anchor) const;
  // Collective. Stores the policy's version. Returns it with the manifest of its shards on rank 0, and null elsewhere.
  // May be called again after a store error. Returns INTERNAL if a rank no longer has the base.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Store(const StoreOrder& order);

  // Collective. Takes the policy's version without storing it.
  absl::Status Take();
  // Returns the checksum, over all parts, of the most recently taken version.
  uint64_t checksum() const { return part_.whole.checksum(); }
  // Drops the previous version, which is not needed once the newest is stored.
  void DropBefore() { before_ = {}; }

 private:
  struct Part {
    v1::Manifest whole;                            // the whole version's manifest
    std::shared_ptr<const weights::Snapshot> own;  // null = none
    std::vector<int32_t> members;                  // indices of this part's tensors in `whole`

    bool Matches(const weights::HeldVersion& name) const;
  };

  // Stores this rank's shard of the taken version: a delta from the previous version, or a full copy.
  absl::StatusOr<v1::StoredShard> StoreShard(const StoreOrder& order, bool full) const;

  Policy& policy_;
  Ranks* const ranks_;
  std::optional<weights::VersionStore> store_;
  Part part_, before_;  // the newest requested version and the previous one
};

}  // namespace ingot::trainer
