// Runs in the engine's process and delivers the versions stored by a VersionWriter to the engine. Polls `live`, fetches
// and checks the versions that the engine lacks, passes them to the engine's Sink, and acknowledges them.
//
//   live --> the engine has a version on the route?  yes: the deltas from there on
//                                                      no, or a delta is rejected: the last anchor and its deltas
//        --> missing retained versions, before the newest; releases of versions no longer retained, after it
//        --> acks/ENGINE: (sequence, version, checksum), or the error; retried once per second
//
// A separate timer writes a heartbeat into the acknowledgement, even during a fetch, so that a stopped or dead process
// can be detected. Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/outage.h"
#include "weights/stores/version_layout.h"

namespace ingot::weights {

struct FollowerOptions {
  std::string run;
  std::string history = {};                   // the run's LiveVersions.history; empty = any
  std::string engine;                         // the engine's name in its acknowledgement
  std::chrono::milliseconds poll{200};        // interval between reads of `live`, > 0
  std::chrono::milliseconds heartbeat{1000};  // interval between heartbeats, > 0
  std::chrono::milliseconds retry{1000};      // delay after an error, > 0
  CodecOptions codec = {};                    // max_bytes limits one version

  absl::Status Validate() const;
};

class Follower {
 public:
  // Starts following. `engine` and `clock` must outlive the follower.
  static absl::StatusOr<std::unique_ptr<Follower>> Start(std::shared_ptr<ObjectStore> store, Sink& engine,
                                                         FollowerOptions options,
                                                         const base::Clock& clock = base::Clock::Real());
  // Waits for a fetch in progress.
  ~Follower();

 private:
  Follower(std::shared_ptr<ObjectStore> store, Sink& engine, FollowerOptions options, const base::Clock& clock);

  // The cost of processing one `live` object.
  struct Cost {
    double fetch_ms = 0, apply_ms = 0, pause_ms = 0;
    int64_t fetched_bytes = 0;
    bool not_retained = false;
  };

  void Poll();  // runs on one thread at a time, as do the functions below
  absl::Status Follow(const v1::LiveVersions& live, Cost* cost);
  absl::Status HoldRetained(const v1::LiveVersions& live, Cost* cost);
  absl::Status TakeNewest(const v1::LiveVersions& live, Cost* cost);
  absl::Status TakeDeltas(const v1::LiveVersions& live, int from, Cost* cost);
  absl::Status TakeAnchor(const v1::LiveVersions& live, Cost* cost);
  absl::Status Send(EncodedDelta delta, bool retain, Cost* cost);
  // Returns the weights at the end of a route.
  absl::StatusOr<std::shared_ptr<const Snapshot>> Restore(const v1::VersionRoute& route, Cost* cost);
  absl::StatusOr<EncodedDelta> Load(const HeldVersion& name, VersionKind kind, Cost* cost);
  absl::StatusOr<HeldVersion> Live();
  absl::Status ReleaseOthers(const v1::LiveVersions& live);

  void Acknowledge(const v1::LiveVersions& live, const absl::Status& status, const Cost& cost) ABSL_LOCKS_EXCLUDED(mu_);
  void Beat() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteAck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Log(const absl::Status& status, const char* what);

  const std::shared_ptr<ObjectStore> store_;
  Sink& engine_;
  const FollowerOptions options_;
  const base::Clock& clock_;

  // Used by the polling thread.
  v1::LiveVersions done_;                 // the last `live` that the engine followed without an error
  std::chrono::nanoseconds next_try_{0};  // after an error
  std::set<std::string> retained_;        // directories of versions that the engine was asked to keep
  std::set<std::string> rejected_;        // the retained_ versions for which it has no memory
  std::string logged_;                    // the last error, which is logged only once

  base::Mutex mu_;
  v1::EngineAck ack_ ABSL_GUARDED_BY(mu_);
  base::Outage silence_ ABSL_GUARDED_BY(mu_);  // tracks failures to write the acknowledgement
  base::Executor threads_;                     // one thread polls, and one sends heartbeats
  base::Timer looking_, beating_;
};

}  // namespace ingot::weights
