// A Follower brings the versions that a VersionWriter stored to an engine, in the engine's process. It polls `live`,
// fetches what the engine lacks, checks it, passes it to the engine as any sender would, and acknowledges.
//
//   live --> the engine holds a version of the route?  yes: the deltas from there on
//                                                      no, or a delta is rejected: the last anchor and its deltas
//        --> retained versions that it lacks, before the newest; releases of versions no longer retained, after it
//        --> acks/ENGINE: (sequence, version, checksum), or the error; retried once a second
//
// A separate timer writes the acknowledgement's beat, also during a fetch, so that a stopped or dead process is noticed
// by its silence. Thread safe.
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
  std::string history = {};                   // LiveVersions.history of the run; empty = any
  std::string engine;                         // the name in its acknowledgement
  std::chrono::milliseconds poll{200};        // between two reads of `live`, > 0
  std::chrono::milliseconds heartbeat{1000};  // between two beats, > 0
  std::chrono::milliseconds retry{1000};      // after an error, > 0
  CodecOptions codec = {};                    // max_bytes: of one version

  absl::Status Validate() const;
};

class Follower {
 public:
  // Starts to follow. `engine` and `clock` outlive the follower.
  static absl::StatusOr<std::unique_ptr<Follower>> Start(std::shared_ptr<ObjectStore> store, Sink& engine,
                                                         FollowerOptions options,
                                                         const base::Clock& clock = base::Clock::Real());
  // Waits for a fetch in progress.
  ~Follower();

 private:
  Follower(std::shared_ptr<ObjectStore> store, Sink& engine, FollowerOptions options, const base::Clock& clock);

  // The cost of one read of `live`.
  struct Cost {
    double fetch_ms = 0, apply_ms = 0, pause_ms = 0;
    int64_t fetched_bytes = 0;
    bool not_retained = false;
  };

  void Look();  // on one thread at a time, like the functions below it
  absl::Status Follow(const v1::LiveVersions& live, Cost* cost);
  absl::Status HoldRetained(const v1::LiveVersions& live, Cost* cost);
  absl::Status TakeNewest(const v1::LiveVersions& live, Cost* cost);
  absl::Status TakeDeltas(const v1::LiveVersions& live, int from, Cost* cost);
  absl::Status TakeAnchor(const v1::LiveVersions& live, Cost* cost);
  absl::Status Send(EncodedDelta delta, bool retain, Cost* cost);
  // The weights at the end of a route.
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
  v1::LiveVersions done_;                 // the last one that the engine followed without an error
  std::chrono::nanoseconds next_try_{0};  // after an error
  std::set<std::string> retained_;        // folders of versions that the engine was asked to hold
  std::set<std::string> rejected_;        // of these, the versions that it has no memory for
  std::string logged_;                    // the last error, logged once

  base::Mutex mu_;
  v1::EngineAck ack_ ABSL_GUARDED_BY(mu_);
  base::Outage silence_ ABSL_GUARDED_BY(mu_);  // of the acknowledgement
  base::Executor threads_;                     // two: one polls, one beats
  base::Timer looking_, beating_;
};

}  // namespace ingot::weights
