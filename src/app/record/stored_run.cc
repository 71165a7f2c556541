#include "app/record/stored_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/run/kept_template.h"
#include "app/run/run_dir.h"
#include "datapool/store.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

// Raises the open file limit, because a pool reader keeps all of the pool's files open.
void AllowAllFiles() {
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // if this fails, opening the pool reports the file that exceeds the limit
}

bool Exists(const std::string& path) {
  std::error_code none;
  return fs::exists(path, none);
}

// Returns a NOT_FOUND error that explains what a folder without a configuration is and what to do.
absl::Status NoRun(const std::string& run_dir) {
  if (Exists(run_dir + "/pool") || Exists(run_dir + "/metrics.jsonl")) {
    return absl::NotFoundError(absl::StrCat(run_dir,
                                            "/config.yaml, which names the pool's shards and the tokenizer, is "
                                            "missing: copy the run's configuration there"));
  }
  std::error_code none;
  const std::string is = absl::StrCat("'", run_dir, "' is not a run folder: ");
  if (!fs::is_directory(run_dir, none)) {
    return absl::NotFoundError(absl::StrCat(is, Exists(run_dir) ? "it is a file" : "it does not exist",
                                            "; give the folder run.root/run.name, such as runs/smoke"));
  }
  std::vector<std::string> runs;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir, none)) {
    if (Exists(entry.path().string() + "/config.yaml")) runs.push_back(entry.path().string());
  }
  if (runs.empty()) {
    return absl::NotFoundError(
        absl::StrCat(is, "it has no config.yaml; give the folder run.root/run.name, such as runs/smoke"));
  }
  return absl::NotFoundError(absl::StrCat(is, "it has no config.yaml, but contains ", runs.size(),
                                          runs.size() == 1 ? " run" : " runs", "; give one, such as ",
                                          *std::min_element(runs.begin(), runs.end())));
}

// Returns whether a pool was ever created there, even if it is damaged.
bool PoolWasMade(const datapool::StoreOptions& options) {
  if (options.backend == "postgres") return Exists(options.path);
  std::error_code none;
  const auto shards = fs::directory_iterator(options.path, none);
  return std::any_of(begin(shards), end(shards),
                     [](const fs::directory_entry& shard) { return Exists(shard.path().string() + "/CURRENT"); });
}

std::string WhyNoPool(const RunConfig& config, const std::string& path) {
  if (config.tasks.empty()) return kSupervisedHasNoPool;
  return absl::StrCat(path, " does not exist: the run ended before its first episode, or its pool was removed");
}

bool NamesModel(const std::vector<std::string>& overrides) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [](const std::string& override) { return override.starts_with("model."); });
}

}  // namespace

absl::StatusOr<TextParts> StoredRun::Text() const {
  return HasKeptTokenizer(folder) && !other_model ? KeptTextParts(folder) : TextPartsOf(config().model);
}

absl::StatusOr<LoadedConfig> LoadStoredConfig(const std::string& run_dir, const std::vector<std::string>& overrides) {
  const std::string config_path = run_dir + "/config.yaml";
  if (!Exists(config_path)) return NoRun(run_dir);
  INGOT_RETURN_IF_ERROR(CheckRunFormat(run_dir));
  return LoadRunConfig(config_path, overrides);
}

absl::StatusOr<StoredRun> OpenRunFolder(const std::string& run_dir, const std::vector<std::string>& overrides) {
  StoredRun run;
  run.folder = run_dir;
  run.other_model = NamesModel(overrides);
  INGOT_ASSIGN_OR_RETURN(run.loaded, LoadStoredConfig(run_dir, overrides));
  UseKeptTemplate(run_dir, run.loaded.config->model);
  datapool::StoreOptions options = run.loaded.config->datapool;
  options.path = run_dir + "/pool";
  options.read_only = true;  // the run may still be active, or the folder may belong to another user
  if (Exists(absl::StrCat(run_dir, "/", kRetraining)) && !Exists(options.path)) {
    run.no_pool = kRetrainedHasNoPool;
    return run;
  }
  AllowAllFiles();
  absl::StatusOr<std::unique_ptr<datapool::Client>> pool = datapool::OpenPool(options);
  if (absl::IsNotFound(pool.status()) && !PoolWasMade(options)) {
    run.no_pool = WhyNoPool(run.config(), options.path);
    return run;
  }
  INGOT_ASSIGN_OR_RETURN(run.pool, std::move(pool));
  return run;
}

absl::StatusOr<StoredRun> OpenStoredRun(const std::string& run_dir, const std::vector<std::string>& overrides) {
  INGOT_ASSIGN_OR_RETURN(StoredRun run, OpenRunFolder(run_dir, overrides));
  if (run.no_pool.empty()) return run;
  return absl::NotFoundError(absl::StrCat(run_dir, " has no episodes to read: ", run.no_pool,
                                          "; use `ingot view` or `ingot report` to see its record"));
}

}  // namespace ingot::app
