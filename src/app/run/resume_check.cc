#include "app/run/resume_check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "base/log.h"

namespace ingot::app {
namespace {

// Keys that existing groups and batches depend on.
constexpr std::array<std::string_view, 2> kFixed{"scheduler.group_size", "scheduler.groups_per_step"};
// Keys that only apply to one start.
constexpr std::array<std::string_view, 4> kOfAStart{"run.name", "run.root", "run.if_exists", "run.log_level"};

template <size_t N>
bool Has(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

absl::Status CheckResumable(const LoadedConfig& loaded, const RunDir& dir) {
  for (const auto& [file, what] :
       {std::pair("collection.json", "a collection"), {"evaluation.json", "an evaluation"}}) {
    std::error_code error;
    if (!std::filesystem::exists(dir.path() + "/" + file, error)) continue;
    if (std::filesystem::exists(dir.metrics(), error)) continue;  // a run was trained there later
    return absl::InvalidArgumentError(absl::StrCat("'", dir.path(), "' holds ", what,
                                                   " and not a run to resume: choose another run.name, or replace it "
                                                   "with --set run.if_exists=replace"));
  }
  const std::string path = dir.path() + "/config.yaml";
  if (std::error_code error; !std::filesystem::exists(path, error)) {
    INGOT_LOG(warn,
              "{} is gone: the run resumes with the given configuration, and changes since it stopped are "
              "unknown",
              path);
    return absl::OkStatus();
  }
  RunConfig before;
  base::Schema schema = BindSchema(before);
  if (const absl::Status read = schema.LoadFile(path); !read.ok()) {  // written by an older version
    INGOT_LOG(warn, "changes since the run stopped are unknown: {}", read.ToString());
    return absl::OkStatus();
  }
  std::vector<std::string> changed;
  for (const base::Schema::Difference& now : loaded.schema.DifferencesFrom(schema)) {
    if (Has(kFixed, now.key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(now.key, " is ", now.value, ", but the run's groups were made for ", now.others, " (", path,
                       "): resume with ", now.others, ", or start another run under another run.name"));
    }
    if (!Has(kOfAStart, now.key)) changed.push_back(absl::StrCat(now.key, " (", now.others, " -> ", now.value, ")"));
  }
  if (ChatTemplateChanged(loaded.config->model, dir.path())) {
    changed.push_back(absl::StrCat("the text of model.chat_template (", loaded.config->model.chat_template, ")"));
  }
  if (LossChanged(loaded.config->trainer, dir.path())) {
    changed.push_back(
        absl::StrCat("the loss of trainer.custom.function (", loaded.config->trainer.custom.function, ")"));
  }
  if (!changed.empty()) INGOT_LOG(warn, "changed since the run stopped: {}", absl::StrJoin(changed, ", "));
  return absl::OkStatus();
}

}  // namespace ingot::app
