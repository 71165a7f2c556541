// The files of a run that its agents must not see, and which of them they can read anyway.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "sandbox/substrate.h"

namespace ingot::app {

// `path` without links and dots, as far as it exists.
std::string AbsolutePath(const std::string& path);

// Tasks, examples and keys that the configuration names, as absolute paths. The run's folder is not among them.
std::vector<std::string> FilesOfRun(const RunConfig& config);

// The paths that agents can read under `probe_result`: none where a mount namespace covers them or Landlock's rules leave them
// out; where agents have
// their own uid, the paths that other users may read; else all that exist. A folder counts if something directly in it
// can be read.
std::vector<std::string> ReadableByAgents(const sandbox::ProbeResult& probe_result,
                                          const std::vector<std::string>& paths);

}  // namespace ingot::app
