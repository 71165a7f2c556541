// Runs agents on tasks in `concurrency` slots. Each slot opens an episode, runs its agent, posts the reward, ends the
// episode, and starts over.
//
//   Open --429--> wait (OpenGate) --> Open ... --admitted--> RunEpisode --> Reward, End(FINISHED)
//     |                                                          |--failed--> End(FAILED, "cause: detail")
//     |                                                          |--stopped-> End(FENCED): the attempt does not count
//     |                                                          '--at its fork-> End(FORKED), and the files are held
//     '--the run is over (FAILED_PRECONDITION)--> the slot ends
//
// A failure inside an episode affects only that episode. A slot ends only on Stop or when the run is over. After a
// failure that is not the agent's fault (process creation, setup, verifier, gateway), the slot waits before the next
// episode, longer each time, so a broken recipe does not use up the run's tasks. Until an episode has finished, it
// waits after every failure. The runner reports such failures to the gateway as EPISODE_INFRASTRUCTURE_FAILED.
//
// All of an agent's processes have ended before the end of its episode is reported. The episode's metadata records how
// strongly the agent was isolated.
//
// Snapshots (snapshots.h). A leaf starts with the files that its trunk left. A slot opens it like any other episode.
// Snapshots are held by this process. A leaf whose snapshot is missing fails with the cause "snapshot", and its trunk
// is retried.
//
// Threads: each slot is one long task in the runner's executor, which has a thread per slot. The task blocks on the
// slot's commands. Deadlines and waits use `clock`. Thread safe, but Start and the destructor must be called on the
// same thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/end_reporter.h"
#include "agents/episode_run.h"
#include "agents/episodes.h"
#include "agents/gateway_access.h"
#include "agents/gateway_retry.h"
#include "agents/open_gate.h"
#include "agents/options.h"
#include "agents/recipe.h"
#include "agents/recipe_mix.h"
#include "agents/runner_tally.h"
#include "agents/snapshots.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/waits.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

class Runner {
 public:
  // Returns INVALID_ARGUMENT if RunnerOptions::Validate fails or there is no recipe. `episodes`, `clock`, `metrics`
  // (null = none), and `gateway_access` (null = sandbox connections are relayed) must outlive the runner.
  static absl::StatusOr<std::unique_ptr<Runner>> Make(const RunnerOptions& options,
                                                      std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes,
                                                      const base::Clock& clock, base::Metrics* metrics = nullptr,
                                                      GatewayAccess* gateway_access = nullptr);
  // Calls Stop(), then waits for the slots without a deadline.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Starts the slots. Must be called once. Returns RESOURCE_EXHAUSTED and starts no slots if the system does not
  // provide enough threads.
  absl::Status Start();

  // Kills the running agents and ends the slots. The episodes are reported as FENCED with the cause "stopped", so the
  // attempts do not count and the samples are retried. Returns DEADLINE_EXCEEDED if a slot is still in a gateway call
  // after stop_timeout_s. May be called repeatedly.
  absl::Status Stop();

  // Blocks until all slots have ended because the run is over or Stop was called. Returns false after `timeout`.
  bool WaitDone(std::chrono::nanoseconds timeout);

  RunnerStats Stats() const;

 private:
  Runner(const RunnerOptions& options, std::vector<std::shared_ptr<const Recipe>> recipes,
         std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes, const base::Clock& clock,
         base::Metrics* metrics, GatewayAccess* gateway_access);
  void Slot();
  // An episode that a slot requests. If Open gets no answer, the gateway may still have opened the episode. The slot
  // then repeats the request with the same key and gets the same episode.
  struct Opening {
    std::optional<RecipeMix::Choice> choice;  // absent = nothing is requested
    std::string idempotency_key;
    int recipe = RecipeMix::kNone;  // set once the episode is open
  };
  // Waits until the slot may open an episode and, if `opening` has no choice yet, until a recipe is free. Returns false
  // if the slot should end.
  bool AwaitTurn(Opening& opening);
  v1::EpisodeOpenRequest RequestOf(const Opening& opening) const;
  // Records the answer to an Open. Returns true if there is an episode to run.
  bool Admitted(Opening& opening, const absl::StatusOr<v1::EpisodeOpenResponse>& opened);
  // Records whether the gateway answers. After an error, the runner is considered to be waiting for a gateway.
  void NoteGateway(const absl::Status& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `recipe` is kNone if the mix has no recipe for the task's domain.
  EpisodeReport RunOne(int recipe, const v1::EpisodeOpenResponse& episode);
  // Like RunOne, but lets other threads take snapshots of the episode.
  EpisodeReport RunLive(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, EpisodeContext context);
  std::string NameOf(int recipe) const;
  // Reports the end of the episode to the gateway and counts it.
  void Settle(int recipe, const v1::EpisodeOpenResponse& episode, EpisodeReport& report);
  // Returns true for failures that may affect other episodes as well, so the slot should wait before the next one.
  // Includes crashes until an agent has finished.
  bool MayBeOfSetup(const EpisodeReport& report) const;
  // Waits until all slots have ended. Returns false if the deadline passed first.
  bool AwaitSlots(std::chrono::nanoseconds deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true for the first keep_failed_max calls.
  bool MayKeepFolder();

  // Constant after construction.
  const RunnerOptions options_;
  const std::unique_ptr<sandbox::Substrate> substrate_;
  const std::vector<std::shared_ptr<const Recipe>> recipes_;  // their verifiers may own sandboxes from substrate_
  Episodes& episodes_;
  const base::Clock& clock_;
  const std::unique_ptr<GatewayAccess> own_access_;  // null = the caller provides it
  GatewayAccess* const gateway_access_;
  std::unique_ptr<McpBridge> bridge_;  // null = no recipe has a remote MCP server, or sandboxes share the network
  const std::unique_ptr<sandbox::ImageStore> images_;
  const std::string cwd_;
  const std::string metadata_;  // metadata for every episode: {"sandbox": the substrate's probe result}

  // Have their own locks.
  sandbox::Cancellation cancel_;
  GatewayRetry retry_;
  Snapshots snapshots_;
  EndReporter reporter_;

  mutable base::Mutex mu_;
  base::CondVar changed_;  // signaled when the gate changes, a recipe becomes free, a slot ends, or Stop is called
  bool gate_is_watched_ ABSL_GUARDED_BY(mu_) = false;  // a slot is waiting for gate_.next()
  OpenGate gate_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<base::Wait> no_gateway_
      ABSL_GUARDED_BY(mu_);  // set from the first request without an answer until the next answer
  RecipeMix mix_ ABSL_GUARDED_BY(mu_);
  int live_slots_ ABSL_GUARDED_BY(mu_) = 0;
  int kept_folders_ ABSL_GUARDED_BY(mu_) = 0;
  absl::StatusCode last_open_error_ ABSL_GUARDED_BY(mu_) = absl::StatusCode::kOk;
  RunnerTally tally_ ABSL_GUARDED_BY(mu_);

  base::Executor slots_;  // one thread per slot; declared last, so the slots end before other members are destroyed
};

}  // namespace ingot::agents
