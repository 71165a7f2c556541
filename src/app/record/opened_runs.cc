#include "app/record/opened_runs.h"

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace ingot::app {

absl::StatusOr<view::OpenedRun> OpenedRuns::Of(const std::string& folder) {
  const std::string config = base::ReadFile(folder + "/config.yaml").value_or("");  // before reading the rest
  const auto found = kept_.find(folder);
  if (found != kept_.end() && found->second.config == config) {
    found->second.used = ++uses_;
    return found->second.run;
  }
  if (found != kept_.end()) kept_.erase(found);
  INGOT_ASSIGN_OR_RETURN(view::OpenedRun run, open_(folder));
  if (kept_.size() >= kMaxOpen) DropOldest();
  kept_[folder] = {config, run, ++uses_};
  return run;
}

void OpenedRuns::DropOldest() {
  kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                               [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

}  // namespace ingot::app
