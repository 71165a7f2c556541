#include "gateway/lifecycle/openings.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/task_domain.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/episodes/episode_limits.h"
#include "gateway/episodes/episode_request.h"
#include "gateway/episodes/failed_attempts.h"
#include "gateway/lifecycle/trunks.h"
#include "tree/episode_return.h"

namespace ingot::gateway {
namespace {

constexpr std::chrono::seconds kLongOpening(2);
constexpr size_t kMaxRunner = 256;                                   // bytes
constexpr size_t kMinIdempotencyKey = 16, kMaxIdempotencyKey = 256;  // bytes

// Returns the owner's key. It is derived from the idempotency key because a repeated request must get the same key, but
// the gateway and the pool store only key hashes.
std::string NewOwnerKey(const v1::EpisodeOpenRequest& request) {
  if (request.idempotency_key().empty()) return "ingot-" + base::RandomHex(24);
  return OwnerKeyOf(request.idempotency_key());
}

// Returns the recipe for a task in `domain`.
v1::DomainScaffold RecipeOf(const v1::EpisodeOpenRequest& request, const std::string& domain) {
  for (const v1::DomainScaffold& named : request.by_domain()) {
    if (base::DomainOf(named.domain()) == base::DomainOf(domain)) return named;
  }
  v1::DomainScaffold other;
  other.set_scaffold(request.scaffold());
  other.set_separate_owner(request.separate_owner());
  return other;
}

// Returns 400 if this request can never open an episode.
absl::Status CheckRequest(const v1::EpisodeOpenRequest& request, bool admission) {
  if (request.runner().size() > kMaxRunner || request.incarnation().size() > kMaxRunner) {
    return BadRequest("runner",
                      absl::StrCat("'runner' and 'incarnation' must have at most ", kMaxRunner, " bytes each"));
  }
  const size_t once = request.idempotency_key().size();
  if (once != 0 && (once < kMinIdempotencyKey || once > kMaxIdempotencyKey)) {
    return BadRequest("idempotency_key", absl::StrCat("'idempotency_key' must have ", kMinIdempotencyKey, " to ",
                                                      kMaxIdempotencyKey, " bytes, and must be hard to guess"));
  }
  if (request.can_fork() && request.runner().empty()) {
    return BadRequest("can_fork", "'can_fork' needs the name of a 'runner', which holds the snapshots");
  }
  return CheckOpen(request, admission);
}

}  // namespace

absl::StatusOr<v1::EpisodeOpenResponse> Openings::OpenEpisode(const v1::EpisodeOpenRequest& request) {
  INGOT_RETURN_IF_ERROR(core_.admin_key.Check(request.admin_key()));
  INGOT_RETURN_IF_ERROR(CheckRequest(request, core_.parts.admission != nullptr));
  if (!request.runner().empty()) INGOT_RETURN_IF_ERROR(abandoned_.EndEarlier(request.runner(), request.incarnation()));
  const bool once = !request.idempotency_key().empty();
  const std::string key = NewOwnerKey(request);
  const auto began = core_.parts.clock->Now();
  if (once) {
    INGOT_ASSIGN_OR_RETURN(const std::string elsewhere, placement_.PlaceOpening(request.idempotency_key()));
    if (!elsewhere.empty()) return EpisodeElsewhere("of this idempotency key", elsewhere);
  }
  INGOT_ASSIGN_OR_RETURN(auto episode, OpenOnce(request, key, false));
  INGOT_RETURN_IF_ERROR(abandoned_.EndIfAbandoned(episode));
  if (once && core_.parts.clock->Now() - began > kLongOpening) {
    // This process may have been paused in the meantime, and the client may have called another gateway.
    const std::string elsewhere = placement_.AskWhoServes(key);
    if (!elsewhere.empty()) {
      INGOT_RETURN_IF_ERROR(
          ends_
              .End(episode,
                   {.state = v1::EPISODE_FENCED, .detail = "it was meanwhile opened at " + elsewhere + " meanwhile"},
                   false)
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
  *response.mutable_task() = episode->record().task();
  *response.mutable_ref() = episode->record().ref();
  response.set_purpose(episode->record().purpose());
  if (episode->record().has_fork()) *response.mutable_fork() = episode->record().fork();
  response.set_fork_at(episode->record().limits().fork_at());
  base::MutexLock lock(mu_);
  response.set_oldest_group(oldest_group_);
  return response;
}

absl::Status Openings::ReservePlace() {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Episode> idle, open_.ReservePlace());
  if (idle == nullptr) return absl::OkStatus();
  const absl::Status ended =
      ends_.End(idle, {.state = v1::EPISODE_FINISHED, .detail = "closed for a new session"}, true).status();
  return open_.TakePlaceOf(idle->id(), ended);
}

absl::Status Openings::Admit(const v1::EpisodeOpenRequest& request, v1::Episode& record) {
  v1::AdmitRequest admit;
  admit.set_scaffold(request.scaffold());
  admit.set_group(request.group());
  admit.set_gateway(RoleOfGateway(core_.parts.name));
  if (request.has_task()) *admit.mutable_task() = request.task();
  if (request.can_fork()) admit.set_runner(request.runner());
  if (!request.from_snapshot().empty())
    INGOT_RETURN_IF_ERROR(RequestForkSample(core_.parts.pool, request.from_snapshot(), record, admit));
  const auto ticket = core_.parts.admission->Admit(admit);
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

void Openings::ReportHolder(const v1::Episode& rejected) {
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

void Openings::GiveBack(const v1::Episode& record, const std::string& why) {
  const absl::Status reported = core_.parts.admission->ReportEpisodeEnd(MakeEnded(record, v1::EPISODE_FENCED, 0, why));
  if (!reported.ok()) INGOT_LOG(error, "an episode was not stored but remains admitted: {}", reported.ToString());
}

absl::StatusOr<int32_t> Openings::FailedAttempts(const v1::Episode& record) {
  if (core_.parts.pool == nullptr) return record.ref().attempt();
  const auto counted = FailedAttemptsBefore(*core_.parts.pool, record);
  if (counted.ok()) return counted;
  GiveBack(record, absl::StrCat("its sample's attempts could not be read: ", counted.status().message()));
  // FAILED_PRECONDITION would mean that the run is over.
  return absl::UnavailableError(absl::StrCat("the attempts at a sample: ", counted.status().message()));
}

absl::Status Openings::Store(const v1::Episode& record, bool admitted) {
  if (core_.parts.pool == nullptr) return absl::OkStatus();
  v1::StoreEpisodeRequest store;
  *store.mutable_episode() = record;
  const absl::Status stored = core_.parts.pool->StoreEpisode(store);
  if (absl::IsAlreadyExists(stored) && admitted) {
    ReportHolder(record);
    return absl::AbortedError(stored.message());
  }
  if (!stored.ok() && admitted) GiveBack(record, "the pool did not store it");
  // The pool has a newer attempt of the sample. Callers would interpret FAILED_PRECONDITION as the end of the run.
  if (absl::IsFailedPrecondition(stored)) return absl::AbortedError(stored.message());
  return base::Annotate(stored, "the episode could not be stored");
}

absl::StatusOr<std::shared_ptr<Episode>> Openings::Open(const v1::EpisodeOpenRequest& request,
                                                        const std::string& key_hash, bool session) {
  const bool admitted = !session && core_.parts.admission != nullptr;
  if (absl::Status reserved = ReservePlace(); !reserved.ok()) {
    ++core_.counters.episodes_rejected;
    return reserved;
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
  std::optional<Episode::EarlierCalls> earlier;
  if (opened.ok() && record.has_fork()) {
    auto joined = JoinTrunk(core_.parts.pool, record);
    if (joined.ok()) earlier = *std::move(joined);
    if (!joined.ok()) {
      GiveBack(record, absl::StrCat("its trunk could not be read: ", joined.status().message()));
      // FAILED_PRECONDITION would mean that the run is over.
      opened = absl::UnavailableError(absl::StrCat("the trunk of an episode: ", joined.status().message()));
    }
  }
  int32_t failed = 0;
  if (opened.ok() && admitted) {
    const auto counted = FailedAttempts(record);
    if (counted.ok()) failed = *counted;
    opened = counted.status();
  }
  if (opened.ok()) opened = Store(record, admitted);
  if (!opened.ok()) {
    open_.ReleasePlace();
    return opened;
  }
  v1::EpisodeLimits limits = LimitsFor(core_.options, request.limits());
  if (session) limits.set_max_tokens(core_.options.max_tokens_per_session);
  limits.set_fork_at(record.limits().fork_at());
  auto episode = std::make_shared<Episode>(std::move(record), std::move(limits), admitted, session, std::move(earlier),
                                           opened_at, *core_.parts.clock, failed);
  ++core_.counters.episodes_opened;
  return open_.Add(std::move(episode));
}

absl::StatusOr<std::shared_ptr<Episode>> Openings::OpenOnce(const v1::EpisodeOpenRequest& request,
                                                            const std::string& owner_key, bool session) {
  const std::string hash = KeyHashes(owner_key).as_owner;
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Episode> opened_before, open_.BeginOpening(hash));
  if (opened_before != nullptr) {
    INGOT_RETURN_IF_ERROR(fencing_.CheckServed(opened_before));
    return opened_before;
  }
  auto opened = Open(request, hash, session);
  open_.EndOpening(hash);
  return opened;
}

}  // namespace ingot::gateway
