// A Sink for an engine that reads its versions from a store: a VersionWriter stores them, a Follower in the engine's
// process fetches them, and the sink waits for the engine's acknowledgement (version_layout.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "weights/sink.h"
#include "weights/stores/version_writer.h"

namespace ingot::weights {

struct ObjectSinkOptions {
  std::chrono::milliseconds deadline{60000};  // for an acknowledgement of one call, > 0; DEADLINE_EXCEEDED after it
  std::chrono::milliseconds poll{200};        // between two reads of it, > 0
  std::chrono::milliseconds silence{10000};   // without a heartbeat before the engine is considered dead; > 0

  absl::Status Validate() const;
};

// Update returns once the engine has acknowledged the version and its checksum. UNAVAILABLE: the engine has written no
// acknowledgement, or is silent. Errors of the engine and of the store are returned unchanged. Thread safe; `clock`
// outlives the sink.
absl::StatusOr<std::unique_ptr<Sink>> NewObjectSink(std::shared_ptr<VersionWriter> writer, std::string engine,
                                                    ObjectSinkOptions options = {},
                                                    const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::weights
