#include "app/record/run_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "app/record/stored_run.h"
#include "base/file.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigOfRun[] = "/config.yaml";

}  // namespace

std::vector<base::Schema::Difference> ConfigDifferences(const LoadedConfig& first, const LoadedConfig& run) {
  const auto named_by_run = [](const RunConfig& config) { return config.datapool.postgres.name == config.name; };
  const bool default_names = named_by_run(*first.config) && named_by_run(*run.config);
  std::vector<base::Schema::Difference> differences = run.schema.DifferencesFrom(first.schema);
  std::erase_if(differences, [default_names](const base::Schema::Difference& one) {
    return one.key == "run.name" || one.key == "run.root" || one.key == "run.if_exists" ||
           (default_names && one.key == "datapool.postgres.name");
  });
  return differences;
}

std::vector<std::string> RunFoldersIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> runs;
  if (fs::exists(folder + kConfigOfRun, error)) return runs;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code none;
    if (fs::exists(entry->path().string() + kConfigOfRun, none)) runs.push_back(entry->path().string());
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

void RunList::Compare(const Known& first, Known& run) {
  if (run.compared_with == first.text) return;
  run.differences.clear();
  for (base::Schema::Difference& one : ConfigDifferences(*first.loaded, *run.loaded)) {
    run.differences.push_back({std::move(one.key), std::move(one.others), std::move(one.value)});
  }
  run.compared_with = first.text;
}

std::vector<view::IndexedRun> RunList::Read() {
  std::vector<view::IndexedRun> runs;
  std::map<std::string, Known> now;
  const Known* first = nullptr;
  for (const std::string& path : RunFoldersIn(folder_)) {
    Known& known = now[path];
    if (const auto kept = known_.find(path); kept != known_.end()) known = std::move(kept->second);
    const std::string text = base::ReadFile(path + kConfigOfRun).value_or("");
    if (known.text != text || absl::IsUnavailable(known.loaded.status())) {
      known.loaded = LoadStoredConfig(path);
      known.text = text;
      known.compared_with.clear();
    }
    view::IndexedRun run{.name = fs::path(path).filename().string(), .folder = path};
    if (!known.loaded.ok()) {
      run.error = std::string(known.loaded.status().message());
      runs.push_back(std::move(run));
      continue;
    }
    const RunConfig& config = *known.loaded->config;
    run.total_steps = config.tasks.empty() ? 0 : config.scheduler.total_steps;
    if (first == nullptr) first = &known;
    Compare(*first, known);
    run.differences = known.differences;
    runs.push_back(std::move(run));
  }
  known_ = std::move(now);
  return runs;
}

}  // namespace ingot::app
