// The Runner keeps agents running on tasks. It has `concurrency` slots; each opens an episode, runs its agent, posts
// the reward, ends the episode, and starts over.
//
//   Open --429--> wait (OpenGate) --> Open ... --admitted--> RunEpisode --> Reward, End(FINISHED)
//     |                                                          |--failed--> End(FAILED, "cause: detail")
//     |                                                          |--stopped-> End(FENCED): no attempt that counts
//     |                                                          '--at its fork-> End(FORKED), and the files are held
//     '--the run is over (FAILED_PRECONDITION)--> the slot ends
//
// A failure inside an episode is that episode's failure; only Stop and the end of the run end a slot. A failure that is
// not the agent's fault (no process, set-up, verifier, gateway) makes its slot wait before the next episode, longer
// each time, so that a broken recipe does not use up the run's tasks. So does every failure before the first finished
// episode. The runner marks such failures for the gateway (EPISODE_INFRASTRUCTURE_FAILED).
//
// An agent's processes are gone before the end of its episode is reported. The episode's metadata says how strong the
// wall around it was.
//
// Snapshots (snapshots.h). A leaf begins on the files that its trunk left; a slot opens it like any episode. Held
// snapshots live in this process: a leaf that finds none fails with the cause "snapshot", and its trunk is tried again.
//
// Threads: a slot is one long task of the runner's executor, which has a thread per slot, and waits for its commands.
// Deadlines and waits are counted on `clock`. Thread safe; one thread calls Start and the destructor.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/door.h"
#include "agents/end_reporter.h"
#include "agents/episode_run.h"
#include "agents/episodes.h"
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
  // INVALID_ARGUMENT: RunnerOptions::Validate rejects the options, or there is no recipe. `episodes`, `clock`,
  // `metrics` (null = none) and `door` (null = connections of sandboxes are relayed) outlive the runner.
  static absl::StatusOr<std::unique_ptr<Runner>> Make(const RunnerOptions& options,
                                                      std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes,
                                                      const base::Clock& clock, base::Metrics* metrics = nullptr,
                                                      Door* door = nullptr);
  // Stop(), then waits for the slots without a deadline.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Starts the slots. Call it once. RESOURCE_EXHAUSTED: the machine gives too few threads; no slot was started.
  absl::Status Start();

  // Kills the running agents and ends the slots. The episodes are reported as FENCED, cause "stopped": an attempt that
  // does not count, so that the sample is tried again. DEADLINE_EXCEEDED: a slot is still in a call to the gateway
  // after stop_timeout_s. May be called again.
  absl::Status Stop();

  // Blocks until all slots have ended (the run is over, or Stop); false after `timeout` of the clock.
  bool WaitDone(std::chrono::nanoseconds timeout);

  RunnerStats Stats() const;

 private:
  Runner(const RunnerOptions& options, std::vector<std::shared_ptr<const Recipe>> recipes,
         std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes, const base::Clock& clock,
         base::Metrics* metrics, Door* door);
  void Slot();
  // The episode that a slot asks for. After an Open without an answer the gateway may have opened it: the slot asks
  // again under the same key and gets the same episode.
  struct Opening {
    std::optional<RecipeMix::Choice> choice;  // absent = none is asked for
    std::string idempotency_key;
    int recipe = RecipeMix::kNone;  // once it is open
  };
  // Waits until the slot may open an episode and, unless `opening` has a choice, for a free recipe. False: the slot
  // ends.
  bool AwaitTurn(Opening& opening);
  v1::EpisodeOpenRequest RequestOf(const Opening& opening) const;
  // Records the answer to an Open; true: there is an episode to run.
  bool Admitted(Opening& opening, const absl::StatusOr<v1::EpisodeOpenResponse>& opened);
  // On an error the runner waits for a gateway that answers.
  void NoteGateway(const absl::Status& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `recipe`: kNone = the mix has none for the task's domain.
  EpisodeReport RunOne(int recipe, const v1::EpisodeOpenResponse& episode);
  // RunOne for an episode that other threads may take snapshots of.
  EpisodeReport RunLive(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, EpisodeContext context);
  std::string NameOf(int recipe) const;
  // Reports the end of the episode to the gateway, and counts it.
  void Settle(int recipe, const v1::EpisodeOpenResponse& episode, EpisodeReport& report);
  // A failure that other episodes would share: the slot waits before the next one. Until one agent has finished, a
  // crash may be such a failure too.
  bool MayBeOfSetup(const EpisodeReport& report) const;
  // Waits until no slot lives; false: the deadline passed first.
  bool AwaitSlots(std::chrono::nanoseconds deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // True for the first keep_failed_max calls.
  bool MayKeepFolder();

  // Constant after construction.
  const RunnerOptions options_;
  const std::unique_ptr<sandbox::Substrate> substrate_;
  const std::vector<std::shared_ptr<const Recipe>> recipes_;  // their verifiers may hold sandboxes of the substrate
  Episodes& episodes_;
  const base::Clock& clock_;
  const std::unique_ptr<Door> own_door_;  // null: uses another one
  Door* const door_;
  std::unique_ptr<McpBridge> bridge_;  // null: no recipe has an MCP server elsewhere, or sandboxes share the network
  const std::unique_ptr<sandbox::ImageStore> images_;
  const std::string cwd_;
  const std::string metadata_;  // of every episode: {"sandbox": what the substrate's probe found}

  // Own synchronisation.
  sandbox::Cancellation cancel_;
  GatewayRetry retry_;
  Snapshots snapshots_;
  EndReporter reporter_;

  mutable base::Mutex mu_;
  base::CondVar changed_;                              // the gate, a free recipe, the end of a slot, Stop
  bool gate_is_watched_ ABSL_GUARDED_BY(mu_) = false;  // a slot waits for gate_.next()
  OpenGate gate_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<base::Wait> no_gateway_
      ABSL_GUARDED_BY(mu_);  // from the first opening without an answer to the next answer
  RecipeMix mix_ ABSL_GUARDED_BY(mu_);
  int live_slots_ ABSL_GUARDED_BY(mu_) = 0;
  int kept_folders_ ABSL_GUARDED_BY(mu_) = 0;
  absl::StatusCode last_open_error_ ABSL_GUARDED_BY(mu_) = absl::StatusCode::kOk;
  RunnerTally tally_ ABSL_GUARDED_BY(mu_);

  base::Executor slots_;  // a thread per slot; last: the slots end before the rest goes
};

}  // namespace ingot::agents
