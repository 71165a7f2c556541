#include "app/stored_run.h"

#include <sys/resource.h>

#include <filesystem>

#include "datapool/store.h"

namespace ingot::app {
namespace {

// A reader of a pool holds all its files open at once.
void AllowAllFiles() {
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // where it is refused, opening the pool says which file is one too many
}

}  // namespace

absl::StatusOr<StoredRun> OpenStoredRun(const std::string& run_dir, const std::vector<std::string>& overrides) {
  const std::string config_path = run_dir + "/config.yaml";
  if (!std::filesystem::exists(config_path)) {
    std::error_code none;
    const bool pool = std::filesystem::exists(run_dir + "/pool", none);
    return absl::NotFoundError(
        pool ? absl::StrCat(config_path,
                            " is gone, which names the pool's shards and the tokenizer: copy the run's "
                            "configuration there")
             : absl::StrCat("'", run_dir, "' is not a run folder: it has no config.yaml"));
  }
  StoredRun run;
  INGOT_ASSIGN_OR_RETURN(run.loaded, LoadRunConfig(config_path, overrides));
  datapool::StoreOptions options = run.loaded.config->datapool;
  options.path = run_dir + "/pool";
  options.read_only = true;  // the run may still be going, or the folder be somebody else's
  AllowAllFiles();
  INGOT_ASSIGN_OR_RETURN(run.pool, datapool::OpenPool(options));
  return run;
}

}  // namespace ingot::app
