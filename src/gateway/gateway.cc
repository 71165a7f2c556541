#include "gateway/gateway.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Create(GatewayOptions options, GatewayParts parts) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "gateway"));
  if (parts.engine == nullptr || parts.tokenizer == nullptr || parts.format == nullptr || parts.clock == nullptr) {
    return absl::InvalidArgumentError("gateway: it needs an engine, a tokenizer, a chat format and a clock");
  }
  absl::StatusOr<std::string> admin_key = ReadAdminKey(options);
  if (!admin_key.ok()) return base::Annotate(admin_key.status(), "gateway");
  for (const ModelOptions& model : options.models) {
    if (model.weights != ModelWeights::kExternal) continue;
    const auto server = parts.external.find(model.name);
    const auto text = parts.text_models.find(model.name);
    const bool connected = model.url.empty() ? server != parts.external.end() && server->second != nullptr
                                             : text != parts.text_models.end() && text->second != nullptr;
    if (!connected) {
      return absl::InvalidArgumentError(
          absl::StrCat("gateway: there is no connection to the external model ", model.name));
    }
  }
  if (admin_key->empty()) *admin_key = parts.admin_key;
  auto gateway = std::unique_ptr<Gateway>(new Gateway(std::move(options), std::move(parts)));
  gateway->admin_key_ = *std::move(admin_key);
  gateway->SetBaseUrl(gateway->core_.options.public_url);
  return gateway;
}

Gateway::~Gateway() { Shutdown(); }

void Gateway::SetBaseUrl(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  base::MutexLock lock(mu_);
  base_url_ = std::move(url);
}

std::string Gateway::BaseUrl(const std::string& episode_id) const {
  base::MutexLock lock(mu_);
  return absl::StrCat(base_url_, "/s/", episode_id, "/v1");
}

void Gateway::Tick() {
  const auto now = core_.parts.clock->Now();
  std::vector<std::shared_ptr<Answer>> late;
  {
    base::MutexLock lock(mu_);
    if (core_.options.call_deadline_s > 0) {
      for (const auto& answer : answers_) {
        if (now - answer->arrival() > base::FromSeconds(core_.options.call_deadline_s)) late.push_back(answer);
      }
    }
  }
  for (const auto& answer : late) {
    answer->Abort(ApiError(504, "deadline_exceeded", "",
                           absl::StrCat("the call took longer than ", core_.options.call_deadline_s,
                                        " s (call_deadline_s); what was sampled is recorded as aborted")));
  }
  transfers_.BreakSilent(base::FromSeconds(core_.options.end_wait_s));
  EndIdle();
}

void Gateway::Shutdown() {
  std::vector<std::shared_ptr<Answer>> answers;
  {
    base::MutexLock lock(mu_);
    shutdown_ = true;
    answers.assign(answers_.begin(), answers_.end());
  }
  snapshots_.Close();
  transfers_.Close();
  for (const auto& answer : answers) answer->Abort(ShuttingDown());
  const base::Clock& clock = *core_.parts.clock;
  const auto deadline = clock.Now() + base::FromSeconds(core_.options.end_wait_s);
  base::MutexLock lock(mu_);
  while (!answers_.empty()) {
    if (clock.Now() >= deadline) {
      INGOT_LOG(error, "{} requests were still being recorded after {} s", answers_.size(), core_.options.end_wait_s);
      return;
    }
    clock.WaitUntil(changed_, mu_, deadline);
  }
}

bool Gateway::shutting_down() const {
  base::MutexLock lock(mu_);
  return shutdown_;
}

std::vector<ServedModel> Gateway::Models(const std::optional<std::string>& name) const {
  constexpr const char* kWeights[] = {"follow", "pinned", "external"};
  std::vector<ModelOptions> models = {
      {.name = core_.options.model_name, .weights = ModelWeights::kFollow, .version = 0, .address = {}}};
  models.insert(models.end(), core_.options.models.begin(), core_.options.models.end());
  std::map<rollout::Client*, absl::StatusOr<v1::EngineStatusResponse>> asked;
  std::vector<ServedModel> served;
  for (const ModelOptions& model : models) {
    if (name.has_value() && *name != model.name) continue;
    const Backend& backend = core_.backends.Of(model.name);
    if (!asked.contains(backend.engine)) asked.emplace(backend.engine, backend.engine->Status());
    const auto& status = asked.at(backend.engine);
    const auto loaded = status.ok() ? LoadedUnixNanos(backend, *status) : std::nullopt;
    const int32_t context = status.ok() ? status->context_length() : 0;
    const int32_t most = core_.options.max_new_tokens;
    served.push_back({.name = model.name,
                      .created_unix_s = loaded.value_or(core_.started_unix_ns) / 1'000'000'000,
                      .weights = kWeights[static_cast<int>(model.weights)],
                      .version = model.weights == ModelWeights::kPinned ? model.version : -1,
                      .context_tokens = context,
                      .max_answer_tokens = context > 0 ? std::min(most, context) : most});
  }
  return served;
}

v1::GatewayStatusResponse Gateway::Status() const {
  v1::GatewayStatusResponse status;
  status.set_calls(core_.counters.calls);
  status.set_spliced_calls(core_.counters.spliced);
  for (const auto& [cause, count] : core_.counters.forks()) (*status.mutable_forks())[cause] = count;
  base::MutexLock lock(mu_);
  status.set_open_episodes(by_id_.size());
  status.set_active_calls(active_calls_);
  return status;
}

}  // namespace ingot::gateway
