#include "app/data_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include "dataset/conversations.h"
#include "dataset/preferences.h"
#include "dataset/tasks.h"

namespace ingot::app {
namespace {

template <typename Load>
absl::Status CheckFile(const char* key, const std::string& path, Load load) {
  if (path.empty()) return absl::OkStatus();
  const absl::Status status = base::Annotate(load(path).status(), key);
  if (!absl::IsNotFound(status) || std::filesystem::path(path).is_absolute()) return status;
  std::error_code error;
  return absl::NotFoundError(absl::StrCat(status.message(), " in ", std::filesystem::current_path(error).string(),
                                          ", where ingot was started"));
}

}  // namespace

absl::Status CheckDataFiles(const RunConfig& config) {
  const auto tasks = [](const std::string& path) { return dataset::LoadTasks(path); };
  INGOT_RETURN_IF_ERROR(CheckFile("data.tasks", config.tasks, tasks));
  const auto held_out = [&config](const std::string& path) -> absl::StatusOr<std::vector<v1::Task>> {
    INGOT_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, dataset::LoadTasks(path));
    const int64_t episodes = std::ssize(tasks) * config.eval.avg_n, most = config.scheduler.max_eval_episodes;
    if (episodes <= most) return tasks;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", tasks.size(),
                                                   " tasks times eval.avg_n=", config.eval.avg_n, " are ", episodes,
                                                   " episodes, above scheduler.max_eval_episodes=", most));
  };
  INGOT_RETURN_IF_ERROR(CheckFile("eval.tasks", config.eval.tasks, held_out));
  INGOT_RETURN_IF_ERROR(
      CheckFile("data.sft", config.sft_data, [](const std::string& path) { return dataset::LoadConversations(path); }));
  return CheckFile("data.dpo", config.dpo_data, [](const std::string& path) { return dataset::LoadPreferences(path); });
}

}  // namespace ingot::app
