// Sends the files of a snapshot to whoever asked the gateway for them, as parts of a tar archive in their order.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "proto/gateway.pb.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// `send` blocks until the part was taken; its error ends the sending and is the result. An archive that cannot be written to
// its end ends with a part that has the error, which is the result too. `files` null = the snapshot is not held: NOT_FOUND, and
// the part is the last one (`done`), so that the reader does not ask again.
absl::Status SendFiles(const sandbox::Snapshot* files, const v1::NextSnapshotResponse& ask,
                       const std::function<absl::Status(const v1::SnapshotFilesPart&)>& send);

}  // namespace ingot::agents
