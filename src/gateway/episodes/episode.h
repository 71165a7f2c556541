// One open episode: its limits, the history of its calls, the calls in flight, its rewards. Internal to the folder.
//
// Thread safe. Lock: mu_ guards all state but the token budget, because an end, a snapshot and a call read and change
// several parts at once. The parts (CallNumbers, CallsInFlight, EpisodeGate, EarnedRewards, StoringTurns, History) are
// plain objects without a lock. No other lock of the gateway is taken under mu_; requests that waited at the gate resume
// after its release. ShutGate, TakeRewardTurn, StartEnd and WaitForCalls wait, at most their timeout, and
// FindContinuation at most 0.5 s: call them without a lock. No method waits for the pool.
//
//   kOpen --StartEnd--> kEnding --FinishEnd(ok)--> kEnded      kEnding: new calls are rejected, calls in flight are
//                          ^  `-FinishEnd(error)-.             aborted and recorded; then the end is stored and
//                          `---------------------'             reported. After an error the end may be tried again.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "gateway/episodes/call_numbers.h"
#include "gateway/episodes/calls_in_flight.h"
#include "gateway/episodes/earned_rewards.h"
#include "gateway/episodes/episode_gate.h"
#include "gateway/episodes/storing_turns.h"
#include "gateway/episodes/token_budget.h"
#include "gateway/prompt/prompt_plan.h"
#include "proto/datapool.pb.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Episode {
 public:
  // The episode's calls at an earlier gateway. Rewards are in the episode's record.
  struct EarlierCalls {
    History history;
    CallNumbers::Earlier numbers;
    int64_t tokens = 0;                 // of all prompts and samples, including the trunk's
    std::set<std::string> trunk_calls;  // ids of the calls in `history` that are recorded in the trunk
  };
  // `limits`: in force; max_calls > 0. `admitted`: the scheduler gave a ticket. `session`: the gateway opened it for a
  // key; when its history has max_calls calls or max_tokens (> 0) tokens, it begins a new history. `earlier`: of an
  // episode that an earlier gateway opened, or that starts from a snapshot. `opened`: the time when its record's
  // opened_unix_ns was read.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, bool session,
          std::optional<EarlierCalls> earlier, std::chrono::nanoseconds opened, const base::Clock& clock);

  const std::string& id() const { return record_.episode_id(); }
  // The record at the opening, without later rewards and states. Its gateway_token is that of the pool's mutations.
  const v1::Episode& record() const { return record_; }
  // The Unix time of a moment of the clock, counted from the episode's opening: setting the wall clock while the
  // episode runs does not change the time between two of its records.
  int64_t UnixNanosAt(std::chrono::nanoseconds moment) const {
    return record_.opened_unix_ns() + (moment - opened_).count();
  }
  // Another gateway serves the episode now. Nothing more is written here, and requests waiting at the gate resume, so
  // that they are sent there.
  void MarkTaken();
  bool taken() const { return taken_; }
  bool admitted() const { return admitted_; }
  bool session() const { return session_; }
  TokenBudget& tokens() { return tokens_; }
  // Tokens in the history of its calls, shared ones once.
  int64_t history_tokens() const {
    base::MutexLock lock(mu_);
    return history_.tokens();
  }

  // ---- The gate. A request passes it before it makes calls. It is shut while a snapshot is taken, and in a trunk from
  // the call at which the trunk is forked (EpisodeLimits.fork_at).

  // True: the request continues, and Leave must follow when its answer is over. False: it waits; `resume` is called
  // once, when the gate opens again or the episode ends.
  bool Pass(std::function<void()> resume);
  void Leave();
  // A place between two calls, where nothing of the episode is in flight.
  using Place = CallNumbers::Place;
  // Shuts the gate and waits, at most `timeout`, until all requests that passed it are over. OpenGate must follow, but
  // not after an error. DEADLINE_EXCEEDED: a request is still in flight. 410: the episode is ending.
  absl::StatusOr<Place> ShutGate(std::chrono::nanoseconds timeout);
  void OpenGate();
  // The place at which to fork the trunk. Returned once, when a request waits there and nothing is in flight.
  std::optional<Place> TakeForkPlace();

  // Admits a call and returns its sequence number, which follows all calls that are recorded or in flight. 410: the
  // episode is ending. 400 episode_limit: it has made max_calls calls (a session begins a new history instead). Calls
  // that end without a record count neither here nor for the fork.
  absl::StatusOr<int32_t> BeginCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now);
  // The call has finished sampling, and is now being recorded. `asked`: AskedKey::key of its request.
  void FinishCall(const std::shared_ptr<ChatCall>& call, const base::Key128& asked);
  using Unrecorded = CallNumbers::Unrecorded;
  // A call that was not recorded gives its number back, unless the number is used.
  void EndCall(const std::shared_ptr<ChatCall>& call, int32_t sequence, Unrecorded left, std::chrono::nanoseconds now);
  // The call's record is durable: from now on the call may be rewarded.
  void CountRecorded(const std::string& call_id, int32_t sequence);

  // CallReward.turn counts recorded calls, even after another gateway has taken the episode. A lost response leaves a
  // number unknown until a later call gets it. Once higher numbers are in use, send its append again and call
  // SettleAppend with the pool's response: OK, or a permanent rejection.
  std::vector<v1::AppendCallRequest> LostAppends() const;
  void SettleAppend(const v1::Call& call, const absl::Status& answer);
  // Whether the reward names calls only by ids, and all of them are recorded as far as is known here: then it needs no
  // unsettled call.
  bool HoldsCalls(const v1::EpisodeRewardRequest& posted) const;
  // Whether a number is used by a call with an unknown id. NoteCalls gets the id from the pool's records.
  bool HasUnknownCalls() const;
  void NoteCalls(const v1::EpisodeTree& stored);

  // The call that a request continues. If an assistant message is unknown but a call with the same prompt is being
  // recorded, waits for that call, at most 0.5 s. Never call this on a thread that records calls. `thread`: the
  // client's name of the conversation (ConversationKeys::thread).
  Continuation FindContinuation(const text::Conversation& sent, const EchoedIds& echoed, const std::string& thread,
                                const History::FindKeptPrefix& find_kept);
  // Makes a call known to later requests; its parent and its keys come from `continued`.
  void AddToHistory(const Continuation& continued, const std::optional<text::Message>& delivered, History::Call call);

  // History::Delivered.
  std::optional<text::Message> Delivered(std::string_view call_id) const {
    base::MutexLock lock(mu_);
    const text::Message* delivered = history_.Delivered(call_id);
    return delivered == nullptr ? std::nullopt : std::optional(*delivered);
  }

  // A request of the episode was answered with `status`. The last error, and the number of successful requests since,
  // go into the episode's end. A client that went away and a call that the end aborts do not count as errors.
  void NoteAnswer(const absl::Status& status);

  // A reward's turn, which ends with this pointer: no other reward is stored meanwhile, and no end begins. The episode
  // outlives it.
  struct EndTurn {
    void operator()(Episode* episode) const;
  };
  using RewardTurn = std::unique_ptr<Episode, EndTurn>;
  // Waits for earlier rewards and ends, at most `timeout`. Rewards have their turns in the order of these calls. 410:
  // the episode is ending. DEADLINE_EXCEEDED: it is not the caller's turn yet.
  absl::StatusOr<RewardTurn> TakeRewardTurn(std::chrono::nanoseconds timeout);
  // Begins a reward and returns the pool's request for it. Later values of a signal or call replace earlier values. The
  // reward counts after CountReward, which follows once the pool has stored it. 404: a call is not recorded.
  // UNAVAILABLE: a call is named by its number, and LostAppends are not settled. REQUIRES: CheckRewards(posted), and
  // the caller has the turn until the pool has answered.
  absl::StatusOr<v1::StoreRewardRequest> StartReward(const v1::EpisodeRewardRequest& posted);
  void CountReward(const v1::StoreRewardRequest& started);

  // A requested end.
  struct AskedEnd {
    v1::EpisodeState state = v1::EPISODE_UNSPECIFIED;
    std::string detail = {};
    // True = if its own reward was posted, the episode finishes with it instead: it was judged, and the client that
    // should have ended it is gone.
    bool finish_if_judged = false;
    bool only_uncalled = false;                              // false = the episode may have made calls
    std::string cause = {};                                  // Episode.cause
    std::optional<v1::DefaultOutcome> unless_rewarded = {};  // EpisodeEndRequest.unless_rewarded
  };
  // Whether the episode is open, and no stored reward of it or its calls is known.
  bool lacks_reward() const;
  // Takes the pool's record of the episode under this gateway's token. It may have a reward whose response was lost.
  void NoteStored(const v1::Episode& stored);
  // Moves to kEnding with the requested end. Waits for another end or reward that is being stored, at most `timeout`.
  // 409 episode_over: it ended with another outcome. 409 no_reward: it cannot be finished without a reward. 409
  // episode_called: only_uncalled, and it has made a call.
  struct End {
    bool already = false;   // it ended with the same outcome before: nothing is left to do
    std::string rejection;  // the episode's last error, and the number of successful requests since; empty = none
    v1::StoreEndRequest request;
    std::vector<std::shared_ptr<ChatCall>> in_flight;
  };
  absl::StatusOr<End> StartEnd(const AskedEnd& asked, std::chrono::nanoseconds timeout);
  // DEADLINE_EXCEEDED: calls are still in flight after `timeout`.
  absl::Status WaitForCalls(std::chrono::nanoseconds timeout);
  void FinishEnd(bool ok);
  // An end that failed and may be tried again.
  struct UnfinishedEnd {
    AskedEnd asked;
    int tries = 0;  // that failed, >= 1
  };
  std::optional<UnfinishedEnd> unfinished_end() const;

  // The deadline, in seconds after the opening, if it has passed; nullopt: it has not, or there is none.
  std::optional<double> PassedDeadline(std::chrono::nanoseconds now) const;
  // The time of the last activity of an open episode without a call in flight; nullopt: it is not idle.
  std::optional<std::chrono::nanoseconds> idle_since() const;
  // The time of the opening of an open episode that an outside client opened and that has made no call; nullopt: a
  // runner or the gateway opened it, it has made a call, or it is ending.
  std::optional<std::chrono::nanoseconds> uncalled_since() const;

 private:
  enum class State { kOpen, kEnding, kEnded };

  // Resumes requests that waited at the gate. Declared before the lock is taken, so that they resume after its release.
  struct ResumedRequests {
    std::vector<std::function<void()>> requests;
    ~ResumedRequests() {
      for (const auto& resume : requests) resume();
    }
  };
  // The error of a request after the end began.
  absl::Status Over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The requests that may resume now.
  std::vector<std::function<void()>> TakeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits for calls that are being recorded and may be continued by the request; false: there was none.
  bool WaitForFinishing(const text::Conversation& conversation, const ConversationKeys& keys,
                        const History::Match& match) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const v1::Episode record_;
  const v1::EpisodeLimits limits_;
  const bool admitted_;
  const bool session_;
  const base::Clock& clock_;
  const std::chrono::nanoseconds opened_;
  std::atomic<bool> taken_{false};

  mutable base::Mutex mu_;
  base::CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  StoringTurns turns_ ABSL_GUARDED_BY(mu_);  // a RewardTurn, or from StartEnd to FinishEnd
  EarnedRewards earned_ ABSL_GUARDED_BY(mu_);
  v1::StoreEndRequest end_ ABSL_GUARDED_BY(mu_);
  int end_tries_ ABSL_GUARDED_BY(mu_) = 0;       // that failed
  std::string end_detail_ ABSL_GUARDED_BY(mu_);  // as the client sent it; end_ also has the last error
  std::string rejection_ ABSL_GUARDED_BY(mu_);   // the last one: HTTP status, code, message; empty = none
  int64_t answered_since_ ABSL_GUARDED_BY(mu_) = 0;
  History history_ ABSL_GUARDED_BY(mu_);
  int epoch_ ABSL_GUARDED_BY(mu_) = 0;
  bool called_ ABSL_GUARDED_BY(mu_) = false;                // it has made a call, here or at an earlier gateway
  std::set<std::string> trunk_calls_ ABSL_GUARDED_BY(mu_);  // EarlierCalls::trunk_calls
  CallNumbers numbers_ ABSL_GUARDED_BY(mu_);
  CallsInFlight in_flight_ ABSL_GUARDED_BY(mu_);
  EpisodeGate gate_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_activity_ ABSL_GUARDED_BY(mu_);

  TokenBudget tokens_;  // own synchronisation
};

// The stored detail of an episode's end: the client's text, and the last error. WithoutRejection returns the client's
// text.
std::string WithRejection(const std::string& detail, const std::string& rejection);
std::string WithoutRejection(const std::string& detail);

// The error for requests to an episode at another gateway: 503, so that clients retry. `where`: its role; empty =
// unknown.
absl::Status EpisodeElsewhere(const std::string& episode_id, const std::string& where = {});
// The errors of requests after an episode's end (410), and of calls that its end aborts (409). `why`: EndedEpisode::told.
absl::Status EpisodeOver(const std::string& episode_id, const std::string& why = {});
absl::Status EpisodeSealed(const std::string& episode_id);

}  // namespace ingot::gateway
