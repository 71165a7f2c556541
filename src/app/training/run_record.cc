#include "app/training/run_record.h"

#include <cmath>
#include <fstream>

#include "base/clock.h"
#include "base/json.h"

namespace ingot::app {

namespace {

double NumberOf(const base::json::value& line, const std::string& name) {
  const base::json::value* const found = base::Find(line, name);
  return found != nullptr && found->is_number() ? found->to_number<double>() : std::nan("");
}

}  // namespace

RecordedRows ReadRecord(const std::string& path, const Figures& figures) {
  RecordedRows earlier;
  for (size_t i = 1; i < figures.size(); ++i) earlier.curves.push_back({figures[i], {}});
  std::ifstream file(path);
  std::string text;
  while (std::getline(file, text)) {
    const absl::StatusOr<base::json::value> line = base::ParseJson(text);
    if (!line.ok()) continue;
    const base::json::value* evaluated = base::Find(*line, "eval/version");
    if (evaluated != nullptr && evaluated->is_int64()) {
      earlier.evaluated[evaluated->get_int64()] = NumberOf(*line, "eval/reward_mean");
    }
    if (base::Find(*line, "reward/mean") == nullptr) continue;  // not a step
    earlier.rewards.push_back(NumberOf(*line, figures.front().metric));
    for (Curve& curve : earlier.curves) curve.values.push_back(NumberOf(*line, curve.figure.metric));
  }
  return earlier;
}

absl::StatusOr<std::unique_ptr<base::RunLog>> OpenRecord(const RunConfig& config, const RunDir& dir, bool resume,
                                                         int64_t first_step, base::Metrics& metrics,
                                                         const RetryPolicy& retry) {
  base::RunLogOptions options;
  options.directory = dir.path();
  options.max_labels = config.metrics.max_labels;
  options.resume_step = resume ? first_step : -1;
  // If total_steps was increased, the last evaluation's row is kept. A run with no steps left repeats that evaluation.
  options.keep_version = first_step < config.trainer.total_steps ? first_step : first_step - 1;
  const base::Clock& clock = base::Clock::Real();
  if (options.resume_step < 0) return base::RunLog::Open(options, &metrics, clock);
  std::unique_ptr<base::RunLog> log;
  INGOT_RETURN_IF_ERROR(Persist(retry, "opening the record of the run", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(log, base::RunLog::Open(options, &metrics, clock));
    return absl::OkStatus();
  }));
  return log;
}

}  // namespace ingot::app
