// Lists the runs in a folder, such as runs/, with their configurations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"
#include "view/runs/run_index.h"

namespace ingot::app {

// Returns the keys whose values differ between `first` and `run`, except keys that always differ between runs, such as
// run.name and names that default to it.
std::vector<base::Schema::Difference> ConfigDifferences(const LoadedConfig& first, const LoadedConfig& run);

// Returns the sorted subfolders that have a config.yaml. Returns none if `folder` itself has one, because it is a run.
std::vector<std::string> RunFoldersIn(const std::string& folder);

// Not thread safe. Blocks on the disk.
class RunList {
 public:
  explicit RunList(std::string folder) : folder_(std::move(folder)) {}

  // Returns the current runs. Reloads and compares a configuration only if its file has changed. If it cannot be loaded, the run's
  // `error` contains the reason.
  std::vector<view::IndexedRun> Read();

 private:
  struct Known {
    std::string text;  // contents of config.yaml
    absl::StatusOr<LoadedConfig> loaded = absl::UnavailableError("not read yet");
    std::vector<view::IndexedRun::KeyDifference> differences = {};
    std::string compared_with = {};  // the first run's `text` that `differences` refers to; empty = not compared yet
  };
  // Comparing is slow, so it is repeated only if either configuration has changed.
  static void Compare(const Known& first, Known& run);
  const std::string folder_;
  std::map<std::string, Known> known_;  // by run folder
};

}  // namespace ingot::app
