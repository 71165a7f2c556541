// Tracks the answers that users who opted in have received, with their feedback. The pool holds both: a conversation is
// a serving episode, an answer is one of its calls, and feedback is that call's reward.
//
//   recorded --feedback--> rated --Take--> in a round       feedback may change until the answer is in a round
//
// With a judge, the user's next message is stored as a fact of the conversation, next:CALL, and the verdict replaces it.
// A user's own feedback always replaces the judge's.
//
// Thread safe. mu_ guards the tables and is never held while the pool stores.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/learning/users.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "gateway/user_feedback.h"

namespace ingot::app {

// An answer with feedback.
struct RatedAnswer {
  std::string call_id;
  std::string episode_id;
  double reward = 0;
  bool judged = false;  // true = the judge read the reward from the user's next message (feedback_judge.h)
};

// What the judge read from a user's next message.
struct JudgedFeedback {
  std::string call_id;
  std::optional<double> reward;  // nullopt = the verdict gives none
  std::string verdict;           // "satisfied", "dissatisfied", "unclear", or "failed"
  std::string reasoning;         // stored truncated
};

class RatedAnswers final : public gateway::UserFeedback {
 public:
  // Reads all conversations in the pool. `rounds` has the round of each answer that is in one, by call. Beyond
  // `max_answers`, the oldest answers without feedback are forgotten. REQUIRES: `pool` and `clock` outlive this object.
  static absl::StatusOr<std::unique_ptr<RatedAnswers>> Load(datapool::Client& pool, Users users,
                                                            const std::map<std::string, int64_t>& rounds,
                                                            int64_t max_answers,
                                                            const base::Clock& clock = base::Clock::Real());

  std::string UserOf(const std::string& api_key) const override { return users_.NameOf(api_key); }

  // Stores the reward in the pool before it returns OK. Until a round begins with the answer, another reward replaces
  // it. Errors: 403 if the key has not opted in, 404 if its user has no such answer, 400 if the answer cannot be trained
  // on, 409 if a round uses it with a different reward or if another request for it is being stored.
  absl::Status Give(const std::string& api_key, const gateway::GivenFeedback& given) override;

  // Returns whether the answer can still get feedback from a judge: a user who opted in got it, it can be trained on, it
  // has no feedback, and no next message is kept for it.
  bool AwaitsNextMessage(const std::string& call_id) const;
  // Durably stores what follows an answer, until the verdict replaces it. Returns false if AwaitsNextMessage is false.
  // Returns the pool's errors, such as INVALID_ARGUMENT for a conversation with too many facts.
  absl::StatusOr<bool> KeepNextMessage(const gateway::NextMessage& next);
  // Durably stores the verdict and its reward. Returns false, and stores nothing, if the user's own feedback came first.
  absl::StatusOr<bool> GiveJudged(const JudgedFeedback& judged);
  // Returns the kept messages that Load found without a verdict. The second call returns none.
  std::vector<gateway::NextMessage> TakeUnjudged();

  // Called when the pool has stored a user's conversation, and a call in it.
  void OnConversation(const std::string& episode_id, const std::string& user);
  void OnCall(const v1::Call& call);
  bool Records(const std::string& episode_id) const;

  // Returns the number of rated answers that are in no round, and the time since the oldest feedback on one of them
  // arrived.
  struct Waiting {
    int64_t answers = 0;
    std::chrono::nanoseconds oldest{0};
  };
  Waiting waiting() const;
  // Moves the `count` answers with the oldest feedback into `round`. Skips answers whose feedback is being replaced. If
  // there are fewer than `count`, moves and returns none.
  std::vector<RatedAnswer> Take(int64_t count, int64_t round);

 private:
  struct Answer {
    std::string episode_id;
    std::optional<double> reward;
    int64_t round = -1;       // -1 = in no round
    bool storing = false;     // the pool is storing feedback
    bool kept = false;        // KeepNextMessage was called
    bool judged = false;      // `reward` is the judge's
    std::string untrainable;  // why the answer cannot be trained on; empty = it can
  };
  struct Rated {
    std::string call_id;
    std::chrono::nanoseconds since{0};
  };

  RatedAnswers(datapool::Client& pool, Users users, int64_t max_answers, const base::Clock& clock)
      : pool_(pool), users_(std::move(users)), max_answers_(max_answers), clock_(clock) {}
  absl::Status LoadConversation(const v1::Episode& listed, const std::map<std::string, int64_t>& rounds);
  // Reads what KeepNextMessage or GiveJudged stored for an answer.
  void LoadNextMessage(const v1::Episode& conversation, const std::string& call_id, Answer& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Awaits(const std::string& call_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the answer if this user may give it this feedback, or null if nothing of it is new.
  absl::StatusOr<Answer*> FindToRate(const std::string& user, const gateway::GivenFeedback& given)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddRated(const std::string& call_id, Answer& answer, double reward) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  datapool::Client& pool_;
  const Users users_;
  const int64_t max_answers_;
  const base::Clock& clock_;

  mutable base::Mutex mu_;
  std::map<std::string, std::string> conversations_ ABSL_GUARDED_BY(mu_);  // user by episode
  std::map<std::string, Answer> answers_ ABSL_GUARDED_BY(mu_);             // by call
  std::deque<std::string> arrivals_ ABSL_GUARDED_BY(mu_);                  // calls, oldest first
  std::deque<Rated> rated_ ABSL_GUARDED_BY(mu_);                           // in no round, oldest feedback first
  std::vector<gateway::NextMessage> unjudged_ ABSL_GUARDED_BY(mu_);        // found by Load
};

}  // namespace ingot::app
