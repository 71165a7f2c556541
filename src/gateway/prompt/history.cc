#include "gateway/prompt/history.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/json.h"
#include "gateway/prompt/canonical.h"
#include "gateway/prompt/generation.h"

namespace ingot::gateway {
namespace {

// Writes the length first, so different field lists never print the same.
void Put(std::string& out, std::string_view field) {
  absl::StrAppend(&out, field.size(), ":");
  out += field;
}

// Returns the key for the tools and template variables, which precede the messages.
base::Key128 PreambleKey(const std::vector<base::json::value>& tools, const base::json::object& variables) {
  std::string text = "tools";
  if (!variables.empty()) Put(text, base::CanonicalJson(variables));
  for (const base::json::value& tool : tools) Put(text, base::CanonicalJson(tool));
  return base::ContentKey128(text);
}

}  // namespace

base::Key128 Chain(const base::Key128& prefix, const base::Key128& message) {
  char both[2 * sizeof(base::Key128)];
  std::copy(prefix.begin(), prefix.end(), both);
  std::copy(message.begin(), message.end(), both + prefix.size());
  return base::ContentKey128({both, sizeof(both)});
}

ReasoningKeys ReasoningOf(const text::Conversation& conversation, size_t first) {
  ReasoningKeys keys;
  for (size_t i = first; i < conversation.messages.size(); ++i) {
    std::string key = ReasoningKey(conversation.messages[i].reasoning);
    if (!key.empty()) keys[i] = std::move(key);
  }
  return keys;
}

text::Message ContinuedMessage(text::Message begun, text::Message more) {
  begun.content += more.content;
  begun.reasoning += more.reasoning;
  begun.tool_calls = std::move(more.tool_calls);
  return begun;
}

ConversationKeys ConversationKeys::Of(const text::Conversation& conversation) {
  const std::vector<text::Message>& messages = conversation.messages;
  ConversationKeys keys;
  keys.after.reserve(messages.size() + 1);
  keys.after_no_tools.reserve(messages.size() + 1);
  keys.message.reserve(messages.size());
  keys.after.push_back(PreambleKey(conversation.tools, conversation.template_variables));
  keys.after_no_tools.push_back(conversation.tools.empty() ? keys.after.back()
                                                           : PreambleKey({}, conversation.template_variables));
  for (size_t i = 0; i < messages.size(); ++i) {
    keys.message.push_back(MessageKey(messages[i]));
    keys.after.push_back(Chain(keys.after.back(), keys.message.back()));
    keys.after_no_tools.push_back(Chain(keys.after_no_tools.back(), keys.message.back()));
    if (keys.first_reasoned == i && TrimmedSize(messages[i].reasoning) == 0) ++keys.first_reasoned;
  }
  return keys;
}

History::Match History::Find(const text::Conversation& conversation, const ConversationKeys& keys,
                             const EchoedIds& echoed, const FindKeptPrefix& find_kept) const {
  Match match;
  if (calls_.empty()) return match;
  bool any_assistant = false;
  for (size_t i = conversation.messages.size(); i-- > 0;) {
    if (conversation.messages[i].role != "assistant") continue;
    const auto found = by_prefix_.find(keys.after[i + 1]);
    const int chosen = found == by_prefix_.end() ? -1 : Choose(found->second, conversation, keys, i, echoed);
    const bool begun = conversation.ends_begun && i + 1 == conversation.messages.size();
    if (chosen >= 0 && begun) {
      Match open = MatchBegun(conversation, chosen, find_kept);
      if (open.parent >= 0 || open.kept_call >= 0) return open;
    } else if (chosen >= 0) {
      match.parent = chosen;
      match.first_new = i + 1;
      if (!match.fork_cause.empty()) return match;
      if (WasAsked(keys)) {
        match.fork_cause = kForkRetry;
      } else if (calls_[match.parent].continued) {
        match.fork_cause = kForkEarlierTurn;
      }
      return match;
    }
    if (find_kept != nullptr) {
      Match kept = MatchKeptPrefix(conversation, keys, i, echoed, find_kept);
      if (kept.kept_call >= 0) {
        if (WasAsked(keys)) kept.fork_cause = kForkRetry;
        if (!match.fork_cause.empty()) kept.fork_cause = match.fork_cause;
        return kept;
      }
    }
    if (Match grown = MatchAfter(conversation, keys, i, echoed); grown.kept_call >= 0) {
      if (WasAsked(keys)) {
        grown.fork_cause = kForkRetry;
      } else if (calls_[grown.kept_call].continued) {
        grown.fork_cause = kForkEarlierTurn;
      }
      if (!match.fork_cause.empty()) grown.fork_cause = match.fork_cause;
      return grown;
    }
    if (!any_assistant) {
      match.fork_cause = found == by_prefix_.end() ? ForkCause(conversation, keys, echoed, i) : kForkContentChanged;
    }
    any_assistant = true;
  }
  if (!any_assistant) match.fork_cause = WasAsked(keys) ? kForkRetry : kForkNewConversation;
  return match;
}

History::Match History::MatchBegun(const text::Conversation& conversation, int call,
                                   const FindKeptPrefix& find_kept) const {
  const Entry& entry = calls_[call];
  const size_t message = conversation.messages.size() - 1;
  Match match;
  match.begun = true;
  match.first_new = message + 1;
  if (entry.continued) match.fork_cause = kForkEarlierTurn;
  const std::vector<int32_t> ids = Sampled(call);
  const size_t text_ids = entry.ending.text_ids;
  if (entry.ending.stop.empty() && text_ids == ids.size() && text_ids > 0) {
    match.parent = call;
  } else if (find_kept != nullptr) {
    const text::Message* begun = entry.begun.has_value() ? &*entry.begun : nullptr;
    match.kept = find_kept(conversation, message, {std::span(ids.data(), text_ids), entry.prefill, begun});
    if (match.kept.ids > 0) match.kept_call = call;
  }
  return match;
}

History::Match History::MatchKeptPrefix(const text::Conversation& conversation, const ConversationKeys& keys,
                                        size_t message, const EchoedIds& echoed,
                                        const FindKeptPrefix& find_kept) const {
  Match match;
  const auto found = streamed_.find(keys.after[message]);
  if (found == streamed_.end()) return match;
  const text::Message& sent = conversation.messages[message];
  for (const int call : Ordered(found->second, sent, EchoedOf(echoed, message), keys.thread)) {
    if (!SameReasoningBefore(message, conversation, keys, call)) continue;
    const Entry& entry = calls_[call];
    const std::vector<int32_t> ids = Sampled(call);
    const text::Message* begun = entry.begun.has_value() ? &*entry.begun : nullptr;
    KeptPrefix kept =
        find_kept(conversation, message, {std::span(ids.data(), entry.streamed_ids), entry.prefill, begun});
    if (kept.ids == 0) continue;
    match.kept_call = call;
    match.first_new = message + 1;
    match.kept = std::move(kept);
    return match;
  }
  return match;
}

text::Message History::Echoed(int call) const {
  const Entry& entry = calls_[call];
  text::Message message = entry.delivered;
  const size_t known = std::min(message.tool_calls.size(), entry.echoed_arguments.size());
  for (size_t i = 0; i < known; ++i) message.tool_calls[i].arguments_json = entry.echoed_arguments[i];
  return message;
}

bool History::Names(int call, const text::Message& message, const std::vector<std::string>* ids) const {
  const Entry& entry = calls_[call];
  for (const text::ToolCall& sent : message.tool_calls) {
    if (sent.id.empty()) continue;
    for (const text::ToolCall& ours : entry.delivered.tool_calls) {
      if (sent.id == ours.id) return true;
    }
  }
  if (ids == nullptr || entry.call_id.empty()) return false;
  return std::any_of(ids->begin(), ids->end(),
                     [&](const std::string& id) { return id.find(entry.call_id) != std::string::npos; });
}

int History::NamedElsewhere(const text::Message& message, const base::Key128& key,
                            const std::vector<std::string>* ids) const {
  const auto found = by_message_.find(key);
  if (found == by_message_.end()) return -1;
  const auto names = [&](int call) { return Names(call, message, ids); };
  const auto named = std::find_if(found->second.rbegin(), found->second.rend(), names);
  return named == found->second.rend() ? -1 : *named;
}

size_t History::AnswerOf(int call, const ConversationKeys& keys, size_t end) const {
  for (size_t message = end; message-- > 0;) {
    // keys.after[i] is the key for the prefix that message i answers.
    if (keys.after[message] == calls_[call].asked) return message;
  }
  return end;
}

bool History::SameReasoningBefore(size_t message, const text::Conversation& conversation, const ConversationKeys& keys,
                                  int call) const {
  while (message > keys.first_reasoned) {
    const Entry& entry = calls_[call];
    const size_t answered = entry.turn_before < 0 ? message : AnswerOf(entry.turn_before, keys, message);
    const bool is_first = answered == message;
    for (size_t i = is_first ? 0 : answered + 1; entry.asked_reasoning.has_value() && i < message; ++i) {
      const auto held = entry.asked_reasoning->find(i);
      if (!SameReasoning(conversation.messages[i].reasoning,
                         held == entry.asked_reasoning->end() ? std::string_view() : held->second)) {
        return false;
      }
    }
    if (is_first) return true;
    call = entry.turn_before;
    message = answered;
    if (!SameReasoning(conversation.messages[message].reasoning, calls_[call].delivered_reasoning)) return false;
  }
  return true;
}

int History::Choose(const std::vector<int>& candidates, const text::Conversation& conversation,
                    const ConversationKeys& keys, size_t message, const EchoedIds& echoed) const {
  const text::Message& sent = conversation.messages[message];
  const auto said = [&](int call) {
    // A client in another thread changed that answer. This thread's client may have made the same change.
    if (calls_[call].adopted_from >= 0 && calls_[call].thread != keys.thread) return false;
    return SameReasoning(sent.reasoning, calls_[call].delivered_reasoning) &&
           SameReasoningBefore(message, conversation, keys, call);
  };
  const std::vector<int> ordered = Ordered(candidates, sent, EchoedOf(echoed, message), keys.thread);
  const auto first = std::find_if(ordered.begin(), ordered.end(), said);
  return first == ordered.end() ? -1 : *first;
}

std::vector<int> History::Ordered(const std::vector<int>& calls, const text::Message& message,
                                  const std::vector<std::string>* ids, const std::string& thread) const {
  std::vector<int> ordered(calls.rbegin(), calls.rend());
  if (ordered.size() == 1) return ordered;
  const auto others =
      std::stable_partition(ordered.begin(), ordered.end(), [&](int call) { return Names(call, message, ids); });
  std::stable_partition(others, ordered.end(), [&](int call) { return calls_[call].thread == thread; });
  return ordered;
}

bool History::WasAsked(const ConversationKeys& keys) const {
  return asked_by_.contains(Chain(keys.after.back(), base::ContentKey128(keys.thread)));
}

std::string History::ForkCause(const text::Conversation& conversation, const ConversationKeys& keys,
                               const EchoedIds& echoed, size_t index) const {
  if (prefixes_no_tools_.contains(keys.after_no_tools[index + 1])) return kForkToolsChanged;
  if (by_message_.contains(keys.message[index])) return kForkHistoryRewritten;
  if (const auto streamed = streamed_.find(keys.after[index]); streamed != streamed_.end()) {
    const auto broke_off = [this](int call) { return calls_[call].broken_off; };
    if (std::any_of(streamed->second.begin(), streamed->second.end(), broke_off)) return kForkBrokenOff;
  }
  const text::Message& message = conversation.messages[index];
  const std::vector<std::string>* ids = EchoedOf(echoed, index);
  for (size_t i = calls_.size(); i-- > 0;) {
    if (!Names(static_cast<int>(i), message, ids)) continue;
    const std::vector<text::ToolCall> ours = Echoed(static_cast<int>(i)).tool_calls;
    if (ours.size() != message.tool_calls.size()) return kForkContentChanged;
    for (size_t call = 0; call < ours.size(); ++call) {
      if (ours[call].name != message.tool_calls[call].name) return kForkCallRenamed;
    }
    for (size_t call = 0; call < ours.size(); ++call) {
      if (CanonicalArguments(ours[call].arguments_json) !=
          CanonicalArguments(message.tool_calls[call].arguments_json)) {
        return kForkArgumentsChanged;
      }
    }
    return kForkContentChanged;
  }
  return kForkNotFound;
}

void History::Index(const RequestKey& asked, int call) {
  const text::Message& delivered = calls_[call].delivered;
  calls_[call].delivered_reasoning = ReasoningKey(delivered.reasoning);
  any_reasoning_ = any_reasoning_ || !delivered.reasoning.empty();
  for (const text::ToolCall& written : delivered.tool_calls) {
    if (!written.written_id.empty()) written_ids_[written.id] = written.written_id;
  }
  const base::Key128 key = MessageKey(Echoed(call));
  by_prefix_[Chain(asked.key, key)].push_back(call);
  prefixes_no_tools_.insert(Chain(asked.no_tools, key));
  by_message_[key].push_back(call);
}

int History::Add(const RequestKey& asked, const std::optional<text::Message>& delivered, Call call) {
  const int index = static_cast<int>(calls_.size());
  const bool streamed = call.streamed_ids > 0 && !call.sampled.empty();
  Entry entry;
  entry.call_id = std::move(call.call_id);
  entry.parent = entry.turn_before = call.parent;
  entry.refs = std::move(call.prompt);
  entry.first_sampled = entry.refs.size();
  for (SegmentRef& ref : call.sampled) entry.refs.push_back(std::move(ref));
  for (const SegmentRef& ref : entry.refs) tokens_ += ref.segment->token_ids_size();
  entry.text_key = std::move(call.text_key);
  entry.prefill = std::move(call.prefill);
  entry.asked = asked.key;
  entry.asked_reasoning = std::move(call.reasoning);
  if (call.parent >= 0 && calls_[call.parent].asked == asked.key) {  // it continues its parent's answer
    entry.turn_before = calls_[call.parent].turn_before;
    entry.asked_reasoning = calls_[call.parent].asked_reasoning;
  }
  entry.begun = std::move(call.begun);
  entry.thread = call.thread;
  entry.echoed_arguments = std::move(call.echoed_arguments);
  entry.streamed_ids = call.streamed_ids;
  entry.broken_off = !delivered.has_value();
  if (delivered.has_value()) entry.delivered = *delivered;
  if (delivered.has_value()) entry.ending = std::move(call.ending);
  const bool stoppable = !entry.ending.stops.empty() && !call.sampled.empty() && entry.delivered.tool_calls.empty();
  calls_.push_back(std::move(entry));
  for (int parent = call.parent; parent >= 0; parent = calls_[parent].adopted_from) calls_[parent].continued = true;
  asked_.insert(asked.key);
  asked_by_.insert(Chain(asked.key, base::ContentKey128(call.thread)));
  if (streamed) streamed_[asked.key].push_back(index);
  if (stoppable) stoppable_[asked.key].push_back(index);
  if (delivered.has_value()) Index(asked, index);
  return index;
}

int History::AdoptClientTurn(const ConversationKeys& asked, const Match& match) {
  const int index = static_cast<int>(calls_.size());
  Entry entry = calls_[match.kept_call];
  size_t last = entry.first_sampled, kept = match.kept.ids;  // the segment with the last kept id, and kept ids in it
  for (; kept > entry.refs[last].size() && last + 1 < entry.refs.size(); ++last) kept -= entry.refs[last].size();
  entry.refs.resize(last + 1);
  SegmentRef& sampled = entry.refs.back();
  entry.unrecorded = kept < sampled.size();
  if (entry.unrecorded) {
    sampled = MakeSegmentRef(PartOf(*sampled.segment, 0, static_cast<int>(kept)));
    tokens_ += sampled.segment->token_ids_size();
  }
  entry.delivered = match.kept.message;
  entry.broken_off = entry.continued = false;
  entry.ending = {};
  entry.following = match.following;
  entry.adopted_from = match.kept_call;
  entry.thread = asked.thread;
  ++adopted_;
  calls_.push_back(std::move(entry));
  if (match.begun) return index;  // the kept call has its answer
  Index({asked.after[match.first_new - 1], asked.after_no_tools[match.first_new - 1]}, index);
  // The client's version of the message may have less whitespace.
  std::vector<int>& here = by_prefix_[asked.after[match.first_new]];
  if (here.empty() || here.back() != index) here.push_back(index);
  return index;
}

std::vector<const SegmentRef*> History::Path(int call) const {
  std::vector<const SegmentRef*> path;
  for (; call >= 0; call = calls_[call].parent) {
    const auto& refs = calls_[call].refs;
    for (size_t i = refs.size(); i-- > 0;) path.push_back(&refs[i]);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

const std::vector<int32_t>& History::PathIds(int asked) {
  std::vector<const SegmentRef*> following;  // after the cached path, in reverse order
  int call = asked;
  for (; call >= 0 && call != path_call_; call = calls_[call].parent) {
    const auto& refs = calls_[call].refs;
    for (size_t i = refs.size(); i-- > 0;) following.push_back(&refs[i]);
  }
  if (call < 0) path_ids_.clear();
  for (size_t i = following.size(); i-- > 0;) {
    const auto& ids = following[i]->segment->token_ids();
    path_ids_.insert(path_ids_.end(), ids.data(), ids.data() + ids.size());
  }
  path_call_ = asked;
  return path_ids_;
}

std::vector<v1::Placeholders> History::PathPlaceholders(int call) const {
  std::vector<v1::Placeholders> all;
  int32_t before = 0;
  for (const SegmentRef* ref : Path(call)) {
    for (v1::Placeholders run : ref->segment->placeholders()) {
      run.set_first(before + run.first());
      all.push_back(std::move(run));
    }
    before += ref->segment->token_ids_size();
  }
  return all;
}

std::vector<int32_t> History::Sampled(int call) const {
  std::vector<int32_t> ids;
  const Entry& entry = calls_[call];
  for (size_t i = entry.first_sampled; i < entry.refs.size(); ++i) {
    const auto& segment = entry.refs[i].segment->token_ids();
    ids.insert(ids.end(), segment.begin(), segment.end());
  }
  return ids;
}

}  // namespace ingot::gateway
