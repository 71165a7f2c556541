// Keeps agents running on tasks: `concurrency` slots, each a thread that opens an episode, runs its agent, posts the
// reward and ends it, and starts over.
//
//   Open --429--> wait (OpenGate) --> Open ... --admitted--> RunEpisode --> Reward, End(FINISHED)
//     |                                                          |--failed--> End(FAILED, "cause: detail")
//     |                                                          '--stopped-> End(FENCED): no attempt that counts
//     '--the run is over (FAILED_PRECONDITION)--> the slot ends
//
// Whatever fails inside an episode is that episode's failure; only Stop and the end of the run end a slot. Failures
// that are not the agent's doing (no process, set-up, verifier, gateway) make their slot wait before the next one,
// longer each time, so that a broken recipe does not eat the run's tasks.
//
// An agent's processes are gone before its episode's end is reported. Commands are spawned on the slots' own threads,
// which outlive them (sandbox/process.h says why that matters).
//
// Thread safe. Start and the destructor are called by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agents/episode_run.h"
#include "agents/episodes.h"
#include "agents/open_gate.h"
#include "agents/options.h"
#include "agents/recipe.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/process.h"

namespace ingot::agents {

struct RunnerStats {
  int64_t running = 0;   // episodes open now
  int64_t opened = 0;    // since start, like all below
  int64_t finished = 0;  // ended with a reward
  int64_t failed = 0;
  std::map<std::string, int64_t> failures;  // by cause (agents/episode_run.h)
  int64_t refused = 0;                      // admissions answered with RESOURCE_EXHAUSTED
  int64_t open_errors = 0;                  // admissions answered with another error
  int64_t unreported = 0;                   // episodes whose end the gateway did not take
  double completion_s = 0;                  // sum over episodes whose agent ran
  double agent_cpu_s = 0;
  double reward_sum = 0;  // over finished ones
  bool done = false;      // the gateway said that the run is over
};

class Runner {
 public:
  // INVALID_ARGUMENT as RunnerOptions::Validate, and without a recipe. `episodes`, `clock` and `metrics` (may be null)
  // must outlive it.
  static absl::StatusOr<std::unique_ptr<Runner>> Make(const RunnerOptions& options, Episodes& episodes,
                                                      const base::Clock& clock, base::Metrics* metrics = nullptr);
  // Stops, and waits for the slots however long they take.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Removes what a killed run left in work_root, and starts the slots. Once. RESOURCE_EXHAUSTED if the machine gives no
  // more threads; those already started go on until Stop.
  absl::Status Start();

  // Kills what runs, reports it as FENCED (cause "stopped"): lost by no fault of its own, its sample will be tried
  // again. Then ends the slots. DEADLINE_EXCEEDED if some slot is still in a call to the gateway after stop_timeout_s.
  // May be called again.
  absl::Status Stop();

  // Blocks until all slots have ended (the run is over, or Stop); false after `timeout`.
  bool WaitDone(std::chrono::nanoseconds timeout);

  // Admission may have room again: one waiting slot asks at once instead of waiting out its back-off. For roles in the
  // same process.
  void WakeUp();

  RunnerStats Stats() const;

 private:
  struct Series;  // metrics, looked up once

  Runner(const RunnerOptions& options, std::vector<std::shared_ptr<const Recipe>> recipes, Episodes& episodes,
         const base::Clock& clock, base::Metrics* metrics);
  void Slot();
  // An episode that a slot asks for. Kept while the gateway may have opened it and nobody heard: asked for again under
  // the same key, it is the same one.
  struct Opening {
    int recipe = -1;  // -1: none is asked for
    std::string idempotency_key;
  };
  // Waits for a turn to open, and for a recipe with room unless one is asked for; false: the slot is to end.
  bool AwaitTurn(Opening& opening);
  int ChooseRecipe() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the answer to an Open into account; true if there is an episode to run.
  bool Admitted(Opening& opening, const absl::StatusOr<v1::EpisodeOpenResponse>& opened);
  EpisodeReport RunOne(const Recipe& recipe, const v1::EpisodeOpenResponse& episode);
  // Posts reward and end; what cannot be ended as finished is ended as failed. Returns the cause under which the
  // episode is counted; empty: finished.
  std::string Report(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report);
  absl::Status Post(const v1::EpisodeOpenResponse& episode, double earned,
                    const std::map<std::string, double>& signals);
  absl::Status Finish(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report);
  absl::Status End(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state, const std::string& detail);
  bool stopping() const;
  template <typename Call>
  absl::Status WithRetries(Call call);
  void Count(int recipe, const EpisodeReport& report, const std::string& cause);
  // Until `moment` of the clock, or until Stop.
  void WaitUntil(std::chrono::nanoseconds moment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayKeep();

  // Constant after construction.
  const RunnerOptions options_;
  const std::vector<std::shared_ptr<const Recipe>> recipes_;
  Episodes& episodes_;
  const base::Clock& clock_;
  const std::unique_ptr<Series> series_;  // null: no metrics
  const std::string cwd_;

  // Own synchronisation.
  sandbox::Cancellation cancel_;

  mutable base::Mutex mu_;
  base::CondVar changed_;  // the gate, room for a recipe, the end of a slot, stop
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool someone_times_the_gate_ ABSL_GUARDED_BY(mu_) = false;
  OpenGate gate_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> recipe_running_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> recipe_started_ ABSL_GUARDED_BY(mu_);
  int live_slots_ ABSL_GUARDED_BY(mu_) = 0;
  int kept_ ABSL_GUARDED_BY(mu_) = 0;
  absl::StatusCode last_open_error_ ABSL_GUARDED_BY(mu_) = absl::StatusCode::kOk;
  RunnerStats stats_ ABSL_GUARDED_BY(mu_);

  std::vector<std::thread> slots_;  // touched by Start and the destructor only
};

}  // namespace ingot::agents
