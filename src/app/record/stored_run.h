// Reads a run's folder for commands: its configuration and its pool. The run may still be active.
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
  bool other_model = false;                // an override sets the model or its format
  std::unique_ptr<datapool::Client> pool;  // read-only; null = the run has none
  std::string no_pool;                     // the reason if there is none; empty = there is one

  const RunConfig& config() const { return *loaded.config; }
  // Loads the tokenizer that the run keeps (models/kept_tokenizer.h), or else the one in its model folder.
  absl::StatusOr<TextParts> Text() const;
};

// Loads a run's configuration from its folder. Returns NOT_FOUND if there is no run folder or it has no configuration.
// Returns FAILED_PRECONDITION from CheckRunFormat. `overrides` are as in OpenRunFolder.
absl::StatusOr<LoadedConfig> LoadStoredConfig(const std::string& run_dir,
                                              const std::vector<std::string>& overrides = {});

// `overrides` are KEY=VALUE and replace values of the run's configuration. Returns the errors of LoadStoredConfig and
// OpenPool. A run has no pool if it is supervised or a retraining, or if it ended before its first episode.
absl::StatusOr<StoredRun> OpenRunFolder(const std::string& run_dir, const std::vector<std::string>& overrides = {});

// Same as OpenRunFolder, but for commands that read episodes. Also returns NOT_FOUND if the run has no pool.
absl::StatusOr<StoredRun> OpenStoredRun(const std::string& run_dir, const std::vector<std::string>& overrides = {});

// Explains why a run without tasks has no pool.
inline constexpr char kSupervisedHasNoPool[] = "a supervised run has no agents, and so no episodes and no pool";

// File in a run created by `ingot retrain`. Names the run that provides the batches, and the steps used there.
inline constexpr char kRetraining[] = "retrain.json";
// Explains why such a run has no pool.
inline constexpr char kRetrainedHasNoPool[] =
    "a run of `ingot retrain` has no agents; its episodes are in the pool of the run that retrain.json names";

}  // namespace ingot::app
