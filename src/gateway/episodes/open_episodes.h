// The table of episodes that this gateway serves: open episodes by id and key, places for new ones, and remembered
// ended episodes. It does not access the pool. Callers store a change in the pool before they update the table.
//
//   ReservePlace -> Add --------.            .-> Remove       it has ended: remembered
//                                +-> [open] -+
//   EnterPlacing -> Replace ----'            '-> UnlessTaken  another gateway took it: forgotten
//
// 1. An open episode is in the table under its id and under its key.
// 2. At most max_open_episodes places are taken by open episodes and reservations. Sessions that are being closed to
//    make room do not count. Replace may exceed the limit.
// 3. At most one thread opens a key's episode (BeginOpening).
// 4. At most one thread places or takes over an episode (EnterPlacing), so a token never has two Episodes in this
//    process.
// 5. At most one worker ends an episode that TakeDueEnds returned.
//
// Thread safe. mu_ guards all state. The table reads its episodes while holding mu_, which locks Episode::mu_
// (gateway.h documents the lock order). Methods never wait for the pool, other gateways, or the scheduler. BeginOpening
// and the two EnterPlacing methods wait for another thread in this gateway, which may in turn be waiting for these
// services. Call them without holding a lock.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "gateway/episodes/episode.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/episodes/incarnations.h"
#include "gateway/episodes/remembered_ends.h"
#include "gateway/options.h"

namespace ingot::gateway {

// Returns the end request for an episode whose client made no call. `why` becomes its detail, which late requests
// receive.
Episode::RequestedEnd NeverCalledEnd(const Episode& episode, std::string why);

class OpenEpisodes {
 public:
  // `options` must outlive this object.
  explicit OpenEpisodes(const GatewayOptions& options) : options_(options), ends_(kMaxRememberedEnds) {}

  // ---- Lookups. "Here" = in this table.

  struct Known {
    std::shared_ptr<Episode> open;  // null = not open here; another gateway may have taken it over since
    std::string ended;              // the id of the ended episode; empty = none is remembered
    std::string visible_detail;     // EndedEpisode::visible_detail of the ended episode
    std::string key_hash;           // the open or ended episode's key hash
    int64_t losses = 0;             // losses() at the same time

    bool none() const { return open == nullptr && ended.empty(); }
  };
  Known Lookup(const std::string& episode_id) const;
  // Looks up an episode by the owner's key or the call key. Does not set `key_hash`.
  Known Lookup(const KeyHashes& hashes) const;
  // Returns the key's open episode, or null if it is not here.
  std::shared_ptr<Episode> FindByKey(const KeyHashes& hashes) const;
  // Return the open episode, or null if it is not here. Forget the episode if another gateway took it over.
  std::shared_ptr<Episode> Find(const std::string& episode_id);
  std::shared_ptr<Episode> FindByHash(const std::string& key_hash);
  // Return true if the episode is neither open here nor remembered as ended. Forget episodes that other gateways took
  // over.
  bool IsUnknown(const std::string& episode_id);
  bool IsUnknown(const KeyHashes& hashes);
  // Returns how an episode ended, or nullopt if it is not remembered or if its key is free.
  std::optional<EndedEpisode> EndOf(const std::string& episode_id) const;
  // Returns the number of episodes that other gateways have taken over from this one. Callers use it to distinguish an
  // unknown episode from one that was lost between placing and use.
  int64_t losses() const;
  size_t size() const;                                     // open episodes
  std::vector<std::shared_ptr<Episode>> Sessions() const;  // the open sessions
  // An open episode for which Episode::uncalled_since returns a time, with that time. Lists are sorted, oldest first.
  struct Uncalled {
    std::shared_ptr<Episode> episode;
    std::chrono::nanoseconds since{0};
  };
  std::vector<Uncalled> UncalledEpisodes() const;

  // ---- Openings.

  // Returns the open episode with this key hash, or null if there is none. If null, EndOpening must follow. Waits while
  // another thread opens the episode. Returns ALREADY_EXISTS if that episode is over.
  absl::StatusOr<std::shared_ptr<Episode>> BeginOpening(const std::string& key_hash);
  void EndOpening(const std::string& key_hash);
  // Reserves a place for a new episode. Add or ReleasePlace must follow. At the limit, reserves the place of the
  // session that has been idle longest and returns that session. The caller must end it and call TakePlaceOf.
  // Concurrent callers get different sessions. Returns RESOURCE_EXHAUSTED if no session is idle, or 503 after Close.
  absl::StatusOr<std::shared_ptr<Episode>> ReservePlace();
  // Called after ReservePlace returned a session. `ended` is the result of ending it. On error, the reservation is
  // dropped.
  absl::Status TakePlaceOf(const std::string& session_id, const absl::Status& ended);
  void ReleasePlace();
  // Uses the reserved place for this episode. Returns the episode that is actually served, because a repeated request
  // may have found the record in the pool and taken it over under a later token.
  std::shared_ptr<Episode> Add(std::shared_ptr<Episode> episode);

  // ---- Ends.

