// Moves the roles of a dead node's agent to this process's node. A SEAT is held by one agent at a time, by an entry in
// the registry under its lease:
//
//   seats     of                                      taken by
//   nodes     all roles of a node but engines and     the node that drives the run
//             the trainer
//   engines   one engine each                         nodes with engines, each cluster.takeover_engines at most
//
//   front-0     its agent has the seat ── the agent dies ──▶ the entry expires after cluster.registry.ttl_s
//   this node   sees no entry for cluster.takeover_s ──▶ takes the seat ──▶ starts its roles
//   front-0     comes back: another node has its seat, and its agent ends with an error
//
// A seat that no agent has had is not taken. Thread safe.
#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "app/cluster/run_registry.h"
#include "app/cluster/supervisor.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

// The seats of one kind in the registry. REQUIRES: the registry outlives them.
struct Seats {
  std::function<absl::StatusOr<std::set<std::string>>()> held;  // the names of the seats that are held
  std::function<absl::Status(const std::string& name)> take;    // an error: another node has it, or the registry failed

  static Seats Nodes(RunRegistry& registry);
  static Seats Engines(RunRegistry& registry);
};

class Takeover {
 public:
  struct Seat {
    std::string name;             // in the registry
    std::vector<RoleSpec> roles;  // that move
  };
  struct Options {
    std::chrono::milliseconds grace{30'000};         // without a holder, after which a seat is taken
    std::chrono::milliseconds poll{1000};            // between two checks; each takes at most one seat
    int64_t most = std::numeric_limits<int>::max();  // total number of seats to take
  };

  Takeover(Seats kind, std::vector<Seat> seats, Options options);
  ~Takeover();

  // The roles to start here now; returns each once.
  std::vector<RoleSpec> Arrived();

 private:
  struct WatchedSeat {
    Seat seat;
    bool seen = false;
    std::optional<std::chrono::nanoseconds> missing_since;
  };

  void Run();
  void Look();
  // Whether this node has it now.
  bool TakeSeat(const Seat& seat);

  const Seats kind_;
  const Options options_;
  std::vector<WatchedSeat> watched_;  // of the thread; without those that were taken
  int64_t taken_ = 0;                 // of the thread
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<RoleSpec> arrived_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last
};

}  // namespace ingot::app
