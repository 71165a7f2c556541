// Moves a dead node agent's roles to this process's node. A SEAT is a set of roles that one agent holds at a time,
// through a registry entry under its lease:
//
//   seats     roles                                   taken over by
//   nodes     all roles of a node except engines      the node that drives the run
//             and the trainer
//   engines   one engine each                         nodes with engines, up to cluster.takeover_engines each
//
//   front-0     its agent holds the seat ── the agent dies ──▶ the entry expires after cluster.registry.ttl_s
//   this node   sees no entry for cluster.takeover_s ──▶ takes the seat ──▶ starts its roles
//   front-0     returns: another node holds its seat, so its agent exits with an error
//
// A seat that no agent has ever held is not taken. Thread safe.
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

// All seats in the registry for either nodes or engines. REQUIRES: the registry outlives this object.
struct Seats {
  std::function<absl::StatusOr<std::set<std::string>>()> held;  // returns the names of the seats that are held
  // fails if another node holds the seat or the registry fails
  std::function<absl::Status(const std::string& name)> take;

  static Seats Nodes(RunRegistry& registry);
  static Seats Engines(RunRegistry& registry);
};

class Takeover {
 public:
  struct Seat {
    std::string name;             // name in the registry
    std::vector<RoleSpec> roles;  // roles that move with the seat
  };
  struct Options {
    std::chrono::milliseconds grace{30'000};         // time without a holder before a seat is taken
    std::chrono::milliseconds poll{1000};            // interval between checks; each check takes at most one seat
    int64_t most = std::numeric_limits<int>::max();  // maximum number of seats to take in total
  };

  Takeover(Seats kind, std::vector<Seat> seats, Options options);
  ~Takeover();

  // Returns the roles to start here now. Each role is returned once.
  std::vector<RoleSpec> Arrived();

 private:
  struct WatchedSeat {
    Seat seat;
    bool seen = false;
    std::optional<std::chrono::nanoseconds> missing_since;
  };

  void Run();
  void Poll();
  // Returns whether this node now holds the seat.
  bool TakeSeat(const Seat& seat);

  const Seats kind_;
  const Options options_;
  std::vector<WatchedSeat> watched_;  // used only by the thread; excludes the seats that were taken
  int64_t taken_ = 0;                 // used only by the thread
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<RoleSpec> arrived_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // declared last
};

}  // namespace ingot::app
