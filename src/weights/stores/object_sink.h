// Creates a Sink for an engine that reads versions from a store. A VersionWriter stores them, a Follower in the
// engine's process fetches them, and the sink waits for the engine's acknowledgement (version_layout.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "weights/sink.h"
#include "weights/stores/version_writer.h"

namespace ingot::weights {

struct ObjectSinkOptions {
  std::chrono::milliseconds deadline{60000};  // time limit for acknowledging a call (DEADLINE_EXCEEDED), > 0
  std::chrono::milliseconds poll{200};        // interval between reads of the acknowledgement, > 0
  std::chrono::milliseconds silence{10000};   // time without a heartbeat until the engine is considered dead; > 0

  absl::Status Validate() const;
};

// Its Update returns once the engine has acknowledged the version and its checksum. Returns UNAVAILABLE if the engine
// has not written an acknowledgement or is silent. Errors from the engine and the store are returned unchanged. Thread
// safe. `clock` must outlive the sink.
absl::StatusOr<std::unique_ptr<Sink>> NewObjectSink(std::shared_ptr<VersionWriter> writer, std::string engine,
                                                    ObjectSinkOptions options = {},
                                                    const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::weights
