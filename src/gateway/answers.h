// The answers in flight, and their limit.
//
//   Start -> [reserved] -> worker: find the episode -> its gate -> Answer::Prepare ... -> OnDone
//
//   1. The active calls are the sum of what all answers here reserved: one each, and more for further choices.
//   2. After Close, no answer is added, and AwaitAll waits for all that were.
//
// Thread safe. Lock: mu_ guards the set, the number of active calls and `closed_`. Only AwaitAll blocks, for recorded
// calls. The work of Start runs on the gateway's workers and blocks there, for the pool and for other gateways, without
// a lock.
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
  // All outlive it.
  Answers(Core& core, OpenEpisodes& open, EpisodeAccess& access, Fencing& fencing, Openings& openings,
          Snapshots& snapshots)
      : core_(core), open_(open), access_(access), fencing_(fencing), openings_(openings), snapshots_(snapshots) {}

  // Gateway::StartAnswer and NoteAnswer.
  std::shared_ptr<Answer> Start(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                std::function<void()> wake);
  void NoteAnswer(const Caller& caller, const absl::Status& status);
  // Aborts the answers that take longer than call_deadline_s.
  void AbortLate();
  // From now on Start rejects. Returns the answers in flight.
  std::vector<std::shared_ptr<Answer>> Close();
  // Waits for the records of all answers, at most end_wait_s.
  void AwaitAll();
  bool closed() const;
  int active_calls() const;

 private:
  absl::Status Reserve(int calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Prepares the answer, once the gate of its episode lets it pass.
  void Prepare(const Caller& caller, const std::shared_ptr<Answer>& answer);
  // An answer that had passed the gate is over.
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
  int active_calls_ ABSL_GUARDED_BY(mu_) = 0;  // of all answers; an answer that is not parsed yet counts as one
};

}  // namespace ingot::gateway
