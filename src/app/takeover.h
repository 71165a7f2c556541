// Moves the roles of a node that died to the node that drives the run. Engines stay missing: the others take their calls.
//
//   node front-0   entry in the registry ── its agent dies ──▶ the entry goes after cluster.registry.ttl_s
//   this node      sees no entry for cluster.takeover_s ──▶ registers front-0 itself ──▶ starts its roles
//   front-0        comes back: its entry is another's, and its agent ends with an error
//
// A node that never registered is not taken over. Thread safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/run_registry.h"
#include "app/supervisor.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

class Takeover {
 public:
  struct Node {
    std::string name;             // in the registry
    std::vector<RoleSpec> roles;  // that move
  };

  // Looks every `poll`. REQUIRES: the registry outlives it, and nobody else registers in it meanwhile.
  Takeover(RunRegistry& registry, std::vector<Node> nodes, std::chrono::milliseconds grace,
           std::chrono::milliseconds poll = std::chrono::seconds(1));
  ~Takeover();

  // The roles that are to be started here now; each is given once.
  std::vector<RoleSpec> Arrived();

 private:
  struct Watched {
    Node node;
    bool seen = false, taken = false;
    std::optional<std::chrono::nanoseconds> missing_since;
  };

  void Run();
  void Look();
  void Take(Watched& watched);

  RunRegistry& registry_;
  std::vector<Watched> nodes_;  // of the thread
  const std::chrono::milliseconds grace_, poll_;
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<RoleSpec> arrived_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last
};

}  // namespace ingot::app
