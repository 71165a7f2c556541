// Stores a run's versions as objects and updates the `live` object (version_layout.h). The trainer has one writer for
// all engines that read the store; the first sink to send a version stores it.
//
//   Publish(delta) --> store delta, move live --> sometimes, in parallel: store anchor, move live, delete old objects
//
// If the trainer's ranks have stored a delta's shards (EncodedDelta::stored), the writer stores only the manifest. The
// ranks then also create the anchors, together with the delta.
//
//   route of `live`:  anchor  delta  delta  anchor  delta  delta      a new anchor drops the steps before the last one
//                     |                     '- an engine without any of the versions starts here
//                     '- lagging engines continue from here
//
// An object is deleted if no route references it and `live` has not changed since this writer last moved it. A reader
// that finds an object missing rereads `live`.
//
// Every move of `live` specifies the content that it replaces, so the store rejects an earlier trainer that is still
// running. Thread safe. Calls are serialized and block. The writer has its own thread for creating anchors.
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
  int shards = 1;            // shards per version; 1 to kMaxShards
  bool rank_shards = false;  // the trainer's ranks store version shards in parallel with this writer
  int anchor_every = 16;     // deltas between anchors; >= 1
  CodecOptions codec = {};   // for anchors

  absl::Status Validate() const;
};

// Returns a FAILED_PRECONDITION error: the store has versions from another run with this name.
absl::Status OtherRun(const ObjectStore& store, const std::string& run);

class VersionWriter {
 public:
  // Returns this process's newest version, from which anchors are made. Null = none yet.
  using Newest = std::function<std::shared_ptr<const Snapshot>()>;

  // Takes over the run's objects in the store, and locks out an earlier trainer. Same errors as OtherRun.
  static absl::StatusOr<std::unique_ptr<VersionWriter>> Open(std::shared_ptr<ObjectStore> store, WriterOptions options,
                                                             Newest newest);

  // Stores the version unless it is already stored, and makes it the newest. Retains it if the delta requests that.
  // Returns the sequence number of the `live` object that includes it. Returns FAILED_PRECONDITION if the base of the
  // delta is not the newest version, so that a full copy is needed, or if another trainer moved `live`. `anchor` =
  // stores a full copy again, in addition to or over existing objects.
  absl::StatusOr<int64_t> Publish(const EncodedDelta& delta, bool anchor);
  // Stores a version's full copy unless a route leads to it. Engines keep it in addition to the newest version.
  absl::StatusOr<int64_t> HoldVersion(const EncodedDelta& full);
  // Allows engines to drop the version. Returns the sequence number of the `live` object that no longer includes it.
  absl::StatusOr<int64_t> Release(int64_t version);

  // Returns the newest version in `live`, which is the base for the next delta. Version -1 = none.
  HeldVersion newest() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether the trainer's ranks must store a full copy with the next delta.
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
  // Returns FAILED_PRECONDITION if `live` has changed since this writer last moved it.
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
  std::string tag_ ABSL_GUARDED_BY(mu_);        // tag of `live`; empty = no object
  std::string attempted_ ABSL_GUARDED_BY(mu_);  // content that a failed update may have written
  bool making_anchor_ ABSL_GUARDED_BY(mu_) = false;
  bool anchor_wanted_ ABSL_GUARDED_BY(mu_) = false;  // an engine cannot use the newest version's objects
  base::Executor anchors_;                           // one thread; must be last, so that it is destroyed first
};

}  // namespace ingot::weights
