#include "gateway/lifecycle/episode_ends.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "gateway/calls/chat_call.h"
#include "tree/episode_return.h"

namespace ingot::gateway {
namespace {

constexpr size_t kMaxDetail = 4096;  // bytes
constexpr size_t kMaxCause = 64;
// An end that keeps failing is logged the first time and then every kReportTries attempts.
constexpr int kReportTries = 600;

// Returns true if the same request would always be rejected because the pool or the scheduler does not know the episode
// or has a different end for it.
using datapool::IsRejection;

// Returns INVALID_ARGUMENT if a record cannot hold `text`.
absl::Status CheckText(const char* field, const std::string& text) {
  if (base::IsValidUtf8(text)) return absl::OkStatus();
  return BadRequest(field, absl::StrCat("'", field, "' is not UTF-8"));
}

// Copies the pool's outcome.
void SetOutcome(const v1::Episode& stored, v1::StoreEndRequest& end) {
  end.clear_unless_rewarded();
  end.set_state(stored.state());
  end.set_detail(stored.detail());
  if (stored.has_reward()) end.set_reward(stored.reward());
  *end.mutable_call_rewards() = stored.call_rewards();
}

v1::EpisodeEndResponse ResponseTo(const std::string& rejection) {
  v1::EpisodeEndResponse response;
  response.set_last_rejection(rejection);
  return response;
}

}  // namespace

absl::Status EpisodeEnds::RewardEpisode(const v1::EpisodeRewardRequest& request,
                                        const std::function<bool()>& client_gone) {
  if (!request.has_reward() && request.signals().empty() && request.facts().empty() && request.call_rewards().empty()) {
    return BadRequest("reward", "the request has no 'reward', 'signals', 'facts', or call rewards");
  }
  INGOT_ASSIGN_OR_RETURN(auto episode, access_.FindByKey(request.episode_id(), request.api_key()));
  INGOT_RETURN_IF_ERROR(CheckRewards(request));
  // Done before waiting for the pool, so an abandoned reward never follows the reward posted in its place.
  auto turn = episode->TakeRewardTurn(base::FromSeconds(core_.options.end_wait_s));
  if (!turn.ok()) return fencing_.Confirmed(episode, turn.status());
  if (!episode->HoldsCalls(request)) INGOT_RETURN_IF_ERROR(fencing_.SettleCalls(episode));
  const auto earned = episode->StartReward(request);
  if (!earned.ok()) {
    turn->reset();
    return fencing_.Confirmed(episode, earned.status());
  }
  // Checked while holding the turn and a number, so anything the client posts after this is stored later.
  if (client_gone != nullptr && client_gone()) {
    return absl::CancelledError("the client disconnected before its reward was stored");
  }
  absl::Status stored;
  if (core_.parts.pool != nullptr) {
    stored = base::Annotate(core_.parts.pool->StoreReward(*earned), "the reward could not be stored");
  }
  if (stored.ok()) episode->CountReward(*earned);
  turn->reset();
  return absl::IsAborted(stored) ? fencing_.GiveUp(episode) : stored;
}

absl::StatusOr<v1::EpisodeEndResponse> EpisodeEnds::EndEpisode(const v1::EpisodeEndRequest& request) {
  if (!tree::IsEnd(request.state())) {
    return BadRequest("status", "'status' must be finished, failed, infrastructure_failed, fenced, or forked");
  }
  INGOT_RETURN_IF_ERROR(CheckText("detail", request.detail()));
  INGOT_RETURN_IF_ERROR(CheckText("cause", request.cause()));
  const std::string detail = base::CutText(request.detail(), kMaxDetail);
  auto episode = access_.FindByKey(request.episode_id(), request.api_key());
  if (!episode.ok()) {
    if (HttpStatusOf(episode.status()) != 410) return episode.status();
    const std::optional<EndedEpisode> ended = open_.EndOf(request.episode_id());
    const bool same = ended.has_value() && ended->state == request.state();
    const bool by_default = request.has_unless_rewarded() && same &&
                            ended->detail == base::CutText(request.unless_rewarded().detail(), kMaxDetail);
    if (by_default || (same && ended->detail == detail)) return ResponseTo(ended->rejection);
    return ApiError(409, "episode_over", "",
                    absl::StrCat("episode ", request.episode_id(), " has already ended with another outcome"));
  }
  if (request.state() == v1::EPISODE_FORKED && (*episode)->record().limits().fork_at() == 0) {
    return BadRequest("status", "only a trunk ends as forked, and this episode is not a trunk");
  }
  Episode::RequestedEnd asked{
      .state = request.state(), .detail = detail, .cause = base::CutText(request.cause(), kMaxCause)};
  if (request.has_unless_rewarded()) {
    if (request.state() != v1::EPISODE_FINISHED) {
      return BadRequest("unless_rewarded", "only a finished episode can have an outcome instead of a reward");
    }
    INGOT_RETURN_IF_ERROR(CheckDefault(request.unless_rewarded()));
    asked.unless_rewarded = request.unless_rewarded();
    asked.unless_rewarded->set_detail(base::CutText(request.unless_rewarded().detail(), kMaxDetail));
  }
  return End(*episode, asked, false);
}

absl::Status EpisodeEnds::StoreEnd(v1::StoreEndRequest& end, std::string& rejected) {
  if (core_.parts.pool == nullptr) {
    if (end.has_unless_rewarded()) {
      end.set_reward(end.unless_rewarded().reward());
      end.set_detail(end.unless_rewarded().detail());
    }
    return absl::OkStatus();
  }
  constexpr char kNotStored[] = "the episode's end could not be stored";
  v1::GetEpisodeRequest get;
  get.set_episode_id(end.episode_id());
  const absl::Status stored = core_.parts.pool->StoreEnd(end);
  if (stored.ok() && end.has_unless_rewarded()) {  // only the pool knows which outcome applied
    const auto outcome = core_.parts.pool->GetEpisode(get);
    if (!outcome.ok()) return base::Annotate(outcome.status(), "the outcome of an end could not be read");
    SetOutcome(outcome->episode(), end);
  }
  if (!IsRejection(stored)) return base::Annotate(stored, kNotStored);
  rejected = std::string(stored.message());
  const bool has_outcome = end.state() != v1::EPISODE_FENCED;
  const auto held = core_.parts.pool->GetEpisode(get);
  if (!held.ok() && !IsRejection(held.status())) return base::Annotate(held.status(), kNotStored);
  end.set_state(v1::EPISODE_FENCED);
  end.clear_reward();
  end.clear_signals();
  end.clear_facts();
  end.clear_call_rewards();
  end.clear_cause();
  end.clear_unless_rewarded();
  end.set_detail("its end was rejected: " + rejected);
  if (!held.ok()) return absl::OkStatus();
  const v1::Episode& episode = held->episode();
  if (episode.state() == v1::EPISODE_OPEN) {  // the pool rejects only the content of this end
    const absl::Status lost = core_.parts.pool->StoreEnd(end);
    return IsRejection(lost) ? absl::OkStatus() : base::Annotate(lost, kNotStored);
  }
  const bool ended_elsewhere = episode.state() != v1::EPISODE_FENCED;
  if (ended_elsewhere) ++core_.counters.episodes_ended_elsewhere;
  if (ended_elsewhere && has_outcome) {  // only this gateway's outcome comes from the episode's owner
    rejected = absl::StrCat("it was ended in the pool, but not by its gateway, as ",
                            v1::EpisodeState_Name(episode.state()), " with a return of ", tree::ReturnOf(episode));
    end.set_detail(absl::StrCat(rejected, ", which does not count"));
    return absl::OkStatus();
  }
  SetOutcome(episode, end);
  return absl::OkStatus();
}

absl::Status EpisodeEnds::ReportEnd(const Episode& episode, const v1::StoreEndRequest& end, std::string& rejected) {
  if (!episode.admitted()) return absl::OkStatus();
  v1::ReportEpisodeEndRequest ended = MakeEnded(episode.record(), end.state(), tree::ReturnOf(end), end.detail());
  ended.set_before_first_call(core_.counters.handed_over == 0);
  ended.set_cause(end.cause());
  const absl::Status reported = core_.parts.admission->ReportEpisodeEnd(ended);
  if (!IsRejection(reported)) return base::Annotate(reported, "the end was not reported to the scheduler");
  rejected = std::string(reported.message());
  return absl::OkStatus();
}

absl::StatusOr<v1::EpisodeEndResponse> EpisodeEnds::End(const std::shared_ptr<Episode>& episode,
                                                        const Episode::RequestedEnd& asked, bool free_key) {
  const auto timeout = base::FromSeconds(core_.options.end_wait_s);
  const bool finishes = asked.state == v1::EPISODE_FINISHED && !asked.unless_rewarded.has_value();
  if (finishes || asked.finish_if_judged) {
    if (const absl::Status read = fencing_.ReadReward(episode); !read.ok()) {
      if (asked.finish_if_judged) open_.NoteUnreadEnd(*episode, asked);
      return read;
    }
  }
  absl::StatusOr<Episode::End> started = episode->StartEnd(asked, timeout);
  if (!started.ok()) return fencing_.Confirmed(episode, started.status());
  Episode::End end = *std::move(started);
  if (end.already) return ResponseTo(end.rejection);
  for (const auto& call : end.in_flight) {
    call->Abort(EpisodeSealed(episode->id()));
    call->Complete();  // runs on this thread because all workers may be waiting here
  }
  std::string by_pool, by_scheduler;  // why they permanently reject the end
  absl::Status status = episode->WaitForCalls(timeout);
  if (status.ok()) status = StoreEnd(end.request, by_pool);
  if (absl::IsAborted(status)) status = fencing_.GiveUp(episode);
  if (status.ok()) status = ReportEnd(*episode, end.request, by_scheduler);
  if (status.ok()) {
    const v1::EpisodeState state = end.request.state();
    ++(state == v1::EPISODE_FINISHED ? core_.counters.episodes_finished
       : state == v1::EPISODE_FORKED ? core_.counters.episodes_forked
       : state == v1::EPISODE_FENCED ? core_.counters.episodes_fenced
                                     : core_.counters.episodes_failed);
    snapshot_requests_.Forget(episode->id());
    const std::string detail = WithoutRejection(end.request.detail());
    const std::string visible_detail = VisibleDetail(end.request.cause(), detail);
    if (!visible_detail.empty()) ++core_.counters.episodes_never_called;
    open_.Remove(*episode, {episode->id(), state, detail, end.rejection, visible_detail}, free_key);
  }
  episode->FinishEnd(status.ok());
  INGOT_RETURN_IF_ERROR(status);
  if (by_pool.empty() && by_scheduler.empty()) return ResponseTo(end.rejection);
  INGOT_LOG(
      warn, "gave up on episode {}, which ends as {}: {}", episode->id(), v1::EpisodeState_Name(end.request.state()),
      by_pool.empty() ? "the scheduler does not know it: " + by_scheduler : "the pool rejects its end: " + by_pool);
  if (by_pool.empty()) return ResponseTo(end.rejection);  // the end is durable
  return ApiError(409, "episode_over", "",
                  absl::StrCat("the end of episode ", episode->id(), " is rejected: ", by_pool));
}

absl::StatusOr<v1::EndUncalledResponse> EpisodeEnds::EndUncalled(const v1::EndUncalledRequest& request) {
  INGOT_RETURN_IF_ERROR(core_.admin_key.CheckOwner(request.admin_key(), "ending an episode that made no call"));
  const bool all = request.episode_id().empty();
  std::vector<std::shared_ptr<Episode>> uncalled;
  if (all) {
    for (OpenEpisodes::Uncalled& one : open_.UncalledEpisodes()) uncalled.push_back(std::move(one.episode));
  } else {
    INGOT_ASSIGN_OR_RETURN(uncalled.emplace_back(), FindUncalled(request.episode_id()));
  }
  v1::EndUncalledResponse response;
  for (const std::shared_ptr<Episode>& episode : uncalled) {
    const Episode::RequestedEnd asked = NeverCalledEnd(*episode, "the run's owner ended it before its first call");
    const absl::Status ended = End(episode, asked, false).status();
    if (ended.ok()) response.set_ended(response.ended() + 1);
    if (ended.ok() || (all && ErrorCodeOf(ended) == "episode_called")) continue;
    if (!all) return ended;
    return base::Annotate(ended, absl::StrCat("ended ", response.ended(), " of ", uncalled.size(), " episodes"));
  }
  return response;
}

absl::StatusOr<std::shared_ptr<Episode>> EpisodeEnds::FindUncalled(const std::string& episode_id) {
  const std::string printed = base::Printable(episode_id, {.max_bytes = 80});
  auto episode = open_.Find(episode_id);
  if (episode == nullptr && open_.EndOf(episode_id).has_value()) {
    return ApiError(410, "episode_over", "episode_id", absl::StrCat("episode ", printed, " has already ended"));
  }
  if (episode == nullptr) {
    return ApiError(404, "episode_not_found", "episode_id",
                    absl::StrCat("there is no open episode '", printed, "': `ingot episodes list RUN` lists them"));
  }
  if (episode->uncalled_since().has_value()) return episode;
  const bool runners = !episode->record().runner().empty();
  return ApiError(409, "episode_called", "episode_id",
                  absl::StrCat("episode ", printed,
                               runners ? " belongs to agents.recipes, whose runner ends it"
                                       : " has made a call, or is ending: its client ends it, or "
                                         "POST /ingot/v1/episodes/ID/end with its key"));
}

void EpisodeEnds::EndDue() {
  for (const OpenEpisodes::DueEnd& due : open_.TakeDueEnds(core_.parts.clock->Now())) {
    const absl::Status queued = core_.workers.TryPost([this, due] {
      const absl::Status status = End(due.episode, due.asked, due.episode->session()).status();
      if (!status.ok() && due.tries % kReportTries == 1) {
        INGOT_LOG(warn, "episode {} could not be ended; retrying every second: {}", due.episode->id(),
                  status.ToString());
      }
      open_.ReleaseDueEnd(due.episode->id());
    });
    if (!queued.ok()) open_.ReleaseDueEnd(due.episode->id());  // the next tick retries
  }
}

}  // namespace ingot::gateway
