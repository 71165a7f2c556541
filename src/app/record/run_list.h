// The runs in a folder, such as runs/, with their configurations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"
#include "view/run_index.h"

namespace ingot::app {

// The keys in which the configuration of `run` differs from that of `first`, without those that every run has for itself.
std::vector<base::Schema::Difference> ConfigDifferences(const LoadedConfig& first, const LoadedConfig& run);

// The folders in `folder` that have a config.yaml, sorted. Empty if `folder` has one itself: it is a run.
std::vector<std::string> RunFoldersIn(const std::string& folder);

// Not thread safe. Blocks on the disk.
class RunList {
 public:
  explicit RunList(std::string folder) : folder_(std::move(folder)) {}

  // The runs as they are now. A configuration is loaded again only when its file has changed; one that cannot be loaded
  // is its run's error.
  std::vector<view::IndexedRun> Read();

 private:
  struct Known {
    std::string text;  // of its config.yaml
    absl::StatusOr<LoadedConfig> loaded = absl::UnavailableError("not read yet");
  };
  const std::string folder_;
  std::map<std::string, Known> known_;  // by the run's folder
};

}  // namespace ingot::app
