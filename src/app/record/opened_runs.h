// Opens the runs in a folder for their pages. A run stays open until its configuration changes or too many other runs
// have been opened.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/status.h"
#include "view/runs/run_index.h"

namespace ingot::app {

// Not thread safe. Blocks on the disk.
class OpenedRuns {
 public:
  using Open = std::function<absl::StatusOr<view::OpenedRun>(const std::string& folder)>;

  static constexpr size_t kMaxOpen = 12;  // pools with their files; the index page plots up to eight runs

  explicit OpenedRuns(Open open) : open_(std::move(open)) {}

  // Returns the run in `folder`. Errors come from `open` and are not cached.
  absl::StatusOr<view::OpenedRun> Of(const std::string& folder);

 private:
  struct Kept {
    std::string config;  // contents of config.yaml when the run was opened
    view::OpenedRun run;
    int64_t used = 0;
  };
  void DropOldest();

  const Open open_;
  int64_t uses_ = 0;
  std::map<std::string, Kept> kept_;  // by folder
};

}  // namespace ingot::app