  // Called when the episode has ended. `free_key` is passed to RememberedEnds::Remember.
  void Remove(const Episode& episode, EndedEpisode ended, bool free_key);
  // Remembers an ended episode that an earlier gateway stored, or that this gateway has forgotten.
  void RememberEnd(const std::string& key_hash, EndedEpisode ended, bool free_key);
  // Called when a client requested an episode's end while the pool could not report whether it has a reward.
  // TakeDueEnds will return the request later. Does nothing if another gateway took over the episode.
  void NoteUnreadEnd(const Episode& episode, const Episode::RequestedEnd& asked);
  struct DueEnd {
    std::shared_ptr<Episode> episode;
    Episode::RequestedEnd asked;
    int tries = 0;  // failed attempts
  };
  // Returns end requests for episodes that at `now` have passed a deadline or have been idle too long, before or after
  // their first call, and earlier requests that failed. Call ReleaseDueEnd for each request after trying it. Returns
  // none after Close. If conversations have their own sessions, these share max_tokens_per_session, and when they
  // exceed it, those that have been idle longest end.
  std::vector<DueEnd> TakeDueEnds(std::chrono::nanoseconds now);
  void ReleaseDueEnd(const std::string& episode_id);
  // Forgets an episode that another gateway took over. Returns true if this gateway has already taken it back.
  bool ForgetTaken(const std::shared_ptr<Episode>& episode);
  // After this call, no more places are reserved, and no more episodes become due to end.
  void Close();

  // ---- Placing: choosing the gateway that serves an episode, or taking the episode over.

  // Waits until no other thread is placing the episode. LeavePlacing must follow.
  void EnterPlacing(const std::string& episode_id);
  // Like EnterPlacing, but returns false if the episode is open or remembered here. In that case, LeavePlacing must not
  // follow.
  bool EnterPlacingIfUnknown(const std::string& episode_id);
  void LeavePlacing(const std::string& episode_id);
  // Serves an episode that this gateway took over. Returns the Episode object that it replaces, or null. There is such
  // an object if another gateway temporarily served the episode. REQUIRES: with several gateways, the caller is placing
  // the episode.
  std::shared_ptr<Episode> Replace(const std::shared_ptr<Episode>& episode);

  // ---- Runners that open episodes.

  // See Incarnations::See and Incarnations::NewestOf.
  Incarnations::Start SeeIncarnation(const std::string& runner, const std::string& incarnation);
  std::optional<std::string> NewestIncarnation(const std::string& runner) const;
  struct Abandoned {
    std::string newest;  // newest incarnation seen
    std::vector<std::shared_ptr<Episode>> episodes;
  };
  // Returns the runner's open episodes from all incarnations except the newest, as one consistent snapshot. If the
  // runner is not remembered, `incarnation` is the newest.
  Abandoned AbandonedBy(const std::string& runner, const std::string& incarnation) const;

 private:
  std::shared_ptr<Episode> FindOpen(const std::string& episode_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Episode> FindOpenByHash(const std::string& key_hash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the episode and returns null if another gateway took it over.
  std::shared_ptr<Episode> UnlessTaken(const std::shared_ptr<Episode>& episode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Insert(const std::shared_ptr<Episode>& episode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Episode> OldestIdleSession() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int PlacesTaken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the end request for an episode that was idle too long, and nullopt otherwise.
  std::optional<Episode::RequestedEnd> IdleEndOf(const Episode& episode, std::chrono::nanoseconds now) const;
  // Adds end requests for idle sessions while all sessions together exceed their token limit.
  void TakeSurplusSessions(std::vector<DueEnd>& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the end request that is due for an episode; nullopt = none.
  std::optional<DueEnd> DueEndOf(const std::shared_ptr<Episode>& episode, std::chrono::nanoseconds now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GatewayOptions& options_;

  mutable base::Mutex mu_;
  base::CondVar changed_;  // signaled when opening_keys_ or placing_ loses a member
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_id_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_key_ ABSL_GUARDED_BY(mu_);  // by v1::Episode::key_hash
  RememberedEnds ends_ ABSL_GUARDED_BY(mu_);
  Incarnations incarnations_ ABSL_GUARDED_BY(mu_);
  int opening_ ABSL_GUARDED_BY(mu_) = 0;                     // reserved places
  std::set<std::string> making_room_ ABSL_GUARDED_BY(mu_);   // ids of sessions that ReservePlace returned
  std::set<std::string> opening_keys_ ABSL_GUARDED_BY(mu_);  // hashes of keys whose episodes are being opened
  std::set<std::string> placing_ ABSL_GUARDED_BY(mu_);       // ids of episodes that are being placed or taken over
  std::set<std::string> ending_ ABSL_GUARDED_BY(mu_);        // ids of episodes that TakeDueEnds returned
  std::map<std::string, Episode::RequestedEnd> unread_ends_ ABSL_GUARDED_BY(mu_);  // NoteUnreadEnd
  int64_t losses_ ABSL_GUARDED_BY(mu_) = 0;                                        // losses()
};

}  // namespace ingot::gateway
