// The Publisher sends each new version of the weights to every engine, all at once: a delta to engines that confirmed
// the previous version, a full copy to the others and to an engine that rejects the delta. An engine that shares memory
// gets the version itself; if all do, nothing is encoded.
//
//   joining --confirmed newest--> leased --error, or no answer by the deadline--> lost --confirmed newest--> leased
//
// A version is live when every leased engine has confirmed it. An engine that was too slow catches up by itself when
// it answers. The next Publish or CheckLeases retries a failed engine with a full copy.
//
// Retained versions: the publisher keeps the weights of every version that engines retain, until its release. An engine
// that needs a full copy is asked for the versions that it holds, before that copy and after it. It gets the retained
// versions that it lacks, to hold next to the newest: a restarted engine lacks all of them, and an engine that holds
// other weights under the same number has them replaced. Its lease waits for them, except for versions that it rejects
// permanently or has no memory for, which the log names. No request that follows the newest runs on them.
//
// Threads: an executor with one thread per engine runs at most one task per engine at a time, so that a hung engine
// delays no other engine beyond the deadline. Publish and Release block. Only the trainer's thread calls Publish; every
// other method is thread safe. The destructor waits for updates in flight: a Sink must end its calls by itself.
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
  std::chrono::milliseconds deadline{30000};  // for one engine to confirm one version; > 0
  CodecOptions codec;

  absl::Status Validate() const;
};

struct PublishStats {
  int64_t version = -1;
  int64_t wire_bytes = 0;  // of one delta, not times the number of engines; 0 = all engines share memory
  int64_t full_bytes = 0;  // of an uncompressed full copy
  double density = 0;      // changed elements / all elements
  // Consecutive stages. From send_ms on, the times are of the engine whose stages took longest in total.
  double save_ms = 0;  // before Publish: to save the version on disk; the caller fills it in
  double encode_ms = 0;
  double send_ms = 0;   // from the end of the encoding until the engine was called
  double fetch_ms = 0;  // the next four as in UpdateWeightsResponse
  double apply_ms = 0;
  double wait_ms = 0;
  double pause_ms = 0;
  double publish_ms = 0;    // from the end of the encoding until the last engine confirmed
  int64_t version_lag = 0;  // the largest number of versions that any engine is behind, lost engines included
  int full_copies = 0;      // engines that needed a full copy
  int leases_lost = 0;      // since the previous Publish, including this one
  bool retained = false;    // true = retention was requested, and every leased engine retains it
};

// The state of one engine, for metrics and the dashboard.
struct EngineInfo {
  std::string name;
  bool leased = false;
  bool busy = false;     // inside a call
  int64_t version = -1;  // last confirmed; -1 = unknown
};

class Publisher {
 public:
  // `clock` counts the deadlines. REQUIRES: it outlives the publisher.
  explicit Publisher(PublisherOptions options, const base::Clock& clock = base::Clock::Real());
  ~Publisher();

  // Sends the engine a full copy of the newest version at once, if there is one; the engine is leased once it has
  // confirmed the newest. `name` is for logs and metrics. RESOURCE_EXHAUSTED: the system cannot start a thread for it.
  absl::Status AddEngine(std::string name, std::shared_ptr<Sink> sink);

  // Returns when the version is live on every leased engine and every joining engine has answered. Waits for lost
  // engines only while no engine is leased. Versions rise; the newest may be published again, with equal weights, to
  // retain it: INVALID_ARGUMENT otherwise. If no engine is leased afterwards, the version is still the newest, and
  // publishing it again retries with the encoded bytes. The error is then UNAVAILABLE if an engine may still take the
  // version, or an engine's own error if all reject it permanently.
  absl::StatusOr<PublishStats> Publish(std::shared_ptr<const Snapshot> snapshot, bool retain);

  // Adds a retained version that an earlier publisher made, for a resumed run. Engines that lack it get it before the
  // newest. REQUIRES: nothing was published yet.
  void Retain(std::shared_ptr<const Snapshot> snapshot);

  // Call this about once a second, so that an engine's death is noticed between two versions. Asks every idle leased
  // engine for its version: an engine that does not answer, or that restarted and holds another version, loses its
  // lease. Sends the newest version to engines without a lease. Does not block.
  void CheckLeases();

  // Frees a retained version on all engines. Returns the first error of a leased engine. An engine that could not be
  // reached gets the release when it next answers.
  absl::Status Release(int64_t version);

  // For each version, the number of engines that hold it now, including versions that an earlier trainer retained.
  // An unreachable engine counts as empty. Asks one engine after the other.
  std::map<int64_t, int> HeldVersions() const;

  std::shared_ptr<const Snapshot> newest() const;
  int leased_engines() const;
  std::vector<EngineInfo> engines() const;

 private:
  struct Engine;
  struct Job;
  struct Update;
  using RetainedUpdates = std::map<int64_t, std::shared_ptr<Update>>;  // by version

  // The update for `snapshot`; newest_ if that is the same version.
  absl::StatusOr<std::shared_ptr<Update>> MakeUpdate(std::shared_ptr<const Snapshot> snapshot, bool retain)
      ABSL_LOCKS_EXCLUDED(mu_);
  // An update that holds a retained version's weights once, without an encoded copy for joining engines.
  std::shared_ptr<Update> MakeRetained(std::shared_ptr<const Snapshot> snapshot) const;
  // Why no engine is leased.
  absl::Status NoLeaseError(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Posts a task for the engine if it has a job and no task yet.
  void Schedule(Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The engine's task: runs its jobs, one after the other, until none is left.
  void Serve(Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  Job NextJob(const Engine& engine) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Job Begin(Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  void SendUpdate(Engine& engine, Job job) ABSL_LOCKS_EXCLUDED(mu_);
  void SendRelease(Engine& engine, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  void AskVersion(Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends the whole version, and the versions of `retained` that the engine lacks.
  absl::StatusOr<v1::UpdateWeightsResponse> SendFull(Engine& engine, Update& update, RetainedUpdates retained)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sends a version that the engine holds next to the newest.
  absl::Status SendBeside(Engine& engine, Update& update) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes from `retained` the versions that the engine will not hold.
  absl::Status SendRetained(Engine& engine, RetainedUpdates* retained) ABSL_LOCKS_EXCLUDED(mu_);
  void RecordConfirmed(Engine& engine, const std::shared_ptr<Update>& update, const v1::UpdateWeightsResponse& response,
                       bool full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLease(Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The engines of a Publish, which are never removed.
  struct AskedEngines {
    std::vector<Engine*> needed;  // leased or joining
    std::vector<Engine*> others;  // lost: waited for only while no engine is leased
  };
  // Makes the update the newest and lets every engine have it.
  AskedEngines Ask(const std::shared_ptr<Update>& update, bool retain) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds the answers of the leased engines. `encoded`: the moment at which the update was ready.
  void AddAnswers(const Update& update, std::chrono::nanoseconds encoded, PublishStats& stats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Waits for `done` until the deadline; false = the deadline passed first.
  bool WaitUntil(std::chrono::nanoseconds deadline, const std::function<bool()>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PublisherOptions options_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;  // an engine answered
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Update> newest_ ABSL_GUARDED_BY(mu_);
  RetainedUpdates retained_ ABSL_GUARDED_BY(mu_);  // until their release
  int leases_lost_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::Executor executor_;  // a thread per engine; last: its tasks end before the other members
};

}  // namespace ingot::weights
