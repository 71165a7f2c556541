// RunDir is the folder of one run, ROOT/NAME: effective configuration, metrics, checkpoints, pool and logs. It holds
// the run's lock, so that two processes cannot drive one run. Not thread safe.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace ingot::app {

enum class IfExists { kFail, kReplace, kResume };

// FAILED_PRECONDITION: the run folder has the format of another version of Ingot. A folder without the file `format` is
// of format 1, the first.
absl::Status CheckRunFormat(const std::string& path);

// Keeps other launchers away from a run. A launcher takes the lock before it asks whether the run has a job, and holds
// it until its own job is submitted.
class LaunchLock {
 public:
  // Makes the folder ROOT/NAME if it is missing. FAILED_PRECONDITION: another launcher holds the lock.
  static absl::StatusOr<LaunchLock> Acquire(const std::string& root, const std::string& name);

  LaunchLock(LaunchLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LaunchLock& operator=(LaunchLock&&) = delete;
  ~LaunchLock();

 private:
  explicit LaunchLock(int fd) : fd_(fd) {}

  int fd_;
};

// INVALID_ARGUMENT: it is not the name of one folder.
absl::Status CheckRunName(const std::string& name);

class RunDir {
 public:
  // Creates ROOT/NAME, or opens an existing run as `if_exists` says. ALREADY_EXISTS (kFail) says how to proceed;
  // FAILED_PRECONDITION: another process holds the run, or (kReplace) its config.yaml is gone, so that the folder may
  // be something else.
  //
  // A folder with only a configuration and logs does not count as a run: its start failed (a port in use, no memory).
  //
  // FAILED_PRECONDITION also where a job may be submitted that replaces the run, and (kResume) where the run has the
  // format of another version of Ingot.
  //
  // kReplace moves the old run into its own folder within ROOT/NAME, and prints a line about it on stderr.
  // DropReplaced removes it. Without DropReplaced the destructor puts it back, in place of the start's files, whose
  // logs stay in logs/failed-start; REQUIRES: no role writes there. If the process dies in between, the next
  // Open puts it back. A removal that began is completed.
  static absl::StatusOr<RunDir> Open(const std::string& root, const std::string& name, IfExists if_exists);

  // For the launcher of a job, which holds the LaunchLock: as Open, and a run that HandOver left aside is put back.
  // REQUIRES: no job of the run is there.
  static absl::StatusOr<RunDir> OpenForJob(const std::string& root, const std::string& name, IfExists if_exists);

  // For the node that drives a job: as kResume, but a run that HandOver left aside stays there, as its trainer drops
  // it.
  static absl::StatusOr<RunDir> OpenInJob(const std::string& root, const std::string& name);

  // For a role whose supervisor holds the run: makes missing folders, takes no lock. Errors are CheckRunFormat's, too.
  static absl::StatusOr<RunDir> Attach(const std::string& root, const std::string& name);

  // Whether a process holds the run ROOT/NAME now. NOT_FOUND: there is no such folder.
  static absl::StatusOr<bool> IsHeld(const std::string& root, const std::string& name);

  RunDir(RunDir&& other) noexcept;
  RunDir& operator=(RunDir&&) = delete;
  ~RunDir();

  const std::string& path() const { return path_; }
  // Whether the folder held a run before this process opened it.
  bool existed() const { return existed_; }
  // Whether the run that kReplace found is still kept.
  bool replaces() const { return !replaced().empty(); }
  // The folder with the run that kReplace found; empty = none is kept.
  std::string replaced() const;
  // Called when the new run is about to take its first step: ports, registry, memory, model and data have passed their
  // checks. A trainer's role calls it for its supervisor, and a launcher once its job was accepted. Does nothing if no
  // run is kept, or another process drops it.
  absl::Status DropReplaced() const;
  // Other nodes may write into the folder: the destructor leaves a replaced run aside, and prints where. The next Open
  // puts it back.
  void LeaveReplaced() { puts_back_ = false; }
  // Hands the run over to a job before its submission. A replaced run stays aside until DropReplaced or TakeBack, or an
  // OpenForJob after the death of this process. The job's own nodes never put it back.
  absl::Status HandOver();
  // After HandOver, if the job was rejected: holds the run again, so that the destructor puts a replaced run back.
  // FAILED_PRECONDITION: another process holds the run.
  absl::Status TakeBack();
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  // Checkpoints of the supervised stages, until a checkpoint of the run holds their result.
  std::string stages() const { return path_ + "/stages"; }
  absl::Status DropStages() const;
  std::string pool() const { return path_ + "/pool"; }
  std::string logs() const { return path_ + "/logs"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }
  // Socket files of the run's processes. Only this user may enter the folder.
  std::string sockets() const { return path_ + "/sockets"; }

  // Writes a file of the run. It is durable on OK; until then the old content stays.
  absl::Status WriteFile(const std::string& name, const std::string& text) const;

 private:
  enum class Opener { kHere, kLauncher, kNode };  // a process that runs here, a job's launcher, a job's node

  static absl::StatusOr<RunDir> OpenAs(const std::string& root, const std::string& name, IfExists if_exists,
                                       Opener opener);
  absl::Status MakeFolders() const;
  absl::Status WriteFormat() const;
  void EndReplacement() const;
  RunDir(std::string path, int lock_fd, bool existed) : path_(std::move(path)), lock_fd_(lock_fd), existed_(existed) {}

  std::string path_;
  int lock_fd_ = -1;
  bool existed_ = false;
  bool puts_back_ = true;
};

}  // namespace ingot::app
