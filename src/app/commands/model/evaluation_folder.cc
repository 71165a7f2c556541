#include "app/commands/model/evaluation_folder.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/run_log.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr char kEvaluation[] = "evaluation.json";

}  // namespace

absl::StatusOr<RunDir> OpenEvaluation(const RunConfig& config, const std::string& checkpoint,
                                      const std::string& scaffold) {
  const std::string root = absl::StrCat(config.root, "/", config.name, "-eval");
  std::string name = fs::path(checkpoint).filename();
  if (!scaffold.empty()) absl::StrAppend(&name, "@", scaffold);
  const auto reject = [](const std::string& path, const char* what) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", path, "' contains ", what, ": choose another name for the evaluation, --set run.name=NAME"));
  };
  std::error_code none;
  if (fs::exists(root + "/config.yaml", none)) return reject(root, "a run");
  const std::string path = absl::StrCat(root, "/", name);
  if (fs::exists(path + "/config.yaml", none)) {
    const absl::StatusOr<std::string> before = base::ReadFile(absl::StrCat(path, "/", kEvaluation));
    if (!before.ok()) return reject(path, "a run");
    const absl::StatusOr<base::json::value> parsed = base::ParseJson(*before);
    const base::json::value* of = parsed.ok() ? base::Find(*parsed, "checkpoint") : nullptr;
    if (of == nullptr || *of != base::json::value(checkpoint))
      return reject(path, "the evaluation of another checkpoint");
  }
  return RunDir::Open(root, name, IfExists::kReplace);
}

absl::Status BeginEvaluation(const RunDir& dir, const base::json::object& record) {
  return dir.WriteFile(kEvaluation, base::PrintJson(record) + "\n");
}

absl::Status WriteEvaluation(const RunDir& dir, const base::json::object& record) {
  INGOT_RETURN_IF_ERROR(dir.WriteFile(kEvaluation, base::PrintJson(record) + "\n"));
  base::json::object row{{"version", 0}, {"eval/version", 0}};
  for (const auto& [name, value] : record) {
    if (name.starts_with("eval/")) row[name] = value;
  }
  INGOT_ASSIGN_OR_RETURN(
      const std::unique_ptr<base::RunLog> log,
      base::RunLog::Open({.directory = dir.path(), .tensorboard = false}, nullptr, base::Clock::Real()));
  return log->Write(0, row);
}

view::Figures FiguresIn(const base::json::object& record) {
  view::Figures figures;
  for (const auto& [name, value] : record) {
    if (value.is_number()) figures[std::string(name)] = value.to_number<double>();
  }
  return figures;
}

std::vector<view::EarlierEvaluation> EarlierEvaluations(const RunDir& dir, const base::json::object& record) {
  std::vector<view::EarlierEvaluation> earlier;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(dir.path()).parent_path(), ignored)) {
    if (fs::equivalent(entry.path(), dir.path(), ignored)) continue;
    const absl::StatusOr<std::string> text = base::ReadFile(entry.path() / kEvaluation);
    const absl::StatusOr<base::json::value> parsed = text.ok() ? base::ParseJson(*text) : text.status();
    if (!parsed.ok() || !parsed->is_object() || !parsed->get_object().contains("eval/reward_mean")) continue;
    const base::json::object& other = parsed->get_object();
    const auto same = [&](const char* key) {
      const base::json::value *a = other.if_contains(key), *b = record.if_contains(key);
      return a == nullptr || b == nullptr ? a == b : *a == *b;
    };
    if (same("eval/tasks") && same("eval/avg_n") && same("scaffold") && !same("checkpoint")) {
      earlier.push_back({entry.path().filename(), FiguresIn(other)});
    }
  }
  return earlier;
}

}  // namespace ingot::app
