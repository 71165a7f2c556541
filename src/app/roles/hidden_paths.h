// The files of a run that its agents must not see, and those of them that they can read all the same.
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

// The paths that agents can read under `probe_result`: none where a mount namespace covers them, the ones whose mode lets other
// users in where agents have a uid of their own, else all that are there. A folder counts if something right in it can
// be read.
std::vector<std::string> ReadableByAgents(const sandbox::ProbeResult& probe_result,
                                          const std::vector<std::string>& paths);

}  // namespace ingot::app
