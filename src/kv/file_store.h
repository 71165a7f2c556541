// Implements Store in a directory on any POSIX file system, including tmpfs. Several machines may share it. The file
// system must support flock(2) between its machines.
//
// A chunk is written to tmp/ and renamed, without fsync. If the machine crashes, a torn file fails its checksum and
// counts as a miss. After an I/O error, the store is off for a while (off_after_errors.h), and every call returns
// UNAVAILABLE at once.
//
// A thread marks the held roots and removes old ones (folder.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kv/folder.h"
#include "kv/off_after_errors.h"
#include "kv/options.h"
#include "kv/store.h"

namespace ingot::kv {

class FileStore final : public Store {
 public:
  // `clock` must outlive the store. Returns UNAVAILABLE with the path if the directory cannot be written or locked, and
  // INVALID_ARGUMENT if an option is out of range.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const Options& options,
                                                         const base::Clock& clock = base::Clock::Real());
  ~FileStore() override;

  int64_t Longest(const Root& root, std::span<const Chunk> chain) override;
  absl::Status Get(const Root& root, const Chunk& chunk, const PlanesToRead& planes) override;
  absl::Status Put(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) override;
  void Hold(std::vector<base::Key128> roots) override;
  StoreStats stats() const override;

  // Marks the held roots, and removes old roots and files left by killed processes. Called every few seconds.
  absl::Status Maintain();

 private:
  FileStore(const Options& options, std::unique_ptr<StoreFolder> folder, const base::Clock& clock);

  absl::Status CheckRoot(const Root& root, const base::Key128& key);
  absl::Status Read(const Root& root, const Chunk& chunk, const PlanesToRead& planes);
  absl::Status Write(const Root& root, const Chunk& chunk, const PlanesToWrite& planes);

  const Options options_;
  const std::unique_ptr<StoreFolder> folder_;
  OffAfterErrors errors_;
  mutable base::Mutex mu_;
  std::vector<base::Key128> held_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<base::Key128, bool, base::Key128Hash> right_roots_ ABSL_GUARDED_BY(mu_);  // checked root.json
  StoreStats stats_ ABSL_GUARDED_BY(mu_);
  base::Executor maintenance_;  // one thread; it and its timer stop before other members are destroyed
  base::Timer timer_;
};

}  // namespace ingot::kv
