// Keeps the leases of one registry alive: its thread renews each lease every third of the lease's time to live.
//
//   granted              renewed               renewed                     not answered: tried again and again
//   |------- ttl/3 ------|------- ttl/3 -------|---------------- ttl ---------------------------| lost
//                                                                             alive() is false from here on
//
// A lease's time counts from the moment its last answered renewal was sent, so that it expires here before it expires
// at the server. Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "registry/registry.h"

namespace ingot::registry {

class LeaseKeeper {
 public:
  // Calls to the registry's server. Both block no longer than about the deadline, and are called without locks.
  struct Server {
    // NOT_FOUND: the lease is gone. Any other error: it is tried again.
    std::function<absl::Status(int64_t id, std::chrono::nanoseconds deadline)> renew;
    std::function<void(int64_t id, std::chrono::nanoseconds deadline)> revoke;
  };

  LeaseKeeper(const base::Clock& clock, Server server);
  // REQUIRES: the leases are gone.
  ~LeaseKeeper();

  // Takes over a lease that was granted; the request for it was sent at `sent`.
  std::unique_ptr<Lease> KeepAlive(int64_t id, std::chrono::nanoseconds ttl, std::chrono::nanoseconds sent,
                                   std::function<void()> on_lost);

 private:
  class Kept;
  struct State {
    int64_t id = 0;
    std::chrono::nanoseconds ttl{}, due{}, expires{};
    std::function<void()> on_lost;
    bool lost = false;      // for good
    bool reported = false;  // on_lost was called
    bool failing = false;   // the last renewal was not answered
  };

  void Run();
  // Renews the lease, or marks it lost.
  void Visit(const std::shared_ptr<State>& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NotifyLost(const std::shared_ptr<State>& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<State> Earliest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsAlive(State& lease);
  void Drop(const std::shared_ptr<State>& lease);

  const base::Clock& clock_;
  const Server server_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int64_t, std::shared_ptr<State>> leases_ ABSL_GUARDED_BY(mu_);  // by id; their fields too are guarded
  int64_t visited_ ABSL_GUARDED_BY(mu_) = 0;  // the lease for which the thread calls out without the lock; 0 = none
  std::thread thread_;
};

}  // namespace ingot::registry
