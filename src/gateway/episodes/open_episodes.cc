#include "gateway/episodes/open_episodes.h"

#include <algorithm>
#include <utility>

#include "gateway/core.h"

namespace ingot::gateway {

Episode::RequestedEnd NeverCalledEnd(const Episode& episode, std::string why) {
  // The episode counts as lost, as if its runner were gone. The sample is retried, and the attempt does not count as
  // failed.
  const bool served = episode.record().purpose() == v1::PURPOSE_SERVE;
  return {.state = served ? v1::EPISODE_FINISHED : v1::EPISODE_FENCED,
          .detail = std::move(why),
          .finish_if_judged = !served,
          .only_uncalled = true,
          .cause = kNeverCalled};
}

OpenEpisodes::Known OpenEpisodes::Lookup(const std::string& episode_id) const {
  base::MutexLock lock(mu_);
  const auto found = by_id_.find(episode_id);
  if (found != by_id_.end()) return {found->second, "", "", found->second->record().key_hash(), losses_};
  const std::string* const key_hash = ends_.KeyHashOf(episode_id);
  if (key_hash == nullptr) return {nullptr, "", "", "", losses_};
  const EndedEpisode* const ended = ends_.OfKey(*key_hash);
  const bool of_it = ended != nullptr && ended->episode_id == episode_id;
  return {nullptr, episode_id, of_it ? ended->visible_detail : "", *key_hash, losses_};
}

OpenEpisodes::Known OpenEpisodes::Lookup(const KeyHashes& hashes) const {
  base::MutexLock lock(mu_);
  for (const std::string& hash : {hashes.as_caller, hashes.as_owner}) {
    const auto found = by_key_.find(hash);
    if (found != by_key_.end()) return {found->second, "", "", hash, losses_};
    const EndedEpisode* const ended = ends_.OfKey(hash);
    if (ended != nullptr) return {nullptr, ended->episode_id, ended->visible_detail, hash, losses_};
  }
  return {nullptr, "", "", "", losses_};
}

std::shared_ptr<Episode> OpenEpisodes::FindByKey(const KeyHashes& hashes) const {
  base::MutexLock lock(mu_);
  auto found = by_key_.find(hashes.as_caller);
  if (found == by_key_.end()) found = by_key_.find(hashes.as_owner);
  return found == by_key_.end() ? nullptr : found->second;
}

std::shared_ptr<Episode> OpenEpisodes::Find(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  return FindOpen(episode_id);
}

std::shared_ptr<Episode> OpenEpisodes::FindByHash(const std::string& key_hash) {
  base::MutexLock lock(mu_);
  return FindOpenByHash(key_hash);
}

bool OpenEpisodes::IsUnknown(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  return FindOpen(episode_id) == nullptr && ends_.KeyHashOf(episode_id) == nullptr;
}

bool OpenEpisodes::IsUnknown(const KeyHashes& hashes) {
  base::MutexLock lock(mu_);
  return FindOpenByHash(hashes.as_caller) == nullptr && FindOpenByHash(hashes.as_owner) == nullptr &&
         ends_.OfKey(hashes.as_caller) == nullptr && ends_.OfKey(hashes.as_owner) == nullptr;
}

std::optional<EndedEpisode> OpenEpisodes::EndOf(const std::string& episode_id) const {
  base::MutexLock lock(mu_);
  const std::string* const key_hash = ends_.KeyHashOf(episode_id);
  const EndedEpisode* const ended = key_hash == nullptr ? nullptr : ends_.OfKey(*key_hash);
  return ended == nullptr ? std::nullopt : std::optional(*ended);
}

int64_t OpenEpisodes::losses() const {
  base::MutexLock lock(mu_);
  return losses_;
}

size_t OpenEpisodes::size() const {
  base::MutexLock lock(mu_);
  return by_id_.size();
}

std::vector<OpenEpisodes::Uncalled> OpenEpisodes::UncalledEpisodes() const {
  std::vector<Uncalled> uncalled;
  {
    base::MutexLock lock(mu_);
    for (const auto& [id, episode] : by_id_) {
      const auto since = episode->uncalled_since();
      if (since.has_value() && !episode->taken()) uncalled.push_back({episode, *since});
    }
  }
  std::ranges::sort(uncalled, {}, [](const Uncalled& one) { return std::pair(one.since, one.episode->id()); });
  return uncalled;
}

std::vector<std::shared_ptr<Episode>> OpenEpisodes::Sessions() const {
  base::MutexLock lock(mu_);
  std::vector<std::shared_ptr<Episode>> sessions;
  for (const auto& [id, episode] : by_id_) {
    if (episode->session()) sessions.push_back(episode);
  }
  return sessions;
}

std::shared_ptr<Episode> OpenEpisodes::FindOpen(const std::string& episode_id) {
  const auto found = by_id_.find(episode_id);
  return found == by_id_.end() ? nullptr : UnlessTaken(std::shared_ptr<Episode>(found->second));
}

std::shared_ptr<Episode> OpenEpisodes::FindOpenByHash(const std::string& key_hash) {
  const auto found = by_key_.find(key_hash);
  return found == by_key_.end() ? nullptr : UnlessTaken(std::shared_ptr<Episode>(found->second));
}

std::shared_ptr<Episode> OpenEpisodes::UnlessTaken(const std::shared_ptr<Episode>& episode) {
  if (!episode->taken()) return episode;
  ++losses_;
  unread_ends_.erase(episode->id());
  const auto by_id = by_id_.find(episode->id());
  if (by_id != by_id_.end() && by_id->second == episode) by_id_.erase(by_id);
  const auto by_key = by_key_.find(episode->record().key_hash());
  if (by_key != by_key_.end() && by_key->second == episode) by_key_.erase(by_key);
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Episode>> OpenEpisodes::BeginOpening(const std::string& key_hash) {
  base::MutexLock lock(mu_);
  while (opening_keys_.contains(key_hash)) changed_.Wait(mu_);
  if (auto opened_before = FindOpenByHash(key_hash)) return opened_before;
  const EndedEpisode* const ended = ends_.OfKey(key_hash);
  if (ended != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat(
        "this opened episode ", ended->episode_id, ", which is over",
        ended->visible_detail.empty() ? "" : absl::StrCat(" (", ended->visible_detail, ")"), ": open another"));
  }
  opening_keys_.insert(key_hash);
  return nullptr;
}

void OpenEpisodes::EndOpening(const std::string& key_hash) {
  base::MutexLock lock(mu_);
  opening_keys_.erase(key_hash);
  changed_.SignalAll();
}

std::shared_ptr<Episode> OpenEpisodes::OldestIdleSession() const {
  std::shared_ptr<Episode> oldest;
  std::chrono::nanoseconds since(0);  // activity time of `oldest`
  for (const auto& [id, episode] : by_id_) {
    if (!episode->session() || episode->admitted() || making_room_.contains(id)) continue;
    const auto idle_since = episode->idle_since();
    if (!idle_since.has_value() || (oldest != nullptr && *idle_since >= since)) continue;
    oldest = episode;
    since = *idle_since;
  }
  return oldest;
}

int OpenEpisodes::PlacesTaken() const {
  int taken = static_cast<int>(by_id_.size()) + opening_;
  for (const std::string& id : making_room_) taken -= by_id_.contains(id) ? 1 : 0;
  return taken;
}

absl::StatusOr<std::shared_ptr<Episode>> OpenEpisodes::ReservePlace() {
  base::MutexLock lock(mu_);
  if (closed_) return ShuttingDown();
  std::shared_ptr<Episode> oldest;
  if (PlacesTaken() >= options_.max_open_episodes) {
    oldest = OldestIdleSession();
    if (oldest == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("the gateway holds ", options_.max_open_episodes,
                                                       " open episodes, its limit (max_open_episodes): try again "
                                                       "later"));
    }
    making_room_.insert(oldest->id());
  }
  ++opening_;
  return oldest;
}

