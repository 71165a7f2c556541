#include "app/run/kept_loss.h"

#include "base/file.h"
#include "base/json.h"

namespace ingot::app {
namespace {

constexpr char kFile[] = "custom_loss.json";

std::string PathIn(const std::string& run_dir) { return absl::StrCat(run_dir, "/", kFile); }

// Returns the graph without the lines of its nodes; empty = not JSON.
std::string WithoutLines(const std::string& graph) {
  auto parsed = base::ParseJson(graph);
  if (!parsed.ok() || !parsed->is_object()) return "";
  base::json::value& nodes = parsed->get_object()["nodes"];
  if (nodes.is_array()) {
    for (base::json::value& node : nodes.get_array()) {
      if (node.is_object()) node.get_object().erase("line");
    }
  }
  return base::CanonicalJson(*parsed);
}

}  // namespace

absl::Status KeepLoss(const trainer::TrainerOptions& options, const RunDir& dir) {
  return options.custom_loss() ? dir.WriteFile(kFile, options.custom.graph) : absl::OkStatus();
}

bool LossChanged(const trainer::TrainerOptions& options, const std::string& run_dir) {
  const auto kept = base::ReadFile(PathIn(run_dir));
  if (!options.custom_loss() || options.custom.graph.empty() || !kept.ok()) return false;
  return WithoutLines(options.custom.graph) != WithoutLines(*kept);
}

absl::Status UseKeptLoss(const std::string& run_dir, trainer::TrainerOptions& options) {
  if (!options.custom_loss()) return absl::OkStatus();
  absl::StatusOr<std::string> graph = base::ReadFile(PathIn(run_dir));
  if (!graph.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the trace of trainer.custom.function is missing: ", std::string(graph.status().message()),
                     "; `ingot train` and `ingot launch` write it when they start the run"));
  }
  options.custom.graph = *std::move(graph);
  return absl::OkStatus();
}

}  // namespace ingot::app
