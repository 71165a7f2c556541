#include "gateway/gateway.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/log.h"
#include "gateway/api_error.h"
#include "gateway/cut_text.h"
#include "gateway/episode_request.h"
#include "tree/episode_return.h"

namespace ingot::gateway {
namespace {

constexpr size_t kMaxScaffold = 256;
constexpr size_t kMaxDetail = 4096;

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e9) * 1e9));
}

// The smaller one that is set.
template <typename Number>
Number Tighter(Number own, Number asked) {
  return asked > 0 && (own <= 0 || asked < own) ? asked : own;
}

absl::Status ShuttingDown() { return ApiError(503, "shutting_down", "", "the gateway is shutting down"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Create(GatewayOptions options, GatewayParts parts) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "gateway"));
  if (parts.engine == nullptr || parts.tokenizer == nullptr || parts.format == nullptr || parts.clock == nullptr) {
    return absl::InvalidArgumentError("gateway: it needs an engine, a tokenizer, a chat format and a clock");
  }
  absl::StatusOr<std::string> admin_key = ReadAdminKey(options);
  if (!admin_key.ok()) return base::Annotate(admin_key.status(), "gateway");
  for (const ModelOptions& model : options.models) {
    const auto server = parts.external.find(model.name);
    if (model.weights == ModelWeights::kExternal && (server == parts.external.end() || server->second == nullptr)) {
      return absl::InvalidArgumentError(
          absl::StrCat("gateway: nobody is connected to the external model ", model.name));
    }
  }
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

// ---- Episodes -----------------------------------------------------------------------------------------------------

bool Gateway::IsAdmin(const std::string& key) const {
  if (admin_key_.empty() || key.size() != admin_key_.size()) return false;
  int differs = 0;  // looks at every byte, so that its time tells nothing
  for (size_t i = 0; i < key.size(); ++i) differs |= key[i] ^ admin_key_[i];
  return differs == 0;
}

absl::Status Gateway::CheckAdmin(const std::string& key) const {
  if (admin_key_.empty() || IsAdmin(key)) return absl::OkStatus();
  if (key.empty()) return ApiError(401, "invalid_api_key", "", "opening an episode needs the gateway's admin key");
  return ApiError(403, "invalid_api_key", "", "this is not the gateway's admin key, which opening an episode needs");
}

v1::EpisodeLimits Gateway::LimitsFor(const v1::EpisodeLimits& asked) const {
  v1::EpisodeLimits limits;
  limits.set_max_calls(Tighter(core_.options.max_calls_per_episode, asked.max_calls()));
  limits.set_max_tokens(Tighter(core_.options.max_tokens_per_episode, asked.max_tokens()));
  limits.set_deadline_s(Tighter(core_.options.episode_deadline_s, asked.deadline_s()));
  return limits;
}

absl::StatusOr<v1::EpisodeOpenResponse> Gateway::OpenEpisode(const v1::EpisodeOpenRequest& request) {
  INGOT_RETURN_IF_ERROR(CheckAdmin(request.admin_key()));
  if (request.runner().size() > kMaxScaffold || request.incarnation().size() > kMaxScaffold) {
    return BadRequest("runner",
                      absl::StrCat("'runner' and 'incarnation' must have at most ", kMaxScaffold, " bytes each"));
  }
  if (!request.runner().empty()) EndAbandoned(request.runner(), request.incarnation());
  const std::string key = "ingot-" + RandomHex(24);
  INGOT_ASSIGN_OR_RETURN(auto episode, Open(request, key, false));
  v1::EpisodeOpenResponse response;
  response.set_episode_id(episode->id());
  response.set_api_key(key);
  response.set_base_url(BaseUrl(episode->id()));
  *response.mutable_task() = episode->record().task();
  *response.mutable_ref() = episode->record().ref();
  response.set_purpose(episode->record().purpose());
  return response;
}

void Gateway::EndAbandoned(const std::string& runner, const std::string& incarnation) {
  std::vector<std::shared_ptr<Episode>> abandoned;
  {
    base::MutexLock lock(mu_);
    std::string& newest = incarnations_[runner];
    if (newest == incarnation) return;
    newest = incarnation;
    for (const auto& [id, episode] : by_id_) {
      const v1::Episode& record = episode->record();
      if (record.runner() == runner && record.incarnation() != incarnation) abandoned.push_back(episode);
    }
  }
  for (const std::shared_ptr<Episode>& episode : abandoned) {
    const absl::Status status = End(episode, v1::EPISODE_FAILED, "its runner was started again", false);
    if (!status.ok()) INGOT_LOG(warn, "abandoned episode {} could not be ended: {}", episode->id(), status.ToString());
  }
}

