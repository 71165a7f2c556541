#include "gateway/history.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/json.h"
#include "gateway/canonical.h"

namespace ingot::gateway {
namespace {

// Length first, so that no two lists of fields print the same.
void Put(std::string& out, std::string_view field) {
  absl::StrAppend(&out, field.size(), ":");
  out += field;
}

// Of what stands before the messages: the tools and what the template is told beside them.
std::string ToolsKey(const std::vector<base::json::value>& tools, const base::json::object& variables) {
  std::string canonical = "tools";
  if (!variables.empty()) Put(canonical, base::CanonicalJson(variables));
  for (const base::json::value& tool : tools) Put(canonical, base::CanonicalJson(tool));
  return base::ContentKey(canonical);
}

std::string Chain(const std::string& before, const std::string& message) { return base::ContentKey(before + message); }

}  // namespace

ConversationKeys ConversationKeys::Of(const text::Conversation& conversation) {
  ConversationKeys keys;
  keys.after.push_back(ToolsKey(conversation.tools, conversation.template_variables));
  keys.after_no_tools.push_back(ToolsKey({}, conversation.template_variables));
  for (const text::Message& message : conversation.messages) {
    keys.message.push_back(MessageKey(message));
    keys.after.push_back(Chain(keys.after.back(), keys.message.back()));
    keys.after_no_tools.push_back(Chain(keys.after_no_tools.back(), keys.message.back()));
  }
  return keys;
}

History::Match History::Find(const text::Conversation& conversation, const ConversationKeys& keys,
                             const EchoedIds& echoed) const {
  Match match;
  if (calls_.empty()) return match;
  bool any_assistant = false;
  for (size_t i = conversation.messages.size(); i-- > 0;) {
    const text::Message& message = conversation.messages[i];
    if (message.role != "assistant") continue;
    const auto found = by_prefix_.find(keys.after[i + 1]);
    if (found != by_prefix_.end()) {
      match.parent = Choose(found->second, message, i < echoed.size() ? &echoed[i] : nullptr);
      match.first_new = i + 1;
      if (!match.fork_cause.empty()) return match;
      if (asked_.contains(keys.after.back())) {
        match.fork_cause = kForkRetry;
      } else if (calls_[match.parent].continued) {
        match.fork_cause = kForkEarlierTurn;
      }
      return match;
    }
    if (!any_assistant) match.fork_cause = ForkCause(conversation, keys, echoed, i);
    any_assistant = true;
  }
  if (!any_assistant) match.fork_cause = asked_.contains(keys.after.back()) ? kForkRetry : kForkNewConversation;
  return match;
}

std::optional<text::Conversation> History::WithReasoning(const text::Conversation& conversation,
                                                         const ConversationKeys& keys) const {
  std::optional<text::Conversation> restored;
  if (!any_reasoning_) return restored;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const text::Message& message = conversation.messages[i];
    if (message.role != "assistant" || !message.reasoning.empty()) continue;
    const auto found = by_message_.find(keys.message[i]);
    if (found == by_message_.end()) continue;
    const std::string& reasoning = calls_[Choose(found->second, message, nullptr)].delivered.reasoning;
    if (reasoning.empty()) continue;
    if (!restored.has_value()) restored = conversation;
    restored->messages[i].reasoning = reasoning;
  }
  return restored;
}

// Whether `message` bears an id of what `call` delivered.
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

int History::Choose(const std::vector<int>& candidates, const text::Message& message,
                    const std::vector<std::string>* ids) const {
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    if (Names(*candidate, message, ids)) return *candidate;
  }
  return candidates.back();  // equal content, no id to tell them apart: the latest
}

std::string History::ForkCause(const text::Conversation& conversation, const ConversationKeys& keys,
                               const EchoedIds& echoed, size_t index) const {
  if (prefixes_no_tools_.contains(keys.after_no_tools[index + 1])) return kForkToolsChanged;
  if (by_message_.contains(keys.message[index])) return kForkHistoryRewritten;
  const text::Message& message = conversation.messages[index];
  const std::vector<std::string>* ids = index < echoed.size() ? &echoed[index] : nullptr;
  for (size_t i = calls_.size(); i-- > 0;) {
    if (!Names(static_cast<int>(i), message, ids)) continue;
    const auto& ours = calls_[i].delivered.tool_calls;
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

int History::Add(const AskedKey& asked, const text::Message& delivered, std::string call_id, int parent,
                 std::vector<Piece> prompt, std::vector<Piece> sampled) {
  const int index = static_cast<int>(calls_.size());
  Entry entry{std::move(call_id), parent, std::move(prompt), 0, delivered, false};
  entry.first_sampled = entry.pieces.size();
  for (Piece& piece : sampled) entry.pieces.push_back(std::move(piece));
  calls_.push_back(std::move(entry));
  if (parent >= 0) calls_[parent].continued = true;
  any_reasoning_ = any_reasoning_ || !delivered.reasoning.empty();
  const std::string key = MessageKey(delivered);
  by_prefix_[Chain(asked.key, key)].push_back(index);
  asked_.insert(asked.key);
  prefixes_no_tools_.insert(Chain(asked.no_tools, key));
  by_message_[key].push_back(index);
  return index;
}

std::vector<const Piece*> History::Path(int call) const {
  std::vector<const Piece*> path;
  for (; call >= 0; call = calls_[call].parent) {
    const auto& pieces = calls_[call].pieces;
    for (size_t i = pieces.size(); i-- > 0;) path.push_back(&pieces[i]);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<int32_t> History::Sampled(int call) const {
  std::vector<int32_t> ids;
  const Entry& entry = calls_[call];
  for (size_t i = entry.first_sampled; i < entry.pieces.size(); ++i) {
    const auto& segment = entry.pieces[i].segment->token_ids();
    ids.insert(ids.end(), segment.begin(), segment.end());
  }
  return ids;
}

}  // namespace ingot::gateway
