// Holds an open episode's limits, call history, calls in flight, and rewards. Internal to this directory.
//
// Thread safe. mu_ guards all state except the token budget. Ends, snapshots, and calls each read and change several
// parts atomically. The parts (CallNumbers, CallsInFlight, EpisodeGate, EarnedRewards, StoringTurns, History) are plain
// objects without locks. The gateway does not take other locks while it holds mu_. Requests that waited at the gate
// resume after mu_ is released. ShutGate, TakeRewardTurn, StartEnd, and WaitForCalls wait up to their timeout, and
// FindContinuation up to 0.5 s. Call them without holding a lock. Methods never wait for the pool.
//
//   kOpen --StartEnd--> kEnding --FinishEnd(ok)--> kEnded      kEnding: new calls are rejected. Calls in flight are
//                          ^  `-FinishEnd(error)-.             aborted and recorded. Then the result is stored and
//                          `---------------------'             reported. After an error, it may be retried.
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
  // The calls that an earlier gateway served. The episode's record holds the rewards.
  struct EarlierCalls {
    History history;
    CallNumbers::Earlier numbers;
    int64_t tokens = 0;                 // tokens in all prompts and answers, including the trunk's
    int64_t version = -1;               // version of the last sampled token; -1 = none
    std::set<std::string> trunk_calls;  // ids of the calls in `history` that are recorded in the trunk
  };
  // `limits` must have max_calls > 0. `admitted` is true if the scheduler issued a ticket. `session` is true if the
  // gateway opened the episode for an API key. A session begins a new history when its history reaches max_calls calls
  // or, if max_tokens > 0, max_tokens tokens. `earlier` is set if an earlier gateway opened the episode or if it starts
  // from a snapshot. `opened` is the clock reading taken together with the record's opened_unix_ns. `failed_attempts` is
  // FailedAttemptsBefore.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, bool session,
          std::optional<EarlierCalls> earlier, std::chrono::nanoseconds opened, const base::Clock& clock,
          int32_t failed_attempts = 0);

  const std::string& id() const { return record_.episode_id(); }
  // Returns the record as of the opening, without later rewards and states. Its gateway_token is used for pool writes.
  const v1::Episode& record() const { return record_; }
  // Returns the Unix time of a clock reading, computed from the episode's opening. So intervals between its records
  // stay correct even if the wall clock changes while the episode runs.
  int64_t UnixNanosAt(std::chrono::nanoseconds moment) const {
    return record_.opened_unix_ns() + (moment - opened_).count();
  }
  // Called when another gateway has taken over the episode. This gateway makes no further writes. Requests waiting at
  // the gate resume so that they can be forwarded.
  void MarkTaken();
  bool taken() const { return taken_; }
  bool admitted() const { return admitted_; }
  bool session() const { return session_; }
  // Returns the number of failed attempts at the sample before this one.
  int32_t failed_attempts() const { return failed_attempts_; }
  TokenBudget& tokens() { return tokens_; }
  // Returns the version that its calls prefer, with GatewayParts::pins_episodes; -1 = no call has sampled yet.
  int64_t version() const { return version_; }
  // Called when a call that preferred `asked` got `version`, because the engine no longer has `asked`, or because it is
  // the first call. An older version is that of an engine that has not loaded `asked` yet, and changes nothing: the next
  // call may find an engine that has.
  void NoteVersion(int64_t asked, int64_t version) {
    if (version > asked) version_.compare_exchange_strong(asked, version);
  }
  // Returns the number of tokens in the history of its calls. Shared tokens count once.
  int64_t history_tokens() const {
    base::MutexLock lock(mu_);
    return history_.tokens();
  }

  // ---- The gate. A request passes the gate before it makes calls. The gate is shut while a snapshot is taken. In a
  // trunk, it shuts permanently at the call where the trunk forks (EpisodeLimits.fork_at).

  // Returns true if the request may continue. Leave must then be called when its answer is done. If it returns false,
  // the request waits, and `resume` is called once when the gate opens or the episode ends.
  bool Pass(std::function<void()> resume);
  void Leave();
  // A position between two calls where nothing is in flight.
  using Place = CallNumbers::Place;
  // Shuts the gate and waits up to `timeout` for all requests that passed it. On success, OpenGate must follow. Returns
  // DEADLINE_EXCEEDED if a request is still in flight, or 410 if the episode is ending.
  absl::StatusOr<Place> ShutGate(std::chrono::nanoseconds timeout);
  void OpenGate();
  // Returns the place where the trunk should fork, only once, when a request is waiting there and nothing is in
  // flight.
  std::optional<Place> TakeForkPlace();

  // Admits a call and returns its sequence number, which follows all calls that are recorded or in flight. Returns 410
  // if the episode is ending, and 400 episode_limit if it has made max_calls calls. A session begins a new history
  // instead. Calls that end without a record count neither here nor toward the fork.
  absl::StatusOr<int32_t> BeginCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now);
  // Called when the call has finished sampling and is about to be recorded. `asked` is RequestKey::key of its request.
  void FinishCall(const std::shared_ptr<ChatCall>& call, const base::Key128& asked);
  using Unrecorded = CallNumbers::Unrecorded;
  // Ends a call that was not recorded. Frees its sequence number, unless the number is used.
  void EndCall(const std::shared_ptr<ChatCall>& call, int32_t sequence, Unrecorded left, std::chrono::nanoseconds now);
  // Called when the call's record is durable. After this, the call can be rewarded.
  void CountRecorded(const std::string& call_id, int32_t sequence);

  // CallReward.turn counts recorded calls, including those recorded by other gateways. If a response is lost, its
  // number's state is unknown until a later call gets the number. Once higher numbers are in use, the caller must
  // resend the append and call SettleAppend with the pool's response, which is OK or a permanent rejection.
  std::vector<v1::AppendCallRequest> LostAppends() const;
  void SettleAppend(const v1::Call& call, const absl::Status& answer);
  // Returns true if the reward refers to calls only by id and they are all recorded here. Such a reward does not depend
  // on unsettled calls.
  bool HoldsCalls(const v1::EpisodeRewardRequest& posted) const;
  // Returns true if a number is used by a call with an unknown id. NoteCalls reads the id from the pool's records.
  bool HasUnknownCalls() const;
  void NoteCalls(const v1::EpisodeTree& stored);

  // Finds the call that a request continues. If an assistant message is unknown but a call with the same prompt is
  // being recorded, waits up to 0.5 s for that call. Must not be called on a thread that records calls. `thread` is the
  // client's name for the conversation (ConversationKeys::thread).
  Continuation FindContinuation(const text::Conversation& sent, const EchoedIds& echoed, const std::string& thread,
                                const History::FindKeptPrefix& find_kept);
  // Makes a call available to later requests. Its parent and keys come from `continued`.
  void AddToHistory(const Continuation& continued, const std::optional<text::Message>& delivered, History::Call call);

  // See History::Delivered.
  std::optional<text::Message> Delivered(std::string_view call_id) const {
    base::MutexLock lock(mu_);
    const text::Message* delivered = history_.Delivered(call_id);
    return delivered == nullptr ? std::nullopt : std::optional(*delivered);
  }

  // Called when one of the episode's requests was answered with `status`. The episode's end records the last error and
  // the number of successful requests since. Disconnected clients and calls that were aborted by the episode's end do
  // not count as errors.
  void NoteAnswer(const absl::Status& status);

  // The exclusive right to store a reward. While the pointer exists, no other reward can be stored and the episode
  // cannot start to end. The episode must outlive it.
  struct EndTurn {
    void operator()(Episode* episode) const;
  };
  using RewardTurn = std::unique_ptr<Episode, EndTurn>;
  // Waits up to `timeout` until earlier rewards are stored and earlier attempts to end the episode are done. Callers
  // get their turns in the order of their calls. Returns 410 if the episode is ending, or DEADLINE_EXCEEDED if the
  // caller did not get its turn in time.
  absl::StatusOr<RewardTurn> TakeRewardTurn(std::chrono::nanoseconds timeout);
  // Begins a reward and returns the request for the pool. A later value for a signal or call replaces the earlier one.
  // The reward takes effect when CountReward is called, after the pool has stored it. Returns 404 if a call is not
  // recorded, or UNAVAILABLE if a call is given by number while LostAppends are unsettled. REQUIRES:
  // CheckRewards(posted) is OK, and the caller holds the turn until the pool has responded.
  absl::StatusOr<v1::StoreRewardRequest> StartReward(const v1::EpisodeRewardRequest& posted);
  void CountReward(const v1::StoreRewardRequest& started);

  // A request to end the episode.
  struct RequestedEnd {
    v1::EpisodeState state = v1::EPISODE_UNSPECIFIED;
    std::string detail = {};
    // If true and the episode's own reward was posted, the episode finishes with that reward instead, because the
    // client that should have ended it is gone.
    bool finish_if_judged = false;
    bool only_uncalled = false;                              // false = the episode may have made calls
    std::string cause = {};                                  // Episode.cause
    std::optional<v1::DefaultOutcome> unless_rewarded = {};  // EpisodeEndRequest.unless_rewarded
  };
  // Returns true if the episode is open and has no known stored reward, for itself or for its calls.
  bool lacks_reward() const;
  // Merges the pool's record of the episode, which may have a reward whose response was lost. The record must have been
  // read under this gateway's token.
  void NoteStored(const v1::Episode& stored);
  // Moves to kEnding as requested. Waits for up to `timeout` while another such request or a reward is being stored.
  // Returns 409 episode_over if it ended with another outcome, 409 no_reward if it cannot finish without a reward, or
  // 409 episode_called if only_uncalled is true but it has made a call.
  struct End {
    bool already = false;   // the episode had already ended with the same outcome, and nothing is left to do
    std::string rejection;  // the last error and the number of successful requests since; empty = none
    v1::StoreEndRequest request;
    std::vector<std::shared_ptr<ChatCall>> in_flight;
  };
  absl::StatusOr<End> StartEnd(const RequestedEnd& asked, std::chrono::nanoseconds timeout);
  // Returns DEADLINE_EXCEEDED if calls are still in flight after `timeout`.
  absl::Status WaitForCalls(std::chrono::nanoseconds timeout);
  void FinishEnd(bool ok);
  // A failed attempt to end the episode, which may be retried.
  struct UnfinishedEnd {
    RequestedEnd asked;
    int tries = 0;  // failed attempts, >= 1
  };
  std::optional<UnfinishedEnd> unfinished_end() const;

  // If the deadline has passed, returns it in seconds after the opening. Returns nullopt if it has not passed or there
  // is none.
  std::optional<double> PassedDeadline(std::chrono::nanoseconds now) const;
  // Returns the last activity time if the episode is open and has no calls in flight. Otherwise, returns nullopt.
  std::optional<std::chrono::nanoseconds> idle_since() const;
  // Returns the opening time if an external client opened the episode and it has made no call. Returns nullopt if a
  // runner or the gateway opened it, or if it has made a call or is ending.
  std::optional<std::chrono::nanoseconds> uncalled_since() const;

 private:
  enum class State { kOpen, kEnding, kEnded };

  // Resumes requests that waited at the gate. Declare it before taking the lock so that the requests resume after the
  // lock is released.
  struct ResumedRequests {
    std::vector<std::function<void()>> requests;
    ~ResumedRequests() {
      for (const auto& resume : requests) resume();
    }
  };
  // Returns the error for requests that arrive after the episode started to end.
  absl::Status Over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the requests that may resume now.
  std::vector<std::function<void()>> TakeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits for calls that are being recorded and that the request may continue. Returns false if there were none.
  bool WaitForFinishing(const text::Conversation& conversation, const ConversationKeys& keys,
                        const History::Match& match) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const v1::Episode record_;
  const v1::EpisodeLimits limits_;
  const bool admitted_;
  const bool session_;
  const int32_t failed_attempts_;
  const base::Clock& clock_;
  const std::chrono::nanoseconds opened_;
  std::atomic<bool> taken_{false};
  std::atomic<int64_t> version_{-1};

  mutable base::Mutex mu_;
  base::CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  StoringTurns turns_ ABSL_GUARDED_BY(mu_);  // held by a RewardTurn, or from StartEnd to FinishEnd
  EarnedRewards earned_ ABSL_GUARDED_BY(mu_);
  v1::StoreEndRequest end_ ABSL_GUARDED_BY(mu_);
  int end_tries_ ABSL_GUARDED_BY(mu_) = 0;       // failed attempts
  std::string end_detail_ ABSL_GUARDED_BY(mu_);  // as the client sent it; end_ also has the last error
  std::string rejection_ ABSL_GUARDED_BY(mu_);   // the last rejection: HTTP status, code, message; empty = none
  int64_t answered_since_ ABSL_GUARDED_BY(mu_) = 0;
  History history_ ABSL_GUARDED_BY(mu_);
  int epoch_ ABSL_GUARDED_BY(mu_) = 0;
  bool called_ ABSL_GUARDED_BY(mu_) = false;                // has made a call, here or at an earlier gateway
  std::set<std::string> trunk_calls_ ABSL_GUARDED_BY(mu_);  // EarlierCalls::trunk_calls
  CallNumbers numbers_ ABSL_GUARDED_BY(mu_);
  CallsInFlight in_flight_ ABSL_GUARDED_BY(mu_);
  EpisodeGate gate_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_activity_ ABSL_GUARDED_BY(mu_);

  TokenBudget tokens_;  // has its own lock
};

// WithRejection returns the detail to store when an episode ends: the client's detail and the last error.
// WithoutRejection returns only the client's detail.
std::string WithRejection(const std::string& detail, const std::string& rejection);
std::string WithoutRejection(const std::string& detail);

// Returns the error for requests to an episode that another gateway serves. It is 503 so that clients retry. `where` is
// that gateway's role; empty = unknown.
absl::Status EpisodeElsewhere(const std::string& episode_id, const std::string& where = {});
// Return the errors for requests after an episode has ended (410), and for calls aborted because it ended (409). `why`
// is EndedEpisode::visible_detail.
absl::Status EpisodeOver(const std::string& episode_id, const std::string& why = {});
absl::Status EpisodeSealed(const std::string& episode_id);

}  // namespace ingot::gateway
