#include "app/data_files.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "dataset/conversations.h"
#include "dataset/preferences.h"

namespace ingot::app {
namespace {

// Reads the file that `key` names; an empty path names none, and the result is empty.
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

// The file that is missing, otherwise the first; empty = there is none.
std::string Missing(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (std::error_code error; !std::filesystem::exists(file, error)) return file;
  }
  return files.empty() ? "" : files.front();
}

}  // namespace

absl::StatusOr<RunData> ReadDataFiles(const RunConfig& config) {
  RunData data;
  const std::vector<std::string> files = config.task_files();
  const auto tasks = [&files](const std::string&) { return dataset::ReadTasks(files); };
  const auto held_out = [&config](const std::string& path) -> absl::StatusOr<dataset::TaskSource> {
    INGOT_ASSIGN_OR_RETURN(dataset::TaskSource source, dataset::ReadTasks(path));
    const int64_t episodes = std::ssize(source.tasks) * config.eval.avg_n, most = config.scheduler.max_eval_episodes;
    if (episodes <= most) return source;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", source.tasks.size(),
                                                   " tasks times eval.avg_n=", config.eval.avg_n, " are ", episodes,
                                                   " episodes, above scheduler.max_eval_episodes=", most));
  };
  INGOT_ASSIGN_OR_RETURN(data.tasks, Read("data.tasks", Missing(files), tasks));
  INGOT_ASSIGN_OR_RETURN(data.eval_tasks, Read("eval.tasks", config.eval.tasks, held_out));
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
