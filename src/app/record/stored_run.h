// A run's folder as commands read it: its configuration and its pool, even while the run is active.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/models/text_parts.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

struct StoredRun {
  std::string folder;
  LoadedConfig loaded;
  bool other_model = false;                // the overrides name a model or its format
  std::unique_ptr<datapool::Client> pool;  // read-only; null = the run has none
  std::string no_pool;                     // says why there is none; empty = there is one

  const RunConfig& config() const { return *loaded.config; }
  // The tokenizer that the run keeps (models/kept_tokenizer.h), otherwise that of its model's folder.
  absl::StatusOr<TextParts> Text() const;
};

// A run's configuration, as its folder has it. NOT_FOUND: no run folder, or one without its configuration.
// FAILED_PRECONDITION: CheckRunFormat. `overrides`: as below.
absl::StatusOr<LoadedConfig> LoadStoredConfig(const std::string& run_dir,
                                              const std::vector<std::string>& overrides = {});

// `overrides`: KEY=VALUE, over the run's own configuration. Errors are LoadStoredConfig's, and those of the pool are OpenPool's. A run without a pool is supervised or a
// retraining, or ended before its first episode.
absl::StatusOr<StoredRun> OpenRunFolder(const std::string& run_dir, const std::vector<std::string>& overrides = {});

// The same for commands that read episodes. NOT_FOUND: the run has no pool, too.
absl::StatusOr<StoredRun> OpenStoredRun(const std::string& run_dir, const std::vector<std::string>& overrides = {});

// Says why a run without tasks has no pool.
inline constexpr char kSupervisedHasNoPool[] = "a supervised run has no agents, and so no episodes and no pool";

// The file of a run that `ingot retrain` made: the run whose batches it trains on, and their steps there.
inline constexpr char kRetraining[] = "retrain.json";
// Says why such a run has no pool.
inline constexpr char kRetrainedHasNoPool[] =
    "a run of `ingot retrain` has no agents; its episodes are in the pool of the run that retrain.json names";

}  // namespace ingot::app
