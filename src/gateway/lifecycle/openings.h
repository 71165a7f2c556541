// Opens episodes. An episode is admitted and stored before the caller gets a response.
//
//   place reserved -> admitted by the scheduler -> trunk joined -> stored in the pool -> in the table of open episodes
//                     (sessions are not)           (forks only)
//
// After an error, the place and the admission are returned. Thread safe. mu_ guards only oldest_group_. Both public
// methods block on admission, the pool, and other gateways without holding a lock. The caller must not hold a lock,
// either. OpenEpisodes::BeginOpening prevents two threads from opening an episode for the same key.
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/lifecycle/abandoned_episodes.h"
#include "gateway/lifecycle/episode_ends.h"
#include "gateway/placement/fencing.h"
#include "gateway/placement/placement.h"
#include "gateway/user_feedback.h"
#include "proto/gateway.pb.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class Openings {
 public:
  // All arguments must outlive this object.
  Openings(Core& core, OpenEpisodes& open, Placement& placement, Fencing& fencing, EpisodeEnds& ends)
      : core_(core),
        open_(open),
        placement_(placement),
        fencing_(fencing),
        ends_(ends),
        abandoned_(core, open, placement, ends) {}

  // See Gateway::OpenEpisode. Does not set base_url.
  absl::StatusOr<v1::EpisodeOpenResponse> OpenEpisode(const v1::EpisodeOpenRequest& request);
  // Returns the key's session, and opens it if there is none. Concurrent callers get the same episode. `user` is
  // UserFeedback::UserOf; empty = none.
  absl::StatusOr<std::shared_ptr<Episode>> OpenSession(const std::string& key, const std::string& user) {
    v1::EpisodeOpenRequest request;
    request.set_metadata_json(MetadataOfUser(user));
    return OpenOnce(request, key, true);
  }

 private:
  // Returns the episode that `owner_key` owns, and opens it if there is none.
  absl::StatusOr<std::shared_ptr<Episode>> OpenOnce(const v1::EpisodeOpenRequest& request, const std::string& owner_key,
                                                    bool session);
  // Requests admission, unless the episode is a session, and stores the episode.
  absl::StatusOr<std::shared_ptr<Episode>> Open(const v1::EpisodeOpenRequest& request, const std::string& key_hash,
                                                bool session);
  // Calls OpenEpisodes::ReservePlace and ends the session that it returns, if any.
  absl::Status ReservePlace();
  // Copies the scheduler's ticket into `record`.
  absl::Status Admit(const v1::EpisodeOpenRequest& request, v1::Episode& record);
  // Returns an admitted place to the scheduler.
  void GiveBack(const v1::Episode& record, const std::string& why);
  // Returns FailedAttemptsBefore, which seeds are derived from. On error, returns the place to admission.
  absl::StatusOr<int32_t> FailedAttempts(const v1::Episode& record);
  // Called when a restarted scheduler issued an attempt that already has an episode in the pool. If that episode has
  // ended, reports its end to the scheduler. Otherwise, its end is reported later.
  void ReportHolder(const v1::Episode& rejected);
  // Stores the episode in the pool. On error, returns the place to admission.
  absl::Status Store(const v1::Episode& record, bool admitted);

  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
  Fencing& fencing_;
  EpisodeEnds& ends_;
  AbandonedEpisodes abandoned_;

  base::Mutex mu_;
  int64_t oldest_group_ ABSL_GUARDED_BY(mu_) = 0;  // Ticket.oldest_group of the newest ticket
};

}  // namespace ingot::gateway
