// One open episode: its limits, the history of its calls, the calls in flight, its rewards. Internal to the folder.
// Thread safe.
//
//   kOpen --StartEnd--> kEnding --FinishEnd(ok)--> kEnded      kEnding: new calls are rejected, calls in flight are
//                          ^  `-FinishEnd(error)-.             aborted and recorded; then the end is stored and
//                          `---------------------'             reported. After an error the end may be tried again.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
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
#include "gateway/prompt/prompt_plan.h"
#include "proto/datapool.pb.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class ChatCall;

class Episode {
 public:
  // `limits`: in force; max_calls > 0. `admitted`: the scheduler gave a ticket. `session`: the gateway opened it for a
  // key; when its history has max_calls calls or max_tokens (> 0) tokens, it begins a new history.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, bool session, const base::Clock& clock)
      : Episode(std::move(record), std::move(limits), admitted, session, clock.Now(), clock) {}

  // As above, for an episode opened at `opened`, when its record's opened_unix_ns was read.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, bool session, std::chrono::nanoseconds opened,
          const base::Clock& clock)
      : record_(std::move(record)),
        limits_(std::move(limits)),
        admitted_(admitted),
        session_(session),
        clock_(clock),
        opened_(opened),
        last_activity_(opened) {}

  // The episode's calls at an earlier gateway. Rewards are in the episode's record.
  struct EarlierCalls {
    History history;
    int32_t next_sequence = 0;
    int32_t first_sequence = 0;            // after the trunk's calls, if the episode has a trunk
    int32_t first_turn = 0;                // number of the trunk's calls
    int32_t unrecorded = 0;                // sequence numbers below next_sequence that no recorded call has
    int64_t tokens = 0;                    // of all prompts and samples, including the trunk's
    std::map<int32_t, std::string> calls;  // ids of recorded calls by sequence number
    std::set<std::string> trunk_calls;     // ids of the calls in `history` that are recorded in the trunk
  };
  // An episode that an earlier gateway opened at `opened`.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, EarlierCalls recorded,
          std::chrono::nanoseconds opened, const base::Clock& clock);

  const std::string& id() const { return record_.episode_id(); }
  const std::string& key_hash() const { return record_.key_hash(); }  // of its call key (episode_key.h)
  // The record at the opening, without later rewards and states.
  const v1::Episode& record() const { return record_; }
  // The Unix time of a moment of the clock, counted from the episode's opening: setting the wall clock while the
  // episode runs does not change the time between two of its records.
  int64_t UnixNanosAt(std::chrono::nanoseconds moment) const {
    return record_.opened_unix_ns() + (moment - opened_).count();
  }
  // Episode.gateway_token, for the pool's mutations.
  int64_t gateway_token() const { return record_.gateway_token(); }
  // Another gateway serves the episode now. Nothing more is written here, and requests waiting at the gate resume, so
  // that they are sent there.
  void MarkTaken();
  bool taken() const { return taken_; }
  bool admitted() const { return admitted_; }
  bool session() const { return session_; }

  // ---- The gate. A request passes it before it makes calls. It is shut while a snapshot is taken, and in a trunk from
  // the call at which the trunk is forked (EpisodeLimits.fork_at).

  // True: the request continues, and Leave must follow when its answer is over. False: it waits; `resume` is called
  // once, when the gate opens again or the episode ends.
  bool Pass(std::function<void()> resume);
  void Leave();
  // A place between two calls, where nothing of the episode is in flight.
  struct Place {
    std::string call_id;  // the episode's last recorded call; empty = no call
    int32_t calls = 0;    // the sequence number after that call
  };
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
  // What the pool has under the number of a call that ends without a record here.
  struct Unrecorded {
    bool used = false;  // another call, such as a call that was recorded although the response was lost
    std::optional<v1::AppendCallRequest> lost = {};  // perhaps the call: this was sent, and the response was lost
  };
  // A call that was not recorded gives its number back, unless the number is used.
  void EndCall(const std::shared_ptr<ChatCall>& call, int32_t sequence, Unrecorded left, std::chrono::nanoseconds now);
  // Counts a call's prompt and returns the number of tokens that it may sample; 400 episode_limit: none. Each of
  // several concurrent calls may sample all tokens that are left when it begins.
  absl::StatusOr<int64_t> TakeTokens(int64_t prompt);
  // After TakeTokens: counts the sampled tokens, or takes back the prompt of a call that failed without a sample.
  void CountSampled(int64_t sampled) { AddTokens(sampled); }
  void ReturnPrompt(int64_t prompt) { AddTokens(-prompt); }
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
    void operator()(Episode* episode) const { episode->EndRewardTurn(); }
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
    std::string cause = {};                                  // Episode.cause
    std::optional<v1::DefaultOutcome> unless_rewarded = {};  // EpisodeEndRequest.unless_rewarded
  };
  // Whether the episode is open, and no stored reward of it or its calls is known.
  bool lacks_reward() const;
  // Takes the pool's record of the episode under this gateway's token. It may have a reward whose response was lost.
  void NoteStored(const v1::Episode& stored);
  // Moves to kEnding with the requested end. Waits for another end or reward that is being stored, at most `timeout`.
  // 409 episode_over: it ended with another outcome. 409 no_reward: it cannot be finished without a reward.
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

  bool past_deadline(std::chrono::nanoseconds now) const;
  double deadline_s() const { return limits_.deadline_s(); }
  std::chrono::nanoseconds last_activity() const;
  bool idle() const;  // open, without a call in flight

 private:
  enum class State { kOpen, kEnding, kEnded };

  // Resumes requests that waited at the gate. Declared before the lock is taken, so that they resume after its release.
  struct ResumedRequests {
    std::vector<std::function<void()>> requests;
    ~ResumedRequests() {
      for (const auto& resume : requests) resume();
    }
  };
  bool AtFork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return limits_.fork_at() > 0 && CallsMade() >= limits_.fork_at();
  }
  // Calls that are recorded or in flight, including the trunk's.
  int32_t CallsMade() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return next_sequence_ - unrecorded_; }
  bool Rewarded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return earned_.has_reward() || !earned_.call_rewards().empty();
  }
  Place PlaceNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The requests that may resume now.
  std::vector<std::function<void()>> TakeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Waits for calls that are being recorded and may be continued by the request; false: there was none.
  bool WaitForFinishing(const text::Conversation& conversation, const ConversationKeys& keys,
                        const History::Match& match) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyFinishing(const std::set<base::Key128>& asked) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddTokens(int64_t count) {
    base::MutexLock lock(mu_);
    tokens_ += count;
  }
  void EndRewardTurn();
  // The id of the recorded call that a client names so; empty = none.
  std::string RecordedAs(const std::string& sent) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::string> FindCall(const v1::CallReward& named) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The recorded call at this place (CallReward.turn); empty = none. Calls in flight and calls that only the pool knows
  // already have places.
  std::string CallAt(int32_t turn) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the pool may have a call with this number, and other calls have higher numbers.
  bool IsUnsettled(int32_t sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return sequence < next_sequence_ && lost_.contains(sequence) && !pending_.contains(sequence);
  }
  // The pool has a call with this number: no other call gets it.
  void TakeNumber(int32_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // 400: with `posted` the episode would have too many signals or rewarded calls.
  absl::Status CheckRoom(const v1::StoreRewardRequest& posted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Serves callers in order, so that a reward that its client gave up on never follows the reward posted in its place.
  // DEADLINE_EXCEEDED: a reward or an end is still being stored after `timeout`.
  absl::Status WaitForStoring(std::chrono::nanoseconds timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

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
  bool storing_ ABSL_GUARDED_BY(mu_) = false;               // during a RewardTurn, and from StartEnd to FinishEnd
  int64_t storers_ ABSL_GUARDED_BY(mu_) = 0;                // callers so far
  std::set<int64_t> waiting_storers_ ABSL_GUARDED_BY(mu_);  // by their order
  int64_t reward_number_ ABSL_GUARDED_BY(mu_) = 0;          // StoreRewardRequest.number of the last one
  v1::StoreEndRequest end_ ABSL_GUARDED_BY(mu_);
  int end_tries_ ABSL_GUARDED_BY(mu_) = 0;       // that failed
  std::string end_detail_ ABSL_GUARDED_BY(mu_);  // as the client sent it; end_ also has the last error
  std::string rejection_ ABSL_GUARDED_BY(mu_);   // the last one: HTTP status, code, message; empty = none
  int64_t answered_since_ ABSL_GUARDED_BY(mu_) = 0;
  History history_ ABSL_GUARDED_BY(mu_);
  int epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int32_t next_sequence_ ABSL_GUARDED_BY(mu_) = 0;
  int32_t unrecorded_ ABSL_GUARDED_BY(mu_) = 0;      // numbers below it that no recorded call has, nor one in flight
  std::set<int32_t> returned_ ABSL_GUARDED_BY(mu_);  // reused once no higher number is in use
  std::set<int32_t> pending_ ABSL_GUARDED_BY(mu_);   // numbers of calls that are neither recorded nor over
  std::set<int32_t> used_ ABSL_GUARDED_BY(mu_);      // numbers of calls that only the pool knows
  // Appends whose answers were lost, by number: not recorded, as far as is known here.
  std::map<int32_t, v1::AppendCallRequest> lost_ ABSL_GUARDED_BY(mu_);
  int32_t first_turn_ ABSL_GUARDED_BY(mu_) = 0;  // the place of the first of recorded_, pending_ and used_
  int64_t tokens_ ABSL_GUARDED_BY(mu_) = 0;      // of all prompts and samples
  std::map<int32_t, std::string> recorded_ ABSL_GUARDED_BY(mu_);  // call ids by sequence number
  std::set<std::string> trunk_calls_ ABSL_GUARDED_BY(mu_);        // EarlierCalls::trunk_calls
  int32_t first_sequence_ ABSL_GUARDED_BY(mu_) = 0;               // after the trunk's calls
  int passed_ ABSL_GUARDED_BY(mu_) = 0;                           // requests that passed the gate
  int shut_ ABSL_GUARDED_BY(mu_) = 0;                             // ShutGate without OpenGate
  bool fork_taken_ ABSL_GUARDED_BY(mu_) = false;                  // TakeForkPlace gave it
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  v1::StoreRewardRequest earned_ ABSL_GUARDED_BY(mu_);  // rewards and signals stored in the pool
  // Per call in flight, the key of its prompt once it has finished sampling (FinishCall). nullopt = it may still
  // sample, or its prompt is not a conversation.
  std::map<std::shared_ptr<ChatCall>, std::optional<base::Key128>> in_flight_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_activity_ ABSL_GUARDED_BY(mu_);
};

// INVALID_ARGUMENT names the field of rewards that are out of bounds (tree/reward_bounds.h, tree/signal_bounds.h).
absl::Status CheckRewards(const v1::EpisodeRewardRequest& posted);
// The same of EpisodeEndRequest.unless_rewarded.
absl::Status CheckDefault(const v1::DefaultOutcome& outcome);

// The stored detail of an episode's end: the client's text, and the last error. WithoutRejection returns the client's
// text.
std::string WithRejection(const std::string& detail, const std::string& rejection);
std::string WithoutRejection(const std::string& detail);

// The error for requests to an episode at another gateway: 503, so that clients retry. `where`: its role; empty =
// unknown.
absl::Status EpisodeElsewhere(const std::string& episode_id, const std::string& where = {});
// The errors of requests after an episode's end (410), and of calls that its end aborts (409).
absl::Status EpisodeOver(const std::string& episode_id);
absl::Status EpisodeSealed(const std::string& episode_id);

}  // namespace ingot::gateway
