// Sends a snapshot's files to the reader that requested them from the gateway, as parts of a tar archive.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "proto/gateway.pb.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// `send` blocks until the part is accepted. If it fails, SendFiles stops and returns its error. If the archive cannot
// be completed, the last part contains the error, which is also returned. Null `files` = the snapshot is not held. In
// that case, the error is NOT_FOUND, and the last part has `done` set so that the reader does not retry.
absl::Status SendFiles(const sandbox::Snapshot* files, const v1::NextSnapshotResponse& request,
                       const std::function<absl::Status(const v1::SnapshotFilesPart&)>& send);

}  // namespace ingot::agents
