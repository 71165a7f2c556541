// The table of the episodes that this gateway serves: open episodes by id and key, places for new ones, and what is
// remembered of ended ones. It decides nothing about the pool; its users store first and then change the table.
//
//   ReservePlace -> Add --------.            .-> Remove       it has ended: remembered
//                                +-> [open] -+
//   EnterPlacing -> Replace ----'            '-> UnlessTaken  another gateway took it: forgotten
//
//   1. An open episode is in the table by its id and by its key.
//   2. Open episodes and reserved places, without the sessions that are being closed for a new episode, are at most
//      max_open_episodes. Episodes that Replace adds may exceed it.
//   3. At most one thread opens the episode of a key (BeginOpening).
//   4. At most one thread places or takes an episode (EnterPlacing), so that no token has two Episodes in this process.
//   5. At most one worker runs the end of an episode that TakeDueEnds returned.
//
// Thread safe. Lock: mu_ guards all state. Under it the table reads its episodes, which take Episode::mu_ (gateway.h has
// the lock order). No method waits for the pool, other gateways or the scheduler. BeginOpening and the two EnterPlacing
// wait for another thread of this gateway, which may be waiting for those: their callers hold no lock.
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

// The end of an episode whose client made no call. `why`: its detail, which late requests are told.
Episode::AskedEnd NeverCalledEnd(const Episode& episode, std::string why);

class OpenEpisodes {
 public:
  // `options` outlives it.
  explicit OpenEpisodes(const GatewayOptions& options) : options_(options), ends_(kMaxRememberedEnds) {}

  // ---- Look-ups. "Here" = in this table.

  struct Known {
    std::shared_ptr<Episode> open;  // null = no open episode is here; another gateway may have taken it since
    std::string ended;              // the id of the ended episode; empty = none is remembered
    std::string told;               // EndedEpisode::told of the ended episode
    std::string key_hash;           // of the open or ended episode
    int64_t losses = 0;             // losses() at the same moment

    bool none() const { return open == nullptr && ended.empty(); }
  };
  Known Look(const std::string& episode_id) const;
  // By the owner's key or the call key. `key_hash` is not set.
  Known Look(const KeyHashes& hashes) const;
  // The open episode of the key; null = not here.
  std::shared_ptr<Episode> FindByKey(const KeyHashes& hashes) const;
  // The open episode; null = not here. Forgets an episode that another gateway took.
  std::shared_ptr<Episode> Find(const std::string& episode_id);
  std::shared_ptr<Episode> FindByHash(const std::string& key_hash);
  // Whether no such episode is open here or remembered as ended. Forgets episodes that other gateways took.
  bool IsUnknown(const std::string& episode_id);
  bool IsUnknown(const KeyHashes& hashes);
  // The end of an episode; nullopt = not remembered, or its key is free.
  std::optional<EndedEpisode> EndOf(const std::string& episode_id) const;
  // Number of episodes that other gateways have taken from this gateway. An episode lost between its placing and its
  // use is not an unknown episode.
  int64_t losses() const;
  size_t size() const;                                     // open episodes
  std::vector<std::shared_ptr<Episode>> Sessions() const;  // the open ones
  // Open episodes with Episode::uncalled_since, which is next to them, the oldest first.
  struct Uncalled {
    std::shared_ptr<Episode> episode;
    std::chrono::nanoseconds since{0};
  };
  std::vector<Uncalled> UncalledEpisodes() const;

  // ---- Openings.

  // The open episode that the key with this hash opened before; null = none, and EndOpening must follow. Waits while
  // another thread opens it. ALREADY_EXISTS: that episode is over.
  absl::StatusOr<std::shared_ptr<Episode>> BeginOpening(const std::string& key_hash);
  void EndOpening(const std::string& key_hash);
  // Reserves a place for a new episode: Add or ReleasePlace must follow. At the limit it returns the session that was
  // idle longest, whose place it gives to the caller: end it and call TakePlaceOf. Concurrent callers get different
  // sessions. RESOURCE_EXHAUSTED: there is no idle session. 503: Close was called.
  absl::StatusOr<std::shared_ptr<Episode>> ReservePlace();
  // After ReservePlace, once the session was to end with status `ended`. After an error no place is reserved.
  absl::Status TakePlaceOf(const std::string& session_id, const absl::Status& ended);
  void ReleasePlace();
  // Uses the reserved place for this episode. Returns the episode that is served: a repeated opening may have found the
  // record in the pool meanwhile, and taken it under a later token.
  std::shared_ptr<Episode> Add(std::shared_ptr<Episode> episode);

  // ---- Ends.

