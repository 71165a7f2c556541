#include "gateway/episode.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "gateway/api/api_error.h"
#include "gateway/api/conversation_builder.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::gateway {
namespace {

// The longest wait for the record of a call that a request may continue: a few writes of the pool.
constexpr std::chrono::milliseconds kMaxFinishingWait(500);
constexpr char kLimit[] = "episode_limit";  // sent with 400: clients repeat a 409 or 429

constexpr char kRefusedMark[] = "; the gateway's last refusal: ";
constexpr size_t kMaxRefusal = 600;  // bytes

absl::Status CheckName(const char* of, const std::string& name) {
  if (tree::IsSignalName(name)) return absl::OkStatus();
  return BadRequest(of, absl::StrCat("a name of '", of, "' must have 1 to ", tree::kMaxSignalName,
                                     " bytes without control characters or marks of direction: '",
                                     base::Printable(name, {.max_bytes = 80}), "'"));
}

absl::Status CheckFacts(const v1::EpisodeRewardRequest& posted) {
  for (const auto& [name, json] : posted.facts()) {
    INGOT_RETURN_IF_ERROR(CheckName("facts", name));
    const auto parsed = base::ParseJson(json);
    if (!parsed.ok()) {
      return BadRequest("facts", absl::StrCat("fact '", name, "' is no JSON: ", parsed.status().message()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const v1::EpisodeRewardRequest& posted) {
  if (const std::string fault = tree::RewardFault(posted.reward()); !fault.empty()) {
    return BadRequest("reward", "'reward' " + fault);
  }
  for (const auto& [name, number] : posted.signals()) {
    INGOT_RETURN_IF_ERROR(CheckName("signals", name));
    if (const std::string fault = tree::SignalFault(number); !fault.empty()) {
      return BadRequest("signals", absl::StrCat("signal '", name, "' ", fault));
    }
  }
  for (const v1::CallReward& named : posted.call_rewards()) {
    if (const std::string fault = tree::RewardFault(named.reward()); !fault.empty()) {
      return BadRequest("reward", "the reward of a call " + fault);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EpisodeElsewhere(const std::string& episode_id, const std::string& where) {
  return ApiError(503, "episode_elsewhere", "",
                  absl::StrCat("episode ", episode_id, " is served by ", where.empty() ? "another gateway" : where,
                               ": send the request again"));
}

absl::Status EpisodeOver(const std::string& episode_id) {
  return ApiError(410, "episode_over", "", absl::StrCat("episode ", episode_id, " has ended: open a new one"));
}

absl::Status EpisodeSealed(const std::string& episode_id) {
  return ApiError(409, "episode_sealed", "",
                  absl::StrCat("episode ", episode_id, " was ended while this call was in flight"));
}

std::string WithRefusal(const std::string& detail, const std::string& refusal) {
  return refusal.empty() ? detail : absl::StrCat(detail, kRefusedMark, refusal);
}

std::string WithoutRefusal(const std::string& detail) { return detail.substr(0, detail.find(kRefusedMark)); }

Episode::Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, EarlierCalls recorded,
                 std::chrono::nanoseconds opened, const base::Clock& clock)
    : Episode(std::move(record), std::move(limits), admitted, false, opened, clock) {
  base::MutexLock lock(mu_);
  history_ = std::move(recorded.history);
  next_sequence_ = recorded.next_sequence;
  tokens_ = recorded.tokens;
  recorded_ = std::move(recorded.calls);
  trunk_calls_ = std::move(recorded.trunk_calls);
  first_sequence_ = recorded.first_sequence;
  if (record_.has_reward()) earned_.set_reward(record_.reward());
  *earned_.mutable_signals() = record_.signals();
  *earned_.mutable_facts() = record_.facts();
  *earned_.mutable_call_rewards() = record_.call_rewards();
  last_activity_ = clock.Now();
}

absl::StatusOr<int32_t> Episode::BeginCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now) {
  base::MutexLock lock(mu_);
  if (state_ != State::kOpen) return EpisodeOver(id());
  const int max_calls = limits_.max_calls();
  if (next_sequence_ >= max_calls && !session_) {
    return ApiError(400, kLimit, "",
                    absl::StrCat("episode ", id(), " has made ", max_calls,
                                 " calls, its limit (max_calls): it takes no more, end it"));
  }
  if (session_ && (static_cast<int>(history_.size()) >= max_calls || history_.tokens() >= limits_.max_tokens())) {
    history_ = History();
    ++epoch_;
    recorded_.clear();
  }
  in_flight_.emplace(call, std::nullopt);
  last_activity_ = now;
  return next_sequence_++;
}

void Episode::FinishCall(const std::shared_ptr<ChatCall>& call, const base::Key128& asked) {
  base::MutexLock lock(mu_);
  const auto found = in_flight_.find(call);
  if (found != in_flight_.end()) found->second = asked;  // otherwise another thread has recorded it meanwhile
}

void Episode::EndCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now) {
  base::MutexLock lock(mu_);
  in_flight_.erase(call);
  last_activity_ = now;
  changed_.SignalAll();
}

bool Episode::AnyFinishing(const std::set<base::Key128>& asked) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(),
                     [&](const auto& call) { return call.second.has_value() && asked.contains(*call.second); });
}

bool Episode::WaitForFinishing(const text::Conversation& conversation, const ConversationKeys& keys,
                               const History::Match& match) {
  std::set<base::Key128> unanswered;  // keys of the prefixes before unknown assistant messages
  for (size_t i = match.first_new; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i].role == "assistant") unanswered.insert(keys.after[i]);
  }
  if (!AnyFinishing(unanswered)) return false;
  const auto deadline = clock_.Now() + kMaxFinishingWait;
  while (AnyFinishing(unanswered)) {
    if (!clock_.WaitUntil(changed_, mu_, deadline)) break;
  }
  return true;
}

Continuation Episode::FindContinuation(const text::Conversation& sent, const EchoedIds& echoed_with_sent,
                                       const std::string& thread, const History::FindKeptPrefix& find_kept) {
  ConversationKeys keys_of_sent = ConversationKeys::Of(sent);
  keys_of_sent.thread = thread;
  base::MutexLock lock(mu_);
  Continuation found;
  std::optional<JoinedTurns> joined;
  const text::Conversation* conversation = &sent;
  const EchoedIds* echoed = &echoed_with_sent;
  ConversationKeys* keys = &keys_of_sent;
  for (bool waited = false;; waited = true) {
    joined = history_.JoinTurns(sent, keys_of_sent, echoed_with_sent);
    conversation = joined.has_value() ? &joined->conversation : &sent;
    echoed = joined.has_value() ? &joined->echoed : &echoed_with_sent;
    keys = joined.has_value() ? &joined->keys : &keys_of_sent;
    found.match = history_.Find(*conversation, *keys, *echoed, find_kept);
    if (waited || !WaitForFinishing(*conversation, *keys, found.match)) break;
  }
  found.epoch = epoch_;
  if (found.match.kept_call >= 0) found.match.parent = history_.AdoptClientTurn(*keys, found.match);
  const int parent = found.match.parent;
  found.conversation = history_.Restored(*conversation, *keys, *echoed, parent);
  found.keys = std::move(*keys);
  found.asked = AskedKey::Of(found.keys, sent.ends_begun);
  if (joined.has_value() && !found.conversation.has_value()) found.conversation = std::move(joined->conversation);
  if (parent < 0) return found;
  found.text_key = history_.text_key(parent);
  found.behind = history_.behind(parent);
  found.parent_call_id = history_.call_id(parent);
  found.parent_turn = history_.Sampled(parent);
  constexpr size_t kTurnIds = 2048;  // room for the tail of most turns, so that appending it copies nothing
  const std::vector<int32_t>& ids = history_.PathIds(parent);
  found.ids.reserve(ids.size() + kTurnIds);
  found.ids = ids;
  found.placeholders = history_.PathPlaceholders(parent);
  found.recorded_pieces = history_.RecordedPieces(parent);
  if (history_.EndsUnrecorded(parent)) found.unrecorded = history_.LastPiece(parent);
  if (trunk_calls_.contains(found.parent_call_id)) {
    for (const Piece* piece : history_.Path(parent)) found.trunk_path.push_back(piece->key);
    if (found.unrecorded.has_value()) found.trunk_path.pop_back();
  }
  return found;
}

void Episode::AddToHistory(const Continuation& continued, const std::optional<text::Message>& delivered,
                           History::Call call) {
  base::MutexLock lock(mu_);
  if (continued.epoch != epoch_) return;  // a session began a new history: the parent is forgotten
  call.parent = continued.match.parent;
  history_.Add(continued.asked, delivered, std::move(call));
}

absl::StatusOr<int64_t> Episode::TakeTokens(int64_t prompt) {
  base::MutexLock lock(mu_);
  const int64_t limit = session_ ? 0 : limits_.max_tokens();
  if (limit > 0 && tokens_ + prompt >= limit) {
    return ApiError(400, kLimit, "",
                    absl::StrCat("episode ", id(), " has used ", tokens_, " of its ", limit,
                                 " tokens (max_tokens), and this prompt has ", prompt, ": it takes no more, end it"));
  }
  tokens_ += prompt;
  return limit > 0 ? limit - tokens_ : INT64_MAX;
}

void Episode::CountRecorded(const std::string& call_id, int32_t sequence) {
  base::MutexLock lock(mu_);
  recorded_[sequence] = call_id;
}

absl::StatusOr<std::string> Episode::FindCall(const v1::CallReward& named) const {
  if (named.call_case() == v1::CallReward::kTurn) {
    const auto found = recorded_.find(named.turn());
    if (found != recorded_.end()) return found->second;
    return ApiError(404, "call_not_found", "turn",
                    absl::StrCat("episode ", id(), " has recorded no call with the number ", named.turn()));
  }
  const std::string& sent = named.call_id();
  const std::string inside = CallIdIn(sent);
  for (const auto& [sequence, call_id] : recorded_) {
    if (call_id == sent || call_id == inside || sent.ends_with("-" + call_id)) return call_id;
  }
  return ApiError(
      404, "call_not_found", "call_id",
      absl::StrCat("episode ", id(), " has recorded no call '", base::Printable(sent, {.max_bytes = 80}), "'"));
}

absl::Status Episode::CheckRoom(const v1::RewardEpisodeRequest& posted) const {
  const auto added = [](const auto& to, const auto& from) {
    return std::count_if(from.begin(), from.end(), [&](const auto& one) { return !to.contains(one.first); });
  };
  if (earned_.signals().size() + added(earned_.signals(), posted.signals()) > tree::kMaxSignals) {
    return BadRequest("signals", absl::StrCat("an episode has at most ", tree::kMaxSignals, " signals"));
  }
  google::protobuf::Map<std::string, std::string> facts = earned_.facts();
  for (const auto& [name, json] : posted.facts()) facts[name] = json;
  if (facts.size() > tree::kMaxFacts || tree::FactBytes(facts) > tree::kMaxFactBytes) {
    return BadRequest(
        "facts", absl::StrCat("an episode has at most ", tree::kMaxFacts, " facts, of at most ", tree::kMaxFactBytes,
                              " bytes in all; it would have ", facts.size(), " of ", tree::FactBytes(facts)));
  }
  // Only a session can pass this limit, since it begins new histories.
  const auto calls = earned_.call_rewards().size() + added(earned_.call_rewards(), posted.call_rewards());
  if (calls > static_cast<size_t>(limits_.max_calls())) {
    return BadRequest("calls", absl::StrCat("an episode has rewards for at most ", limits_.max_calls(),
                                            " calls, its limit (max_calls)"));
  }
  return absl::OkStatus();
}

void Episode::NoteAnswer(const absl::Status& status) {
  if (absl::IsCancelled(status)) return;
  std::string refusal;
  if (!status.ok()) {
    const std::string code = ErrorCodeOf(status);
    refusal = absl::StrCat(HttpStatusOf(status), code.empty() ? "" : " ", code, ": ",
                           base::Printable(std::string(status.message()), {.max_bytes = kMaxRefusal}));
  }
  base::MutexLock lock(mu_);
  if (state_ != State::kOpen) return;
  if (status.ok()) {
    ++answered_since_;
  } else {
    refusal_ = std::move(refusal);
    answered_since_ = 0;
  }
}

absl::StatusOr<v1::RewardEpisodeRequest> Episode::StartReward(const v1::EpisodeRewardRequest& posted,
                                                              std::chrono::nanoseconds timeout) {
  INGOT_RETURN_IF_ERROR(CheckNumbers(posted));
  INGOT_RETURN_IF_ERROR(CheckFacts(posted));
  v1::RewardEpisodeRequest started;
  started.set_episode_id(id());
  started.set_gateway_token(gateway_token());
  if (posted.has_reward()) started.set_reward(posted.reward());
  *started.mutable_signals() = posted.signals();
  *started.mutable_facts() = posted.facts();
  base::MutexLock lock(mu_);
  if (state_ == State::kOpen) INGOT_RETURN_IF_ERROR(WaitForStoring(timeout));
  if (state_ != State::kOpen) return EpisodeOver(id());
  for (const v1::CallReward& named : posted.call_rewards()) {
    INGOT_ASSIGN_OR_RETURN(const std::string call, FindCall(named));
    (*started.mutable_call_rewards())[call] = named.reward();
  }
  INGOT_RETURN_IF_ERROR(CheckRoom(started));
  storing_ = true;
  return started;
}

void Episode::FinishReward(const v1::RewardEpisodeRequest& started, bool stored) {
  base::MutexLock lock(mu_);
  if (stored) earned_.MergeFrom(started);
  storing_ = false;
  changed_.SignalAll();
}

absl::Status Episode::WaitForStoring(std::chrono::nanoseconds timeout) {
  const auto deadline = clock_.Now() + timeout;
  while (storing_) {
    if (clock_.Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("another request's reward or end of episode ", id(), " is still being stored: try again later"));
    }
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  return absl::OkStatus();
}

absl::StatusOr<Episode::End> Episode::StartEnd(const AskedEnd& asked, std::chrono::nanoseconds timeout) {
  Resumed resumed;
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(WaitForStoring(timeout));
  const bool judged = state_ == State::kOpen && asked.finish_if_judged && earned_.has_reward();
  const v1::EpisodeState state = judged ? v1::EPISODE_FINISHED : asked.state;
  const std::string detail = judged ? asked.detail + "; its reward had been posted" : asked.detail;
  if (state_ != State::kOpen && (end_.state() != state || end_detail_ != detail)) {
    return ApiError(409, "episode_over", "",
                    absl::StrCat("episode ", id(), " was ended as ", v1::EpisodeState_Name(end_.state()), " (",
                                 end_detail_, "): it cannot be ended otherwise"));
  }
  std::string refusal = refusal_;
  if (!refusal.empty() && answered_since_ > 0) {
    absl::StrAppend(&refusal, " (later requests that were answered: ", answered_since_, ")");
  }
  if (state_ == State::kEnded) return End{.already = true, .refusal = refusal, .request = {}, .in_flight = {}};
  if (state_ == State::kOpen) {
    const bool rewarded = earned_.has_reward() || !earned_.call_rewards().empty();
    if (state == v1::EPISODE_FINISHED && !rewarded && record_.purpose() != v1::PURPOSE_SERVE) {
      return ApiError(409, "no_reward", "",
                      absl::StrCat("episode ", id(), " has no reward: set one before it is ended as finished"));
    }
    state_ = State::kEnding;
    end_.set_episode_id(id());
    end_.set_gateway_token(gateway_token());
    end_.set_state(state);
    if (state == v1::EPISODE_FINISHED) {  // otherwise the pool keeps what was posted
      end_.set_reward(earned_.reward());
      *end_.mutable_signals() = earned_.signals();
      *end_.mutable_facts() = earned_.facts();
      *end_.mutable_call_rewards() = earned_.call_rewards();
    }
    end_detail_ = detail;
    end_.set_cause(judged ? "" : asked.cause);
    end_.set_detail(WithRefusal(detail, refusal));
    end_.set_ended_unix_ns(UnixNanosAt(clock_.Now()));
    resumed.requests = TakeWaiting();
    changed_.SignalAll();
  }
  storing_ = true;
  End end{.already = false, .refusal = std::move(refusal), .request = end_, .in_flight = {}};
  for (const auto& [call, asked] : in_flight_) end.in_flight.push_back(call);
  return end;
}

absl::Status Episode::WaitForCalls(std::chrono::nanoseconds timeout) {
  const auto deadline = clock_.Now() + timeout;
  base::MutexLock lock(mu_);
  while (!in_flight_.empty()) {
    if (clock_.Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(in_flight_.size(), " calls of episode ", id(), " are still being recorded: end it again later"));
    }
    clock_.WaitUntil(changed_, mu_, deadline);
  }
  return absl::OkStatus();
}

void Episode::FinishEnd(bool ok) {
  History ended;  // destroyed after the lock is released
  base::MutexLock lock(mu_);
  storing_ = false;
  changed_.SignalAll();
  if (!ok) {
    ++end_tries_;
    return;
  }
  state_ = State::kEnded;
  std::swap(ended, history_);
}

std::optional<Episode::UnfinishedEnd> Episode::unfinished_end() const {
  base::MutexLock lock(mu_);
  if (state_ != State::kEnding || storing_) return std::nullopt;
  return UnfinishedEnd{{.state = end_.state(), .detail = end_detail_, .cause = end_.cause()}, end_tries_};
}

bool Episode::past_deadline(std::chrono::nanoseconds now) const {
  return limits_.deadline_s() > 0 && std::chrono::duration<double>(now - opened_).count() > limits_.deadline_s();
}

std::chrono::nanoseconds Episode::last_activity() const {
  base::MutexLock lock(mu_);
  return last_activity_;
}

bool Episode::idle() const {
  base::MutexLock lock(mu_);
  return state_ == State::kOpen && in_flight_.empty();
}

}  // namespace ingot::gateway
