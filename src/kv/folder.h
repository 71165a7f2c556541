// Manages a file store's folder: its paths, its size, and removals. Any process may be killed at any time.
//
//   lock, usage          the size of all chunks, changed under a file lock (flock); never less than the true size
//   clock                touched to read the file system's time, which is the same for all machines
//   roots/ROOT/root.json the root's fields (chunk.h) as JSON
//   roots/ROOT/held      touched by the processes that hold the root
//   roots/ROOT/XX/KEY.kv chunks; XX is the first byte of KEY, and the time of last use is the modification time
//   tmp/HOST.PID.N       a chunk that is being written; HOST also names the boot and the PID namespace
//   trash/               roots that are being removed
//   corrupt/N            the last few chunks that had wrong bytes
//
// Thread safe. All functions block on I/O.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "kv/chunk.h"

namespace ingot::kv {

class StoreFolder {
 public:
  // Creates missing files and folders. Returns UNAVAILABLE, naming the path, if the folder cannot be written or locked.
  static absl::StatusOr<std::unique_ptr<StoreFolder>> Open(const std::string& path, int64_t max_bytes);

  std::string PathOf(const Chunk& chunk) const;
  // Returns OK if the root's root.json is `text`, NOT_FOUND if there is none, and DATA_LOSS if it differs.
  absl::Status CheckRoot(const base::Key128& root, const std::string& text) const;

  // Returns a new path in tmp/.
  std::string NewDraft();
  // Renames a draft of `bytes` bytes to the chunk's path. First removes the least recently used chunks if the store
  // would exceed max_bytes. If another process has published the chunk, removes the draft. Always consumes the draft.
  absl::Status Publish(const std::string& draft, int64_t bytes, const Root& root, const Chunk& chunk);

  // Moves a chunk with wrong bytes to corrupt/.
  void SetAside(const Chunk& chunk);

  // Marks a root as held now. Does nothing if the store has no chunks for it.
  absl::Status Keep(const base::Key128& root);
  // Removes the roots that no process has kept for `seconds`.
  absl::Status Retire(double seconds);
  // Removes files left by killed processes in tmp/ and trash/: drafts that are old or whose process is gone.
  absl::Status Clean();

  int64_t bytes() const { return bytes_; }  // size of all chunks when this process last published one
  int64_t retired_bytes() const { return retired_bytes_; }
  int64_t evicted_bytes() const { return evicted_bytes_; }

 private:
  StoreFolder(std::string path, int64_t max_bytes);

  std::string RootDir(const base::Key128& root) const;
  std::string Path(std::string_view name) const;
  std::string NewTrash();  // a new path in trash/
  // Makes the root's folder. Replaces one whose root.json is torn.
  absl::Status MakeRoot(const Root& root, const base::Key128& key);
  // Returns the file system's time in seconds.
  absl::StatusOr<double> Now() const;
  // The following require the lock.
  int64_t ReadUsage() const;  // counts the chunks if the file is missing or wrong
  absl::Status WriteUsage(int64_t bytes);
  int64_t CountBytes() const;
  absl::StatusOr<int64_t> MakeRoom(int64_t needed);

  const std::string path_;
  const int64_t max_bytes_;
  const std::string host_;
  // Numbers the drafts of all stores in this process, so that their names in tmp/ and trash/ are unique.
  static inline std::atomic<uint64_t> drafts_{0};
  std::atomic<int64_t> bytes_{0}, retired_bytes_{0}, evicted_bytes_{0}, corrupt_{0};
};

}  // namespace ingot::kv
