// One open episode: who may use it, what was called in it, what is in flight. Internal to the folder. Thread safe.
//
//   kOpen --StartEnd--> kEnding --FinishEnd(ok)--> kEnded      kEnding: new calls are refused, those in flight are
//                          ^  `-FinishEnd(error)-. aborted and recorded; then the pool and admission are told. On an
//                          `---------------------' error it stays kEnding, and ending may be tried again.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/prompt/prompt_plan.h"
#include "proto/datapool.pb.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class ChatCall;

class Episode {
 public:
  // `limits`: those in force; max_calls > 0. `admitted`: a ticket of the scheduler stands behind it. `session`: opened
  // by the gateway itself for a key; once its history has max_calls calls or holds max_tokens (> 0) tokens, it begins
  // a new one.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, bool session, std::chrono::nanoseconds now)
      : record_(std::move(record)),
        limits_(std::move(limits)),
        admitted_(admitted),
        session_(session),
        opened_(now),
        last_activity_(now) {}

  // What another gateway had recorded of an episode, beside what its record says that it has earned.
  struct Recorded {
    History history;
    int32_t next_sequence = 0;
    int64_t tokens = 0;                    // prompts and samples so far
    std::map<int32_t, std::string> calls;  // ids by sequence
  };
  // An episode that another gateway had open since `opened`.
  Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, Recorded recorded,
          std::chrono::nanoseconds opened, std::chrono::nanoseconds now);

  const std::string& id() const { return record_.episode_id(); }
  const std::string& key_hash() const { return record_.key_hash(); }  // of its call key (gateway/episode_key.h)
  // As it was opened; what it earns and its state are not kept here.
  const v1::Episode& record() const { return record_; }
  bool admitted() const { return admitted_; }
  bool session() const { return session_; }

  // Lets a call in and gives it its sequence number. 410 once the episode is ending, 400 episode_limit when it has had
  // all its calls (a session starts a new history instead).
  absl::StatusOr<int32_t> BeginCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now);
  // A call samples no more, and will be in the history or end. `asked`: AskedKey::key of its request.
  void FinishCall(const std::shared_ptr<ChatCall>& call, const base::Key128& asked);
  void EndCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now);
  // Counts a call's prompt, and says how many tokens may be sampled for it; 400 episode_limit: none. Calls in flight at
  // the same time may each sample what is left when they begin.
  absl::StatusOr<int64_t> TakeTokens(int64_t prompt);
  // What a call that took them has sampled; a call that sampled nothing and failed gets its prompt back.
  void CountSampled(int64_t sampled) { AddTokens(sampled); }
  void ReturnPrompt(int64_t prompt) { AddTokens(-prompt); }
  // Its record is durable: from now on it may be rewarded.
  void CountRecorded(const std::string& call_id, int32_t sequence);

  // The call that a request continues. If an assistant message is unknown but a call with the same prompt is being
  // recorded, waits for that call, at most 0.5 s. Never call this on a thread that records calls.
  Continuation FindContinuation(const text::Conversation& conversation, const ConversationKeys& keys,
                                const EchoedIds& echoed, const History::FindKeptPrefix& find_kept);
  // Makes a call known to later requests; its parent is that of `continued`.
  void AddToHistory(const Continuation& continued, const ConversationKeys& keys,
                    const std::optional<text::Message>& delivered, History::Call call);

  // History::Delivered.
  std::optional<text::Message> Delivered(std::string_view call_id) const {
    base::MutexLock lock(mu_);
    const text::Message* delivered = history_.Delivered(call_id);
    return delivered == nullptr ? std::nullopt : std::optional(*delivered);
  }

  // What is posted, as the pool takes it: all of it or nothing; the last value of a name or a call wins. Waits for the
  // post before it, at most `timeout`. Once that is stored, or could not be, FinishReward must follow: only then it
  // counts, and the next post or the end goes on. 410 once the episode is ending, 400 for what is not a finite number,
  // 404 for a call that is not recorded.
  absl::StatusOr<v1::RewardEpisodeRequest> StartReward(const v1::EpisodeRewardRequest& posted,
                                                       std::chrono::nanoseconds timeout);
  void FinishReward(const v1::RewardEpisodeRequest& started, bool stored);

  // Moves to kEnding with this outcome, or waits for the end or the post that is under way. `already`: it had ended
  // with the same outcome, there is nothing to do. ALREADY_EXISTS: with another one. FAILED_PRECONDITION: finished
  // without a reward.
  struct End {
    bool already = false;
    v1::EndEpisodeRequest request;
    std::vector<std::shared_ptr<ChatCall>> in_flight;
  };
  absl::StatusOr<End> StartEnd(v1::EpisodeState state, const std::string& detail, int64_t now_unix_ns,
                               std::chrono::nanoseconds timeout);
  // DEADLINE_EXCEEDED if calls are still in flight after `timeout`.
  absl::Status WaitForCalls(std::chrono::nanoseconds timeout);
  void FinishEnd(bool ok);
  // The outcome of an end that failed on its way and waits to be tried again.
  std::optional<std::pair<v1::EpisodeState, std::string>> unfinished_end() const;

  bool past_deadline(std::chrono::nanoseconds now) const;
  double deadline_s() const { return limits_.deadline_s(); }
  std::chrono::nanoseconds last_activity() const;
  bool idle() const;  // open, without a call in flight

 private:
  enum class State { kOpen, kEnding, kEnded };

  // Whether there was a call to wait for.
  bool WaitForFinishing(const text::Conversation& conversation, const ConversationKeys& keys,
                        const History::Match& match) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyFinishing(const std::set<base::Key128>& asked) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddTokens(int64_t count) {
    base::MutexLock lock(mu_);
    tokens_ += count;
  }
  absl::StatusOr<std::string> FindCall(const v1::CallReward& named) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether `posted` may be added to what the episode has earned.
  absl::Status CheckRoom(const v1::RewardEpisodeRequest& posted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // DEADLINE_EXCEEDED if a post or an end is still being stored after `timeout`.
  absl::Status WaitForStoring(std::chrono::nanoseconds timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const v1::Episode record_;
  const v1::EpisodeLimits limits_;
  const bool admitted_;
  const bool session_;
  const std::chrono::nanoseconds opened_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  bool storing_ ABSL_GUARDED_BY(mu_) = false;  // from StartReward to FinishReward, and from StartEnd to FinishEnd
  v1::EndEpisodeRequest end_ ABSL_GUARDED_BY(mu_);
  History history_ ABSL_GUARDED_BY(mu_);
  int epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int32_t next_sequence_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t tokens_ ABSL_GUARDED_BY(mu_) = 0;                       // prompts and samples so far
  std::map<int32_t, std::string> recorded_ ABSL_GUARDED_BY(mu_);  // call ids by sequence
  v1::RewardEpisodeRequest earned_ ABSL_GUARDED_BY(mu_);          // so far, as the pool holds it
  // With what was asked of those that sample no more; nullopt: it may still sample, or is of no conversation.
  std::map<std::shared_ptr<ChatCall>, std::optional<base::Key128>> in_flight_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_activity_ ABSL_GUARDED_BY(mu_);
};

// The error of whatever comes after an episode's end, and of what was in flight when it came.
absl::Status EpisodeOver(const std::string& episode_id);
absl::Status EpisodeSealed(const std::string& episode_id);

}  // namespace ingot::gateway
