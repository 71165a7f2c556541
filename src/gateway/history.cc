#include "gateway/history.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/json.h"

namespace ingot::gateway {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Length first, so that no two lists of fields print the same.
void Put(std::string& out, std::string_view field) {
  absl::StrAppend(&out, field.size(), ":");
  out += field;
}

std::string CanonicalArguments(const std::string& arguments) {
  auto json = base::ParseJson(arguments);
  if (!json.ok()) return arguments;
  // Some clients send back the string that was inside the string.
  return base::CanonicalJson(*json);
}

std::string MessageKey(const text::Message& message) {
  std::string canonical;
  Put(canonical, message.role);
  Put(canonical, message.role == "assistant" ? Trim(message.content) : std::string_view(message.content));
  Put(canonical, message.name);
  for (const text::ToolCall& call : message.tool_calls) {
    Put(canonical, call.name);
    Put(canonical, CanonicalArguments(call.arguments_json));
  }
  return base::ContentKey(canonical);
}

std::string ToolsKey(const std::vector<base::json::value>& tools) {
  std::string canonical = "tools";
  for (const base::json::value& tool : tools) Put(canonical, base::CanonicalJson(tool));
  return base::ContentKey(canonical);
}

std::string Chain(const std::string& before, const std::string& message) { return base::ContentKey(before + message); }

}  // namespace

ConversationKeys ConversationKeys::Of(const text::Conversation& conversation) {
  ConversationKeys keys;
  keys.after.push_back(ToolsKey(conversation.tools));
  keys.after_no_tools.push_back(ToolsKey({}));
  for (const text::Message& message : conversation.messages) {
    keys.message.push_back(MessageKey(message));
    keys.after.push_back(Chain(keys.after.back(), keys.message.back()));
    keys.after_no_tools.push_back(Chain(keys.after_no_tools.back(), keys.message.back()));
  }
  return keys;
}

History::Match History::Find(const text::Conversation& conversation, const ConversationKeys& keys) const {
  Match match;
  if (calls_.empty()) return match;
  bool any_assistant = false;
  for (size_t i = conversation.messages.size(); i-- > 0;) {
    const text::Message& message = conversation.messages[i];
    if (message.role != "assistant") continue;
    const auto found = by_prefix_.find(keys.after[i + 1]);
    if (found != by_prefix_.end()) {
      match.parent = Choose(found->second, message);
      match.first_new = i + 1;
      return match;
    }
    if (!any_assistant) match.fork_cause = ForkCause(conversation, keys, i);
    any_assistant = true;
  }
  if (!any_assistant) match.fork_cause = kForkNewConversation;
  return match;
}

int History::Choose(const std::vector<int>& candidates, const text::Message& echoed) const {
  for (const text::ToolCall& call : echoed.tool_calls) {
    if (call.id.empty()) continue;
    for (int candidate : candidates) {
      const auto& ids = calls_[candidate].tool_call_ids;
      if (std::find(ids.begin(), ids.end(), call.id) != ids.end()) return candidate;
    }
  }
  return candidates.back();  // equal content, no id to tell them apart: the latest
}

std::string History::ForkCause(const text::Conversation& conversation, const ConversationKeys& keys,
                               size_t index) const {
  if (prefixes_no_tools_.contains(keys.after_no_tools[index + 1])) return kForkToolsChanged;
  if (delivered_.contains(keys.message[index])) return kForkHistoryRewritten;
  for (const text::ToolCall& call : conversation.messages[index].tool_calls) {
    if (tool_call_ids_.contains(call.id)) return kForkAssistantRewritten;
  }
  return kForkNotFound;
}

int History::Add(const ConversationKeys& asked, const text::Message& delivered, std::string call_id, int parent,
                 std::vector<Piece> prompt, std::vector<Piece> sampled) {
  const int index = static_cast<int>(calls_.size());
  Entry entry{std::move(call_id), parent, std::move(prompt), 0, {}};
  entry.first_sampled = entry.pieces.size();
  for (Piece& piece : sampled) entry.pieces.push_back(std::move(piece));
  for (const text::ToolCall& call : delivered.tool_calls) {
    entry.tool_call_ids.push_back(call.id);
    tool_call_ids_.insert(call.id);
  }
  calls_.push_back(std::move(entry));
  const std::string key = MessageKey(delivered);
  by_prefix_[Chain(asked.after.back(), key)].push_back(index);
  prefixes_no_tools_.insert(Chain(asked.after_no_tools.back(), key));
  delivered_.insert(key);
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
