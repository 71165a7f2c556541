// Sends each new version to every leased engine: a delta against the version that engine last confirmed, a full copy
// where that is refused. An engine that does not confirm in time loses its lease; Rejoin gives it a full copy of the
// newest version and a new lease. A version is live when every leased engine has it.
//
// Publish is called by one thread (the trainer's); the rest is thread safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "weights/sink.h"

namespace ingot::weights {

struct PublisherOptions {
  std::chrono::milliseconds deadline{30000};  // for one engine to confirm one version; > 0
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
  int leases_lost = 0;
};

class Publisher {
 public:
  explicit Publisher(PublisherOptions options);
  ~Publisher();

  // `name` is for logs and metrics. The engine is leased once it has confirmed its first version.
  void AddEngine(std::string name, std::shared_ptr<Sink> sink);

  // Returns when the version is live on every leased engine. UNAVAILABLE if no engine holds a lease afterwards.
  absl::StatusOr<PublishStats> Publish(std::shared_ptr<const Snapshot> snapshot, bool retain);

  // Frees a retained version on all engines.
  absl::Status Release(int64_t version);

  std::shared_ptr<const Snapshot> newest() const;
  int leased_engines() const;

 private:
  struct Engine;
  const PublisherOptions options_;
  mutable base::Mutex mu_;
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const Snapshot> newest_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::weights
