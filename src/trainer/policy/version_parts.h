// Versions that several ranks store, each the parameters that it owns (weights/stores/version_layout.h), so that none
// needs all of them.
//
//   rank 0   names the version ─┬─ encodes, writes shard-0 ─┬─ all are there ─▶ manifest of the shards
//   rank 1   names the version ─┴─ encodes, writes shard-1 ─┴─
//
// Holds this rank's part of the newest version, and of the one before until the next is stored: the shards of a version
// are a delta from it. A version has its number and the checksum of all parts as its name.
//
// Used by the thread of Ranks. Functions marked "together" are called by all ranks at the same place.
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
  // Not stored yet: see StoreIn. `policy` and `ranks` (null = one rank, which stores no parts) outlive this.
  VersionParts(Policy& policy, Ranks* ranks) : policy_(policy), ranks_(ranks) {}

  // Together. From now on the policy's versions are stored in `store`; it publishes in parts.
  void StoreIn(weights::VersionStore store);

  // Of rank 0: how the policy's version is stored, as a delta from `base` if the ranks still have it.
  StoreOrder OrderFor(const weights::HeldVersion& base, bool anchor) const;
  // Together. Stores the policy's version. On rank 0 returns it with the manifest of its shards, elsewhere null. Can be
  // called again after an error of a store. INTERNAL: a rank no longer has the base.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Store(const StoreOrder& order);

  // Together. Takes the policy's version, without storing it.
  absl::Status Take();
  // The checksum of the version that was taken last, all parts.
  uint64_t checksum() const { return part_.whole.checksum(); }
  // The version after the one before is stored: that one is not needed again.
  void DropBefore() { before_ = {}; }

 private:
  // This rank's part of a version.
  struct Part {
    v1::Manifest whole;                            // of the version
    std::shared_ptr<const weights::Snapshot> own;  // null = none
    std::vector<int32_t> members;                  // indices of its tensors in `whole`

    bool Matches(const weights::HeldVersion& name) const;
  };

  // Stores this rank's shard of the taken version: a delta from the version before, or a full copy.
  absl::StatusOr<v1::StoredShard> StoreShard(const StoreOrder& order, bool full) const;

  Policy& policy_;
  Ranks* const ranks_;
  std::optional<weights::VersionStore> store_;
  Part part_, before_;  // of the newest requested version, and of the previous one
};

}  // namespace ingot::trainer
