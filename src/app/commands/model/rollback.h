// `ingot serve rollback`: deploys an earlier version of `ingot serve --learn` again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ingot::app {

struct RollbackArgs {
  std::string run_dir;        // RUN
  std::optional<int64_t> to;  // nullopt = the newest kept version that was trained before the deployed weights
};

// Stores the request and prints when it takes effect. Returns the exit code: 1 = the version is not kept, is damaged, or
// is deployed already; 2 = the folder is not that of `ingot serve --learn`.
int RollBack(const RollbackArgs& args);

}  // namespace ingot::app