absl::Status OpenEpisodes::TakePlaceOf(const std::string& session_id, const absl::Status& ended) {
  base::MutexLock lock(mu_);
  making_room_.erase(session_id);
  const bool gone = !by_id_.contains(session_id);  // also if another caller ended it at the same time
  if (gone && !closed_) return absl::OkStatus();
  --opening_;
  if (closed_) return ShuttingDown();
  // The original error code is not used because callers would interpret FAILED_PRECONDITION as the end of the run.
  return absl::UnavailableError(absl::StrCat("an idle session could not be closed for a new one: ", ended.message()));
}

void OpenEpisodes::ReleasePlace() {
  base::MutexLock lock(mu_);
  --opening_;
}

std::shared_ptr<Episode> OpenEpisodes::Add(std::shared_ptr<Episode> episode) {
  base::MutexLock lock(mu_);
  --opening_;
  const auto taken = by_id_.find(episode->id());
  if (taken != by_id_.end() && taken->second->record().gateway_token() > episode->record().gateway_token())
    return taken->second;
  Insert(episode);
  return episode;
}

std::shared_ptr<Episode> OpenEpisodes::Replace(const std::shared_ptr<Episode>& episode) {
  base::MutexLock lock(mu_);
  std::shared_ptr<Episode> earlier;
  if (const auto found = by_id_.find(episode->id()); found != by_id_.end()) earlier = found->second;
  Insert(episode);
  return earlier;
}

