#include "gateway/episodes/episode.h"

#include <utility>

#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_limits.h"
#include "gateway/episodes/remembered_ends.h"

namespace ingot::gateway {
namespace {

// The time to wait for the record of a call that a request may continue: enough for a few pool writes.
constexpr std::chrono::milliseconds kMaxFinishingWait(500);

}  // namespace

absl::Status EpisodeElsewhere(const std::string& episode_id, const std::string& where) {
  return ApiError(503, "episode_elsewhere", "",
                  absl::StrCat("episode ", episode_id, " is served by ", where.empty() ? "another gateway" : where,
                               ": send the request again"));
}

absl::Status EpisodeOver(const std::string& episode_id, const std::string& why) {
  return ApiError(410, "episode_over", "",
                  absl::StrCat("episode ", episode_id, " has ended", why.empty() ? "" : ": ", why,
                               why.empty() ? ": " : "; ", "open a new one"));
}

absl::Status EpisodeSealed(const std::string& episode_id) {
  return ApiError(409, "episode_sealed", "",
                  absl::StrCat("episode ", episode_id, " was ended while this call was in flight"));
}

Episode::Episode(v1::Episode record, v1::EpisodeLimits limits, bool admitted, bool session,
                 std::optional<EarlierCalls> earlier, std::chrono::nanoseconds opened, const base::Clock& clock,
                 int32_t failed_attempts)
    : record_(std::move(record)),
      limits_(std::move(limits)),
      admitted_(admitted),
      session_(session),
      failed_attempts_(failed_attempts),
      clock_(clock),
      opened_(opened),
      gate_(limits_.fork_at()),
      last_activity_(opened),
      tokens_(session ? 0 : limits_.max_tokens(), earlier.has_value() ? earlier->tokens : 0) {
  if (!earlier.has_value()) return;
  version_ = earlier->version;
  base::MutexLock lock(mu_);
  history_ = std::move(earlier->history);
  trunk_calls_ = std::move(earlier->trunk_calls);
  called_ = earlier->numbers.next > earlier->numbers.first;
  numbers_ = CallNumbers(std::move(earlier->numbers));
  earned_ = EarnedRewards(record_);
  last_activity_ = clock.Now();
}

absl::StatusOr<int32_t> Episode::BeginCall(const std::shared_ptr<ChatCall>& call, std::chrono::nanoseconds now) {
  base::MutexLock lock(mu_);
  if (state_ != State::kOpen) return Over();
  const int max_calls = limits_.max_calls();
  if (numbers_.made() >= max_calls && !session_) {
    return ApiError(400, kEpisodeLimit, "",
                    absl::StrCat("episode ", id(), " has made ", max_calls,
                                 " calls, its limit (max_calls): it accepts no more calls, so end it"));
  }
  if (session_ && (static_cast<int>(history_.size()) >= max_calls || history_.tokens() >= limits_.max_tokens())) {
    history_ = History();
    ++epoch_;
    numbers_.ForgetEarlier();
  }
  in_flight_.Add(call);
  called_ = true;
  last_activity_ = now;
  return numbers_.Begin();
}

void Episode::FinishCall(const std::shared_ptr<ChatCall>& call, const base::Key128& asked) {
  base::MutexLock lock(mu_);
  in_flight_.Finish(call, asked);
}

void Episode::EndCall(const std::shared_ptr<ChatCall>& call, int32_t sequence, Unrecorded left,
                      std::chrono::nanoseconds now) {
  ResumedRequests resumed;
  base::MutexLock lock(mu_);
  in_flight_.Remove(call);
  last_activity_ = now;
  changed_.SignalAll();
  if (!numbers_.End(sequence, std::move(left))) return;
  resumed.requests = TakeWaiting();  // a trunk may be back before its fork
}

std::vector<v1::AppendCallRequest> Episode::LostAppends() const {
  base::MutexLock lock(mu_);
  return numbers_.LostAppends();
}

void Episode::SettleAppend(const v1::Call& call, const absl::Status& answer) {
  base::MutexLock lock(mu_);
  numbers_.Settle(call, answer);
}

bool Episode::HasUnknownCalls() const {
  base::MutexLock lock(mu_);
  return numbers_.HasUnknown();
}

void Episode::NoteCalls(const v1::EpisodeTree& stored) {
  base::MutexLock lock(mu_);
  numbers_.Note(stored);
}

bool Episode::WaitForFinishing(const text::Conversation& conversation, const ConversationKeys& keys,
                               const History::Match& match) {
  std::set<base::Key128> unanswered;  // keys of the prefixes before unknown assistant messages
  for (size_t i = match.first_new; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i].role == "assistant") unanswered.insert(keys.after[i]);
  }
  if (!in_flight_.AnyFinishing(unanswered)) return false;
  const auto deadline = clock_.Now() + kMaxFinishingWait;
  while (in_flight_.AnyFinishing(unanswered)) {
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
  found.asked = RequestKey::Of(found.keys, sent.ends_begun);
  if (joined.has_value() && !found.conversation.has_value()) found.conversation = std::move(joined->conversation);
  if (parent < 0) return found;
  found.text_key = history_.text_key(parent);
  found.following = history_.following(parent);
  found.parent_call_id = history_.call_id(parent);
  found.parent_turn = history_.Sampled(parent);
  constexpr size_t kTurnIds = 2048;  // enough capacity for most turns' tails, so appending one does not copy
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
  if (continued.epoch != epoch_) return;  // a session began a new history and forgot the parent
  call.parent = continued.match.parent;
  history_.Add(continued.asked, delivered, std::move(call));
}

void Episode::CountRecorded(const std::string& call_id, int32_t sequence) {
  base::MutexLock lock(mu_);
  numbers_.CountRecorded(call_id, sequence);
}

std::optional<double> Episode::PassedDeadline(std::chrono::nanoseconds now) const {
  const double deadline_s = limits_.deadline_s();
  const bool passed = deadline_s > 0 && std::chrono::duration<double>(now - opened_).count() > deadline_s;
  return passed ? std::optional(deadline_s) : std::nullopt;
}

std::optional<std::chrono::nanoseconds> Episode::idle_since() const {
  base::MutexLock lock(mu_);
  return state_ == State::kOpen && in_flight_.empty() ? std::optional(last_activity_) : std::nullopt;
}

std::optional<std::chrono::nanoseconds> Episode::uncalled_since() const {
  if (session_ || !record_.runner().empty()) return std::nullopt;
  base::MutexLock lock(mu_);
  return state_ == State::kOpen && !called_ ? std::optional(opened_) : std::nullopt;
}

absl::Status Episode::Over() const { return EpisodeOver(id(), VisibleDetail(end_.cause(), end_detail_)); }

}  // namespace ingot::gateway
