// One look at the wall of a sandbox, whole or without a part: what a command prints there (probe.py), and what is seen from
// outside.
#pragma once

#include <map>
#include <string>

#include "sandbox/measures.h"

namespace ingot::sandbox {

// Walls that a machine may grant.
enum class Setting { kFull, kLayered, kCompanion, kProcess, kSharedUid, kClosedProgram, kUsers, kLandlock, kPlain };

struct TrialOptions {
  Setting setting = Setting::kFull;
  Measure left_out = Measure::kNone;
  std::string unlimited = "";  // a limit that is not set
};

using Lines = std::map<std::string, std::string>;

// Runs the trial in a process that ends with it, so that it changes nothing else. REQUIRES: root. Blocks until it has ended.
Lines LookAt(const TrialOptions& trial);

}  // namespace ingot::sandbox
