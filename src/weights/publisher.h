// Sends each new version to every engine, all at once: a delta to those that confirmed the version before, a full copy
// to the others and where a delta is refused.
//
//   joining --confirmed newest--> leased --error, or no answer by the deadline--> lost --confirmed newest--> leased
//
// A version is live when every leased engine has confirmed it. An engine that was too slow catches up on its own once
// it answers; one that failed is tried again, with a full copy, by the next Publish or CheckLeases.
//
// Versions that engines are to retain are kept here too until their release. An engine that needs a full copy is asked
// what it holds, before that and after, and is given what it lacks of them, to hold beside the newest: one that was
// started again lacks them all, and one that holds other weights under the same number is given these in their place.
// It is not leased before it has them, but for those that it refuses for good or has no room for; the log names these.
// Nothing that follows the newest ever runs on them.
//
// Each engine has a thread of its own, so that a hung one delays nobody beyond the deadline. Publish and Release
// block; Publish is called by one thread (the trainer's), the rest is thread safe. The destructor waits for
// updates in flight: a Sink must end its calls by itself in the long run.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
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
  int64_t wire_bytes = 0;  // of the delta, once, whatever the number of engines
  int64_t full_bytes = 0;  // of an uncompressed full copy
  double density = 0;      // changed elements / all elements
  double encode_ms = 0;
  double publish_ms = 0;  // from encode's end until the last engine confirmed
  double pause_ms = 0;    // longest of any engine
  int full_copies = 0;    // engines that needed one
  int leases_lost = 0;    // since the previous Publish, this one included
  bool retained = false;  // on every leased engine, as was asked for
};

// One engine, for metrics and the dashboard.
struct EngineInfo {
  std::string name;
  bool leased = false;
  bool busy = false;     // inside a call
  int64_t version = -1;  // last confirmed; -1: unknown
};

class Publisher {
 public:
  // `clock` counts the deadline; REQUIRES: it outlives the publisher.
  explicit Publisher(PublisherOptions options, const base::Clock& clock = base::Clock::Real());
  ~Publisher();

  // `name` is for logs and metrics. Starts at once with a full copy of the newest version, if there is one; the engine
  // is leased once it has confirmed the newest.
  void AddEngine(std::string name, std::shared_ptr<Sink> sink);

  // Returns when the version is live on every leased engine and those that never had one answered too; waits for other
  // engines without a lease only while nobody has one. Versions rise; the newest may be published again (to retain it),
  // with equal weights. INVALID_ARGUMENT otherwise. If no engine holds a lease afterwards, the version is the newest
  // all the same, and publishing it again tries again, with what was encoded: UNAVAILABLE if an engine may take it
  // then, or an engine's own error, if all refuse it for good.
  absl::StatusOr<PublishStats> Publish(std::shared_ptr<const Snapshot> snapshot, bool retain);

  // A version that engines are to retain although this publisher did not publish it: a resumed run's, from before.
  // Those that do not hold it get it before the newest. REQUIRES: nothing was published yet.
  void Retain(std::shared_ptr<const Snapshot> snapshot);

  // To be called about once a second, so that an engine's death is noticed between two versions. Asks every idle leased
  // engine what it holds: one that cannot say, or holds something else (it was started again), loses its lease. Those
  // without one are given the newest version. Does not wait for any of it.
  void CheckLeases();

  // Frees a retained version on all engines. The first error of a leased engine; whoever could not be told is told when
  // it next answers.
  absl::Status Release(int64_t version);

  // What the engines hold now, by how many of them: also what a trainer before this one had them retain. Those that
  // cannot be reached hold nothing. Asks one after the other.
  std::map<int64_t, int> HeldVersions() const;

  std::shared_ptr<const Snapshot> newest() const;
  int leased_engines() const;
  std::vector<EngineInfo> engines() const;

 private:
  struct Engine;
  struct Update;
  using Retained = std::map<int64_t, std::shared_ptr<Update>>;  // by version

  void Run(Engine& engine);
  // What publishing `snapshot` sends: the newest update itself if it is that already.
  absl::StatusOr<std::shared_ptr<Update>> ToPublish(std::shared_ptr<const Snapshot> snapshot, bool retain)
      ABSL_LOCKS_EXCLUDED(mu_);
  // What is kept of a version that is retained: its weights once, and no copy encoded for engines of before.
  std::shared_ptr<Update> ToKeep(std::shared_ptr<const Snapshot> snapshot) const;
  absl::Status WhyNowhere(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendUpdate(Engine& engine, std::shared_ptr<Update> update) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A full copy, and what the engine lacks of `retained`.
  absl::StatusOr<v1::UpdateWeightsResponse> SendFull(Engine& engine, Update& update, Retained retained)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes out of `retained` what the engine will not hold.
  absl::Status SendRetained(Engine& engine, Retained* retained) ABSL_LOCKS_EXCLUDED(mu_);
  void SendReleases(Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AskVersion(Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until `done` or the deadline; false if that passed first.
  bool WaitUntil(std::chrono::nanoseconds deadline, const std::function<bool()>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PublisherOptions options_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Update> newest_ ABSL_GUARDED_BY(mu_);
  Retained retained_ ABSL_GUARDED_BY(mu_);  // until their release
  int leases_lost_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::weights