void OpenEpisodes::Insert(const std::shared_ptr<Episode>& episode) {
  by_id_[episode->id()] = episode;
  by_key_[episode->record().key_hash()] = episode;
}

void OpenEpisodes::Remove(const Episode& episode, EndedEpisode ended, bool free_key) {
  base::MutexLock lock(mu_);
  unread_ends_.erase(episode.id());
  by_id_.erase(episode.id());
  by_key_.erase(episode.record().key_hash());
  ends_.Remember(episode.record().key_hash(), std::move(ended), free_key);
}

void OpenEpisodes::RememberEnd(const std::string& key_hash, EndedEpisode ended, bool free_key) {
  base::MutexLock lock(mu_);
  ends_.Remember(key_hash, std::move(ended), free_key);
}

void OpenEpisodes::NoteUnreadEnd(const Episode& episode, const Episode::RequestedEnd& asked) {
  base::MutexLock lock(mu_);
  if (!episode.taken()) unread_ends_.insert_or_assign(episode.id(), asked);
}

std::optional<OpenEpisodes::DueEnd> OpenEpisodes::DueEndOf(const std::shared_ptr<Episode>& episode,
                                                           std::chrono::nanoseconds now) const {
  if (ending_.contains(episode->id()) || episode->taken()) return std::nullopt;
  if (auto unfinished = episode->unfinished_end()) return DueEnd{episode, unfinished->asked, unfinished->tries};
  if (const auto unread = unread_ends_.find(episode->id()); unread != unread_ends_.end()) {
    return DueEnd{episode, unread->second};
  }
  if (const std::optional<double> deadline_s = episode->PassedDeadline(now); deadline_s.has_value()) {
    const bool served = episode->record().purpose() == v1::PURPOSE_SERVE;
    return DueEnd{episode,
                  {.state = served ? v1::EPISODE_FINISHED : v1::EPISODE_FAILED,
                   .detail = absl::StrCat("its deadline of ", *deadline_s, " s has passed")}};
  }
  auto idle = IdleEndOf(*episode, now);
  if (!idle.has_value()) return std::nullopt;
  return DueEnd{episode, *std::move(idle)};
}

