// Keeps a registry's leases alive. A thread renews each lease at intervals of a third of its time to live.
//
//   granted              renewed               renewed                     no answer: retried repeatedly
//   |------- ttl/3 ------|------- ttl/3 -------|---------------- ttl ---------------------------| lost
//                                                                             alive() is false from here on
//
// A lease's time is counted from when its last answered renewal was sent, so it expires here before it expires on the
// server. Thread safe.
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
  // Calls to the registry's server. Both block until about the deadline at most, and are called without locks held.
  struct Server {
    // Returns NOT_FOUND if the lease is gone. Other errors are retried.
    std::function<absl::Status(int64_t id, std::chrono::nanoseconds deadline)> renew;
    std::function<void(int64_t id, std::chrono::nanoseconds deadline)> revoke;
  };

  LeaseKeeper(const base::Clock& clock, Server server);
  // REQUIRES: all leases were destroyed.
  ~LeaseKeeper();

  // Takes over a granted lease. `sent` is when the request for it was sent.
  std::unique_ptr<Lease> KeepAlive(int64_t id, std::chrono::nanoseconds ttl, std::chrono::nanoseconds sent,
                                   std::function<void()> on_lost);

 private:
  class Kept;
  struct State {
    int64_t id = 0;
    std::chrono::nanoseconds ttl{}, due{}, expires{};
    std::function<void()> on_lost;
    bool lost = false;      // permanently
    bool reported = false;  // on_lost was called
    bool failing = false;   // the last renewal was not answered
  };

  void Run();
  // Renews the lease or marks it as lost.
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
  std::map<int64_t, std::shared_ptr<State>> leases_ ABSL_GUARDED_BY(mu_);  // by id; mu_ also guards their fields
  int64_t visited_ ABSL_GUARDED_BY(mu_) = 0;  // lease whose server call is in progress without the lock; 0 = none
  std::thread thread_;
};

}  // namespace ingot::registry
