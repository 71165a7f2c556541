#include "app/learning/rated_answers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"

namespace ingot::app {
namespace {

using gateway::ApiError;
using gateway::NextMessage;

constexpr size_t kMaxKept = 1024;  // bytes of each string in the fact of a next message

// Returns the name of the fact with the message that follows the call's answer, or the verdict on it.
std::string FactOf(const std::string& call_id) { return absl::StrCat("next:", call_id); }

std::string JsonOf(const NextMessage& next) {
  const auto cut = [](const std::string& text) { return base::json::string(base::CutText(text, kMaxKept)); };
  return base::PrintJson(base::json::object{
      {"question", cut(next.question)}, {"answer", cut(next.answer)}, {"message", cut(next.message)}});
}

std::string VerdictJson(const std::string& verdict, const std::string& reasoning) {
  return base::PrintJson(base::json::object{{"verdict", base::json::string(verdict)},
                                            {"reasoning", base::json::string(base::CutText(reasoning, kMaxKept))}});
}

std::string TextIn(const base::json::value& object, const char* name) {
  const base::json::value* const found = base::Find(object, name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

// Returns why the trainer would skip or reject this call; empty = it can be used for training.
std::string WhyUntrainable(const v1::Call& call) {
  const v1::SamplingParams& sampling = call.sampling();
  if (call.weights() != v1::WEIGHTS_FOLLOW || call.encoded()) return "it is from a model that is not trained";
  if (call.sampled_keys().empty()) return "it is empty";
  if (!(sampling.temperature() > 0)) return "it was sampled at temperature 0, so its log-probs carry no information";
  if (sampling.penalty_acted() || sampling.bias_acted() || sampling.grammar_acted()) {
    return "a penalty, a bias, or a grammar changed its sampling";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<RatedAnswers>> RatedAnswers::Load(datapool::Client& pool, Users users,
                                                                 const std::map<std::string, int64_t>& rounds,
                                                                 int64_t max_answers, const base::Clock& clock) {
  auto answers = std::unique_ptr<RatedAnswers>(new RatedAnswers(pool, std::move(users), max_answers, clock));
  std::vector<v1::Episode> conversations;
  for (datapool::EpisodePages pages(pool, v1::PURPOSE_SERVE, 0, -1); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pages.Next());
    for (v1::Episode& episode : *page.mutable_episodes()) conversations.push_back(std::move(episode));
  }
  std::sort(conversations.begin(), conversations.end(), [](const v1::Episode& a, const v1::Episode& b) {
    return std::tuple(a.opened_unix_ns(), a.episode_id()) < std::tuple(b.opened_unix_ns(), b.episode_id());
  });
  for (const v1::Episode& conversation : conversations) {
    INGOT_RETURN_IF_ERROR(answers->LoadConversation(conversation, rounds));
  }
  return answers;
}

absl::Status RatedAnswers::LoadConversation(const v1::Episode& listed, const std::map<std::string, int64_t>& rounds) {
  v1::GetEpisodeRequest get;
  get.set_episode_id(listed.episode_id());
  get.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, pool_.GetEpisode(get));
  OnConversation(listed.episode_id(), gateway::UserInMetadata(listed.metadata_json()));
  for (const v1::Call& call : tree.calls()) {
    OnCall(call);
    base::MutexLock lock(mu_);
    const auto answer = answers_.find(call.call_id());
    if (answer == answers_.end()) continue;
    LoadNextMessage(tree.episode(), call.call_id(), answer->second);
    const auto reward = tree.episode().call_rewards().find(call.call_id());
    if (reward == tree.episode().call_rewards().end()) continue;
    if (const auto round = rounds.find(call.call_id()); round != rounds.end()) {
      answer->second.reward = reward->second;
      answer->second.round = round->second;
    } else {
      AddRated(call.call_id(), answer->second, reward->second);
    }
  }
  return absl::OkStatus();
}

void RatedAnswers::LoadNextMessage(const v1::Episode& conversation, const std::string& call_id, Answer& answer) {
  const auto fact = conversation.facts().find(FactOf(call_id));
  if (fact == conversation.facts().end()) return;
  answer.kept = true;
  const absl::StatusOr<base::json::value> next = base::ParseJson(fact->second);
  if (!next.ok()) return;
  const std::string verdict = TextIn(*next, "verdict");
  answer.judged = verdict == "satisfied" || verdict == "dissatisfied";
  const bool rated = conversation.call_rewards().contains(call_id);
  if (!verdict.empty() || rated || !answer.untrainable.empty()) return;
  unjudged_.push_back({.call_id = call_id,
                       .question = TextIn(*next, "question"),
                       .answer = TextIn(*next, "answer"),
                       .message = TextIn(*next, "message")});
}

absl::StatusOr<RatedAnswers::Answer*> RatedAnswers::FindToRate(const std::string& user,
                                                               const gateway::GivenFeedback& given) {
  const auto found = answers_.find(given.call_id);
  const auto conversation =
      found == answers_.end() ? conversations_.end() : conversations_.find(found->second.episode_id);
  if (conversation == conversations_.end() || conversation->second != user) {
    return ApiError(404, "unknown_answer", "id",
                    absl::StrCat("user ", user, " has no recorded answer ", given.call_id,
                                 ": send the id of a response to this key, after the response has ended"));
  }
  Answer& answer = found->second;
  if (!answer.untrainable.empty()) {
    return ApiError(400, "not_trainable", "id",
                    absl::StrCat("answer ", given.call_id, " cannot be trained on: ", answer.untrainable));
  }
  if (answer.storing) {
    return ApiError(409, "feedback_in_progress", "id",
                    absl::StrCat("other feedback on answer ", given.call_id, " is being stored: send this again"));
  }
  const bool replaces_judge = answer.judged && answer.round < 0;
  if (answer.reward == given.reward) return given.comment.empty() && !replaces_judge ? nullptr : &answer;
  if (answer.round >= 0) {
    return ApiError(409, "feedback_trained", "id",
                    absl::StrCat("answer ", given.call_id, " is in round ", answer.round, " with a reward of ",
                                 answer.reward.value_or(0), ", which can no longer change"));
  }
  return &answer;
}

absl::Status RatedAnswers::Give(const std::string& api_key, const gateway::GivenFeedback& given) {
  const std::string user = UserOf(api_key);
  if (user.empty()) {
    return ApiError(403, "not_opted_in", "",
                    "this key has not opted in to training, so its answers are not recorded: send the key of a user in "
                    "learn.users_file");
  }
  v1::StoreRewardRequest store;
  {
    base::MutexLock lock(mu_);
    INGOT_ASSIGN_OR_RETURN(Answer* const answer, FindToRate(user, given));
    if (answer == nullptr) return absl::OkStatus();  // stored before
    answer->storing = true;
    store.set_episode_id(answer->episode_id);
    const bool replaces_judge = answer->judged && answer->round < 0;
    if (replaces_judge) (*store.mutable_facts())[FactOf(given.call_id)] = VerdictJson("superseded", "");
  }
  (*store.mutable_call_rewards())[given.call_id] = given.reward;
  if (!given.comment.empty()) {
    (*store.mutable_facts())["comment:" + given.call_id] = base::PrintJson(base::json::string(given.comment));
  }
  const absl::Status stored = pool_.StoreReward(store);
  base::MutexLock lock(mu_);
  Answer& answer = answers_.at(given.call_id);  // not forgotten while it is being stored
  answer.storing = false;
  INGOT_RETURN_IF_ERROR(base::Annotate(stored, "the feedback could not be stored"));
  AddRated(given.call_id, answer, given.reward);
  if (answer.round < 0) answer.judged = false;
  return absl::OkStatus();
}

bool RatedAnswers::Awaits(const std::string& call_id) const {
  const auto answer = answers_.find(call_id);
  if (answer == answers_.end()) return false;
  const Answer& one = answer->second;
  return one.untrainable.empty() && !one.reward.has_value() && !one.storing && !one.kept;
}

bool RatedAnswers::AwaitsNextMessage(const std::string& call_id) const {
  base::MutexLock lock(mu_);
  return Awaits(call_id);
}

absl::StatusOr<bool> RatedAnswers::KeepNextMessage(const NextMessage& next) {
  v1::StoreRewardRequest store;
  {
    base::MutexLock lock(mu_);
    if (!Awaits(next.call_id)) return false;
    Answer& answer = answers_.at(next.call_id);
    answer.kept = true;
    store.set_episode_id(answer.episode_id);
  }
  (*store.mutable_facts())[FactOf(next.call_id)] = JsonOf(next);
  INGOT_RETURN_IF_ERROR(base::Annotate(pool_.StoreReward(store), "the user's next message could not be stored"));
  return true;
}

absl::StatusOr<bool> RatedAnswers::GiveJudged(const JudgedFeedback& judged) {
  v1::StoreRewardRequest store;
  {
    base::MutexLock lock(mu_);
    const auto answer = answers_.find(judged.call_id);
    const bool late = answer == answers_.end() || answer->second.reward.has_value() || answer->second.storing;
    if (late) return false;
    answer->second.storing = true;
    store.set_episode_id(answer->second.episode_id);
  }
  if (judged.reward.has_value()) (*store.mutable_call_rewards())[judged.call_id] = *judged.reward;
  (*store.mutable_facts())[FactOf(judged.call_id)] = VerdictJson(judged.verdict, judged.reasoning);
  const absl::Status stored = pool_.StoreReward(store);
  base::MutexLock lock(mu_);
  Answer& answer = answers_.at(judged.call_id);  // not forgotten while it is being stored
  answer.storing = false;
  INGOT_RETURN_IF_ERROR(base::Annotate(stored, "the judge's verdict could not be stored"));
  if (!judged.reward.has_value()) return true;
  AddRated(judged.call_id, answer, *judged.reward);
  answer.judged = true;
  return true;
}

std::vector<NextMessage> RatedAnswers::TakeUnjudged() {
  base::MutexLock lock(mu_);
  return std::exchange(unjudged_, {});
}

void RatedAnswers::AddRated(const std::string& call_id, Answer& answer, double reward) {
  if (!answer.reward.has_value()) rated_.push_back({call_id, clock_.Now()});
  answer.reward = reward;
}

void RatedAnswers::OnConversation(const std::string& episode_id, const std::string& user) {
  base::MutexLock lock(mu_);
  conversations_[episode_id] = user;
}

void RatedAnswers::OnCall(const v1::Call& call) {
  base::MutexLock lock(mu_);
  if (!conversations_.contains(call.episode_id())) return;
  const auto [answer, added] = answers_.try_emplace(call.call_id());
  answer->second.episode_id = call.episode_id();
  answer->second.untrainable = WhyUntrainable(call);
  if (!added) return;  // the next slice of a paused call
  arrivals_.push_back(call.call_id());
  if (std::ssize(answers_) > max_answers_) ForgetOldest();
}

void RatedAnswers::ForgetOldest() {
  for (size_t i = arrivals_.size(); i > 0; --i) {
    const auto oldest = answers_.find(arrivals_.front());
    arrivals_.pop_front();
    const bool waits = oldest->second.reward.has_value() && oldest->second.round < 0;
    if (waits || oldest->second.storing) {
      arrivals_.push_back(oldest->first);
      continue;
    }
    answers_.erase(oldest);
    return;
  }
}

bool RatedAnswers::Records(const std::string& episode_id) const {
  base::MutexLock lock(mu_);
  return conversations_.contains(episode_id);
}

RatedAnswers::Waiting RatedAnswers::waiting() const {
  base::MutexLock lock(mu_);
  if (rated_.empty()) return {};
  return {.answers = std::ssize(rated_), .oldest = clock_.Now() - rated_.front().since};
}

std::vector<RatedAnswer> RatedAnswers::Take(int64_t count, int64_t round) {
  base::MutexLock lock(mu_);
  std::vector<RatedAnswer> taken;
  std::deque<Rated> left;
  for (const Rated& rated : rated_) {
    const Answer& answer = answers_.at(rated.call_id);
    if (std::ssize(taken) == count || answer.storing) {
      left.push_back(rated);
    } else {
      taken.push_back({rated.call_id, answer.episode_id, *answer.reward, answer.judged});
    }
  }
  if (std::ssize(taken) < count) return {};
  for (const RatedAnswer& answer : taken) answers_.at(answer.call_id).round = round;
  rated_ = std::move(left);
  return taken;
}

}  // namespace ingot::app
