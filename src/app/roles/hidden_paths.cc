#include "app/roles/hidden_paths.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "kv/memory_store.h"
#include "reward/terms/judge.h"
#include "reward/terms/python_score.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

bool HasMode(const fs::path& path, mode_t any_of) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && (info.st_mode & any_of) != 0;
}

// Returns whether users other than the owner and the group can open `path`, which must be absolute.
bool IsOpenToOthers(const fs::path& path) {
  fs::path folder;
  for (const fs::path& name : path.parent_path()) {
    folder /= name;
    if (!HasMode(folder, S_IXOTH)) return false;
  }
  std::error_code error;
  if (!fs::is_directory(path, error)) return HasMode(path, S_IROTH);
  if (!HasMode(path, S_IXOTH)) return false;  // only the names in it can be listed
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (HasMode(entry->path(), entry->is_directory(error) ? S_IXOTH : S_IROTH)) return true;
  }
  return false;
}

}  // namespace

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole.string();
}

std::vector<std::string> FilesOfRun(const RunConfig& config) {
  std::vector<std::string> files = {config.tasks,
                                    config.sft_data,
                                    config.dpo_data,
                                    config.gateway.admin_key_file,
                                    config.learn.users_file,
                                    config.http.tls_key,
                                    kv::IsInMemory(config.rollout.kv_store) ? "" : config.rollout.kv_store.path,
                                    config.cluster.token_file,
                                    config.cluster.tls_key,
                                    config.cluster.registry.password_file,
                                    config.cluster.registry.key,
                                    config.loggers.mlflow_key_file,
                                    config.loggers.trackio_key_file,
                                    config.loggers.otlp_key_file,
                                    config.loggers.wandb_key_file};
  for (const auto& [name, paths] : config.eval.Files()) files.insert(files.end(), paths.begin(), paths.end());
  files.insert(files.end(), config.more_tasks.begin(), config.more_tasks.end());
  for (const gateway::ModelOptions& model : config.gateway.models) {
    files.push_back(model.token_file);
    files.push_back(model.key_file);
  }
  const auto add_function = [&files](const reward::PythonOptions& python) { files.push_back(python.File()); };
  for (const agents::RecipeOptions& recipe : config.agents.recipes) add_function(recipe.verifier.python);
  for (const reward::TermOptions& term : config.rewards.terms) {
    add_function(term.Of<reward::PythonScoreOptions>());
    files.push_back(term.Of<reward::JudgeOptions>().server.key_file);
  }
  std::erase(files, "");
  for (std::string& file : files) file = AbsolutePath(file);
  return files;
}

std::vector<std::string> ReadableByAgents(const sandbox::ProbeResult& probe_result,
                                          const std::vector<std::string>& paths) {
  std::vector<std::string> readable;
  for (const std::string& path : paths) {
    std::error_code error;
    if (probe_result.mount_namespace || probe_result.landlock > 0 || !fs::exists(path, error)) continue;
    if (!probe_result.own_uid || IsOpenToOthers(path)) readable.push_back(path);
  }
  return readable;
}

}  // namespace ingot::app
