// Lists the run files that agents must not see, and finds those that agents can still read.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "sandbox/substrate.h"

namespace ingot::app {

// Returns `path` as an absolute path. Resolves links and dots in the part that exists.
std::string AbsolutePath(const std::string& path);

// Returns the absolute paths of the tasks, examples, keys, and KV store in the configuration. Excludes the run's folder.
std::vector<std::string> FilesOfRun(const RunConfig& config);

// Returns the paths that agents can read under `probe_result`. Returns none if a mount namespace or Landlock hides
// them. If agents have their own uid, returns the paths that other users may read. Otherwise, returns all paths that
// exist. A folder counts if anything directly in it is readable.
std::vector<std::string> ReadableByAgents(const sandbox::ProbeResult& probe_result,
                                          const std::vector<std::string>& paths);

}  // namespace ingot::app
