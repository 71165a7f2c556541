// Sends each new version of the weights to all engines in parallel: a delta to engines that confirmed the previous
// version, and a full copy to all others and to engines that reject the delta. An engine that shares memory gets the
// version itself. If all engines share memory, nothing is encoded.
//
//   joining --confirmed newest--> leased --error, or no answer by the deadline--> lost --confirmed newest--> leased
//
// A version is live when every leased engine has confirmed it. An engine that was too slow catches up on its own when
// it answers. The next Publish or CheckLeases retries a failed engine with a full copy.
//
// Retained versions: the publisher keeps the weights of every version that engines retain until the version is
// released. Before and after sending a full copy, it asks the engine which versions it has. It then sends the missing
// retained versions, which the engine keeps in addition to the newest. A restarted engine lacks all of them. If an
// engine has different weights under the same number, they are replaced. The engine is leased only after it has these
// versions, except for those that it permanently rejects or has no memory for, which are logged. Requests that follow
// the newest version never use them.
//
// Threads: an executor with one thread per engine runs at most one task per engine at a time, so a hung engine delays
// other engines by at most the deadline. Publish and Release block. Only the trainer's thread calls Publish. All other
// methods are thread safe. The destructor waits for updates in flight, so a Sink's calls must not block forever.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "weights/sink.h"

namespace ingot::weights {

struct PublisherOptions {
  std::chrono::milliseconds deadline{30000};  // time limit for one engine to confirm one version; > 0
  CodecOptions codec;

  absl::Status Validate() const;
};

struct PublishStats {
  int64_t version = -1;
  int64_t wire_bytes = 0;  // size of one delta, counted once for all engines; 0 = all engines share memory
  int64_t full_bytes = 0;  // size of an uncompressed full copy
  double density = 0;      // changed elements / all elements
  // Durations of consecutive stages. From send_ms on, they are for the engine with the longest total time.
  double save_ms = 0;  // before Publish: time to save the version on disk; set by the caller
  double encode_ms = 0;
  double send_ms = 0;   // from the end of encoding until the engine was called
  double fetch_ms = 0;  // this and the next three are as in UpdateWeightsResponse
  double apply_ms = 0;
  double wait_ms = 0;
  double pause_ms = 0;
  double publish_ms = 0;    // from the end of encoding until the last engine confirmed
  int64_t version_lag = 0;  // largest number of versions that any engine is behind, including lost engines
  int full_copies = 0;      // engines that needed a full copy
  int leases_lost = 0;      // since the previous Publish, including the current one
  bool retained = false;    // true = retention was requested, and every leased engine retains it
};

// An engine's state, for metrics and the dashboard.
struct EngineInfo {
  std::string name;
  bool leased = false;
  bool busy = false;     // inside a call
  int64_t version = -1;  // last confirmed; -1 = unknown
};

class Publisher {
 public:
  // `clock` measures the deadlines and must outlive the publisher.
  explicit Publisher(PublisherOptions options, const base::Clock& clock = base::Clock::Real());
  ~Publisher();

  // Sends the engine a full copy of the newest version immediately, if there is one. The engine is leased once it has
  // confirmed the newest version. `name` is for logs and metrics. Returns RESOURCE_EXHAUSTED if the system cannot start
  // a thread for it.
  absl::Status AddEngine(std::string name, std::shared_ptr<Sink> sink);

  // Returns when the version is live on every leased engine and every joining engine has answered. Waits for lost
  // engines only if no engine is leased. Returns INVALID_ARGUMENT unless versions increase; the newest version may be
  // published again with equal weights to retain it. If no engine is leased afterwards, the version is still the
  // newest, and publishing it again retries with the encoded bytes. In that case, returns UNAVAILABLE if an engine may
  // still accept the version, or an engine's own error if all reject it permanently.
  absl::StatusOr<PublishStats> Publish(std::shared_ptr<const Snapshot> snapshot, bool retain);

  // Adds a retained version from an earlier publisher, for a resumed run. Engines that lack it get it before the newest
  // version. REQUIRES: nothing has been published yet.
  void Retain(std::shared_ptr<const Snapshot> snapshot);

  // Called about once per second, to detect failed engines between versions. Asks every idle leased engine for its
  // version. An engine that does not answer, or that restarted and holds another version, loses its lease. Sends the
  // newest version to engines without a lease. Does not block.
  void CheckLeases();

  // Frees a retained version on all engines, and on unreachable ones later. Returns the first error from a leased
  // engine.
  absl::Status Release(int64_t version);

  // Returns, for each version, the number of engines that currently have it, including versions retained by an earlier
  // trainer. An unreachable engine is treated as having none. Asks the engines one after another.
  std::map<int64_t, int> HeldVersions() const;

  std::shared_ptr<const Snapshot> newest() const;
  int leased_engines() const;
  std::vector<EngineInfo> engines() const;

 private:
  struct Engine;
  struct Job;
  struct Update;
  using RetainedUpdates = std::map<int64_t, std::shared_ptr<Update>>;  // by version

  // Returns an update for `snapshot`, or newest_ if it is for the same version.
  absl::StatusOr<std::shared_ptr<Update>> MakeUpdate(std::shared_ptr<const Snapshot> snapshot, bool retain)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns an update that holds only a retained version's weights, without an encoded copy for joining engines.
  std::shared_ptr<Update> MakeRetained(std::shared_ptr<const Snapshot> snapshot) const;
  absl::Status NoLeaseError(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Posts a task for the engine if it has a job and no task yet.
  void Schedule(Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs the engine's jobs one after another until there are none left. This is the engine's task on the executor.
  void Serve(Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  Job NextJob(const Engine& engine) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Job Begin(Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  void SendUpdate(Engine& engine, Job job) ABSL_LOCKS_EXCLUDED(mu_);
  void SendRelease(Engine& engine, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  void QueryVersion(Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends a full copy, and the versions in `retained` that the engine lacks.
  absl::StatusOr<v1::UpdateWeightsResponse> SendFull(Engine& engine, Update& update, RetainedUpdates retained)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sends a version that the engine keeps in addition to the newest.
  absl::Status SendHeld(Engine& engine, Update& update) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends the retained versions. Removes those that the engine does not accept from `retained`.
  absl::Status SendRetained(Engine& engine, RetainedUpdates* retained) ABSL_LOCKS_EXCLUDED(mu_);
  void RecordConfirmed(Engine& engine, const std::shared_ptr<Update>& update, const v1::UpdateWeightsResponse& response,
                       bool full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLease(Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The engines involved in a Publish. Engines are never removed.
  struct PublishTargets {
    std::vector<Engine*> needed;  // leased or joining
    std::vector<Engine*> others;  // lost; waited for only if no engine is leased
  };
  // Makes the update the newest, and schedules it for every engine.
  PublishTargets Schedule(const std::shared_ptr<Update>& update, bool retain) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds the leased engines' answers to `stats`. `encoded` is the time when the update was ready.
  void AddAnswers(const Update& update, std::chrono::nanoseconds encoded, PublishStats& stats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Waits for `done` until the deadline. Returns false if the deadline passed first.
  bool WaitUntil(std::chrono::nanoseconds deadline, const std::function<bool()>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PublisherOptions options_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;  // signaled when an engine has answered
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Update> newest_ ABSL_GUARDED_BY(mu_);
  RetainedUpdates retained_ ABSL_GUARDED_BY(mu_);  // until they are released
  int leases_lost_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::Executor executor_;  // one thread per engine; must be last, so that it is destroyed first
};

}  // namespace ingot::weights
