// Gateway: finds the episode of a caller, and starts answers.
#include <utility>
#include <vector>

#include "base/secret.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/gateway.h"

namespace ingot::gateway {

bool Gateway::IsAdmin(const std::string& key) const { return !admin_key_.empty() && base::SameSecret(key, admin_key_); }

absl::StatusOr<std::shared_ptr<Episode>> Gateway::FindByKey(const std::string& episode_id, const std::string& key) {
  const int64_t losses = Losses();
  const auto known = [&] {
    base::MutexLock lock(mu_);
    return by_id_.contains(episode_id) || ended_keys_.contains(episode_id);
  };
  INGOT_ASSIGN_OR_RETURN(const std::string elsewhere, Place({.api_key = {}, .episode = episode_id}));
  if (!elsewhere.empty()) return EpisodeElsewhere(episode_id, elsewhere);
  if (!known()) RecallEnd(episode_id);
  base::MutexLock lock(mu_);
  const auto found = by_id_.find(episode_id);
  const auto ended = ended_keys_.find(episode_id);
  if (found == by_id_.end() && ended == ended_keys_.end()) {
    if (losses != losses_) return EpisodeElsewhere(episode_id);  // perhaps lost since it was placed
    return ApiError(404, "episode_not_found", "", "there is no such episode");
  }
  if (key.empty()) {
    return ApiError(401, "invalid_api_key", "", "the key of the episode's owner is needed: Authorization: Bearer KEY");
  }
  const KeyHashes hashes(key);
  const std::string& own = found != by_id_.end() ? found->second->key_hash() : ended->second;
  if (!IsAdmin(key) && hashes.as_owner != own) {
    return ApiError(403, "invalid_api_key", "",
                    hashes.as_caller == own
                        ? "this key of the episode calls models only: rewarding and ending it needs its owner's"
                        : "the API key is not this episode's");
  }
  if (found == by_id_.end()) return EpisodeOver(episode_id);
  return found->second;
}

absl::StatusOr<std::shared_ptr<Episode>> Gateway::FindForCall(const Caller& caller) {
  if (IsAdmin(caller.api_key)) {
    return ApiError(403, "invalid_api_key", "", "the admin key calls no model: send an episode's key");
  }
  const int64_t losses = Losses();
  INGOT_ASSIGN_OR_RETURN(const std::string elsewhere, Place(caller));
  if (!elsewhere.empty()) return EpisodeElsewhere(caller.episode, elsewhere);
  const KeyHashes hashes(caller.api_key);
  const bool serving = core_.parts.admission == nullptr;
  {
    base::MutexLock lock(mu_);
    if (!caller.episode.empty()) {
      const auto found = by_id_.find(caller.episode);
      const auto ended = ended_keys_.find(caller.episode);
      if (found == by_id_.end() && ended == ended_keys_.end()) {
        if (losses != losses_) return EpisodeElsewhere(caller.episode);
        return ApiError(404, "episode_not_found", "", "the URL names no open episode");
      }
      if (caller.api_key.empty()) {
        return ApiError(401, "invalid_api_key", "",
                        "no API key was sent: send the episode's key (Authorization: Bearer KEY), or call /s/KEY/v1");
      }
      const std::string& own = found != by_id_.end() ? found->second->key_hash() : ended->second;
      if (hashes.as_owner != own && hashes.as_caller != own) {
        return ApiError(403, "invalid_api_key", "",
                        "the API key is not for the URL's episode: send that episode's key");
      }
      if (found == by_id_.end()) return EpisodeOver(caller.episode);
      return found->second;
    }
    for (const std::string& hash : {hashes.as_caller, hashes.as_owner}) {
      const auto found = by_key_.find(hash);
      if (found != by_key_.end()) return found->second;
      const auto ended = ended_by_key_.find(hash);
      if (ended != ended_by_key_.end()) return EpisodeOver(ended->second.episode_id);
    }
    if (losses != losses_) return EpisodeElsewhere("of this key");
  }
  if (serving || (core_.options.auto_episodes && !caller.api_key.empty())) {
    return nullptr;
  }
  if (caller.api_key.empty()) {
    return ApiError(401, "invalid_api_key", "", "no API key was sent: send an episode's key, or call /s/KEY/v1");
  }
  return ApiError(401, "invalid_api_key", "",
                  "no open episode has this API key: open one with POST /ingot/v1/episodes");
}

std::shared_ptr<Answer> Gateway::StartAnswer(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                             std::function<void()> wake) {
  auto answer = std::make_shared<Answer>(core_, dialect, std::move(raw));
  answer->SetHooks(
      {.find = [this, caller] { return FindForCall(caller); },
       .open = [this, key = caller.api_key] { return OpenOnce(v1::EpisodeOpenRequest(), key, true); },
       .reserve =
           [this](int calls) {
             base::MutexLock lock(mu_);
             return Reserve(calls);
           },
       .confirm = [this](const std::shared_ptr<Episode>& episode,
                         absl::Status why) { return Confirmed(episode, std::move(why)); },
       .on_done = [this, caller](const std::shared_ptr<Answer>& done, int extra) { OnDone(caller, done, extra); },
       .wake = std::move(wake)});
  absl::Status rejected;
  {
    base::MutexLock lock(mu_);
    rejected = Reserve(1);
    if (rejected.ok()) answers_.insert(answer);
  }
  if (rejected.ok() && !core_.workers.TryPost([this, caller, answer] { Prepare(caller, answer); }).ok()) {
    rejected =
        ApiError(503, "overloaded", "", "too many requests wait for a worker (max_queued_work): try again later");
  }
  if (!rejected.ok()) answer->Reject(std::move(rejected));
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

void Gateway::NoteAnswer(const Caller& caller, const absl::Status& status) {
  const KeyHashes hashes(caller.api_key);
  std::shared_ptr<Episode> episode;
  {
    base::MutexLock lock(mu_);
    if (!caller.episode.empty()) {
      const auto found = by_id_.find(caller.episode);
      if (found != by_id_.end()) episode = found->second;
      // Requests of others who know the id say nothing about its agent.
      const std::string own = episode != nullptr ? episode->key_hash() : "";
      const bool is_own = own == hashes.as_owner || own == hashes.as_caller;
      if (caller.api_key.empty() ? HttpStatusOf(status) == 401 : !is_own && !IsAdmin(caller.api_key)) return;
    } else if (!caller.api_key.empty()) {
      auto found = by_key_.find(hashes.as_caller);
      if (found == by_key_.end()) found = by_key_.find(hashes.as_owner);
      if (found != by_key_.end()) episode = found->second;
    }
  }
  if (episode == nullptr) return;
  episode->NoteAnswer(status);
  if (episode->taken()) (void)GiveUp(episode);
}

void Gateway::OnDone(const Caller& caller, const std::shared_ptr<Answer>& answer, int extra) {
  NoteAnswer(caller, answer->outcome());
  if (const auto entered = answer->entered()) Leave(entered);
  base::MutexLock lock(mu_);
  if (answers_.erase(answer) == 0) return;  // the answer was rejected: nothing is reserved for it
  active_calls_ -= 1 + extra;
  core_.counters.active_calls = active_calls_;
  changed_.SignalAll();
}

}  // namespace ingot::gateway
