#include "app/checks/data_files.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "dataset/conversations.h"
#include "dataset/preferences.h"

namespace ingot::app {
namespace {

// Reads the file that `key` names. Returns an empty result for an empty path.
template <typename Load>
auto Read(const char* key, const std::string& path, Load load) -> decltype(load(path)) {
  if (path.empty()) return typename decltype(load(path))::value_type();
  auto loaded = load(path);
  if (loaded.ok()) return loaded;
  const absl::Status status = base::Annotate(loaded.status(), key);
  if (!absl::IsNotFound(status) || std::filesystem::path(path).is_absolute()) return status;
  std::error_code error;
  return absl::NotFoundError(absl::StrCat(status.message(), " in ", std::filesystem::current_path(error).string(),
                                          ", where ingot was started"));
}

// Checks whether one evaluation may have this many held-out tasks.
absl::Status CheckEpisodes(const RunConfig& config, int64_t tasks) {
  const int64_t episodes = tasks * config.eval.avg_n, most = config.scheduler.max_eval_episodes;
  if (episodes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("eval.tasks: ", PathsOf(config.eval), ": ", tasks,
                                                 " tasks times eval.avg_n=", config.eval.avg_n, " are ", episodes,
                                                 " episodes, above scheduler.max_eval_episodes=", most));
}

// Returns the first missing file, or else the first file; empty = there are no files.
std::string Missing(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (std::error_code error; !std::filesystem::exists(file, error)) return file;
  }
  return files.empty() ? "" : files.front();
}

}  // namespace

std::string PathsOf(const EvalOptions& eval) {
  std::vector<std::string> paths;
  for (const auto& [name, files] : eval.Files()) paths.insert(paths.end(), files.begin(), files.end());
  return absl::StrJoin(paths, ", ");
}

absl::StatusOr<RunData> ReadDataFiles(const RunConfig& config) {
  RunData data;
  // `key` names the files. If there are none, there are no tasks.
  const auto read = [](const char* key, const std::vector<std::string>& files) {
    return Read(key, Missing(files), [&files](const std::string&) { return dataset::ReadTasks(files); });
  };
  INGOT_ASSIGN_OR_RETURN(data.tasks, read("data.tasks", config.task_files()));
  for (const auto& [name, files] : config.eval.Files()) {
    INGOT_ASSIGN_OR_RETURN(dataset::TaskSource set, read("eval.tasks", files));
    dataset::AddTaskSet(name, std::move(set), data.eval_tasks);
  }
  INGOT_RETURN_IF_ERROR(CheckEpisodes(config, std::ssize(data.eval_tasks.tasks)));
  INGOT_ASSIGN_OR_RETURN(const auto conversations, Read("data.sft", config.sft_data, [](const std::string& path) {
                           return dataset::LoadConversations(path);
                         }));
  INGOT_ASSIGN_OR_RETURN(const auto pairs, Read("data.dpo", config.dpo_data, [](const std::string& path) {
                           return dataset::LoadPreferences(path);
                         }));
  data.conversations = std::ssize(conversations);
  data.pairs = std::ssize(pairs);
  return data;
}

}  // namespace ingot::app
