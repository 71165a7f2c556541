// A sandbox fault is a failure caused by the state of a sandbox's own files, which its commands may have changed: a
// closed working folder, a replaced program. The status of such a failure keeps its code and text, and gets a mark. A
// second try in a sandbox with these files fails the same way, so the machine is not at fault. Pure.
#pragma once

#include "base/status.h"

namespace ingot::sandbox {

// DATA_LOSS, which copying or linking a tree may return, counts as a sandbox fault even without a mark.
bool IsSandboxFault(const absl::Status& status);

// Marks a failure to reach files: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT. Other failures, such as a full disk
// or a lack of memory, are still the machine's fault.
absl::Status AsSandboxFault(absl::Status status);

}  // namespace ingot::sandbox
