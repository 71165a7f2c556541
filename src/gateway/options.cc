#include "gateway/options.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/bounds.h"
#include "base/secret.h"
#include "text/chat/template_variables.h"

namespace ingot::gateway {
namespace {

absl::Status ValidatePin(const char* name, const SamplingPin& pin, bool trained) {
  const auto fault = [&](const char* field, double value, const char* why) {
    return absl::InvalidArgumentError(absl::StrCat(name, ".", field, " is ", value, ": ", why));
  };
  if (!std::isfinite(pin.temperature) || pin.temperature < 0)
    return fault("temperature", pin.temperature, "it must be a number of at least 0");
  if (trained && pin.temperature == 0) {
    return fault("temperature", 0, "greedy sampling has no gradient; training needs a temperature greater than 0");
  }
  if (!(pin.top_p > 0 && pin.top_p <= 1)) return fault("top_p", pin.top_p, "it must be in (0, 1]");
  if (pin.top_k < 0) return fault("top_k", pin.top_k, "it must be 0 or greater");
  if (!(pin.min_p >= 0 && pin.min_p < 1)) return fault("min_p", pin.min_p, "it must be in [0, 1)");
  return absl::OkStatus();
}

absl::Status ValidateModels(const GatewayOptions& options) {
  std::set<std::string> names = {options.model_name};
  for (size_t i = 0; i < options.models.size(); ++i) {
    const ModelOptions& model = options.models[i];
    const auto fault = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("models[", i, "] ('", model.name, "'): ", what));
    };
    if (model.name.empty()) return fault("it has no name");
    if (!names.insert(model.name).second) return fault("another model has this name");
    if (model.weights == ModelWeights::kPinned && model.version < 0) {
      return fault(absl::StrCat("version is ", model.version, ": it must be 0 or greater"));
    }
    const bool external = model.weights == ModelWeights::kExternal;
    if (external != (model.address.empty() == !model.url.empty()) || (!external && !model.url.empty())) {
      return fault("external weights, and only they, need an address, e.g. 10.0.0.7:7410, or a url");
    }
    const bool text_fields = !model.served_model.empty() || !model.key_file.empty() || model.stream;
    if (model.url.empty() && text_fields) return fault("served_model, key_file and stream are for a url");
    if (!model.url.empty() && !model.url.starts_with("http://") && !model.url.starts_with("https://")) {
      return fault(absl::StrCat("url is '", model.url, "': it begins with http:// or https://"));
    }
    if (!(model.timeout_s > 0 && model.timeout_s <= 86400) || model.concurrency < 1 || model.concurrency > 1024) {
      return fault("timeout_s must be above 0 and at most 86400, concurrency in [1, 1024]");
    }
    if (model.address.empty() && (!model.token_file.empty() || !model.ca.empty())) {
      return fault("token_file and ca are for external weights with an address");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool PinsVersion(const GatewayOptions& options, int64_t version) {
  return std::any_of(options.models.begin(), options.models.end(), [version](const ModelOptions& model) {
    return model.weights == ModelWeights::kPinned && model.version == version;
  });
}

absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options) {
  if (options.admin_key_file.empty()) return std::string();
  absl::StatusOr<std::string> key = base::ReadSecret(options.admin_key_file);
  return key.ok() ? std::move(key) : base::Annotate(key.status(), "admin_key_file");
}

absl::Status GatewayOptions::Validate() const {
  if (model_name.empty()) return absl::InvalidArgumentError("model_name is empty");
  INGOT_RETURN_IF_ERROR(ValidateModels(*this));
  INGOT_RETURN_IF_ERROR(ValidatePin("train_sampling", train_sampling, true));
  INGOT_RETURN_IF_ERROR(ValidatePin("eval_sampling", eval_sampling, false));
  INGOT_RETURN_IF_ERROR(base::Annotate(text::CheckTemplateVariables(template_variables), "template_variables"));
  INGOT_RETURN_IF_ERROR(base::Positive("max_new_tokens", max_new_tokens));
  INGOT_RETURN_IF_ERROR(base::NotNegative("eval_max_new_tokens", eval_max_new_tokens));
  INGOT_RETURN_IF_ERROR(base::NotNegative("default_max_tokens", default_max_tokens));
  INGOT_RETURN_IF_ERROR(base::Positive("max_active_calls", max_active_calls));
  INGOT_RETURN_IF_ERROR(base::Positive("max_open_episodes", max_open_episodes));
  INGOT_RETURN_IF_ERROR(base::Positive("max_calls_per_episode", max_calls_per_episode));
  INGOT_RETURN_IF_ERROR(base::NotNegative("max_tokens_per_episode", static_cast<double>(max_tokens_per_episode)));
  INGOT_RETURN_IF_ERROR(base::Positive("max_tokens_per_session", static_cast<double>(max_tokens_per_session)));
  INGOT_RETURN_IF_ERROR(base::NotNegative("episode_deadline_s", episode_deadline_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("max_remembered_ends", max_remembered_ends));
  INGOT_RETURN_IF_ERROR(base::NotNegative("call_deadline_s", call_deadline_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("episode_idle_s", episode_idle_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("session_idle_s", session_idle_s));
  INGOT_RETURN_IF_ERROR(base::Positive("end_wait_s", end_wait_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("retry_after_s", retry_after_s));
  INGOT_RETURN_IF_ERROR(base::Positive("worker_threads", worker_threads));
  INGOT_RETURN_IF_ERROR(base::Positive("writer_threads", writer_threads));
  INGOT_RETURN_IF_ERROR(base::Positive("max_queued_work", max_queued_work));
  return absl::OkStatus();
}

}  // namespace ingot::gateway
