// The runner's handle to a running episode. It takes snapshots of the episode's sandbox and can end its agent. Thread
// safe.
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

class LiveEpisode {
 public:
  // Called by the episode's own thread (with null before it destroys the sandbox). Waits for a snapshot in progress.
  void SetSandbox(sandbox::Sandbox* sandbox) {
    base::MutexLock lock(mu_);
    sandbox_ = sandbox;
  }
  // Ends only the agent, not the episode.
  const sandbox::Cancellation& end_of_agent() const { return end_of_agent_; }

  // Returns FAILED_PRECONDITION if the episode currently has no sandbox.
  absl::StatusOr<std::shared_ptr<const sandbox::Snapshot>> TakeSnapshot() {
    base::MutexLock lock(mu_);
    if (sandbox_ == nullptr) return absl::FailedPreconditionError("the episode has no sandbox at the moment");
    return sandbox_->TakeSnapshot();
  }
  // Ends a trunk's agent. `snapshot_id` identifies the files that the agent leaves.
  void Fork(const std::string& snapshot_id) {
    {
      base::MutexLock lock(mu_);
      fork_id_ = snapshot_id;
    }
    end_of_agent_.Cancel();
  }
  void Stop() { end_of_agent_.Cancel(); }
  std::string fork_id() const {  // empty = Fork was not called
    base::MutexLock lock(mu_);
    return fork_id_;
  }

 private:
  sandbox::Cancellation end_of_agent_;
  mutable base::Mutex mu_;
  sandbox::Sandbox* sandbox_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::string fork_id_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::agents
