// A VersionWriter stores a run's versions as objects and moves the object `live` (version_layout.h). The trainer has
// one writer for all engines that read the store: the first engine's sink that passes on a version stores it.
//
//   Publish(delta) --> store delta, move live --> sometimes, in parallel: store anchor, move live, remove old objects
//
// If the trainer's ranks have stored a delta's shards (EncodedDelta::stored), the writer stores only the manifest. Then
// the ranks also make the anchors, with the delta.
//
//   route of `live`:  anchor  delta  delta  anchor  delta  delta      a new anchor ends the steps before the last one
//                     |                     '- an engine without any of the versions begins here
//                     '- lagging engines continue from here
//
// An object is removed when no route names it and `live` is as this writer left it. A reader that finds an object
// missing reads `live` again.
//
// Every move of `live` names the content that it replaces, so the store rejects an earlier trainer that still runs.
// Thread safe; calls block, one after the other. A thread of the writer makes the anchors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/executor.h"
#include "base/mutex.h"
#include "weights/stores/version_layout.h"

namespace ingot::weights {

struct WriterOptions {
  std::string run;
  std::string history;       // LiveVersions.history, not empty
  int shards = 1;            // of one version; 1 to kMaxShards
  bool rank_shards = false;  // the trainer's ranks store shards of versions in parallel with this writer
  int anchor_every = 16;     // deltas between two anchors; >= 1
  CodecOptions codec = {};   // of anchors

  absl::Status Validate() const;
};

// FAILED_PRECONDITION: the store has versions of another run of this name.
absl::Status OtherRun(const ObjectStore& store, const std::string& run);

class VersionWriter {
 public:
  // The newest version of this process, the source of anchors. Null = none yet.
  using Newest = std::function<std::shared_ptr<const Snapshot>()>;

  // Takes over the run's objects in the store, and locks out an earlier trainer. Errors as OtherRun.
  static absl::StatusOr<std::unique_ptr<VersionWriter>> Open(std::shared_ptr<ObjectStore> store, WriterOptions options,
                                                             Newest newest);

  // Stores the version unless it is stored already, and makes it the newest, retained if the delta says so. Returns the
  // sequence of `live` that names it. FAILED_PRECONDITION: the base of the delta is not the newest, so a full copy is
  // needed; or another trainer moved `live`. `anchor`: store a full copy again, next to or over existing objects.
  absl::StatusOr<int64_t> Publish(const EncodedDelta& delta, bool anchor);
  // Stores the full copy of a version unless a route leads to it. Engines hold it next to the newest.
  absl::StatusOr<int64_t> HoldBeside(const EncodedDelta& full);
  // Engines may drop the version. Returns the sequence of `live` that no longer names it.
  absl::StatusOr<int64_t> Release(int64_t version);

  // The newest version of `live`, the base of the next delta; version -1 = none.
  HeldVersion newest() const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the trainer's ranks must store a full copy with the next delta.
  bool AnchorDue() const ABSL_LOCKS_EXCLUDED(mu_);

  ObjectStore& store() { return *store_; }
  const std::string& run() const { return options_.run; }
  const std::string& history() const { return options_.history; }

 private:
  VersionWriter(std::shared_ptr<ObjectStore> store, WriterOptions options, Newest newest);

  absl::StatusOr<v1::VersionRoute> RouteOfShards(const EncodedDelta& delta, bool anchor)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<v1::VersionRoute> RouteOf(const EncodedDelta& delta, bool anchor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool FindRoute(const HeldVersion& version, v1::VersionRoute* route) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<int64_t> MoveLive(v1::LiveVersions next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // FAILED_PRECONDITION: `live` has changed since this writer's last move.
  absl::Status CheckLiveIsOwn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MakeAnchorIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeAnchor(const Snapshot& snapshot) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status RemoveOld() ABSL_LOCKS_EXCLUDED(mu_);
  std::set<std::string> NeededFolders() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<ObjectStore> store_;
  const WriterOptions options_;
  const Newest newest_;
  mutable base::Mutex mu_;
  v1::LiveVersions live_ ABSL_GUARDED_BY(mu_);
  std::string tag_ ABSL_GUARDED_BY(mu_);        // of `live`; empty = no object
  std::string attempted_ ABSL_GUARDED_BY(mu_);  // the content that a failed move may have left
  bool making_anchor_ ABSL_GUARDED_BY(mu_) = false;
  bool anchor_wanted_ ABSL_GUARDED_BY(mu_) = false;  // an engine cannot use the objects of the newest version
  base::Executor anchors_;                           // one thread; last: its task ends before the other members
};

}  // namespace ingot::weights
