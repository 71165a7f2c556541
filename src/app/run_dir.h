// The folder of one run: runs/NAME/ with the effective configuration, metrics, checkpoints, the pool and logs. Holding
// a RunDir holds its lock, so that two processes cannot drive one run. Not thread safe.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::app {

enum class IfExists { kFail, kReplace, kResume };

class RunDir {
 public:
  // Creates ROOT/NAME or takes an existing one as `if_exists` says. A run whose first start failed before it had begun
  // (a port in use, no memory) has left a configuration and logs: it does not exist. A run that is replaced is gone as
  // a whole: where a process died on the way, the next one to open the folder ends it, whatever its `if_exists`.
  // ALREADY_EXISTS (kFail) says how to go on; FAILED_PRECONDITION if another process holds the run.
  static absl::StatusOr<RunDir> Open(const std::string& root, const std::string& name, IfExists if_exists);

  // For a role whose supervisor holds the run: makes missing folders, takes no lock.
  static absl::StatusOr<RunDir> Attach(const std::string& root, const std::string& name);

  RunDir(RunDir&& other) noexcept;
  RunDir& operator=(RunDir&&) = delete;
  ~RunDir();

  const std::string& path() const { return path_; }
  // It held a run before this process opened it.
  bool existed() const { return existed_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  // Of the supervised stages alone, until a checkpoint of the run holds what they made.
  std::string stages() const { return path_ + "/stages"; }
  absl::Status DropStages() const;
  std::string pool() const { return path_ + "/pool"; }
  std::string logs() const { return path_ + "/logs"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }

  // On disk when it returns OK; until then the old content stands.
  absl::Status WriteFile(const std::string& name, const std::string& text) const;

 private:
  absl::Status MakeFolders() const;
  RunDir(std::string path, int lock_fd, bool existed) : path_(std::move(path)), lock_fd_(lock_fd), existed_(existed) {}

  std::string path_;
  int lock_fd_ = -1;
  bool existed_ = false;
};

}  // namespace ingot::app
