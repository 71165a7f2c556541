// Detects nodes in a run whose clocks differ. Each node agent writes its current time into its registry entry.
//
//   node a   writes 12:00:00 ──▶ registry ──▶ node b   whose clock says 11:59:00: it is at least a minute behind
//
// An entry cannot be read before it was written. So if an entry's time is in the reader's future, the writer's clock is
// ahead by at least that much, no matter how slow the registry and the machines are. If two clocks differ, only the
// node that is behind detects it, because the other node sees only past times.
//
// Each agent writes its time when it registers and whenever a new node appears. It does not write more often because
// etcd keeps every value that a key ever had. A node that joins waits for the other nodes' times before it starts its
// roles, and refuses to start if its clock is behind. If its clock is ahead, the other nodes report it. A dead agent's
// entry counts only until its lease should have expired, so nodes can restart after their clocks are fixed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "app/cluster/run_registry.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

// Smaller differences are not reported. When an episode moves to another gateway, its deadline shifts by at most this
// much.
inline constexpr std::chrono::seconds kClockGap{5};

// Returns one line for each node whose clock is ahead of this machine's by more than kClockGap. `own` is this node's
// name, and `now_unix_ns` is this machine's time.
std::vector<std::string> DescribeClocksAhead(const std::vector<NodePlace>& nodes, const std::string& own,
                                             int64_t now_unix_ns);

// Polls on its own thread until destroyed. Thread safe.
class NodeClocks {
 public:
  struct Options {
    std::string own;  // this node's name
    std::chrono::milliseconds poll{2000};
    std::function<void()> report_again;              // rewrites this node's entry with the current time
    std::function<void(const std::string&)> on_gap;  // called once per agent whose clock is ahead, with one line
  };
  // REQUIRES: the registry and the clock outlive it.
  NodeClocks(RunRegistry& registry, Options options, const base::Clock& clock = base::Clock::Real());
  ~NodeClocks();

  // Waits until every registered node has rewritten its time, up to `timeout` because dead agents never do. Returns
  // FAILED_PRECONDITION if this machine's clock is behind a live agent's. If an agent is dead, its entry disappears
  // within `lease`. Call at most once.
  absl::Status Join(std::chrono::milliseconds timeout, std::chrono::milliseconds lease);

 private:
  // An entry from a node whose clock is ahead, written before Join ended.
  struct Gap {
    int64_t token = 0;  // the agent's token
    bool lives = false;
    std::string line;
  };

  void Run();
  void Poll();
  void Weigh(const std::vector<NodePlace>& nodes, int64_t now_unix_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Decided() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  RunRegistry& registry_;
  const Options options_;
  const base::Clock& clock_;
  // Keyed by node name and used only by the thread. seen_ has the tokens of known agents, and found_ the tokens of
  // agents whose clocks are ahead. first_ has the first time that each agent wrote.
  std::map<std::string, int64_t> seen_, found_, first_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool all_reported_ ABSL_GUARDED_BY(mu_) = false;  // all nodes in the last poll have rewritten their times
  bool joined_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Gap> early_ ABSL_GUARDED_BY(mu_);  // by node
  std::thread thread_;                                     // declared last
};

}  // namespace ingot::app
