// Sends the files of a snapshot to the reader that asked the gateway for them, as parts of a tar archive, in order.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "proto/gateway.pb.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// `send` blocks until the part was taken; its error ends the sending and is the result. An archive that cannot be
// completed ends with a part that has the error, which is also the result. `files` null = the snapshot is not held:
// NOT_FOUND, in a last part (`done`), so that the reader does not ask again.
absl::Status SendFiles(const sandbox::Snapshot* files, const v1::NextSnapshotResponse& ask,
                       const std::function<absl::Status(const v1::SnapshotFilesPart&)>& send);

}  // namespace ingot::agents
