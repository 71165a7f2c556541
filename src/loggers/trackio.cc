#include "loggers/trackio.h"

#include <cmath>

#include "base/json.h"

namespace ingot::loggers {

absl::Status Trackio::Rows(std::span<const view::Row> rows) {
  if (rows.empty()) return absl::OkStatus();
  base::json::array logs;
  for (const view::Row& row : rows) {
    base::json::object metrics;
    for (const auto& [name, value] : row.values) {
      if (std::isfinite(value)) metrics[name] = value;
    }
    logs.push_back(
        base::json::object{{"project", options_.project},
                           {"run", run_},
                           {"step", row.step},
                           {"log_id", absl::StrCat(run_, "-", row.step, "-", static_cast<int64_t>(row.time * 1e3))},
                           {"metrics", std::move(metrics)}});
  }
  const std::string token = options_.write_token.empty() ? "" : absl::StrCat("?write_token=", options_.write_token);
  const base::json::object body{{"logs", std::move(logs)}, {"hf_token", nullptr}};
  return post_(absl::StrCat(options_.url, "/api/bulk_log", token), base::PrintJson(body), options_.key).status();
}

}  // namespace ingot::loggers
