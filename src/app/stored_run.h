// A run's folder as commands read it: its configuration and its pool, beside a run that is still going too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/run_config.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

struct StoredRun {
  LoadedConfig loaded;
  std::unique_ptr<datapool::Client> pool;  // for reading alone

  const RunConfig& config() const { return *loaded.config; }
};

// `overrides`: KEY=VALUE, over the run's own configuration. NOT_FOUND: no run folder, or one without its configuration.
// Errors of the pool are OpenPool's.
absl::StatusOr<StoredRun> OpenStoredRun(const std::string& run_dir, const std::vector<std::string>& overrides = {});

}  // namespace ingot::app
