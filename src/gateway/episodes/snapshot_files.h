// A FileTransfer carries the archive of a snapshot's files from the runner that holds them to one HTTP client. Neither
// waits for the other for long: the runner's parts wait in a small buffer, which the client's connection empties.
//
//   GET .../files --Open--> ask --NextSnapshot--> runner --SendSnapshotFiles--> Put --> TakeNews --> client
//
// Thread safe. `wake` is called without a lock, from any thread, after each change that lets TakeNews return something
// new.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class FileTransfer {
 public:
  struct News {
    std::string data;  // the next bytes
    bool done = false;
    absl::Status status;  // with `done`: an error if the archive is incomplete
  };

  FileTransfer(const base::Clock& clock, std::string id, std::function<void()> wake)
      : clock_(clock), id_(std::move(id)), wake_(std::move(wake)), last_(clock.Now()) {}

  const std::string& id() const { return id_; }
  // For the runner. Blocks while the buffer is full, then fails after `wait` with RESOURCE_EXHAUSTED. NOT_FOUND: the
  // client is gone, or the archive is complete. INVALID_ARGUMENT: an earlier part is missing, or this part is too
  // large.
  absl::Status Put(const v1::SnapshotFilesPart& part, std::chrono::nanoseconds wait);
  // For the connection: the data since the last call.
  News TakeNews();
  // The reader is gone.
  void Abandon();
  // Ends the transfer with an error, unless the archive is complete.
  void Break(absl::Status why);
  // Breaks a transfer whose runner has sent nothing since `before` although the buffer was not full.
  void BreakIfSilentSince(std::chrono::nanoseconds before);

 private:
  const base::Clock& clock_;
  const std::string id_;
  const std::function<void()> wake_;
  base::Mutex mu_;
  base::CondVar emptied_;
  std::string buffer_ ABSL_GUARDED_BY(mu_);
  int64_t received_ ABSL_GUARDED_BY(mu_) = 0;  // bytes of the archive
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_ ABSL_GUARDED_BY(mu_);  // time that the runner sent or the client read
};

// The running transfers. Thread safe.
class FileTransfers {
 public:
  static constexpr size_t kMost = 64;

  explicit FileTransfers(const base::Clock& clock) : clock_(clock) {}

  // RESOURCE_EXHAUSTED: there are kMost. UNAVAILABLE: closed. The transfer ends with its last holder.
  absl::StatusOr<std::shared_ptr<FileTransfer>> Open(std::function<void()> wake);
  std::shared_ptr<FileTransfer> Find(const std::string& id);  // null = it is over
  void BreakSilent(std::chrono::nanoseconds timeout);
  void Close();

 private:
  const base::Clock& clock_;
  base::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, std::weak_ptr<FileTransfer>> transfers_ ABSL_GUARDED_BY(mu_);  // by id
};

}  // namespace ingot::gateway
