// Tracks the answers in flight and enforces the limit on them.
//
//   Start -> [reserved] -> worker: find the episode -> its gate -> Answer::Prepare ... -> OnDone
//
// 1. The active call count is the sum of all reservations: one per answer, plus one per additional choice.
// 2. After Close, no more answers are added. AwaitAll waits for answers added earlier.
//
// Thread safe. mu_ guards the set, the active call count, and `closed_`. Only AwaitAll blocks, until all calls are
// recorded. Start's work runs on the gateway's workers, where it may block on the pool and other gateways without
// holding a lock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/api/dialect.h"
#include "gateway/caller.h"
#include "gateway/calls/answer.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/lifecycle/episode_access.h"
#include "gateway/lifecycle/openings.h"
#include "gateway/lifecycle/snapshots.h"
#include "gateway/placement/fencing.h"

namespace ingot::gateway {

class Answers {
 public:
  // All arguments must outlive this object.
  Answers(Core& core, OpenEpisodes& open, EpisodeAccess& access, Fencing& fencing, Openings& openings,
          Snapshots& snapshots)
      : core_(core), open_(open), access_(access), fencing_(fencing), openings_(openings), snapshots_(snapshots) {}

  // See Gateway::StartAnswer and Gateway::NoteAnswer.
  std::shared_ptr<Answer> Start(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                std::function<void()> wake);
  void NoteAnswer(const Caller& caller, const absl::Status& status);
  // Aborts answers that have run for longer than call_deadline_s.
  void AbortLate();
  // Makes all later Start calls fail. Returns the answers in flight.
  std::vector<std::shared_ptr<Answer>> Close();
  // Waits up to end_wait_s until all answers are recorded.
  void AwaitAll();
  bool closed() const;
  int active_calls() const;

 private:
  absl::Status Reserve(int calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Prepares the answer once its episode's gate admits it.
  void Prepare(const Caller& caller, const std::shared_ptr<Answer>& answer);
  // Called when an answer that passed the gate is done.
  void Leave(Episode& episode);
  void OnDone(const Caller& caller, const std::shared_ptr<Answer>& answer, int extra);

  Core& core_;
  OpenEpisodes& open_;
  EpisodeAccess& access_;
  Fencing& fencing_;
  Openings& openings_;
  Snapshots& snapshots_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::set<std::shared_ptr<Answer>> answers_ ABSL_GUARDED_BY(mu_);
  int active_calls_ ABSL_GUARDED_BY(mu_) = 0;  // total over all answers; an unparsed answer counts as 1
};

}  // namespace ingot::gateway
