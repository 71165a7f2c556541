// A VersionWriter stores a run's versions as objects and moves the object `live` (version_layout.h). One is the trainer's,
// for all engines that read the store: the first engine's sink that hands a version over stores it.
//
//   Publish(delta) --> store delta, move live --> now and then, beside: store anchor, move live, remove old objects
//
// Of a delta whose shards the trainer's ranks have stored (EncodedDelta::stored) it stores the manifest alone. Anchors come
// from the ranks then too, with the delta.
//
//   route of `live`:  anchor  delta  delta  anchor  delta  delta      a new anchor ends the steps before the last one
//                     |                     '- whoever holds none of the versions begins here
//                     '- engines that lag find their way from here
//
// An object is removed when no route names it, and `live` is as this writer left it. A reader that misses one reads `live`
// again.
//
// Every move of `live` names the content that it replaces, so an earlier trainer that still runs is refused.
// Thread safe; calls block, one after the other, and the anchors are made by a thread of the writer.
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
  bool rank_shards = false;  // the ranks of the trainer store shards of versions beside this
  int anchor_every = 16;     // deltas after an anchor, before the next one is made; >= 1
  CodecOptions codec = {};   // of anchors

  absl::Status Validate() const;
};

// FAILED_PRECONDITION: the store has versions of another run of this name.
absl::Status OtherRun(const ObjectStore& store, const std::string& run);

class VersionWriter {
 public:
  // The newest version of this process, of which anchors are made. Null = none yet.
  using Newest = std::function<std::shared_ptr<const Snapshot>()>;

  // Takes over what the run left in the store, and refuses an earlier trainer from here on. Errors as OtherRun.
  static absl::StatusOr<std::unique_ptr<VersionWriter>> Open(std::shared_ptr<ObjectStore> store, WriterOptions options,
                                                             Newest newest);

  // Stores the version unless it is stored already, and makes it the newest, to be retained if the delta says so. Returns
  // the sequence of `live` that names it. FAILED_PRECONDITION: the base of the delta is not the newest, so that a full copy
  // is needed; or another trainer moved `live`. `anchor`: a full copy is stored again, beside or over what is there.
  absl::StatusOr<int64_t> Publish(const EncodedDelta& delta, bool anchor);
  // Stores the full copy of a version unless there is a way to it, to be held beside the newest.
  absl::StatusOr<int64_t> HoldBeside(const EncodedDelta& full);
  // The version need not be held any more. Returns the sequence of `live` that no longer names it.
  absl::StatusOr<int64_t> Release(int64_t version);

  // The newest version of `live`, from which the next delta is to lead; version -1 = none.
  HeldVersion newest() const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the ranks of the trainer are to store a full copy beside the next delta.
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
  // FAILED_PRECONDITION: `live` is another than this writer moved last.
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
  std::string tag_ ABSL_GUARDED_BY(mu_);        // of `live`; empty = there is none
  std::string attempted_ ABSL_GUARDED_BY(mu_);  // the content that a failed move may have left
  bool making_anchor_ ABSL_GUARDED_BY(mu_) = false;
  bool anchor_wanted_ ABSL_GUARDED_BY(mu_) = false;  // an engine cannot use the objects of the newest version
  base::Executor anchors_;                           // one thread; last: its task ends before the rest goes
};

}  // namespace ingot::weights
