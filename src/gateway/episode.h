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
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/history.h"
#include "proto/datapool.pb.h"

namespace ingot::gateway {

class ChatCall;

class Episode {
 public:
  // `admitted`: a ticket of the scheduler stands behind it. `session`: opened by the gateway itself for a key.
  Episode(v1::Episode record, bool admitted, bool session, std::chrono::nanoseconds now)
      : record_(std::move(record)), admitted_(admitted), session_(session), last_activity_(now) {}

  // An episode that another gateway had open, from what it recorded. `history`: of its calls.
  Episode(v1::Episode record, bool admitted, History history, int32_t next_sequence, std::chrono::nanoseconds now)
      : Episode(std::move(record), admitted, false, now) {
    base::MutexLock lock(mu_);
    history_ = std::move(history);
    next_sequence_ = next_sequence;
  }

  const std::string& id() const { return record_.episode_id(); }
  const std::string& key_hash() const { return record_.key_hash(); }
  // As it was opened; reward and state are not kept here.
  const v1::Episode& record() const { return record_; }
  bool admitted() const { return admitted_; }
  bool session() const { return session_; }

  // Lets a call in and gives it its sequence number. 410 once the episode is ending, 409 when it has had `max_calls`
  // (a served session starts a new history instead).
  absl::StatusOr<int32_t> BeginCall(const std::shared_ptr<ChatCall>& call, int max_calls, std::chrono::nanoseconds now);
  void EndCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now);

  // What a request continues: its match, and a copy of what it needs of the path.
  struct Plan {
    History::Match match;
    std::string parent_call_id;
    std::vector<Piece> path;                           // of the parent, its sampled pieces included
    std::vector<int32_t> parent_turn;                  // the ids the parent sampled
    int epoch = 0;                                     // of the history `match` refers to
    std::optional<text::Conversation> with_reasoning;  // History::WithReasoning
  };
  Plan PlanPrompt(const text::Conversation& conversation, const ConversationKeys& keys,
                  const History::EchoedIds& echoed) const;
  // Makes a delivered call known to later requests.
  void AddToHistory(const Plan& plan, const ConversationKeys& keys, const text::Message& delivered,
                    const std::string& call_id, std::vector<Piece> prompt, std::vector<Piece> sampled);

  // The last value of a name wins. 410 once the episode is ending, 400 for what is not a finite number.
  absl::Status SetReward(std::optional<double> reward, const std::map<std::string, double>& signals);

  // Moves to kEnding with this outcome, or waits for the end that is under way. `already`: it had ended with the same
  // outcome, there is nothing to do. ALREADY_EXISTS: with another one. FAILED_PRECONDITION: finished without a reward.
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

  std::chrono::nanoseconds last_activity() const;
  bool idle() const;  // open, without a call in flight

 private:
  enum class State { kOpen, kEnding, kEnded };

  const v1::Episode record_;
  const bool admitted_;
  const bool session_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  bool end_running_ ABSL_GUARDED_BY(mu_) = false;
  v1::EndEpisodeRequest end_ ABSL_GUARDED_BY(mu_);
  History history_ ABSL_GUARDED_BY(mu_);
  int epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int32_t next_sequence_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<std::shared_ptr<ChatCall>> in_flight_ ABSL_GUARDED_BY(mu_);
  std::optional<double> reward_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, double> signals_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds last_activity_ ABSL_GUARDED_BY(mu_);
};

// The error of whatever comes after an episode's end.
absl::Status EpisodeOver(const std::string& episode_id);

}  // namespace ingot::gateway
