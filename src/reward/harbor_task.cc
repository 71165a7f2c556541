#include "reward/harbor_task.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace ingot::reward {
namespace {

using base::json::value;

constexpr double kMax = 1e9;

// Reads the fields of one object and keeps the first error.
class Fields {
 public:
  explicit Fields(const value& object) : object_(object) {}

  void Number(const char* name, double& into) {
    const value* const found = base::Find(object_, name);
    if (found == nullptr) return;
    const double number = found->is_number() ? found->to_number<double>() : -1;
    if (number >= 0 && number <= kMax) {
      into = number;
    } else {
      Fault(name, "is not a number from 0 to 1e9");
    }
  }
  void Megabytes(const char* name, int64_t& into) {
    double number = 0;
    Number(name, number);
    into = static_cast<int64_t>(number * (1 << 20));
  }
  void Text(const char* name, std::string& into) {
    const value* const found = base::Find(object_, name);
    if (found == nullptr) return;
    if (!found->is_string()) return Fault(name, "is not a string");
    into = std::string(found->get_string());
  }
  void Texts(const char* name, std::map<std::string, std::string>& into) {
    const value* const found = base::Find(object_, name);
    if (found == nullptr) return;
    if (!found->is_object()) return Fault(name, "is not an object");
    for (const auto& [key, text] : found->get_object()) {
      if (!text.is_string()) return Fault(name, "has a value that is not a string");
      into[std::string(key)] = std::string(text.get_string());
    }
  }
  void Fault(const char* name, const char* what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat("the task's ", name, " ", what));
  }
  const absl::Status& status() const { return status_; }

 private:
  const value& object_;
  absl::Status status_;
};

absl::StatusOr<HealthCheck> ReadHealthCheck(const value& json) {
  if (!json.is_object()) return absl::InvalidArgumentError("the task's healthcheck is not an object");
  HealthCheck check;
  Fields fields(json);
  fields.Text("command", check.command);
  fields.Number("interval_s", check.interval_s);
  fields.Number("timeout_s", check.timeout_s);
  fields.Number("start_period_s", check.start_period_s);
  fields.Number("start_interval_s", check.start_interval_s);
  double retries = static_cast<double>(check.retries);
  fields.Number("retries", retries);
  check.retries = std::max<int64_t>(1, std::llround(retries));
  if (check.command.empty()) fields.Fault("healthcheck.command", "is empty");
  if (check.timeout_s <= 0) fields.Fault("healthcheck.timeout_s", "is 0");
  INGOT_RETURN_IF_ERROR(fields.status());
  return check;
}

}  // namespace

absl::StatusOr<HarborTask> ReadHarborTask(std::string_view payload) {
  INGOT_ASSIGN_OR_RETURN(const value json, base::ParseJson(std::string(payload)));
  if (!json.is_object()) return absl::InvalidArgumentError("the task's payload is not a JSON object");
  HarborTask task;
  Fields fields(json);
  fields.Number("agent_timeout_s", task.agent_timeout_s);
  fields.Number("verifier_timeout_s", task.verifier_timeout_s);
  fields.Number("cpus", task.cpus);
  fields.Megabytes("memory_mb", task.memory_bytes);
  fields.Megabytes("storage_mb", task.storage_bytes);
  fields.Text("workdir", task.workdir);
  fields.Texts("env", task.env);
  fields.Texts("verifier_env", task.verifier_env);
  fields.Texts("solution_env", task.solution_env);
  INGOT_RETURN_IF_ERROR(fields.status());
  if (const value* const check = base::Find(json, "healthcheck"); check != nullptr) {
    INGOT_ASSIGN_OR_RETURN(task.health_check, ReadHealthCheck(*check));
  }
  return task;
}

}  // namespace ingot::reward