absl::Status Gateway::ReserveEpisode() {
  std::shared_ptr<Episode> oldest;
  {
    base::MutexLock lock(mu_);
    if (shutdown_) return ShuttingDown();
    if (static_cast<int>(by_id_.size()) + opening_ < core_.options.max_open_episodes) {
      ++opening_;
      return absl::OkStatus();
    }
    for (const auto& [id, episode] : by_id_) {
      if (!episode->session() || episode->admitted() || !episode->idle()) continue;
      if (oldest == nullptr || episode->last_activity() < oldest->last_activity()) oldest = episode;
    }
  }
  if (oldest == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the gateway holds ", core_.options.max_open_episodes,
                                                     " open episodes, its limit (max_open_episodes): try again later"));
  }
  INGOT_RETURN_IF_ERROR(End(oldest, v1::EPISODE_FINISHED, "made room", true));
  base::MutexLock lock(mu_);
  ++opening_;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::Open(const v1::EpisodeOpenRequest& request,
                                                       const std::string& api_key, bool session) {
  Admission* admission = session ? nullptr : core_.parts.admission;
  INGOT_RETURN_IF_ERROR(CheckOpen(request, admission != nullptr));
  if (absl::Status room = ReserveEpisode(); !room.ok()) {
    ++core_.counters.episodes_refused;
    return room;
  }
  const auto release = [&](const absl::Status& status) {
    base::MutexLock lock(mu_);
    --opening_;
    return status;
  };
  v1::Episode record;
  record.set_purpose(v1::PURPOSE_SERVE);
  record.set_pinned_version(-1);
  if (request.has_task()) *record.mutable_task() = request.task();
  int64_t pinned_version = -1;
  if (admission != nullptr) {
    v1::AdmitRequest ask;
    ask.set_scaffold(request.scaffold());
    ask.set_group(request.group());
    if (request.has_task()) *ask.mutable_task() = request.task();
    auto ticket = admission->Admit(ask);
    if (!ticket.ok()) {
      ++core_.counters.episodes_refused;
      if (absl::IsFailedPrecondition(ticket.status()) && !request.group().empty()) {
        return release(ApiError(410, "group_over", "group", std::string(ticket.status().message())));
      }
      if (absl::IsFailedPrecondition(ticket.status())) {
        return release(ApiError(410, "run_over", "", std::string(ticket.status().message())));
      }
      return release(ticket.status());
    }
    *record.mutable_ref() = ticket->ref();
    *record.mutable_task() = ticket->task();
    record.set_purpose(ticket->purpose());
    pinned_version = ticket->pinned_version();
    if (ticket->purpose() == v1::PURPOSE_EVAL) record.set_pinned_version(pinned_version);
    record.set_admitted_version(ticket->admitted_version());
  }
  record.set_episode_id(RandomHex(16));
  record.set_scaffold(request.scaffold());
  record.set_runner(request.runner());
  record.set_incarnation(request.incarnation());
  if (request.has_limits()) *record.mutable_limits() = request.limits();
  record.set_metadata_json(request.metadata_json());
  record.set_state(v1::EPISODE_OPEN);
  record.set_opened_unix_ns(core_.parts.clock->UnixNanos());
  record.set_key_hash(base::ContentKey(api_key));
  if (core_.parts.pool != nullptr) {
    v1::OpenEpisodeRequest store;
    *store.mutable_episode() = record;
    if (absl::Status stored = core_.parts.pool->OpenEpisode(store); !stored.ok()) {
      if (admission != nullptr) {  // gives the place back
        v1::EpisodeEndedRequest ended;
        *ended.mutable_ref() = record.ref();
        ended.set_purpose(record.purpose());
        ended.set_state(v1::EPISODE_FAILED);
        ended.set_detail("the pool did not store it");
        ended.set_pinned_version(pinned_version);
        const absl::Status told = admission->EpisodeEnded(ended);
        if (!told.ok()) INGOT_LOG(error, "an episode that was not stored stays admitted: {}", told.ToString());
      }
      return release(base::Annotate(stored, "the episode could not be stored"));
    }
  }
  auto episode = std::make_shared<Episode>(std::move(record), LimitsFor(request.limits()), admission != nullptr,
                                           session, core_.parts.clock->Now());
  ++core_.counters.episodes_opened;
  base::MutexLock lock(mu_);
  --opening_;
  by_id_[episode->id()] = episode;
  by_key_[episode->key_hash()] = episode;
  return episode;
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::FindByKey(const std::string& episode_id, const std::string& api_key) {
  const std::string hash = base::ContentKey(api_key);
  base::MutexLock lock(mu_);
  const auto found = by_id_.find(episode_id);
  const auto ended = ended_keys_.find(episode_id);
  if (found == by_id_.end() && ended == ended_keys_.end()) {
    return ApiError(404, "episode_not_found", "", "there is no such episode");
  }
  if (api_key.empty()) {
    return ApiError(401, "invalid_api_key", "", "the episode's API key is needed: Authorization: Bearer KEY");
  }
  if (!IsAdmin(api_key) && hash != (found != by_id_.end() ? found->second->key_hash() : ended->second)) {
    return ApiError(403, "invalid_api_key", "", "the API key is not this episode's");
  }
  if (found == by_id_.end()) return EpisodeOver(episode_id);
  return found->second;
}

absl::Status Gateway::RewardEpisode(const v1::EpisodeRewardRequest& request) {
  if (!request.has_reward() && request.signals().empty() && request.call_rewards().empty()) {
    return BadRequest("reward", "there is neither 'reward' nor 'signals' nor the reward of a call");
  }
  INGOT_ASSIGN_OR_RETURN(auto episode, FindByKey(request.episode_id(), request.api_key()));
  INGOT_ASSIGN_OR_RETURN(const auto earned, episode->StartReward(request, Seconds(core_.options.end_wait_s)));
  absl::Status stored;
  if (core_.parts.pool != nullptr) {
    stored = base::Annotate(core_.parts.pool->RewardEpisode(earned), "the reward could not be stored");
  }
  episode->FinishReward(earned, stored.ok());
  return stored;
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

absl::Status Gateway::EndEpisode(const v1::EpisodeEndRequest& request) {
  if (request.state() != v1::EPISODE_FINISHED && request.state() != v1::EPISODE_FAILED) {
    return BadRequest("status", "an episode ends as finished or as failed");
  }
  const std::string detail = CutText(request.detail(), kMaxDetail);
  auto episode = FindByKey(request.episode_id(), request.api_key());
  if (!episode.ok()) {
    if (HttpStatusOf(episode.status()) != 410) return episode.status();
    base::MutexLock lock(mu_);
    const auto key = ended_keys_.find(request.episode_id());
    const auto ended = key == ended_keys_.end() ? ended_by_key_.end() : ended_by_key_.find(key->second);
    const bool same =
        ended != ended_by_key_.end() && ended->second.state == request.state() && ended->second.detail == detail;
    if (same) return absl::OkStatus();
    return ApiError(409, "episode_over", "", absl::StrCat("episode ", request.episode_id(), " was ended otherwise"));
  }
  return End(*episode, request.state(), detail, false);
}

absl::Status Gateway::End(const std::shared_ptr<Episode>& episode, v1::EpisodeState state, const std::string& detail,
                          bool free_key) {
  const auto patience = Seconds(core_.options.end_wait_s);
  INGOT_ASSIGN_OR_RETURN(Episode::End end, episode->StartEnd(state, detail, core_.parts.clock->UnixNanos(), patience));
  if (end.already) return absl::OkStatus();
  for (const auto& call : end.in_flight) {
    call->Abort(EpisodeSealed(episode->id()));
    call->Complete();  // here: every worker may be in this very place
  }
  absl::Status status = episode->WaitForCalls(patience);
  if (status.ok() && core_.parts.pool != nullptr) {
    status = base::Annotate(core_.parts.pool->EndEpisode(end.request), "the episode's end could not be stored");
  }
  if (status.ok() && episode->admitted()) {
    v1::EpisodeEndedRequest ended;
    *ended.mutable_ref() = episode->record().ref();
    ended.set_purpose(episode->record().purpose());
    ended.set_state(end.request.state());
    ended.set_reward(tree::ReturnOf(end.request));
    ended.set_detail(end.request.detail());
    ended.set_pinned_version(episode->record().pinned_version());
    status = base::Annotate(core_.parts.admission->EpisodeEnded(ended), "the scheduler was not told of the end");
  }
  if (status.ok()) {
    ++(state == v1::EPISODE_FINISHED ? core_.counters.episodes_finished : core_.counters.episodes_failed);
    Remove(episode, state, detail, free_key);
  }
  episode->FinishEnd(status.ok());
  return status;
}

void Gateway::Remove(const std::shared_ptr<Episode>& episode, v1::EpisodeState state, const std::string& detail,
                     bool free_key) {
  base::MutexLock lock(mu_);
  by_id_.erase(episode->id());
  by_key_.erase(episode->key_hash());
  if (core_.options.max_remembered_ends == 0) return;
  ended_keys_[episode->id()] = episode->key_hash();
  if (!free_key) ended_by_key_[episode->key_hash()] = {episode->id(), state, detail};
  ended_order_.push_back(episode->id());
  while (static_cast<int>(ended_order_.size()) > core_.options.max_remembered_ends) {
    const auto oldest = ended_keys_.find(ended_order_.front());
    const auto by_key = ended_by_key_.find(oldest->second);
    if (by_key != ended_by_key_.end() && by_key->second.episode_id == oldest->first) ended_by_key_.erase(by_key);
    ended_keys_.erase(oldest);
    ended_order_.pop_front();
  }
}

// ---- Calls --------------------------------------------------------------------------------------------------------

std::shared_ptr<Answer> Gateway::StartAnswer(Caller caller, const Dialect& dialect, RawRequest raw,
                                             std::function<void()> wake) {
  auto answer = std::make_shared<Answer>(core_, dialect, std::move(raw));
  answer->SetHooks({.resolve = [this, caller = std::move(caller)] { return Resolve(caller); },
                    .reserve =
                        [this](int calls) {
                          base::MutexLock lock(mu_);
                          return Reserve(calls);
                        },
                    .on_done = [this](const std::shared_ptr<Answer>& done, int extra) { OnDone(done, extra); },
                    .wake = std::move(wake)});
  absl::Status refused;
  {
    base::MutexLock lock(mu_);
    refused = Reserve(1);
    if (refused.ok()) answers_.insert(answer);
  }
  if (refused.ok() && !core_.workers.TrySubmit([answer] { answer->Prepare(); })) {
    refused = ApiError(503, "overloaded", "", "too many requests wait for a worker (max_queued_work): try again later");
  }
  if (!refused.ok()) answer->Refuse(std::move(refused));
  return answer;
}

absl::Status Gateway::Reserve(int calls) {
  if (shutdown_) return ShuttingDown();
  if (active_calls_ + calls > core_.options.max_active_calls) {
    return absl::ResourceExhaustedError(absl::StrCat(active_calls_, " calls are in flight, the limit is ",
                                                     core_.options.max_active_calls,
                                                     " (max_active_calls): try again later"));
  }
  active_calls_ += calls;
  core_.counters.active_calls = active_calls_;
  return absl::OkStatus();
}

void Gateway::OnDone(const std::shared_ptr<Answer>& answer, int extra) {
  base::MutexLock lock(mu_);
  if (answers_.erase(answer) == 0) return;  // it was refused: nothing was reserved for it
  active_calls_ -= 1 + extra;
  core_.counters.active_calls = active_calls_;
  changed_.SignalAll();
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::Resolve(const Caller& caller) {
  if (IsAdmin(caller.api_key)) {
    return ApiError(403, "invalid_api_key", "", "the admin key calls no model: send an episode's key");
  }
  const std::string hash = base::ContentKey(caller.api_key);
  const bool serving = core_.parts.admission == nullptr;
  {
    base::MutexLock lock(mu_);
    if (!caller.episode.empty()) {
      const auto found = by_id_.find(caller.episode);
      const auto ended = ended_keys_.find(caller.episode);
      if (found == by_id_.end() && ended == ended_keys_.end()) {
        return ApiError(404, "episode_not_found", "", "the URL names no open episode");
      }
      const std::string& owner = found != by_id_.end() ? found->second->key_hash() : ended->second;
      if (!caller.api_key.empty() && hash != owner) {
        return ApiError(403, "invalid_api_key", "",
                        "the API key is not that of the URL's episode: send that episode's key, or none");
      }
      if (found == by_id_.end()) return EpisodeOver(caller.episode);
      return found->second;
    }
    const auto found = by_key_.find(hash);
    if (found != by_key_.end()) return found->second;
    const auto ended = ended_by_key_.find(hash);
    if (ended != ended_by_key_.end()) return EpisodeOver(ended->second.episode_id);
  }
  if (serving || (core_.options.auto_episodes && !caller.api_key.empty())) return OpenSession(caller.api_key);
  if (caller.api_key.empty()) {
    return ApiError(401, "invalid_api_key", "", "no API key was sent: an episode's key, or its URL /s/{episode}/v1");
  }
  return ApiError(401, "invalid_api_key", "",
                  "the API key is that of no open episode: open one with POST /ingot/v1/episodes");
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::OpenSession(const std::string& api_key) {
  base::MutexLock one_at_a_time(session_mu_);
  {
    base::MutexLock lock(mu_);
    const auto found = by_key_.find(base::ContentKey(api_key));
    if (found != by_key_.end()) return found->second;
  }
  return Open(v1::EpisodeOpenRequest(), api_key, true);
}

void Gateway::Tick() {
  const auto now = core_.parts.clock->Now();
  std::vector<std::shared_ptr<Answer>> late;
  {
    base::MutexLock lock(mu_);
    if (core_.options.call_deadline_s > 0) {
      for (const auto& answer : answers_) {
        if (now - answer->arrival() > Seconds(core_.options.call_deadline_s)) late.push_back(answer);
      }
    }
  }
  for (const auto& answer : late) {
    answer->Abort(ApiError(504, "deadline_exceeded", "",
                           absl::StrCat("the call took longer than ", core_.options.call_deadline_s,
                                        " s (call_deadline_s); what was sampled is recorded as aborted")));
  }
  EndIdle();
}

// Ends what has been silent too long, and tries again what could not be ended.
void Gateway::EndIdle() {
  const auto now = core_.parts.clock->Now();
  struct Due {
    std::shared_ptr<Episode> episode;
    v1::EpisodeState state;
    std::string detail;
  };
  std::vector<Due> due;
  {
    base::MutexLock lock(mu_);
    if (shutdown_) return;
    for (const auto& [id, episode] : by_id_) {
      if (ending_.contains(id)) continue;
      if (auto unfinished = episode->unfinished_end()) {
        due.push_back({episode, unfinished->first, unfinished->second});
      } else {
        const double limit = episode->session() ? core_.options.session_idle_s : core_.options.episode_idle_s;
        const bool late = episode->past_deadline(now);
        const bool silent = limit > 0 && episode->idle() && now - episode->last_activity() > Seconds(limit);
        if (!late && !silent) continue;
        const bool served = episode->record().purpose() == v1::PURPOSE_SERVE;
        due.push_back({episode, served ? v1::EPISODE_FINISHED : v1::EPISODE_FAILED,
                       late ? absl::StrCat("its deadline of ", episode->deadline_s(), " s has passed")
                            : absl::StrCat("no call for longer than ", limit, " s")});
      }
      ending_.insert(id);
    }
  }
  for (const Due& one : due) {
    const auto release = [this, id = one.episode->id()] {
      base::MutexLock lock(mu_);
      ending_.erase(id);
    };
    const bool queued = core_.workers.TrySubmit([this, one, release] {
      const absl::Status status = End(one.episode, one.state, one.detail, one.episode->session());
      if (!status.ok()) INGOT_LOG(warn, "episode {} could not be ended: {}", one.episode->id(), status.ToString());
      release();
    });
    if (!queued) release();  // the next tick tries again
  }
}

void Gateway::Shutdown() {
  std::vector<std::shared_ptr<Answer>> answers;
  {
    base::MutexLock lock(mu_);
    shutdown_ = true;
    answers.assign(answers_.begin(), answers_.end());
  }
  for (const auto& answer : answers) answer->Abort(ShuttingDown());
  const auto deadline = std::chrono::steady_clock::now() + Seconds(core_.options.end_wait_s);
  base::MutexLock lock(mu_);
  while (!answers_.empty()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      INGOT_LOG(error, "{} requests were still being recorded after {} s", answers_.size(), core_.options.end_wait_s);
      return;
    }
    changed_.WaitFor(mu_, left);
  }
}

bool Gateway::shutting_down() const {
  base::MutexLock lock(mu_);
  return shutdown_;
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
