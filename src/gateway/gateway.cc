#include "gateway/gateway.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {
namespace {

constexpr int kMaxUncalled = 100;  // limit of GatewayStatusResponse.uncalled

void AddUncalled(const std::vector<OpenEpisodes::Uncalled>& uncalled, std::chrono::nanoseconds now,
                 v1::GatewayStatusResponse& status) {
  const auto age_ms = [now](const OpenEpisodes::Uncalled& one) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - one.since).count();
  };
  status.set_uncalled_episodes(static_cast<int64_t>(uncalled.size()));
  if (!uncalled.empty()) status.set_oldest_uncalled_ms(age_ms(uncalled.front()));
  for (const OpenEpisodes::Uncalled& one : uncalled) {
    if (status.uncalled_size() == kMaxUncalled) return;
    const v1::Episode& record = one.episode->record();
    v1::UncalledEpisode& listed = *status.add_uncalled();
    listed.set_episode_id(record.episode_id());
    listed.set_age_ms(age_ms(one));
    listed.set_purpose(record.purpose());
    *listed.mutable_ref() = record.ref();
    listed.set_task_id(record.task().task_id());
    listed.set_scaffold(record.scaffold());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Create(GatewayOptions options, GatewayParts parts) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "gateway"));
  if (parts.engine == nullptr || parts.tokenizer == nullptr || parts.format == nullptr || parts.clock == nullptr) {
    return absl::InvalidArgumentError("the gateway needs an engine, a tokenizer, a chat format, and a clock");
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
      return absl::InvalidArgumentError(absl::StrCat("gateway: no connection to the external model ", model.name));
    }
  }
  if (!admin_key->empty()) parts.admin_key = *std::move(admin_key);
  auto gateway = std::unique_ptr<Gateway>(new Gateway(std::move(options), std::move(parts)));
  gateway->SetBaseUrl(gateway->core_.options.public_url);
  return gateway;
}

Gateway::Gateway(GatewayOptions options, GatewayParts parts)
    : core_(std::move(options), std::move(parts)),
      snapshot_requests_(*core_.parts.clock),
      open_(core_.options),
      placement_(core_, open_),
      fencing_(core_, open_, snapshot_requests_),
      access_(core_, open_, placement_),
      ends_(core_, open_, access_, fencing_, snapshot_requests_),
      recovery_(core_, open_, placement_),
      snapshots_(core_, snapshot_requests_, access_, fencing_),
      openings_(core_, open_, placement_, fencing_, ends_),
      answers_(core_, open_, access_, fencing_, openings_, snapshots_) {}

Gateway::~Gateway() {
  Shutdown();
  core_.workers.Shutdown();
  core_.writers.Shutdown();
}

absl::StatusOr<v1::EpisodeOpenResponse> Gateway::OpenEpisode(const v1::EpisodeOpenRequest& request) {
  auto response = openings_.OpenEpisode(request);
  if (!response.ok()) return response;
  base::MutexLock lock(mu_);
  response->set_base_url(absl::StrCat(base_url_, "/s/", response->episode_id(), "/v1"));
  return response;
}

absl::Status Gateway::GiveFeedback(const std::string& api_key, const GivenFeedback& given) {
  if (core_.parts.feedback != nullptr) return core_.parts.feedback->Give(api_key, given);
  return ApiError(404, "no_feedback", "",
                  "this server does not learn from feedback: start it with `ingot serve --learn run.yaml`");
}

absl::Status Gateway::RewardEpisode(const std::string& episode_id, const std::string& api_key,
                                    std::optional<double> reward, const std::map<std::string, double>& signals) {
  v1::EpisodeRewardRequest request;
  request.set_episode_id(episode_id);
  request.set_api_key(api_key);
  if (reward.has_value()) request.set_reward(*reward);
  request.mutable_signals()->insert(signals.begin(), signals.end());
  return RewardEpisode(request);
}

void Gateway::SetBaseUrl(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  base::MutexLock lock(mu_);
  base_url_ = std::move(url);
}

void Gateway::Tick() {
  answers_.AbortLate();
  snapshots_.BreakSilentTransfers(base::FromSeconds(core_.options.end_wait_s));
  ends_.EndDue();
}

void Gateway::Shutdown() {
  open_.Close();
  const std::vector<std::shared_ptr<Answer>> in_flight = answers_.Close();
  snapshots_.Close();
  for (const auto& answer : in_flight) answer->Abort(ShuttingDown());
  answers_.AwaitAll();
}

void Gateway::EndSessions() {
  const auto deadline = core_.parts.clock->Now() + base::FromSeconds(core_.options.end_wait_s);
  for (const std::shared_ptr<Episode>& session : open_.Sessions()) {
    if (core_.parts.clock->Now() >= deadline) return;
    const auto ended = ends_.End(session, {.state = v1::EPISODE_FINISHED, .detail = "the server stopped"}, true);
    if (!ended.ok())
      INGOT_LOG(warn, "session {} could not be closed and stays open in the record: {}", session->id(),
                ended.status().ToString());
  }
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
  status.set_open_episodes(open_.size());
  AddUncalled(open_.UncalledEpisodes(), core_.parts.clock->Now(), status);
  status.set_active_calls(answers_.active_calls());
  return status;
}

}  // namespace ingot::gateway
