// A sandbox fault is a failure for the state of a sandbox's own files, which the commands that ran in it may have changed: a closed
// working folder, a program that was replaced. It is marked on the status, whose code and text stay. A second try in a sandbox with
// these files fails in the same way, so that it is no fault of the machine. Pure.
#pragma once

#include "base/status.h"

namespace ingot::sandbox {

// DATA_LOSS is one without a mark (copies and links of trees).
bool IsSandboxFault(const absl::Status& status);

// Marks a failure to reach files: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT. Others, such as a full disk or a lack of memory,
// stay the machine's.
absl::Status AsSandboxFault(absl::Status status);

}  // namespace ingot::sandbox
