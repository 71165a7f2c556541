// Finds nodes of a run whose clocks differ. Each agent writes its clock's time into its registry entry.
//
//   node a   writes 12:00:00 ──▶ registry ──▶ node b   whose clock says 11:59:00: it is at least a minute behind
//
// An entry cannot be read before it was written. So a time in the reader's future comes from a clock that is ahead of
// the reader's by at least that much, however slow registry and machines are. Of two nodes whose clocks differ, only
// the node that is behind notices: the other reads only old times.
//
// Each agent writes its time when it registers, and again when a new node appears. Entries are not written more often,
// since etcd keeps every value of a key. A node that joins waits for the others' times before it starts its roles, and
// does not start them if its clock is behind. If its clock is ahead, the others report it. A dead agent writes nothing
// more: its entry counts once its lease should be over, so that nodes can restart after their clocks were set.
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

// Smaller differences are not reported. Deadlines of episodes that move to another gateway are off by at most this.
inline constexpr std::chrono::seconds kClockGap{5};

// A line for each node whose clock is ahead of this machine's, which is at `now_unix_ns`, by more than kClockGap.
// `own`: the name of this node.
std::vector<std::string> DescribeClocksAhead(const std::vector<NodePlace>& nodes, const std::string& own,
                                             int64_t now_unix_ns);

// Checks repeatedly, in its own thread, until it is destroyed. Thread safe.
class NodeClocks {
 public:
  struct Options {
    std::string own;  // the name of this node
    std::chrono::milliseconds poll{2000};
    std::function<void()> report_again;              // rewrites this node's entry
    std::function<void(const std::string&)> on_gap;  // a line for each agent with such a clock, once
  };
  // REQUIRES: the registry and the clock outlive it.
  NodeClocks(RunRegistry& registry, Options options, const base::Clock& clock = base::Clock::Real());
  ~NodeClocks();

  // Waits until each registered node has written its time again, for `timeout` at most: a dead agent does not.
  // FAILED_PRECONDITION: this machine's clock is behind a living agent's. The entry of an agent that may be dead
  // disappears within `lease`. Call it once.
  absl::Status Join(std::chrono::milliseconds timeout, std::chrono::milliseconds lease);

 private:
  // An entry from before Join's end whose clock is ahead.
  struct Gap {
    int64_t token = 0;  // of its agent
    bool lives = false;
    std::string line;
  };

  void Run();
  void Look();
  void Weigh(const std::vector<NodePlace>& nodes, int64_t now_unix_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Decided() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  RunRegistry& registry_;
  const Options options_;
  const base::Clock& clock_;
  // Of the thread, by the nodes' names: tokens of agents that were seen, and of those whose clocks were found ahead;
  // the first time that each wrote.
  std::map<std::string, int64_t> seen_, found_, first_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool all_reported_ ABSL_GUARDED_BY(mu_) = false;  // again, the nodes of the last look
  bool joined_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Gap> early_ ABSL_GUARDED_BY(mu_);  // by node
  std::thread thread_;                                     // last
};

}  // namespace ingot::app
