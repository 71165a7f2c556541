#include "gateway/episodes/episode.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gateway/api/api_error.h"

namespace ingot::gateway {
namespace {

// The longest wait for the record of a call that a request may continue: a few writes of the pool.
constexpr std::chrono::milliseconds kMaxFinishingWait(500);
constexpr char kLimit[] = "episode_limit";  // sent with 400: clients repeat a 409 or 429

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
  first_turn_ = recorded.first_turn;
  unrecorded_ = recorded.unrecorded;
  reward_number_ = record_.reward_number();
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
  if (CallsMade() >= max_calls && !session_) {
    return ApiError(400, kLimit, "",
                    absl::StrCat("episode ", id(), " has made ", max_calls,
                                 " calls, its limit (max_calls): it takes no more, end it"));
  }
  if (session_ && (static_cast<int>(history_.size()) >= max_calls || history_.tokens() >= limits_.max_tokens())) {
    history_ = History();
    ++epoch_;
    // The places of the calls after one in flight depend on whether it is recorded: they are kept.
    const int32_t kept = pending_.empty() ? next_sequence_ : *pending_.begin();
    const auto forget = [kept](auto& calls) {
      const auto end = calls.lower_bound(kept);
      const auto count = static_cast<int32_t>(std::distance(calls.begin(), end));
      calls.erase(calls.begin(), end);
      return count;
    };
    first_turn_ += forget(recorded_) + forget(used_);
    lost_.clear();
  }
  in_flight_.emplace(call, std::nullopt);
  last_activity_ = now;
  pending_.insert(next_sequence_);
  return next_sequence_++;
}

void Episode::FinishCall(const std::shared_ptr<ChatCall>& call, const base::Key128& asked) {
  base::MutexLock lock(mu_);
  const auto found = in_flight_.find(call);
  if (found != in_flight_.end()) found->second = asked;  // otherwise another thread has recorded it meanwhile
}

void Episode::EndCall(const std::shared_ptr<ChatCall>& call, int32_t sequence, Unrecorded left,
                      std::chrono::nanoseconds now) {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  in_flight_.erase(call);
  last_activity_ = now;
  changed_.SignalAll();
  if (pending_.erase(sequence) == 0) return;  // it was recorded
  if (left.used) {
    used_.insert(sequence);
    lost_.erase(sequence);
  } else {
    ++unrecorded_;
    returned_.insert(sequence);
    if (left.lost.has_value()) lost_.insert_or_assign(sequence, *std::move(left.lost));
  }
  for (; returned_.erase(next_sequence_ - 1) > 0; --next_sequence_) --unrecorded_;
  resumed.requests = TakeWaiting();  // a trunk may be before its fork again
}

std::vector<v1::AppendCallRequest> Episode::LostAppends() const {
  base::MutexLock lock(mu_);
  std::vector<v1::AppendCallRequest> unsettled;
  for (const auto& [sequence, append] : lost_) {
    if (IsUnsettled(sequence)) unsettled.push_back(append);
  }
  return unsettled;
}

void Episode::TakeNumber(int32_t sequence) {
  // It may have become the next number since the append was sent again.
  for (; next_sequence_ <= sequence; ++next_sequence_, ++unrecorded_) returned_.insert(next_sequence_);
  returned_.erase(sequence);
  --unrecorded_;
}

void Episode::SettleAppend(const v1::Call& call, const absl::Status& answer) {
  base::MutexLock lock(mu_);
  const int32_t sequence = call.sequence();
  const auto lost = lost_.find(sequence);
  if (lost == lost_.end() || lost->second.call().call_id() != call.call_id()) return;  // settled meanwhile
  if (pending_.contains(sequence)) return;  // the call that has the number now settles it
  lost_.erase(lost);
  if (!answer.ok() && !absl::IsAlreadyExists(answer)) return;
  TakeNumber(sequence);
  if (answer.ok()) {
    recorded_[sequence] = call.call_id();
  } else {
    used_.insert(sequence);
  }
}

bool Episode::HasUnknownCalls() const {
  base::MutexLock lock(mu_);
  return !used_.empty();
}

void Episode::NoteCalls(const v1::EpisodeTree& stored) {
  base::MutexLock lock(mu_);
  for (const v1::Call& call : stored.calls()) {
    if (used_.erase(call.sequence()) > 0) recorded_[call.sequence()] = call.call_id();
  }
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
  found.following = history_.following(parent);
  found.parent_call_id = history_.call_id(parent);
  found.parent_turn = history_.Sampled(parent);
  constexpr size_t kTurnIds = 2048;  // capacity for the tail of most turns, so that appending it copies nothing
  const std::vector<int32_t>& ids = history_.PathIds(parent);
  found.ids.reserve(ids.size() + kTurnIds);
  found.ids = ids;
  found.placeholders = history_.PathPlaceholders(parent);
  found.recorded_segments = history_.RecordedSegments(parent);
  if (history_.EndsUnrecorded(parent)) found.unrecorded = history_.LastSegment(parent);
  if (trunk_calls_.contains(found.parent_call_id)) {
    for (const SegmentRef* ref : history_.Path(parent)) found.trunk_path.push_back(ref->key);
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
  pending_.erase(sequence);
  lost_.erase(sequence);
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
