#include "loggers/mlflow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/retry.h"

namespace ingot::loggers {
namespace {

using base::json::array;
using base::json::object;

constexpr size_t kMaxMetrics = 1000;  // MLflow's limit per batch
constexpr size_t kMaxTag = 5000;      // MLflow's limit on a tag, in bytes

int64_t Milliseconds(double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e3)); }

std::string TextAt(const base::json::value& value, std::initializer_list<const char*> path) {
  const base::json::value* at = &value;
  for (const char* key : path) {
    if (at != nullptr && at->is_array()) at = at->get_array().empty() ? nullptr : &at->get_array().front();
    at = at == nullptr ? nullptr : base::Find(*at, key);
  }
  return at != nullptr && at->is_string() ? std::string(at->get_string()) : "";
}

}  // namespace

std::string MlflowName(const std::string& metric) {
  std::string name = metric;
  for (char& c : name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         std::string_view("_-. :/").find(c) != std::string_view::npos;
    if (!allowed) c = '_';
  }
  return name.substr(0, 250);
}

Mlflow::Mlflow(MlflowOptions options, std::string run, std::string config, const std::string& state, PostJson post)
    : options_(std::move(options)),
      run_(std::move(run)),
      config_(std::move(config)),
      post_(std::move(post)),
      run_id_(state) {}

absl::StatusOr<std::string> Mlflow::Ask(const std::string& method, const object& body) {
  return post_(absl::StrCat(options_.url, "/api/2.0/mlflow/", method), base::PrintJson(body), options_.key);
}

absl::StatusOr<std::string> Mlflow::ExperimentId() {
  const absl::StatusOr<std::string> made = Ask("experiments/create", {{"name", options_.experiment}});
  if (made.ok()) {
    INGOT_ASSIGN_OR_RETURN(const base::json::value answer, base::ParseJson(*made));
    if (std::string id = TextAt(answer, {"experiment_id"}); !id.empty()) return id;
  }
  if (base::MayAnswerLater(made.status())) return made.status();
  std::string quoted = options_.experiment;
  std::erase(quoted, '\'');
  INGOT_ASSIGN_OR_RETURN(
      const std::string found,
      Ask("experiments/search", {{"max_results", 1}, {"filter", absl::StrCat("name = '", quoted, "'")}}));
  INGOT_ASSIGN_OR_RETURN(const base::json::value answer, base::ParseJson(found));
  std::string id = TextAt(answer, {"experiments", "experiment_id"});
  if (id.empty())
    return absl::FailedPreconditionError(absl::StrCat("MLflow has no experiment '", options_.experiment, "'"));
  return id;
}

absl::Status Mlflow::Begin(double time) {
  if (!run_id_.empty()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::string experiment, ExperimentId());
  array tags;
  tags.push_back(object{{"key", "mlflow.source.name"}, {"value", "ingot"}});
  tags.push_back(object{{"key", "ingot.config"}, {"value", config_.substr(0, kMaxTag)}});
  INGOT_ASSIGN_OR_RETURN(const std::string made, Ask("runs/create", {{"experiment_id", experiment},
                                                                     {"run_name", run_},
                                                                     {"start_time", Milliseconds(time)},
                                                                     {"tags", std::move(tags)}}));
  INGOT_ASSIGN_OR_RETURN(const base::json::value answer, base::ParseJson(made));
  run_id_ = TextAt(answer, {"run", "info", "run_id"});
  if (run_id_.empty()) return absl::FailedPreconditionError("MLflow did not create a run");
  return absl::OkStatus();
}

absl::Status Mlflow::Rows(std::span<const view::Row> rows) {
  if (rows.empty()) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(Begin(rows.front().time));
  array metrics;
  const auto send = [&]() -> absl::Status {
    if (metrics.empty()) return absl::OkStatus();
    return Ask("runs/log-batch", {{"run_id", run_id_}, {"metrics", std::exchange(metrics, {})}}).status();
  };
  for (const view::Row& row : rows) {
    last_time_ = row.time;
    for (const auto& [name, value] : row.values) {
      if (!std::isfinite(value)) continue;
      metrics.push_back(object{
          {"key", MlflowName(name)}, {"value", value}, {"timestamp", Milliseconds(row.time)}, {"step", row.step}});
      if (metrics.size() == kMaxMetrics) INGOT_RETURN_IF_ERROR(send());
    }
  }
  return send();
}

absl::Status Mlflow::End(bool ok) {
  if (run_id_.empty()) return absl::OkStatus();
  return Ask("runs/update",
             {{"run_id", run_id_}, {"status", ok ? "FINISHED" : "KILLED"}, {"end_time", Milliseconds(last_time_)}})
      .status();
}

}  // namespace ingot::loggers
