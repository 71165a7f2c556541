// Transfers the archive of a snapshot's files from a runner to an HTTP client. A small buffer decouples the two sides:
// the runner fills it, and the client's connection empties it.
//
//   GET .../files --Open--> ask --NextSnapshot--> runner --SendSnapshotFiles--> Put --> TakeNews --> client
//
// Thread safe. `wake` is called on any thread, without a lock held, when TakeNews may have new data.
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
    absl::Status status;  // if done: an error if the archive is incomplete
  };

  FileTransfer(const base::Clock& clock, std::string id, std::function<void()> wake)
      : clock_(clock), id_(std::move(id)), wake_(std::move(wake)), last_(clock.Now()) {}

  const std::string& id() const { return id_; }
  // Called on behalf of the runner. Blocks while the buffer is full, and fails with RESOURCE_EXHAUSTED after `wait`.
  // Returns NOT_FOUND if the client is gone or the archive is complete, or INVALID_ARGUMENT if an earlier part is
  // missing or this part is too large.
  absl::Status Put(const v1::SnapshotFilesPart& part, std::chrono::nanoseconds wait);
  // Called by the connection. Returns the data since the last call.
  News TakeNews();
  // Called when the client is gone.
  void Abandon();
  // Ends the transfer with an error, unless the archive is complete.
  void Break(absl::Status why);
  // Breaks the transfer if the runner has not sent anything since `before` although the buffer was not full.
  void BreakIfSilentSince(std::chrono::nanoseconds before);

 private:
  const base::Clock& clock_;
  const std::string id_;
  const std::function<void()> wake_;
  base::Mutex mu_;
  base::CondVar emptied_;
  std::string buffer_ ABSL_GUARDED_BY(mu_);
  int64_t received_ ABSL_GUARDED_BY(mu_) = 0;  // archive bytes received
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_ ABSL_GUARDED_BY(mu_);  // when the runner last sent or the client last read
};

// The active transfers. Thread safe.
class FileTransfers {
 public:
  static constexpr size_t kMax = 64;

  explicit FileTransfers(const base::Clock& clock) : clock_(clock) {}

  // Returns RESOURCE_EXHAUSTED if kMax transfers are active, or UNAVAILABLE after Close. The transfer ends when its
  // last shared pointer is released.
  absl::StatusOr<std::shared_ptr<FileTransfer>> Open(std::function<void()> wake);
  std::shared_ptr<FileTransfer> Find(const std::string& id);  // null = the transfer has ended
  void BreakSilent(std::chrono::nanoseconds timeout);
  void Close();

 private:
  const base::Clock& clock_;
  base::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, std::weak_ptr<FileTransfer>> transfers_ ABSL_GUARDED_BY(mu_);  // by id
};

}  // namespace ingot::gateway
