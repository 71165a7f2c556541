// Manages a run's folder, ROOT/NAME, which contains the effective configuration, metrics, checkpoints, pool, and logs.
// RunDir holds the run's lock, so two processes cannot drive the same run. Not thread safe.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace ingot::app {

enum class IfExists { kFail, kReplace, kResume };

// Returns FAILED_PRECONDITION if the run's folder has another Ingot version's format. A folder without the file
// `format` has format 1, the first one.
absl::Status CheckRunFormat(const std::string& path);

// Prevents two launchers from working on the same run. A launcher acquires the lock before it checks whether the run
// has a job, and holds it until it has submitted its own job.
class LaunchLock {
 public:
  // Creates the folder ROOT/NAME if it is missing. Returns FAILED_PRECONDITION if another launcher holds the lock.
  static absl::StatusOr<LaunchLock> Acquire(const std::string& root, const std::string& name);

  LaunchLock(LaunchLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LaunchLock& operator=(LaunchLock&&) = delete;
  ~LaunchLock();

 private:
  explicit LaunchLock(int fd) : fd_(fd) {}

  int fd_;
};

// Returns INVALID_ARGUMENT if `name` is not a valid folder name.
absl::Status CheckRunName(const std::string& name);

class RunDir {
 public:
  // Creates ROOT/NAME or, depending on `if_exists`, opens an existing run. A folder with only a configuration and logs
  // does not count as a run, because its start failed (for example, because a port was in use or there was not enough
  // memory).
  //
  // Returns ALREADY_EXISTS, with advice, if there is a run (kFail). Returns FAILED_PRECONDITION if
  // - another process holds the run.
  // - a job that replaces the run may have been submitted.
  // - config.yaml is missing, so the folder may be something else (kReplace).
  // - the run has another Ingot version's format (kResume).
  //
  // kReplace moves the old run to a folder inside ROOT/NAME and prints a line to stderr. DropReplaced deletes the old
  // run. Otherwise the destructor restores it and removes the new files, except logs, which move to logs/failed-start.
  // If the process dies first, the next Open restores the old run, or completes its deletion if that had started.
  // REQUIRES: no role is writing to the folder when the destructor restores the run.
  static absl::StatusOr<RunDir> Open(const std::string& root, const std::string& name, IfExists if_exists);

  // Same as Open, but for a job's launcher, which holds the LaunchLock. Also restores a run that HandOver set aside.
  // REQUIRES: the run has no job.
  static absl::StatusOr<RunDir> OpenForJob(const std::string& root, const std::string& name, IfExists if_exists);

  // Same as Open with kResume, but for the node that drives a job. A run set aside by HandOver is not restored, because
  // the job's trainer deletes it.
  static absl::StatusOr<RunDir> OpenInJob(const std::string& root, const std::string& name);

  // Opens the run for a role whose supervisor holds it. Creates missing folders and acquires no lock. Also returns
  // CheckRunFormat's errors.
  static absl::StatusOr<RunDir> Attach(const std::string& root, const std::string& name);

  // Returns whether a process currently holds the run ROOT/NAME. Returns NOT_FOUND if the folder does not exist.
  static absl::StatusOr<bool> IsHeld(const std::string& root, const std::string& name);

  RunDir(RunDir&& other) noexcept;
  RunDir& operator=(RunDir&&) = delete;
  ~RunDir();

  const std::string& path() const { return path_; }
  // Returns whether the folder contained a run before this process opened it.
  bool existed() const { return existed_; }
  // Returns whether the run that kReplace set aside still exists.
  bool replaces() const { return !replaced().empty(); }
  // Returns the folder of the run that kReplace set aside; empty = there is none.
  std::string replaced() const;
  // Deletes the run that was set aside. Called just before the new run's first step, after ports, registry, memory,
  // model, and data have passed their checks. A trainer role calls it for its supervisor, and a launcher calls it once
  // its job has been accepted. Does nothing if no run was set aside or another process is deleting it.
  absl::Status DropReplaced() const;
  // Makes the destructor leave a replaced run where it is and print its location. Used if other nodes may still write
  // to the folder. The next Open restores the run.
  void LeaveReplaced() { puts_back_ = false; }
  // Hands the run over to a job before submitting the job. A replaced run stays set aside until DropReplaced, TakeBack,
  // or an OpenForJob after this process has died. The job's own nodes never restore it.
  absl::Status HandOver();
  // Undoes HandOver if the job was rejected. Reacquires the run's lock, so the destructor restores a replaced run.
  // Returns FAILED_PRECONDITION if another process holds the run.
  absl::Status TakeBack();
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  // Checkpoints from the supervised stages. They are kept until one of the run's checkpoints includes their result.
  std::string stages() const { return path_ + "/stages"; }
  absl::Status DropStages() const;
  std::string pool() const { return path_ + "/pool"; }
  std::string logs() const { return path_ + "/logs"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }
  // Unix sockets of the run's processes. Only this user may enter the folder.
  std::string sockets() const { return path_ + "/sockets"; }

  // Writes a file in the run's folder. Once it returns OK, the file is durable. Until then, the old content remains.
  absl::Status WriteFile(const std::string& name, const std::string& text) const;

 private:
  enum class Opener { kHere, kLauncher, kNode };  // a process that runs here, a job's launcher, or one of a job's nodes

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
