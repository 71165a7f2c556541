// Opens episodes. An episode is admitted and stored before the caller is answered.
//
//   place reserved -> admitted by the scheduler -> trunk joined -> stored in the pool -> in the table of open episodes
//                     (sessions are not)           (forks only)
//
// After an error, the place and the admission are given back. Thread safe. Lock: mu_ guards only oldest_group_. Both
// public methods block for admission, the pool and other gateways: call them without a lock; they hold none meanwhile.
// OpenEpisodes::BeginOpening keeps two threads from opening the episode of one key.
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
#include "proto/gateway.pb.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class Openings {
 public:
  // All outlive it.
  Openings(Core& core, OpenEpisodes& open, Placement& placement, Fencing& fencing, EpisodeEnds& ends)
      : core_(core),
        open_(open),
        placement_(placement),
        fencing_(fencing),
        ends_(ends),
        abandoned_(core, open, placement, ends) {}

  // Gateway::OpenEpisode, without base_url.
  absl::StatusOr<v1::EpisodeOpenResponse> OpenEpisode(const v1::EpisodeOpenRequest& request);
  // The session of a key, opened if there is none. Concurrent callers get the same episode.
  absl::StatusOr<std::shared_ptr<Episode>> OpenSession(const std::string& key) {
    return OpenOnce(v1::EpisodeOpenRequest(), key, true);
  }

 private:
  // The episode that `owner_key` owns, opened if there is none.
  absl::StatusOr<std::shared_ptr<Episode>> OpenOnce(const v1::EpisodeOpenRequest& request, const std::string& owner_key,
                                                    bool session);
  // Asks admission, unless it is a session, and stores the episode.
  absl::StatusOr<std::shared_ptr<Episode>> Open(const v1::EpisodeOpenRequest& request, const std::string& key_hash,
                                                bool session);
  // OpenEpisodes::ReservePlace; ends the session whose place it gets.
  absl::Status ReservePlace();
  // Copies the scheduler's ticket into `record`.
  absl::Status Admit(const v1::EpisodeOpenRequest& request, v1::Episode& record);
  // Gives an admitted place back.
  void GiveBack(const v1::Episode& record, const std::string& why);
  // A restarted scheduler handed out an attempt that already has an episode in the pool. If that episode is over,
  // reports its end to the scheduler; otherwise its end is reported later.
  void ReportHolder(const v1::Episode& rejected);
  // Stores the episode in the pool. On an error the place is given back to admission.
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