std::optional<Episode::RequestedEnd> OpenEpisodes::IdleEndOf(const Episode& episode,
                                                             std::chrono::nanoseconds now) const {
  const auto idle_since = episode.idle_since();
  const auto passed = [&](double limit) {
    return limit > 0 && idle_since.has_value() && now - *idle_since > base::FromSeconds(limit);
  };
  const double limit = episode.session() ? kSessionIdleS : options_.episode_idle_s;
  const bool served = episode.record().purpose() == v1::PURPOSE_SERVE;
  if (passed(limit)) {
    return Episode::RequestedEnd{.state = served ? v1::EPISODE_FINISHED : v1::EPISODE_FAILED,
                                 .detail = absl::StrCat("no call for longer than ", limit, " s"),
                                 .finish_if_judged = !served};
  }
  const double first = options_.episode_first_call_s;
  if (!passed(first) || !episode.uncalled_since().has_value()) return std::nullopt;
  return NeverCalledEnd(episode, absl::StrCat("its client made no call within ", first,
                                              " s of the opening (gateway.episode_first_call_s)"));
}

std::vector<OpenEpisodes::DueEnd> OpenEpisodes::TakeDueEnds(std::chrono::nanoseconds now) {
  std::vector<DueEnd> due;
  base::MutexLock lock(mu_);
  if (closed_) return due;
  for (const auto& [id, episode] : by_id_) {
    auto end = DueEndOf(episode, now);
    if (!end.has_value()) continue;
    due.push_back(*std::move(end));
    ending_.insert(id);
  }
  if (options_.session_per_conversation) TakeSurplusSessions(due);
  return due;
}

void OpenEpisodes::TakeSurplusSessions(std::vector<DueEnd>& due) {
  int64_t surplus = -options_.max_tokens_per_session;
  std::vector<std::pair<std::chrono::nanoseconds, std::shared_ptr<Episode>>> idle;
  for (const auto& [id, episode] : by_id_) {
    if (!episode->session()) continue;
    surplus += episode->history_tokens();
    const auto since = episode->idle_since();
    if (since.has_value() && !ending_.contains(id) && !making_room_.contains(id)) idle.emplace_back(*since, episode);
  }
  if (surplus <= 0) return;
  std::sort(idle.begin(), idle.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [since, episode] : idle) {
    if (surplus <= 0) return;
    surplus -= episode->history_tokens();
    due.push_back(
        {episode, {.state = v1::EPISODE_FINISHED, .detail = "closed to make room in max_tokens_per_session"}});
    ending_.insert(episode->id());
  }
}

void OpenEpisodes::ReleaseDueEnd(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  ending_.erase(episode_id);
}

bool OpenEpisodes::ForgetTaken(const std::shared_ptr<Episode>& episode) {
  base::MutexLock lock(mu_);
  (void)UnlessTaken(episode);
  return by_id_.contains(episode->id());
}

void OpenEpisodes::Close() {
  base::MutexLock lock(mu_);
  closed_ = true;
}

void OpenEpisodes::EnterPlacing(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  while (placing_.contains(episode_id)) changed_.Wait(mu_);
  placing_.insert(episode_id);
}

bool OpenEpisodes::EnterPlacingIfUnknown(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  while (placing_.contains(episode_id)) changed_.Wait(mu_);
  if (FindOpen(episode_id) != nullptr || ends_.KeyHashOf(episode_id) != nullptr) return false;
  placing_.insert(episode_id);
  return true;
}

void OpenEpisodes::LeavePlacing(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  placing_.erase(episode_id);
  changed_.SignalAll();
}

Incarnations::Start OpenEpisodes::SeeIncarnation(const std::string& runner, const std::string& incarnation) {
  base::MutexLock lock(mu_);
  return incarnations_.See(runner, incarnation);
}

std::optional<std::string> OpenEpisodes::NewestIncarnation(const std::string& runner) const {
  base::MutexLock lock(mu_);
  return incarnations_.NewestOf(runner);
}

OpenEpisodes::Abandoned OpenEpisodes::AbandonedBy(const std::string& runner, const std::string& incarnation) const {
  base::MutexLock lock(mu_);
  Abandoned abandoned{.newest = incarnations_.NewestOf(runner).value_or(incarnation), .episodes = {}};
  for (const auto& [id, episode] : by_id_) {
    const v1::Episode& record = episode->record();
    if (record.runner() == runner && record.incarnation() != abandoned.newest) abandoned.episodes.push_back(episode);
  }
  return abandoned;
}

}  // namespace ingot::gateway
