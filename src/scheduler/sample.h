// Tracks one sample in a group, and its attempts.
//
//             handed out             FINISHED
//   kWaiting ----------> kRunning ----------> kDone
//      ^  ^                 |----------------> kForked    a trunk (train_groups.h)
//      |  kBlocked          |
//      +--------------------+ FAILED: attempt + 1, or kGivenUp once max_attempts have failed
//      +--------------------+ INFRASTRUCTURE_FAILED: the same, with its own limit
//      +--------------------' lost, or fenced because the run went back: attempt + 1
//
// A leaf is kBlocked until its trunk ends. A trunk that finishes without a fork replaces one leaf (kStoodFor).
//
// A newer attempt fences older ones: a late report that an older attempt ended has no effect.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "scheduler/options.h"
#include "tree/episode_return.h"

namespace ingot::scheduler {

// The number of failed attempts after which a sample is abandoned, by cause.
struct AttemptLimits {
  int32_t of_agent = 3;
  int32_t of_infrastructure = 10;
};

inline AttemptLimits LimitsOf(const SchedulerOptions& options) {
  return {.of_agent = options.max_attempts, .of_infrastructure = options.max_infrastructure_failures};
}

struct Sample {
  enum State : uint8_t { kWaiting, kRunning, kDone, kGivenUp, kForked, kBlocked, kStoodFor };
  State state = kWaiting;
  int32_t attempt = 0;          // the attempt that is waiting or running, or the last one
  int32_t failures = 0;         // attempts that the agent failed
  int32_t broken = 0;           // attempts that the infrastructure failed
  double reward = 0;            // kDone only: its return
  std::vector<int32_t> fenced;  // attempts that Fence ended, in ascending order; reports of their end are ignored

  bool terminal() const { return state == kDone || state == kGivenUp || state == kForked || state == kStoodFor; }

  // Withdraws a leaf whose trunk is retried. Its past and running attempts no longer count.
  void Withdraw() {
    if (state == kRunning || state == kDone) ++attempt;
    state = kBlocked;
  }

  // Returns a reference to the current attempt, as sample `index` of a group.
  v1::EpisodeRef Ref(int64_t group_id, int64_t index) const {
    v1::EpisodeRef ref;
    ref.set_group_id(group_id);
    ref.set_sample_index(static_cast<int32_t>(index));
    ref.set_attempt(attempt);
    return ref;
  }

  // Records that the current attempt failed. The sample then waits for its next attempt or is abandoned.
  void Fail(const AttemptLimits& limits, bool of_infrastructure = false) {
    ++(of_infrastructure ? broken : failures);
    state = failures >= limits.of_agent || broken >= limits.of_infrastructure ? kGivenUp : kWaiting;
    if (state == kWaiting) ++attempt;
  }

  // Fences a running attempt: reports of its end are ignored, and the sample waits for its next attempt. Returns false
  // if it has already ended.
  bool Fence(int32_t running) {
    if (terminal() || running < attempt) return false;
    fenced.push_back(running);
    attempt = running + 1;
    state = kWaiting;
    return true;
  }

  // Records the end of an episode of this sample. A late report about an older attempt has no effect. Returns
  // INVALID_ARGUMENT if the attempt was never handed out or the state is not an end state. A non-finite reward fails
  // the attempt, because it must not reach the trainer.
  absl::Status End(const v1::ReportEpisodeEndRequest& request, const AttemptLimits& limits) {
    const int32_t ended = request.ref().attempt();
    if (ended > attempt) {
      return absl::InvalidArgumentError(absl::StrCat("group ", request.ref().group_id(), ", sample ",
                                                     request.ref().sample_index(), ": attempt ", ended,
                                                     " was never admitted (", attempt, " is the current one)"));
    }
    if (ended < attempt || terminal()) return absl::OkStatus();
    switch (request.state()) {
      case v1::EPISODE_FINISHED:
        if (!std::isfinite(request.reward())) break;
        state = kDone;
        reward = request.reward();
        return absl::OkStatus();
      case v1::EPISODE_FORKED:
        state = kForked;
        return absl::OkStatus();
      case v1::EPISODE_FAILED:
      case v1::EPISODE_INFRASTRUCTURE_FAILED:
        break;
      case v1::EPISODE_FENCED:  // lost through no fault of the agent's, so not counted
        state = kWaiting;
        ++attempt;
        return absl::OkStatus();
      default:
        return absl::InvalidArgumentError(
            "an episode ends as FINISHED, FAILED, INFRASTRUCTURE_FAILED, FENCED, or FORKED");
    }
    Fail(limits, request.state() == v1::EPISODE_INFRASTRUCTURE_FAILED);
    return absl::OkStatus();
  }

  // Restores one attempt from the pool's record after a restart. Called in ascending order of attempts. An attempt that
  // is open in the pool is running, and its gateway will report when it ends or is lost. An attempt below a fence
  // counts only if it failed before.
  void Restore(const v1::Episode& episode, const AttemptLimits& limits) {
    const bool finished = episode.state() == v1::EPISODE_FINISHED && std::isfinite(tree::ReturnOf(episode));
    const bool of_infrastructure = episode.state() == v1::EPISODE_INFRASTRUCTURE_FAILED;
    const bool failed = !finished && (episode.state() == v1::EPISODE_FAILED ||
                                      episode.state() == v1::EPISODE_FINISHED || of_infrastructure);
    if (episode.ref().attempt() < attempt) {
      if (failed && !std::binary_search(fenced.begin(), fenced.end(), episode.ref().attempt())) {
        ++(of_infrastructure ? broken : failures);
      }
      return;
    }
    attempt = episode.ref().attempt();
    state = kWaiting;
    if (finished) {
      state = kDone;
      reward = tree::ReturnOf(episode);
    } else if (failed) {
      Fail(limits, of_infrastructure);
    } else if (episode.state() == v1::EPISODE_FORKED) {
      state = kForked;
    } else if (episode.state() == v1::EPISODE_OPEN) {
      state = kRunning;
    } else {
      ++attempt;
    }
  }
};

}  // namespace ingot::scheduler
