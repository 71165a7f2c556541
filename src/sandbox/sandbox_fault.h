// A sandbox fault is a failure caused by a sandbox's own files, which its commands may have changed, such as an
// inaccessible working directory or a replaced program. The status is marked but keeps its code and message. A retry
// with the same files would fail the same way, and the machine is not at fault. Pure.
#pragma once

#include "base/status.h"

namespace ingot::sandbox {

// DATA_LOSS, which copying or linking a tree may return, counts as a sandbox fault even without the mark.
bool IsSandboxFault(const absl::Status& status);

// Marks failures to access files: NOT_FOUND, PERMISSION_DENIED, and INVALID_ARGUMENT. Other failures, such as a full
// disk or a lack of memory, are the machine's fault.
absl::Status AsSandboxFault(absl::Status status);

}  // namespace ingot::sandbox
