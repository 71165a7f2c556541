// Gateway: opens episodes. An episode is admitted and stored before the caller is answered.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/task_domain.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/episodes/episode_request.h"
#include "gateway/gateway.h"
#include "tree/episode_return.h"

namespace ingot::gateway {
namespace {

constexpr std::chrono::seconds kLongOpening(2);
constexpr size_t kMaxRunner = 256;                                   // bytes
constexpr size_t kMinIdempotencyKey = 16, kMaxIdempotencyKey = 256;  // bytes

// The owner's key. It is derived from the idempotency key, because gateway and pool keep only hashes of keys and a
// repeated request must get the same key.
std::string NewOwnerKey(const v1::EpisodeOpenRequest& request) {
  if (request.idempotency_key().empty()) return "ingot-" + base::RandomHex(24);
  return OwnerKeyOf(request.idempotency_key());
}

// The smaller of the two limits that are set; 0 = not set.
template <typename Number>
Number Tighter(Number own, Number asked) {
  return asked > 0 && (own <= 0 || asked < own) ? asked : own;
}

// The recipe for a task of `domain`.
v1::DomainScaffold RecipeOf(const v1::EpisodeOpenRequest& request, const std::string& domain) {
  for (const v1::DomainScaffold& named : request.by_domain()) {
    if (base::DomainOf(named.domain()) == base::DomainOf(domain)) return named;
  }
  v1::DomainScaffold other;
  other.set_scaffold(request.scaffold());
  other.set_separate_owner(request.separate_owner());
  return other;
}

// 400: no episode can be opened with this request, at any time.
absl::Status CheckRequest(const v1::EpisodeOpenRequest& request, bool admission) {
  if (request.runner().size() > kMaxRunner || request.incarnation().size() > kMaxRunner) {
    return BadRequest("runner",
                      absl::StrCat("'runner' and 'incarnation' must have at most ", kMaxRunner, " bytes each"));
  }
  const size_t once = request.idempotency_key().size();
  if (once != 0 && (once < kMinIdempotencyKey || once > kMaxIdempotencyKey)) {
    return BadRequest("idempotency_key", absl::StrCat("'idempotency_key' must have ", kMinIdempotencyKey, " to ",
                                                      kMaxIdempotencyKey, " bytes that cannot be guessed"));
  }
  if (request.can_fork() && request.runner().empty()) {
    return BadRequest("can_fork", "'can_fork' needs the name of a 'runner', which holds the snapshots");
  }
  return CheckOpen(request, admission);
}

// The end of an episode whose runner was started again.
Episode::AskedEnd LostRunner() {
  return {.state = v1::EPISODE_FENCED, .detail = "its runner was started again", .finish_if_judged = true};
}

// Not FAILED_PRECONDITION, which would say that the run is over.
absl::Status RunnerReplaced(const std::string& runner) {
  return absl::AbortedError(absl::StrCat("runner '", base::Printable(runner, {.max_bytes = 80}),
                                         "' was started again, so its earlier start can open no more episodes. If the "
                                         "earlier start still runs, stop it or rename one of them"));
}

}  // namespace

absl::Status Gateway::CheckAdmin(const std::string& key) const {
  if (admin_key_.empty() || IsAdmin(key)) return absl::OkStatus();
  constexpr char kWhose[] = "the gateway's admin key, which is in the file gateway.admin_key_file";
  // Without a file only this run's own runner and gateway have the key.
  if (core_.options.admin_key_file.empty()) {
    return ApiError(
        key.empty() ? 401 : 403, "invalid_api_key", "",
        "this run starts its own agents, and only their runner opens episodes: leave agents.recipes out, or "
        "set gateway.admin_key_file and send the key in that file");
  }
  if (key.empty()) return ApiError(401, "invalid_api_key", "", absl::StrCat("opening an episode needs ", kWhose));
  return ApiError(403, "invalid_api_key", "", absl::StrCat("wrong key: opening an episode needs ", kWhose));
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
  INGOT_RETURN_IF_ERROR(CheckRequest(request, core_.parts.admission != nullptr));
  if (!request.runner().empty()) INGOT_RETURN_IF_ERROR(EndAbandoned(request.runner(), request.incarnation()));
  const bool once = !request.idempotency_key().empty();
  const std::string key = NewOwnerKey(request);
  const auto began = core_.parts.clock->Now();
  if (once) {
    INGOT_ASSIGN_OR_RETURN(const std::string elsewhere, PlaceOpening(request.idempotency_key()));
    if (!elsewhere.empty()) return EpisodeElsewhere("of this idempotency key", elsewhere);
  }
  INGOT_ASSIGN_OR_RETURN(auto episode, OpenOnce(request, key, false));
  INGOT_RETURN_IF_ERROR(EndIfAbandoned(episode));
  if (once && core_.parts.clock->Now() - began > kLongOpening) {
    // This process may have been paused meanwhile, and the client may have asked another gateway.
    const std::string elsewhere = core_.parts.peers == nullptr ? "" : AskForKey(key).role;
    if (!elsewhere.empty()) {
      INGOT_RETURN_IF_ERROR(
          End(episode, {.state = v1::EPISODE_FENCED, .detail = "it was opened at " + elsewhere + " meanwhile"}, false)
              .status());
      return EpisodeElsewhere("of this idempotency key", elsewhere);
    }
  }
  const v1::DomainScaffold recipe = RecipeOf(request, episode->record().task().domain());
  if (episode->session() || episode->record().scaffold() != recipe.scaffold()) {
    return BadRequest("idempotency_key", "this 'idempotency_key' opened another episode");
  }
  v1::EpisodeOpenResponse response;
  response.set_episode_id(episode->id());
  response.set_api_key(recipe.separate_owner() ? CallKeyOf(key) : key);
  if (recipe.separate_owner()) response.set_owner_key(key);
  response.set_base_url(BaseUrl(episode->id()));
  *response.mutable_task() = episode->record().task();
  *response.mutable_ref() = episode->record().ref();
  response.set_purpose(episode->record().purpose());
  if (episode->record().has_fork()) *response.mutable_fork() = episode->record().fork();
  response.set_fork_at(episode->record().limits().fork_at());
  base::MutexLock lock(mu_);
  response.set_oldest_group(oldest_group_);
  return response;
}

absl::Status Gateway::EndAbandoned(const std::string& runner, const std::string& incarnation) {
  {
    base::MutexLock lock(mu_);
    const Incarnations::Start start = incarnations_.See(runner, incarnation);
    if (start == Incarnations::Start::kPast) return RunnerReplaced(runner);
    if (start == Incarnations::Start::kSame) return absl::OkStatus();
  }
  if (const absl::Status taken = TakeAbandoned(runner, incarnation); !taken.ok()) {
    INGOT_LOG(warn, "abandoned episodes of other gateways are not ended: {}", taken.ToString());
  }
  std::vector<std::shared_ptr<Episode>> abandoned;
  std::string newest;  // its episodes are not abandoned
  {
    base::MutexLock lock(mu_);
    newest = incarnations_.NewestOf(runner).value_or(incarnation);
    for (const auto& [id, episode] : by_id_) {
      const v1::Episode& record = episode->record();
      if (record.runner() == runner && record.incarnation() != newest) abandoned.push_back(episode);
    }
  }
  for (const std::shared_ptr<Episode>& episode : abandoned) {
    const absl::Status status = End(episode, LostRunner(), false).status();
    if (!status.ok()) INGOT_LOG(warn, "abandoned episode {} could not be ended: {}", episode->id(), status.ToString());
  }
  return newest == incarnation ? absl::OkStatus() : RunnerReplaced(runner);
}

absl::Status Gateway::EndIfAbandoned(const std::shared_ptr<Episode>& opened) {
  const v1::Episode& record = opened->record();
  {
    base::MutexLock lock(mu_);
    const auto newest = incarnations_.NewestOf(record.runner());
    if (!newest.has_value() || *newest == record.incarnation()) return absl::OkStatus();
  }
  const absl::Status status = End(opened, LostRunner(), false).status();
  if (!status.ok()) INGOT_LOG(warn, "abandoned episode {} could not be ended: {}", opened->id(), status.ToString());
  return RunnerReplaced(record.runner());
}

absl::Status Gateway::TakeAbandoned(const std::string& runner, const std::string& incarnation) {
  if (core_.parts.peers == nullptr || core_.parts.pool == nullptr) return absl::OkStatus();
  for (const v1::EpisodePurpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    for (datapool::EpisodePages pages(*core_.parts.pool, purpose, 0, -1, true); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
      for (const v1::Episode& episode : page.episodes()) {
        if (episode.runner() != runner || episode.incarnation() == incarnation) continue;
        if (episode.gateway() == core_.parts.name && IsHere(episode.episode_id())) continue;
        const absl::Status taken = TakeOver(episode);
        if (!absl::IsFailedPrecondition(taken)) INGOT_RETURN_IF_ERROR(taken);
      }
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<Episode> Gateway::OldestIdleSession() const {
  std::shared_ptr<Episode> oldest;
  for (const auto& [id, episode] : by_id_) {
    if (!episode->session() || episode->admitted() || !episode->idle() || making_room_.contains(id)) continue;
    if (oldest == nullptr || episode->last_activity() < oldest->last_activity()) oldest = episode;
  }
  return oldest;
}

int Gateway::PlacesTaken() const {
  int taken = static_cast<int>(by_id_.size()) + opening_;
  for (const std::string& id : making_room_) taken -= by_id_.contains(id) ? 1 : 0;
  return taken;
}

absl::Status Gateway::ReserveEpisode() {
  std::shared_ptr<Episode> oldest;
  {
    base::MutexLock lock(mu_);
    if (shutdown_) return ShuttingDown();
    if (PlacesTaken() >= core_.options.max_open_episodes) {
      oldest = OldestIdleSession();
      if (oldest == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the gateway holds ", core_.options.max_open_episodes,
                         " open episodes, its limit (max_open_episodes): try again later"));
      }
      making_room_.insert(oldest->id());
    }
    ++opening_;
  }
  if (oldest == nullptr) return absl::OkStatus();
  const absl::Status ended =
      End(oldest, {.state = v1::EPISODE_FINISHED, .detail = "closed for a new session"}, true).status();
  base::MutexLock lock(mu_);
  making_room_.erase(oldest->id());
  const bool gone = !by_id_.contains(oldest->id());  // also if another caller ended it at the same time
  if (gone && !shutdown_) return absl::OkStatus();
  --opening_;
  if (shutdown_) return ShuttingDown();
  // Not the error's own code: callers would read FAILED_PRECONDITION as the end of the run.
  return absl::UnavailableError(absl::StrCat("an idle session could not be closed for a new one: ", ended.message()));
}

absl::Status Gateway::Admit(const v1::EpisodeOpenRequest& request, v1::Episode& record) {
  v1::AdmitRequest ask;
  ask.set_scaffold(request.scaffold());
  ask.set_group(request.group());
  ask.set_gateway(RoleOfGateway(core_.parts.name));
  if (request.has_task()) *ask.mutable_task() = request.task();
  if (request.can_fork()) ask.set_runner(request.runner());
  if (!request.from_snapshot().empty()) INGOT_RETURN_IF_ERROR(AskAsFork(request.from_snapshot(), record, ask));
  const auto ticket = core_.parts.admission->Admit(ask);
  if (!ticket.ok()) {
    ++core_.counters.episodes_rejected;
    if (!absl::IsFailedPrecondition(ticket.status())) return ticket.status();
    const char* const field = !request.group().empty()           ? "group"
                              : !request.from_snapshot().empty() ? "from_snapshot"
                                                                 : "";
    return ApiError(410, *field != 0 ? "group_over" : "run_over", field, std::string(ticket.status().message()));
  }
  *record.mutable_ref() = ticket->ref();
  *record.mutable_task() = ticket->task();
  record.set_purpose(ticket->purpose());
  if (ticket->purpose() == v1::PURPOSE_EVAL) record.set_pinned_version(ticket->pinned_version());
  record.set_admitted_version(ticket->admitted_version());
  if (ticket->fork_at() > 0) record.mutable_limits()->set_fork_at(ticket->fork_at());
  if (!ticket->trunk_id().empty()) record.mutable_fork()->set_episode_id(ticket->trunk_id());
  base::MutexLock lock(mu_);
  oldest_group_ = std::max(oldest_group_, ticket->oldest_group());
  return absl::OkStatus();
}

void Gateway::ReportHolder(const v1::Episode& rejected) {
  const int64_t group = rejected.ref().group_id();
  for (datapool::EpisodePages pages(*core_.parts.pool, rejected.purpose(), group, group); !pages.done();) {
    const auto page = pages.Next();
    if (!page.ok()) {
      INGOT_LOG(error, "cannot report to the scheduler which episode holds an attempt of group {}: {}", group,
                page.status().ToString());
      return;
    }
    for (const v1::Episode& holder : page->episodes()) {
      if (holder.ref().sample_index() != rejected.ref().sample_index()) continue;
      if (holder.ref().attempt() != rejected.ref().attempt() || holder.state() == v1::EPISODE_OPEN) continue;
      const absl::Status reported = core_.parts.admission->ReportEpisodeEnd(
          MakeEnded(holder, holder.state(), tree::ReturnOf(holder), holder.detail()));
      if (!reported.ok()) INGOT_LOG(error, "the end of episode {}: {}", holder.episode_id(), reported.ToString());
    }
  }
}

void Gateway::GiveBack(const v1::Episode& record, const std::string& why) {
  const absl::Status reported = core_.parts.admission->ReportEpisodeEnd(MakeEnded(record, v1::EPISODE_FENCED, 0, why));
  if (!reported.ok()) INGOT_LOG(error, "an episode that was not stored stays admitted: {}", reported.ToString());
}

absl::Status Gateway::Store(const v1::Episode& record, bool admitted) {
  if (core_.parts.pool == nullptr) return absl::OkStatus();
  v1::StoreEpisodeRequest store;
  *store.mutable_episode() = record;
  const absl::Status stored = core_.parts.pool->StoreEpisode(store);
  if (absl::IsAlreadyExists(stored) && admitted) {
    ReportHolder(record);
    return absl::AbortedError(stored.message());
  }
  if (!stored.ok() && admitted) GiveBack(record, "the pool did not store it");
  // The pool has a newer attempt of the sample. Callers would read FAILED_PRECONDITION as the end of the run.
  if (absl::IsFailedPrecondition(stored)) return absl::AbortedError(stored.message());
  return base::Annotate(stored, "the episode could not be stored");
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::Open(const v1::EpisodeOpenRequest& request,
                                                       const std::string& key_hash, bool session) {
  const bool admitted = !session && core_.parts.admission != nullptr;
  if (absl::Status room = ReserveEpisode(); !room.ok()) {
    ++core_.counters.episodes_rejected;
    return room;
  }
  v1::Episode record;
  record.set_purpose(v1::PURPOSE_SERVE);
  record.set_pinned_version(-1);
  if (request.has_task()) *record.mutable_task() = request.task();
  record.set_episode_id(base::RandomHex(16));
  record.set_runner(request.runner());
  record.set_incarnation(request.incarnation());
  if (request.has_limits()) *record.mutable_limits() = request.limits();
  record.set_metadata_json(request.metadata_json());
  record.set_state(v1::EPISODE_OPEN);
  record.set_key_hash(key_hash);
  record.set_gateway(core_.parts.name);
  record.set_gateway_token(core_.parts.peers == nullptr ? 0 : 1);
  absl::Status opened = admitted ? Admit(request, record) : absl::OkStatus();
  record.set_scaffold(RecipeOf(request, record.task().domain()).scaffold());
  record.set_opened_unix_ns(core_.parts.clock->UnixNanos());
  const auto opened_at = core_.parts.clock->Now();
  Episode::EarlierCalls earlier;
  if (opened.ok() && record.has_fork()) {
    auto joined = JoinTrunk(record);
    if (joined.ok()) earlier = *std::move(joined);
    if (!joined.ok()) {
      GiveBack(record, absl::StrCat("its trunk could not be read: ", joined.status().message()));
      // FAILED_PRECONDITION would say that the run is over.
      opened = absl::UnavailableError(absl::StrCat("the trunk of an episode: ", joined.status().message()));
    }
  }
  if (opened.ok()) opened = Store(record, admitted);
  if (!opened.ok()) {
    base::MutexLock lock(mu_);
    --opening_;
    return opened;
  }
  v1::EpisodeLimits limits = LimitsFor(request.limits());
  if (session) limits.set_max_tokens(core_.options.max_tokens_per_session);
  limits.set_fork_at(record.limits().fork_at());
  const bool forked = record.has_fork();
  auto episode = forked ? std::make_shared<Episode>(std::move(record), std::move(limits), admitted, std::move(earlier),
                                                    opened_at, *core_.parts.clock)
                        : std::make_shared<Episode>(std::move(record), std::move(limits), admitted, session, opened_at,
                                                    *core_.parts.clock);
  ++core_.counters.episodes_opened;
  base::MutexLock lock(mu_);
  --opening_;
  // A repeated opening may have found the record in the pool meanwhile, and taken it under a later token.
  const auto taken = by_id_.find(episode->id());
  if (taken != by_id_.end() && taken->second->gateway_token() > episode->gateway_token()) return taken->second;
  by_id_[episode->id()] = episode;
  by_key_[episode->key_hash()] = episode;
  return episode;
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::OpenOnce(const v1::EpisodeOpenRequest& request,
                                                           const std::string& owner_key, bool session) {
  const std::string hash = KeyHashes(owner_key).as_owner;
  std::shared_ptr<Episode> opened_before;
  {
    base::MutexLock lock(mu_);
    while (opening_keys_.contains(hash)) changed_.Wait(mu_);
    opened_before = FindOpenByHash(hash);
    const auto ended = ended_by_key_.find(hash);
    if (opened_before == nullptr && ended != ended_by_key_.end()) {
      return absl::AlreadyExistsError(
          absl::StrCat("this opened episode ", ended->second.episode_id, ", which is over: open another"));
    }
    if (opened_before == nullptr) opening_keys_.insert(hash);
  }
  if (opened_before != nullptr) {
    INGOT_RETURN_IF_ERROR(CheckServed(opened_before));
    return opened_before;
  }
  auto opened = Open(request, hash, session);
  base::MutexLock lock(mu_);
  opening_keys_.erase(hash);
  changed_.SignalAll();
  return opened;
}

}  // namespace ingot::gateway