  // The episode has ended. `free_key`: RememberedEnds::Remember.
  void Remove(const Episode& episode, EndedEpisode ended, bool free_key);
  // Remembers an end that an earlier gateway stored, or that was forgotten here.
  void RememberEnd(const std::string& key_hash, EndedEpisode ended, bool free_key);
  // This end was requested while the pool could not say whether the episode has a reward: TakeDueEnds returns it again.
  // Does nothing if another gateway took the episode.
  void NoteUnreadEnd(const Episode& episode, const Episode::AskedEnd& asked);
  struct DueEnd {
    std::shared_ptr<Episode> episode;
    Episode::AskedEnd asked;
    int tries = 0;  // that failed
  };
  // Ends of episodes that passed a deadline or were idle too long at `now`, before their first call or after it, and ends
  // that failed before. ReleaseDueEnd must follow for each, when it was tried. None after Close. Sessions of
  // conversations hold max_tokens_per_session together: beyond, those that were idle longest end.
  std::vector<DueEnd> TakeDueEnds(std::chrono::nanoseconds now);
  void ReleaseDueEnd(const std::string& episode_id);
  // Forgets an episode that another gateway took. Returns whether this gateway has taken it back already.
  bool ForgetTaken(const std::shared_ptr<Episode>& episode);
  // From now on no place is reserved and no end is due.
  void Close();

  // ---- Placing: which gateway serves an episode is being decided, or this gateway is taking it.

  // Waits until no other thread is placing the episode; LeavePlacing must follow.
  void EnterPlacing(const std::string& episode_id);
  // As EnterPlacing. False, without a LeavePlacing: the episode is open here or remembered as ended.
  bool EnterPlacingIfUnknown(const std::string& episode_id);
  void LeavePlacing(const std::string& episode_id);
  // Serves an episode that this gateway took. Returns the one that it replaces; null = none: this gateway may have had
  // it before another gateway took it for a while. REQUIRES: with several gateways, the caller is placing the episode.
  std::shared_ptr<Episode> Replace(const std::shared_ptr<Episode>& episode);

  // ---- Runners that open episodes.

  // Incarnations::See and NewestOf.
  Incarnations::Start SeeIncarnation(const std::string& runner, const std::string& incarnation);
  std::optional<std::string> NewestIncarnation(const std::string& runner) const;
  struct Abandoned {
    std::string newest;  // incarnation seen
    std::vector<std::shared_ptr<Episode>> episodes;
  };
  // The runner's open episodes of all incarnations but the newest, seen at the same moment. `incarnation`: the newest of
  // a runner that is not remembered.
  Abandoned AbandonedBy(const std::string& runner, const std::string& incarnation) const;

 private:
  std::shared_ptr<Episode> FindOpen(const std::string& episode_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Episode> FindOpenByHash(const std::string& key_hash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Null = another gateway took it: then it is forgotten.
  std::shared_ptr<Episode> UnlessTaken(const std::shared_ptr<Episode>& episode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Insert(const std::shared_ptr<Episode>& episode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Episode> OldestIdleSession() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int PlacesTaken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The end of an episode that was idle too long; nullopt = it was not.
  std::optional<Episode::AskedEnd> IdleEndOf(const Episode& episode, std::chrono::nanoseconds now) const;
  // Adds the ends of idle sessions that are beyond the tokens of all sessions.
  void TakeSurplusSessions(std::vector<DueEnd>& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The end that is due for an episode; nullopt = none.
  std::optional<DueEnd> DueEndOf(const std::shared_ptr<Episode>& episode, std::chrono::nanoseconds now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GatewayOptions& options_;

  mutable base::Mutex mu_;
  base::CondVar changed_;  // opening_keys_ or placing_ lost a member
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_id_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_key_ ABSL_GUARDED_BY(mu_);  // by v1::Episode::key_hash
  RememberedEnds ends_ ABSL_GUARDED_BY(mu_);
  Incarnations incarnations_ ABSL_GUARDED_BY(mu_);
  int opening_ ABSL_GUARDED_BY(mu_) = 0;                     // reserved places
  std::set<std::string> making_room_ ABSL_GUARDED_BY(mu_);   // ids of sessions that ReservePlace returned
  std::set<std::string> opening_keys_ ABSL_GUARDED_BY(mu_);  // hashes of keys whose episode is being opened
  std::set<std::string> placing_ ABSL_GUARDED_BY(mu_);       // ids of episodes that are being placed or taken
  std::set<std::string> ending_ ABSL_GUARDED_BY(mu_);        // ids of episodes that TakeDueEnds returned
  std::map<std::string, Episode::AskedEnd> unread_ends_ ABSL_GUARDED_BY(mu_);  // NoteUnreadEnd
  int64_t losses_ ABSL_GUARDED_BY(mu_) = 0;                                    // losses()
};

}  // namespace ingot::gateway
